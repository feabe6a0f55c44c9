import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { installStandardSccs } from '../../support/controllers.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

const CLUSTER = ['-f', 'test/fixtures/scc-access/cluster.yaml'];
const ASSUMED =
  '\nAssumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; ClusterRole cluster-admin.\n';

describe('scc who-can and scc pods print the expected output for', () => {
  const cases: readonly (readonly [args: string, expected: string])[] = [
    ['scc who-can anyuid', 'who-can-anyuid.txt'],
    ['scc who-can privileged -n bank', 'who-can-privileged-bank.txt'],
    ['scc who-can restricted-v2 -n shop -o json', 'who-can-restricted.json.txt'],
    ['scc who-can restricted-v2 -n shop -o yaml', 'who-can-restricted.yaml.txt'],
    ['scc pods --scc-mode=enforce', 'pods.table.txt'],
    ['scc pods -n bank --scc-mode=enforce -o wide --no-headers', 'pods.wide.txt'],
    ['scc pods --scc-mode=enforce -o json', 'pods.json.txt'],
    ['scc pods --scc-mode=enforce -o yaml', 'pods.yaml.txt'],
  ];
  for (const [args, expected] of cases) {
    test(args, async () => {
      const stdout = await readFile(`test/fixtures/scc-access/expected/${expected}`, 'utf8');
      assert.deepEqual(await runProgram([...args.split(' '), ...CLUSTER]), { code: 0, stdout, stderr: '' });
    });
  }
});

describe('scc pods prints', () => {
  test('names that begin with a formula as text in CSV', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '--scc-mode=enforce', '-o', 'csv', ...CLUSTER]);
    const lines = stdout.split('\r\n');
    assert.equal(lines[0], 'namespace,pod,scc,subject,granted through,since,owner,service account');
    assert.equal(
      lines[5],
      `"kube-system","forged","'=HYPERLINK(""https://example.com"",""a,b"")","","SCC admission is not enforced here: the creator of the pod may have written the annotation","","","default"`,
    );
    assert.equal(
      lines[6],
      '"shop","build-1","anyuid","serviceaccount","RoleBinding build, ClusterRole system:openshift:scc:anyuid","2026-01-02T03:04:05Z","Job/build","builder"',
    );
    assert.deepEqual([lines.length, lines.at(-1)], [11, '']);
  });

  const filters: readonly (readonly [args: string, names: string])[] = [
    ['-n bank', 'custom iis left'],
    ['-n bank -A --subject=serviceaccount', 'left build-1'],
    ['--subject user', 'debug web-1'],
    ['--scc privileged,hostaccess', 'left debug'],
    ['--scc privileged --subject serviceaccount', ''],
  ];
  for (const [args, names] of filters) {
    test(`the pods that match ${args}`, async () => {
      const { stdout } = await runProgram(['scc', 'pods', '-o', 'json', ...args.split(' '), ...CLUSTER]);
      const { pods } = JSON.parse(stdout) as { pods: { name: string }[] };
      assert.equal(pods.map(({ name }) => name).join(' '), names);
    });
  }

  const labeled = ['a', 'b'].map((name) =>
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, labels: { app: name } },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    }),
  );
  const selectors: readonly (readonly [selector: string, stdout: string])[] = [
    ['app=a', 'pod/a\n'],
    ['app!=a,app', 'pod/b\n'],
    ['app in (a, b)', 'pod/a\npod/b\n'],
    ['!app', ''],
  ];
  for (const [selector, stdout] of selectors) {
    test(`the names of pods that match ${selector}`, async () => {
      const args = ['scc', 'pods', '-f', '-', '-o', 'name', '-l', selector];
      assert.deepEqual(await runProgram(args, { stdin: labeled.join('\n') }), { code: 0, stdout, stderr: '' });
    });
  }

  test('a message if there are no pods', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '--scc-mode=enforce', '--scc', 'nonroot', ...CLUSTER]);
    assert.equal(stdout, `No pods found.\n${ASSUMED}`);
  });

  test('that SCC admission does not apply to the pods of an exempt namespace', async () => {
    const args = ['-n', 'shop', '--config=test/fixtures/scc-access/exempt.json', '-o', 'csv'];
    const { stdout } = await runProgram(['scc', 'pods', ...args, ...CLUSTER]);
    assert.match(stdout, /^"shop","old","","","exempt namespace",/m);
    assert.match(
      stdout,
      /^"shop","web-1",.*; SCC admission is not enforced here: the creator of the pod may have written the annotation",/m,
    );
  });
});

