/** Tests that the generated policies respond to requests like the webhook. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  generatePolicies,
  MAX_POLICY_ITEMS as MAX,
  type AdmissionPolicyOptions,
} from '../../../src/policy/psa/admission-policies.ts';
import {
  createPodSecurity,
  DEFAULT_CONFIGURATION,
  type PodSecurityConfiguration,
} from '../../../src/policy/psa/configuration.ts';
import { checks, minorVersion, newestVersion } from '../../../src/policy/pss/index.ts';
import { type Admission, createPolicyAdmission } from '../../support/cel.ts';
import {
  compliantPod,
  deploymentRequest,
  hostNetworkPod,
  type Labels,
  namespaceWith,
  PLAIN_DETAILS,
  plainPod,
  podRequest,
  review,
} from '../../support/pod-security.ts';
import { pods } from '../pss/arbitrary.ts';

const OPTIONS: AdmissionPolicyOptions = { modes: 'all', kubernetesMinor: minorVersion(newestVersion) };

interface Configuration {
  readonly defaults?: Partial<PodSecurityConfiguration['defaults']>;
  readonly exemptions?: Partial<PodSecurityConfiguration['exemptions']>;
}

function generate({ defaults, exemptions }: Configuration = {}, options: Partial<AdmissionPolicyOptions> = {}) {
  const podSecurity = createPodSecurity({
    defaults: { ...DEFAULT_CONFIGURATION.defaults, ...defaults },
    exemptions: { ...DEFAULT_CONFIGURATION.exemptions, ...exemptions },
  });
  return generatePolicies({ podSecurity }, { ...OPTIONS, ...options });
}

type Request = ReturnType<typeof podRequest>;

/** Admits a request in the namespace `ns`. The labels are given without their domain. */
function admit(
  policies: ReturnType<typeof createPolicyAdmission>,
  { object, oldObject, ...request }: Request,
  labels: Labels,
) {
  return policies({ object, oldObject, labels: namespaceWith(labels).metadata?.labels ?? {}, request: { ...request } });
}

/**
 * Returns the denial, the warnings and the audit annotations of the policies. An API server adds a prefix to the texts.
 */
function describeAdmission({ messages, annotations }: Admission) {
  const [denial] = messages.Deny;
  return { denial, warnings: messages.Warn, annotations };
}

/** Returns the denial, the warnings and the audit annotations of the webhook. */
function describeReview(given: Configuration, request: Request, labels: Labels) {
  const { decision } = review({ ...given, request, labels });
  const { auditAnnotations = {}, warnings = [] } = decision;
  const denial = decision.allowed ? undefined : decision.status.message?.replace(/^.* is forbidden: /, '');
  return { denial, warnings, annotations: auditAnnotations };
}

const DEFAULTS: readonly NonNullable<Configuration['defaults']>[] = [
  {},
  { enforce: 'baseline', 'enforce-version': 'v1.20', warn: 'restricted', audit: 'baseline', 'audit-version': 'v1.34' },
  { enforce: 'restricted', warn: 'baseline', 'warn-version': 'v1.36', audit: 'restricted' },
];

const level = fc.constantFrom('privileged', 'baseline', 'restricted', 'restricted', 'Baseline', '');
const version = fc.constantFrom(
  'latest',
  'v1.0',
  'v1.18',
  'v1.24',
  'v1.34',
  newestVersion,
  'v1.999',
  'v1.05',
  'v1.9223372036854775807',
  'v1.9223372036854775808',
  '1.30',
  '',
);
const labels = fc.record(
  {
    enforce: level,
    'enforce-version': version,
    audit: level,
    'audit-version': version,
    warn: level,
    'warn-version': version,
  },
  { requiredKeys: [] },
);

