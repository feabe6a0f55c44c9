import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { buildManifests, defaultSettings, webhookConfigurations } from '../../../src/install/index.ts';
import type { KubeObject } from '../../../src/kube/types.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { createInstaller, type Installer } from '../../support/installer.ts';
import { runProgram, type Outcome, type Environment } from '../../support/memory-io.ts';
import { list, refusal, startScriptedServer, type Responder } from '../../support/scripted-server.ts';

const WRITTEN: readonly KubeObject[] = [
  of('coordination.k8s.io/v1', 'Lease', 'portcullis'),
  of('coordination.k8s.io/v1', 'Lease', 'portcullis-replica-a', { 'app.kubernetes.io/component': 'replica' }),
  of('v1', 'Secret', 'portcullis-serving-certificate'),
];

function of(apiVersion: string, kind: string, name: string, labels: Readonly<Record<string, string>> = {}): KubeObject {
  return { apiVersion, kind, metadata: { name, namespace: 'portcullis', labels } };
}

const SCC = STANDARD_SCCS[0]?.scc;

const SETTINGS = defaultSettings('1.2.3');
/** The leader has registered the webhooks. */
const INSTALLED: readonly KubeObject[] = [...buildManifests(SETTINGS), ...webhookConfigurations(SETTINGS)];

/** The names of all manifests of a kind, as API servers sort them. */
function getNames(kind: string): readonly string[] {
  return INSTALLED.flatMap((one) => (one.kind === kind ? (one.metadata?.name ?? []) : [])).toSorted();
}

function deleted(group: string, ...kinds: readonly string[]): readonly string[] {
  return kinds.flatMap((kind) => getNames(kind).map((name) => `${kind.toLowerCase()}s.${group}/${name} deleted`));
}

const MANAGEMENT = 'clusterrolebindings.rbac.authorization.k8s.io/portcullis-webhook-configurations deleted';

const WEBHOOKS = deleted(
  'admissionregistration.k8s.io',
  'ValidatingWebhookConfiguration',
  'MutatingWebhookConfiguration',
);
const BINDINGS = deleted('rbac.authorization.k8s.io', 'ClusterRoleBinding');

const replicas = (bindings: readonly string[]): readonly string[] => [
  'deployments.apps/portcullis deleted',
  'poddisruptionbudgets.policy/portcullis deleted',
  'services/portcullis deleted',
  'networkpolicies.networking.k8s.io/portcullis deleted',
  'resourcequotas/portcullis deleted',
  ...bindings,
  ...deleted('rbac.authorization.k8s.io', 'RoleBinding', 'ClusterRole', 'Role'),
  'serviceaccounts/portcullis deleted',
  'leases.coordination.k8s.io/portcullis deleted',
  'leases.coordination.k8s.io/portcullis-replica-a deleted',
  'secrets/portcullis-serving-certificate deleted',
];

const PLANNED = [...WEBHOOKS, ...replicas(BINDINGS)];

const REMOVED = [
  MANAGEMENT,
  ...WEBHOOKS,
  'Waiting 0 s for API servers to observe the deletion.',
  ...replicas(BINDINGS.filter((line) => line !== MANAGEMENT)),
];

const lines = (...texts: readonly string[]): string => texts.map((text) => `${text}\n`).join('');

