import assert from 'node:assert/strict';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { installStandardSccs, RANGES } from '../../support/controllers.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

const folder = process.cwd();
before(() => process.chdir(join(import.meta.dirname, '../../fixtures/explain')));
after(() => process.chdir(folder));

const review = (args: string, stdin = '') =>
  runProgram(['scc', 'review', ...args.split(' ').filter((arg) => arg !== '')], { stdin });

describe('scc review prints tables', () => {
  const cases: readonly (readonly [args: string, code: number, stdout: string])[] = [
    ['-f root.yaml,cluster.yaml --user olga', 1, 'RESOURCE   ALLOWED BY\nPod/root   <none>\n'],
    [
      '-f pods.yaml,cluster.yaml -u olga -g operators -g system:authenticated',
      0,
      'RESOURCE          ALLOWED BY\nPod/web           restricted-v2\nDeployment/root   root\n',
    ],
    ['-f root.yaml,cluster.yaml', 1, 'RESOURCE   SERVICE ACCOUNT   ALLOWED BY\nPod/root   default           <none>\n'],
    [
      '-f root.yaml,cluster.yaml -z builder',
      0,
      'RESOURCE   SERVICE ACCOUNT   ALLOWED BY\nPod/root   builder           root\n',
    ],
    [
      '-f review.yaml,cluster.yaml',
      1,
      `RESOURCE                              ALLOWED BY
PodSecurityPolicySubjectReview/       root
PodSecurityPolicySelfSubjectReview/   restricted-v2

RESOURCE                   SERVICE ACCOUNT   ALLOWED BY
PodSecurityPolicyReview/   builder           root
PodSecurityPolicyReview/   default           <none>
`,
    ],
  ];
  for (const [args, code, stdout] of cases) {
    test(`for ${args}`, async () => assert.deepEqual(await review(args), { code, stdout, stderr: '' }));
  }
  test('for pod templates of other API groups', async () => {
    const stdin = await readFile(new URL('../../fixtures/check/custom.yaml', import.meta.url), 'utf8');
    const { stdout } = await runProgram(['scc', 'review', '-f', '-'], { stdin });
    assert.deepEqual(stdout.split('\n\n')[0]?.split('\n').slice(1), [
      'Rollout/web              default           <none>',
      'Service/hello            default           restricted-v2',
      'AdvancedCronJob/report   default           restricted-v2',
      'AdvancedCronJob/report   default           <none>',
      'Pod/p                    default           <none>',
    ]);
  });
  test('with the assumptions about missing objects', async () => {
    const { stdout } = await review('-f review.yaml');
    assert.match(stdout, /\n\nAssumed: .*; namespaces: shop; UID ranges of namespaces: shop\.\n$/);
  });
  test('for all namespaces, even if one has an invalid range, and evaluates a pod with OpenShift compatibility and a required SCC', async () => {
    const object = (kind: string, name: string, more: object) => ({
      apiVersion: 'v1',
      kind,
      metadata: { name, ...more },
    });
    const pod = (name: string, more: object) => ({
      ...object('Pod', name, more),
      spec: { containers: [{ name: 'c', image: 'i' }] },
    });
    const items = [
      object('Namespace', 'bare', { annotations: { ...RANGES, 'openshift.io/sa.scc.uid-range': 'x' } }),
      object('Namespace', 'shop', { annotations: RANGES }),
      pod('first', { namespace: 'bare' }),
      pod('free', { namespace: 'shop' }),
      pod('bound', { namespace: 'shop', annotations: { 'openshift.io/required-scc': 'nonroot-v2' } }),
    ];
    const config = join(await mkdtemp(join(tmpdir(), 'portcullis-review-')), 'config.yaml');
    const settings = {
      ...object('PortcullisConfiguration', 'cluster', {}),
      apiVersion: 'config.portcullis.dev/v1alpha1',
    };
    await writeFile(config, JSON.stringify({ ...settings, spec: { scc: { compatibility: 'openshift' } } }));
    const stdin = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
    const { code, stdout, stderr } = await review(`-f - --config ${config} -u a -g system:masters`, stdin);
    assert.equal(
      stdout.split('\n\n')[0],
      'RESOURCE    ALLOWED BY\nPod/free    anyuid\nPod/bound   nonroot-v2\n'.trim(),
    );
    assert.match(
      stderr,
      /^error: stdin:1:\d+: \[unable to find pre-allocated uid annotation for namespace bare while/m,
    );
    assert.equal(code, 2);
  });
  for (const format of ['json', 'yaml']) {
    test(`with control characters escaped for -o ${format}`, async () => {
      const pod = {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'a', annotations: { a: 'a\u009b2Jb' } },
        spec: { containers: [{ name: 'c', image: 'i' }] },
      };
      const { stdout } = await review(`-f - -o ${format}`, JSON.stringify(pod));
      assert.ok(stdout.includes('a\\u009b2Jb') && !stdout.includes('\u009b'), stdout);
    });
  }
  test('and a warning about an invalid SCC on stderr', async () => {
    const outcome = await review('-f root.yaml,cluster.yaml -u olga -g system:masters');
    assert.deepEqual(outcome, {
      code: 0,
      stdout: 'RESOURCE   ALLOWED BY\nPod/root   root\n',
      stderr: 'warning: error creating provider for SCC broken in namespace shop: MustRunAs requires a UID\n',
    });
  });
});

