import assert from 'node:assert/strict';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { STANDARD_SCCS } from '../../../src/policy/scc/index.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram } from '../../support/memory-io.ts';

const fixtures = join(import.meta.dirname, '../../fixtures/scc-plan');
const shop = await readFile(join(fixtures, 'shop.yaml'), 'utf8');
const expectedBindings = await readFile(join(fixtures, 'expected/bindings.yaml'), 'utf8');

const plan = (args: readonly string[], stdin = shop) => runProgram(['scc', 'plan', '-f', '-', ...args], { stdin });

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'portcullis-plan-'));
  t.after(() => rm(path, { recursive: true }));
  return path;
}

function printObjects(...objects: readonly object[]): string {
  return objects.map((object) => JSON.stringify(object)).join('\n');
}

const SELECTOR = { matchLabels: { a: 'b' } };
const LABELED = { metadata: { labels: SELECTOR.matchLabels } };

/** Returns a Namespace with the given labels, and a Deployment in it with the given pod spec. */
function namespaceWith(labels: object, spec: object = {}): string {
  const template = { ...LABELED, spec: { containers: [{ name: 'a', image: 'a' }], ...spec } };
  return printObjects(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'one', labels } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web', namespace: 'one' },
      spec: { selector: SELECTOR, template },
    },
  );
}

test('scc plan stops when its signal is aborted', async () => {
  const signal = AbortSignal.abort('SIGINT');
  await assert.rejects(runProgram(['scc', 'plan', '-f', '-'], { stdin: shop, signal }), { name: 'AbortError' });
});

describe('scc plan prints the plan', () => {
  for (const format of ['table', 'json', 'yaml']) {
    test(`as ${format}`, async () => {
      const expected = await readFile(join(fixtures, `expected/shop.${format}.txt`), 'utf8');
      assert.deepEqual(await plan(['-o', format]), { code: 1, stdout: expected, stderr: '' });
    });
  }

  test('only as bindings', async () => {
    const stderr = [
      '7 workloads: 1 admitted, 4 denied, 1 ignored, 1 not evaluated (off)\n',
      'Next: review and apply the bindings; change the workloads that bindings cannot fix; then plan again.\n',
    ].join('');
    assert.deepEqual(await plan(['--bindings', '-']), { code: 1, stdout: expectedBindings, stderr });
  });

  test('with the bindings in the file that the next step mentions', async (t) => {
    const file = join(await folder(t), 'bindings.yaml');
    const { code, stdout } = await plan(['--bindings', file, '-n', 'shop']);
    assert.equal(code, 1);
    assert.equal(await readFile(file, 'utf8'), expectedBindings);
    assert.ok(stdout.endsWith(`Next: review ${file}, then run kubectl apply -f ${file}; then plan again.\n`), stdout);
  });

  test('including pod templates of other API groups', async () => {
    const stdin = await readFile(join(fixtures, '../check/custom.yaml'), 'utf8');
    const { code, stdout } = await plan(['-n', 'shop'], stdin);
    assert.equal(code, 1);
    assert.match(
      stdout,
      /; no pods for containers outside pod templates: Runner shop\/hello-\* \(spec\.templates\[0\]\.container\); SCC mode report for namespaces without the label \(set --scc-mode\)\.\n/,
    );
    const results = stdout.split('\n').filter((line) => /^ {2}\S.* {2}/.test(line));
    assert.deepEqual(results, [
      '  Pod p                                                                      denied',
      '  Rollout web (spec.template)                                                denied',
      '  Service hello (spec.template)                                              restricted-v2',
      '  AdvancedCronJob report (spec.template.jobTemplate.spec.template)           restricted-v2',
      '  AdvancedCronJob report (spec.template.broadcastJobTemplate.spec.template)  denied',
    ]);
  });

  test('only for workloads that match a label selector, with -o name', async () => {
    const labeled = shop.replace(
      '{ name: web, namespace: shop }',
      '{ name: web, namespace: shop, labels: { app: web } }',
    );
    const { stdout } = await plan(['-l', 'app=web', '-o', 'name'], labeled);
    assert.equal(stdout, 'deployment/web\n');
  });

  test('in colors and with progress on a terminal', async () => {
    const { stdout, stderr } = await runProgram(['scc', 'plan', '-f', '-'], {
      stdin: shop,
      terminals: ['stdout', 'stderr'],
    });
    assert.ok(stdout.includes('\n\n\u001b[1mlab (enforce)\u001b[22m\n'), stdout);
    assert.ok(stderr.includes('\r\u001b[KPlanning legacy (2 of 3)'), stderr);
    assert.ok(stderr.endsWith('\r\u001b[K'), stderr);
  });
});

