import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { JsonObject, KubeObject, Namespace, Node, Pod } from '../../../src/kube/types.ts';
import { auditUserNamespaces, type AuditInput } from '../../../src/policy/rollout/user-namespace-audit.ts';
import type { RbacObjects } from '../../../src/policy/rbac/rules.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../../src/policy/scc/standard.ts';
import { laxScc } from '../../support/scc.ts';
import { pod as anyPod } from '../scc/arbitrary.ts';

const STANDARD = STANDARD_SCCS.map(({ scc }) => scc);

/** The standard roles and bindings with additional ones. */
function rbacWith(more: Partial<RbacObjects> = {}): RbacObjects {
  const standard = { clusterRoles: STANDARD_CLUSTER_ROLES, clusterRoleBindings: STANDARD_CLUSTER_ROLE_BINDINGS };
  const { clusterRoles, clusterRoleBindings } = standard as unknown as RbacObjects;
  return {
    roles: more.roles ?? [],
    roleBindings: more.roleBindings ?? [],
    clusterRoles: [...clusterRoles, ...(more.clusterRoles ?? [])],
    clusterRoleBindings: [...clusterRoleBindings, ...(more.clusterRoleBindings ?? [])],
  };
}

/** One line for each finding. */
function audit(given: Partial<AuditInput>): readonly string[] {
  const findings = auditUserNamespaces({
    sccs: STANDARD,
    namespaces: [],
    pods: [],
    sources: [],
    nodes: [],
    rbac: rbacWith(),
    include: [],
    ...given,
  });
  return findings.map(
    ({ code, severity, kind, namespace = '-', name, message }) =>
      `${code} ${severity} ${kind} ${namespace}/${name}: ${message}`,
  );
}

function podOf(scc: string, spec: JsonObject, more: JsonObject = {}): Pod {
  const annotations = scc === '' ? {} : { 'openshift.io/scc': scc };
  const metadata = { name: 'p', namespace: 'demo', annotations };
  return { metadata, spec: { hostUsers: false, ...spec }, ...more } as unknown as Pod;
}

