import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { exceptionErrors } from '../../../src/config/exceptions.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { startCluster } from '../../support/dev-cluster.ts';
import { definition } from '../../support/feature-gate.ts';
import { runProgram } from '../../support/memory-io.ts';

const clusterPolicy = (name: string, ...rules: readonly object[]): JsonObject => ({
  apiVersion: 'kyverno.io/v1',
  kind: 'ClusterPolicy',
  metadata: { name },
  spec: { validationFailureAction: 'Enforce', rules },
});
const PODS = { any: [{ resources: { kinds: ['Pod'] } }] };
const levelRule = (level: string, others: object = {}, podSecurity: object = {}) => ({
  name: level,
  match: PODS,
  validate: { podSecurity: { level, version: 'latest', ...podSecurity } },
  ...others,
});
/** The rules of published policies. */
const RULES: Readonly<Record<string, string>> = {
  'disallow-host-path': 'host-path',
  'disallow-host-ports-range': 'host-port-range',
  'disallow-selinux': 'selinux-type',
  'restrict-volume-types': 'restricted-volumes',
};
const published = (name: string, others: object = {}): JsonObject =>
  clusterPolicy(name, { name: RULES[name], match: PODS, validate: { pattern: {} }, ...others });
const validatingPolicy = (name: string, spec: object): JsonObject => ({
  apiVersion: 'policies.kyverno.io/v1',
  kind: 'ValidatingPolicy',
  metadata: { name },
  spec,
});
const namespace = (name: string, labels: object = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
});
const deployment = (name: string, image: string, securityContext: object = {}): JsonObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: 'shop' },
  spec: {
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: { serviceAccountName: name, containers: [{ name: 'c', image, securityContext }] },
    },
  },
});
const ADMIN = { capabilities: { add: ['SYS_ADMIN'] } };

interface Output {
  readonly objects: readonly JsonObject[];
  readonly remainders: readonly { readonly source: string; readonly reason: string }[];
  readonly notes: readonly string[];
}

const run = async (system: string, objects: readonly JsonObject[], ...args: readonly string[]) => {
  const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
  return await runProgram(['migrate', system, '-f', '-', ...args], { stdin });
};
const convert = async (system: string, objects: readonly JsonObject[]): Promise<Output & { readonly code: number }> => {
  const { code, stdout } = await run(system, objects, '-o', 'json');
  return { code, ...(JSON.parse(stdout) as Output) };
};
const podSecurity = ({ objects }: Output): unknown =>
  (objects[0]?.['spec'] as { readonly podSecurity?: unknown } | undefined)?.podSecurity;

