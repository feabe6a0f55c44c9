/**
 * Measures the cost of creating a pod through kube-apiserver for each way to enforce the restricted level. All ways are
 * registered with the same API server, each for its own namespace, and are measured in turn with dry runs.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { VERSION } from '../src/cli/command.ts';
import { defaultSettings, webhookConfigurations } from '../src/install/index.ts';
import type { JsonObject } from '../src/kube/types.ts';
import { type ApiClient, type ApiResponse, createApiClient } from '../test/support/api-client.ts';
import { ASSETS, type ControlPlane, startControlPlane } from '../test/support/control-plane/index.ts';
import { create } from '../test/support/control-plane/installation.ts';
import { compliantPod } from '../test/support/pod-security.ts';
import { objectsOf, SMALL } from './cluster.ts';
import { median } from './compare.ts';
import { type Peer, startPeers } from './peers/index.ts';
import type { Row } from './row.ts';
import {
  buildBundle,
  readCpuMicros,
  readMemory,
  startBare,
  startCluster,
  startReplica,
  type Subject,
} from './subject.ts';

/** A way to enforce the level in the namespace of the same name. */
interface Way {
  readonly name: string;
  readonly namespace: string;
  readonly server?: Subject | undefined;
  /** Webhook paths. */
  readonly paths?: readonly string[];
  /** The way whose webhook calls are the baseline for this way. */
  readonly baseline?: string;
  readonly targets?: { readonly latency?: number; readonly throughput?: number };
}

const POD_SECURITY = '/validate/pods';
const SCC = ['/mutate/pods', POD_SECURITY, '/validate/pods'];

interface Servers {
  readonly bare: Subject;
  readonly portcullis: Subject;
  readonly peers: readonly Peer[];
}

function listWays({ bare, portcullis, peers }: Servers): readonly Way[] {
  return [
    { name: 'without policy', namespace: 'none' },
    { name: 'PodSecurity plugin', namespace: 'plugin' },
    { name: 'policies without a server', namespace: 'policies', targets: { throughput: 70 } },
    { name: 'bare Fastify, one call', namespace: 'bare', server: bare, paths: [POD_SECURITY] },
    { name: 'Pod Security', namespace: 'psa', server: portcullis, paths: [POD_SECURITY], baseline: 'bare' },
    { name: 'bare Fastify, three calls', namespace: 'bare3', server: bare, paths: SCC },
    {
      name: 'Pod Security and SCCs',
      namespace: 'scc',
      server: portcullis,
      paths: SCC,
      baseline: 'bare3',
      targets: { latency: 130 },
    },
    ...peers.map((peer) => {
      const paths = peer.isRegistered ? [] : [POD_SECURITY];
      return { name: peer.name, namespace: peer.namespace, server: peer, paths, baseline: 'bare' };
    }),
  ];
}

/** Requires kube-apiserver and etcd in `KUBEBUILDER_ASSETS`. Also measures the peer programs in a folder. */
export async function benchApiServer(peersFolder: string | undefined): Promise<Row[]> {
  if (ASSETS === undefined) {
    process.stdout.write('api-server is skipped: KUBEBUILDER_ASSETS is not set\n');
    return [];
  }
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-bench-'));
  const stops: (() => void | Promise<void>)[] = [() => rm(folder, { recursive: true })];
  try {
    await writeFile(
      join(folder, 'cluster.yaml'),
      namespaces()
        .map((object) => JSON.stringify(object))
        .join('\n---\n'),
    );
    const main = await buildBundle(folder);
    const cluster = await startCluster(folder, main);
    const portcullis = await startReplica('portcullis', folder, main);
    const bare = await startBare(folder);
    for (const { stop } of [cluster, portcullis, bare]) stops.unshift(() => stop?.());
    const plane = await startControlPlane({
      podSecurityPlugin: 'on',
      admissionConfig: await writeAdmissionConfig(folder),
    });
    stops.unshift(() => plane.stop());
    process.stdout.write(`${plane.title}, Portcullis v${VERSION}\n`);
    const certs = join(folder, 'certs');
    const peers = peersFolder === undefined ? [] : await startPeers(plane, { peers: peersFolder, certs, folder });
    for (const { stop } of peers) stops.unshift(() => stop?.());
    const ways = listWays({ bare, portcullis, peers });
    await install(plane, ways, { folder, main });
    return await measureWays(plane, ways);
  } finally {
    for (const stop of stops) await stop();
  }
}

const LABELS = { 'pod-security.kubernetes.io/enforce': 'restricted' };

/**
 * Returns 1,000 namespaces for the replica's own cluster. Two of them have the names and levels of measured namespaces.
 */
