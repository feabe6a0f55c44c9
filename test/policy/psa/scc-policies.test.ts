/** The generated policies for SCCs decide as the validating pass for the SCC that a pod names. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { matchesLabelSelector } from '../../../src/kube/label-selector.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints as Scc } from '../../../src/kube/scc.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../../../src/kube/well-known.ts';
import { generateSccPolicies } from '../../../src/policy/psa/scc-policies.ts';
import { assignScc, validateScc } from '../../../src/policy/scc/index.ts';
import { sccMode, SCC_MODES } from '../../../src/policy/scc/mode.ts';
import { canUseBy, laxScc } from '../../support/scc.ts';
import { createSccPolicies } from '../../support/scc-policies.ts';
import { create, type ListedInput } from '../scc/arbitrary.ts';
import { ALICE, podWith, readCases, request } from '../scc/requests.ts';

/** The pod with the annotation that names an SCC. */
function naming(scc: string, pod: JsonObject): JsonObject {
  const metadata = (pod['metadata'] ?? {}) as JsonObject;
  const annotations = metadata['annotations'] as JsonObject | undefined;
  return { ...pod, metadata: { ...metadata, annotations: { ...annotations, [POD_SCC_ANNOTATIONS.scc]: scc } } };
}

const review = createSccPolicies();

/** Compares the policies with the validating pass, for a pod that names an SCC. */
function compare(input: ListedInput, scc: Scc, name?: string): boolean {
  const object = naming(scc.metadata?.name ?? '', input.object as JsonObject);
  const named = { ...input, object, sccs: [scc] };
  const { allowed } = validateScc(named);
  const denials = review(named);
  assert.equal(denials.length === 0, allowed, `${name ?? JSON.stringify(object)}: ${denials.join()}`);
  return allowed;
}

interface StrategyCase {
  readonly name: string;
  readonly scc: JsonObject;
  readonly pod?: JsonObject;
  readonly container?: JsonObject;
  readonly spec?: JsonObject;
  readonly annotations?: JsonObject;
}

test('the pods of test/fixtures/scc-cases/strategies.yaml, before and after completion', () => {
  const counts = { allowed: 0, denied: 0 };
  for (const { name, scc, pod, container, spec, annotations } of readCases<readonly StrategyCase[]>(
    'strategies.yaml',
  )) {
    const one = laxScc({ name: 'some', groups: ['system:authenticated'], ...scc });
    const object = podWith(
      {
        containers: [{ name: 'app', ...(container && { securityContext: container }) }],
        ...spec,
        ...(pod && { securityContext: pod }),
      },
      { annotations: annotations ?? {} },
    );
    const input = request({ object, sccs: [one] });
    const decision = assignScc(input);
    for (const each of [object, ...(decision.allowed ? [decision.object as JsonObject] : [])]) {
      counts[compare({ ...input, object: each }, one, name) ? 'allowed' : 'denied']++;
    }
  }
  assert.ok(counts.allowed > 50 && counts.denied > 50, JSON.stringify(counts));
});

test('arbitrary pods: what SCC admission admits passes, and what the named SCC does not allow is denied', () => {
  const counts = { admitted: 0, allowed: 0, denied: 0 };
  fc.assert(
    fc.property(create, fc.nat({ max: 999 }), fc.boolean(), (input, index, isUsable) => {
      const decision = assignScc(input);
      if (decision.allowed) {
        assert.deepEqual(review({ ...input, object: decision.object }), []);
        counts.admitted++;
      }
      const completed = input.sccs.map((scc) => ({ scc, ...assignScc({ ...input, sccs: [scc], canUse: () => true }) }));
      const fitting = completed.filter((one) => one.allowed);
      const list = fitting.length > 0 ? fitting : completed;
      const { scc, object = input.object } = list[index % list.length] as { scc: Scc; object?: unknown };
      counts[compare({ ...input, object, ...(isUsable && { canUse: () => true }) }, scc) ? 'allowed' : 'denied']++;
    }),
    { numRuns: 150, seed: 1 },
  );
  for (const [name, count] of Object.entries(counts)) assert.ok(count >= 20, `${name}: ${count}`);
});