describe('scc plan ends with a summary and the next step:', () => {
  const privileged = { containers: [{ name: 'a', image: 'a', securityContext: { privileged: true } }] };
  const enforce = { 'portcullis.dev/scc': 'enforce' };
  const off = { 'portcullis.dev/scc': 'off' };
  const report = { 'portcullis.dev/scc': 'report' };
  const nothing = '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"one"}}';
  const noDenial = 'Enforcement denies none of the workloads.';
  const toEnforce = 'Next: set portcullis.dev/scc=enforce on one. This would not deny any workload.';
  const toBind = 'Next: write the bindings with --bindings FILE, review and apply them; then plan again.';
  const unevaluated = '1 workload: 0 admitted, 0 denied, 1 not evaluated (off)';
  const cases: readonly (readonly [name: string, stdin: string, last: string, args?: readonly string[]])[] = [
    ['there are no workloads', nothing, '0 workloads: 0 admitted, 0 denied\nThere are no workloads.'],
    ['all workloads are admitted in report mode', namespaceWith({}), `1 workload: 1 admitted, 0 denied\n${toEnforce}`],
    [
      'all workloads are admitted in enforce mode',
      namespaceWith(enforce),
      `1 workload: 1 admitted, 0 denied\n${noDenial}`,
    ],
    [
      'no workload is evaluated because SCC admission is off',
      namespaceWith(off, privileged),
      `${unevaluated}\n${noDenial}`,
    ],
    [
      'no workload is evaluated because the namespace is exempt',
      namespaceWith({}, privileged),
      `${unevaluated}\n${noDenial}`,
      ['--config=test/fixtures/scc-plan/exempt.json'],
    ],
    [
      'workloads would be denied in report mode',
      namespaceWith(report, privileged),
      `1 workload: 0 admitted, 1 denied\n${toBind}`,
    ],
  ];
  for (const [name, stdin, last, args = []] of cases) {
    test(name, async () => {
      const { code, stdout, stderr } = await plan(args, stdin);
      assert.deepEqual([code, stderr], [last.includes('1 denied') ? 1 : 0, '']);
      assert.ok(stdout.endsWith(`${last}\n`), stdout);
    });
  }

  test('an invalid mode label is reported before the workloads', async () => {
    const { stdout } = await plan([], namespaceWith({ 'portcullis.dev/scc': 'maybe' }));
    const problem =
      'label portcullis.dev/scc: unknown mode "maybe", using "enforce"; must be one of enforce, report, off';
    assert.ok(stdout.includes(`.\n\none (enforce)\n  ${problem}\n  Deployment web  restricted-v2\n`), stdout);
  });

  test('static pods are evaluated with their node as the creator', async () => {
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: 'proxy',
        namespace: 'one',
        annotations: { 'kubernetes.io/config.mirror': 'x' },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n1', uid: '1', controller: true }],
      },
      spec: { ...privileged, nodeName: 'n1' },
    };
    const admitted = await plan([], printObjects(pod));
    assert.ok(admitted.stdout.includes('\n\none (report)\n  Pod proxy  privileged\n'), admitted.stdout);
    const standard = (name: string) => STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === name)?.scc;
    const own = { ...standard('privileged'), groups: [] };
    const denied = await plan([], printObjects(pod, own));
    assert.ok(
      denied.stdout.includes(
        '.\n\none (report)\n  Pod proxy  denied\n    privileged would admit it if its node were allowed to use it\n',
      ),
      denied.stdout,
    );
  });

  test('control characters in names are escaped', async () => {
    const rollout = namespaceWith({}).replace('apps/v1', 'argoproj.io/v1alpha1').replace('Deployment', 'Rollout');
    const { stdout } = await plan([], rollout.replaceAll('"web"', '"\\u001b[31mweb"'));
    assert.ok(stdout.includes('  Rollout \\u001b[31mweb (spec.template)  restricted-v2\n'), stdout);
  });
});

/** Workloads in the namespace `shop`, which has ranges. */
function shopWith(...workloads: readonly (readonly [kind: string, name: string, spec: object])[]): string {
  const ranges = { 'openshift.io/sa.scc.uid-range': '1000660000/10000', 'openshift.io/sa.scc.mcs': 's0:c26,c5' };
  return printObjects(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', annotations: ranges } },
    ...workloads.map(([kind, name, more]) => {
      const spec = { containers: [{ name: 'a', image: 'a' }], ...more };
      const metadata = { name, namespace: 'shop' };
      return kind === 'Pod'
        ? { apiVersion: 'v1', kind, metadata, spec }
        : { apiVersion: 'apps/v1', kind, metadata, spec: { selector: SELECTOR, template: { ...LABELED, spec } } };
    }),
  );
}

