/**
 * Measures the cost of creating a pod through kube-apiserver for each way to enforce the restricted level. All ways are
 * registered with the same API server, each for its own namespace. The measurements are dry runs that alternate between
 * the ways.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { V1ValidatingWebhook, V1ValidatingWebhookConfiguration } from '@kubernetes/client-node';
import { parseAllDocuments } from 'yaml';
import { VERSION } from '../src/cli/command.ts';
import type { JsonObject, Wire } from '../src/kube/types.ts';
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
  /** The webhooks of this way, which apply only to the namespace. */
  readonly webhooks?: readonly Registration[];
  /** True if pods have no security contexts, because SCCs default them. */
  readonly hasPlainPods?: boolean;
  readonly comparisons?: readonly Comparison[];
  readonly targets?: { readonly throughput?: number };
}

/** A webhook, the kind of its configuration, and its path. */
interface Registration {
  readonly kind: string;
  readonly path: string;
  readonly webhook: Wire<V1ValidatingWebhook>;
}

/**
 * Another way to compare with, and optional limits for the added latency and for the added CPU time of the API server,
 * in percent of those of the other way.
 */
interface Comparison {
  readonly namespace: string;
  readonly latency?: number;
  readonly apiServerCpu?: number;
}

interface Servers {
  readonly bare: Subject;
  readonly portcullis: Bundle;
  readonly previous?: Bundle | undefined;
  readonly peers: readonly Peer[];
}

/** A running bundle, and its webhooks for pods. */
interface Bundle {
  readonly server: Subject;
  readonly podSecurity: readonly Registration[];
  readonly scc: readonly Registration[];
}

function listWays({ bare, portcullis, previous, peers }: Servers): readonly Way[] {
  const { podSecurity, scc } = portcullis;
  const before = (namespace: string, comparison: Omit<Comparison, 'namespace'>): readonly Comparison[] =>
    previous ? [{ namespace, ...comparison }] : [];
  return [
    { name: 'without policy', namespace: 'none' },
    { name: 'PodSecurity plugin', namespace: 'plugin' },
    { name: 'policies without a server', namespace: 'policies', targets: { throughput: 70 } },
    { name: `bare Fastify, ${countCalls(podSecurity)}`, namespace: 'bare', server: bare, webhooks: podSecurity },
    {
      name: `Pod Security, ${countCalls(podSecurity)}`,
      namespace: 'psa',
      server: portcullis.server,
      webhooks: podSecurity,
      comparisons: [{ namespace: 'bare', latency: 110 }, ...before('psa-before', {})],
    },
    {
      name: `bare Fastify, ${countCalls(scc)}`,
      namespace: 'bare-scc',
      server: bare,
      webhooks: scc,
      hasPlainPods: true,
    },
    {
      name: `Pod Security and SCCs, ${countCalls(scc)}`,
      namespace: 'scc',
      server: portcullis.server,
      webhooks: scc,
      hasPlainPods: true,
      comparisons: [
        { namespace: 'bare-scc', latency: 130 },
        ...before('scc-before', { latency: 75, apiServerCpu: 75 }),
      ],
    },
    ...(previous
      ? [
          {
            name: `previous bundle, Pod Security, ${countCalls(previous.podSecurity)}`,
            namespace: 'psa-before',
            server: previous.server,
            webhooks: previous.podSecurity,
          },
          {
            name: `previous bundle, Pod Security and SCCs, ${countCalls(previous.scc)}`,
            namespace: 'scc-before',
            server: previous.server,
            webhooks: previous.scc,
            hasPlainPods: true,
          },
        ]
      : []),
    ...peers.map((peer) => ({
      name: peer.name,
      namespace: peer.namespace,
      server: peer,
      webhooks: peer.isRegistered ? [] : podSecurity,
      comparisons: [{ namespace: 'bare' }],
    })),
  ];
}

function countCalls({ length }: readonly Registration[]): string {
  return length === 1 ? '1 call' : `${length} calls`;
}

interface Options {
  /** Folder with the sources and binaries of the alternatives to Portcullis. */
  readonly peers?: string | undefined;
  /** Script of another bundle to measure, such as the previous release. */
  readonly previous?: string | undefined;
}

