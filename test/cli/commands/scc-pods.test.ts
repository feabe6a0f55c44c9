import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { runProgram } from '../../support/memory-io.ts';
import { startCluster, type TestCluster } from '../../support/embedded-cluster.ts';

const CLUSTER = ['-f', 'test/fixtures/scc-access/cluster.yaml'];
const ASSUMED =
  '\nAssumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; ClusterRole cluster-admin.\n';

async function namesWith(...args: string[]): Promise<readonly string[]> {
  const { stdout } = await runProgram(['scc', 'pods', '-o', 'json', ...args, ...CLUSTER]);
  const { pods } = JSON.parse(stdout) as { pods: { name: string }[] };
  return pods.map(({ name }) => name);
}

describe('scc pods refuses', () => {
  const mistakes: readonly (readonly [name: string, args: readonly string[], stderr: string])[] = [
    ['an operand', ['web'], 'error: unexpected argument "web"\nSee \'portcullis scc pods --help\' for usage.\n'],
    [
      'another kind of subject',
      ['--subject=group'],
      'error: invalid argument "group" for "--subject" flag: must be one of user, serviceaccount\n' +
        "See 'portcullis scc pods --help' for usage.\n",
    ],
    ['a path that does not exist', ['-f', 'nowhere'], 'error: the path "nowhere" does not exist\n'],
  ];
  for (const [name, args, stderr] of mistakes) {
    test(name, async () =>
      assert.deepEqual(await runProgram(['scc', 'pods', ...args]), { code: 2, stdout: '', stderr }),
    );
  }
});

describe('scc pods shows', () => {
  test('which SCC admitted each pod, and through what', async () => {
    const stdout = `NAMESPACE     POD       SCC                                       SUBJECT          GRANTED THROUGH                                                                                         SINCE                  OWNER
bank          custom    our-own                                   <none>           the SCC is gone                                                                                         <none>                 <none>
bank          iis       <none>                                    <none>           Windows: SCCs do not count                                                                              <none>                 <none>
bank          left      hostaccess                                serviceaccount   the grant is gone                                                                                       2025-12-31T23:59:59Z   <none>
kube-system   dns       <none>                                    <none>           exempt namespace                                                                                        <none>                 <none>
kube-system   forged    =HYPERLINK("https://example.com","a,b")   <none>           SCCs are not enforced here: whoever created the pod may have written this                               <none>                 <none>
shop          build-1   anyuid                                    serviceaccount   RoleBinding build, ClusterRole system:openshift:scc:anyuid                                              2026-01-02T03:04:05Z   Job/build
shop          debug     privileged                                user             granted to whoever created the pod                                                                      2026-02-03T04:05:06Z   <none>
shop          old       <none>                                    <none>           created before SCCs were enforced here                                                                  <none>                 <none>
shop          web-1     restricted-v2                             user             ClusterRoleBinding system:openshift:scc:restricted-v2, ClusterRole system:openshift:scc:restricted-v2   2026-02-03T04:05:06Z   <none>
${ASSUMED}`;
    assert.deepEqual(await runProgram(['scc', 'pods', ...CLUSTER]), { code: 0, stdout, stderr: '' });
  });

  test('the same for spreadsheets, without formulas', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '-o', 'csv', ...CLUSTER]);
    const lines = stdout.split('\r\n');
    assert.equal(lines[0], 'namespace,pod,scc,subject,granted through,since,owner,service account');
    assert.equal(
      lines[5],
      `kube-system,forged,"'=HYPERLINK(""https://example.com"",""a,b"")",,SCCs are not enforced here: whoever created the pod may have written this,,,default`,
    );
    assert.equal(
      lines[6],
      'shop,build-1,anyuid,serviceaccount,"RoleBinding build, ClusterRole system:openshift:scc:anyuid",2026-01-02T03:04:05Z,Job/build,builder',
    );
    assert.deepEqual([lines.length, lines.at(-1)], [11, '']);
  });

  test('the same for programs', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '--scc', 'anyuid', '-o', 'json', ...CLUSTER]);
    const { pods } = JSON.parse(stdout) as { pods: unknown };
    assert.deepEqual(pods, [
      {
        namespace: 'shop',
        name: 'build-1',
        serviceAccount: 'builder',
        since: '2026-01-02T03:04:05Z',
        owner: { kind: 'Job', name: 'build' },
        scc: 'anyuid',
        subject: 'serviceaccount',
        through: [
          {
            binding: { kind: 'RoleBinding', name: 'build', namespace: 'shop' },
            role: { kind: 'ClusterRole', name: 'system:openshift:scc:anyuid' },
          },
        ],
      },
    ]);
    const yaml = await runProgram(['scc', 'pods', '--scc', 'anyuid', '-o', 'yaml', ...CLUSTER]);
    assert.match(yaml.stdout, /^pods:\n {2}- namespace: shop\n {4}name: build-1\n/);
  });

  const filters: readonly (readonly [args: readonly string[], names: readonly string[]])[] = [
    [
      ['-n', 'bank'],
      ['custom', 'iis', 'left'],
    ],
    [
      ['-n', 'bank', '-A', '--subject=serviceaccount'],
      ['left', 'build-1'],
    ],
    [
      ['--subject', 'user'],
      ['debug', 'web-1'],
    ],
    [
      ['--scc', 'privileged,hostaccess'],
      ['left', 'debug'],
    ],
    [['--scc', 'privileged', '--subject', 'serviceaccount'], []],
    [['--scc', 'constructor'], []],
  ];
  for (const [args, names] of filters) {
    test(`pods with ${args.join(' ')}`, async () => assert.deepEqual(await namesWith(...args), names));
  }

  test('that there are none', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '--scc', 'none', ...CLUSTER]);
    assert.equal(stdout, `no pods\n${ASSUMED}`);
  });

  test('where SCCs do not count', async () => {
    const args = ['-n', 'shop', '--scc-exempt-namespaces', 'shop', '-o', 'csv'];
    const { stdout } = await runProgram(['scc', 'pods', ...args, ...CLUSTER]);
    assert.match(stdout, /^shop,old,,,exempt namespace,/m);
    assert.match(
      stdout,
      /^shop,web-1,.*; SCCs are not enforced here: whoever created the pod may have written this",/m,
    );
  });
});

describe('scc pods asks a cluster', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await startCluster();
    const pod = {
      metadata: { name: 'web', annotations: { 'openshift.io/scc': 'anyuid' }, labels: {} },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    };
    await cluster.admin.send('POST', '/api/v1/namespaces/default/pods', pod);
  });
  after(async () => await cluster.stop());

  test('for its pods', async () => {
    const args = ['--kubeconfig', await cluster.kubeconfig(), '-n', 'default', '-o', 'csv'];
    const { code, stdout, stderr } = await runProgram(['scc', 'pods', ...args], { terminals: ['stderr'] });
    assert.equal(code, 0);
    assert.match(
      stdout,
      /\ndefault,web,anyuid,,granted to whoever created the pod,\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,,default\r\n$/,
    );
    // How far it is, and nothing left of it.
    assert.match(stderr, /Reading https:\/\/127\.0\.0\.1:\d+: \d+ objects/);
    assert.ok(stderr.endsWith('\r\u001b[K'));
  });
});