const FORBIDDEN = 'unable to validate against any security context constraint: [provider';
const TOO_LARGE =
  'too many containers, volumes, ports, capabilities, sysctls and groups (policies in the API server evaluate at most 500)';
const HOST_NETWORK = 'the pod violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)';

/** A pod that restricted-v2 has admitted, with changes. */
function admitted(spec: JsonObject = {}, annotations: JsonObject = {}): JsonObject {
  const decision = assignScc(request({}));
  const pod = (decision.allowed ? decision.object : {}) as { readonly metadata: JsonObject; readonly spec: JsonObject };
  const { metadata } = pod;
  const all = { ...(metadata['annotations'] as JsonObject), ...annotations };
  return { ...pod, metadata: { ...metadata, annotations: all }, spec: { ...pod.spec, ...spec } };
}

const groups = (count: number): JsonObject => ({ supplementalGroups: Array.from({ length: count }, () => 5) });
const containers = (count: number): JsonObject => ({
  containers: Array.from({ length: count }, (_, index) => ({ name: `c${index}`, image: 'i:1' })),
});

/** The requests of alice, and the denial. */
const DENIALS: readonly (readonly [name: string, given: Partial<ListedInput>, denial: string | undefined])[] = [
  ['an SCC that the pod fits', { object: admitted() }, undefined],
  [
    'an SCC that is not usable',
    { object: naming('privileged', podWith({})) },
    `${FORBIDDEN} "privileged": Forbidden: not usable by user or serviceaccount]`,
  ],
  [
    'several fields of the pod and of containers',
    {
      object: admitted({
        hostNetwork: true,
        containers: [
          { name: 'a', image: 'i:1', securityContext: { privileged: true } },
          { name: 'b', image: 'i:1' },
        ],
      }),
    },
    `${FORBIDDEN} restricted-v2: Forbidden: .spec.hostNetwork, runAsUser of containers "a", "b", privileged of container "a", capabilities of containers "a", "b", allowPrivilegeEscalation of containers "a", "b"]`,
  ],
  [
    'a namespace without ranges',
    { object: admitted(), namespace: { metadata: { name: 'demo' } } },
    'error fetching namespace "demo": unable to find annotation openshift.io/sa.scc.uid-range',
  ],
  [
    'another SCC than the required one',
    { object: admitted({}, { [POD_SCC_ANNOTATIONS.requiredScc]: 'nonroot-v2' }) },
    'required scc/nonroot-v2 does not match the suggested scc/restricted-v2',
  ],
  [
    'too many items',
    { object: admitted({ securityContext: groups(500) }) },
    `${FORBIDDEN} restricted-v2: Forbidden: ${TOO_LARGE}]`,
  ],
  [
    'too many containers',
    { object: admitted(containers(501)) },
    `${FORBIDDEN} restricted-v2: Forbidden: ${TOO_LARGE}]`,
  ],
  [
    'no annotation',
    { object: podWith({ hostNetwork: true }) },
    `annotation openshift.io/scc names no SCC, and ${HOST_NETWORK}`,
  ],
  [
    'an unknown SCC',
    { object: naming('nope', podWith({ hostNetwork: true })) },
    `annotation openshift.io/scc names the unknown SCC "nope", and ${HOST_NETWORK}`,
  ],
  ['a pod of the fallback level', { object: podWith({}) }, undefined],
  ['a Windows pod', { object: naming('privileged', podWith({ os: { name: 'windows' } })) }, undefined],
];

const atBaseline = createSccPolicies({ fallbackLevel: 'baseline' });

describe('denials', () => {
  for (const [name, given, denial] of DENIALS) {
    test(name, () => {
      assert.deepEqual(atBaseline(request({ userInfo: ALICE, ...given })), denial === undefined ? [] : [denial]);
    });
  }
});

