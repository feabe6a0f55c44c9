import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { dnsSubdomainErrors } from '../../../src/kube/names.ts';
import { installStandardSccs, RANGES } from '../../support/controllers.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { type Environment, runProgram } from '../../support/memory-io.ts';

const folder = process.cwd();
before(() => process.chdir(join(import.meta.dirname, '../../fixtures/explain')));
after(() => process.chdir(folder));

const explain = (args: string, surroundings?: Environment) =>
  runProgram(['explain', ...args.split(' ').filter((arg) => arg !== '')], surroundings);

describe('explain', () => {
  const cases: readonly (readonly [args: string, code: number, expected: string])[] = [
    ['unknown-required-scc.yaml', 1, 'unknown-required-scc.txt'],
    ['windows.yaml', 0, 'windows.txt'],
    ['legacy.yaml', 0, 'legacy.txt'],
    ['root.yaml --as olga --as-group operators --scc-mode=report', 0, 'root-by-olga.txt'],
    ['pods.yaml --as olga --as-group operators', 1, 'pods-by-olga.txt'],
    ['root.yaml -o json', 1, 'root.json.txt'],
    ['root.yaml -o yaml', 1, 'root.yaml.txt'],
  ];
  for (const [args, code, expected] of cases) {
    test(`prints the decisions for ${args}`, async () => {
      const stdout = await readFile(join('expected', expected), 'utf8');
      assert.deepEqual(await explain(`-f cluster.yaml -f ${args}`), { code, stdout, stderr: '' });
    });
  }

  test('adds the groups of a service account that --as names', async () => {
    const { stdout } = await explain('-f root.yaml,cluster.yaml --as system:serviceaccount:shop:builder');
    assert.match(
      stdout,
      /^Pod shop\/root: admitted by SCC root\n {2}Created by {7}system:serviceaccount:shop:builder\n/,
    );
  });
  test('prints a result for each pod template of a custom resource', async () => {
    const { code, stdout } = await explain('-f ../check/custom.yaml --offline');
    assert.equal(code, 1);
    assert.deepEqual(stdout.match(/^\S+ shop\/.*$/gm), [
      'Rollout shop/web (spec.template): denied, violates PodSecurity "baseline:latest"',
      'Service shop/hello (spec.template): admitted',
      'AdvancedCronJob shop/report (spec.template.jobTemplate.spec.template): admitted',
      'AdvancedCronJob shop/report (spec.template.broadcastJobTemplate.spec.template): denied, violates PodSecurity "baseline:latest"',
      'Pod shop/p: denied, violates PodSecurity "baseline:latest"',
    ]);
  });
  test('assumes and lists the standard SCCs, namespaces, accounts and ranges that the manifests lack', async () => {
    const { code, stdout } = await explain('-f root.yaml');
    assert.equal(code, 0);
    assert.match(stdout, /^Pod shop\/root: admitted\n/);
    assert.match(
      stdout,
      /\n {2}SCC mode {9}report: violations are reported, and pods are neither denied nor changed\n/,
    );
    assert.match(
      stdout,
      /\n {2}In enforce mode {2}the pod would be denied: no SCC admits the pod \(the closest SCC is .*\)\n/,
    );
    assert.match(stdout, /\n {2}anyuid {15}10 {8}154950 {3}- {21}yes\n/);
    assert.match(
      stdout,
      /\n\nAssumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; namespaces: shop; service accounts: shop\/default; UID ranges of namespaces: shop; SCC mode report for namespaces without the label \(set --scc-mode\)\.\n$/,
    );
  });
  test('does not read a kubeconfig with --offline', async () => {
    const env = { KUBECONFIG: '/nonexistent' };
    assert.deepEqual(await explain('-f root.yaml --offline', { env }), await explain('-f root.yaml'));
  });
  test('reads standard input, and rejects objects that API servers reject', async () => {
    const stdin =
      '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a\\u001b[2Jb"},"spec":{"containers":[{"name":"a"}]}}';
    const { code, stderr } = await explain('-f - -n other', { stdin });
    const error = (position: string, text: string): string =>
      `stdin:${position}: API servers reject the Pod "a\\x1b[2Jb": ${text}\n`;
    const [rule = ''] = dnsSubdomainErrors('-');
    assert.equal(
      stderr,
      `error: ${error('1:45', `metadata.name: Invalid value: "a\\x1b[2Jb": ${rule}. Use another name in metadata.name, such as "a-2jb".`)}${error('1:89', 'spec.containers[0].image: Required value. Set spec.containers[0].image to the name of an image.')}`,
    );
    assert.equal(code, 2);
  });
  test('prints colors on a terminal unless NO_COLOR is set', async () => {
    const args = '-f root.yaml,cluster.yaml';
    assert.ok((await explain(args, { terminals: ['stdout'] })).stdout.startsWith('\u001b[1mPod shop/root'));
    assert.deepEqual(await explain(args, { terminals: ['stdout'], env: { NO_COLOR: '1' } }), await explain(args));
  });
});

