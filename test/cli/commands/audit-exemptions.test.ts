import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { PolicyExemption } from '../../../src/web/report-data.ts';
import { runProgram } from '../../support/memory-io.ts';

const fixtures = join(import.meta.dirname, '../../fixtures/exemptions');
const cluster = await readFile(join(fixtures, 'cluster.yaml'), 'utf8');
const audit = (args: readonly string[], stdin = cluster) =>
  runProgram(['audit', 'exemptions', '-f', '-', ...args], { stdin });

const list = async (args: readonly string[], stdin?: string): Promise<readonly PolicyExemption[]> =>
  (JSON.parse((await audit(['-o', 'json', ...args], stdin)).stdout) as { exemptions: readonly PolicyExemption[] })
    .exemptions;

describe('audit exemptions lists the exemptions', () => {
  test('as a table', async () => {
    const expected = await readFile(join(fixtures, 'expected/table.txt'), 'utf8');
    assert.deepEqual(await audit([]), { code: 0, stdout: expected, stderr: '' });
  });

  test('as names and without headers', async () => {
    const { stdout } = await audit(['-o', 'name']);
    assert.match(stdout, /^default\/privileged\nnamespace\/kube-system\n(?:.+\n)+grant\/User system:admin\n/);
    assert.match((await audit(['--no-headers'])).stdout, /\n\ndefault {2}/);
  });

  test('as JSON and YAML', async () => {
    const grant = (await list([])).find(({ name }) => name === 'ServiceAccount shop/builder');
    assert.deepEqual(grant, {
      kind: 'grant',
      name: 'ServiceAccount shop/builder',
      policy: 'SCC',
      source: 'RoleBinding builders, ClusterRole use-privileged',
      scc: 'privileged',
      namespace: 'shop',
      since: '2026-05-06T07:08:09Z',
      sinceSource: 'creationTimestamp',
      pods: 1,
    });
  });
});

const config = `kind: PortcullisConfiguration
apiVersion: config.portcullis.dev/v1alpha1
metadata: { name: cluster }
spec: { podSecurity: { defaults: { enforce: restricted }, exemptions: { usernames: [bob] } }, scc: { mode: 'off' } }
`;

interface Case {
  readonly name: string;
  readonly stdin: string;
  readonly expected: readonly string[];
}

/** Each exemption as `kind name policy since sinceSource uses`. */
const CASES: readonly Case[] = [
  {
    name: 'is empty for a cluster that enforces all policies without exemptions',
    stdin: config.replace(', exemptions: { usernames: [bob] }', '').replace("mode: 'off'", 'mode: enforce'),
    expected: [],
  },
  {
    name: 'contains exemptions without times and uses if managed fields, creation times and Leases are missing',
    stdin: config,
    expected: ['default off SCC', 'user bob Pod Security'],
  },
  {
    name: 'contains an exempt namespace only once, regardless of its labels',
    stdin: `${config.replace('usernames: [bob]', 'namespaces: [one]')}---
apiVersion: v1
kind: Namespace
metadata: { name: one, labels: { pod-security.kubernetes.io/enforce: privileged, openshift.io/run-level: "0" } }
`,
    expected: ['default off SCC', 'namespace one Pod Security'],
  },
  {
    name: 'contains the installation namespace, which the webhook selectors exclude',
    stdin: `${config.replace("mode: 'off'", 'mode: enforce')}---
apiVersion: v1
kind: Namespace
metadata: { name: portcullis }
`,
    expected: ['namespace portcullis webhook', 'namespace portcullis SCC', 'user bob Pod Security'],
  },
  {
    name: 'contains namespaces with labels that exempt them from SCCs, but not a namespace with an invalid label',
    stdin: ['openshift.io/run-level: "1"', 'portcullis.dev/scc: none', 'portcullis.dev/scc: report']
      .map(
        (label, index) => `---\napiVersion: v1\nkind: Namespace\nmetadata: { name: n${index}, labels: { ${label} } }\n`,
      )
      .reduce((text, one) => text + one, config.replace("mode: 'off'", 'mode: enforce')),
    expected: ['namespace n0 SCC', 'namespace n2 SCC', 'user bob Pod Security'],
  },
];