for (const defaults of DEFAULTS) {
  test(`the policies decide as the webhook does in arbitrary namespaces with the defaults ${JSON.stringify(defaults)}`, () => {
    const given = {
      defaults,
      exemptions: { usernames: ['root'], namespaces: ['kube-system'], runtimeClasses: ['kata'] },
    };
    const policies = createPolicyAdmission(generate(given));
    const scene = fc.record({
      labels,
      pod: fc.oneof(
        pods(),
        fc.constantFrom(
          compliantPod(),
          plainPod(),
          hostNetworkPod(),
          compliantPod({ runtimeClassName: 'kata', hostPID: true }),
        ),
      ),
      isWorkload: fc.boolean(),
      username: fc.constantFrom('alice', 'alice', 'alice', 'root'),
      namespace: fc.constantFrom('ns', 'ns', 'ns', 'kube-system'),
    });
    const seen = { denials: 0, warnings: 0, exemptions: 0, errors: 0 };
    fc.assert(
      fc.property(scene, ({ labels: own, pod, isWorkload, username, namespace }) => {
        const change = { userInfo: { username }, namespace };
        const request = isWorkload
          ? deploymentRequest({ apiVersion: 'apps/v1', kind: 'Deployment', spec: { template: pod } }, change)
          : podRequest({ apiVersion: 'v1', kind: 'Pod', ...pod }, change);
        const expected = describeReview(given, request, own);
        const actual = describeAdmission(admit(policies, request, own));
        if (expected.denial !== undefined) seen.denials++;
        if (expected.warnings.length > 0) seen.warnings++;
        if (expected.annotations['exempt'] !== undefined) seen.exemptions++;
        if (expected.annotations['error'] !== undefined) seen.errors++;
        assert.deepEqual(actual, expected);
      }),
      { numRuns: 400, seed: 1 },
    );
    for (const [name, count] of Object.entries(seen)) assert.ok(count >= 20, `${name}: ${count}`);
  });
}

test('policies record a runtime class exemption only if they would otherwise evaluate the workload', () => {
  const given = { exemptions: { runtimeClasses: ['kata'] } };
  const policies = createPolicyAdmission(generate(given));
  const request = deploymentRequest({ spec: { template: compliantPod({ runtimeClassName: 'kata' }) } });
  const exempt = { exempt: 'runtimeClass' };
  const cases: readonly (readonly [Labels, Readonly<Record<string, string>>])[] = [
    [{}, {}],
    [{ enforce: 'restricted' }, exempt],
    [{ enforce: 'restricted', warn: 'privileged' }, {}],
    [{ enforce: 'restricted', warn: 'privileged', audit: 'privileged' }, {}],
    [{ enforce: 'restricted', warn: 'privileged', audit: 'baseline' }, exempt],
    [{ warn: 'baseline' }, exempt],
  ];
  for (const [labels, annotations] of cases) {
    assert.deepEqual(describeAdmission(admit(policies, request, labels)).annotations, annotations);
    assert.deepEqual(describeReview(given, request, labels).annotations, annotations);
  }
});

const RESTRICTED: Labels = { enforce: 'restricted' };
const DENIAL = `violates PodSecurity "restricted:latest": ${PLAIN_DETAILS}`;
const WARNING = `would violate PodSecurity "restricted:latest": ${PLAIN_DETAILS}`;

function update(change: object, subResource = ''): Request {
  const oldObject = plainPod();
  const object = {
    ...oldObject,
    ...change,
    spec: { ...oldObject.spec, ...('spec' in change ? (change.spec as object) : {}) },
  };
  return podRequest(object, { operation: 'UPDATE', oldObject, subResource });
}

const EPHEMERAL = { name: 'debug', image: 'i:1' };

/** Updates to a pod that violates the restricted level, and the denials. */
const UPDATES: readonly (readonly [name: string, request: Request, denial: string | undefined])[] = [
  ['a change of metadata', update({ metadata: { name: 'p', labels: { a: 'b' } } }), undefined],
  ['a renamed container', update({ spec: { containers: [{ name: 'd', image: 'i:1' }] } }), undefined],
  [
    'a resize of a pod',
    update({ spec: { containers: [{ name: 'c', image: 'i:1', resources: {} }] } }, 'resize'),
    undefined,
  ],
  ['a changed image', update({ spec: { containers: [{ name: 'c', image: 'i:2' }] } }), DENIAL],
  ['a changed number of containers', update({ spec: { containers: [] } }), ''],
  [
    'an added init container',
    update({ spec: { initContainers: [{ name: 'c', image: 'i:1' }] } }),
    DENIAL.replaceAll('container "c"', 'containers "c", "c"'),
  ],
  [
    'an added ephemeral container',
    update({ spec: { ephemeralContainers: [EPHEMERAL] } }, 'ephemeralcontainers'),
    DENIAL.replaceAll('container "c"', 'containers "c", "debug"'),
  ],
];