describe('uninstall', () => {
  let cluster: TestCluster;
  let kubeconfig: string;
  let installer: Installer;
  before(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    installer = createInstaller(cluster.admin);
  });
  after(async () => {
    assert.deepEqual(cluster.errors, []);
    await cluster.stop();
  });

  const create = (object: KubeObject): Promise<void> => installer.create(object);
  const get = (apiVersion: string, kind: string, name: string, namespace?: string): Promise<number> =>
    installer.getStatus({ apiVersion, kind, metadata: { name, ...(namespace === undefined ? {} : { namespace }) } });
  const run = (args: readonly string[] = [], surroundings: Environment = {}): Promise<Outcome> =>
    runProgram(['uninstall', '--wait=0s', '--kubeconfig', kubeconfig, ...args], surroundings);

  beforeEach(async () => {
    for (let tries = 0; tries < 200 && (await get('v1', 'Namespace', 'portcullis')) === 200; tries++) {
      await cluster.admin.send('DELETE', '/api/v1/namespaces/portcullis');
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    for (const object of INSTALLED) await create(object);
    for (const object of WRITTEN) await create(object);
  });

  test('deletes webhooks first and keeps SCCs; a second run deletes nothing', async () => {
    assert.deepEqual(await run(['--yes']), {
      code: 0,
      stdout: lines(...REMOVED, 'namespaces/portcullis deleted'),
      stderr: '',
    });
    const crd = 'securitycontextconstraints.security.openshift.io';
    assert.equal(await get('apiextensions.k8s.io/v1', 'CustomResourceDefinition', crd), 200);
    const nothing = lines('Nothing to delete: Portcullis is not installed in namespace portcullis.');
    assert.deepEqual(await run(['--yes']), { code: 0, stdout: nothing, stderr: '' });
    assert.deepEqual(await run(['--dry-run=server']), { code: 0, stdout: nothing, stderr: '' });
    assert.deepEqual(await runProgram(['doctor', '--kubeconfig', kubeconfig]), {
      code: 1,
      stdout: lines(
        'problem  installation  namespace portcullis: Portcullis is not installed: there is no webhook configuration and no Deployment',
        '                       Fix: portcullis install --help',
        '',
        '1 problem, 0 warnings',
      ),
      stderr: '',
    });
  });

  for (const [mode, suffix] of [
    ['server', ' (server dry run)'],
    ['client', ' (dry run)'],
  ]) {
    test(`a dry run of the ${mode} changes nothing`, async () => {
      const expected = [...PLANNED, 'namespaces/portcullis deleted'];
      const stdout = lines(...expected.map((line) => `${line}${suffix}`));
      assert.deepEqual(await run([`--dry-run=${mode}`]), { code: 0, stdout, stderr: '' });
      for (const { apiVersion = '', kind = '', metadata } of [...INSTALLED, ...WRITTEN]) {
        assert.equal(await get(apiVersion, kind, metadata?.name ?? '', metadata?.namespace), 200, kind);
      }
    });
  }

  const NOT_CONFIRMED = 'error: nothing was deleted: the response was not "yes"; use --yes to skip the confirmation\n';
  const answers: readonly (readonly [name: string, stdin: string])[] = [
    ['no', 'no\n'],
    ['an empty response', ''],
    ['yes with other words', 'yes, but\n'],
  ];
  for (const [name, stdin] of answers) {
    test(`does not delete anything after ${name}`, async () => {
      const { port } = cluster;
      const question = `This removes Portcullis from https://127.0.0.1:${port}. Type "yes" to continue:\n`;
      assert.deepEqual(await run([], { stdin }), { code: 2, stdout: '', stderr: `${question}${NOT_CONFIRMED}` });
      assert.equal(await get('apps/v1', 'Deployment', 'portcullis', 'portcullis'), 200);
    });
  }

  test('continues after yes', async () => {
    assert.equal((await run([], { stdin: 'yes\n' })).code, 0);
    assert.equal(await get('apps/v1', 'Deployment', 'portcullis', 'portcullis'), 404);
  });

  test('keeps objects without the label, and their namespace', async () => {
    await create(of('v1', 'ConfigMap', 'mine'));
    await create(of('coordination.k8s.io/v1', 'Lease', 'mine'));
    await create(of('v1', 'ServiceAccount', 'mine'));
    const { code, stdout } = await run(['--yes']);
    assert.equal(stdout, lines(...REMOVED, 'namespaces/portcullis kept: it contains configmaps/mine.'));
    assert.equal(code, 0);
    for (const [apiVersion, kind] of [
      ['v1', 'ConfigMap'],
      ['coordination.k8s.io/v1', 'Lease'],
      ['v1', 'ServiceAccount'],
    ] as const) {
      assert.equal(await get(apiVersion, kind, 'mine', 'portcullis'), 200, kind);
    }
  });

  test('keeps a namespace without the label', async () => {
    const ops = [{ op: 'remove', path: '/metadata/labels/app.kubernetes.io~1part-of' }];
    const type = { 'content-type': 'application/json-patch+json' };
    await cluster.admin.send('PATCH', '/api/v1/namespaces/portcullis', ops, type);
    const kept = 'namespaces/portcullis kept: it has no label app.kubernetes.io/part-of=portcullis.';
    assert.equal((await run(['--yes'])).stdout, lines(...REMOVED, kept));
  });

  test('reports custom SCCs that are deleted with their definition', async () => {
    const path = '/apis/security.openshift.io/v1/securitycontextconstraints';
    const webhooks = '/apis/admissionregistration.k8s.io/v1';
    await cluster.admin.send('DELETE', `${webhooks}/mutatingwebhookconfigurations/objects.scc.portcullis.dev`);
    await cluster.admin.send('DELETE', `${webhooks}/validatingwebhookconfigurations/scc.portcullis.dev`);
    for (const name of ['mine', 'restricted-v2']) {
      const scc = {
        ...SCC,
        apiVersion: 'security.openshift.io/v1',
        kind: 'SecurityContextConstraints',
        metadata: { name },
      };
      const answer = await cluster.admin.send('POST', path, scc);
      assert.equal(answer.status, 201, answer.text);
    }
    const { stdout } = await run(['--dry-run=server', '--purge-sccs']);
    assert.deepEqual(
      stdout.split('\n').filter((line) => line.startsWith('securitycontextconstraints.')),
      ['securitycontextconstraints.security.openshift.io/mine is deleted with its definition (server dry run)'],
    );
    for (const name of ['mine', 'restricted-v2']) await cluster.admin.send('DELETE', `${path}/${name}`);
  });

  test('purges SCCs, and labels and annotations of namespaces', async () => {
    const labels = { 'portcullis.dev/scc': 'enforce', 'portcullis.dev/admission': 'fail-open', team: 'a' };
    const annotations = { 'openshift.io/sa.scc.uid-range': '1/1', 'openshift.io/sa.scc.mcs': 's0', note: 'b' };
    const name = 'purged';
    await create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels, annotations } });
    const { code, stdout } = await run(['--yes', '--purge-sccs', '--purge-namespaces']);
    const definitions = getNames('CustomResourceDefinition');
    assert.equal(
      stdout,
      lines(
        ...REMOVED,
        ...definitions.map((name) => `customresourcedefinitions.apiextensions.k8s.io/${name} deleted`),
        'namespaces/purged labels and annotations removed',
        'namespaces/portcullis deleted',
      ),
    );
    assert.equal(code, 0);
    const { metadata } = (await cluster.admin.send('GET', '/api/v1/namespaces/purged')).body as KubeObject;
    assert.deepEqual(metadata?.labels, { 'kubernetes.io/metadata.name': name, team: 'a' });
    assert.deepEqual(metadata.annotations, { note: 'b' });
  });

  test('reports replicas outside of the cluster', async () => {
    const live = (name: string, renewed: Date): KubeObject => {
      const renewTime = renewed.toISOString().replace('Z', '000Z');
      const spec = { holderIdentity: name, leaseDurationSeconds: 60, renewTime };
      const lease = of('coordination.k8s.io/v1', 'Lease', name, { 'app.kubernetes.io/component': 'replica' });
      return { ...lease, spec } as KubeObject;
    };
    const containers = [{ name: 'a', image: 'a' }];
    await create({ ...of('v1', 'Pod', 'one-of-the-cluster'), spec: { containers } } as KubeObject);
    await create(live('portcullis-replica-one-of-the-cluster', new Date()));
    await create(live('portcullis-replica-laptop', new Date()));
    await create(live('portcullis-replica-gone', new Date(Date.now() - 3_600_000)));
    const { stdout } = await run(['--dry-run=server']);
    assert.deepEqual(
      stdout.split('\n').filter((line) => line.includes('replica ')),
      ['The replica laptop is not a pod of this cluster and continues to run: stop its process.'],
    );
  });

  test('purges nothing if another product defines SCCs', async () => {
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const ops = [{ op: 'remove', path: '/metadata/labels/app.kubernetes.io~1part-of' }];
    const type = { 'content-type': 'application/json-patch+json' };
    await cluster.admin.send('PATCH', `${path}/securitycontextconstraints.security.openshift.io`, ops, type);
    const { code, stdout } = await run(['--yes', '--purge-sccs', '--purge-namespaces']);
    const kept = 'SCCs are kept: their definition has no label of Portcullis.';
    assert.equal(stdout, lines(...REMOVED, kept, 'namespaces/portcullis deleted'));
    assert.equal(code, 1);
    await cluster.admin.send('DELETE', `${path}/securitycontextconstraints.security.openshift.io`);
  });
});

