import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import type { WebhookConfiguration } from '../../../src/api/webhooks.ts';
import { VERSION } from '../../../src/cli/command.ts';
import { evaluateChecks } from '../../../src/cli/doctor/checks/index.ts';
import {
  type Facts,
  factValue,
  type FloorObject,
  type NamespaceFact,
  type Probe,
} from '../../../src/cli/doctor/facts.ts';
import { printFinding } from '../../../src/cli/doctor/fix.ts';
import { simulateOutage, simulateSccWrites } from '../../../src/cli/doctor/outage.ts';
import { requiredPolicies } from '../../../src/controllers/admission-policies.ts';
import {
  buildManifests,
  decodePolicy,
  defaultSettings,
  DEV_CLUSTER_ENFORCEMENT,
  type ManifestSettings,
  PROFILES,
  staticWebhookConfigurations,
} from '../../../src/install/index.ts';
import { parseWebhookConfiguration } from '../../../src/install/live-webhooks.ts';
import { allow } from '../../../src/kube/admission.ts';
import type { Kinds } from '../../../src/kube/kinds.ts';
import type { KubeObject } from '../../../src/kube/types.ts';
import type { PolicyObject } from '../../../src/policy/psa/index.ts';
import { WEBHOOK_REGISTRATIONS } from '../../../src/server/webhooks/index.ts';
import { createAuthority, createServing } from '../../../src/tls/issue.ts';
import { startAdmissionServer, type TestServer } from '../../support/admission-server.ts';
import { configuration } from '../../support/certificates.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import { createInstaller, type Installer } from '../../support/installer.ts';
import { type Outcome, runProgram } from '../../support/memory-io.ts';

const PATHS = new Set(WEBHOOK_REGISTRATIONS.map(({ path }) => path));
/** A default installation with SCCs. */
const WITH_SCCS: ManifestSettings = { ...defaultSettings(VERSION), ...PROFILES.scc };
/** An installation with static webhooks that enforces everything. */
const SETTINGS: ManifestSettings = {
  ...WITH_SCCS,
  policy: { webhooks: { management: 'static' }, scc: { mode: 'enforce' }, rollout: { phase: 'Enforce' } },
};
const INSTALLED = staticWebhookConfigurations(SETTINGS);
const DEV_CLUSTER = staticWebhookConfigurations(SETTINGS, DEV_CLUSTER_ENFORCEMENT);

/**
 * Replaces `ALL webhooks` with the number of webhooks of the configuration, and `OTHERS more` with the number of
 * webhooks that the text does not name.
 */
function withCounts(expected: string, installed = INSTALLED): string {
  const names = new Set(installed.flatMap(({ webhooks = [] }) => webhooks.map(({ name }) => name)));
  const others = [...names].filter((name) => !new RegExp(` ${name}(?:,| and |: (?!ALL))`).test(expected)).length;
  return expected.replaceAll('OTHERS more', `${others} more`).replaceAll(/(\S+): ALL webhooks/g, (_, name: string) => {
    const count = installed.find(({ metadata }) => metadata.name === name)?.webhooks?.length;
    return `${name}: ${count} ${count === 1 ? 'webhook' : 'webhooks'}`;
  });
}