/** Returns the lines about the namespace `shop`, and the remaining lines of the plan. */
async function getLines(stdin: string, ...args: readonly string[]): Promise<readonly string[]> {
  const { stdout } = await plan(['--scc-mode=report', ...args], stdin);
  const lines = stdout.split('\n');
  return lines.slice(lines.indexOf('shop (report)'));
}

describe('scc plan proposes the least permissive SCC:', () => {
  const adding = (capability: string) => ({
    containers: [{ name: 'a', image: 'a', securityContext: { capabilities: { add: [capability] } } }],
  });
  const closest = (fields: string) => `    The closest SCC is "restricted-v2", which does not allow ${fields}`;

  test('a workload that only privileged would admit gets the proposal of a custom SCC', async () => {
    const stdin = shopWith(['Pod', 'ntp', adding('SYS_TIME')]);
    assert.deepEqual(await getLines(stdin), [
      'shop (report)',
      '  Pod ntp  denied',
      closest('spec.containers[0].securityContext.capabilities.add=SYS_TIME'),
      '    Needs a custom SCC: copy restricted-v2 and add SYS_TIME to allowedCapabilities',
      '    privileged would admit it if service account "default" were allowed to use it, but it allows everything',
      '',
      '1 workload: 0 admitted, 1 denied',
      'Next: create the custom SCC with portcullis scc create NAME TYPE/NAME; then plan again.',
      '',
    ]);
    const asPlugin = await runProgram(['plan', '-f', '-'], { stdin, file: 'kubectl-scc' });
    assert.match(asPlugin.stdout, /\nNext: create the custom SCC with kubectl scc create NAME TYPE\/NAME; /);
    const { stdout } = await plan(['--bindings', '-'], stdin);
    assert.equal(
      stdout,
      '# shop: Pod ntp needs a custom SCC: copy restricted-v2 and add SYS_TIME to allowedCapabilities. Of the existing SCCs, only privileged, which allows everything, would admit it.\n',
    );
  });

  test('ephemeral containers are ignored', async () => {
    const debug = { name: 'd', image: 'i', securityContext: { privileged: true } };
    const [, verdict] = await getLines(shopWith(['Pod', 'web', { ephemeralContainers: [debug] }]));
    assert.equal(verdict, '  Pod web  restricted-v2');
  });

  test('workloads that the bindings would move to another SCC are listed', async () => {
    const root = { containers: [{ name: 'a', image: 'a', securityContext: { runAsUser: 0 } }] };
    const stdin = shopWith(
      ['Deployment', 'root', root],
      ['Deployment', 'web', {}],
      ['Deployment', 'own', { serviceAccountName: 'own' }],
    );
    const lines = await getLines(stdin);
    assert.deepEqual(lines.slice(lines.indexOf('Bindings that admit 1 of the 1 denied workloads')), [
      'Bindings that admit 1 of the 1 denied workloads',
      '  shop: service account "default" to ClusterRole "system:openshift:scc:anyuid"',
      '    for Deployment root',
      '    moves Deployment web from restricted-v2 to anyuid',
      '    applies to all pods with the default service account, so give these workloads their own service accounts',
      '',
      '3 workloads: 2 admitted, 1 denied',
      'Next: write the bindings with --bindings FILE, review and apply them; then plan again.',
      '',
    ]);
    const { stdout } = await plan(['--bindings', '-'], stdin);
    const comments = stdout.split('\n').slice(0, 4);
    assert.deepEqual(comments, [
      '# for Deployment root',
      '# moves Deployment web from restricted-v2 to anyuid',
      '# applies to all pods with the default service account, so give these workloads their own service accounts',
      'apiVersion: rbac.authorization.k8s.io/v1',
    ]);
    const json = JSON.parse((await plan(['-o', 'json'], stdin)).stdout) as { readonly grants: unknown };
    assert.deepEqual(json.grants, [
      {
        namespace: 'shop',
        serviceAccount: 'default',
        scc: 'anyuid',
        workloads: [{ kind: 'Deployment', name: 'root' }],
        moves: [{ kind: 'Deployment', name: 'web', from: 'restricted-v2' }],
      },
    ]);
  });
});