function namespaces(): readonly object[] {
  const ways = ['psa', 'scc'];
  return objectsOf({ ...SMALL, namespaces: 1000 }).flatMap(([kind, object], index) => {
    if (kind !== 'Namespace') return [];
    const way = ways[index];
    const labels = { ...LABELS, 'portcullis.dev/scc': way === 'scc' ? 'enforce' : 'off' };
    return [way === undefined ? object : { ...object, metadata: { ...object.metadata, name: way, labels } }];
  });
}

/** The plugin evaluates only its own namespace. */
async function writeAdmissionConfig(folder: string): Promise<string> {
  const path = join(folder, 'admission.yaml');
  const configuration = {
    apiVersion: 'pod-security.admission.config.k8s.io/v1',
    kind: 'PodSecurityConfiguration',
    exemptions: { namespaces: ['policies'] },
  };
  const plugins = [{ name: 'PodSecurity', configuration }];
  const config = { apiVersion: 'apiserver.config.k8s.io/v1', kind: 'AdmissionConfiguration', plugins };
  await writeFile(path, JSON.stringify(config));
  return path;
}

const USER = 'developer';

async function install(
  { admin }: ControlPlane,
  ways: readonly Way[],
  { folder, main }: { readonly folder: string; readonly main: string },
): Promise<void> {
  for (const { namespace } of ways) {
    const labels = { way: namespace, ...(['plugin', 'policies'].includes(namespace) ? LABELS : {}) };
    await create(admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } });
  }
  const rbac = 'rbac.authorization.k8s.io';
  await create(admin, {
    apiVersion: `${rbac}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: USER },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: rbac, kind: 'User', name: USER }],
  });
  const caBundle = (await readFile(join(folder, 'certs', 'ca.crt'))).toString('base64');
  for (const way of ways) for (const object of configurationsOf(way, caBundle)) await create(admin, object);
  const options = ['--without-server', '--for-kubernetes=1.30', '--set=podSecurity.exemptions.namespaces=[plugin]'];
  const { stdout } = await promisify(execFile)(process.execPath, [main, 'install', ...options]);
  for (const policy of parseAllDocuments(stdout)) await create(admin, policy.toJS() as JsonObject);
}

/** Returns the webhook configurations of a way, which apply only to its namespace. */
function configurationsOf({ namespace, server, paths = [] }: Way, caBundle: string): readonly JsonObject[] {
  if (!server) return [];
  const settings = { ...defaultSettings(VERSION), webhooks: { url: 'https://127.0.0.1' } };
  const enforcement = { podSecurity: true, scc: { mode: 'enforce', exemptNamespaces: [] } } as const;
  return webhookConfigurations(settings, enforcement).flatMap((configuration) => {
    const webhooks = (configuration.webhooks ?? []).flatMap((webhook) => {
      const { pathname } = new URL(webhook.clientConfig.url ?? '');
      const reviewsPods = webhook.rules?.some(({ resources }) => resources?.includes('pods'));
      if (reviewsPods !== true || !paths.includes(pathname)) return [];
      const { host, port, path } = server.target(pathname);
      const clientConfig = { url: `https://${host}:${port}${path}`, caBundle };
      return [{ ...webhook, namespaceSelector: { matchLabels: { way: namespace } }, clientConfig }];
    });
    const metadata = { name: `${namespace}.${configuration.metadata.name}` };
    return webhooks.length === 0 ? [] : [{ ...configuration, metadata, webhooks }];
  });
}

const ROUNDS = 15;
/** Number of warm-up rounds, which are not measured. */
const WARM_UP_ROUNDS = 5;
/** The number of requests in a round by number of concurrent clients. */
const REQUESTS = new Map([
  [1, 40],
  [8, 240],
]);

interface Measured {
  /** Median. */
  readonly latencyMs: number;
  readonly perSecond: number;
  readonly apiServerMs: number;
  readonly webhookMs: number;
}

async function measureWays(plane: ControlPlane, ways: readonly Way[]): Promise<Row[]> {
  const { admin, server } = plane;
  const client = createApiClient({
    port: Number(new URL(server).port),
    authority: plane.authority,
    client: plane.issueClientCertificate(USER, []),
  });
  try {
    for (const way of ways) await waitUntilEnforced(client, way);
    const rows: Row[] = [];
    for (const [clients, requests] of REQUESTS) {
      const results = new Map<Way, Measured[]>(ways.map((way) => [way, []]));
      for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
        for (const [way, measured] of results) {
          const result = await measure(client, { way, clients, requests, apiServer: plane.pid });
          if (round >= 0) measured.push(result);
        }
      }
      rows.push(...createRows(results, clients));
    }
    for (const server of new Set(ways.flatMap((way) => way.server ?? []))) {
      const { name, startSeconds } = server;
      if (startSeconds !== undefined) rows.push({ name: `${name}, start`, value: startSeconds, unit: 's' });
      rows.push(...(await readMemory(server, 'after load')));
    }
    return rows;
  } finally {
    client.close();
    admin.close();
  }
}