describe('doctor', () => {
  let cluster: TestCluster;
  let server: TestServer;
  let installer: Installer;
  before(async () => {
    [cluster, server] = await Promise.all([
      startCluster(),
      startAdmissionServer([...PATHS].map((path) => ({ path, decide: () => allow() }))),
    ]);
    installer = createInstaller(cluster.admin);
    await installer.create(...installation(server));
  });
  after(async () => {
    await server.stop();
    assert.deepEqual(cluster.errors, []);
    await cluster.stop();
  });

  /** Runs the command as the administrator or as another user, and replaces variable addresses and times. */
  const run = async (args: readonly string[] = [], as?: string): Promise<Outcome> => {
    const { code, stdout, stderr } = await runProgram([
      'doctor',
      '--kubeconfig',
      await cluster.kubeconfig(as),
      ...args,
    ]);
    const hide = (text: string): string =>
      text
        .replaceAll(`127.0.0.1:${cluster.port}`, 'API')
        .replaceAll(`127.0.0.1:${server.port}`, 'REPLICA')
        .replaceAll(/valid until \S+/g, 'valid until THEN');
    return { code, stdout: hide(stdout), stderr: hide(stderr) };
  };

  test('reports a healthy installation', async () => {
    const { code, stdout, stderr } = await run();
    assert.equal(
      stdout,
      withCounts(`ok    installation     objects of the installation: match the manifests
ok    api-server       API server: Kubernetes v1.36.0+portcullis-dev is supported
ok    api-server       Pod Security: latest means v1.36, as in the API server
ok    webhooks         ValidatingWebhookConfiguration portcullis.dev: ALL webhooks, as expected by this version
ok    webhooks         MutatingWebhookConfiguration zz.portcullis.dev: ALL webhooks, as expected by this version
ok    floor            floor: is off. While no replica responds, no pods can be created in fail-closed namespaces
ok    break-glass      webhooks: break-glass is off
ok    reachability     validate.pods.portcullis.dev: responds
ok    reachability     mutate.pods.portcullis.dev: responds
ok    reachability     objects.portcullis.dev: responds
ok    reachability     mutate.objects.portcullis.dev: responds
info  reachability     connect.pods.portcullis.dev, fail-open.connect.pods.portcullis.dev, fail-open.mutate.pods.portcullis.dev and OTHERS more: not tested: no dry run of this command exercises them
ok    certificates     caBundle: every webhook trusts the serving certificate
info  replicas         Deployment portcullis: 0 of 3 replicas ready. API servers call the webhooks at https://REPLICA
ok    replicas         https://REPLICA: a replica responds
ok    leases           Lease portcullis: test is the leader
ok    configuration    PortcullisConfiguration cluster: generation 1 is valid and in force
ok    other-admission  PodSecurity plugin: is disabled. Only Portcullis evaluates pods
ok    tiers            namespaces: no namespace for networking, DNS or storage fails closed
ok    deadlocks        namespace portcullis: no fail-closed webhook matches the requests that start the replicas

While no replica responds (the PodSecurity plugin, if enabled, still enforces labels):
TIER          REASON                PODS           EXEC, ATTACH   NAMESPACE WRITES   COUNT   NAMESPACES
fail-closed   default level         denied         not reviewed   not reviewed       1       kube-public
fail-closed   default level, SCCs   denied         denied         not reviewed       2       default, kube-node-lease
fail-open                           not reviewed   not reviewed   not reviewed       1       kube-system
excluded                            unaffected     unaffected     unaffected         1       portcullis
Writes of SCCs: denied

0 problems, 0 warnings
`),
    );
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  });

  test('creates no pods in a terminating namespace', async () => {
    const labels = { 'portcullis.dev/admission': 'fail-open', 'pod-security.kubernetes.io/enforce': 'restricted' };
    const metadata = { name: 'terminating', labels, finalizers: ['example.com/wait'] };
    await cluster.admin.send('POST', '/api/v1/namespaces', { metadata });
    const before = await run();
    await cluster.admin.send('DELETE', '/api/v1/namespaces/terminating');
    const { code, stdout } = await run();
    assert.equal(stdout, before.stdout.replace(/2( +)kube-system, terminating/, '1$1kube-system'));
    assert.equal(code, 0);
    await cluster.admin.send(
      'PATCH',
      '/api/v1/namespaces/terminating',
      { metadata: { finalizers: null } },
      {
        'content-type': 'application/merge-patch+json',
      },
    );
  });

  test('prints fixes for the cluster that its flags select', async () => {
    const namespaces = '/api/v1/namespaces';
    await cluster.admin.send('POST', namespaces, { metadata: { name: 'calico-system' } });
    const kubeconfig = await cluster.kubeconfig();
    const { stdout } = await runProgram(['doctor', `--kubeconfig=${kubeconfig}`]);
    const fix = `kubectl label namespace calico-system portcullis.dev/admission=fail-open --overwrite --kubeconfig=${kubeconfig}`;
    const note = 'only if cluster administrators alone can create pods in it';
    assert.ok(stdout.includes(`Fix: ${fix} # ${note}\n`), stdout);
    await cluster.admin.send('DELETE', `${namespaces}/calico-system`);
  });

  test('prints JSON, and stores nothing', async () => {
    const { stdout } = await run(['-o', 'json']);
    const { findings, outage } = JSON.parse(stdout) as {
      readonly findings: readonly object[];
      readonly outage: object[];
    };
    assert.deepEqual(findings[0], {
      check: 'installation',
      severity: 'ok',
      object: 'objects of the installation',
      message: 'match the manifests',
    });
    assert.equal(outage.length, 4);
    assert.match((await run(['-o', 'yaml'])).stdout, /^server: https:\/\/API\nbreakGlass: (?:"off"|off)\nfindings:\n/);
    for (const path of [
      '/api/v1/namespaces',
      '/api/v1/pods',
      '/apis/security.openshift.io/v1/securitycontextconstraints',
    ]) {
      assert.doesNotMatch((await cluster.admin.send('GET', path)).text, /portcullis-doctor/);
    }
  });

  test('reports facts that it cannot read', async () => {
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
      `unknown  installation     objects of the installation: customresourcedefinitions.apiextensions.k8s.io "portcullisconfigurations.config.portcullis.dev" is forbidden: ${denied('get', 'customresourcedefinitions', 'apiextensions.k8s.io', 'at the cluster scope')}`,
      `unknown  installation     roles: portcullisconfigurations.config.portcullis.dev "cluster" is forbidden: ${denied('get', 'portcullisconfigurations', 'config.portcullis.dev', 'at the cluster scope')}`,
      `unknown  webhooks         webhooks: portcullisconfigurations.config.portcullis.dev "cluster" is forbidden: ${denied('get', 'portcullisconfigurations', 'config.portcullis.dev', 'at the cluster scope')}`,
      `unknown  floor            floor: portcullisconfigurations.config.portcullis.dev "cluster" is forbidden: ${denied('get', 'portcullisconfigurations', 'config.portcullis.dev', 'at the cluster scope')}`,
      `unknown  reachability     an SCC: the dry run failed: securitycontextconstraints.security.openshift.io is forbidden: ${denied('create', 'securitycontextconstraints', 'security.openshift.io', 'at the cluster scope')}`,
      `unknown  certificates     serving certificate: secrets "portcullis-serving-certificate" is forbidden: ${denied('get', 'secrets', '', 'in the namespace "portcullis"')}`,
      `unknown  replicas         Deployment portcullis: deployments.apps "portcullis" is forbidden: ${denied('get', 'deployments', 'apps', 'in the namespace "portcullis"')}`,
      `unknown  replicas         Deployments in other namespaces: deployments.apps is forbidden: ${denied('list', 'deployments', 'apps', 'at the cluster scope')}`,
      `unknown  leases           Leases: leases.coordination.k8s.io is forbidden: ${denied('list', 'leases', 'coordination.k8s.io', 'in the namespace "portcullis"')}`,
      `unknown  configuration    configuration: portcullisconfigurations.config.portcullis.dev "cluster" is forbidden: ${denied('get', 'portcullisconfigurations', 'config.portcullis.dev', 'at the cluster scope')}`,
      `unknown  rollout          PSAEnforcementConfig cluster: psaenforcementconfigs.config.openshift.io "cluster" is forbidden: ${denied('get', 'psaenforcementconfigs', 'config.openshift.io', 'at the cluster scope')}`,
      `unknown  grants           grants of SCCs: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  other-admission  PodSecurity plugin: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  tiers            namespaces: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  deadlocks        namespaces: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
    ]);
    assert.equal(code, 0);
  });

  test('reports a cluster in Legacy mode before an upgrade, as the upgrade command does', async () => {
    const path = '/apis/config.openshift.io/v1alpha1/psaenforcementconfigs';
    const type = { apiVersion: 'config.openshift.io/v1alpha1', kind: 'PSAEnforcementConfig' };
    await cluster.admin.send('POST', path, { ...type, metadata: { name: 'cluster' }, spec: {} });
    const state = { type: 'Upgradeable', status: 'False', reason: 'LegacyMode', message: 'leave it' };
    const conditions = [{ ...state, lastTransitionTime: '2026-11-30T00:00:00Z' }];
    const headers = { 'content-type': 'application/merge-patch+json' };
    const { status, text } = await cluster.admin.send(
      'PATCH',
      `${path}/cluster/status`,
      { status: { conditions } },
      headers,
    );
    assert.equal(status, 200, text);
    const expected = 'PSAEnforcementConfig cluster: Upgradeable is False: leave it';
    const { stdout } = await run();
    assert.ok(stdout.includes(`${expected}\n`), stdout);
    assert.match(
      stdout,
      /Fix: portcullis rollout plan --kubeconfig=\S+ # fix the listed workloads\. Once there are no violations, portcullis rollout status prints the command that clears the mode\n/,
    );
    const { stderr } = await runProgram(['upgrade', `--kubeconfig=${await cluster.kubeconfig()}`]);
    assert.ok(stderr.includes(`Note: ${expected}\n`), stderr);
    await cluster.admin.send('DELETE', `${path}/cluster`);
  });

  test('uses the last valid settings if the settings are invalid', async () => {
    const path = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
    const definition =
      '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/portcullisconfigurations.config.portcullis.dev';
    const patch = async (where: string, body: object): Promise<void> => {
      const type = `application/${Array.isArray(body) ? 'json' : 'merge'}-patch+json`;
      const { status, text } = await cluster.admin.send('PATCH', where, body, { 'content-type': type });
      assert.equal(status, 200, text);
    };
    const setSchema = async (value: unknown): Promise<void> =>
      await patch(definition, [{ op: 'replace', path: '/spec/versions/0/schema/openAPIV3Schema', value }]);
    const { versions } = (JSON.parse((await cluster.admin.send('GET', definition)).text) as Definition).spec;
    // The CRD of another version may accept other settings.
    await setSchema({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true });
    const dependent = async (): Promise<readonly string[]> =>
      (await run()).stdout.split('\n').filter((line) => /^\S+ +(?:floor|webhooks) |^\w+ .* roles: /.test(line));
    const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', rules: [] };
    const labels = { 'app.kubernetes.io/part-of': 'portcullis' };
    await installer.create({ ...role, metadata: { name: 'portcullis-unused', labels } });
    await patch(path, { spec: { podSecurity: { exceptions: { maxDuration: '0s' } } } });
    assert.deepEqual(await dependent(), [
      'unknown  installation     roles: not compared with the settings, which are invalid',
      'unknown  webhooks         webhooks: not compared with the settings, which are invalid',
      'unknown  floor            floor: not compared with the settings, which are invalid',
    ]);
    const applied = { generation: 1, spec: { ...SETTINGS.policy, floor: { mode: 'enforce' } } };
    await patch(`${path}/status`, { status: { applied } });
    assert.deepEqual(
      (await dependent()).filter((line) => !line.includes('webhooks ')),
      [
        'warning  installation     roles: clusterroles/portcullis-unused remain from previous settings',
        'problem  floor            floor: is on, but no policy is in force',
      ],
    );
    await patch(path, { spec: { podSecurity: null } });
    await patch(`${path}/status`, { status: { applied: null } });
    await setSchema(versions[0]?.schema.openAPIV3Schema);
    await cluster.admin.send('DELETE', '/apis/rbac.authorization.k8s.io/v1/clusterroles/portcullis-unused');
  });

  test('fails if the user has no permissions', async () => {
    const { code, stdout, stderr } = await run([], 'nobody');
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
    assert.match(
      stderr,
      /^error: https:\/\/API: \w+webhookconfigurations\.admissionregistration\.k8s\.io is forbidden: User "nobody" cannot list /,
    );
  });

  test('reports an outage, and then break-glass', async () => {
    await server.stop();
    const { code, stdout } = await run();
    assert.equal(code, 1);
    assert.deepEqual(
      stdout
        .split('\n')
        .filter((line) => line.startsWith('problem'))
        .sort(),
      [
        failedCall('mutate.objects', 'an SCC', '/mutate/objects?timeout=10s'),
        failedCall('mutate.pods', 'a pod in default', '/mutate/pods?timeout=15s'),
        DEAD,
      ],
    );
    await runProgram(['break-glass', 'on', '--kubeconfig', await cluster.kubeconfig()]);
    const { stdout: diagnosis } = await run();
    const problems = diagnosis.split('\n').filter((line) => line.startsWith('problem'));
    assert.deepEqual(problems.slice(1), [DEAD]);
    assert.match(
      problems[0] ?? '',
      /^problem {2}break-glass {6}webhooks: break-glass is on for .*, since \S+ by admin$/,
    );
    assert.match(diagnosis, /^ +Fix: # first fix the problems that these checks report: replicas$/m);
    assert.match(
      diagnosis,
      /^While no replica responds, after "portcullis break-glass off" \(the PodSecurity plugin, if enabled, still enforces labels\):\nTIER .*\nfail-closed +default level +denied +not reviewed +not reviewed +1 /m,
    );
  });
});

/** The CRD for the settings. */
interface Definition {
  readonly spec: { readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: object } }[] };
}

const DEAD =
  'problem  replicas         https://REPLICA: no replica responds: dial tcp REPLICA: connect: connection refused';

function failedCall(name: string, what: string, path: string): string {
  return `problem  reachability     ${name}.portcullis.dev: the call for ${what} failed: failed to call webhook: Post "https://REPLICA${path}": dial tcp REPLICA: connect: connection refused`;
}

/** Returns the manifests of an installation whose webhook URLs point to the server, and the Lease of a leader. */
function installation({ port, ca }: TestServer): readonly KubeObject[] {
  const settings = { ...SETTINGS, webhooks: { url: `https://127.0.0.1:${port}` } };
  const caBundle = Buffer.from(ca).toString('base64');
  const renewTime = new Date().toISOString().replace('Z', '000Z');
  const lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'portcullis', namespace: 'portcullis' },
    spec: { holderIdentity: 'test', leaseDurationSeconds: 3600, renewTime },
  };
  const policy = {
    apiVersion: 'config.portcullis.dev/v1alpha1',
    kind: 'PortcullisConfiguration',
    metadata: { name: 'cluster' },
    spec: settings.policy,
  };
  return JSON.parse(JSON.stringify([...buildManifests(settings), policy, lease]), (key, value: object) =>
    key === 'clientConfig' ? { ...value, caBundle } : value,
  ) as readonly KubeObject[];
}

const NOW = new Date('2026-01-15T12:00:00Z');
const DAY_MS = 24 * 60 * 60 * 1000;
const AUTHORITY = createAuthority({ now: NOW, days: 365 });

/** Returns a serving certificate that is valid for a week. */
function served(source: string, daysAgo = 0, authority = AUTHORITY): Facts['certificate'] {
  const names = { dnsNames: ['portcullis.portcullis.svc'], ipAddresses: [] };
  const now = new Date(NOW.getTime() - daysAgo * DAY_MS);
  return { value: { source, chain: createServing(authority, names, { now, days: 7 }).cert } };
}

/** Returns the webhook configurations of an installation, as API servers store them. */
function registered(change: (webhook: Record<string, unknown>) => object = (webhook) => webhook, required = INSTALLED) {
  const caBundle = Buffer.from(AUTHORITY.cert).toString('base64');
  return required.map((manifest) => {
    const webhooks = (manifest.webhooks ?? []).map((webhook) =>
      change({ ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } }),
    );
    const object = { ...manifest, webhooks } as WebhookConfiguration;
    return parseWebhookConfiguration(manifest.kind as Facts['webhookConfigurations'][number]['kind'], object);
  });
}

