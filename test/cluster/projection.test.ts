import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createObjectPool, createProjections } from '../../src/cluster/projection.ts';
import { getControllerPod } from '../../src/kube/controller-pod.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import type { JsonObject, Pod, RoleBinding } from '../../src/kube/types.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import { assignScc } from '../../src/policy/scc/assign.ts';
import { pods, versions } from '../policy/pss/arbitrary.ts';
import { create } from '../policy/scc/arbitrary.ts';
import { readFixture } from '../support/fixtures.ts';

const RUNS = { numRuns: 500 };

const keep = (kind: Kind, object: JsonObject): JsonObject | undefined =>
  createProjections()(kind).project(object) as JsonObject | undefined;

/** Adds fields that decisions do not read. */
function withUnreadFields(pod: JsonObject, suffix: string): JsonObject {
  const { metadata = {}, spec = {} } = pod as { metadata?: JsonObject; spec?: JsonObject };
  const containers = Array.isArray(spec['containers']) ? (spec['containers'] as JsonObject[]) : [];
  const token = {
    name: `kube-api-access-${suffix}`,
    projected: {
      defaultMode: 420,
      sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      ],
    },
  };
  return {
    ...pod,
    metadata: { ...metadata, managedFields: [{ manager: 'kubelet' }], name: `p-${suffix}` },
    spec: {
      ...spec,
      nodeName: `node-${suffix}`,
      tolerations: [{ key: 'a' }],
      volumes: [...(Array.isArray(spec['volumes']) ? (spec['volumes'] as unknown[]) : []), token],
      containers: containers.map((container) => ({
        ...container,
        env: [{ name: 'SECRET', value: 'x' }],
        resources: { limits: { cpu: '1' } },
        volumeMounts: [{ name: token.name, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' }],
      })),
    },
    status: { phase: 'Running', conditions: [{ type: 'Ready' }] },
  };
}

const suffix = fc.string({ minLength: 5, maxLength: 5 });

/** Pods in which one field has a value of the wrong type. */
const odd = fc.tuple(pods(), fc.nat(), fc.constantFrom(null, 7, 'x', true, [], {}, [null])).map(([pod, at, value]) => {
  const changed = structuredClone(pod) as JsonObject;
  const places: (() => void)[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    for (const [key, inner] of Object.entries(node)) {
      places.push(() => void Reflect.set(node, key, value));
      visit(inner);
    }
  };
  visit(changed['spec']);
  places[at % Math.max(1, places.length)]?.();
  return changed;
});

describe('a projected pod', () => {
  const levels = fc.constantFrom('baseline' as const, 'restricted' as const);

  for (const [name, arbitrary] of [
    ['a pod', pods()],
    ['a pod with a wrong type', odd],
  ] as const) {
    test(`${name} has the same Pod Security results as the complete pod`, () => {
      fc.assert(
        fc.property(arbitrary, suffix, levels, versions(), (pod, end, level, version) => {
          const whole = withUnreadFields(pod as JsonObject, end);
          const options = { level, version };
          const expected = structuredClone(evaluatePod(whole as Pod, options));
          assert.deepEqual(evaluatePod(keep('Pod', whole) as Pod, options), expected);
        }),
        RUNS,
      );
    });
  }

  test('gets the same SCC or denial as the complete pod', () => {
    fc.assert(
      fc.property(create, suffix, (input, end) => {
        const whole = withUnreadFields(input.object as JsonObject, end);
        const [a, b] = [whole, keep('Pod', whole)].map((object) => ({
          ...assignScc({ ...input, object }),
          object: undefined,
        }));
        assert.deepEqual(b, a);
      }),
      RUNS,
    );
  });
});

test('the pods of a projected workload have the same results as those of the complete workload', () => {
  const TOKEN_PATH = '/var/run/secrets/kubernetes.io/serviceaccount';
  const kinds = fc.constantFrom('CronJob' as const, 'DaemonSet' as const, 'Job' as const, 'StatefulSet' as const);
  const more = fc.record(
    {
      hostNetwork: fc.boolean(),
      automountServiceAccountToken: fc.boolean(),
      claims: fc.constantFrom(['data'], ['hostPath', 'a']),
      mounted: fc.constantFrom('/data', TOKEN_PATH),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(create, kinds, more, (input, kind, { claims = [], mounted, ...fields }) => {
      const { metadata, spec } = input.object as { readonly metadata: JsonObject; readonly spec: JsonObject };
      const mounts = mounted === undefined ? {} : { volumeMounts: [{ name: 'v', mountPath: mounted }] };
      const containers = (spec['containers'] as readonly JsonObject[]).map((one) => ({ ...one, ...mounts }));
      const template = { metadata, spec: { ...spec, containers, ...fields } };
      const whole: JsonObject = {
        metadata: { name: 'w', namespace: 'shop' },
        spec: {
          ...(kind === 'CronJob' ? { jobTemplate: { spec: { template } } } : { template }),
          ...(kind === 'StatefulSet' ? { volumeClaimTemplates: claims.map((name) => ({ metadata: { name } })) } : {}),
        },
      };
      const [expected, actual] = [whole, keep(kind, whole) ?? {}].map((object) => {
        const pod = getControllerPod({ kind, object })?.pod as unknown as JsonObject;
        const scc = { ...assignScc({ ...input, object: pod }), object: undefined };
        return { scc, ...evaluatePod(pod, { level: 'restricted', version: 'latest' }) };
      });
      assert.deepEqual(actual, expected);
    }),
    RUNS,
  );
});

interface KeptCase {
  readonly name: string;
  readonly type: readonly [apiVersion: string, kind: Kind];
  readonly object: JsonObject;
  /** Absent for an object that is not stored. */
  readonly kept?: JsonObject;
}

const { cases, ownerReference, template } = readFixture<{
  readonly cases: readonly KeptCase[];
  readonly ownerReference: JsonObject;
  readonly template: JsonObject;
}>('cluster/projections.yaml');

describe('the store keeps', () => {
  for (const { name, type, object, kept } of cases) {
    const [apiVersion, kind] = type;
    test(name, () => assert.deepEqual(keep(kind, object), kept && { apiVersion, kind, ...kept }));
  }

  test('the pods of a controller share equal parts', () => {
    const projection = createProjections()('Pod');
    const pod = (end: string): Pod => {
      const whole = { metadata: { labels: { app: 'web' }, ownerReferences: [ownerReference] }, spec: template['spec'] };
      return projection.project(JSON.parse(JSON.stringify(withUnreadFields(whole, end))) as JsonObject) as Pod;
    };
    const [a, b] = [pod('abcde'), pod('fghij')];
    assert.notEqual(a.metadata?.name, b.metadata?.name);
    assert.equal(a.spec, b.spec);
    assert.equal(a.metadata?.labels, b.metadata?.labels);
    assert.equal(a.metadata?.ownerReferences, b.metadata?.ownerReferences);
    assert.equal(a.status, b.status);
  });

  test('a change to dropped fields does not change the pod', () => {
    const projection = createProjections()('Pod');
    const pod = (resourceVersion: string, podIP: string, phase: string): Pod =>
      projection.project({ metadata: { name: 'a', resourceVersion }, spec: {}, status: { phase, podIP } }) as Pod;
    assert.equal(projection.isSame(pod('1', '', 'Pending'), pod('2', '10.0.0.1', 'Pending')), true);
    assert.equal(projection.isSame(pod('1', '', 'Pending'), pod('2', '', 'Running')), false);
  });
});

describe('a pool of objects', () => {
  test('returns equal values, and the same object for equal objects', () => {
    const share = createObjectPool();
    const property = fc.property(fc.jsonValue(), (value) => {
      const shared = share(value);
      assert.deepEqual(shared, value);
      assert.equal(share(structuredClone(value)), shared);
    });
    fc.assert(property, RUNS);
  });

  test('distinguishes objects with the same hash', () => {
    const share = createObjectPool();
    // Some of these objects have the same 30-bit hash.
    for (let index = 0; index < 100_000; index++) assert.deepEqual(share({ index }), { index });
  });
});

const metadata = (more: JsonObject): JsonObject => ({ name: 'a', namespace: 'shop', ...more });

describe('metadata', () => {
  test('of pods keeps the annotations that affect decisions', () => {
    const annotations = {
      plain: 'kept',
      'openshift.io/scc': 'kept',
      'security.openshift.io/validated': 'kept',
      'container.apparmor.security.beta.kubernetes.io/web': 'kept',
      'seccomp.security.alpha.kubernetes.io/pod': 'kept',
      'portcullis.dev/x': 'kept',
      'k8s.v1.cni.cncf.io/network-status': 'not kept',
      'notopenshift.io/x': 'not kept',
      'kubectl.kubernetes.io/last-applied-configuration': 'not kept',
    };
    const pod = createProjections()('Pod').project({
      metadata: metadata({ annotations, labels: { app: 'web' }, generateName: 'a-', uid: 'u', resourceVersion: '1' }),
    }) as Pod;
    const kept = Object.fromEntries(Object.entries(annotations).filter(([, value]) => value === 'kept'));
    assert.deepEqual(pod.metadata, metadata({ annotations: kept, uid: 'u', resourceVersion: '1' }));
  });

  const odd: readonly (readonly [name: string, metadata: unknown])[] = [
    ['absent', undefined],
    ['null', null],
    ['a string', 'x'],
    ['a list', []],
    ['members of wrong types', { name: 7, namespace: [], labels: 'x', annotations: null, ownerReferences: {} }],
  ];
  for (const [name, value] of odd) {
    test(`that is ${name} is projected`, () => {
      const getProjection = createProjections();
      for (const kind of ['Pod', 'Deployment', 'Namespace', 'RoleBinding', 'ClusterRole'] as const) {
        assert.doesNotThrow(() => getProjection(kind).project({ metadata: value, roleRef: null, subjects: 'x' }));
      }
    });
  }

  test('bindings share equal parts', () => {
    const projection = createProjections()('RoleBinding');
    const binding = (name: string): RoleBinding =>
      projection.project({
        metadata: { name, namespace: 'shop', labels: { a: 'b' } },
        roleRef: { kind: 'Role', name: 'deployer' },
        subjects: [{ kind: 'User', name: 'alice' }],
      }) as RoleBinding;
    const [a, b] = [binding('a'), binding('b')];
    assert.equal(a.roleRef, b.roleRef);
    assert.equal(a.subjects, b.subjects);
    assert.equal(a.metadata?.labels, b.metadata?.labels);
    assert.equal(a.metadata?.name, 'a');
  });
});

test('a pod keeps its phase and the creation and start times of its ephemeral containers', () => {
  const running = { startedAt: '2026-01-02T03:04:05Z' };
  const status = {
    phase: 'Running',
    hostIP: '10.0.0.1',
    ephemeralContainerStatuses: [
      { name: 'debug', ready: false, state: { running } },
      { name: 'new', state: { waiting: {} } },
    ],
  };
  const added = { subresource: 'ephemeralcontainers', time: '2026-01-02T03:04:04Z' };
  const managedFields = [{}, { manager: 'kubectl', subresource: 'status' }, { ...added, manager: 'kubectl' }];
  const kept = keep('Pod', { metadata: { name: 'a', managedFields }, spec: {}, status });
  assert.deepEqual(kept?.metadata, { name: 'a', managedFields: [added] });
  assert.deepEqual(kept.status, {
    phase: 'Running',
    ephemeralContainerStatuses: [
      { name: 'debug', state: { running } },
      { name: 'new', state: {} },
    ],
  });
});

test('a node keeps its labels, its taints and its kubelet state', () => {
  const heartbeat = { lastHeartbeatTime: '2026-01-02T03:04:05Z' };
  const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', lastTransitionTime: '2026-01-01T00:00:00Z' };
  const metadata = { name: 'node-1', uid: 'u', labels: { type: 'kwok' } };
  const taints = [{ key: 'a', effect: 'NoSchedule' }];
  const nodeInfo = { kubeletVersion: 'v1.33.0', bootID: 'b' };
  const node = {
    metadata: { ...metadata, managedFields: [{ manager: 'kubelet' }], annotations: { 'csi.volume/ids': 'x' } },
    spec: { taints, podCIDR: '10.0.0.0/24' },
    status: {
      nodeInfo: { ...nodeInfo, machineID: 'm' },
      images: [{ names: ['web:1'] }],
      conditions: [
        { type: 'MemoryPressure', status: 'False' },
        { ...ready, ...heartbeat },
      ],
    },
  };
  const expected = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { ...metadata, annotations: {} },
    spec: { taints },
    status: { nodeInfo, conditions: [ready] },
  };
  assert.deepEqual(keep('Node', node), expected);
  const odd = { metadata, spec: 7, status: { nodeInfo: null, conditions: 'x' } };
  const kept = { apiVersion: 'v1', kind: 'Node', metadata, status: odd.status };
  assert.deepEqual(keep('Node', odd), kept);
});

test('the node configuration has the kind of its API group', () => {
  const spec = { minimumKubeletVersion: '1.33.0' };
  assert.deepEqual(keep('NodesConfig', { metadata: { name: 'cluster' }, spec }), {
    apiVersion: 'config.openshift.io/v1',
    kind: 'Node',
    metadata: { name: 'cluster' },
    spec,
  });
});