describe('migrate kyverno prints', () => {
  test('the rules that have no counterpart, and the controls that the level adds to them', async () => {
    const { code, stdout, stderr } = await run('kyverno', [
      published('disallow-host-path'),
      published('disallow-host-ports-range'),
      clusterPolicy('require-labels', { name: 'labels', match: PODS, validate: { pattern: {} } }),
      clusterPolicy(
        'limited',
        levelRule('baseline', { match: { any: [{ resources: { kinds: ['Pod'], names: ['a*'] } }] } }),
      ),
      clusterPolicy('roles', levelRule('baseline', { exclude: { any: [{ clusterRoles: ['cluster-admin'] }] } })),
      clusterPolicy(
        'conditions',
        levelRule('baseline', { preconditions: { all: [{ key: '{{ request.userInfo }}' }] } }),
      ),
      clusterPolicy('controls', levelRule('baseline', {}, { exclude: [{ controlName: 'Host Path' }] })),
      validatingPolicy('restrict-sysctls', { matchConditions: [{ name: 'a', expression: 'true' }] }),
      clusterPolicy('nodes', { ...levelRule('baseline'), match: { any: [{ resources: { kinds: ['Node'] } }] } }),
      clusterPolicy('future', levelRule('strict')),
    ]);
    assert.equal(code, 1);
    assert.equal(
      stdout,
      `apiVersion: config.portcullis.dev/v1alpha1
kind: PortcullisConfiguration
metadata:
  name: cluster
spec:
  podSecurity:
    defaults:
      enforce: baseline
`,
    );
    assert.equal(
      stderr,
      `10 policies read, 1 object printed
note: the levels allow unmasked procMount and user 0 in pods with hostUsers: false
no counterpart: ClusterPolicy/disallow-host-ports-range: the Pod Security Standards have no ranges of host ports: baseline allows none
no counterpart: ClusterPolicy/require-labels, rule labels: not a Pod Security policy, so keep it in Kyverno or convert it to a ValidatingAdmissionPolicy
no counterpart: ClusterPolicy/limited, rule baseline: levels apply to all pods of a namespace, but match has names
no counterpart: ClusterPolicy/roles, rule baseline: exclude has clusterRoles, which exceptions and exemptions do not support: the pods are evaluated
no counterpart: ClusterPolicy/conditions, rule baseline: levels apply to all pods of a namespace, but the rule has preconditions
no counterpart: ClusterPolicy/controls, rule baseline: the control "Host Path" is unknown
no counterpart: ValidatingPolicy/restrict-sysctls: levels apply to all pods of a namespace, but the policy has matchConditions
no counterpart: ClusterPolicy/nodes, rule baseline: the rule does not match pods
no counterpart: ClusterPolicy/future, rule strict: podSecurity.level must be baseline or restricted, and podSecurity.version must be latest or v1.N
`,
    );
  });

  test('an error if the input contains no policies', async () => {
    assert.deepEqual(await run('kyverno', [namespace('shop')]), {
      code: 1,
      stdout: '',
      stderr: '0 policies read, 0 objects printed\nno policies of kyverno found\n',
    });
  });

  for (const [claim, policies, expected] of [
    ['the level of a podSecurity rule', [clusterPolicy('a', levelRule('restricted'))], { enforce: 'restricted' }],
    [
      'the version of a rule',
      [clusterPolicy('a', levelRule('baseline', {}, { version: 'v1.24' }))],
      { enforce: 'baseline', enforceVersion: 'v1.24' },
    ],
    [
      'the level as audit and warn for rules that only report',
      [
        clusterPolicy(
          'a',
          levelRule('baseline', { validate: { failureAction: 'Audit', podSecurity: { level: 'baseline' } } }),
        ),
      ],
      { audit: 'baseline', warn: 'baseline' },
    ],
    [
      'the restricted level for a published policy of that level',
      [published('restrict-volume-types')],
      { enforce: 'restricted' },
    ],
    [
      'the level in the modes that match the actions of a ValidatingPolicy',
      [validatingPolicy('disallow-host-path', { validationActions: ['Audit', 'Warn'] })],
      { audit: 'baseline', warn: 'baseline' },
    ],
    [
      'the level of a ValidatingPolicy that is one part of a published policy',
      [validatingPolicy('adding-capabilities-strict', { matchConstraints: {} })],
      { enforce: 'restricted' },
    ],
    [
      'the level as enforce for a ValidatingPolicy without actions',
      [validatingPolicy('disallow-selinux', { matchConstraints: {} })],
      { enforce: 'baseline' },
    ],
  ] as const)
    test(claim, async () => {
      assert.deepEqual(podSecurity(await convert('kyverno', policies)), { defaults: expected });
    });

  test('exemptions for namespaces and users that no rule evaluates, and labels for namespaces that only some rules evaluate', async () => {
    const excluded = {
      any: [
        { resources: { namespaces: ['kube-*'] } },
        { subjects: [{ kind: 'ServiceAccount', name: 'runner', namespace: 'ci' }] },
      ],
    };
    const selected = {
      any: [{ resources: { kinds: ['Pod'], namespaceSelector: { matchLabels: { tier: 'high' } } } }],
    };
    const output = await convert('kyverno', [
      ...[namespace('kube-system'), namespace('shop'), namespace('bank', { tier: 'high' })],
      clusterPolicy(
        'a',
        levelRule('baseline', { exclude: excluded }),
        levelRule('restricted', { match: selected, exclude: excluded }),
      ),
    ]);
    assert.deepEqual(output.objects, [
      {
        apiVersion: 'config.portcullis.dev/v1alpha1',
        kind: 'PortcullisConfiguration',
        metadata: { name: 'cluster' },
        spec: {
          podSecurity: {
            defaults: { enforce: 'baseline' },
            exemptions: { usernames: ['system:serviceaccount:ci:runner'], namespaces: ['kube-system'] },
          },
        },
      },
      {
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: 'bank', labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
      },
    ]);
    assert.deepEqual([output.code, output.remainders], [0, []]);
  });

  const names = ({ objects }: Output): readonly unknown[] =>
    objects
      .filter(({ kind }) => kind === 'PodSecurityException')
      .map(({ metadata, spec }) => {
        const { allow, reason } = spec as {
          readonly allow: readonly { readonly check: string }[];
          readonly reason: string;
        };
        return [(metadata as { readonly name: string }).name, allow.map(({ check }) => check), reason];
      });
  const STANDARD_NOTES: readonly string[] = [
    'exceptions apply to all tags of an image',
    'the levels allow unmasked procMount and user 0 in pods with hostUsers: false',
  ];
  const CAPABILITIES = { exclude: [{ controlName: 'Capabilities', images: ['redis*'] }] };
  const exception = (spec: object): JsonObject => ({
    apiVersion: 'kyverno.io/v2',
    kind: 'PolicyException',
    metadata: { name: 'cache', namespace: 'policies' },
    spec: { exceptions: [{ policyName: 'a', ruleNames: ['*'] }], ...spec },
  });
  const inShop = { any: [{ resources: { kinds: ['Pod', 'Deployment'], namespaces: ['shop'], names: ['cache*'] } }] };
  const reason = 'excluded by PolicyException/policies/cache';
  for (const [claim, policies, expected, notes = []] of [
    [
      'an exception for a workload whose image a rule excludes',
      [clusterPolicy('a', levelRule('baseline', {}, CAPABILITIES))],
      [['cache', ['capabilities_baseline'], 'excluded by ClusterPolicy/a, rule baseline']],
    ],
    [
      'an exception for a workload that a PolicyException matches',
      [clusterPolicy('a', levelRule('baseline')), exception({ match: inShop })],
      [['cache', ['capabilities_baseline'], reason]],
    ],
    [
      'an exception from only the controls of a PolicyException',
      [
        clusterPolicy('a', levelRule('baseline')),
        exception({
          match: inShop,
          podSecurity: [
            {
              controlName: 'Capabilities',
              images: ['redis:*'],
              restrictedField: 'spec.containers[*].securityContext.capabilities.add',
              values: ['SYS_*'],
            },
          ],
        }),
      ],
      [['cache', ['capabilities_baseline'], reason]],
    ],
    [
      'no exception from a control that denies the workload in Kyverno',
      [
        clusterPolicy('a', levelRule('baseline')),
        exception({ match: inShop, podSecurity: [{ controlName: 'Seccomp' }] }),
      ],
      [],
      [
        'no workload that was read needs the exclusion of seccompProfile_baseline, seccompProfile_restricted in PolicyException/policies/cache',
      ],
    ],
    [
      'an exception from checks that only the level contains',
      [published('disallow-selinux')],
      [
        ['cache', ['capabilities_baseline'], 'not checked by the migrated policies'],
        ['web', ['capabilities_baseline'], 'not checked by the migrated policies'],
      ],
      [
        'baseline also checks appArmorProfile, capabilities_baseline, hostNamespaces, hostPathVolumes, hostPorts, hostProbesAndHostLifecycle, privileged, procMount, seccompProfile_baseline, sysctls, windowsHostProcess, which the policies did not check',
      ],
    ],
  ] as const)
    test(claim, async () => {
      const workloads = [deployment('cache', 'redis:7', ADMIN), deployment('web', 'nginx', ADMIN)];
      const output = await convert('kyverno', [...policies, ...workloads]);
      const others = output.notes.filter((note) => !STANDARD_NOTES.includes(note));
      assert.deepEqual([names(output), others], [expected, notes]);
    });

  test('an exception for a pod without a controller, even if its namespace is not in the manifests', async () => {
    const spec = { containers: [{ name: 'c', image: 'redis:7', securityContext: ADMIN }] };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'bare', namespace: 'unread' }, spec };
    const output = await convert('kyverno', [clusterPolicy('a', levelRule('baseline', {}, CAPABILITIES)), pod]);
    assert.deepEqual(names(output), [
      ['bare', ['capabilities_baseline'], 'excluded by ClusterPolicy/a, rule baseline'],
    ]);
  });

  test('exceptions that API servers accept for 33 containers that 40 rules exclude', async () => {
    const large = (name: string): JsonObject => {
      const containers = Array.from({ length: 33 }, (_, index) => {
        return { name: `c${index}`, image: 'redis:7', securityContext: ADMIN };
      });
      const template = { metadata: { labels: { app: name } }, spec: { serviceAccountName: name, containers } };
      return { ...deployment(name, 'redis:7'), spec: { selector: { matchLabels: { app: name } }, template } };
    };
    const policies = Array.from({ length: 40 }, (_, index) =>
      clusterPolicy(`policy-${index}-with-a-long-name`, levelRule('baseline', {}, CAPABILITIES)),
    );
    const output = await convert('kyverno', [...policies, deployment('cache-2', 'redis:7', ADMIN), large('cache')]);
    const exceptions = output.objects.filter(({ kind }) => kind === 'PodSecurityException');
    assert.deepEqual(
      exceptions.map(({ metadata }) => (metadata as { readonly name: string }).name),
      ['cache', 'cache-2', 'cache-2-deployment'],
    );
    const errors = exceptions.flatMap((value) => exceptionErrors({ apiVersion: String(value['apiVersion']), value }));
    assert.deepEqual(errors, []);
  });

  test('the expiry time of a PolicyException if it is earlier than the default expiry time', async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+/, '');
    const { objects } = await convert('kyverno', [
      ...[clusterPolicy('a', levelRule('baseline')), exception({ match: inShop, expiresAt })],
      deployment('cache', 'redis:7', ADMIN),
    ]);
    assert.equal((objects[1]?.['spec'] as JsonObject)['expiresAt'], expiresAt);
  });

  describe('only the level, without exemptions or exceptions, for exclusions of', () => {
    const block = (resources: object, others: object = {}) => ({ exclude: { any: [{ resources, ...others }] } });
    const rule = (others: object, controls: object = {}) => clusterPolicy('a', levelRule('baseline', others, controls));
    const bob = { subjects: [{ kind: 'User', name: 'bob' }] };
    const field = (restrictedField: string, values: readonly string[]) => ({
      exclude: [{ controlName: 'Capabilities', images: ['*'], restrictedField, values }],
    });
    const evaluated = 'the pods are evaluated';
    const cannot = 'cannot be converted. "portcullis exception create" prints an exception for a workload';
    for (const [claim, policies, reasons = []] of [
      ['deletions', [rule(block({ operations: ['DELETE'] }))]],
      ['subresources', [rule(block({ kinds: ['*/*', 'Pod/exec'] }))]],
      ['workloads instead of pods', [rule(block({ kinds: ['Deployment'] }))]],
      [
        'users in a single namespace',
        [rule(block({ namespaces: ['ci'] }, bob))],
        [`user exemptions apply in all namespaces, but exclude also has namespaces: ${evaluated}`],
      ],
      [
        'annotations',
        [rule(block({ annotations: { a: 'b' } }))],
        [`exclude has annotations, which exceptions and exemptions do not support: ${evaluated}`],
      ],
      [
        'objects by both name and namespace label',
        [rule(block({ names: ['a*'], namespaceSelector: { matchLabels: { a: 'b' } } }))],
        [`exclude has both names and namespaceSelector, which exceptions do not support: ${evaluated}`],
      ],
      [
        'fields of init containers',
        [rule({}, field('spec.initContainers[*].securityContext.capabilities.add', ['SYS_ADMIN']))],
      ],
      [
        'capabilities that the pod does not add',
        [rule({}, field('spec.containers[*].securityContext.capabilities.add', ['NET_ADMIN']))],
      ],
      [
        'fields with restricted values',
        [
          rule(
            {},
            {
              exclude: [
                {
                  controlName: 'Privileged Containers',
                  images: ['*'],
                  restrictedField: 'spec.containers[*].securityContext.privileged',
                  values: ['false'],
                },
              ],
            },
          ),
        ],
        [`the restrictedField "spec.containers[*].securityContext.privileged" is not converted, so ${evaluated}`],
      ],
      [
        'pods by an expired PolicyException',
        [rule({}), exception({ expiresAt: '2020-01-01T00:00:00Z' })],
        ['it expired at 2020-01-01T00:00:00Z'],
      ],
      [
        'users by a PolicyException',
        [rule({}), exception({ match: { any: [{ resources: { namespaces: ['shop'] }, ...bob }] } })],
        [`subjects ${cannot}`],
      ],
      [
        'labels by a PolicyException',
        [rule({}), exception({ match: { any: [{ resources: { selector: { matchLabels: { a: 'b' } } } }] } })],
        [`selector ${cannot}`],
      ],
      [
        'values by a PolicyException',
        [rule({}), exception({ allowedValues: ['NET_ADMIN'] })],
        [`allowedValues ${cannot}`],
      ],
      [
        'controllers by a PolicyException',
        [rule({}), exception({ match: { any: [{ resources: { kinds: ['Deployment'] } }] } })],
      ],
      [
        'pods from another kind of policy by a PolicyException',
        [rule({}), exception({ exceptions: [], policyRefs: [{ kind: 'ValidatingPolicy', name: 'a' }] })],
        ['no converted policy is referenced'],
      ],
    ] as const)
      test(claim, async () => {
        const output = await convert('kyverno', [...policies, namespace('ci'), deployment('cache', 'redis:7', ADMIN)]);
        const reported = output.remainders.map((remainder) => remainder.reason);
        assert.deepEqual(
          [podSecurity(output), names(output), reported],
          [{ defaults: { enforce: 'baseline' } }, [], reasons],
        );
      });
  });

  test('labels for namespaces whose labels are weaker than the policies, but not for namespaces with stricter labels', async () => {
    const enforce = 'pod-security.kubernetes.io/enforce';
    const { objects } = await convert('kyverno', [
      clusterPolicy('a', levelRule('baseline', { exclude: { any: [{ resources: { namespaces: ['own'] } }] } })),
      namespace('weak', { [enforce]: 'privileged' }),
      namespace('old', { [enforce]: 'baseline', [`${enforce}-version`]: 'v1.20' }),
      namespace('strict', { [enforce]: 'restricted' }),
      namespace('own', { 'portcullis.dev/enforce': 'restricted' }),
    ]);
    const labels = (name: string, level: string) => [name, { [enforce]: level, [`${enforce}-version`]: 'latest' }];
    assert.deepEqual(
      objects.slice(1).map(({ metadata }) => Object.values(metadata as JsonObject)),
      [labels('old', 'baseline'), ['own', { [enforce]: 'privileged' }], labels('weak', 'baseline')],
    );
  });

  test('a policy and a control with the name of an inherited property', async () => {
    const rule = levelRule('baseline', {}, { exclude: [{ controlName: 'constructor' }] });
    const output = await convert('kyverno', [clusterPolicy('constructor', rule)]);
    assert.deepEqual(podSecurity(output), { defaults: { enforce: 'baseline' } });
    assert.deepEqual(output.remainders, [
      { source: 'ClusterPolicy/constructor, rule baseline', reason: 'the control "constructor" is unknown' },
    ]);
  });

  test('a note about namespaces that policies select but that do not exist', async () => {
    const match = { any: [{ resources: { kinds: ['Pod'], namespaces: ['team-*'] } }] };
    const { notes } = await convert('kyverno', [clusterPolicy('a', levelRule('baseline', { match }))]);
    assert.ok(
      notes.includes('ClusterPolicy/a applies only to some namespaces, so label new namespaces when you create them'),
    );
  });

  test('the additional rules of published policies, without terminal escapes', async () => {
    const { stderr } = await run('kyverno', [published('disallow-selinux', { name: 'own\u001b[2J' })]);
    assert.match(
      stderr,
      /no counterpart: ClusterPolicy\/disallow-selinux, rule own\\u001b\[2J: not a Pod Security policy/,
    );
  });

  test('the exceptions that cannot be converted', async () => {
    const { remainders } = await convert('kyverno', [
      clusterPolicy('a', levelRule('baseline')),
      exception({ conditions: { any: [{ key: 'a' }] } }),
      exception({ exceptions: [{ policyName: 'other', ruleNames: ['x'] }] }),
      exception({ podSecurity: [{ controlName: 'x' }] }),
    ]);
    assert.deepEqual(
      remainders.map((remainder) => remainder.reason),
      [
        'conditions cannot be converted. "portcullis exception create" prints an exception for a workload',
        'no converted policy is referenced',
        'the control "x" is unknown',
      ],
    );
  });
});