describe('policies evaluate an update only if it adds containers or changes images:', () => {
  const policies = createPolicyAdmission(generate());
  for (const [name, request, denial] of UPDATES) {
    test(`${name}: ${denial === undefined ? 'not evaluated' : 'evaluated'}`, () => {
      const { denial: actual } = describeAdmission(admit(policies, request, RESTRICTED));
      assert.equal(actual, denial === '' ? undefined : denial);
      assert.equal(actual, describeReview({}, request, RESTRICTED).denial);
    });
  }
});

describe('workloads of every kind with a pod template get warnings:', () => {
  const policies = createPolicyAdmission(generate());
  const template = plainPod();
  const kinds = {
    podtemplates: { template },
    replicationcontrollers: { spec: { template } },
    replicasets: { spec: { template } },
    deployments: { spec: { template } },
    statefulsets: { spec: { template } },
    daemonsets: { spec: { template } },
    jobs: { spec: { template } },
    cronjobs: { spec: { jobTemplate: { spec: { template } } } },
  };
  const groups: Readonly<Record<string, string>> = {
    podtemplates: '',
    replicationcontrollers: '',
    jobs: 'batch',
    cronjobs: 'batch',
  };
  for (const [resource, object] of Object.entries(kinds)) {
    test(resource, () => {
      const change = { resource: { group: groups[resource] ?? 'apps', version: 'v1', resource } };
      const create = deploymentRequest(object, change);
      assert.deepEqual(describeAdmission(admit(policies, create, RESTRICTED)).warnings, [WARNING]);
      const scale = { ...create, subResource: 'scale' };
      assert.deepEqual(describeAdmission(admit(policies, scale, RESTRICTED)).warnings, []);
    });
  }
  test('a ReplicationController without a template gets no warnings', () => {
    const change = { resource: { group: '', version: 'v1', resource: 'replicationcontrollers' } };
    const { messages } = admit(policies, deploymentRequest({ spec: {} }, change), RESTRICTED);
    assert.deepEqual(messages.Warn, []);
  });
});

describe('the match condition of the policies skips only pods that comply at every version:', () => {
  const policies = createPolicyAdmission(generate());
  const AUDIT = 'pod-security.kubernetes.io';
  const ENFORCE = 'enforce-restricted.psa.portcullis.dev';
  const WARN = 'warn-restricted.psa.portcullis.dev';
  const windows = compliantPod({ os: { name: 'windows' } }, { securityContext: {} });
  const cases: readonly (readonly [name: string, pod: object, labels: Labels, evaluated: readonly string[]])[] = [
    ['a compliant pod', compliantPod(), RESTRICTED, [AUDIT]],
    ['a compliant pod at an old version', compliantPod(), { ...RESTRICTED, 'enforce-version': 'v1.0' }, [AUDIT]],
    ['a compliant pod with warnings', compliantPod(), { ...RESTRICTED, warn: 'restricted' }, [AUDIT]],
    ['a pod that complies with a lower level', plainPod(), { enforce: 'baseline' }, [AUDIT]],
    ['a violating pod', plainPod(), RESTRICTED, [ENFORCE, AUDIT]],
    ['a pod with an exception', windows, RESTRICTED, [ENFORCE, AUDIT]],
    [
      'a pod in a namespace with a warn label',
      plainPod(),
      { ...RESTRICTED, warn: 'restricted' },
      [ENFORCE, AUDIT, WARN],
    ],
    [
      'a pod in a namespace with only a warn version',
      plainPod(),
      { ...RESTRICTED, 'warn-version': 'v1.20' },
      [ENFORCE, AUDIT, WARN],
    ],
  ];
  for (const [name, pod, labels, evaluated] of cases) {
    test(name, () => assert.deepEqual(admit(policies, podRequest(pod), labels).evaluated, evaluated));
  }
});