describe('uninstall deletes nothing', () => {
  const [hook] = INSTALLED.filter(({ kind }) => kind === 'ValidatingWebhookConfiguration');
  const KEPT = 'All other objects are kept: without them, API servers would deny requests that match the webhooks.\n';
  const cases: readonly (readonly [name: string, answers: readonly Responder[], stdout: string])[] = [
    [
      'if webhooks cannot be listed',
      [refusal(403, 'User "jo" cannot list them')],
      `Webhook configurations cannot be listed: User "jo" cannot list them\nWebhook configurations cannot be listed: User "jo" cannot list them\n${KEPT}`,
    ],
    [
      'if webhooks cannot be deleted',
      [list(), list(hook), list(), refusal(403, 'User "jo" cannot delete it')],
      `validatingwebhookconfigurations.admissionregistration.k8s.io/psa.portcullis.dev not deleted: User "jo" cannot delete it\n${KEPT}`,
    ],
  ];
  for (const [name, answers, stdout] of cases) {
    test(name, async (t) => {
      const server = await startScriptedServer();
      t.after(() => server.stop());
      server.respond(...answers);
      const args = ['uninstall', '--yes', '--kubeconfig', await server.kubeconfig()];
      assert.deepEqual(await runProgram(args), { code: 1, stdout, stderr: '' });
      assert.deepEqual(
        server.requests.filter(({ method, url }) => method !== 'GET' && !url.includes('webhookconfigurations')),
        [],
      );
    });
  }
});
