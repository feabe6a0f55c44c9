/**
 * Each expression, selector and rule of the policies that is not part of a check, altered in one place, changes the answer
 * to a request. `PORTCULLIS_ALL_POLICY_CASES=1` alters all places instead of a sample (`npm run test:policies`).
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { JsonObject } from '../../../src/kube/types.ts';
import {
  generatePolicies,
  MAX_POLICY_ITEMS as MAX,
  type PolicyObject,
  type PolicyOptions,
} from '../../../src/policy/psa/admission-policies.ts';
import {
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  type PodSecurityConfiguration,
} from '../../../src/policy/psa/configuration.ts';
import { MODES } from '../../../src/policy/psa/policy.ts';
import { buildCelChecks, type CelVariable } from '../../../src/policy/pss/cel-policy.ts';
import { asStored, compileVariables } from '../../../src/dev-cluster/cel.ts';
import { createPolicyAdmission, mutate, type PolicyRequest } from '../../support/cel.ts';
import {
  compliantPod,
  deploymentRequest,
  namespaceWith,
  plainPod,
  podRequest,
  type Labels,
} from '../../support/pod-security.ts';

const ALL = process.env['PORTCULLIS_ALL_POLICY_CASES'] !== undefined;

/** A sample takes one of this number of alterations, of the first settings. */
const SAMPLE = 30;

type Request = ReturnType<typeof podRequest>;

function scene({ object, oldObject, ...request }: Request, labels: Labels): PolicyRequest {
  return { object, oldObject, labels: namespaceWith(labels).metadata?.labels ?? {}, request: { ...request } };
}

const VERSIONS = [
  'latest',
  'v1.0',
  'v1.18',
  'v1.30',
  'v1.37',
  'v1.05',
  '1.30',
  '',
  'v1.9223372036854775807',
  'v1.9223372036854775808',
  'v1.10000000000000000000',
];

/** Labels of namespaces, of each mode alone and of combinations. */
const LABELS: readonly Labels[] = [
  {},
  ...MODES.flatMap((mode) => [
    ...['privileged', 'Baseline', ''].map((level) => ({ [mode]: level })),
    ...VERSIONS.flatMap((version) => [
      { [`${mode}-version`]: version },
      { [mode]: 'baseline', [`${mode}-version`]: version },
      { [mode]: 'restricted', [`${mode}-version`]: version },
    ]),
  ]),
  ...['baseline', 'restricted'].flatMap((enforce) => [
    { enforce },
    { enforce, warn: 'privileged', audit: 'privileged' },
    { enforce, 'warn-version': 'v1.18' },
    ...VERSIONS.map((version) => ({ enforce, 'enforce-version': version, audit: 'privileged' })),
    ...VERSIONS.map((version) => ({ enforce, 'enforce-version': version, warn: enforce, 'warn-version': version })),
    { enforce, 'enforce-version': 'v1.18', warn: enforce },
    { enforce: 'privileged', 'enforce-version': 'v1.30', warn: enforce, 'warn-version': 'v1.30' },
    { enforce: 'baseline', 'enforce-version': 'v1.20', warn: enforce, 'warn-version': 'v1.20' },
    { warn: enforce, 'warn-version': 'v1.20' },
    { enforce, 'enforce-version': 'v1.18', 'warn-version': 'v1.19' },
    { enforce: 'privileged', warn: enforce },
    { enforce: 'privileged', audit: enforce },
  ]),
  { enforce: 'Baseline', 'enforce-version': 'v1.18' },
  { enforce: 'Baseline', 'enforce-version': 'v1.30', warn: 'restricted', 'warn-version': 'v1.30' },
  { enforce: 'baseline', warn: 'restricted' },
  { warn: 'restricted', 'enforce-version': 'v1.18' },
  { enforce: 'privileged', audit: 'privileged', warn: 'privileged' },
  { enforce: 'x', audit: 'y', warn: 'z', 'enforce-version': 'a', 'audit-version': 'b', 'warn-version': 'c' },
];

const KATA = { runtimeClassName: 'kata', hostPID: true };
const image = (name: string, tag: string) => ({ name, image: `i:${tag}` });

/** Updates of the lists of containers of a pod that violates all levels. */
function update(list: string, before: readonly object[], after: readonly object[], subResource = ''): Request {
  const pod = (containers: readonly object[]) => ({
    ...plainPod(),
    spec: { hostPID: true, containers: [], [list]: containers },
  });
  return podRequest(pod(after), { operation: 'UPDATE', oldObject: pod(before), subResource });
}