/** Returns a namespace with the label that API servers set. */
function namespace(name: string, labels: Readonly<Record<string, string>> = {}): NamespaceFact {
  return { name, labels: { 'kubernetes.io/metadata.name': name, ...labels } };
}

/** Returns a ready replica. */
function replica(nodeName: string): Kinds['Pod'] {
  return {
    metadata: { name: `replica-${nodeName}`, labels: { 'app.kubernetes.io/name': 'portcullis' } },
    spec: { nodeName, containers: [] },
    status: { conditions: [{ type: 'Ready', status: 'True' }] },
  };
}

function dryRun(id: Probe['id'], resource: string, where?: string): Probe {
  const scope = where === undefined ? {} : { namespace: namespace(where) };
  return { id, group: '', resource, body: {}, object: { metadata: { name: 'x' } }, ...scope };
}

/** Returns the Deployment of an installation with the changes in the fixture. */
function deployment({ metadata, spec, status }: Partial<Kinds['Deployment']>): Facts['deployment'] {
  const manifest = buildManifests(SETTINGS).find(({ kind }) => kind === 'Deployment') as Kinds['Deployment'];
  return {
    value: {
      ...manifest,
      metadata: { ...manifest.metadata, ...metadata },
      ...(manifest.spec ? { spec: { ...manifest.spec, ...spec } } : {}),
      status: { readyReplicas: 3, ...status },
    },
  };
}