test('users and groups that are null grant nothing', () => {
  const scc: Scc = laxScc({ name: 'some', users: null, groups: null });
  const object = naming('some', podWith({}));
  const usable = request({ object, sccs: [scc], grants: [{ user: 'alice', sccs: ['some'] }], userInfo: ALICE });
  assert.deepEqual(review(usable), []);
  assert.deepEqual(review({ ...usable, canUse: canUseBy([]) }), [
    `${FORBIDDEN} "some": Forbidden: not usable by user or serviceaccount]`,
  ]);
});

test('the groups of service accounts include system:authenticated, except in OpenShift', () => {
  const sccs: readonly Scc[] = [laxScc({ name: 'some', groups: ['system:authenticated'] })];
  const userInfo = { username: 'system:anonymous', groups: ['system:unauthenticated'] };
  const input = request({ object: naming('some', podWith({})), sccs, userInfo, canUse: canUseBy([]) });
  assert.deepEqual(review(input), []);
  const scc = { mode: 'enforce', exemptNamespaces: [], compatibility: 'openshift' } as const;
  assert.equal(createSccPolicies({ scc })(input).length, 1);
});

describe('the level of pods that name no SCC is that of the namespace', () => {
  const plain = podWith({});
  const hostPod = podWith({ hostNetwork: true });
  const levels: readonly (readonly [labels: Readonly<Record<string, string>>, plain: boolean, hostPod: boolean])[] = [
    [{}, true, false],
    [{ 'scc.portcullis.dev/fallback-level': 'restricted' }, false, false],
    [{ 'scc.portcullis.dev/fallback-level': 'privileged' }, true, true],
    [{ 'scc.portcullis.dev/fallback-level': 'Privileged' }, false, false],
    [{ 'portcullis.dev/admission': 'fail-open' }, true, true],
    [{ 'portcullis.dev/admission': 'other' }, true, false],
    [{ 'portcullis.dev/admission': 'fail-open', 'scc.portcullis.dev/fallback-level': 'baseline' }, true, false],
  ];
  for (const [labels, ...expected] of levels) {
    test(JSON.stringify(labels), () => {
      const namespace = { metadata: { name: 'demo', labels } };
      const allowed = [plain, hostPod].map((object) => atBaseline(request({ object, namespace })).length === 0);
      assert.deepEqual(allowed, expected);
    });
  }
});

const OLD: JsonObject = {
  metadata: { name: 'p', labels: { a: 'b' }, annotations: { x: 'y' }, finalizers: ['f/f'] },
  spec: { ...(podWith({ hostNetwork: true })['spec'] as JsonObject), schedulingGates: [{ name: 'g' }] },
};

function changed(part: 'metadata' | 'spec', change: JsonObject): JsonObject {
  return { ...OLD, [part]: { ...(OLD[part] as JsonObject), ...change } };
}

/** Updates of a pod: whether SCC admission evaluates them, and whether the level of pods without an SCC applies. */
const UPDATES: readonly (readonly [
  name: string,
  pod: JsonObject,
  named: boolean,
  unnamed: boolean,
  subResource?: string,
])[] = [
  ['nothing', OLD, false, false],
  ['a status', { ...OLD, status: { phase: 'Running' } }, false, false],
  ['finalizers', changed('metadata', { finalizers: [] }), false, false],
  ['a removed scheduling gate', changed('spec', { schedulingGates: [] }), false, false],
  [
    'the annotation of the network',
    changed('metadata', { annotations: { x: 'y', 'k8s.ovn.org/pod-networks': '' } }),
    false,
    false,
  ],
  ['another annotation', changed('metadata', { annotations: { x: 'z' } }), true, false],
  ['a removed annotation', changed('metadata', { annotations: {} }), true, false],
  ['labels', changed('metadata', { labels: {} }), true, false],
  [
    'a removed field',
    {
      ...OLD,
      spec: { schedulingGates: [{ name: 'g' }], containers: [{ name: 'app', image: 'app:1' }], hostNetwork: true },
    },
    true,
    false,
  ],
  ['tolerations', changed('spec', { tolerations: [{ operator: 'Exists' }] }), true, false],
  [
    'resources',
    changed('spec', { containers: [{ name: 'app', image: 'app:1', resources: { limits: { cpu: '1' } } }] }),
    true,
    false,
    'resize',
  ],
  ['an image', changed('spec', { containers: [{ name: 'app', image: 'app:2' }] }), true, true],
  [
    'an ephemeral container',
    changed('spec', { ephemeralContainers: [{ name: 'e', image: 'e' }] }),
    true,
    true,
    'ephemeralcontainers',
  ],
];

