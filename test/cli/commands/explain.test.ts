import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { installStandardSccs, RANGES } from '../../support/controllers.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { type Environment, runProgram } from '../../support/memory-io.ts';

const folder = process.cwd();
before(() => process.chdir(join(import.meta.dirname, '../../fixtures/explain')));
after(() => process.chdir(folder));

const explain = (args: string, surroundings?: Environment) =>
  runProgram(['explain', ...args.split(' ').filter((arg) => arg !== '')], surroundings);

describe('explanations of pods', () => {
  const cases: readonly (readonly [args: string, code: number, expected: string])[] = [
    ['unknown-required-scc.yaml', 1, 'unknown-required-scc.txt'],
    ['wrong-type.yaml', 1, 'wrong-type.txt'],
    ['windows.yaml', 0, 'windows.txt'],
    ['legacy.yaml', 0, 'legacy.txt'],
    ['root.yaml --as olga --as-group operators --scc-mode=report', 0, 'root-by-olga.txt'],
    ['pods.yaml --as olga --as-group operators', 1, 'pods-by-olga.txt'],
    ['root.yaml -o json', 1, 'root.json.txt'],
    ['root.yaml -o yaml', 1, 'root.yaml.txt'],
  ];
  for (const [args, code, expected] of cases) {
    test(args, async () => {
      const stdout = await readFile(join('expected', expected), 'utf8');
      assert.deepEqual(await explain(`-f cluster.yaml -f ${args}`), { code, stdout, stderr: '' });
    });
  }

  test('for a service account as the creator, with its groups', async () => {
    const { stdout } = await explain('-f root.yaml,cluster.yaml --as system:serviceaccount:shop:builder');
    assert.match(
      stdout,
      /^Pod shop\/root: admitted by SCC root\n {2}Created by {7}system:serviceaccount:shop:builder\n/,
    );
  });
  test('for the pod templates of custom resources', async () => {
    const { code, stdout } = await explain('-f ../check/custom.yaml --offline');
    assert.equal(code, 1);
    assert.deepEqual(stdout.match(/^\S+ shop\/.*$/gm), [
      'Rollout shop/web (spec.template): no SCC admits it',
      'Service shop/hello (spec.template): admitted by SCC restricted-v2',
      'AdvancedCronJob shop/report (spec.template.broadcastJobTemplate.spec.template): no SCC admits it',
      'Template shop/bundle (objects[0]): no SCC admits it',
    ]);
  });
  test('without other objects, with standard SCCs and other assumptions', async () => {
    const { code, stdout } = await explain('-f root.yaml');
    assert.equal(code, 1);
    assert.match(stdout, /\n {2}Mode {13}report: violations are reported, and pods are neither denied nor changed\n/);
    assert.match(stdout, /\n {2}anyuid {15}10 {8}154950 {3}- {21}yes\n/);
    assert.match(
      stdout,
      /\n\nAssumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; namespaces: shop; service accounts: shop\/default; UID ranges of namespaces: shop; SCC mode report for namespaces without the label \(set --scc-mode\)\.\n$/,
    );
  });
  test('with --offline, without the cluster of the kubeconfig', async () => {
    const env = { KUBECONFIG: '/nonexistent' };
    assert.deepEqual(await explain('-f root.yaml --offline', { env }), await explain('-f root.yaml'));
  });
  test('from standard input', async () => {
    const stdin =
      '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\\u001b[2Jb"},"spec":{"containers":[{"name":"a"}]}}';
    const { code, stdout } = await explain('-f - -n other', { stdin });
    assert.equal(code, 0);
    assert.ok(stdout.startsWith('Pod other/a\\u001b[2Jb: admitted by SCC restricted-v2\n'), stdout);
  });
  test('in colors on a terminal, except with NO_COLOR', async () => {
    const args = '-f root.yaml,cluster.yaml';
    assert.ok((await explain(args, { terminals: ['stdout'] })).stdout.startsWith('\u001b[1mPod shop/root'));
    assert.deepEqual(await explain(args, { terminals: ['stdout'], env: { NO_COLOR: '1' } }), await explain(args));
  });
});

const SPEC = { containers: [{ name: 'c', image: 'i' }] };