const UPDATES: readonly Request[] = ['containers', 'initContainers', 'ephemeralContainers'].flatMap((list) => [
  update(list, [image('a', '1'), image('b', '1')], [image('a', '1'), image('b', '1')]),
  update(list, [image('a', '1'), image('b', '2')], [image('a', '1'), image('b', '1')]),
  update(list, [image('a', '1')], [image('b', '1')]),
  update(list, [image('a', '1')], [image('a', '1'), image('b', '1')]),
  update(list, [{ name: 'a' }], [{ name: 'a' }]),
  update(list, [{ name: 'a' }], [image('a', '1')]),
  update(list, [image('a', '1')], [image('a', '2')], list === 'ephemeralContainers' ? 'ephemeralcontainers' : 'resize'),
]);

const PRIVILEGED = compliantPod({ hostNetwork: true }, { securityContext: { privileged: true } });
const LARGE = compliantPod({ containers: Array.from({ length: MAX + 1 }, (_, index) => image(`c${index}`, '1')) });
const PROBE = compliantPod({}, { livenessProbe: { httpGet: { host: 'example.com', port: 80 } } });
/** Violates one check of the level restricted. */
const CAPABLE = compliantPod({}, { securityContext: { allowPrivilegeEscalation: false } });
const PODS = [plainPod(), PRIVILEGED, CAPABLE, compliantPod(), compliantPod(KATA), PROBE];

/** Labels of namespaces whose warnings are about another policy than the enforced one. */
const OTHER_POLICIES: readonly Labels[] = [
  { enforce: 'restricted', warn: 'baseline' },
  { warn: 'baseline', 'warn-version': 'latest' },
  ...['baseline', 'restricted'].flatMap((warn) => [
    { enforce: 'privileged', 'enforce-version': 'v1.30', warn },
    { enforce: warn, 'enforce-version': 'latest', warn, 'warn-version': 'v1.30' },
    ...['v1.18', 'v1.30'].map((version) => ({
      enforce: warn,
      'enforce-version': version,
      warn,
      'warn-version': 'latest',
    })),
  ]),
];
/** Pods that violate one check, or the level baseline only since a version. */
const ONE_CHECK = [
  PROBE,
  CAPABLE,
  compliantPod({ hostNetwork: true }),
  compliantPod({}, { securityContext: { seccompProfile: { type: 'Unconfined' } } }),
  {
    ...plainPod(),
    spec: { containers: [{ ...image('a', '1'), livenessProbe: { httpGet: { host: 'h', port: 80 } } }] },
  },
];

const WORKLOADS: Readonly<Record<string, readonly [group: string, path: readonly string[]]>> = {
  podtemplates: ['', ['template']],
  replicationcontrollers: ['', ['spec', 'template']],
  replicasets: ['apps', ['spec', 'template']],
  deployments: ['apps', ['spec', 'template']],
  statefulsets: ['apps', ['spec', 'template']],
  daemonsets: ['apps', ['spec', 'template']],
  jobs: ['batch', ['spec', 'template']],
  cronjobs: ['batch', ['spec', 'jobTemplate', 'spec', 'template']],
};

function workload(resource: string, template: object, change: Partial<Request> = {}): Request {
  const [group = '', path = []] = WORKLOADS[resource] ?? [];
  const object = path.reduceRight<object>((inner, field) => ({ [field]: inner }), template);
  return deploymentRequest(object, { resource: { group, version: 'v1', resource }, ...change });
}

const EXEMPTIONS = {
  usernames: ['root', 'admin'],
  namespaces: ['kube-system', 'infra'],
  runtimeClasses: ['kata', 'gvisor'],
};

const LEVELS: readonly Labels[] = ['baseline', 'restricted'].flatMap((level) => [
  { enforce: level, audit: level },
  { enforce: 'privileged', warn: level },
]);

const SCENES: readonly PolicyRequest[] = [
  ...LABELS.flatMap((labels) =>
    [
      ...PODS.map((pod) => podRequest(pod)),
      workload('deployments', PRIVILEGED),
      workload('deployments', compliantPod(KATA)),
      workload('jobs', PROBE),
    ].map((request) => scene(request, labels)),
  ),
  ...OTHER_POLICIES.flatMap((labels) => ONE_CHECK.map((pod) => scene(podRequest(pod), labels))),
  ...LEVELS.flatMap((labels) =>
    [
      ...UPDATES,
      ...Object.keys(WORKLOADS).flatMap((resource) => [
        workload(resource, PRIVILEGED),
        workload(resource, PRIVILEGED, { operation: 'UPDATE', oldObject: {} }),
      ]),
      workload('deployments', compliantPod(KATA)),
      workload('replicationcontrollers', PRIVILEGED, { object: { spec: {} } }),
      ...EXEMPTIONS.usernames.map((username) => podRequest(PRIVILEGED, { userInfo: { username } })),
      ...EXEMPTIONS.namespaces.map((namespace) => podRequest(PRIVILEGED, { namespace })),
      ...EXEMPTIONS.runtimeClasses.map((runtimeClassName) => podRequest(compliantPod({ ...KATA, runtimeClassName }))),
      podRequest(LARGE),
    ].map((request) => scene(request, labels)),
  ),
];