const HEALTHY: Facts = {
  now: NOW,
  namespace: 'portcullis',
  settings: SETTINGS,
  server: { value: { version: 'v1.36.3', minor: 'v1.36', groups: ['apps', 'security.openshift.io'] } },
  webhookConfigurations: registered(),
  policies: { value: [] },
  namespaces: { value: [namespace('default'), namespace('kube-system'), namespace('portcullis')] },
  nodes: { value: [{ metadata: { name: 'n1' } }, { metadata: { name: 'n2' } }] },
  deployment: deployment({}),
  otherInstallations: { value: [] },
  pods: { value: [replica('n1'), replica('n2')] },
  endpointSlices: {
    value: [
      {
        metadata: { name: 'portcullis-1', labels: { 'kubernetes.io/service-name': 'portcullis' } },
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.0.0.7'] }],
      },
    ],
  },
  disruptionBudgets: { value: [{ metadata: { name: 'portcullis' } }] },
  leases: {
    value: [
      {
        metadata: { name: 'portcullis' },
        spec: { holderIdentity: 'a', leaseDurationSeconds: 15, renewTime: '2026-01-15T12:00:00.000000Z' },
      },
    ],
  },
  certificate: served('secrets/portcullis-serving-certificate'),
  urlCertificates: new Map(),
  settingsObject: { value: { metadata: { generation: 3 }, spec: SETTINGS.policy } },
  spec: { value: SETTINGS.policy },
  changedObjects: { value: [] },
  obsolete: { value: [] },
  exceptions: { value: [] },
  suspectGrants: { value: [] },
  exemptionProblems: { value: [] },
  upgradeProblem: { value: undefined },
  probes: [dryRun('a pod', 'pods', 'default'), dryRun('a violating pod', 'pods', 'portcullis')],
};

