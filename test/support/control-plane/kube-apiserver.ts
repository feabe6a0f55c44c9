import { generateKeyPairSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { ApiClient } from '../api-client.ts';
import { createCredentials, type Credentials, type Daemon, freePorts, startDaemon, untilReady } from './process.ts';
import type { ControlPlane, ControlPlaneOptions, RecordedCall } from './index.ts';

const PERIOD_MS = 200;
/** Number of periods between role aggregations. */
const ROLES_EVERY = 10;

interface Namespace {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec?: { readonly finalizers?: readonly string[] };
  readonly status?: { readonly phase?: string };
}

/**
 * Replaces the controllers that tests depend on. It creates `default` service accounts, deletes namespaces and
 * aggregates roles.
 */
function startMinimalControllers(admin: ApiClient): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const known = new Set<string>();
  const turn = async (): Promise<void> => {
    const { status, body } = await admin.send('GET', '/api/v1/namespaces');
    if (status !== 200) return;
    for (const namespace of (body as { readonly items: readonly Namespace[] }).items) {
      if (namespace.status?.phase === 'Terminating') await finalize(admin, namespace);
      else if (!known.has(namespace.metadata.uid)) {
        const answer = await createAccount(admin, namespace.metadata.name);
        if (answer === 201 || answer === 409) known.add(namespace.metadata.uid);
      }
    }
  };
  const loop = async (): Promise<void> => {
    for (let turns = 0; !signal.aborted; turns++) {
      // Errors are expected during API server outages.
      await turn().catch(() => undefined);
      if (turns % ROLES_EVERY === 0) await aggregate(admin).catch(() => undefined);
      await pause(PERIOD_MS, undefined, { signal }).catch(() => undefined);
    }
  };
  const ended = loop();
  return {
    async stop() {
      stopping.abort();
      await ended;
    },
  };
}

async function createAccount(admin: ApiClient, namespace: string): Promise<number> {
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } };
  return (await admin.send('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, account)).status;
}

const CONTENTS = [
  '/api/v1/%/pods',
  '/api/v1/%/services',
  '/api/v1/%/secrets',
  '/api/v1/%/serviceaccounts',
  '/apis/apps/v1/%/deployments',
  '/apis/coordination.k8s.io/v1/%/leases',
];

/** Deletes the objects of a namespace and removes its finalizer. */
async function finalize(admin: ApiClient, namespace: Namespace): Promise<void> {
  const { name } = namespace.metadata;
  for (const path of CONTENTS) {
    const collection = path.replace('%', `namespaces/${name}`);
    // Not every server supports deleting a collection of Services.
    await admin.send('DELETE', `${collection}?gracePeriodSeconds=0`);
  }
  await admin.send('PUT', `/api/v1/namespaces/${name}/finalize`, { ...namespace, spec: { finalizers: [] } });
}

const CLUSTER_ROLES = '/apis/rbac.authorization.k8s.io/v1/clusterroles';

interface ClusterRole {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly rules?: readonly unknown[] | null;
  readonly aggregationRule?: {
    readonly clusterRoleSelectors?: readonly { readonly matchLabels?: Readonly<Record<string, string>> }[];
  };
}

/** Aggregates the rules of roles. Nested aggregations need several periods. */
async function aggregate(admin: ApiClient): Promise<void> {
  const { status, body } = await admin.send('GET', CLUSTER_ROLES);
  if (status !== 200) return;
  const roles = (body as { readonly items: readonly ClusterRole[] }).items;
  for (const { metadata, rules, aggregationRule } of roles) {
    const selectors = aggregationRule?.clusterRoleSelectors ?? [];
    if (selectors.length === 0) continue;
    const gathered = roles
      .filter((role) => selectors.some(({ matchLabels = {} }) => hasLabels(role, matchLabels)))
      .flatMap((role) => role.rules ?? []);
    if (isDeepStrictEqual(gathered, rules ?? [])) continue;
    const type = { 'content-type': 'application/merge-patch+json' };
    await admin.send('PATCH', `${CLUSTER_ROLES}/${metadata.name}`, { rules: gathered }, type);
  }
}

function hasLabels({ metadata }: ClusterRole, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => metadata.labels?.[key] === value);
}

/** Records each request for a resource. */
const AUDIT_POLICY = JSON.stringify({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    { level: 'None', users: ['system:apiserver', 'admin'] },
    { level: 'None', nonResourceURLs: ['*'] },
    { level: 'Metadata' },
  ],
});