describe('after the bindings of scc plan are applied,', () => {
  test('the remaining denied workload cannot be admitted by another grant', async () => {
    const { code, stdout } = await plan(['-o', 'json'], `${shop}---\n${expectedBindings}`);
    const { summary, bindings } = JSON.parse(stdout) as { readonly summary: unknown; readonly bindings: unknown };
    assert.deepEqual(summary, { workloads: 7, admitted: 4, denied: 1, grantable: 0, ignored: 1, off: 1 });
    assert.deepEqual(bindings, []);
    assert.equal(code, 1);
  });

  test('all workloads of a namespace for which bindings suffice are admitted', async () => {
    const { code, stdout, stderr } = await plan(['-n', 'shop', '--bindings', '-'], `${shop}---\n${expectedBindings}`);
    assert.deepEqual([code, stdout], [0, '# No grants are needed.\n']);
    assert.equal(
      stderr,
      '4 workloads: 4 admitted, 0 denied\nNext: set portcullis.dev/scc=enforce on shop. This would not deny any workload.\n',
    );
  });
});

describe('with a live cluster,', () => {
  const template = (spec: object) => ({
    metadata: { labels: { app: 'x' } },
    spec: { containers: [{ name: 'a', image: 'a' }], ...spec },
  });
  const selector = { matchLabels: { app: 'x' } };
  const create = async ({ admin }: TestCluster, path: string, object: object): Promise<void> => {
    const { status, text } = await admin.send('POST', path, object);
    assert.equal(status, 201, text);
  };

  test('all workloads are admitted after the bindings are applied, although the cluster had no SCCs', async (t) => {
    const cluster = await startCluster();
    t.after(() => cluster.stop());
    await create(cluster, '/api/v1/namespaces', { metadata: { name: 'shop' } });
    const apps = '/apis/apps/v1/namespaces/shop';
    await create(cluster, `${apps}/deployments`, {
      metadata: { name: 'web' },
      spec: { selector, template: template({}) },
    });
    await create(cluster, `${apps}/daemonsets`, {
      metadata: { name: 'agent' },
      spec: { selector, template: template({ hostPID: true, serviceAccountName: 'agent' }) },
    });
    const file = join(await folder(t), 'the bindings.json');
    const kubeconfig = await cluster.kubeconfig();
    const args = ['scc', 'plan', '--kubeconfig', kubeconfig, '-n', 'shop', '-o', 'json'];

    const table = await runProgram(['scc', 'plan', '--kubeconfig', kubeconfig, '-n', 'shop', '--bindings', file]);
    assert.match(
      table.stdout,
      /^Assumed: the 13 standard SecurityContextConstraints, with their ClusterRoles and ClusterRoleBindings; .*\n\nshop \(report\)\n/,
    );
    const missing = 'error looking up service account shop/agent: serviceaccount "agent" not found';
    assert.ok(table.stdout.includes(`were allowed to use it\n    ${missing}\n`), table.stdout);
    const apply = `then run kubectl apply -f '${file}' --kubeconfig=${kubeconfig}`;
    const next = `\nNext: create the missing service accounts; review ${file}, ${apply}; then plan again.\n`;
    assert.ok(table.stdout.endsWith(next), table.stdout);
    const before = await runProgram([...args, '--bindings', file]);
    assert.equal(before.code, 1, before.stderr);
    const { summary, bindings } = JSON.parse(before.stdout) as {
      readonly summary: object;
      readonly bindings: object[];
    };
    assert.deepEqual(summary, { workloads: 2, admitted: 1, denied: 1, grantable: 1, ignored: 0, off: 0 });
    // The standard SCCs and their roles do not exist yet.
    await create(cluster, '/apis/rbac.authorization.k8s.io/v1/clusterroles', {
      metadata: { name: 'system:openshift:scc:hostaccess' },
      rules: [
        {
          apiGroups: ['security.openshift.io'],
          resources: ['securitycontextconstraints'],
          resourceNames: ['hostaccess'],
          verbs: ['use'],
        },
      ],
    });
    for (const binding of bindings) {
      await create(cluster, '/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings', binding);
    }

    const after = await runProgram(args);
    assert.equal(after.code, 0, after.stdout);
    const { workloads } = JSON.parse(after.stdout) as { readonly workloads: readonly { name: string; scc: string }[] };
    assert.deepEqual(
      workloads.map(({ name, scc }) => [name, scc]),
      [
        ['agent', 'hostaccess'],
        ['web', 'restricted-v2'],
      ],
    );
    assert.deepEqual(cluster.errors, []);
  });

  test('scc plan reports an unreachable server as an error', async (t) => {
    const cluster = await startCluster();
    const kubeconfig = join(await folder(t), 'kubeconfig');
    await copyFile(await cluster.kubeconfig(), kubeconfig);
    await cluster.stop();
    const { code, stdout, stderr } = await runProgram(['scc', 'plan', '--kubeconfig', kubeconfig]);
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(stderr, /^error: .*127\.0\.0\.1/);
  });
});