/** The default settings with the webhooks that the leader registers for them. */
const MANAGED = {
  settings: WITH_SCCS,
  webhookConfigurations: registered(undefined, staticWebhookConfigurations(WITH_SCCS)),
};

const NOTHING: Partial<Facts> = {
  webhookConfigurations: [],
  deployment: { value: undefined },
  leases: { value: [] },
  certificate: { value: { source: 'secrets/portcullis-serving-certificate', chain: undefined } },
  changedObjects: { value: [{ apiVersion: 'v1', kind: 'ClusterRoleBinding', metadata: { name: 'portcullis' } }] },
};

const OFF_CONDITION = { name: 'break-glass', expression: 'false' };
const withOffCondition = (webhook: Record<string, unknown>): object => ({
  ...webhook,
  matchConditions: [...((webhook['matchConditions'] ?? []) as object[]), OFF_CONDITION],
});
const SWITCHED_OFF = registered(withOffCondition);

const AT_URL: Partial<Facts> = {
  settings: { ...SETTINGS, webhooks: { url: 'https://127.0.0.1:8443' } },
  deployment: { value: undefined },
  webhookConfigurations: registered((webhook) => ({ ...webhook, clientConfig: { url: 'https://127.0.0.1:8443/x' } })),
  urlCertificates: new Map([['https://127.0.0.1:8443', { unknown: 'https://127.0.0.1:8443: connection refused' }]]),
};

function withWebhook(name: string, change: object): Pick<Facts, 'webhookConfigurations'> {
  return {
    webhookConfigurations: registered((webhook) => (webhook['name'] === name ? { ...webhook, ...change } : webhook)),
  };
}

/** Returns the registered configurations, and one that belongs to another product. */
function withPolicy(webhook: object): Pick<Facts, 'webhookConfigurations'> {
  const policy = {
    name: 'policy.example.com',
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    clientConfig: { service: { namespace: 'policy', name: 'policy' } },
    rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['pods'] }],
    ...webhook,
  };
  const object = { metadata: { name: 'policy' }, webhooks: [policy] };
  return {
    webhookConfigurations: [...registered(), parseWebhookConfiguration('ValidatingWebhookConfiguration', object)],
  };
}

const WITH_EXCEPTIONS = {
  settings: { ...SETTINGS, policy: { ...SETTINGS.policy, podSecurity: { exceptions: { mode: 'approved' } } } },
};

/** Policies of an installation without a server, and the settings that the server enforces less strictly. */
function besideServer(...weaker: readonly string[]): Partial<Facts> {
  const policies = [{ kind: 'ValidatingAdmissionPolicy', metadata: { name: 'a' } }] as const;
  return { remainingPolicies: { policies, weaker: { value: weaker } } };
}

/** Returns a configuration with the label of Portcullis, but with another name. */
function buildCopy(
  name: string,
  failurePolicy: 'Fail' | 'Ignore',
  url?: string,
): Facts['webhookConfigurations'][number] {
  const { webhooks = [], ...rest } = configuration(name, [`${failurePolicy.toLowerCase()}.portcullis.dev`]);
  const client = url === undefined ? {} : { clientConfig: { url } };
  const object = { ...rest, webhooks: webhooks.map((webhook) => ({ ...webhook, failurePolicy, ...client })) };
  return parseWebhookConfiguration('ValidatingWebhookConfiguration', object);
}

/** Returns an installation with a floor, and webhooks that fail open or closed. */
function withFloor(
  failurePolicy: 'Fail' | 'Ignore',
  select: (all: readonly PolicyObject[]) => readonly PolicyObject[],
) {
  const policy = {
    podSecurity: { defaults: { enforce: 'baseline' } },
    scc: { mode: 'enforce' },
    floor: { mode: 'enforce' },
    webhooks: { failurePolicy },
  };
  const settings = { ...WITH_SCCS, policy };
  const { podSecurity } = decodePolicy(settings);
  const versions = { emulationVersion: 'v1.36', serverVersion: 'v1.36' } as const;
  const required = requiredPolicies({ podSecurity, ...versions, namespace: 'portcullis' });
  const policies = select(required);
  const isOpen = failurePolicy === 'Ignore' && policies === required;
  const webhooks = staticWebhookConfigurations(settings, { rollout: false, floor: isOpen });
  return {
    settings,
    webhookConfigurations: registered(undefined, webhooks),
    policies: { value: policies as unknown as readonly FloorObject[] },
  };
}

/** Changes that the fixture cannot express as data, keyed by case. */
const DEV_CLUSTER_FACTS: Partial<Facts> = {
  ...NOTHING,
  webhookConfigurations: registered(undefined, DEV_CLUSTER),
  leases: { value: [{ metadata: { name: 'portcullis' } }] },
  server: { value: { version: 'v1.36.0+portcullis-dev', minor: 'v1.36', groups: ['security.openshift.io'] } },
};