interface Round {
  readonly way: Way;
  readonly clients: number;
  readonly requests: number;
  /** Process ID. */
  readonly apiServer: number;
}

async function measure(client: ApiClient, { way, clients, requests, apiServer }: Round): Promise<Measured> {
  const processes = [{ pid: apiServer }, { pid: way.server?.pid }];
  const before = await Promise.all(processes.map(readCpuMicros));
  const startMs = performance.now();
  const latencies: number[] = [];
  let left = requests;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (left-- > 0) {
        const sentMs = performance.now();
        const { status, text } = await createPod(client, way);
        if (status !== 201) throw new Error(`${way.name}: ${text}`);
        latencies.push(performance.now() - sentMs);
      }
    }),
  );
  const seconds = (performance.now() - startMs) / 1000;
  const after = await Promise.all(processes.map(readCpuMicros));
  const [apiServerMs = 0, webhookMs = 0] = after.map(
    (cpu = 0, index) => (cpu - (before[index] ?? 0)) / requests / 1000,
  );
  return { latencyMs: median(latencies), perSecond: requests / seconds, apiServerMs, webhookMs };
}

/** Pods have no security contexts if SCCs default them, or if the way is the baseline for SCCs. */
function createPod(client: ApiClient, { namespace, paths = [] }: Way, spec: object = {}): Promise<ApiResponse> {
  const compliant = compliantPod(spec);
  const plain = { containers: [{ name: 'c', image: 'registry.example.com/c:1' }], ...spec };
  const metadata = { generateName: 'bench-', namespace };
  const pod = { ...compliant, metadata, spec: paths.length > 1 ? plain : compliant.spec };
  return client.send('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, pod);
}

/** API servers read configurations and policies after a delay. */
async function waitUntilEnforced(client: ApiClient, way: Way): Promise<void> {
  const isEnforced = way.namespace !== 'none' && !way.namespace.startsWith('bare');
  for (let attempt = 0; ; attempt++) {
    const allowed = await createPod(client, way);
    const forbidden = await createPod(client, way, { hostNetwork: true });
    if (allowed.status === 201 && (!isEnforced || [400, 403].includes(forbidden.status))) return;
    if (attempt === 100) throw new Error(`${way.name} does not enforce: ${allowed.text} ${forbidden.text}`);
    await pause(200);
  }
}

function createRows(results: ReadonlyMap<Way, readonly Measured[]>, clients: number): readonly Row[] {
  const find = (namespace: string): readonly Measured[] =>
    [...results].find(([way]) => way.namespace === namespace)?.[1] ?? [];
  const none = find('none');
  return [...results].flatMap(([way, measured]): Row[] => {
    const medianOf = (value: (measurement: Measured, round: number) => number): number => median(measured.map(value));
    const added = ({ latencyMs }: Measured, round: number): number => latencyMs - (none[round]?.latencyMs ?? 0);
    const name = `${clients} ${clients === 1 ? 'client' : 'clients'}, ${way.name}`;
    const cpu: Row[] = [
      { name: '  CPU per pod, API server', value: medianOf(({ apiServerMs }) => apiServerMs), unit: 'ms' },
      ...(way.server
        ? [{ name: '  CPU per pod, webhook', value: medianOf(({ webhookMs }) => webhookMs), unit: 'ms' }]
        : []),
    ];
    if (clients === 1) {
      const baseline = way.baseline === undefined ? undefined : find(way.baseline);
      const ratio =
        baseline && medianOf((one, round) => (added(one, round) / added(baseline[round] ?? one, round)) * 100);
      return [
        { name: `${name}: latency`, value: medianOf(({ latencyMs }) => latencyMs), unit: 'ms' },
        { name: '  added to no policy', value: medianOf(added), unit: 'ms' },
        ...(ratio === undefined
          ? []
          : [
              {
                name: '  added, relative to the bare server',
                value: ratio,
                unit: '%',
                ...atMost(way.targets?.latency),
              },
            ]),
      ];
    }
    const share = medianOf(({ perSecond }, round) => (perSecond / (none[round]?.perSecond ?? NaN)) * 100);
    return [
      { name, value: medianOf(({ perSecond }) => perSecond), unit: 'pods/s' },
      { name: '  relative to no policy', value: share, unit: '%', ...atLeast(way.targets?.throughput) },
      ...cpu,
    ];
  });
}

function atMost(bound: number | undefined): Pick<Row, 'target'> {
  return bound === undefined ? {} : { target: { atMost: bound } };
}

function atLeast(bound: number | undefined): Pick<Row, 'target'> {
  return bound === undefined ? {} : { target: { atLeast: bound } };
}