/** Requires kube-apiserver and etcd in `KUBEBUILDER_ASSETS`. */
export async function benchApiServer({ peers: peersFolder, previous }: Options): Promise<Row[]> {
  if (ASSETS === undefined) {
    process.stdout.write('api-server is skipped: KUBEBUILDER_ASSETS is not set\n');
    return [];
  }
  const folder = await mkdtemp(join(tmpdir(), 'portcullis-bench-'));
  const stops: (() => void | Promise<void>)[] = [() => rm(folder, { recursive: true })];
  try {
    const manifest = namespaces().map((object) => JSON.stringify(object));
    const certs = join(folder, 'certs');
    const run = async (name: string, script: string): Promise<Bundle> => {
      const home = join(folder, name);
      await mkdir(home);
      await writeFile(join(home, 'cluster.yaml'), manifest.join('\n---\n'));
      // All servers use the same serving certificate.
      if (existsSync(certs)) await cp(certs, join(home, 'certs'), { recursive: true });
      const cluster = await startCluster(home, script);
      stops.unshift(() => cluster.stop?.());
      if (!existsSync(certs)) await cp(join(home, 'certs'), certs, { recursive: true });
      const server = await startReplica(name, home, script);
      stops.unshift(() => server.stop?.());
      return {
        server,
        podSecurity: await listPodWebhooks(script, ['--profile=default']),
        scc: await listPodWebhooks(script, ['--profile=scc', '--set=scc.mode=enforce']),
      };
    };
    const main = await buildBundle(folder);
    const portcullis = await run('portcullis', main);
    const before = previous === undefined ? undefined : await run('previous', previous);
    const bare = await startBare(folder);
    stops.unshift(() => bare.stop?.());
    const plane = await startControlPlane({
      podSecurityPlugin: 'on',
      admissionConfig: await writeAdmissionConfig(folder),
    });
    stops.unshift(() => plane.stop());
    process.stdout.write(`${plane.title}, Portcullis v${VERSION}\n`);
    const peers = peersFolder === undefined ? [] : await startPeers(plane, { peers: peersFolder, certs, folder });
    for (const { stop } of peers) stops.unshift(() => stop?.());
    const ways = listWays({ bare, portcullis, previous: before, peers });
    await install(plane, ways, { folder, main });
    return await measureWays(plane, ways);
  } finally {
    for (const stop of stops) await stop();
  }
}

const LABELS = { 'pod-security.kubernetes.io/enforce': 'restricted' };

/** Returns 1,000 namespaces for a replica's own cluster, including the measured namespaces of webhooks. */
function namespaces(): readonly object[] {
  const ways = ['psa', 'scc', 'psa-before', 'scc-before'];
  return objectsOf({ ...SMALL, namespaces: 1000 }).flatMap(([kind, object], index) => {
    if (kind !== 'Namespace') return [];
    const way = ways[index];
    const labels = { ...LABELS, 'portcullis.dev/scc': way?.startsWith('scc') === true ? 'enforce' : 'off' };
    return [way === undefined ? object : { ...object, metadata: { ...object.metadata, name: way, labels } }];
  });
}

/**
 * Writes an admission configuration that exempts the namespace of the policies, so the plugin evaluates only its own
 * namespace.
 */
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
  const options = ['--without-server', '--for-kubernetes=1.37', '--set=podSecurity.exemptions.namespaces=[plugin]'];
  const { stdout } = await promisify(execFile)(process.execPath, [main, 'install', ...options]);
  for (const policy of parseAllDocuments(stdout)) await create(admin, policy.toJS() as JsonObject);
}

/**
 * Returns the webhooks that a bundle registers for the creation of pods in an ordinary namespace. Only the first
 * webhook of each path is returned, because the others apply to other namespaces.
 */
async function listPodWebhooks(script: string, options: readonly string[]): Promise<readonly Registration[]> {
  const args = [script, 'install', ...options, '--set=webhooks.management=static'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 64 * 1024 * 1024 });
  const registrations = new Map<string, Registration>();
  for (const document of parseAllDocuments(stdout)) {
    const { kind = '', webhooks = [] } = (document.toJS() ?? {}) as Partial<Wire<V1ValidatingWebhookConfiguration>>;
    for (const webhook of webhooks) {
      const path = webhook.clientConfig.service?.path ?? '';
      const reviewsPods = webhook.rules?.some(
        ({ resources, operations }) => resources?.includes('pods') === true && operations?.includes('CREATE') === true,
      );
      const reviews = reviewsPods === true && !registrations.has(path);
      if (reviews) registrations.set(path, { kind, path, webhook });
    }
  }
  return [...registrations.values()];
}