const CHANGES: Readonly<Record<string, Partial<Facts>>> = {
  'no installation': NOTHING,
  'a floor with kube-system': withFloor('Fail', (all) => all),
  'a floor with webhooks that fail closed': withFloor('Fail', (all) => all),
  'a floor on an old API server': {
    ...withFloor('Fail', () => []),
    server: { value: { version: 'v1.34.4', minor: 'v1.34', groups: [] } },
  },
  'a floor that is not in force': withFloor('Ignore', (all) => all.slice(0, 1)),
  'a guard whose binding is missing, and a group that contains all users': {
    settings: { ...SETTINGS, policy: { ...SETTINGS.policy, guard: { labels: 'enforce' } } },
  },
  'an API server with an emulated version': {
    settings: { ...SETTINGS, policy: { ...SETTINGS.policy, podSecurity: { emulationVersion: 'v1.33' } } },
  },
  'development cluster': DEV_CLUSTER_FACTS,
  'break-glass in the development cluster': {
    ...DEV_CLUSTER_FACTS,
    webhookConfigurations: registered(withOffCondition, DEV_CLUSTER),
  },
  'webhooks that the leader maintains': MANAGED,
  'webhooks that the leader has not registered': {
    ...MANAGED,
    webhookConfigurations: MANAGED.webhookConfigurations.slice(1),
  },
  'webhooks that are not registered, because no replica is ready': {
    ...MANAGED,
    webhookConfigurations: MANAGED.webhookConfigurations.slice(1),
  },
  'SCCs that are not enforced': MANAGED,
  'defaults of pods without MutatingAdmissionPolicies': {
    settings: { ...SETTINGS, policy: { ...SETTINGS.policy, defaults: { mode: 'apply' } } },
  },
  'a missing webhook configuration, and no ready endpoint': { webhookConfigurations: registered().slice(1) },
  'a missing webhook configuration': { webhookConfigurations: registered().slice(1) },
  'a webhook with different fields': withWebhook('validate.pods.portcullis.dev', {
    failurePolicy: 'Ignore',
    timeoutSeconds: 30,
    objectSelector: { matchLabels: { a: 'b' } },
  }),
  'a webhook with a different path': withWebhook('connect.pods.portcullis.dev', {
    clientConfig: { url: 'https://127.0.0.1/other' },
  }),
  'webhooks from another version': withWebhook('workloads.portcullis.dev', { name: 'old.portcullis.dev' }),
  'a configuration without the label': {
    webhookConfigurations: registered().map((one) =>
      one.name === 'portcullis.dev' ? { ...one, metadata: { name: one.name } } : one,
    ),
  },
  'break-glass for one webhook': {
    webhookConfigurations: withWebhook('validate.pods.portcullis.dev', {
      matchConditions: [OFF_CONDITION],
    }).webhookConfigurations.map((one) => ({
      ...one,
      metadata: {
        ...one.metadata,
        annotations: {
          'portcullis.dev/break-glass-since': '2026-01-15T11:00:00Z',
          'portcullis.dev/break-glass-by': 'jo',
          'portcullis.dev/break-glass-reason': 'INC-1',
        },
      },
    })),
  },
  'break-glass': { webhookConfigurations: SWITCHED_OFF },
  'break-glass without other problems': { webhookConfigurations: SWITCHED_OFF },
  'break-glass without a certificate and a leader': { webhookConfigurations: SWITCHED_OFF },
  'break-glass with missing permissions': { webhookConfigurations: SWITCHED_OFF },
  'a certificate whose renewal is overdue': { certificate: served('secrets/a', 6.5) },
  'an expired certificate': { certificate: served('secrets/a', 8) },
  'a leader whose Lease has expired, without SCCs': {
    settings: { ...SETTINGS, features: { ...SETTINGS.features, scc: false } },
  },
  'exceptions without effect, expired, unused and soon to expire': WITH_EXCEPTIONS,
  'an exception that applies': WITH_EXCEPTIONS,
  'a certificate from an untrusted authority': {
    certificate: served('secrets/a', 0, createAuthority({ now: NOW, days: 7 })),
  },
  'a webhook without a caBundle': withWebhook('connect.pods.portcullis.dev', {
    clientConfig: { service: { namespace: 'portcullis', name: 'portcullis', path: '/connect/pods', port: 443 } },
  }),
  'copies of configurations': {
    webhookConfigurations: [
      ...registered(),
      buildCopy('copy-of-portcullis', 'Fail'),
      buildCopy('other-copy', 'Ignore'),
    ],
  },
  'a copy with a URL': {
    webhookConfigurations: [
      ...registered(),
      buildCopy('copy-of-portcullis', 'Fail', 'https://portcullis.portcullis.svc:8443/validate/pods'),
    ],
    urlCertificates: new Map([['https://portcullis.portcullis.svc:8443', served('the URL')]]),
  },
  'an installation without a Deployment': { deployment: { value: undefined } },
  'missing settings, and webhooks that are not registered yet': { webhookConfigurations: [] },
  'no floor, and no namespace that fails closed': {
    webhookConfigurations: registered((webhook) => ({ ...webhook, failurePolicy: 'Ignore' })),
  },
  'processes without a leader, beside a Deployment': { settings: AT_URL.settings ?? SETTINGS },
  'a process that was killed': { deployment: { value: undefined } },
  'a leader whose Lease has expired, without a Deployment': { deployment: { value: undefined } },
  'a URL without a response': { ...AT_URL, probes: [] },
  'a URL that only API servers reach': AT_URL,
  'a webhook of Portcullis': withWebhook('validate.pods.portcullis.dev', {
    namespaceSelector: {},
    matchConditions: [],
  }),
  'a webhook of another product': withPolicy({ matchConditions: [{ name: 'a', expression: 'true' }] }),
  'two webhooks that depend on each other': withPolicy({}),
  'a webhook that fails open': withPolicy({ failurePolicy: 'Ignore' }),
  'policies beside a server that enforces as much': besideServer(),
  'policies beside a server that enforces less': besideServer(
    'podSecurity.defaults.enforce from restricted to baseline',
  ),
  'policies beside a server that has not applied its settings': besideServer(),
  'policies beside a server without a leader': besideServer(),
};

interface Case {
  /** The check to evaluate. If absent, all checks are evaluated. */
  readonly check?: string;
  readonly case: string;
  readonly facts?: Partial<Facts>;
  /** Errors of dry runs, keyed by the ID of the dry run. */
  readonly refusals?: Readonly<Record<string, string>>;
  /** The lines of the findings. If only one check is evaluated, the lines of the healthy installation are omitted. */
  readonly findings: string;
}