describe('the list of exemptions', () => {
  test('counts only the namespaces without a label that enforce nothing', async () => {
    const stdin = ['{}', '{ portcullis.dev/enforce: baseline }', '{ pod-security.kubernetes.io/enforce: baseline }']
      .map(
        (labels, index) => `---\napiVersion: v1\nkind: Namespace\nmetadata: { name: n${index}, labels: ${labels} }\n`,
      )
      .reduce((text, one) => text + one, config.replace('enforce: restricted', 'enforce: privileged'));
    const [first] = await list([], stdin);
    assert.deepEqual([first?.name, first?.policy, first?.namespaces], ['privileged', 'Pod Security', 1]);
  });

  for (const { name, stdin, expected } of CASES) {
    test(name, async () => {
      const exemptions = (await list([], stdin)).filter(({ kind }) => kind !== 'scc' && kind !== 'grant');
      const shown = exemptions.map(({ kind, name, policy, since, uses }) =>
        [kind, name, policy, since, uses].filter((one) => one !== undefined).join(' '),
      );
      assert.deepEqual(shown, expected);
    });
  }

  test('contains warnings about exemptions that have no effect or exempt too many users', async () => {
    const account = (name: string): string => `"system:serviceaccount:${name}"`;
    const names = ['kube-system:replicaset-controller', 'shop:web', 'shop:ci', 'shop:debugger'];
    const users = names.map(account).join();
    const objects = `${config.replace('usernames: [bob]', `namespaces: [old, shop], usernames: [${users}]`)}
---
{ apiVersion: v1, kind: Namespace, metadata: { name: shop } }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: edit }
rules: [{ apiGroups: [''], resources: [pods], verbs: ['*'] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: ci, namespace: shop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit }
subjects: [{ kind: ServiceAccount, name: ci }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: debug, namespace: shop }
rules: [{ apiGroups: [''], resources: [pods/ephemeralcontainers], verbs: [patch] }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: debug, namespace: shop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: debug }
subjects: [{ kind: ServiceAccount, name: debugger }]
`;
    const { stdout } = await audit(['-o', 'json'], objects);
    const { problems } = JSON.parse(stdout) as { problems: readonly { readonly name: string; problem: string }[] };
    assert.deepEqual(
      problems.map(({ name, problem }) => `${name}: ${problem}`),
      [
        'old: does not exist, so any user who can create it can run exempt pods in it',
        'system:serviceaccount:kube-system:replicaset-controller: creates the pods of the workloads of all users, so all of these pods are exempt',
        'system:serviceaccount:shop:web: exempts no pods, because the service account may neither create nor change pods',
      ],
    );
  });

  test('shows an exception whose approval is null as not approved', async () => {
    const allow = '[{ check: hostNamespaces, values: [hostNetwork] }]';
    const exemptions = await list(
      [],
      `apiVersion: policy.portcullis.dev/v1alpha1
kind: PodSecurityException
metadata: { name: web, namespace: shop }
spec: { serviceAccountName: web, reason: SEC-1, expiresAt: "2099-01-01T00:00:00Z", allow: ${allow} }
status: { approval: null }
`,
    );
    assert.deepEqual(
      exemptions.flatMap(({ kind, name, source, since }) => (kind === 'exception' ? [{ name, source, since }] : [])),
      [
        {
          name: 'shop/web',
          source: 'hostNamespaces for ServiceAccount web until 2099-01-01T00:00:00Z, approved by no user: SEC-1',
          since: undefined,
        },
      ],
    );
  });

  test('contains the standard SCCs that exceed the restricted level, but not the grants to system:masters', async () => {
    const exemptions = await list([], config);
    const sccs = exemptions.filter(({ kind }) => kind === 'scc').map(({ name, level }) => `${name} ${level}`);
    assert.deepEqual(sccs, ['anyuid baseline', 'privileged privileged']);
    assert.ok(!exemptions.some(({ name }) => name.includes('system:masters')));
  });
});