/** Returns the webhook configurations of a way. They apply only to its namespace. */
function configurationsOf({ namespace, server, webhooks = [] }: Way, caBundle: string): readonly JsonObject[] {
  if (!server) return [];
  const namespaceSelector = { matchLabels: { way: namespace } };
  return webhooks.map(({ kind, path, webhook }) => {
    const target = server.target(path);
    const clientConfig = { url: `https://${target.host}:${target.port}${target.path}`, caBundle };
    const metadata = { name: `${namespace}${path.replaceAll('/', '.')}` };
    const registered = { ...webhook, namespaceSelector, clientConfig };
    return { apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata, webhooks: [registered] };
  });
}

const ROUNDS = 15;
/** Number of warm-up rounds, which are not measured. */
const WARM_UP_ROUNDS = 5;
/** Number of requests in a round, keyed by the number of concurrent clients. */
const REQUESTS = new Map([
  [1, 40],
  [8, 240],
]);

interface Measured {
  /** Median latency of a request. */
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

function createPod(client: ApiClient, { namespace, hasPlainPods }: Way, spec: object = {}): Promise<ApiResponse> {
  const compliant = compliantPod(spec);
  const plain = { containers: [{ name: 'c', image: 'registry.example.com/c:1' }], ...spec };
  const metadata = { generateName: 'bench-', namespace };
  const pod = { ...compliant, metadata, spec: hasPlainPods === true ? plain : compliant.spec };
  return client.send('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, pod);
}

/** Annotation of pods that SCC admission has defaulted. */
const ASSIGNED_SCC = '"openshift.io/scc":"restricted-v2"';

/**
 * Waits until the way admits a compliant pod and denies a violating pod, because API servers observe new configurations
 * and policies after a delay.
 */
async function waitUntilEnforced(client: ApiClient, way: Way): Promise<void> {
  const isEnforced = way.namespace !== 'none' && !way.namespace.startsWith('bare');
  for (let attempt = 0; ; attempt++) {
    const allowed = await createPod(client, way);
    const forbidden = await createPod(client, way, { hostNetwork: true });
    const isDefaulted = way.hasPlainPods !== true || allowed.text.includes(ASSIGNED_SCC);
    const isReady = allowed.status === 201 && (!isEnforced || (isDefaulted && [400, 403].includes(forbidden.status)));
    if (isReady) return;
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
    const compared = (way.comparisons ?? []).flatMap(({ namespace, latency, apiServerCpu }): Row[] => {
      const baseline = find(namespace);
      const isBefore = namespace.endsWith('-before');
      const title = isBefore ? 'relative to the previous bundle' : 'relative to the bare server';
      const ratio = (value: (measurement: Measured, round: number) => number): number =>
        medianOf((result, round) => (value(result, round) / value(baseline[round] ?? result, round)) * 100);
      if (clients === 1) return [{ name: `  added, ${title}`, value: ratio(added), unit: '%', ...atMost(latency) }];
      if (!isBefore) return [];
      const addedCpu = ({ apiServerMs }: Measured, round: number): number =>
        apiServerMs - (none[round]?.apiServerMs ?? 0);
      return [
        { name: `  added CPU of the API server, ${title}`, value: ratio(addedCpu), unit: '%', ...atMost(apiServerCpu) },
      ];
    });
    if (clients === 1) {
      return [
        { name: `${name}: latency`, value: medianOf(({ latencyMs }) => latencyMs), unit: 'ms' },
        { name: '  added to no policy', value: medianOf(added), unit: 'ms' },
        ...compared,
      ];
    }
    const share = medianOf(({ perSecond }, round) => (perSecond / (none[round]?.perSecond ?? NaN)) * 100);
    return [
      { name, value: medianOf(({ perSecond }) => perSecond), unit: 'pods/s' },
      { name: '  relative to no policy', value: share, unit: '%', ...atLeast(way.targets?.throughput) },
      ...cpu,
      ...compared,
    ];
  });
}

function atMost(bound: number | undefined): Pick<Row, 'target'> {
  return bound === undefined ? {} : { target: { atMost: bound } };
}

function atLeast(bound: number | undefined): Pick<Row, 'target'> {
  return bound === undefined ? {} : { target: { atLeast: bound } };
}