/** Evaluates all checks or one of them. Returns one line for each text of a finding. */
function evaluateLines({ check, case: name, facts, refusals = {} }: Omit<Case, 'findings'>): readonly string[] {
  const probes = HEALTHY.probes.map(({ object, ...probe }): Probe => {
    const rejection = refusals[probe.id];
    return rejection === undefined ? { ...probe, ...(object ? { object } : {}) } : { ...probe, rejection };
  });
  const changed = facts?.deployment && factValue(facts.deployment);
  const all = {
    ...HEALTHY,
    probes,
    ...facts,
    ...(changed ? { deployment: deployment(changed) } : {}),
    ...CHANGES[name],
  };
  return evaluateChecks(all)
    .filter((finding) => check === undefined || finding.check === check)
    .map((finding) => printFinding(finding, []))
    .flatMap(({ severity, object, message, impact, fix }) => [
      `${severity} ${object}: ${message}`,
      ...(impact === undefined ? [] : [`Impact: ${impact}`]),
      ...(fix === undefined ? [] : [`Fix: ${fix}`]),
    ]);
}

describe('doctor checks', () => {
  const healthy = evaluateLines({ case: 'healthy installation' });
  for (const { findings, ...one } of parse(readFileSync('test/fixtures/doctor.yaml', 'utf8')) as readonly Case[]) {
    test(`${one.check ?? 'all'}: ${one.case}`, () => {
      const lines = evaluateLines(one);
      const omitted = lines.filter((line) => one.check !== undefined && healthy.includes(line));
      const installed = one.case.endsWith('development cluster') ? DEV_CLUSTER : INSTALLED;
      const expected = withCounts([...omitted, findings].join('\n'), installed).split('\n');
      assert.deepEqual(
        lines.filter((line) => !omitted.includes(line)),
        expected.slice(omitted.length, -1),
      );
    });
  }
});

interface FixCases {
  /** Installations in which an object is missing. */
  readonly installations: readonly {
    readonly name: string;
    readonly facts?: Partial<Facts>;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    /** The version of the replicas. */
    readonly version?: string;
    readonly settings?: Partial<Facts['settings']>;
    readonly fix: string;
  }[];
}

const { installations } = parse(readFileSync('test/fixtures/doctor-fixes.yaml', 'utf8')) as FixCases;

test('doctor prints the fix for a failed call', () => {
  const fixes: readonly (readonly [error: string, fix: string])[] = [
    ['service "portcullis" not found', 'portcullis install | kubectl apply --server-side '],
    ['connection refused', 'kubectl -n portcullis logs -l app.kubernetes.io/name=portcullis --tail=50 # '],
  ];
  for (const [error, fix] of fixes) {
    const rejection = `Internal error occurred: failed calling webhook "mutate.pods.portcullis.dev": ${error}`;
    const lines = evaluateLines({ check: 'reachability', case: '', refusals: { 'a pod': rejection } });
    assert.equal(lines[0], `problem mutate.pods.portcullis.dev: the call for a pod in default failed: ${error}`);
    assert.ok(lines[2]?.startsWith(`Fix: ${fix}`), lines[2]);
    assert.ok(!lines.includes('ok mutate.pods.portcullis.dev: responds'));
  }
});

describe('doctor prints the fix for an object that differs from the manifests', () => {
  for (const { name, facts, settings, labels = {}, annotations = {}, version = VERSION, fix } of installations) {
    test(name, () => {
      const { spec } = factValue(HEALTHY.deployment) ?? {};
      const metadata = { labels: { 'app.kubernetes.io/version': version } };
      const marked = deployment({
        metadata: { labels, annotations },
        ...(spec ? { spec: { ...spec, template: { ...spec.template, metadata } } } : {}),
      });
      const missing = { apiVersion: 'v1', kind: 'CustomResourceDefinition', metadata: { name: 'a' } };
      const all = {
        ...HEALTHY,
        deployment: marked,
        changedObjects: { value: [missing] },
        ...facts,
        settings: { ...SETTINGS, ...settings },
      };
      const finding = evaluateChecks(all).find(({ message }) => /^missing, |is not installed$/.test(message));
      const print = (...clusterFlags: readonly string[]): string | undefined => {
        const printed = finding && printFinding(finding, clusterFlags);
        // The fix removes the settings of a missing feature. The impact describes the alternative.
        const [, alternative] = /^Portcullis ignores .* instead: (.*)$/.exec(printed?.impact ?? '') ?? [];
        return alternative ?? printed?.fix;
      };
      const expected = fix.replaceAll('VERSION', VERSION);
      assert.equal(print(), expected);
      // The local profile reads no cluster, so the command rejects flags that select one.
      const withFlag = expected
        .replace(/^portcullis (?!install --profile)[^|]*(?= \|)/, '$& --context=a')
        .replace(/ -f -(?: |$)/, ' -f - --context=a ')
        .trimEnd();
      assert.equal(print('--context=a'), withFlag);
    });
  }
});

const ENFORCE = 'pod-security.kubernetes.io/enforce';

/** Returns a floor object as break-glass leaves it. */
function switchOff(object: FloorObject): FloorObject {
  const constraints = object.spec?.matchConstraints;
  if (!constraints) return object;
  const { matchExpressions = [] } = constraints.namespaceSelector ?? {};
  const none = { key: 'kubernetes.io/metadata.name', operator: 'DoesNotExist' } as const;
  const namespaceSelector = { matchExpressions: [...matchExpressions, none] };
  return { ...object, spec: { ...object.spec, matchConstraints: { ...constraints, namespaceSelector } } };
}