test('migrate kyverno reads the policies of a cluster', async (t) => {
  const cluster = await startCluster();
  t.after(() => cluster.stop());
  const crd = definition('kyverno.io', 'v1', 'clusterpolicies', 'ClusterPolicy', 'Cluster');
  const paths = ['/apis/apiextensions.k8s.io/v1/customresourcedefinitions', '/apis/kyverno.io/v1/clusterpolicies'];
  for (const [index, object] of [crd, clusterPolicy('a', levelRule('baseline'))].entries()) {
    const { status, text } = await cluster.admin.send('POST', paths[index] ?? '', object);
    assert.equal(status, 201, text);
  }
  const kubeconfig = await cluster.kubeconfig();
  const { code, stdout } = await runProgram(['migrate', 'kyverno', '-o', 'json', `--kubeconfig=${kubeconfig}`]);
  assert.deepEqual([code, podSecurity(JSON.parse(stdout) as Output)], [0, { defaults: { enforce: 'baseline' } }]);
});

describe('migrate gatekeeper prints', () => {
  const constraint = (kind: string, spec: object): JsonObject => ({
    apiVersion: 'constraints.gatekeeper.sh/v1beta1',
    kind,
    metadata: { name: 'a' },
    spec,
  });
  for (const [claim, spec, defaults, reasons = []] of [
    ['the level as enforce for a constraint without an enforcement action', {}, { enforce: 'baseline' }],
    ['warn', { enforcementAction: 'warn' }, { warn: 'baseline' }],
    ['the level as audit for the enforcement action dryrun', { enforcementAction: 'dryrun' }, { audit: 'baseline' }],
    [
      'no level for scoped enforcement actions',
      { enforcementAction: 'scoped' },
      undefined,
      ['the enforcement action scoped has no counterpart'],
    ],
    [
      'no level for an action with the name of an inherited property',
      { enforcementAction: 'constructor' },
      undefined,
      ['the enforcement action constructor has no counterpart'],
    ],
    [
      'no level for a constraint that selects pods by label',
      { match: { labelSelector: { matchLabels: { a: 'b' } } } },
      undefined,
      ['levels apply to all pods of a namespace, but match has labelSelector'],
    ],
    [
      'the parameters that have no counterpart in the level',
      { parameters: { min: 80, max: 90, exemptImages: ['reg.example/*/app'] } },
      { enforce: 'baseline' },
      ['the level has its own values, so compare the parameters min, max with the check hostPorts, hostNamespaces'],
    ],
  ] as const)
    test(claim, async () => {
      const output = await convert('gatekeeper', [constraint('K8sPSPHostNetworkingPorts', spec)]);
      const found = podSecurity(output) as { readonly defaults?: unknown } | undefined;
      assert.deepEqual([found?.defaults, output.remainders.map(({ reason }) => reason)], [defaults, reasons]);
    });

  test('the baseline level if the parameters allow all of its values', async () => {
    for (const [kind, parameter, values] of [
      ['K8sPSPSeccompV2', 'allowedProfiles', ['RuntimeDefault', 'Localhost', 'not configured']],
      ['K8sPSPCapabilities', 'allowedCapabilities', ['*']],
    ] as const) {
      const level = async (allowed: readonly string[]) =>
        podSecurity(await convert('gatekeeper', [constraint(kind, { parameters: { [parameter]: allowed } })]));
      assert.deepEqual(await level(values), { defaults: { enforce: 'baseline' } });
      assert.deepEqual(await level(values.slice(1)), { defaults: { enforce: 'restricted' } });
    }
  });

  test('the constraints that do not correspond to a Pod Security control', async () => {
    const { remainders } = await convert('gatekeeper', [
      constraint('K8sRequiredLabels', {}),
      constraint('K8sPSPFSGroup', {}),
    ]);
    assert.deepEqual(
      remainders.map(({ source, reason }) => `${source}: ${reason}`),
      [
        'K8sRequiredLabels/a: not a Pod Security policy, so keep it in Gatekeeper',
        'K8sPSPFSGroup/a: the Pod Security Standards have no such check, but SCCs can enforce it',
      ],
    );
  });
});

