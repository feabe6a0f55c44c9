import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { simulateOutage } from '../../../src/cli/commands/doctor.ts';
import { CHECKS, evaluateChecks } from '../../../src/cli/doctor/checks/index.ts';
import type { Facts, Probe } from '../../../src/cli/doctor/facts.ts';
import { planProbes } from '../../../src/cli/doctor/gather.ts';
import { parseWebhookConfiguration } from '../../../src/cli/installation.ts';
import { buildManifests, defaultSettings } from '../../../src/install/index.ts';
import { allow } from '../../../src/kube/admission.ts';
import type { KubeObject } from '../../../src/kube/types.ts';
import { createAuthority } from '../../../src/tls/issue.ts';
import { startAdmissionServer, type TestServer } from '../../support/admission-server.ts';
import { configuration } from '../../support/certificates.ts';
import { startCluster, type TestCluster } from '../../support/dev-cluster.ts';
import {
  deployment,
  HEALTHY,
  lease,
  namespace,
  NOW,
  registered,
  replica,
  SERVING,
  servingCertificate,
} from '../../support/doctor.ts';
import { createInstaller, type Installer } from '../../support/installer.ts';
import { runProgram, type Outcome } from '../../support/memory-io.ts';

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

  /** Runs the command as the administrator or as another user. Variable addresses and times are replaced. */
  const run = async (args: readonly string[] = [], as?: string): Promise<Outcome> => {
    const config = as === undefined ? kubeconfig : await impersonating(as);
    const { code, stdout, stderr } = await runProgram(['doctor', '--kubeconfig', config, ...args]);
    const hide = (text: string): string =>
      text
        .replaceAll(`127.0.0.1:${cluster.port}`, 'API')
        .replaceAll(`127.0.0.1:${server.port}`, 'REPLICA')
        .replaceAll(/valid until \S+/g, 'valid until THEN');
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

  test('reports a healthy installation', async () => {
    const { code, stdout, stderr } = await run();
    assert.equal(
      stdout,
      `ok    api-server       API server: Kubernetes v1.36.0+portcullis-dev is supported
ok    webhooks         ValidatingWebhookConfiguration psa.portcullis.dev: 5 webhooks, as expected by this version
ok    webhooks         MutatingWebhookConfiguration zz.scc.portcullis.dev: 2 webhooks, as expected by this version
ok    webhooks         MutatingWebhookConfiguration objects.scc.portcullis.dev: 1 webhook, as expected by this version
ok    webhooks         ValidatingWebhookConfiguration scc.portcullis.dev: 5 webhooks, as expected by this version
ok    break-glass      webhooks: break-glass is off
ok    reachability     psa.portcullis.dev: responds
ok    reachability     validate.scc.portcullis.dev: responds
ok    reachability     mutate.scc.portcullis.dev: responds
ok    reachability     objects.scc.portcullis.dev: responds
info  reachability     fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev, advise.psa.portcullis.dev and 5 more: not tested: a dry run cannot exercise fail-open webhooks
ok    certificates     caBundle: every webhook trusts the serving certificate
info  replicas         Deployment portcullis: 0 of 3 replicas ready; API servers call the webhooks at https://REPLICA
ok    replicas         https://REPLICA: a replica responds
ok    leases           Lease portcullis: test is the leader
ok    permissions      service account: has all permissions that the replicas need
ok    configuration    configmaps/portcullis-configuration configuration.yaml: is valid
ok    other-admission  PodSecurity plugin: is disabled: only Portcullis evaluates pods
ok    tiers            namespaces: no namespace for networking, DNS or storage fails closed
ok    deadlocks        namespace portcullis: no webhook that fails closed matches the requests that start the replicas

While no replica responds:
TIER          PODS                      NAMESPACE LABELS          NEW NAMESPACES            COUNT   NAMESPACES
fail-closed   denied                    denied                    denied                    3       default, kube-node-lease, kube-public
fail-open     admitted without review   admitted without review   admitted without review   1       kube-system
excluded      unaffected                unaffected                unaffected                1       portcullis

0 problems, 0 warnings
`,
    );
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  });

  test('prints data, and stores nothing', async () => {
    const { stdout } = await run(['-o', 'json']);
    const { findings, outage } = JSON.parse(stdout) as {
      readonly findings: readonly object[];
      readonly outage: object[];
    };
    assert.deepEqual(findings[0], {
      check: 'api-server',
      severity: 'ok',
      object: 'API server',
      message: 'Kubernetes v1.36.0+portcullis-dev is supported',
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
      `unknown  reachability     a namespace: the dry run failed: namespaces is forbidden: ${denied('create', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  reachability     an SCC: the dry run failed: securitycontextconstraints.security.openshift.io is forbidden: ${denied('create', 'securitycontextconstraints', 'security.openshift.io', 'at the cluster scope')}`,
      `unknown  certificates     serving certificate: secrets "portcullis-serving-certificate" is forbidden: ${denied('get', 'secrets', '', 'in the namespace "portcullis"')}`,
      `unknown  replicas         Deployment portcullis: deployments.apps "portcullis" is forbidden: ${denied('get', 'deployments', 'apps', 'in the namespace "portcullis"')}`,
      `unknown  leases           Leases: leases.coordination.k8s.io is forbidden: ${denied('list', 'leases', 'coordination.k8s.io', 'in the namespace "portcullis"')}`,
      `unknown  permissions      service account: subjectaccessreviews.authorization.k8s.io is forbidden: ${denied('create', 'subjectaccessreviews', 'authorization.k8s.io', 'at the cluster scope')}`,
      `unknown  other-admission  PodSecurity plugin: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  tiers            namespaces: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
      `unknown  deadlocks        namespaces: namespaces is forbidden: ${denied('list', 'namespaces', '', 'at the cluster scope')}`,
    ]);
    assert.equal(code, 0);
  });

  test('fails without permissions', async () => {
    const { code, stdout, stderr } = await run([], 'nobody');
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' });
    assert.match(
      stderr,
      /^error: https:\/\/API: \w+webhookconfigurations\.admissionregistration\.k8s\.io is forbidden: User "nobody" cannot list /,
    );
  });

  test('reports an outage, and break-glass', async () => {
    await server.stop();
    const { code, stdout } = await run();
    assert.equal(code, 1);
    assert.deepEqual(
      stdout
        .split('\n')
        .filter((line) => line.startsWith('problem'))
        .sort(),
      [...['mutate.scc', 'objects.scc', 'psa'].map((name) => failedCall(name)), DEAD],
    );
    await runProgram(['break-glass', 'on', '--kubeconfig', kubeconfig]);
    const { stdout: diagnosis } = await run();
    const problems = diagnosis.split('\n').filter((line) => line.startsWith('problem'));
    assert.deepEqual(problems.slice(1), [DEAD]);
    assert.match(
      problems[0] ?? '',
      /^problem {2}break-glass {6}webhooks: break-glass is on for .*, since \S+ by admin$/,
    );
    assert.match(
      diagnosis,
      /^ +Fix: first fix the problems below \(replicas\), otherwise requests are denied; then portcullis break-glass off$/m,
    );
    assert.match(
      diagnosis,
      /^While no replica responds, after "portcullis break-glass off":\nTIER .*\nfail-closed +denied +denied +denied +3 /m,
    );
  });
});

const DEAD =
  'problem  replicas         https://REPLICA: no replica responds: dial tcp REPLICA: connect: connection refused';

const CALLS: Readonly<Record<string, readonly [what: string, path: string]>> = {
  'mutate.scc': ['a pod in default', '/scc/mutate?timeout=15s'],
  'objects.scc': ['an SCC', '/scc/objects/default?timeout=10s'],
  psa: ['a namespace', '/psa/validate?timeout=5s'],
};

function failedCall(name: string): string {
  const [what = '', path = ''] = CALLS[name] ?? [];
  return `problem  reachability     ${name}.portcullis.dev: the call for ${what} failed: failed to call webhook: Post "https://REPLICA${path}": dial tcp REPLICA: connect: connection refused`;
}

/** The manifests of an installation with webhooks at the server, and the Lease of a leader. */
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

const APPLY = 'Fix: portcullis install | kubectl apply --server-side -f -';
const LOGS = 'Fix: kubectl -n portcullis logs -l app.kubernetes.io/name=portcullis --tail=50';
const RESTART = 'Fix: kubectl -n portcullis rollout restart deployment portcullis';
const NOT_CALLED = 'Impact: API servers do not call Portcullis for these requests';
const DAY_MS = 24 * 60 * 60 * 1000;

const untested = (more: number): string =>
  `info fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev, advise.psa.portcullis.dev and ${more} more: not tested: a dry run cannot exercise fail-open webhooks`;

/** The findings for a healthy installation with changes, except `ok`, one line for each text. */
function evaluate(change: Partial<Facts>, name?: string): readonly string[] {
  return evaluateChecks({ ...HEALTHY, ...change })
    .filter(({ severity, check }) => severity !== 'ok' && (name === undefined || check === name))
    .flatMap(({ severity, object, message, impact, fix }) => [
      `${severity} ${object}: ${message}`,
      ...(impact === undefined ? [] : [`Impact: ${impact}`]),
      ...(fix === undefined ? [] : [`Fix: ${fix}`]),
    ]);
}

test('a healthy installation has no problems', () => {
  assert.deepEqual(evaluate({}), [untested(6)]);
  assert.deepEqual(
    evaluateChecks(HEALTHY)
      .filter(({ severity }) => severity === 'ok')
      .map(({ check, object, message }) => `${check}: ${object}: ${message}`),
    [
      'api-server: API server: Kubernetes v1.36.3 is supported',
      'webhooks: ValidatingWebhookConfiguration psa.portcullis.dev: 5 webhooks, as expected by this version',
      'webhooks: MutatingWebhookConfiguration zz.scc.portcullis.dev: 2 webhooks, as expected by this version',
      'webhooks: MutatingWebhookConfiguration objects.scc.portcullis.dev: 1 webhook, as expected by this version',
      'webhooks: ValidatingWebhookConfiguration scc.portcullis.dev: 5 webhooks, as expected by this version',
      'break-glass: webhooks: break-glass is off',
      'reachability: psa.portcullis.dev: responds',
      'reachability: mutate.scc.portcullis.dev: responds',
      'reachability: validate.scc.portcullis.dev: responds',
      'certificates: secrets/portcullis-serving-certificate: the serving certificate is valid until 2026-01-22T12:00:00Z',
      'certificates: caBundle: every webhook trusts the serving certificate',
      'replicas: Deployment portcullis: 3 of 3 replicas ready',
      'replicas: PodDisruptionBudget: limits evictions of replicas',
      'leases: Lease portcullis: a is the leader',
      'permissions: service account: has all permissions that the replicas need',
      'configuration: configmaps/portcullis-configuration configuration.yaml: is valid',
      'other-admission: PodSecurity plugin: is disabled: only Portcullis evaluates pods',
      'tiers: namespaces: no namespace for networking, DNS or storage fails closed',
      'deadlocks: namespace portcullis: no webhook that fails closed matches the requests that start the replicas',
    ],
  );
});

const NOTHING: Partial<Facts> = {
  configurations: [],
  deployment: { value: undefined },
  leases: { value: [] },
  certificate: { value: { source: 'secrets/portcullis-serving-certificate', chain: undefined } },
  missingAccess: { value: [{ verb: 'list', group: '', resource: 'pods' }] },
};

test('without an installation, only its absence is reported', () => {
  assert.deepEqual(evaluate(NOTHING), [
    'problem namespace portcullis: Portcullis is not installed: there is no webhook configuration and no Deployment',
    'Fix: portcullis install --help',
  ]);
  assert.deepEqual(simulateOutage({ ...HEALTHY, ...NOTHING }), []);
});

test('the development cluster needs only webhooks', () => {
  const server = { value: { version: 'v1.36.0+portcullis-dev', groups: ['security.openshift.io'] } };
  assert.deepEqual(evaluate({ ...NOTHING, configurations: registered(), server }), [
    'info API server: is the development cluster of portcullis serve, without a Deployment, certificates, Lease or roles',
    untested(6),
  ]);
});

test('every check is registered once', async () => {
  const files = (await readdir('src/cli/doctor/checks')).filter((file) => file !== 'index.ts');
  const names = CHECKS.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  assert.equal(CHECKS.length, files.length);
});

const SWITCHED_OFF = registered((webhook) => ({
  ...webhook,
  matchConditions: [...((webhook['matchConditions'] ?? []) as object[]), { name: 'break-glass', expression: 'false' }],
}));

const AT_URL: Partial<Facts> = {
  settings: { ...HEALTHY.settings, webhooks: { url: 'https://127.0.0.1:8443' } },
  deployment: { value: undefined },
  configurations: registered((webhook) => ({ ...webhook, clientConfig: { url: 'https://127.0.0.1:8443/x' } })),
  urlCertificates: new Map([['https://127.0.0.1:8443', { unknown: 'https://127.0.0.1:8443: connection refused' }]]),
};

/** The registered configurations with a change to one webhook. */
function withWebhook(name: string, change: object): Facts['configurations'] {
  return registered((webhook) => (webhook['name'] === name ? { ...webhook, ...change } : webhook));
}

const foreign = (webhook: object): Facts['configurations'] => [
  ...registered(),
  parseWebhookConfiguration('ValidatingWebhookConfiguration', {
    metadata: { name: 'policy' },
    webhooks: [
      {
        name: 'policy.example.com',
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        clientConfig: { service: { namespace: 'policy', name: 'policy' } },
        rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['pods'] }],
        ...webhook,
      },
    ],
  }),
];

const podProbe = (answer: Partial<Probe>): Facts['probes'] => [
  ...HEALTHY.probes.filter(({ id }) => id !== 'pod'),
  { id: 'pod', group: '', resource: 'pods', body: {}, namespace: namespace('default'), ...answer },
];

const violating = (answer: Partial<Probe>): Facts['probes'] => [
  ...HEALTHY.probes.filter(({ id }) => id !== 'violating pod'),
  { id: 'violating pod', group: '', resource: 'pods', body: {}, namespace: namespace('portcullis'), ...answer },
];

const call = (error: string): string =>
  `Internal error occurred: failed calling webhook "mutate.scc.portcullis.dev": failed to call webhook: Post "https://portcullis.portcullis.svc:443/scc/mutate?timeout=15s": ${error}`;

type Case = readonly [check: string, name: string, change: Partial<Facts>, expected: readonly string[]];

const OFF_AFTER = (checks: string): string =>
  `Fix: first fix the problems below (${checks}), otherwise requests are denied; then portcullis break-glass off`;

/** The fix for break-glass depends on the other facts. */
const OFF_CASES: readonly (readonly [name: string, change: Partial<Facts>, fix: string])[] = [
  ['no other problem', {}, 'Fix: portcullis break-glass off # replicas are ready, and certificates match'],
  ['no ready replica', { deployment: { value: deployment(0) } }, OFF_AFTER('replicas')],
  ['no replica at a URL', { ...AT_URL, configurations: SWITCHED_OFF }, OFF_AFTER('replicas')],
  [
    'no certificate and no leader',
    { certificate: { value: { source: 'secrets/a', chain: undefined } }, leases: { value: [] } },
    OFF_AFTER('certificates, leases'),
  ],
  [
    'missing permissions',
    { deployment: { unknown: 'forbidden' }, certificate: { unknown: 'forbidden' } },
    'Fix: first verify what could not be read (replicas, certificates); then portcullis break-glass off',
  ],
];

const CALL_ERRORS: readonly (readonly [error: string, impact: string, fix: string])[] = [
  [
    'dial tcp 10.0.0.7:8443: connect: connection refused',
    'Impact: no replica is ready',
    'Fix: kubectl -n portcullis get pods -o wide',
  ],
  [
    'no endpoints available for service "portcullis"',
    'Impact: no replica is ready',
    'Fix: kubectl -n portcullis get pods -o wide',
  ],
  ['service "portcullis" not found', 'Impact: the Service does not exist', APPLY],
  [
    'context deadline exceeded',
    'Impact: a firewall or a NetworkPolicy blocks connections from the API server to the pods, or the replicas hang',
    'Fix: kubectl -n portcullis get networkpolicies,endpointslices',
  ],
  [
    'tls: failed to verify certificate: x509: certificate signed by unknown authority',
    'Impact: the caBundle of the webhook does not match the serving certificate',
    LOGS,
  ],
  [
    'tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-01-15T12:00:00Z is after 2026-01-01T00:00:00Z',
    'Impact: the serving certificate expired; the leader renews it',
    RESTART,
  ],
  [
    'tls: failed to verify certificate: x509: certificate is valid for a.example.com, not portcullis.portcullis.svc',
    'Impact: the serving certificate lacks the name of the webhook, or another server responds at its address',
    'Fix: kubectl -n portcullis get service portcullis -o wide',
  ],
];

/** A configuration with the label of Portcullis, but with another name. */
function copyOf(name: string, failurePolicy: 'Fail' | 'Ignore', url?: string): Facts['configurations'][number] {
  const { webhooks = [], ...rest } = configuration(name, [`${failurePolicy.toLowerCase()}.psa.portcullis.dev`]);
  const client = url === undefined ? {} : { clientConfig: { url } };
  const object = { ...rest, webhooks: webhooks.map((webhook) => ({ ...webhook, failurePolicy, ...client })) };
  return parseWebhookConfiguration('ValidatingWebhookConfiguration', object);
}

const UNMANAGED = (kind: 'deny' | 'admit', name: string): readonly string[] => [
  `Impact: no replica updates its caBundle: API servers ${kind} matching requests without a review`,
  `Fix: kubectl delete validatingwebhookconfiguration ${name}`,
];

const CASES: readonly Case[] = [
  [
    'api-server',
    'older than supported',
    { server: { value: { version: 'v1.29.4', groups: [] } } },
    [
      'problem API server: Kubernetes v1.29.4 is older than v1.30',
      'Impact: match conditions are not supported: break-glass has no effect, and the webhooks receive more requests',
      'Fix: upgrade the cluster',
    ],
  ],
  [
    'api-server',
    'without a version',
    { server: { value: { version: 'v0.0.0-master+$Format:%H$', groups: [] } } },
    ['unknown API server: cannot parse version v0.0.0-master+$Format:%H$'],
  ],
  [
    'api-server',
    'not readable',
    { server: { unknown: 'the API server: forbidden' } },
    ['unknown API server: the API server: forbidden'],
  ],
  [
    'webhooks',
    'missing configuration',
    { configurations: registered().slice(1) },
    ['problem ValidatingWebhookConfiguration psa.portcullis.dev: is not registered', NOT_CALLED, APPLY],
  ],
  [
    'webhooks',
    'different fields',
    {
      configurations: withWebhook('psa.portcullis.dev', {
        failurePolicy: 'Ignore',
        timeoutSeconds: 30,
        objectSelector: { matchLabels: { a: 'b' } },
      }),
    },
    [
      'warning psa.portcullis.dev: failurePolicy is "Ignore"; expected "Fail"',
      'Impact: it decides whether requests are denied or admitted without a review while no replica responds',
      APPLY,
      'warning psa.portcullis.dev: objectSelector is {"matchLabels":{"a":"b"},"matchExpressions":[]}; expected {"matchLabels":{},"matchExpressions":[]}',
      'Impact: users can exclude objects from review by a label',
      APPLY,
      'warning psa.portcullis.dev: timeoutSeconds is 30; expected 5',
      'Impact: requests fail too early, or hang while no replica responds',
      APPLY,
    ],
  ],
  [
    'webhooks',
    'different path',
    { configurations: withWebhook('exec.scc.portcullis.dev', { clientConfig: { url: 'https://127.0.0.1/other' } }) },
    [
      'problem exec.scc.portcullis.dev: path is "/other"; expected "/scc/exec"',
      'Impact: requests do not reach the webhook',
      APPLY,
    ],
  ],
  [
    'webhooks',
    'webhooks of another version',
    { configurations: withWebhook('advise.psa.portcullis.dev', { name: 'old.psa.portcullis.dev' }) },
    [
      'problem advise.psa.portcullis.dev: is not registered',
      NOT_CALLED,
      APPLY,
      'warning old.psa.portcullis.dev: is unknown to this version, in ValidatingWebhookConfiguration psa.portcullis.dev',
      'Impact: API servers still call it; it may belong to another version',
      'Fix: kubectl edit validatingwebhookconfiguration psa.portcullis.dev # delete the entry: a client-side apply does not remove it',
    ],
  ],
  [
    'webhooks',
    'missing label',
    {
      configurations: registered().map((one) =>
        one.name === 'psa.portcullis.dev' ? { ...one, metadata: { name: one.name } } : one,
      ),
    },
    [
      'problem ValidatingWebhookConfiguration psa.portcullis.dev: has no label app.kubernetes.io/part-of=portcullis',
      'Impact: break-glass and uninstall do not find it',
      'Fix: kubectl label validatingwebhookconfiguration psa.portcullis.dev app.kubernetes.io/part-of=portcullis',
    ],
  ],
  [
    'break-glass',
    'on',
    {
      configurations: withWebhook('psa.portcullis.dev', {
        matchConditions: [{ name: 'break-glass', expression: 'false' }],
      }).map((one) => ({
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
    [
      'problem webhooks: break-glass is on for psa.portcullis.dev, since 2026-01-15T11:00:00Z by jo: INC-1',
      'Impact: these webhooks deny and change nothing',
      'Fix: portcullis break-glass off # replicas are ready, and certificates match',
    ],
  ],
  [
    'reachability',
    'a failing webhook of another product',
    {
      probes: podProbe({
        refusal:
          'Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: context deadline exceeded',
      }),
    },
    [
      'problem policy.example.com: the call for a pod in default failed: failed to call webhook: context deadline exceeded',
      'Impact: this webhook does not belong to Portcullis, and prevents the creation of a pod in default',
      'Fix: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations',
      untested(8),
    ],
  ],
  [
    'reachability',
    'missing permission for a dry run',
    { probes: podProbe({ refusal: 'pods is forbidden: User "jo" cannot create resource "pods"' }) },
    [
      'unknown a pod in default: the dry run failed: pods is forbidden: User "jo" cannot create resource "pods"',
      untested(8),
    ],
  ],
  [
    'certificates',
    'missing',
    { certificate: { value: { source: 'secrets/portcullis-serving-certificate', chain: undefined } } },
    [
      'problem secrets/portcullis-serving-certificate: has no serving certificate',
      'Impact: replicas serve a temporary certificate that no API server trusts',
      LOGS,
    ],
  ],
  [
    'certificates',
    'overdue',
    {
      certificate: {
        value: { source: 'secrets/a', chain: servingCertificate(new Date(NOW.getTime() - 6.5 * DAY_MS), 7).cert },
      },
    },
    [
      'warning secrets/a: the serving certificate expires at 2026-01-16T00:00:00Z',
      'Impact: its renewal is overdue',
      LOGS,
    ],
  ],
  [
    'certificates',
    'expired',
    {
      certificate: {
        value: { source: 'secrets/a', chain: servingCertificate(new Date(NOW.getTime() - 8 * DAY_MS), 7).cert },
      },
    },
    [
      'problem secrets/a: the serving certificate expired at 2026-01-14T12:00:00Z',
      'Impact: API servers reject connections to replicas that serve it',
      LOGS,
      'problem psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more: secrets/a: the serving certificate expired at 2026-01-14T12:00:00Z',
      'Impact: API servers reject the connection, and the failure policy applies',
      RESTART,
    ],
  ],
  [
    'certificates',
    'untrusted authority',
    {
      certificate: {
        value: {
          source: 'secrets/a',
          chain: servingCertificate(NOW, 7, createAuthority({ now: NOW, days: 7 })).cert,
        },
      },
    },
    [
      'problem psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more: secrets/a: the serving certificate is not signed by a valid authority in caBundle',
      'Impact: API servers reject the connection, and the failure policy applies',
      RESTART,
    ],
  ],
  [
    'certificates',
    'missing caBundle',
    {
      configurations: withWebhook('exec.scc.portcullis.dev', {
        clientConfig: { service: { namespace: 'portcullis', name: 'portcullis', path: '/scc/exec', port: 443 } },
      }),
    },
    [
      'problem exec.scc.portcullis.dev: has no caBundle, in scc.portcullis.dev',
      'Impact: API servers do not trust the serving certificate',
      'Fix: kubectl -n portcullis get lease portcullis # the leader sets the caBundle: check that there is a leader',
    ],
  ],
  [
    'certificates',
    'not readable',
    { certificate: { unknown: 'secrets/a: forbidden' } },
    [
      'unknown serving certificate: secrets/a: forbidden',
      'unknown psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more: secrets/a: forbidden',
    ],
  ],
  [
    'replicas',
    'none ready',
    { deployment: { value: deployment(0) } },
    [
      'problem Deployment portcullis: 0 of 3 replicas ready',
      'Impact: no replica responds to reviews',
      'Fix: kubectl -n portcullis describe pods -l app.kubernetes.io/name=portcullis',
    ],
  ],
  [
    'replicas',
    'on one node, without a PodDisruptionBudget',
    {
      deployment: { value: deployment(2) },
      disruptionBudgets: { value: [] },
      pods: { value: [replica('n1'), replica('n1')] },
    },
    [
      'warning Deployment portcullis: 2 of 3 replicas ready',
      'Impact: availability is reduced if another replica stops',
      'Fix: kubectl -n portcullis describe pods -l app.kubernetes.io/name=portcullis',
      'warning PodDisruptionBudget: does not exist',
      'Impact: all replicas may be evicted at once',
      'Fix: kubectl -n portcullis create poddisruptionbudget portcullis --selector=app.kubernetes.io/name=portcullis --max-unavailable=1',
      'warning Deployment portcullis: all ready replicas run on node n1',
      'Impact: no replica responds if this node fails',
      RESTART,
    ],
  ],
  [
    'replicas',
    'single replica',
    { deployment: { value: deployment(1, 1) }, pods: { value: [replica('n1')] } },
    [
      'warning Deployment portcullis: has only one replica',
      'Impact: no replica responds during its replacement',
      'Fix: kubectl -n portcullis scale deployment portcullis --replicas=3',
    ],
  ],
  [
    'replicas',
    'no Deployment',
    { deployment: { value: undefined } },
    ['info Deployment portcullis: does not exist: replicas run outside of the cluster'],
  ],
  [
    'replicas',
    'a URL without a response',
    { ...AT_URL, probes: [] },
    [
      'info Deployment portcullis: does not exist: replicas run outside of the cluster',
      'problem https://127.0.0.1:8443: no replica responds: connection refused',
      'Impact: no replica responds to reviews',
      'Fix: start the replicas that listen at this address',
    ],
  ],
  [
    'replicas',
    'a URL that only API servers reach',
    AT_URL,
    [
      'info Deployment portcullis: does not exist: replicas run outside of the cluster',
      'info https://127.0.0.1:8443: no replica responds: connection refused; API servers reach a replica',
    ],
  ],
  [
    'leases',
    'expired leader',
    { leases: { value: [lease('portcullis', new Date(NOW.getTime() - 60_000))] } },
    [
      'problem Lease portcullis: expired: a last renewed it at 2026-01-15T11:59:00.000000Z',
      'Impact: certificates are not renewed, and namespaces get no ranges; admission continues',
      LOGS,
    ],
  ],
  [
    'leases',
    'a replica with a different certificate',
    {
      leases: {
        value: [
          lease('portcullis', NOW),
          lease('portcullis-replica-b', NOW, {
            labels: { 'app.kubernetes.io/component': 'replica' },
            annotations: { 'portcullis.dev/serving-certificate': '00' },
          }),
        ],
      },
    },
    [
      'warning portcullis-replica-b: serves a certificate that differs from the Secret',
      'Impact: normal shortly after a renewal; otherwise the replica does not watch the Secret',
      RESTART,
    ],
  ],
  [
    'permissions',
    'missing',
    {
      missingAccess: {
        value: [
          { verb: 'watch', group: '', resource: 'pods' },
          { verb: 'list', group: '', resource: 'pods' },
          { verb: 'use', group: 'security.openshift.io', resource: 'securitycontextconstraints', name: 'anyuid' },
          { verb: 'use', group: 'security.openshift.io', resource: 'securitycontextconstraints', name: 'privileged' },
          { verb: 'create', group: 'coordination.k8s.io', resource: 'leases', namespace: 'portcullis' },
        ],
      },
    },
    [
      'problem service account: is not allowed to list, watch pods; use securitycontextconstraints.security.openshift.io (anyuid, privileged); create leases.coordination.k8s.io in portcullis',
      'Impact: replicas do not become ready, or controllers fail',
      APPLY,
    ],
  ],
  [
    'configuration',
    'invalid',
    {
      configuration: {
        value: {
          source: 'configmaps/a b.yaml',
          text: 'apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefault: {}\n',
        },
      },
    },
    [
      'problem configmaps/a b.yaml: strict decoding error: unknown field "default" (configmaps/a b.yaml:3:1, default)',
      'Impact: running replicas keep the last valid configuration, new replicas do not start',
      'Fix: kubectl -n portcullis edit configmaps a',
    ],
  ],
  [
    'configuration',
    'deleted',
    { configuration: { value: { source: 'configmaps/a b.yaml', text: undefined } } },
    [
      'problem configmaps/a b.yaml: does not exist',
      'Impact: running replicas keep the last valid configuration, new replicas do not start',
      'Fix: kubectl -n portcullis edit configmaps a',
    ],
  ],
  [
    'configuration',
    'missing and unused',
    { ...AT_URL, configuration: { value: { source: 'configmaps/a b.yaml', text: undefined } } },
    [
      'info configmaps/a b.yaml: does not exist',
      'Impact: no replica of the Deployment is ready; replicas outside of the cluster read the file of their --config',
      'Fix: kubectl -n portcullis edit configmaps a',
    ],
  ],
  [
    'other-admission',
    'PodSecurity plugin enabled',
    {
      probes: violating({
        refusal: 'pods "x" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostPID=true)',
      }),
    },
    [
      'info PodSecurity plugin: is enabled: it evaluates pods before Portcullis; identical warnings are shown once',
      'Impact: exemptions and defaults of the Portcullis configuration do not apply to the plugin',
    ],
  ],
  [
    'other-admission',
    'neither plugin nor webhook',
    { configurations: [] },
    [
      'problem PodSecurity plugin: is disabled, and psa.portcullis.dev is not registered',
      'Impact: no component evaluates pods against the labels of their namespaces',
      APPLY,
    ],
  ],
  [
    'other-admission',
    'not detectable',
    { probes: violating({ refusal: 'exceeded quota' }) },
    ['unknown PodSecurity plugin: cannot detect whether it is enabled: exceeded quota'],
  ],
  [
    'other-admission',
    'OpenShift',
    { server: { value: { version: 'v1.32.1', groups: ['route.openshift.io'] } } },
    [
      'problem SCC admission: the cluster has its own SCC admission (OpenShift), and zz.scc.portcullis.dev, objects.scc.portcullis.dev, scc.portcullis.dev are registered',
      'Impact: both assign SCCs to pods and ranges to namespaces, and overwrite each other',
      'Fix: portcullis install --profile=openshift | kubectl apply --server-side -f - && kubectl delete validatingwebhookconfiguration/scc.portcullis.dev mutatingwebhookconfiguration/zz.scc.portcullis.dev mutatingwebhookconfiguration/objects.scc.portcullis.dev --ignore-not-found',
    ],
  ],
  [
    'tiers',
    'networking and storage fail closed',
    {
      namespaces: {
        value: [
          namespace('portcullis'),
          namespace('calico-system'),
          namespace('tigera-operator', { 'portcullis.dev/admission': 'fail-open' }),
          namespace('ebs-csi'),
          namespace('csiszar'),
        ],
      },
    },
    [
      'problem namespace calico-system: fails closed, and its name indicates networking',
      'Impact: after a cold start, its pods wait for Portcullis, and Portcullis waits for the network',
      'Fix: kubectl label namespace calico-system portcullis.dev/admission=fail-open',
      'warning namespace ebs-csi: fails closed, and its name indicates storage',
      'Impact: after a cold start, pods with volumes wait until Portcullis runs',
      'Fix: kubectl label namespace ebs-csi portcullis.dev/admission=fail-open',
    ],
  ],
  [
    'deadlocks',
    'own webhook',
    { configurations: withWebhook('psa.portcullis.dev', { namespaceSelector: {}, matchConditions: [] }) },
    [
      'problem psa.portcullis.dev: fails closed and matches CREATE pods in namespace portcullis',
      'Impact: no replica can start while none is running',
      APPLY,
    ],
  ],
  [
    'deadlocks',
    'webhook of another product',
    { configurations: foreign({ matchConditions: [{ name: 'a', expression: 'true' }] }) },
    [
      'warning policy.example.com (policy): fails closed and matches CREATE pods in namespace portcullis, unless its match conditions exclude them',
      'Impact: no replica can start while this webhook does not respond',
      'Fix: kubectl edit validatingwebhookconfiguration policy # exclude namespace portcullis by the namespaceSelector',
    ],
  ],
  [
    'deadlocks',
    'mutual dependency',
    {
      configurations: foreign({}),
      namespaces: { value: [namespace('portcullis'), namespace('policy')] },
    },
    [
      'problem policy.example.com (policy): fails closed and matches CREATE pods in namespace portcullis',
      'Impact: it runs in namespace policy, where Portcullis fails closed: if both are down, neither can start',
      'Fix: kubectl edit validatingwebhookconfiguration policy # exclude namespace portcullis by the namespaceSelector',
    ],
  ],
  ['deadlocks', 'webhook that fails open', { configurations: foreign({ failurePolicy: 'Ignore' }) }, []],
  ...OFF_CASES.map(([name, change, fix]): Case => [
    'break-glass',
    `on, ${name}`,
    { configurations: SWITCHED_OFF, ...change },
    [
      'problem webhooks: break-glass is on for psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more',
      'Impact: these webhooks deny and change nothing',
      fix,
    ],
  ]),
  [
    'reachability',
    'break-glass',
    { configurations: SWITCHED_OFF },
    [
      'info psa.portcullis.dev, fail-open.psa.portcullis.dev, kube-system.psa.portcullis.dev and 9 more: not tested: break-glass is on',
    ],
  ],
  ...CALL_ERRORS.map(([error, impact, fix]): Case => [
    'reachability',
    error,
    { probes: podProbe({ refusal: call(error) }) },
    [
      `problem mutate.scc.portcullis.dev: the call for a pod in default failed: failed to call webhook: Post "https://portcullis.portcullis.svc:443/scc/mutate?timeout=15s": ${error}`,
      impact,
      fix,
      untested(7),
    ],
  ]),
  [
    'certificates',
    'copies of configurations',
    { configurations: [...registered(), copyOf('copy-of-psa', 'Fail'), copyOf('other-copy', 'Ignore')] },
    [
      'problem fail.psa.portcullis.dev: does not trust the serving certificate, in ValidatingWebhookConfiguration copy-of-psa, which is not part of the installation',
      ...UNMANAGED('deny', 'copy-of-psa'),
      'warning ignore.psa.portcullis.dev: does not trust the serving certificate, in ValidatingWebhookConfiguration other-copy, which is not part of the installation',
      ...UNMANAGED('admit', 'other-copy'),
    ],
  ],
  [
    'certificates',
    'a copy with a URL',
    {
      configurations: [
        ...registered(),
        copyOf('copy-of-psa', 'Fail', 'https://portcullis.portcullis.svc:8443/psa/validate'),
      ],
      urlCertificates: new Map([
        ['https://portcullis.portcullis.svc:8443', { value: { source: 'the URL', chain: SERVING } }],
      ]),
    },
    [
      'problem fail.psa.portcullis.dev: does not trust the serving certificate, in ValidatingWebhookConfiguration copy-of-psa, which is not part of the installation',
      ...UNMANAGED('deny', 'copy-of-psa'),
    ],
  ],
];

describe('doctor checks', () => {
  for (const [check, name, change, expected] of CASES) {
    test(`${check}: ${name}`, () => assert.deepEqual(evaluate(change, check), expected));
  }
});

test('an outage is simulated by tier', () => {
  const namespaces = [
    namespace('default'),
    namespace('kube-system'),
    namespace('network', { 'portcullis.dev/admission': 'fail-open' }),
    namespace('portcullis'),
    namespace('shop'),
  ];
  const outage = simulateOutage({ ...HEALTHY, namespaces: { value: namespaces } });
  assert.deepEqual(
    simulateOutage({ ...HEALTHY, configurations: SWITCHED_OFF, namespaces: { value: namespaces } }),
    outage,
  );
  const [closed, open, excluded, ...none] = outage;
  assert.deepEqual(none, []);
  assert.deepEqual(closed, {
    tier: 'fail-closed',
    pods: 'denied',
    namespaceLabels: 'denied',
    newNamespaces: 'denied',
    namespaces: ['default', 'shop'],
  });
  assert.deepEqual(open, {
    tier: 'fail-open',
    pods: 'admitted without review',
    namespaceLabels: 'admitted without review',
    newNamespaces: 'admitted without review',
    namespaces: ['kube-system', 'network'],
  });
  assert.equal(excluded?.tier, 'excluded');
  assert.equal(excluded.pods, 'unaffected');
  assert.deepEqual(excluded.namespaces, ['portcullis']);
});

test('an outage is not simulated if the namespaces cannot be read', () => {
  assert.deepEqual(simulateOutage({ ...HEALTHY, namespaces: { unknown: 'forbidden' } }), []);
});

test('a dry run is planned for each tier', () => {
  const planned = planProbes({
    installation: 'portcullis',
    configurations: registered(),
    namespaces: [
      namespace('a'),
      namespace('b', { 'pod-security.kubernetes.io/enforce': 'baseline' }),
      namespace('kube-system'),
      namespace('portcullis', { 'pod-security.kubernetes.io/enforce': 'restricted' }),
    ],
    groups: ['security.openshift.io'],
  });
  assert.deepEqual(
    planned.map(({ id, namespace: where }) => `${id} ${where?.name ?? ''}`),
    ['namespace ', 'pod b', 'pod kube-system', 'pod portcullis', 'violating pod portcullis', 'scc '],
  );
});