function namespace(labels: Readonly<Record<string, string>>): Namespace {
  const annotations = { 'openshift.io/sa.scc.uid-range': '1000/10', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
  const prefixed = Object.entries(labels).map(([key, value]) => [`pod-security.kubernetes.io/${key}`, value]);
  return { metadata: { name: 'demo', annotations, labels: Object.fromEntries(prefixed) as Record<string, string> } };
}

const ONE = [{ name: 'a', securityContext: { runAsUser: 1000 } }];
const AT_RISK = 'SCC "nested-container" admitted it, which is safe in a user namespace only';

test('an installed cluster has no findings', () => {
  assert.deepEqual(audit({}), []);
});

describe('pods', () => {
  const cases: readonly { name: string; pod: Pod; namespaces?: readonly Namespace[]; expected: readonly string[] }[] = [
    { name: 'without an SCC and without permissions', pod: podOf('', { containers: ONE }), expected: [] },
    { name: 'malformed', pod: podOf('', { containers: 'many' }), expected: [] },
    {
      name: 'in the user namespace of the host',
      pod: podOf('restricted-v2', { hostUsers: true, containers: [{ name: 'a', securityContext: { runAsUser: 0 } }] }),
      expected: [],
    },
    {
      name: 'under an SCC that is at risk',
      pod: podOf('nested-container', { containers: ONE }),
      namespaces: [namespace({})],
      expected: [`UN001 high Pod demo/p: ${AT_RISK}`],
    },
    {
      name: 'with the annotation of an SCC that would not admit it',
      pod: podOf('nested-container', { hostUsers: undefined, hostPID: true, containers: ONE }),
      namespaces: [namespace({})],
      expected: [
        'UN001 medium Pod demo/p: annotation openshift.io/scc names SCC "nested-container", which would not admit it: spec.hostPID=true, spec.hostUsers (not set)',
      ],
    },
    {
      name: 'under an SCC that permits no more than restricted',
      pod: podOf('restricted-v3', { containers: ONE }),
      expected: [
        'UN007 info Pod demo/p: SCC "restricted-v3" admitted it, which allows no more without the user namespace',
      ],
    },
    {
      name: 'under a deleted SCC',
      pod: podOf('gone', { containers: ONE }),
      expected: [],
    },
    {
      name: 'with every permission that a user namespace isolates',
      pod: podOf('', {
        securityContext: { runAsUser: 0, runAsNonRoot: false },
        initContainers: [{ name: 'i', securityContext: { capabilities: { add: ['SYS_ADMIN', 'CHOWN'] } } }],
        containers: [{ name: 'a', securityContext: { procMount: 'Unmasked' } }],
        ephemeralContainers: [{ name: 'e', securityContext: { runAsUser: 0, runAsNonRoot: false } }],
      }),
      expected: [
        'UN004 medium Pod demo/p: spec.hostUsers=false with spec.securityContext.runAsUser=0, spec.securityContext.runAsNonRoot=false, ' +
          'spec.initContainers[0].securityContext.capabilities.add=["SYS_ADMIN","CHOWN"], ' +
          'spec.containers[0].securityContext.procMount="Unmasked", ' +
          'spec.ephemeralContainers[0].securityContext.runAsUser=0, spec.ephemeralContainers[0].securityContext.runAsNonRoot=false',
      ],
    },
    {
      name: 'whose containers override the pod',
      pod: podOf('', {
        securityContext: { runAsUser: 0, runAsNonRoot: false },
        containers: [{ name: 'a', securityContext: { runAsUser: 5, runAsNonRoot: true, procMount: 'Default' } }],
      }),
      expected: [],
    },
  ];
  for (const { name, pod, namespaces = [], expected } of cases) {
    test(name, () => assert.deepEqual(audit({ pods: [pod], namespaces }), expected));
  }
});

describe('levels that pods satisfy only with user namespaces', () => {
  const hardened = {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    seccompProfile: { type: 'RuntimeDefault' },
  };
  const root = podOf('', { containers: [{ name: 'a', securityContext: { ...hardened, runAsUser: 0 } }] });
  const code = 'UN005 medium Pod demo/p: violates PodSecurity';
  const detail =
    'if its user namespace does not count: runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), runAsUser=0 (container "a" must not set runAsUser=0)';
  const cases: readonly {
    name: string;
    pod?: Pod;
    labels: Readonly<Record<string, string>>;
    expected: readonly string[];
  }[] = [
    { name: 'no label', labels: {}, expected: [] },
    { name: 'baseline, which does not restrict users', labels: { enforce: 'baseline' }, expected: [] },
    { name: 'restricted', labels: { enforce: 'restricted' }, expected: [`${code} "restricted:latest" ${detail}`] },
    {
      name: 'a version with relaxations',
      labels: { enforce: 'restricted', 'enforce-version': 'v1.35' },
      expected: [`${code} "restricted:v1.35" ${detail}`],
    },
    {
      name: 'a version before the relaxations',
      labels: { enforce: 'restricted', 'enforce-version': 'v1.30' },
      expected: [`${code} "restricted:v1.30" ${detail}`],
    },
    {
      name: 'a version without the check',
      labels: { enforce: 'restricted', 'enforce-version': 'v1.20' },
      expected: [
        `${code} "restricted:v1.20" if its user namespace does not count: runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)`,
      ],
    },
    {
      name: 'other violations do not count',
      pod: podOf('', { hostNetwork: true, containers: [{ name: 'a' }] }),
      labels: { enforce: 'baseline' },
      expected: [],
    },
    {
      name: 'unmasked /proc',
      pod: podOf('', { containers: [{ name: 'a', securityContext: { procMount: 'Unmasked' } }] }),
      labels: { enforce: 'baseline' },
      expected: [
        `${code} "baseline:latest" if its user namespace does not count: procMount (container "a" must not set securityContext.procMount to "Unmasked")`,
      ],
    },
  ];
  for (const { name, pod = root, labels, expected } of cases) {
    test(name, () => {
      const found = audit({ pods: [pod], namespaces: [namespace(labels)] }).filter((line) => line.startsWith('UN005'));
      assert.deepEqual(found, expected);
    });
  }
});

describe('pods that are skipped by default', () => {
  const ended = podOf('nested-container', { containers: ONE }, { status: { phase: 'Succeeded' } });
  const failed = podOf('nested-container', { containers: ONE }, { status: { phase: 'Failed' } });
  const running = podOf('nested-container', { containers: ONE }, { status: { phase: 'Running' } });
  const shown = podOf('nested-container', { containers: ONE });
  const mirror: Pod = {
    ...shown,
    metadata: {
      ...shown.metadata,
      annotations: { ...shown.metadata?.annotations, 'kubernetes.io/config.mirror': 'x' },
    },
  };
  const cases: readonly (readonly [name: string, pod: Pod, include: AuditInput['include'], found: number])[] = [
    ['running', running, [], 1],
    ['succeeded', ended, [], 0],
    ['succeeded, included', ended, ['completed'], 1],
    ['failed', failed, ['mirror'], 0],
    ['failed, included', failed, ['completed'], 1],
    ['mirror', mirror, ['completed'], 0],
    ['mirror, included', mirror, ['mirror'], 1],
  ];
  for (const [name, pod, include, found] of cases) {
    test(name, () => assert.equal(audit({ pods: [pod], include }).length, found));
  }
});

describe('templates that require an SCC', () => {
  const withScc = (scc: string): JsonObject => ({ metadata: { annotations: { 'openshift.io/required-scc': scc } } });
  const deployment = (template: JsonObject): KubeObject =>
    ({ metadata: { name: 'web', namespace: 'demo' }, spec: { template } }) as KubeObject;
  const asks = 'annotation openshift.io/required-scc requires SCC "nested-container"';

  test('at risk', () => {
    const cronJob = {
      metadata: { name: 'c', namespace: 'demo' },
      spec: { jobTemplate: { spec: { template: withScc('nested-container') } } },
    };
    const pod = {
      metadata: { name: 'b', namespace: 'demo', annotations: { 'openshift.io/required-scc': 'nested-container' } },
    };
    const sources: AuditInput['sources'] = [
      { kind: 'Pod', object: pod },
      { kind: 'Deployment', object: deployment(withScc('nested-container')) },
      { kind: 'CronJob', object: cronJob },
    ];
    assert.deepEqual(audit({ sources }), [
      `UN002 high CronJob demo/c: ${asks}`,
      `UN002 high Deployment demo/web: ${asks}`,
      `UN002 high Pod demo/b: ${asks}`,
    ]);
  });

  test('not at risk, or none', () => {
    for (const template of [
      withScc('restricted-v3'),
      withScc('privileged'),
      withScc('gone'),
      withScc('__proto__'),
      {},
    ]) {
      assert.deepEqual(audit({ sources: [{ kind: 'Deployment', object: deployment(template) }] }), []);
    }
    assert.deepEqual(audit({ sources: [{ kind: 'Deployment', object: { metadata: { name: 'x' } } }] }), []);
  });
});

describe('grants of SCCs at risk', () => {
  const ref = (name: string, kind = 'ClusterRole') => ({ kind, name });
  const account = { kind: 'ServiceAccount', name: 'builder', namespace: 'demo' };
  const use = { verbs: ['use'], apiGroups: ['security.openshift.io'], resources: ['securitycontextconstraints'] };
  const everything = {
    metadata: { name: 'cluster-admin' },
    rules: [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }],
  };
  const nested = 'system:openshift:scc:nested-container';
  const OURS = { 'app.kubernetes.io/part-of': 'portcullis' };
  type Labels = Readonly<Record<string, string>>;
  /** The role and the binding of an installation in the namespace `security`, or similar ones. */
  const installed = (kind: string, name: string, ofBinding: Labels, ofRole: Labels): RbacObjects => {
    const place = kind === 'ServiceAccount' ? { namespace: 'security' } : {};
    const metadata = (labels: Labels) => ({ name: 'portcullis-scc', labels });
    return {
      roles: [],
      roleBindings: [],
      clusterRoles: [{ metadata: metadata(ofRole), rules: [use] }],
      clusterRoleBindings: [
        {
          metadata: metadata(ofBinding),
          roleRef: ref('portcullis-scc'),
          subjects: [{ kind, name, ...place }],
        },
      ],
    };
  };
  const printSubject = ({ clusterRoleBindings: [binding] }: RbacObjects): string =>
    (binding?.subjects ?? [])
      .map(({ kind, name, namespace: where }) => `${kind} ${where === undefined ? '' : `${where}/`}${name}`)
      .join();
  const cases: readonly { name: string; given: Partial<AuditInput>; expected: readonly string[] }[] = [
    {
      name: 'by the standard role',
      given: {
        rbac: rbacWith({
          clusterRoleBindings: [
            { metadata: { name: 'b' }, roleRef: ref(nested), subjects: [account, { kind: 'Group', name: 'dev' }] },
          ],
        }),
      },
      expected: [
        `UN003 medium ClusterRoleBinding -/b: permits the use of SCC "nested-container" to ServiceAccount demo/builder, Group dev by ClusterRole "${nested}"`,
      ],
    },
    {
      name: 'of an installation',
      given: { rbac: installed('ServiceAccount', 'portcullis', OURS, OURS) },
      expected: [
        'UN008 info ClusterRoleBinding -/portcullis-scc: permits the use of SCC "nested-container" to ServiceAccount security/portcullis by ClusterRole "portcullis-scc", so that Portcullis can grant it to others',
      ],
    },
    ...(
      [
        ['another account', installed('ServiceAccount', 'builder', OURS, OURS)],
        ['a user', installed('User', 'portcullis', OURS, OURS)],
        ['a binding of another application', installed('ServiceAccount', 'portcullis', {}, OURS)],
        ['a role of another application', installed('ServiceAccount', 'portcullis', OURS, {})],
      ] as const
    ).map(([name, rbac]) => ({
      name: `not of an installation: ${name}`,
      given: { rbac },
      expected: [
        `UN003 medium ClusterRoleBinding -/portcullis-scc: permits the use of SCC "nested-container" to ${printSubject(rbac)} by ClusterRole "portcullis-scc"`,
      ],
    })),
    {
      name: 'in one namespace by a role for all SCCs',
      given: {
        rbac: rbacWith({
          roles: [{ metadata: { name: 'any', namespace: 'demo' }, rules: [use] }],
          roleBindings: [
            {
              metadata: { name: 'b', namespace: 'demo' },
              roleRef: ref('any', 'Role'),
              subjects: [{ kind: 'User', name: 'alice' }],
            },
          ],
        }),
      },
      expected: [
        'UN003 medium RoleBinding demo/b: permits the use of SCC "nested-container" to User alice by Role "any"',
      ],
    },
    {
      name: 'not by other roles or bindings to missing roles',
      given: {
        rbac: rbacWith({
          clusterRoleBindings: [
            { metadata: { name: 'a' }, roleRef: ref('system:openshift:scc:privileged'), subjects: [account] },
            { metadata: { name: 'b' }, roleRef: ref('gone'), subjects: [account] },
          ],
        }),
      },
      expected: [],
    },
    {
      name: 'not to subjects with all permissions in the cluster',
      given: {
        rbac: rbacWith({
          clusterRoles: [everything],
          clusterRoleBindings: [
            {
              metadata: { name: 'admins' },
              roleRef: ref('cluster-admin'),
              subjects: [
                { kind: 'Group', name: 'system:masters' },
                { kind: 'User', name: 'root' },
              ],
            },
            {
              metadata: { name: 'nested' },
              roleRef: ref(nested),
              subjects: [
                { kind: 'User', name: 'root' },
                { kind: 'User', name: 'system:admin' },
              ],
            },
          ],
        }),
      },
      expected: [],
    },
    {
      name: 'to subjects with all permissions in a namespace',
      given: {
        rbac: rbacWith({
          clusterRoles: [everything],
          roleBindings: [
            {
              metadata: { name: 'admin', namespace: 'demo' },
              roleRef: ref('cluster-admin'),
              subjects: [{ kind: 'User', name: 'alice' }],
            },
          ],
        }),
      },
      expected: [
        'UN003 medium RoleBinding demo/admin: permits the use of SCC "nested-container" to User alice by ClusterRole "cluster-admin"',
      ],
    },
    {
      name: 'by the SCC itself',
      given: {
        sccs: [
          laxScc({
            name: 'own',
            userNamespaceLevel: 'RequirePodLevel',
            users: ['alice', 'system:admin'],
            groups: ['dev'],
          }),
          laxScc({ name: 'host', users: ['alice'] }),
        ],
      },
      expected: ['UN003 medium SecurityContextConstraints -/own: permits its use to User alice, Group dev'],
    },
    {
      name: 'an SCC that cannot be decoded is at risk',
      given: {
        sccs: [laxScc({ name: 'odd', userNamespaceLevel: 'RequirePodLevel', volumes: 'all', users: ['alice'] })],
      },
      expected: ['UN003 medium SecurityContextConstraints -/odd: permits its use to User alice'],
    },
  ];
  for (const { name, given, expected } of cases) test(name, () => assert.deepEqual(audit(given), expected));

  test('default capabilities put an SCC at risk', () => {
    const v3 = STANDARD.find(({ metadata }) => metadata?.name === 'restricted-v3');
    const metadata = { name: 'adding' };
    const adding = { ...v3, metadata, defaultAddCapabilities: ['SYS_ADMIN'], groups: ['dev'] };
    assert.deepEqual(audit({ sccs: [adding] }), [
      'UN003 medium SecurityContextConstraints -/adding: permits its use to Group dev',
    ]);
  });
});

