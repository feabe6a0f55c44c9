import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { allow } from '../../../src/kube/admission.ts';
import type { KubeObject } from '../../../src/kube/types.ts';
import { defaultSettings, buildManifests } from '../../../src/install/index.ts';
import { startAdmissionServer, type TestServer } from '../../support/admission-server.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { runProgram, type Outcome } from '../../support/memory-io.ts';
import { createInstaller, type Installer } from '../../support/installer.ts';

const PATHS = [
  '/psa/validate',
  '/psa/enforcement',
  '/scc/mutate',
  '/scc/validate',
  '/scc/exec',
  '/scc/objects/default',
  '/scc/objects/validate',
];

describe('doctor', () => {
  let cluster: TestCluster;
  let server: TestServer;
  let kubeconfig: string;
  let installer: Installer;
  const folders: string[] = [];
  before(async () => {
    [cluster, server] = await Promise.all([
      startCluster(),
      startAdmissionServer(PATHS.map((path) => ({ path, decide: () => allow() }))),
    ]);
    kubeconfig = await cluster.kubeconfig();
    installer = createInstaller(cluster.admin);
    await installer.create(...installation(server));
  });
  after(async () => {
    await server.stop();
    assert.deepEqual(cluster.errors, []);
    await cluster.stop();
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
  });

  /** Runs it as the administrator, or as somebody else; addresses that differ from run to run are left out. */
  const run = async (args: readonly string[] = [], as?: string): Promise<Outcome> => {
    const config = as === undefined ? kubeconfig : await impersonating(as);
    const { code, stdout, stderr } = await runProgram(['doctor', '--kubeconfig', config, ...args]);
    const hide = (text: string): string =>
      text
        .replaceAll(`127.0.0.1:${cluster.port}`, 'API')
        .replaceAll(`127.0.0.1:${server.port}`, 'REPLICA')
        .replaceAll(/good until \S+/g, 'good until THEN');
    return { code, stdout: hide(stdout), stderr: hide(stderr) };
  };

  async function impersonating(user: string): Promise<string> {
    const config = parse(await readFile(kubeconfig, 'utf8')) as { readonly users: readonly [{ user: object }] };
    Object.assign(config.users[0].user, { as: user });
    const folder = await mkdtemp(join(tmpdir(), 'portcullis-'));
    folders.push(folder);
    const path = join(folder, 'kubeconfig');
    await writeFile(path, stringify(config));
    return path;
  }

  test('tells that all is well', async () => {
    const { code, stdout, stderr } = await run();
    assert.equal(
      stdout,
      `ok    api-server     API server: Kubernetes v1.36.0+portcullis-dev has all that is needed
ok    webhooks       ValidatingWebhookConfiguration psa.portcullis.dev: has all 5 webhooks as this version of portcullis wants them
ok    webhooks       MutatingWebhookConfiguration zz.scc.portcullis.dev: has all 2 webhooks as this version of portcullis wants them
ok    webhooks       MutatingWebhookConfiguration objects.scc.portcullis.dev: has all 1 webhooks as this version of portcullis wants them
ok    webhooks       ValidatingWebhookConfiguration scc.portcullis.dev: has all 5 webhooks as this version of portcullis wants them
ok    break-glass    webhooks: break-glass is not in force
ok    reachable      psa.portcullis.dev: answers
ok    reachable      validate.scc.portcullis.dev: answers
ok    reachable      mutate.scc.portcullis.dev: answers
ok    reachable      objects.scc.portcullis.dev: answers
info  reachable      fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev, advise.psa.portcullis.dev and 5 more: not tried: no dry run asks them, or the API server says nothing when they fail
ok    certificates   caBundle: every webhook trusts what is served
info  replicas       Deployment portcullis: 0 of 3 replicas ready; API servers ask at https://REPLICA
ok    replicas       https://REPLICA: a replica answers there
ok    leases         Lease portcullis: test leads
ok    rights         service account: may do all that the replicas do
ok    configuration  configmaps/portcullis-configuration configuration.yaml: can be read
ok    arrangement    PodSecurity plugin: is off: Portcullis alone judges by Pod Security
ok    tiers          namespaces: none that looks like networking, DNS or storage fails closed
ok    deadlocks      namespace portcullis: no webhook that fails closed is asked about what the replicas need to start

While no replica answers:
TIER          PODS             NAMESPACE LABELS   NEW NAMESPACES     COUNT   NAMESPACES
fail-closed   refused          refused            refused            3       default, kube-node-lease, kube-public
fail-open     start unjudged   change unjudged    created unjudged   1       kube-system
excluded      start            change             created            1       portcullis

0 problems, 0 warnings
`,
    );
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  });

  test('says the same to programs, and stores nothing', async () => {
    const { stdout } = await run(['-o', 'json']);
    const { findings, outage } = JSON.parse(stdout) as {
      readonly findings: readonly object[];
      readonly outage: object[];
    };
    assert.deepEqual(findings[0], {
      check: 'api-server',
      severity: 'ok',
      where: 'API server',
      what: 'Kubernetes v1.36.0+portcullis-dev has all that is needed',
    });
    assert.equal(outage.length, 3);
    assert.match((await run(['-o', 'yaml'])).stdout, /^server: https:\/\/API\nbreakGlass: (?:"off"|off)\nfindings:\n/);
    for (const path of [
      '/api/v1/namespaces',
      '/api/v1/pods',
      '/apis/security.openshift.io/v1/securitycontextconstraints',
    ]) {
      assert.doesNotMatch((await cluster.admin.send('GET', path)).text, /portcullis-doctor/);
    }
  });

  test('says what it may not look at', async () => {
    const rules = [
      {
        apiGroups: ['admissionregistration.k8s.io'],
        resources: ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'],
        verbs: ['list'],
      },
    ];
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'webhook-viewer' };
    const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'viewer' }];
    const type = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name: 'webhook-viewer' } };
    await installer.create(
      { ...type, kind: 'ClusterRole', rules } as KubeObject,
      { ...type, kind: 'ClusterRoleBinding', roleRef, subjects } as KubeObject,
    );
    const { code, stdout } = await run([], 'viewer');
    const unknown = stdout.split('\n').filter((line) => line.startsWith('unknown'));
    const denied = (verb: string, resource: string, group: string, where: string): string =>
      `User "viewer" cannot ${verb} resource "${resource}" in API group "${group}" ${where}`;
    assert.deepEqual(unknown, [
      `unknown  reachable     a namespace: could not be tried: namespaces is forbidden: ${denied('create', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  reachable     an SCC: could not be tried: securitycontextconstraints.security.openshift.io is forbidden: ${denied('create', 'securitycontextconstraints', 'security.openshift.io', 'at the cluster scope')}`,
      `unknown  certificates  serving certificate: secrets "portcullis-serving-certificate" is forbidden: ${denied('get', 'secrets', '', 'in the namespace "portcullis"')}`,
      `unknown  replicas      Deployment portcullis: deployments.apps "portcullis" is forbidden: ${denied('get', 'deployments', 'apps', 'in the namespace "portcullis"')}`,
      `unknown  leases        Leases: leases.coordination.k8s.io is forbidden: ${denied('list', 'leases', 'coordination.k8s.io', 'in the namespace "portcullis"')}`,
      `unknown  rights        service account: subjectaccessreviews.authorization.k8s.io is forbidden: ${denied('create', 'subjectaccessreviews', 'authorization.k8s.io', 'at the cluster scope')}`,
      `unknown  arrangement   PodSecurity plugin: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  tiers         namespaces: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  deadlocks     namespaces: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
    ]);
    assert.equal(code, 0);
  });

  test('cannot look without any rights', async () => {
    const { code, stdout, stderr } = await run([], 'nobody');
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
    assert.match(
      stderr,
      /^error: https:\/\/API: \w+webhookconfigurations\.admissionregistration\.k8s\.io is forbidden: User "nobody" cannot list /,
    );
  });

  test('tells what is wrong when no replica answers, and what breaks the glass', async () => {
    await server.stop();
    const { code, stdout } = await run();
    assert.equal(code, 1);
    assert.deepEqual(
      stdout
        .split('\n')
        .filter((line) => line.startsWith('problem'))
        .sort(),
      [...['mutate.scc', 'objects.scc', 'psa'].map((name) => problemOf(name)), DEAD],
    );
    await runProgram(['break-glass', 'on', '--kubeconfig', kubeconfig]);
    const { stdout: diagnosis } = await run();
    const broken = diagnosis.split('\n').filter((line) => line.startsWith('problem'));
    assert.deepEqual(broken.slice(1), [DEAD]);
    assert.match(
      broken[0] ?? '',
      /^problem {2}break-glass {4}webhooks: break-glass is in force for .*, since \S+ by admin$/,
    );
    assert.match(
      diagnosis,
      /^ +Fix: first what is a problem below \(replicas\), or requests are refused again; then portcullis break-glass off$/m,
    );
    assert.match(
      diagnosis,
      /^While no replica answers, after "portcullis break-glass off":\nTIER .*\nfail-closed +refused +refused +refused +3 /m,
    );
  });
});

const DEAD =
  'problem  replicas       https://REPLICA: no replica answers there: dial tcp REPLICA: connect: connection refused';

const ASKED: Readonly<Record<string, readonly [what: string, path: string]>> = {
  'mutate.scc': ['a pod in default', '/scc/mutate?timeout=15s'],
  'objects.scc': ['an SCC', '/scc/objects/default?timeout=10s'],
  psa: ['a namespace', '/psa/validate?timeout=5s'],
};

function problemOf(name: string): string {
  const [what = '', path = ''] = ASKED[name] ?? [];
  return `problem  reachable      ${name}.portcullis.dev: cannot be called for ${what}: failed to call webhook: Post "https://REPLICA${path}": dial tcp REPLICA: connect: connection refused`;
}

/** All manifests, for webhooks at that server, and a leader. */
function installation({ port, ca }: TestServer): readonly KubeObject[] {
  const settings = { ...defaultSettings('1.2.3'), webhooks: { url: `https://127.0.0.1:${port}` } };
  const caBundle = Buffer.from(ca).toString('base64');
  const renewTime = new Date().toISOString().replace('Z', '000Z');
  return [
    ...buildManifests(settings).map((manifest) => withAuthority(manifest, caBundle)),
    {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'portcullis', namespace: 'portcullis' },
      spec: { holderIdentity: 'test', leaseDurationSeconds: 3600, renewTime },
    } as KubeObject,
  ];
}

function withAuthority(manifest: KubeObject & { readonly webhooks?: unknown }, caBundle: string): KubeObject {
  if (!Array.isArray(manifest.webhooks)) return manifest;
  const hooks = manifest.webhooks as readonly { readonly clientConfig: object }[];
  const webhooks = hooks.map((hook) => ({ ...hook, clientConfig: { ...hook.clientConfig, caBundle } }));
  return { ...manifest, webhooks } as KubeObject;
}