interface Settings {
  readonly defaults?: Partial<PodSecurityConfiguration['defaults']>;
  readonly exemptions?: Partial<PodSecurityConfiguration['exemptions']>;
  readonly options?: Partial<PolicyOptions>;
}

const SETTINGS: Readonly<Record<string, Settings>> = {
  'with defaults and exemptions': {
    defaults: {
      enforce: 'baseline',
      'enforce-version': 'v1.20',
      warn: 'baseline',
      'warn-version': 'v1.30',
      audit: 'baseline',
      'audit-version': 'v1.34',
    },
    exemptions: EXEMPTIONS,
  },
  'without defaults': { exemptions: EXEMPTIONS },
  'of the floor': { exemptions: EXEMPTIONS, options: { modes: 'enforce' } },
};

function generate({ defaults, exemptions, options }: Settings): readonly PolicyObject[] {
  const podSecurity = createPodSecurity({
    defaults: { ...DEFAULT_CONFIGURATION.defaults, ...defaults },
    exemptions: { ...DEFAULT_CONFIGURATION.exemptions, ...exemptions },
  });
  return generatePolicies({ podSecurity }, { modes: 'all', kubernetesMinor: 37, ...options });
}

/** The variables of checks, which the test of the checks alters, and of the size, which has its own test. */
const OF_CHECKS = new Set(
  ['isSmall'].concat(
    buildCelChecks({ levels: ['baseline', 'restricted'], hasListFunctions: true }).variables.map(({ name }) => name),
  ),
);

/** The strings that are expressions, by the names of their fields. */
const EXPRESSIONS = new Set(['expression', 'messageExpression', 'valueExpression']);
const OPERATORS: Readonly<Record<string, string>> = {
  In: 'NotIn',
  NotIn: 'In',
  Exists: 'DoesNotExist',
  DoesNotExist: 'Exists',
};

/** The evaluator of the tests does not read the versions of resources, and the names of conditions and variables. */
const NOT_EVALUATED = new Set([
  'apiVersions',
  'name',
  'reason',
  'message',
  'failurePolicy',
  'policyName',
  'validationActions',
]);

function isOfCheck(item: unknown): boolean {
  return (
    typeof item === 'object' &&
    item !== null &&
    'name' in item &&
    OF_CHECKS.has(String(item.name).replace(/^enforce_/, ''))
  );
}

const WARN_BY_LABEL =
  'orValue("baseline") == "privileged" && (variables.enforceLevel == "privileged" || !(request.resource.resource == "pods") && ("pod-security.kubernetes.io/warn" in variables.labels || ';

/** Alterations without an effect, by the names of their policies: the fallback has the same meaning, or is not used. */
const EQUIVALENT: readonly (readonly [policy: RegExp, part: string])[] = [
  [/./, 'orValue("latest~")'],
  [/./, '(variables.versionLabel == "latest~"'],
  [/./, '(variables.enforceVersionLabel == "latest~"'],
  [/./, '"9223372036854775807~"'],
  [/./, ' ? 38 : '],
  [/./, 'allowed ? "~"'],
  [/./, 'runtimeClassName.orValue("~")'],
  [/./, '"restricted~"] ? variables.enforceLabel'],
  [/^warn/, ': "restricted~"'],
  // The comparison with the enforced policy only saves the evaluation of the pod.
  [/^warn/, 'variables.enforceLevel + ":~"'],
  [/^warn/, '"pods~" && variables.enforcePolicy'],
  [/^warn/, 'variables.enforcePolicy == "baseline:~"'],
  [/^warn/, 'variables.enforcePolicy == "restricted:~"'],
  [/^warn-baseline/, 'size(variables.enforceVersionLabel) < 22 && '],
  [/^pod-security/, 'orValue("privileged~")'],
  [/^pod-security/, '["privileged~", "baseline", "restricted"] ? variables.auditLabel'],
  [/^pod-security/, 'orValue("baseline~")].all('],
  // If the default of mode warn is not privileged, only a label makes mode warn privileged.
  [/^pod-security/, 'orValue("baseline~") == "privileged"'],
  [/^pod-security/, `${WARN_BY_LABEL}("pod-security.kubernetes.io/enforce" in`],
  [/^pod-security/, `${WARN_BY_LABEL}!("pod-security.kubernetes.io/enforce~" in`],
];