describe('with a cluster', () => {
  let cluster: TestCluster;
  let kubeconfig = '';
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    await installStandardSccs(cluster.cluster);
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', annotations: RANGES } });
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'bare' } });
    await cluster.cluster.idle();
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });

  test('the kubeconfig user creates pods without a controller', async () => {
    const { code, stdout } = await explain('-f root.yaml', { env: { KUBECONFIG: kubeconfig } });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^Pod shop\/root: admitted by SCC anyuid\n {2}Created by {7}admin\n/);
  });
  test('--as selects another creator', async () => {
    const { code, stdout } = await explain(`-f root.yaml --kubeconfig ${kubeconfig} --as alice`);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^Pod shop\/root: no SCC admits it\n {2}Created by {7}alice\n/);
  });
  const denied: readonly (readonly [name: string, args: string, spec: object, reason: string])[] = [
    [
      'the namespace must have ranges',
      '-n bare --scc-mode enforce',
      {},
      'error fetching namespace "bare": unable to find annotation openshift.io/sa.scc.uid-range',
    ],
    [
      'the service account must exist',
      '-n shop',
      { serviceAccountName: 'builder' },
      'error looking up service account shop/builder: serviceaccount "builder" not found',
    ],
  ];
  for (const [name, args, spec, reason] of denied) {
    test(name, async () => {
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: { ...SPEC, ...spec } };
      const { code, stdout } = await explain(`-f - --kubeconfig ${kubeconfig} ${args}`, { stdin: JSON.stringify(pod) });
      assert.equal(code, 1, stdout);
      assert.match(stdout, /^Pod \w+\/web: denied\n/);
      assert.ok(stdout.includes(`\n  Denied because   ${reason}\n`), stdout);
      const json = await explain(`-f - -o json --kubeconfig ${kubeconfig} ${args}`, { stdin: JSON.stringify(pod) });
      const { objects } = JSON.parse(json.stdout) as { objects: { allowed: boolean; message: string }[] };
      assert.deepEqual(
        objects.map(({ allowed, message }) => [allowed, message]),
        [[false, reason]],
      );
    });
  }
  test('a namespace in report mode needs no ranges', async () => {
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: SPEC };
    const args = `-f - --kubeconfig ${kubeconfig} -n bare --scc-mode report --as alice`;
    const { code, stdout } = await explain(args, { stdin: JSON.stringify(pod) });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^Pod bare\/web: admitted by SCC restricted-v2\n/);
  });
  test('the service account may be created with the pod', async () => {
    const spec = { ...SPEC, serviceAccountName: 'builder' };
    const objects = [
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'builder' } },
      { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec },
    ];
    const stdin = objects.map((object) => JSON.stringify(object)).join('\n');
    const { code, stdout } = await explain(`-f - --kubeconfig ${kubeconfig} -n shop`, { stdin });
    assert.equal(code, 0, stdout);
  });
  test('ephemeral containers are ignored', async () => {
    const debug = { name: 'd', image: 'i', securityContext: { privileged: true } };
    const spec = { ...SPEC, ephemeralContainers: [debug] };
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec });
    const { code, stdout } = await explain(`-f - --kubeconfig ${kubeconfig} -n shop --as alice`, { stdin });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^Pod shop\/web: admitted by SCC restricted-v2\n/);
  });
  test('a workload in the cluster', async () => {
    const labels = { app: 'api' };
    const spec = { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: SPEC } };
    const deployment = { metadata: { name: 'api', namespace: 'shop' }, spec };
    await cluster.cluster.create('Deployment', deployment, { fieldManager: 'test' });
    for (const name of ['deployment/api', 'deployments.apps/api', 'deploy/api']) {
      const { code, stdout } = await explain(`${name} -n shop --kubeconfig ${kubeconfig}`);
      assert.equal(code, 0, stdout);
      assert.match(stdout, /^Deployment shop\/api: admitted by SCC restricted-v2\n/);
    }
    assert.deepEqual(await explain(`deployment/gone -n shop --kubeconfig ${kubeconfig}`), {
      code: 2,
      stdout: '',
      stderr: 'error: deployments.apps "gone" not found in namespace "shop"\n',
    });
  });
  test('a namespace in the cluster', async () => {
    const labels = {
      'pod-security.kubernetes.io/enforce': 'baseline',
      'pod-security.kubernetes.io/audit-version': 'v1.30',
      'pod-security.kubernetes.io/warn': 'none',
    };
    await cluster.cluster.create(
      'Namespace',
      { metadata: { name: 'team', labels } },
      { fieldManager: 'kubectl-create' },
    );
    const { code, stdout } = await explain(`ns/team namespace/shop --kubeconfig ${kubeconfig} --config config.yaml`);
    assert.equal(code, 0, stdout);
    assert.equal(
      stdout.replaceAll(/\d{4}-\d\d-\d\dT[\d:]+Z/g, 'TIME'),
      await readFile('expected/namespaces.txt', 'utf8'),
    );
    const json = await explain(`ns/team -o json --kubeconfig ${kubeconfig}`);
    const { namespaces } = JSON.parse(json.stdout) as { namespaces: { policies: { source: string }[] }[] };
    assert.deepEqual(
      namespaces.map(({ policies }) => policies.map(({ source }) => source)),
      [['label', 'label', 'label']],
    );
  });
  test('no standard SCCs are added to a cluster without SCCs', async (t) => {
    const empty = await startCluster();
    t.after(() => empty.stop());
    await empty.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', annotations: RANGES } });
    await empty.cluster.idle();
    const { code, stdout } = await explain(`-f root.yaml --kubeconfig ${await empty.kubeconfig()}`);
    assert.equal(code, 1, stdout);
    assert.ok(stdout.includes('\n  Denied because   no SecurityContextConstraints found in cluster\n'), stdout);
  });
  test('the exceptions of a namespace in manifests', async () => {
    const { code, stdout } = await explain('namespace/shop -f ../rollout/exception.yaml');
    assert.equal(code, 0);
    assert.ok(
      stdout.includes(`
  EXCEPTION          STATE     UNTIL                 APPROVED BY  USES
  gateway-net-admin  Proposed  2099-01-15T00:00:00Z  -            0
  gateway-net-admin: it is not approved: portcullis exception approve gateway-net-admin -n shop
`),
      stdout,
    );
  });

  test('the namespace must exist', async () => {
    assert.deepEqual(await explain(`-f legacy.yaml --kubeconfig ${kubeconfig}`), {
      code: 2,
      stdout: '',
      stderr: 'error: namespace "legacy" not found\n',
    });
  });
});
