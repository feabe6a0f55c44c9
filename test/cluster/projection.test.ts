import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createObjectPool, createPooling } from '../../src/cluster/object-pool.ts';
import { isSame, project, reduce } from '../../src/cluster/projection.ts';
import { getControllerPod } from '../../src/kube/controller-pod.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import { getPodTemplate } from '../../src/kube/pod.ts';
import { RESOURCES, typeMeta } from '../../src/kube/resources.ts';
import { draft, type JsonObject, type Pod, type RoleBinding, withValueAt } from '../../src/kube/types.ts';
import { APP_ARMOR_ANNOTATION_PREFIX } from '../../src/policy/pod/index.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import { assignScc } from '../../src/policy/scc/index.ts';
import { pods, versions } from '../policy/pss/arbitrary.ts';
import { create } from '../policy/scc/arbitrary.ts';
import { readFixture } from '../support/fixtures.ts';

const RUNS = { numRuns: 500 };

/** Returns the function that projects objects as a store does. */
function createProjection(kind: Kind): (object: JsonObject) => JsonObject | undefined {
  const pool = createPooling();
  return (object) => {
    const projected = project(kind, object);
    return projected && (pool(kind, projected) as JsonObject);
  };
}

const keep = (kind: Kind, object: JsonObject): JsonObject | undefined => createProjection(kind)(object);

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

  test('gets the same SCC or the same denial as the complete pod', () => {
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
  /** The stored object. Absent if the object is not stored. */
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

  test('one copy of the fields that the pods of a controller share', () => {
    const projection = createProjection('Pod');
    const pod = (end: string): Pod => {
      const whole = { metadata: { labels: { app: 'web' }, ownerReferences: [ownerReference] }, spec: template['spec'] };
      return projection(JSON.parse(JSON.stringify(withUnreadFields(whole, end))) as JsonObject) as Pod;
    };
    const [a, b] = [pod('abcde'), pod('fghij')];
    assert.notEqual(a.metadata?.name, b.metadata?.name);
    assert.equal(a.spec, b.spec);
    assert.equal(a.metadata?.labels, b.metadata?.labels);
    assert.equal(a.metadata?.ownerReferences, b.metadata?.ownerReferences);
    assert.equal(a.status, b.status);
  });

  test('the same pod after a change to fields that it does not keep', () => {
    const projection = createProjection('Pod');
    const pod = (resourceVersion: string, podIP: string, phase: string): Pod =>
      projection({ metadata: { name: 'a', resourceVersion }, spec: {}, status: { phase, podIP } }) as Pod;
    assert.equal(isSame('Pod', pod('1', '', 'Pending'), pod('2', '10.0.0.1', 'Pending')), true);
    assert.equal(isSame('Pod', pod('1', '', 'Pending'), pod('2', '', 'Running')), false);
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

describe('projected metadata', () => {
  test('keeps the pod annotations that affect decisions', () => {
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
    const pod = keep('Pod', {
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
    [
      'an object with members of the wrong type',
      { name: 7, namespace: [], labels: 'x', annotations: null, ownerReferences: {} },
    ],
  ];
  for (const [name, value] of odd) {
    test(`may be ${name} in the original object`, () => {
      for (const kind of ['Pod', 'Deployment', 'Namespace', 'RoleBinding', 'ClusterRole'] as const) {
        assert.doesNotThrow(() => keep(kind, { metadata: value, roleRef: null, subjects: 'x' }));
      }
    });
  }

  test('is shared by bindings with equal fields', () => {
    const projection = createProjection('RoleBinding');
    const binding = (name: string): RoleBinding =>
      projection({
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

describe('a stored namespace', () => {
  const owned = (labels: readonly string[]): JsonObject => ({
    'f:metadata': {
      'f:annotations': { '.': {}, 'f:openshift.io/sa.scc.mcs': {}, 'f:a': {}, 'f:example.com/b': {} },
      'f:labels': Object.fromEntries(labels.map((label) => [`f:${label}`, {}])),
    },
    'f:spec': { 'f:finalizers': {} },
  });
  const PSA = 'pod-security.kubernetes.io/enforce';
  const READ = { 'openshift.io/sa.scc.mcs': 's0', 'olm.auto-labeler.managed': 'true' };
  const build = (labels: Readonly<Record<string, string>>): JsonObject => ({
    metadata: {
      ...{ name: 'shop', uid: 'u', resourceVersion: '1', creationTimestamp: 't' },
      labels,
      annotations: { ...READ, a: 'x'.repeat(100_000), 'example.com/b': 'x' },
      managedFields: [{ manager: 'm', operation: 'Apply', time: 't', fieldsV1: owned(Object.keys(labels)) }],
    },
    status: { phase: 'Active' },
  });
  const kept = (labels: Readonly<Record<string, string>>): JsonObject => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      ...{ name: 'shop', uid: 'u', resourceVersion: '1', creationTimestamp: 't' },
      labels,
      annotations: READ,
      managedFields: [
        {
          ...{ manager: 'm', operation: 'Apply', time: 't' },
          fieldsV1: {
            'f:metadata': {
              'f:annotations': { 'f:openshift.io/sa.scc.mcs': {} },
              'f:labels': { [`f:${PSA}`]: {} },
            },
          },
        },
      ],
    },
    status: { phase: 'Active' },
  });

  test('keeps the fields that decisions read, and all labels, because settings can select namespaces by any label', () => {
    const labels = { [PSA]: 'restricted', team: 'a', 'example.com/tier': 'b' };
    assert.deepEqual(keep('Namespace', build(labels)), kept(labels));
  });

  describe('that exceeds 64 KiB keeps', () => {
    const identity = { name: 'a', uid: 'u', resourceVersion: '1' };
    const fill = (domain: string): object =>
      Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`${domain}label-${index}`, 'x']));
    const labels = { [PSA]: 'restricted', 'kubernetes.io/metadata.name': 'a', 'portcullis.dev/scc': 'enforce' };
    const ranges = { 'openshift.io/sa.scc.uid-range': '1000000000/10000' };
    const long = { 'openshift.io/sa.scc.mcs': 'x'.repeat(LIMITS.storedObjectBytes) };
    for (const [claim, metadata, expected] of [
      ['no labels that decisions do not read', { labels: { ...fill(''), ...labels } }, { labels }],
      [
        'no unrelated labels of the domains that decisions read',
        { labels: { ...fill('a.k8s.io/'), ...labels } },
        { labels },
      ],
      [
        'no annotations that decisions do not read',
        { labels, annotations: { ...fill('openshift.io/'), ...ranges } },
        { labels, annotations: ranges },
      ],
      ['no long annotations', { labels, annotations: { ...ranges, ...long } }, { labels }],
    ] as const)
      test(claim, () => {
        const kept = keep('Namespace', { metadata: { ...identity, ...metadata } });
        assert.deepEqual(kept, { apiVersion: 'v1', kind: 'Namespace', metadata: { ...identity, ...expected } });
      });
  });
});

test('a stored node keeps its labels, its taints and its kubelet state', () => {
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

test('a stored node configuration has the kind of its API group', () => {
  const spec = { minimumKubeletVersion: '1.33.0' };
  assert.deepEqual(keep('NodesConfig', { metadata: { name: 'cluster' }, spec }), {
    apiVersion: 'config.openshift.io/v1',
    kind: 'Node',
    metadata: { name: 'cluster' },
    spec,
  });
});

const POD_TEMPLATE_KINDS = (Object.keys(RESOURCES) as readonly Kind[]).filter((kind) => RESOURCES[kind].podTemplate);

describe('an object that exceeds its limit', () => {
  const [sccInput] = fc.sample(create, { numRuns: 1, seed: 1 });
  assert.ok(sccInput);
  const long = 'x'.repeat(LIMITS.storedObjectBytes);
  const container = { name: 'c', image: 'i' };
  const restricted = {
    containers: [
      {
        ...container,
        securityContext: {
          allowPrivilegeEscalation: false,
          runAsNonRoot: true,
          capabilities: { drop: ['ALL'] },
          seccompProfile: { type: 'RuntimeDefault' },
        },
      },
    ],
  };
  const volumes = Array.from({ length: 2000 }, (_, index) => ({ name: `v${index}`, emptyDir: {} }));
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'u' };
  const hostile: readonly (readonly [name: string, pod: JsonObject])[] = [
    ['many volumes', { spec: { ...restricted, volumes } }],
    ['a long image', { spec: { ...restricted, initContainers: [{ ...container, image: long }] } }],
    [
      'a long annotation',
      { metadata: { annotations: { [`${APP_ARMOR_ANNOTATION_PREFIX}c`]: long } }, spec: restricted },
    ],
    ['long names', { spec: { ...restricted, serviceAccountName: long, runtimeClassName: long } }],
  ];
  const REASON = 'pod too large to evaluate (spec: Too long: may not be more than 32768 bytes)';
  const evaluate = (pod: unknown): string => {
    const { allowed, detail } = evaluatePod(pod, { level: 'restricted', version: 'latest' });
    return allowed ? 'allowed' : detail;
  };
  const size = (object: unknown): number => JSON.stringify(object).length;

  for (const [name, pod] of hostile) {
    test(`is denied by every policy if it is a pod with ${name}`, () => {
      const { metadata = {} } = pod as { readonly metadata?: JsonObject };
      const stored = keep('Pod', { ...pod, metadata: { ...metadata, name: 'a', uid: 'u', creationTimestamp: 't' } });
      assert.deepEqual(stored?.metadata, { name: 'a', uid: 'u', creationTimestamp: 't' });
      assert.deepEqual([size(stored) < 5000, stored.excess], [true, 'spec']);
      assert.equal(evaluate(stored), REASON);
      assert.equal(evaluate(draft(stored)), REASON);
      const scc = assignScc({ ...sccInput, object: stored });
      assert.equal(scc.allowed, false);
    });

    for (const kind of POD_TEMPLATE_KINDS) {
      const path = RESOURCES[kind].podTemplate ?? [];
      test(`is denied if it is a ${kind} whose template has ${name}`, () => {
        const whole = withValueAt({ metadata: { name: 'a', namespace: 'shop' } }, path, pod) as JsonObject;
        const stored = keep(kind, whole);
        assert.deepEqual([size(stored) < 5000, stored?.excess], [true, [...path, 'spec'].join('.')]);
        const created = getControllerPod({ kind, object: stored ?? {} });
        assert.equal(evaluate(created ? created.pod : getPodTemplate(stored, path)), REASON);
      });
    }
  }

  test('keeps no other large metadata', () => {
    const ownerReferences = [...Array<JsonObject>(10_000).fill(owner), { ...owner, name: long, controller: true }];
    const managedFields = Array<JsonObject>(1000).fill({ subresource: 'ephemeralcontainers', time: '2026-01-01' });
    const stored = keep('Pod', {
      metadata: { name: 'a', uid: 'u', labels: { a: long }, ownerReferences, managedFields },
    });
    // The pod has an ephemeral container of unknown age, so it is evaluated after every outage.
    assert.deepEqual(stored?.metadata, {
      name: 'a',
      uid: 'u',
      managedFields: [{ subresource: 'ephemeralcontainers' }],
    });
  });

  test('fits into the limit without the fields that no policy reads', () => {
    const spec = { ...restricted, initContainers: [{ ...container, env: [{ name: 'A', value: long }], args: [long] }] };
    const stored = keep('Pod', { metadata: { labels: { a: long } }, spec });
    assert.deepEqual([stored?.excess, evaluate(stored) === REASON], [undefined, false]);
  });

  const use = { verbs: ['use'], apiGroups: ['security.openshift.io'], resources: ['securitycontextconstraints'] };
  const names = Array.from({ length: 1001 }, (_, index) => `name-${index}`);
  const subjects = [...names, ...names].map((name) => ({ kind: 'User', name }));
  const roleRef = { kind: 'Role', name: 'r' };
  const exception = {
    metadata: { name: 'a', annotations: { 'portcullis.dev/authors': '[]' } },
    spec: { reason: long },
  };
  const cases: readonly (readonly [name: string, kind: Kind, object: JsonObject, kept: JsonObject | undefined])[] = [
    [
      'grants only the first names if it is a Role with too many',
      'Role',
      { metadata: { name: 'a' }, rules: names.map((name) => ({ ...use, resourceNames: [name] })) },
      { metadata: { name: 'a' }, rules: [{ ...use, resourceNames: names.slice(0, 1000) }], excess: 'rules' },
    ],
    [
      'grants nothing if it is a Role and all names in a rule are too long',
      'Role',
      { metadata: { name: 'a' }, rules: [{ ...use, resourceNames: [long] }] },
      undefined,
    ],
    ['is not stored if it is a Role with a long name', 'Role', { metadata: { name: long }, rules: [use] }, undefined],
    [
      'keeps only the first subjects if it is a RoleBinding with too many',
      'RoleBinding',
      { metadata: { name: 'a', namespace: 'shop' }, roleRef, subjects: [{ kind: 'User', name: long }, ...subjects] },
      {
        metadata: { name: 'a', namespace: 'shop' },
        roleRef,
        subjects: subjects.slice(0, 1000),
        excess: 'subjects',
      },
    ],
    [
      'is not stored if it is a RoleBinding whose role has a long name',
      'RoleBinding',
      { metadata: { name: 'a', namespace: 'shop' }, roleRef: { ...roleRef, name: long }, subjects },
      undefined,
    ],
    [
      'allows nothing if it is a PodSecurityException',
      'PodSecurityException',
      exception,
      { metadata: { name: 'a' }, excess: 'spec, status' },
    ],
    [
      'keeps only its identity if it is a ServiceAccount',
      'ServiceAccount',
      { metadata: { name: 'a', labels: { long } } },
      { metadata: { name: 'a' } },
    ],
    [
      'keeps only its identity if it is a CatalogSource',
      'CatalogSource',
      { metadata: { name: 'a' }, spec: { image: long } },
      { metadata: { name: 'a' }, excess: 'spec' },
    ],
  ];
  for (const [name, kind, object, kept] of cases) {
    test(name, () => assert.deepEqual(project(kind, object), kept && { ...typeMeta(kind), ...kept }));
  }

  test('is stored in the same way if the objects of its kind use all their memory', () => {
    const pod = project('Pod', { metadata: { name: 'a' }, spec: restricted }) ?? {};
    assert.equal(evaluate(pod), 'allowed');
    assert.equal(evaluate(reduce('Pod', pod)), REASON);
    const role = project('Role', { metadata: { name: 'a' }, rules: [use] }) ?? {};
    assert.equal(reduce('Role', role), role);
  });
});