describe('the policies deny pods with too many items without evaluation:', () => {
  const policies = createPolicyAdmission(generate());
  const [container] = compliantPod().spec?.containers ?? [];
  const repeat = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
  const securityContext = {
    ...container?.securityContext,
    capabilities: { drop: ['ALL'], add: repeat(MAX, 'NET_BIND_SERVICE') },
  };
  const sysctls = repeat(MAX, { name: 'net.ipv4.tcp_syncookies', value: '1' });
  const compliant = compliantPod();
  const { securityContext: podSecurityContext } = compliant.spec ?? {};
  const annotations = Object.fromEntries(Array.from({ length: MAX }, (_, index) => [`a${index}`, '']));
  const large: Readonly<Record<string, object>> = {
    containers: compliantPod({ containers: repeat(MAX + 1, container) }),
    volumes: compliantPod({ volumes: repeat(MAX, { name: 'v', emptyDir: {} }) }),
    ports: compliantPod({}, { ports: repeat(MAX, { containerPort: 80 }) }),
    capabilities: compliantPod({}, { securityContext }),
    sysctls: compliantPod({ securityContext: { ...podSecurityContext, sysctls } }),
    annotations: { ...compliant, metadata: { annotations } },
  };
  const denial =
    'violates PodSecurity "restricted:latest": too many containers, volumes, ports, capabilities, sysctls and annotations (policies in the API server evaluate at most 500)';
  for (const [name, pod] of Object.entries(large)) {
    test(name, () => assert.equal(describeAdmission(admit(policies, podRequest(pod), RESTRICTED)).denial, denial));
  }
  test('the largest pod within the limits is evaluated', () => {
    const pod = compliantPod({ containers: repeat(MAX, container) });
    assert.equal(describeAdmission(admit(policies, podRequest(pod), RESTRICTED)).denial, undefined);
  });
});

test('the expressions of the policies are within the limits of API servers', () => {
  const maxSize = 12_000 + 2_500 * checks.length;
  for (const { kind, metadata, spec } of generate()) {
    const size = JSON.stringify(spec).length;
    assert.ok(size < (kind.endsWith('Binding') ? 1_000 : maxSize), `${metadata.name}: ${size}`);
    const { validations = [], auditAnnotations = [] } = spec as Readonly<Record<string, Record<string, string>[]>>;
    for (const { messageExpression = '', valueExpression = '' } of [...validations, ...auditAnnotations]) {
      assert.ok(messageExpression.length + valueExpression.length <= 5 * 1024);
    }
  }
});

/**
 * Returns true if the middle operand of a conditional is a conditional without parentheses. API servers reject such an
 * expression, but the library that evaluates policies in tests accepts it.
 */
function hasOpenConditional(expression: string): boolean {
  const isOpen = (text: string): boolean => text.split(',').some((part) => /\?[^:]*\?/.test(part));
  let text = expression.replaceAll(/"(?:\\.|[^"\\])*"/g, '').replaceAll(/([.[{])\?/g, '$1');
  for (const group = /[([{]([^()[\]{}]*)[)\]}]/; group.test(text); text = text.replace(group, 'group')) {
    if (isOpen(group.exec(text)?.[1] ?? '')) return true;
  }
  return isOpen(text);
}

test('nested conditionals in expressions have the parentheses that API servers require', () => {
  assert.ok(hasOpenConditional('a ? b[?0] in ["?:"] ? c : d : e'));
  assert.ok(!hasOpenConditional('a ? (b.?c ? "d" : e) : f ? g : h'));
  const exemptions = { namespaces: ['a'], usernames: ['b'], runtimeClasses: ['c'] };
  const policies = generate({ defaults: { enforce: 'baseline', warn: 'restricted' }, exemptions });
  const expressions = [...JSON.stringify(policies).matchAll(/xpression":"((?:\\.|[^"\\])*)"/g)].map(
    ([, text]) => JSON.parse(`"${text}"`) as string,
  );
  assert.ok(expressions.length > 100);
  assert.deepEqual(expressions.filter(hasOpenConditional), []);
});