describe('migrate', () => {
  const policy = (spec: object): JsonObject => ({
    apiVersion: 'policy/v1beta1',
    kind: 'PodSecurityPolicy',
    metadata: {
      name: 'a',
      annotations: { 'seccomp.security.alpha.kubernetes.io/allowedProfileNames': 'runtime/default,*' },
    },
    spec,
  });

  test('psp prints an SCC, and the fields that have no counterpart in SCCs', async () => {
    const { objects, remainders, notes } = await convert('psp', [
      policy({
        ...{
          privileged: true,
          hostPID: true,
          volumes: ['*'],
          allowedHostPaths: [{ pathPrefix: '/' }],
          runAsGroup: { rule: 'RunAsAny' },
        },
        hostPorts: [{ min: 80, max: 90 }],
        runAsUser: {
          rule: 'MustRunAs',
          ranges: [
            { min: 1, max: 2 },
            { min: 5, max: 6 },
          ],
        },
        fsGroup: { rule: 'MayRunAs' },
        supplementalGroups: { rule: 'MustRunAs', ranges: [{ min: 1, max: 2 }] },
        seLinux: { rule: 'MustRunAs', seLinuxOptions: { level: 's0' } },
      }),
    ]);
    assert.deepEqual(objects, [
      {
        apiVersion: 'security.openshift.io/v1',
        kind: 'SecurityContextConstraints',
        metadata: { name: 'a' },
        volumes: ['*'],
        ...{ allowPrivilegedContainer: true, allowHostNetwork: false, allowHostPID: true, allowHostIPC: false },
        ...{ allowHostPorts: true, allowHostDirVolumePlugin: true },
        runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1, uidRangeMax: 2 },
        seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0' } },
        fsGroup: { type: 'RunAsAny' },
        supplementalGroups: { type: 'MustRunAs', ranges: [{ min: 1, max: 2 }] },
        seccompProfiles: ['runtime/default', '*'],
      },
    ]);
    assert.deepEqual(
      [...remainders.map(({ reason }) => reason), ...notes],
      [
        'allowedHostPaths: SCCs have no such field',
        'runAsGroup: SCCs have no such field',
        'hostPorts: SCCs allow all host ports or none, and this SCC allows all',
        'runAsUser.ranges: SCCs have one range of user IDs, and this SCC has the first one',
        'fsGroup: SCCs have no MayRunAs, and this SCC allows all groups',
        'SCCs require an installation with --scc',
        'SCCs do not restrict procMount, but the baseline level does',
      ],
    );
  });

  test('psp rejects a policy without a name', async () => {
    const nameless = { ...policy({}), metadata: {} };
    assert.deepEqual(await runProgram(['migrate', 'psp', '-f', '-'], { stdin: JSON.stringify(nameless) }), {
      code: 2,
      stdout: '',
      stderr: 'error: a PodSecurityPolicy has no metadata.name: set it, because it becomes the name of the SCC\n',
    });
  });

  test('psp sets no volumes for a policy without volumes, because an SCC without the field would allow most volumes', async () => {
    const { objects } = await convert('psp', [policy({})]);
    assert.deepEqual([objects[0]?.['volumes'], objects[0]?.['allowHostDirVolumePlugin']], [[], false]);
  });

  test('rejects an unknown system', async () => {
    const { code, stderr } = await runProgram(['migrate', 'opa', '-f', '-'], { stdin: '' });
    assert.deepEqual([code, stderr.split('\n')[0]], [2, 'error: the system must be one of kyverno, gatekeeper, psp']);
  });
});