describe('nodes', () => {
  const nodeWith = (kubeletVersion: unknown): Node =>
    ({ metadata: { name: 'n1' }, status: { nodeInfo: { kubeletVersion } } }) as unknown as Node;
  const advice = 'kubelets before 1.30.0 run pods without the user namespace that they request';
  const cases: readonly (readonly [version: unknown, expected: string | undefined])[] = [
    ['v1.30.0', undefined],
    ['v1.30.0-rc.1+k3s1', undefined],
    ['v1.100.0', undefined],
    ['', undefined],
    [undefined, undefined],
    ['v1.29.8', `kubelet version is v1.29.8; ${advice}`],
    ['v1.30', `kubelet version v1.30 cannot be parsed (No Major.Minor.Patch elements found); ${advice}`],
  ];
  for (const [version, expected] of cases) {
    test(JSON.stringify(version) ?? 'none', () => {
      assert.deepEqual(
        audit({ nodes: [nodeWith(version)] }),
        expected === undefined ? [] : [`UN006 high Node -/n1: ${expected}`],
      );
    });
  }

  test('do not matter if all namespaces enforce older versions', () => {
    const nodes = [nodeWith('v1.29.8')];
    const old = namespace({ 'enforce-version': 'v1.34' });
    assert.deepEqual(audit({ nodes, namespaces: [old] }), []);
    assert.equal(audit({ nodes, namespaces: [old, namespace({ 'enforce-version': 'v1.35' })] }).length, 1);
    assert.equal(audit({ nodes, namespaces: [old, namespace({})] }).length, 1);
  });
});