describe('scc review prints reviews with their status', () => {
  test('as YAML, in separate documents', async () => {
    const { stdout } = await review('-f review.yaml,cluster.yaml -o yaml');
    const documents = parseAllDocuments(stdout).map((document) => document.toJS() as { kind: string; status: unknown });
    const allowedBy = (name: string) => ({
      kind: 'SecurityContextConstraints',
      name,
      apiVersion: 'security.openshift.io/v1',
    });
    assert.deepEqual(
      documents.map(({ kind, status }) => [kind, status]),
      [
        ['PodSecurityPolicySubjectReview', { allowedBy: allowedBy('root') }],
        ['PodSecurityPolicySelfSubjectReview', { allowedBy: allowedBy('restricted-v2') }],
        ['PodSecurityPolicyReview', { allowedServiceAccounts: [{ name: 'builder', allowedBy: allowedBy('root') }] }],
      ],
    );
  });
  test('as JSON, including the review of a pod', async () => {
    const { stdout, stderr } = await review(
      '-f - -u alice -o json',
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'a', annotations: { a: 'b' } },
        spec: { containers: [{ name: 'c', image: 'i' }] },
      }),
    );
    assert.deepEqual(JSON.parse(stdout), {
      apiVersion: 'security.openshift.io/v1',
      kind: 'PodSecurityPolicySubjectReview',
      spec: {
        template: { metadata: { annotations: { a: 'b' } }, spec: { containers: [{ name: 'c', image: 'i' }] } },
        user: 'alice',
      },
      status: {},
    });
    assert.match(stderr, /^Assumed: the 13 standard /);
  });
  test('for the kubeconfig user if a self subject review has no user', async () => {
    const self = '{"apiVersion":"security.openshift.io/v1","kind":"PodSecurityPolicySelfSubjectReview","spec":{}}';
    const { code, stdout } = await review('-f -', self);
    assert.deepEqual(
      [code, stdout.split('\n').slice(0, 2)],
      [0, ['RESOURCE                              ALLOWED BY', 'PodSecurityPolicySelfSubjectReview/   restricted-v2']],
    );
  });
});

describe('scc review on a cluster', () => {
  let cluster: TestCluster;
  let kubeconfig = '';
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    await installStandardSccs(cluster.cluster);
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop', annotations: RANGES } });
    await cluster.cluster.idle();
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });

  test('rejects service accounts that do not exist', async () => {
    assert.deepEqual(await review(`-f root.yaml --kubeconfig ${kubeconfig} -z builder`), {
      code: 2,
      stdout: '',
      stderr: 'error: root.yaml:1:1: unable to retrieve ServiceAccount builder: serviceaccount "builder" not found\n',
    });
  });
  test('evaluates a self subject review for the kubeconfig user', async () => {
    const self = {
      apiVersion: 'security.openshift.io/v1',
      kind: 'PodSecurityPolicySelfSubjectReview',
      metadata: { namespace: 'shop' },
      spec: {},
    };
    const { stdout } = await review(`-f - --kubeconfig ${kubeconfig}`, JSON.stringify(self));
    assert.match(stdout, /^RESOURCE +ALLOWED BY\nPodSecurityPolicySelfSubjectReview\/ +anyuid\n/);
  });
});
