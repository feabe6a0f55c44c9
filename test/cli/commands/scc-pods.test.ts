import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { installSccs } from '../../support/scc-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';

const CLUSTER = ['-f', 'test/fixtures/scc-access/cluster.yaml'];
const ASSUMED =
  '\nAssumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; ClusterRole cluster-admin.\n';

async function namesWith(...args: string[]): Promise<readonly string[]> {
  const { stdout } = await runProgram(['scc', 'pods', '-o', 'json', ...args, ...CLUSTER]);
  const { pods } = JSON.parse(stdout) as { pods: { name: string }[] };
  return pods.map(({ name }) => name);
}

describe('scc pods rejects', () => {
  const mistakes: readonly (readonly [name: string, args: readonly string[], stderr: string])[] = [
    [
      'an operand',
      ['web'],
      "error: too many arguments for 'pods'. Expected 0 arguments but got 1: web.\nSee 'portcullis scc pods --help' for usage.\n",
    ],
    [
      'another kind of subject',
      ['--subject=group'],
      'error: invalid argument "group" for "--subject" flag: must be one of user, serviceaccount\n' +
        "See 'portcullis scc pods --help' for usage.\n",
    ],
    [
      'an empty namespace',
      ['-n', ''],
      'error: invalid argument "" for "-n, --namespace" flag: must not be empty\n' +
        "See 'portcullis scc pods --help' for usage.\n",
    ],
    ['a missing namespace', ['-n', 'gone', ...CLUSTER], 'error: namespace "gone" not found\n'],
    [
      'an SCC that is not there, and that no pod names',
      ['--scc', 'our-own,constructor', ...CLUSTER],
      'error: SCC "constructor" not found; existing SCCs: anyuid, hostaccess, hostmount-anyuid, hostmount-anyuid-v2, hostnetwork, hostnetwork-v2, nested-container, nonroot, nonroot-v2, privileged, restricted, restricted-v2, restricted-v3\n',
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
  test('pods with their SCCs and grants', async () => {
    const stdout = `NAMESPACE     POD       SCC                                       SUBJECT          GRANTED THROUGH                                                                                         SINCE                  OWNER
bank          custom    our-own                                   <none>           the SCC no longer exists                                                                                <none>                 <none>
bank          iis       <none>                                    <none>           Windows pod: exempt from SCC admission                                                                  <none>                 <none>
bank          left      hostaccess                                serviceaccount   the grant no longer exists                                                                              2025-12-31T23:59:59Z   <none>
kube-system   dns       <none>                                    <none>           exempt namespace                                                                                        <none>                 <none>
kube-system   forged    =HYPERLINK("https://example.com","a,b")   <none>           SCC admission is not enforced here: the creator of the pod may have written the annotation              <none>                 <none>
shop          build-1   anyuid                                    serviceaccount   RoleBinding build, ClusterRole system:openshift:scc:anyuid                                              2026-01-02T03:04:05Z   Job/build
shop          debug     privileged                                user             admitted only because of its creator's permissions                                                      2026-02-03T04:05:06Z   <none>
shop          old       <none>                                    <none>           created before SCC admission was enforced here                                                          <none>                 <none>
shop          web-1     restricted-v2                             user             ClusterRoleBinding system:openshift:scc:restricted-v2, ClusterRole system:openshift:scc:restricted-v2   2026-02-03T04:05:06Z   <none>
${ASSUMED}`;
    assert.deepEqual(await runProgram(['scc', 'pods', '--scc-mode=enforce', ...CLUSTER]), {
      code: 0,
      stdout,
      stderr: '',
    });
  });

  test('CSV without formulas', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '--scc-mode=enforce', '-o', 'csv', ...CLUSTER]);
    const lines = stdout.split('\r\n');
    assert.equal(lines[0], 'namespace,pod,scc,subject,granted through,since,owner,service account');
    assert.equal(
      lines[5],
      `kube-system,forged,"'=HYPERLINK(""https://example.com"",""a,b"")",,SCC admission is not enforced here: the creator of the pod may have written the annotation,,,default`,
    );
    assert.equal(
      lines[6],
      'shop,build-1,anyuid,serviceaccount,"RoleBinding build, ClusterRole system:openshift:scc:anyuid",2026-01-02T03:04:05Z,Job/build,builder',
    );
    assert.deepEqual([lines.length, lines.at(-1)], [11, '']);
  });

  test('JSON', async () => {
    const { stdout } = await runProgram([
      'scc',
      'pods',
      '--scc-mode=enforce',
      '--scc',
      'anyuid',
      '-o',
      'json',
      ...CLUSTER,
    ]);
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
  ];
  for (const [args, names] of filters) {
    test(`pods with ${args.join(' ')}`, async () => assert.deepEqual(await namesWith(...args), names));
  }

  test('no pods', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '--scc-mode=enforce', '--scc', 'nonroot', ...CLUSTER]);
    assert.equal(stdout, `No pods found.\n${ASSUMED}`);
  });

  test('pods without SCC admission', async () => {
    const args = ['-n', 'shop', '--scc-exempt-namespaces', 'shop', '-o', 'csv'];
    const { stdout } = await runProgram(['scc', 'pods', ...args, ...CLUSTER]);
    assert.match(stdout, /^shop,old,,,exempt namespace,/m);
    assert.match(
      stdout,
      /^shop,web-1,.*; SCC admission is not enforced here: the creator of the pod may have written the annotation",/m,
    );
  });
});