/** Manifests of a cluster with the settings, a namespace with labels, and a Deployment in the namespace. */
interface Situation {
  readonly settings?: object;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: object;
  readonly others?: readonly object[];
}

const LABELS = { app: 'web' };
const LEVEL = 'pod-security.kubernetes.io/enforce';
const NETWORK = { ...{ hostNetwork: true }, containers: [{ name: 'web', image: 'i' }] };
const FINISHED = {
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name: 'web' },
  spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'web', image: 'i' }] } } },
  status: { conditions: [{ type: 'Complete', status: 'True' }] },
};
const WOULD_NOT = 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)';
const ENFORCED = [
  {
    apiVersion: 'config.openshift.io/v1alpha1',
    kind: 'PSAEnforcementConfig',
    metadata: { name: 'cluster' },
    spec: { enforcementMode: 'Restricted' },
    status: { enforcementMode: 'Restricted' },
  },
  {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: 'portcullis-pod-security',
      namespace: 'portcullis',
      annotations: { 'portcullis.dev/pod-security-default': 'restricted' },
    },
  },
];

describe('explain prints the result and its cause:', () => {
  const CASES: readonly (readonly [name: string, given: Situation, result: string, rows: readonly string[]])[] = [
    [
      'the level in the label denies the pod',
      { labels: { [LEVEL]: 'baseline' }, spec: NETWORK },
      'denied, violates PodSecurity "baseline:latest"',
      [`Denied because   ${WOULD_NOT}`, 'Pod Security     baseline:latest (label)'],
    ],
    [
      'the default level denies the pod',
      { settings: { podSecurity: { defaults: { enforce: 'baseline' } } }, spec: NETWORK },
      'denied, violates PodSecurity "baseline:latest"',
      [`Denied because   ${WOULD_NOT}`, 'Pod Security     baseline:latest (default)'],
    ],
    [
      'the level of the rollout denies the pod',
      { settings: { rollout: { phase: 'Enforce' } }, others: ENFORCED },
      'denied, violates PodSecurity "restricted:latest"',
      ['Pod Security     restricted:latest (rollout)'],
    ],
    [
      'SCC admission and the level deny the pod',
      { labels: { [LEVEL]: 'baseline', 'portcullis.dev/scc': 'enforce' }, spec: NETWORK },
      'denied, no SCC admits it, violates PodSecurity "baseline:latest"',
      [`Denied because   ${WOULD_NOT}`],
    ],
    [
      'SCC admission sets fields, so the level admits the pod',
      { labels: { [LEVEL]: 'restricted', 'portcullis.dev/scc': 'enforce' } },
      'admitted by SCC restricted-v2',
      ['Pod Security     restricted:latest (label)', 'SCC mode         enforce'],
    ],
    [
      'SCC admission in report mode does not set fields, so the level denies the pod',
      { labels: { [LEVEL]: 'restricted' } },
      'denied, violates PodSecurity "restricted:latest"',
      ['In enforce mode  SCC restricted-v2 would admit the pod'],
    ],
    [
      'pod defaults set fields, so the level admits the pod',
      {
        labels: { [LEVEL]: 'restricted' },
        settings: { defaults: { mode: 'apply' } },
      },
      'admitted',
      ['Pod Security     restricted:latest (label)'],
    ],
    [
      'the runtime class is exempt, so Pod Security admits the pod',
      {
        labels: { [LEVEL]: 'baseline' },
        settings: { podSecurity: { exemptions: { runtimeClasses: ['kata'] } } },
        spec: { ...NETWORK, runtimeClassName: 'kata' },
      },
      'admitted',
      ['Pod Security     exempt (runtimeClass)'],
    ],
    [
      'a finished Job creates no pods',
      { others: [FINISHED], labels: { [LEVEL]: 'restricted' } },
      'finished, creates no more pods',
      [],
    ],
  ];
  for (const [
    name,
    { settings = {}, labels = {}, spec = { containers: [{ name: 'web', image: 'i' }] }, others = [] },
    result,
    rows,
  ] of CASES) {
    test(name, async () => {
      const objects = [
        {
          apiVersion: 'config.portcullis.dev/v1alpha1',
          kind: 'PortcullisConfiguration',
          metadata: { name: 'cluster' },
          spec: settings,
        },
        { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default', labels } },
        {
          apiVersion: 'apps/v1',
          kind: 'Deployment',
          metadata: { name: 'web' },
          spec: { selector: { matchLabels: LABELS }, template: { metadata: { labels: LABELS }, spec } },
        },
        ...others,
      ];
      const stdin = objects.map((object) => JSON.stringify(object)).join('\n');
      const target = others.includes(FINISHED) ? 'job/web' : 'deployment/web';
      const { code, stdout } = await explain(`${target} -f - --offline`, { stdin });
      assert.equal(stdout.slice(0, stdout.indexOf('\n')).replace(/^.*?: /, ''), result, stdout);
      assert.equal(code, result.startsWith('denied') ? 1 : 0);
      for (const row of rows) assert.ok(stdout.includes(`\n  ${row}\n`), stdout);
      const json = await explain(`${target} -f - --offline -o json`, { stdin });
      const {
        objects: [explained],
      } = JSON.parse(json.stdout) as { objects: { allowed: boolean }[] };
      assert.equal(explained?.allowed, code === 0);
    });
  }
});

const SPEC = { containers: [{ name: 'c', image: 'i' }] };

describe('explain with a cluster', () => {
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

  test('assumes that the kubeconfig user creates a pod without a controller', async () => {
    const { code, stdout } = await explain('-f root.yaml --scc-mode enforce', { env: { KUBECONFIG: kubeconfig } });
    assert.equal(code, 0, stdout);
    assert.match(
      stdout,
      /^Pod shop\/root: admitted by SCC anyuid\n {2}Created by {7}admin \(assumed: the user of the kubeconfig; set --as\)\n/,
    );
  });
  test('evaluates the pod for the creator in --as', async () => {
    const { code, stdout } = await explain(`-f root.yaml --kubeconfig ${kubeconfig} --as alice --scc-mode enforce`);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^Pod shop\/root: denied, no SCC admits it\n {2}Created by {7}alice\n/);
  });
  test('rejects a service account that does not exist', async () => {
    const reason = 'error looking up service account shop/builder: serviceaccount "builder" not found';
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web' },
      spec: { ...SPEC, serviceAccountName: 'builder' },
    };
    const stdin = JSON.stringify(pod);
    const { code, stdout } = await explain(`-f - --kubeconfig ${kubeconfig} -n shop`, { stdin });
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^Pod shop\/web: denied, its service account does not exist\n/);
    assert.ok(stdout.includes(`\n  Denied because   ${reason}\n`), stdout);
    const json = await explain(`-f - -o json --kubeconfig ${kubeconfig} -n shop`, { stdin });
    const { objects } = JSON.parse(json.stdout) as { objects: { allowed: boolean; denials: object[] }[] };
    assert.deepEqual(
      objects.map(({ allowed, denials }) => [allowed, denials]),
      [[false, [{ by: 'ServiceAccount', message: reason }]]],
    );
  });
  test('assumes the ranges that Portcullis would allocate in enforce mode', async () => {
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec: SPEC };
    const args = `-f - --kubeconfig ${kubeconfig} -n bare --scc-mode enforce --as alice`;
    const { code, stdout } = await explain(args, { stdin: JSON.stringify(pod) });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^Pod bare\/web: admitted by SCC restricted-v2\n/);
    assert.match(stdout, /\nAssumed: UID ranges of namespaces: bare\.\n/);
  });
  test('accepts a service account that the manifests contain', async () => {
    const spec = { ...SPEC, serviceAccountName: 'builder' };
    const objects = [
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'builder' } },
      { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec },
    ];
    const stdin = objects.map((object) => JSON.stringify(object)).join('\n');
    const { code, stdout } = await explain(`-f - --kubeconfig ${kubeconfig} -n shop`, { stdin });
    assert.equal(code, 0, stdout);
  });
  test('prints fixes whose commands select the same cluster', async () => {
    const metadata = { name: 'vpn', namespace: 'shop' };
    const securityContext = { capabilities: { add: ['NET_ADMIN'] } };
    const spec = { ...SPEC, containers: [{ name: 'c', image: 'i', securityContext }] };
    await cluster.cluster.create('Pod', { metadata, spec }, { fieldManager: 'test' });
    const at = `--kubeconfig=${kubeconfig}`;
    const { code, stdout } = await explain(`pod/vpn -n shop ${at} --as alice --scc-mode enforce`);
    assert.equal(code, 1, stdout);
    const printed = stdout.match(/portcullis scc (?:create|grant) .*?\.(?= This|\n)/g);
    assert.deepEqual(printed, [
      `portcullis scc create vpn pod/vpn -n shop ${at}.`,
      `portcullis scc grant privileged -z default -n shop ${at}.`,
    ]);
  });
  test('states that the ephemeral containers of a pod affect only exec and attach', async () => {
    const debug = { name: 'd', image: 'i', securityContext: { privileged: true } };
    const spec = { ...SPEC, ephemeralContainers: [debug] };
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'web' }, spec });
    const { code, stdout } = await explain(`-f - --kubeconfig ${kubeconfig} -n shop --as alice --scc-mode enforce`, {
      stdin,
    });
    assert.equal(code, 0, stdout);
    assert.match(stdout, /^Pod shop\/web: admitted by SCC restricted-v2\n/);
    assert.match(
      stdout,
      /\n {2}Exec and attach {2}denied because of ephemeral containers: no SCC admits the pod \(.*\)\n/,
    );
  });
  test('reads a workload of the cluster by its type, plural or short name', async () => {
    const labels = { app: 'api' };
    const spec = { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: SPEC } };
    const deployment = { metadata: { name: 'api', namespace: 'shop' }, spec };
    await cluster.cluster.create('Deployment', deployment, { fieldManager: 'test' });
    for (const name of ['deployment/api', 'deployments.apps/api', 'deploy/api']) {
      const { code, stdout } = await explain(`${name} -n shop --kubeconfig ${kubeconfig} --scc-mode enforce`);
      assert.equal(code, 0, stdout);
      assert.match(stdout, /^Deployment shop\/api: admitted by SCC restricted-v2\n/);
    }
    assert.deepEqual(await explain(`deployment/gone -n shop --kubeconfig ${kubeconfig}`), {
      code: 2,
      stdout: '',
      stderr: 'error: deployments.apps "gone" not found in namespace "shop"\n',
    });
    const { stderr } = await explain(`deployment/gone -n gone --kubeconfig ${kubeconfig}`);
    assert.equal(stderr, 'error: namespace "gone" not found\n');
  });
  test('prints the source and the owner of each level of a namespace', async () => {
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
  test('adds no standard SCCs to a cluster without SCCs', async (t) => {
    const empty = await startCluster();
    t.after(() => empty.stop());
    await empty.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop' } });
    await empty.cluster.idle();
    const { code, stdout } = await explain(`-f root.yaml --kubeconfig ${await empty.kubeconfig()} --scc-mode enforce`);
    assert.equal(code, 1, stdout);
    assert.ok(stdout.includes('\n  Denied because   no SecurityContextConstraints found in cluster\n'), stdout);
    for (const target of ['namespace/shop', '-f root.yaml']) {
      const { stdout } = await explain(`${target} --kubeconfig ${await empty.kubeconfig()}`);
      assert.match(stdout, /^(?:Namespace shop: enforces|Pod shop\/root: admitted\n)/);
      assert.doesNotMatch(stdout, /SCC|SecurityContextC|UID/i);
    }
  });
  test('lists the exceptions that the manifests contain for a namespace', async () => {
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

  test('rejects a namespace that does not exist', async () => {
    assert.deepEqual(await explain(`-f legacy.yaml --kubeconfig ${kubeconfig}`), {
      code: 2,
      stdout: '',
      stderr: 'error: namespace "legacy" not found\n',
    });
  });
});