interface AuditEvent {
  readonly stage: string;
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: {
    readonly resource?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly apiGroup?: string;
    readonly subresource?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Reads the audit log. A watch is recorded when its response starts. */
async function readAuditLog(path: string): Promise<RecordedCall[]> {
  const lines = (await readFile(path, 'utf8')).split('\n');
  // The last line may be incomplete.
  return lines.slice(0, -1).flatMap((line) => {
    const { stage, verb, user, objectRef = {}, responseStatus, annotations = {} } = JSON.parse(line) as AuditEvent;
    const counts = verb === 'watch' ? 'ResponseStarted' : 'ResponseComplete';
    const refused = (responseStatus?.code ?? 0) >= 400;
    if (stage !== counts && !(refused && stage === 'ResponseComplete')) return [];
    return {
      user: user.username,
      verb,
      group: objectRef.apiGroup ?? '',
      resource: objectRef.resource ?? '',
      subresource: objectRef.subresource ?? '',
      namespace: objectRef.namespace ?? '',
      name: objectRef.name ?? '',
      code: responseStatus?.code ?? 0,
      isAuthorized: annotations['authorization.k8s.io/decision'] === 'allow',
      failedOpen: Object.entries(annotations).flatMap(([key, webhook]) =>
        key.startsWith('failed-open.') ? webhook : [],
      ),
    };
  });
}

/** Starts etcd, kube-apiserver, and a replacement for the controllers that tests depend on. */
export async function startKubeApiserver(
  assets: string,
  {
    podSecurityPlugin = 'off',
    authorizationConfig,
    admissionConfig,
    featureGates,
    niceness,
    controllers = 'minimal',
  }: ControlPlaneOptions,
): Promise<ControlPlane> {
  const credentials = await createCredentials();
  const [port = 0, etcdPort = 0, peerPort = 0] = await freePorts(3);
  const etcd = await startEtcd(assets, credentials.folder, [etcdPort, peerPort], niceness).catch(
    async (error: unknown) => {
      await credentials.remove();
      throw error;
    },
  );
  const plugins = podSecurityPlugin === 'off' ? ['--disable-admission-plugins=PodSecurity'] : [];
  const authorization =
    authorizationConfig === undefined ? '--authorization-mode=RBAC' : `--authorization-config=${authorizationConfig}`;
  const admission = admissionConfig === undefined ? [] : [`--admission-control-config-file=${admissionConfig}`];
  const gates = featureGates === undefined ? [] : [`--feature-gates=${featureGates}`];
  const args = [
    ...(await apiserverArgs(credentials, port, etcdPort)),
    authorization,
    ...plugins,
    ...admission,
    ...gates,
  ];
  const admin = credentials.administrator(port);
  const log = join(credentials.folder, 'kube-apiserver.log');
  const start = async (): Promise<Daemon> => {
    const daemon = startDaemon(join(assets, 'kube-apiserver'), args, log, niceness);
    await untilReady(daemon, 'kube-apiserver', log, async () => (await admin.send('GET', '/readyz')).status === 200);
    return daemon;
  };
  let apiserver = await start().catch(async (error: unknown) => {
    admin.close();
    await etcd.stop();
    await credentials.remove();
    throw error;
  });
  const standIn = controllers === 'minimal' ? startMinimalControllers(admin) : undefined;
  const address = `https://127.0.0.1:${port}`;
  return {
    which: 'kube-apiserver',
    title: `kube-apiserver ${await getVersion(admin)}`,
    server: address,
    authority: credentials.authority.cert,
    folder: credentials.folder,
    get pid() {
      return apiserver.pid;
    },
    admin,
    issueClientCertificate: credentials.issueClientCertificate,
    kubeconfigFor: (user, groups) => credentials.kubeconfigFor(address, user, groups),
    calls: () => readAuditLog(join(credentials.folder, 'audit.log')),
    interrupt: () => apiserver.stop(),
    async resume() {
      apiserver = await start();
    },
    async stop() {
      await standIn?.stop();
      admin.close();
      await apiserver.stop();
      await etcd.stop();
      await credentials.remove();
    },
  };
}

async function startEtcd(
  assets: string,
  folder: string,
  [port, peerPort]: readonly [port: number, peerPort: number],
  niceness: number | undefined,
): Promise<Daemon> {
  const clients = `http://127.0.0.1:${port}`;
  const peers = `http://127.0.0.1:${peerPort}`;
  const log = join(folder, 'etcd.log');
  const daemon = startDaemon(
    join(assets, 'etcd'),
    [
      `--data-dir=${join(folder, 'etcd')}`,
      `--listen-client-urls=${clients}`,
      `--advertise-client-urls=${clients}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=default=${peers}`,
      '--unsafe-no-fsync',
    ],
    log,
    niceness,
  );
  await untilReady(daemon, 'etcd', log, async () => (await fetch(`${clients}/health`)).ok);
  return daemon;
}

async function apiserverArgs(credentials: Credentials, port: number, etcdPort: number): Promise<string[]> {
  const { folder, authority, serving, write } = credentials;
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = (key: typeof privateKey, type: 'pkcs8' | 'spki'): string =>
    key.export({ type, format: 'pem' } as never).toString();
  const accountKey = await write('accounts.key', pem(privateKey, 'pkcs8'));
  const accountPublicKey = await write('accounts.pub', pem(publicKey, 'spki'));
  return [
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    // Kubernetes 1.37 and later do not write endpoints for the loopback address.
    '--endpoint-reconciler-type=none',
    `--secure-port=${port}`,
    `--etcd-servers=http://127.0.0.1:${etcdPort}`,
    `--cert-dir=${folder}`,
    `--tls-cert-file=${await write('apiserver.crt', serving.cert)}`,
    `--tls-private-key-file=${await write('apiserver.key', serving.key)}`,
    `--client-ca-file=${await write('ca.crt', authority.cert)}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${accountPublicKey}`,
    `--service-account-signing-key-file=${accountKey}`,
    // Loopback addresses on which tests can listen because no other control plane uses them.
    `--service-cluster-ip-range=127.${port >> 8}.${port & 255}.0/24`,
    '--allow-privileged=true',
    `--audit-policy-file=${await write('audit-policy.yaml', AUDIT_POLICY)}`,
    `--audit-log-path=${join(folder, 'audit.log')}`,
  ];
}

async function getVersion(admin: ApiClient): Promise<string> {
  const { body } = await admin.send('GET', '/version');
  return (body as { readonly gitVersion: string }).gitVersion;
}