/** Returns a pod with the defaults that `restricted-v2` sets, and its namespace with ranges. */
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

describe('scc pods prints', () => {
  const privileged = { image: 'i', securityContext: { privileged: true } };
  const through =
    'ClusterRoleBinding system:openshift:scc:restricted-v2, ClusterRole system:openshift:scc:restricted-v2';
  const enforced = { 'portcullis.dev/scc': 'enforce' };
  const reported = 'SCC admission is not enforced here: the creator of the pod may have written the annotation';
  const path = 'securityContext.privileged=true';
  const unconfined = { containers: [{ name: 'c', ...privileged }] };
  const misfit = `not allowed by restricted-v2: spec.containers[0].${path}`;
  const host = { hostPID: true, hostIPC: true, hostNetwork: true };
  const many = 'not allowed by restricted-v2: spec.hostNetwork=true, spec.hostPID=true, spec.hostIPC=true and 1 more';
  const debug = { ephemeralContainers: [{ name: 'd', ...privileged }] };
  const added = `added under another SCC: spec.ephemeralContainers[0].${path}`;
  const cases: readonly (readonly [name: string, stdin: string, note: string, args?: readonly string[]])[] = [
    ['no note for a namespace in enforce mode', claiming({}, enforced), ''],
    ['no note with --scc-mode=enforce', claiming({}), '', ['--scc-mode=enforce']],
    [
      'a note about report mode in the label of the namespace',
      claiming({}, { 'portcullis.dev/scc': 'report' }),
      reported,
    ],
    ['a note about report mode by default', claiming({}), reported],
    ['a note about fields that the recorded SCC does not allow', claiming(unconfined, enforced), misfit],
    [
      'notes about report mode and about fields that the recorded SCC does not allow',
      claiming(unconfined),
      `${reported}; ${misfit}`,
    ],
    ['a note about ephemeral containers that were added later', claiming(debug, enforced), added],
    ['a note with only the first of many fields', claiming({ ...host, ...unconfined }, enforced), many],
  ];
  for (const [name, stdin, note, args = []] of cases) {
    test(name, async () => {
      const outcome = await runProgram(['scc', 'pods', '-f', '-', '-o', 'csv', ...args], { stdin });
      const granted = [through, note].filter((part) => part !== '').join('; ');
      assert.deepEqual(outcome, {
        code: 0,
        stdout: `namespace,pod,scc,subject,granted through,since,owner,service account\r\n"one","web","restricted-v2","serviceaccount","${granted}","","","default"\r\n`,
        stderr: '',
      });
    });
  }

  test('names of SCCs in CSV without formulas and control characters', async () => {
    const stdin = claiming({}).replace('"restricted-v2"', String.raw`"=\u001b[2J\r\n\u202e"`);
    const { stdout } = await runProgram(['scc', 'pods', '-f', '-', '-o', 'csv'], { stdin });
    assert.equal(stdout.split('\r\n')[1]?.split(',')[2], String.raw`"'=\u001b[2J\r\n\u202e"`);
  });

  test('a note that SCC admission is in report mode for pods without an SCC', async () => {
    const { stdout } = await runProgram(['scc', 'pods', '-n', 'shop', ...CLUSTER]);
    assert.match(stdout, /^shop +old +<none> +<none> +SCC admission only reports here /m);
    assert.ok(stdout.endsWith('; SCC mode report for namespaces without the label (set --scc-mode).\n'), stdout);
  });
});

describe('scc pods with a cluster', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await startCluster();
    await installStandardSccs(cluster.cluster);
    const pod = {
      metadata: { name: 'web', annotations: { 'openshift.io/scc': 'anyuid' }, labels: {} },
      spec: { containers: [{ name: 'c', image: 'i' }] },
    };
    await cluster.admin.send('POST', '/api/v1/namespaces/default/pods', pod);
  });
  after(async () => await cluster.stop());

  test('prints the pods of the cluster', async () => {
    const args = ['--kubeconfig', await cluster.kubeconfig(), '-n', 'default', '-o', 'csv', '--scc-mode=enforce'];
    const { code, stdout, stderr } = await runProgram(['scc', 'pods', ...args], { terminals: ['stderr'] });
    assert.equal(code, 0);
    assert.match(
      stdout,
      /\n"default","web","anyuid","","admitted only because of its creator's permissions","\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ","","default"\r\n$/,
    );
    // The progress is cleared at the end.
    assert.match(stderr, /Reading https:\/\/127\.0\.0\.1:\d+: \d+ objects/);
    assert.ok(stderr.endsWith('\r\u001b[K'));
  });
});