describe('updates are evaluated as by the server', () => {
  for (const [name, object, named, unnamed, subResource] of UPDATES) {
    test(name, () => {
      const update = request({ operation: 'UPDATE', subResource, object, oldObject: OLD });
      assert.equal(atBaseline(update).length, Number(unnamed));
      const isAnnotated = { ...update, object: naming('privileged', object), oldObject: naming('privileged', OLD) };
      // The webhook does not receive updates of the status.
      assert.equal(name !== 'a status' && !validateScc(isAnnotated).allowed, named);
      assert.equal(atBaseline(isAnnotated).length, Number(named));
    });
  }
});

test('the policies apply to the namespaces in which SCCs are enforced', () => {
  const values: Readonly<Record<string, readonly (string | undefined)[]>> = {
    'portcullis.dev/scc': [undefined, ...SCC_MODES, 'Off'],
    'openshift.io/run-level': [undefined, '0', '1', '2'],
    'security.openshift.io/disable-securitycontextconstraints': [undefined, 'true', 'false'],
  };
  const combinations = Object.entries(values).reduce<Readonly<Record<string, string>>[]>(
    (all, [key, list]) =>
      all.flatMap((labels) => list.map((value) => (value === undefined ? labels : { ...labels, [key]: value }))),
    [{}],
  );
  const exemptNamespaces = ['kube-system'];
  for (const mode of SCC_MODES) {
    const policies = generateSccPolicies(
      { scc: { mode, exemptNamespaces, compatibility: {} }, fallbackLevel: 'restricted' },
      { sccNames: [], namespace: 'portcullis', kubernetesMinor: 37 },
    );
    assert.equal(policies.length, mode === 'off' ? 0 : 4);
    for (const { spec } of policies.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')) {
      const { namespaceSelector } = spec['matchConstraints'] as JsonObject;
      for (const labels of combinations) {
        for (const name of ['demo', 'kube-system', 'portcullis']) {
          const scope = { mode, exemptNamespaces: [...exemptNamespaces, 'portcullis'] };
          const { mode: expected } = sccMode({ metadata: { name, labels } }, scope);
          const all = { ...labels, [NAMESPACE_NAME_LABEL]: name };
          assert.equal(matchesLabelSelector(namespaceSelector, all), expected === 'enforce', JSON.stringify(all));
        }
      }
    }
  }
});

test('expressions are within the limits of the API server', () => {
  const sccNames = Array.from({ length: 500 }, (_, index) => `${'a'.repeat(50)}-${index}`);
  const settings = {
    scc: { mode: 'enforce', exemptNamespaces: [], compatibility: {} },
    fallbackLevel: 'restricted',
  } as const;
  for (const kubernetesMinor of [30, 37]) {
    const policies = generateSccPolicies(settings, { sccNames, namespace: 'portcullis', kubernetesMinor });
    for (const { metadata, spec } of policies) {
      const {
        variables = [],
        validations = [],
        matchConditions = [],
      } = spec as Readonly<Record<string, Record<string, string>[]>>;
      for (const { expression = '', messageExpression = '' } of [...variables, ...validations, ...matchConditions]) {
        // The parser of the API server reads 100,000 characters.
        assert.ok(expression.length < 50_000, `${metadata.name}: ${expression.length}`);
        assert.ok(messageExpression.length <= 5 * 1024);
        // Expressions of messages cannot use the authorizer.
        assert.ok(!/authorizer|isUsable/.test(messageExpression));
      }
      assert.ok(JSON.stringify(spec).length < 100_000);
      if (kubernetesMinor < 35) assert.ok(!/\.(?:flatten|distinct|sort)\(\)/.test(JSON.stringify(spec)));
    }
  }
});