test('doctor lists the effect of an outage by tier', () => {
  const OWN_LABEL = { 'portcullis.dev/enforce': 'restricted', 'pod-security.kubernetes.io/enforce': 'privileged' };
  const FAIL_OPEN = { 'portcullis.dev/admission': 'fail-open' };
  const namespaces = {
    value: [
      namespace('default'),
      namespace('kube-system'),
      namespace('legacy', { 'pod-security.kubernetes.io/enforce': 'privileged' }),
      namespace('network', FAIL_OPEN),
      namespace('open-vault', { ...FAIL_OPEN, ...OWN_LABEL }),
      namespace('portcullis'),
      namespace('shop', { 'pod-security.kubernetes.io/enforce': 'restricted' }),
      namespace('vault', OWN_LABEL),
    ],
  };
  const simulate = (facts: Partial<Facts>): readonly string[] =>
    simulateOutage({ ...HEALTHY, namespaces, ...facts }).map(
      ({ tier, reasons, pods, exec, namespaceWrites, namespaces }) =>
        [[tier, ...reasons].join('+'), pods, exec, namespaceWrites, namespaces.join()].join(' | '),
    );
  /** Webhooks as the leader registers them. */
  const managed = (
    policy: ManifestSettings['policy'],
    state: Parameters<typeof staticWebhookConfigurations>[1],
  ): Partial<Facts> => {
    const settings = { ...WITH_SCCS, policy };
    return { settings, webhookConfigurations: registered(undefined, staticWebhookConfigurations(settings, state)) };
  };
  const everything = [
    'fail-closed+default level+SCCs | denied | denied | not reviewed | default,legacy,shop',
    'fail-closed+label portcullis.dev/enforce+SCCs | denied | denied | not reviewed | vault',
    'fail-open | not reviewed | not reviewed | not reviewed | kube-system,network,open-vault',
    'excluded | unaffected | unaffected | unaffected | portcullis',
  ];
  const unset = { scc: { mode: 'report' } };
  const exceptions = { ...unset, podSecurity: { exceptions: { mode: 'approved', namespaces: ['vault'] } } };
  const states = { defaultLevel: false };
  const own = [
    'fail-closed+label portcullis.dev/enforce | denied | not reviewed | not reviewed | vault',
    'fail-open | not reviewed | not reviewed | not reviewed | default,kube-system,legacy,network,open-vault,shop',
    'excluded | unaffected | unaffected | unaffected | portcullis',
  ];
  const underFloor = withFloor('Ignore', (all) => all);
  const closed = withFloor('Fail', (all) => all);
  const switched = (factValue(closed.policies) ?? []).map(switchOff);
  const whileClosed = [
    'fail-closed+default level+SCCs | denied | denied | not reviewed | default,legacy,shop',
    'fail-closed+label portcullis.dev/enforce+SCCs | denied | denied | not reviewed | vault',
    'fail-open | decided by the floor | not reviewed | not reviewed | kube-system,network',
    'fail-open | not reviewed | not reviewed | not reviewed | open-vault',
    'excluded | unaffected | unaffected | unaffected | portcullis',
  ];
  const levels = registered((webhook) =>
    webhook['name'] === 'validate.pods.portcullis.dev'
      ? { ...webhook, namespaceSelector: { matchLabels: { [ENFORCE]: 'restricted' } } }
      : { ...webhook, failurePolicy: 'Ignore' },
  );
  const relaxed = namespace('shop', { [ENFORCE]: 'privileged', 'portcullis.dev/break-glass-enforce': 'restricted' });
  const cases: readonly (readonly [name: string, facts: Partial<Facts>, expected: readonly string[]])[] = [
    ['everything enforced', {}, everything],
    ['break-glass', { webhookConfigurations: SWITCHED_OFF }, everything],
    ['nothing enforced by default', managed(unset, states), own],
    ['exceptions', managed(exceptions, states), own],
    [
      'users of the SCC privileged',
      managed({ scc: { mode: 'enforce' } }, { defaultLevel: false, privilegedStreams: true }),
      [
        'fail-closed+SCCs | denied | only with SCC privileged | not reviewed | default,legacy,shop',
        'fail-closed+label portcullis.dev/enforce+SCCs | denied | only with SCC privileged | not reviewed | vault',
        'fail-open | not reviewed | not reviewed | not reviewed | kube-system,network,open-vault',
        'excluded | unaffected | unaffected | unaffected | portcullis',
      ],
    ],
    [
      'a floor',
      underFloor,
      [
        'fail-closed+SCCs | denied | denied | not reviewed | legacy',
        'fail-closed+label portcullis.dev/enforce+SCCs | denied | denied | not reviewed | vault',
        'fail-open | decided by the floor | denied | not reviewed | default,shop',
        'fail-open | decided by the floor | not reviewed | not reviewed | kube-system,network',
        'fail-open | not reviewed | not reviewed | not reviewed | open-vault',
        'excluded | unaffected | unaffected | unaffected | portcullis',
      ],
    ],
    ['a floor, webhooks fail closed', closed, whileClosed],
    ['a floor, webhooks fail closed, during break-glass', { ...closed, policies: { value: switched } }, whileClosed],
    [
      'an enforce label that break-glass relaxed',
      { webhookConfigurations: levels, namespaces: { value: [relaxed] } },
      ['fail-closed+default level | denied | not reviewed | not reviewed | shop'],
    ],
    ['nothing installed', NOTHING, []],
    ['unknown namespaces', { namespaces: { unknown: 'forbidden' } }, []],
  ];
  for (const [name, facts, expected] of cases) {
    assert.deepEqual(simulate(facts).toSorted(), [...expected].toSorted(), name);
  }
  assert.deepEqual(
    [{}, managed({ scc: { mode: 'off' } }, {}), NOTHING].map((facts) => simulateSccWrites({ ...HEALTHY, ...facts })),
    ['denied', 'unaffected', 'unaffected'],
  );
});