/** A pod of a namespace that has its ranges, as `restricted-v2` would have admitted it. */
function claiming(spec: object, labels: object = {}): string {
  const annotations = {
    'openshift.io/scc': 'restricted-v2',
    'security.openshift.io/validated-scc-subject-type': 'serviceaccount',
  };
  const ranges = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
  const pod = { serviceAccountName: 'default', containers: [{ name: 'c', image: 'i' }], ...spec };
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'one', labels, annotations: ranges } },
    { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web', namespace: 'one', annotations }, spec: pod },
  ]
    .map((object) => JSON.stringify(object))
    .join('\n');
}

describe('scc pods notes', () => {
  const privileged = { image: 'i', securityContext: { privileged: true } };
  const through =
    'ClusterRoleBinding system:openshift:scc:restricted-v2, ClusterRole system:openshift:scc:restricted-v2';
  const enforced = { 'portcullis.dev/scc': 'enforce' };
  const reported = 'SCC admission is not enforced here: the creator of the pod may have written the annotation';
  const path = 'securityContext.privileged=true';
  const cases: readonly { name: string; stdin: string; args?: readonly string[]; note: string }[] = [
    { name: 'nothing for enforced namespaces', stdin: claiming({}, enforced), note: '' },
    { name: 'nothing with --scc-mode=enforce', stdin: claiming({}), args: ['--scc-mode=enforce'], note: '' },
    { name: 'mode report', stdin: claiming({}, { 'portcullis.dev/scc': 'report' }), note: reported },
    { name: 'mode report by default', stdin: claiming({}), note: reported },
    {
      name: 'fields that the recorded SCC does not allow',
      stdin: claiming({ containers: [{ name: 'c', ...privileged }] }, enforced),
      note: `does not fit restricted-v2: spec.containers[0].${path}`,
    },
    {
      name: 'disallowed fields in mode report',
      stdin: claiming({ containers: [{ name: 'c', ...privileged }] }),
      note: `${reported}; does not fit restricted-v2: spec.containers[0].${path}`,
    },
    {
      name: 'ephemeral containers that were added later',
      stdin: claiming({ ephemeralContainers: [{ name: 'd', ...privileged }] }, enforced),
      note: `added under another SCC: spec.ephemeralContainers[0].${path}`,
    },
    {
      name: 'the first of many fields only',
      stdin: claiming(
        { hostPID: true, hostIPC: true, hostNetwork: true, containers: [{ name: 'c', ...privileged }] },
        enforced,
      ),
      note: 'does not fit restricted-v2: spec.hostNetwork=true, spec.hostPID=true, spec.hostIPC=true and 1 more',
    },
  ];
  for (const { name, stdin, args = [], note } of cases) {
    test(name, async () => {
      const outcome = await runProgram(['scc', 'pods', '-f', '-', '-o', 'csv', ...args], { stdin });
      const granted = `"${[through, note].filter((part) => part !== '').join('; ')}"`;
      assert.deepEqual(outcome, {
        code: 0,
        stdout: `namespace,pod,scc,subject,granted through,since,owner,service account\r\none,web,restricted-v2,serviceaccount,${granted},,,default\r\n`,
        stderr: '',
      });
    });
  }

  test('pods without an SCC in mode report', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '-n', 'shop', ...CLUSTER]);
    assert.match(stdout, /^shop +old +<none> +<none> +SCC admission only reports here /m);
    assert.ok(stdout.endsWith('; SCC mode report for namespaces without the label (set --scc-mode).\n'), stdout);
  });
});

describe('scc pods reads a cluster', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await startCluster();
    await installSccs(cluster);
    const pod = {
      metadata: { name: 'web', annotations: { 'openshift.io/scc': 'anyuid' }, labels: {} },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    };
    await cluster.admin.send('POST', '/api/v1/namespaces/default/pods', pod);
  });
  after(async () => await cluster.stop());

  test('with its pods', async () => {
    const args = ['--kubeconfig', await cluster.kubeconfig(), '-n', 'default', '-o', 'csv', '--scc-mode=enforce'];
    const { code, stdout, stderr } = await runProgram(['scc', 'pods', ...args], { terminals: ['stderr'] });
    assert.equal(code, 0);
    assert.match(
      stdout,
      /\ndefault,web,anyuid,,admitted only because of its creator's permissions,\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,,default\r\n$/,
    );
    // How far it is, and nothing left of it.
    assert.match(stderr, /Reading https:\/\/127\.0\.0\.1:\d+: \d+ objects/);
    assert.ok(stderr.endsWith('\r\u001b[K'));
  });
});