/** The values that differ from one in one place. Descriptions, names and the static message have no effect on a verdict. */
function* alter(value: unknown, field = ''): Generator {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      if (isOfCheck(item)) continue;
      yield value.toSpliced(index, 1);
      for (const altered of alter(item, field)) yield value.with(index, altered);
    }
  } else if (typeof value === 'string') {
    if (EXPRESSIONS.has(field)) yield* mutate(value);
    else if (field === 'operator') yield OPERATORS[value];
    else if (field === 'key') yield `${value}~`;
  } else if (value !== null && typeof value === 'object') {
    for (const [key, member] of Object.entries(value))
      if (!NOT_EVALUATED.has(key)) for (const altered of alter(member, key)) yield { ...value, [key]: altered };
  }
}

function isEquivalent({ metadata }: PolicyObject, spec: unknown): boolean {
  const text = JSON.stringify(spec);
  return EQUIVALENT.some(
    ([policy, part]) => policy.test(metadata.name) && text.includes(JSON.stringify(part).slice(1, -1)),
  );
}

/** Returns the function that admits a request by a policy and its bindings. */
function answers(objects: readonly PolicyObject[]): (request: PolicyRequest) => string {
  const admit = createPolicyAdmission(objects);
  return (request) => JSON.stringify(admit(request));
}

function describe(before: unknown, after: unknown): string {
  const [a, b] = [JSON.stringify(before), JSON.stringify(after)];
  let start = 0;
  while (a[start] === b[start]) start++;
  return `${b.slice(Math.max(0, start - 60), start)}>>>${b.slice(start, start + 60)}`;
}

const counts = { mutants: 0 };

for (const [name, settings] of Object.entries(SETTINGS).slice(0, ALL ? undefined : 1)) {
  test(`policies ${name}`, () => {
    const objects = generate(settings);
    const survivors = objects
      .filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')
      .flatMap((policy) => {
        const group = [policy, ...objects.filter(({ spec }) => spec['policyName'] === policy.metadata.name)];
        const admit = answers(group);
        const expected = SCENES.map(admit);
        const isDetected = (changed: readonly PolicyObject[]): boolean => {
          try {
            const altered = answers(changed);
            return SCENES.some((one, index) => altered(one) !== expected[index]);
          } catch {
            return true;
          }
        };
        const mutants = group.flatMap((object) =>
          [...alter(object.spec)].map((spec) => ({ object, spec: spec as JsonObject })),
        );
        const selected = mutants.filter(
          ({ object, spec }, index) => (ALL || index % SAMPLE === 0) && !isEquivalent(object, spec),
        );
        counts.mutants += selected.length;
        return selected.flatMap(({ object, spec }) =>
          isDetected(group.map((one) => (one === object ? { ...one, spec } : one)))
            ? []
            : `${object.metadata.name}: ${describe(object.spec, spec)}`,
        );
      });
    assert.deepEqual(survivors, []);
  });
}

/** Pods with as many items as policies evaluate, and with one more. */
const SIZES: readonly ((count: number) => object)[] = [
  (count) => ({ spec: { containers: Array.from({ length: count }, () => ({})) } }),
  (count) => ({ spec: { volumes: Array.from({ length: count }, () => ({})) } }),
  (count) => ({
    metadata: { annotations: Object.fromEntries(Array.from({ length: count }, (_, index) => [index, ''])) },
  }),
  (count) => ({ spec: { securityContext: { sysctls: Array.from({ length: count }, () => ({})) } } }),
  (count) => ({ spec: { containers: [{ ports: Array.from({ length: count - 1 }, () => ({})) }] } }),
  (count) => ({
    spec: {
      containers: [{}, { securityContext: { capabilities: { add: Array.from({ length: count - 2 }, () => 'A') } } }],
    },
  }),
];

test('the limit of items', () => {
  const [policy] = generate({});
  const all = (policy?.spec['variables'] ?? []) as readonly CelVariable[];
  const variables = all.slice(0, all.findIndex(({ name }) => name === 'isSmall') + 1);
  const pods = SIZES.flatMap((create) => [create(MAX), create(MAX + 1)]).map((pod) => asStored(pod));
  const evaluate = (expression: string): readonly unknown[] => {
    const run = compileVariables(variables);
    return pods.map((object) => run({ object, namespaceObject: { metadata: {} } })(expression));
  };
  const { expression = '' } = variables.at(-1) ?? {};
  assert.deepEqual(
    evaluate(expression),
    SIZES.flatMap(() => [true, false]),
  );
  // The sum contains the number of containers.
  const mutants = [...mutate(expression)].filter((mutant) => !mutant.includes(`<= ${MAX + 1} &&`));
  counts.mutants += mutants.length;
  const survivors = mutants.filter((mutant) => {
    try {
      return isDeepStrictEqual(
        evaluate(mutant),
        SIZES.flatMap(() => [true, false]),
      );
    } catch {
      return false;
    }
  });
  assert.deepEqual(survivors, []);
});

after(() => {
  if (ALL) console.log(`${counts.mutants} alterations are detected`);
});
