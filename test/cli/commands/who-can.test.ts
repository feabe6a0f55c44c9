import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';

const CLUSTER = ['-f', 'test/fixtures/scc-access/cluster.yaml'];
const ASSUMED =
  '\nAssumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; ClusterRole cluster-admin.\n';
const NAMES =
  'anyuid, hostaccess, hostmount-anyuid, hostmount-anyuid-v2, hostnetwork, hostnetwork-v2, nested-container, nonroot, nonroot-v2, privileged, restricted, restricted-v2, restricted-v3';

describe('who-can rejects', () => {
  const mistakes: readonly (readonly [name: string, args: readonly string[], stderr: string])[] = [
    ['no SCC', [], "error: missing required argument 'scc'\nSee 'portcullis who-can --help' for usage.\n"],
    [
      'several SCCs',
      ['a', 'b', ...CLUSTER],
      "error: too many arguments for 'who-can'. Expected 1 argument but got 2: a, b.\nSee 'portcullis who-can --help' for usage.\n",
    ],
    ['an unknown SCC', ['any', ...CLUSTER], `error: SCC "any" not found; existing SCCs: ${NAMES}\n`],
    [
      'an SCC of a name that objects have',
      ['constructor', ...CLUSTER],
      `error: SCC "constructor" not found; existing SCCs: ${NAMES}\n`,
    ],
    [
      'an empty namespace',
      ['anyuid', '-n', '', ...CLUSTER],
      'error: invalid argument "" for "-n, --namespace" flag: must not be empty\n' +
        "See 'portcullis who-can --help' for usage.\n",
    ],
    ['a missing namespace', ['anyuid', '-n', 'gone', ...CLUSTER], 'error: namespace "gone" not found\n'],
    [
      'no cluster',
      ['anyuid'],
      'error: no cluster to read: KUBECONFIG and HOME are not set; name a kubeconfig with --kubeconfig\n',
    ],
  ];
  for (const [name, args, stderr] of mistakes) {
    test(name, async () => assert.deepEqual(await runProgram(['who-can', ...args]), { code: 2, stdout: '', stderr }));
  }
});

describe('who-can lists', () => {
  const tables: readonly (readonly [name: string, args: readonly string[], stdout: string])[] = [
    [
      'the grants in all namespaces',
      ['anyuid'],
      `SUBJECT                       NAMESPACE   GRANTED THROUGH
Group system:cluster-admins   <all>       groups of the SCC
Group system:masters          <all>       all permissions
User root                     <all>       ClusterRoleBinding admins, ClusterRole cluster-admin
User alice                    bank        RoleBinding teller, Role any-scc
ServiceAccount shop/builder   bank        RoleBinding teller, Role any-scc
ServiceAccount shop/builder   shop        RoleBinding build, ClusterRole system:openshift:scc:anyuid
Group shop:admins             shop        RoleBinding build, ClusterRole system:openshift:scc:anyuid
`,
    ],
    [
      'the grants in a namespace',
      ['privileged', '-n', 'bank'],
      `SUBJECT                                                       NAMESPACE   GRANTED THROUGH
User system:admin                                             <all>       users of the SCC
User system:serviceaccount:openshift-infra:build-controller   <all>       users of the SCC
Group system:cluster-admins                                   <all>       groups of the SCC
Group system:nodes                                            <all>       groups of the SCC
Group system:masters                                          <all>       groups of the SCC
Group system:masters                                          <all>       all permissions
User root                                                     <all>       ClusterRoleBinding admins, ClusterRole cluster-admin
User alice                                                    bank        RoleBinding teller, Role any-scc
ServiceAccount shop/builder                                   bank        RoleBinding teller, Role any-scc
`,
    ],
  ];
  for (const [name, args, stdout] of tables) {
    test(name, async () => {
      const expected = { code: 0, stdout: `${stdout}${ASSUMED}`, stderr: '' };
      assert.deepEqual(await runProgram(['who-can', ...args, ...CLUSTER]), expected);
    });
  }

  test('JSON', async () => {
    const { stdout } = await runProgram(['who-can', 'restricted-v2', '-n', 'shop', '-o', 'json', ...CLUSTER]);
    const role = { kind: 'ClusterRole', name: 'system:openshift:scc:restricted-v2' };
    assert.deepEqual(JSON.parse(stdout), {
      scc: 'restricted-v2',
      namespace: 'shop',
      grants: [
        { subject: { kind: 'Group', name: 'system:masters' }, through: { group: 'system:masters' } },
        {
          subject: { kind: 'User', name: 'root' },
          through: {
            binding: { kind: 'ClusterRoleBinding', name: 'admins' },
            role: { kind: 'ClusterRole', name: 'cluster-admin' },
          },
        },
        {
          subject: { kind: 'Group', name: 'system:authenticated' },
          through: { binding: { kind: 'ClusterRoleBinding', name: role.name }, role },
        },
      ],
      assumptions: [
        'the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings',
        'ClusterRole cluster-admin',
      ],
    });
    const yaml = await runProgram(['who-can', 'restricted-v2', '-n', 'shop', '-o', 'yaml', ...CLUSTER]);
    assert.match(yaml.stdout, /^scc: restricted-v2\nnamespace: shop\ngrants:\n/);
  });
});