test('findings are sorted by namespace, kind, name and code', () => {
  const inNamespace = (name: string, namespaceName: string): Pod => ({
    ...podOf('nested-container', { containers: [{ name: 'a', securityContext: { runAsUser: 0 } }] }),
    metadata: { name, namespace: namespaceName, annotations: { 'openshift.io/scc': 'nested-container' } },
  });
  const pods = [inNamespace('b', 'two'), inNamespace('a', 'two'), inNamespace('c', 'one')];
  const nodes = [{ metadata: { name: 'n' }, status: { nodeInfo: { kubeletVersion: 'v1.1.0' } } }] as unknown as Node[];
  assert.deepEqual(
    audit({ pods, nodes }).map((line) => line.split(':')[0]),
    [
      'UN006 high Node -/n',
      'UN001 high Pod one/c',
      'UN004 medium Pod one/c',
      'UN001 high Pod two/a',
      'UN004 medium Pod two/a',
      'UN001 high Pod two/b',
      'UN004 medium Pod two/b',
    ],
  );
});

test('random pods do not throw, and pods without a user namespace are found for their SCC only', () => {
  fc.assert(
    fc.property(anyPod, fc.constantFrom('nested-container', 'restricted-v3', ''), (pod, scc) => {
      const one = { ...pod, metadata: { name: 'p', namespace: 'demo', annotations: { 'openshift.io/scc': scc } } };
      const lines = audit({ pods: [one], namespaces: [namespace({ enforce: 'restricted' })] });
      const { hostUsers } = pod['spec'] as { readonly hostUsers?: boolean };
      if (hostUsers !== false) assert.deepEqual(lines.length, scc === 'nested-container' ? 1 : 0);
    }),
    { numRuns: 300 },
  );
});
