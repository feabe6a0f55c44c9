/** Runs alternatives to Portcullis as processes that enforce the restricted level. */
import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';
import type { JsonObject } from '../../src/kube/types.ts';
import type { ApiClient } from '../../test/support/api-client.ts';
import type { ControlPlane } from '../../test/support/control-plane/index.ts';
import { create } from '../../test/support/control-plane/installation.ts';
import { freePorts, startDaemon, untilReady } from '../../test/support/control-plane/process.ts';
import type { Subject } from '../subject.ts';

export interface Peer extends Subject {
  /** The reviewed namespace, which is also the name of the source folder. */
  readonly namespace: string;
  /** True if the program creates its own webhook configurations. */
  readonly isRegistered: boolean;
}

/** Process options. All ports are free. */
interface Process {
  readonly port: number;
  readonly probePort: number;
  readonly metricsPort: number;
  readonly kubeconfig: string;
  /** Folder with `tls.crt` and `tls.key` for 127.0.0.1. */
  readonly certs: string;
  /** Folder for files of the process. */
  readonly folder: string;
}

interface Program extends Pick<Peer, 'namespace' | 'isRegistered'> {
  readonly name: string;
  readonly binary: string;
  /** The source file that contains the version. */
  readonly version: readonly [file: string, pattern: RegExp];
  /** Source files and folders with CRDs. */
  readonly crds: readonly string[];
  /** URL path for reviews. */
  readonly path: string;
  readonly args: (process: Process) => readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly readiness: (process: Process) => string;
}

/**
 * The programs use the settings in their released manifests, except that reports and background scans are off because
 * reviews do not need them.
 */
const PROGRAMS: readonly Program[] = [
  {
    name: "upstream's webhook",
    namespace: 'psa-webhook',
    isRegistered: false,
    binary: 'podsecurity-webhook',
    version: ['go.mod', /k8s\.io\/api (v\S+)/],
    crds: [],
    path: '/',
    args: ({ port, kubeconfig, certs, folder }) => [
      ...[`--config=${join(folder, 'psa-webhook.json')}`, `--kubeconfig=${kubeconfig}`, '--bind-address=127.0.0.1'],
      ...[`--secure-port=${port}`, `--tls-cert-file=${certs}/tls.crt`, `--tls-private-key-file=${certs}/tls.key`],
    ],
    readiness: ({ port }) => `https://127.0.0.1:${port}/readyz`,
  },
  {
    name: 'Kyverno',
    namespace: 'kyverno',
    isRegistered: true,
    binary: 'kyverno',
    version: ['charts/kyverno/Chart.yaml', /appVersion: (v\S+)/],
    crds: ['kyverno', 'policies.kyverno.io', 'policyreport', 'reports'].map((group) => `config/crds/${group}`),
    path: '/validate/fail',
    args: ({ port, probePort, metricsPort, kubeconfig }) => [
      ...[`--kubeconfig=${kubeconfig}`, `--serverIP=127.0.0.1:${port}`, '--webhookServerHost=127.0.0.1'],
      ...[`--webhookServerPort=${port}`, '--metricsHost=127.0.0.1', `--metricsPort=${metricsPort}`],
      ...[`--controllerRuntimeMetricsAddress=127.0.0.1:${probePort}`, '--admissionReports=false'],
      ...['--omitEvents=PolicyApplied,PolicySkipped', '--caSecretName=ca', '--tlsSecretName=tls'],
    ],
    env: {
      KYVERNO_NAMESPACE: 'kyverno-system',
      KYVERNO_SERVICEACCOUNT_NAME: 'kyverno',
      KYVERNO_DEPLOYMENT: 'kyverno',
      KYVERNO_POD_NAME: 'kyverno',
      INIT_CONFIG: 'kyverno',
      METRICS_CONFIG: 'kyverno-metrics',
    },
    readiness: ({ port }) => `https://127.0.0.1:${port}/health/readiness`,
  },
  {
    name: 'Gatekeeper',
    namespace: 'gatekeeper',
    isRegistered: false,
    binary: 'gatekeeper',
    version: ['charts/gatekeeper/Chart.yaml', /appVersion: (v\S+)/],
    crds: ['deploy/gatekeeper.yaml'],
    path: '/v1/admit',
    // Records metrics without the Prometheus exporter, which would listen on all addresses.
    args: ({ port, probePort, kubeconfig, certs }) => [
      ...[`--kubeconfig=${kubeconfig}`, '--host=127.0.0.1', `--port=${port}`, `--health-addr=127.0.0.1:${probePort}`],
      ...[
        '--disable-cert-rotation',
        `--cert-dir=${certs}`,
        '--operation=webhook',
        '--operation=generate',
        '--debug-use-fake-pod',
      ],
      ...['--disable-opa-builtin={http.send}', '--exempt-namespace=gatekeeper-system', '--shutdown-delay=0'],
      ...['--metrics-backend=opentelemetry', '--otlp-endpoint=127.0.0.1:1'],
    ],
    env: { POD_NAMESPACE: 'gatekeeper-system' },
    readiness: ({ probePort }) => `http://127.0.0.1:${probePort}/readyz`,
  },
];

interface Options {
  /** Folder with the binaries in `bin`, and the sources of each program in the folder of its namespace. */
  readonly peers: string;
  readonly certs: string;
  readonly folder: string;
}

/** Starts the programs that have a binary. */
export async function startPeers(plane: ControlPlane, options: Options): Promise<readonly Peer[]> {
  const kubeconfig = await plane.kubeconfigFor('peer', ['system:masters']);
  const level = { apiVersion: 'pod-security.admission.config.k8s.io/v1', kind: 'PodSecurityConfiguration' };
  await writeFile(
    join(options.folder, 'psa-webhook.json'),
    JSON.stringify({ ...level, defaults: { enforce: 'restricted' } }),
  );
  const started: Peer[] = [];
  for (const program of PROGRAMS) {
    const binary = join(options.peers, 'bin', program.binary);
    if (existsSync(binary)) started.push(await startPeer(plane.admin, { ...program, binary, kubeconfig, ...options }));
    else process.stdout.write(`${program.name} is skipped: ${binary} does not exist\n`);
  }
  return started;
}

async function startPeer(
  admin: ApiClient,
  { peers, binary, ...options }: Program & Options & { readonly kubeconfig: string },
): Promise<Peer> {
  const { namespace, isRegistered, folder, path } = options;
  const sources = join(peers, namespace);
  const manifest = new URL(`${namespace}.yaml`, import.meta.url);
  const objects = existsSync(manifest) ? parse(await readFile(manifest, 'utf8')) : [];
  const isCore = ({ apiVersion }: JsonObject): boolean => apiVersion === 'v1';
  for (const crd of await readCrds(options.crds.map((file) => join(sources, file)))) await createOnceServed(admin, crd);
  for (const object of objects.filter(isCore)) await createOnceServed(admin, object);
  const [port = 0, probePort = 0, metricsPort = 0] = await freePorts(3);
  const ports = { ...options, port, probePort, metricsPort };
  const log = join(folder, `${namespace}.log`);
  const startMs = performance.now();
  const daemon = startDaemon(
    'env',
    [...Object.entries(options.env ?? {}).map(([key, value]) => `${key}=${value}`), binary, ...options.args(ports)],
    log,
  );
  await untilReady(daemon, options.name, log, () => isOk(options.readiness(ports)));
  const startSeconds = (performance.now() - startMs) / 1000;
  for (const object of objects.filter((one) => !isCore(one))) await createOnceServed(admin, object);
  const [file, pattern] = options.version;
  const version = pattern.exec(await readFile(join(sources, file), 'utf8'))?.[1] ?? 'of an unknown version';
  return {
    name: `${options.name} ${version}`,
    ...{ namespace, isRegistered, startSeconds, pid: daemon.pid, stop: () => void daemon.stop() },
    target: () => ({ host: '127.0.0.1', port, path }),
  };
}

function parse(text: string): readonly JsonObject[] {
  return parseAllDocuments(text).map((document) => document.toJS() as JsonObject);
}

async function readCrds(paths: readonly string[]): Promise<readonly JsonObject[]> {
  const objects: JsonObject[] = [];
  for (const path of paths) {
    const files = path.endsWith('.yaml') ? [path] : (await readdir(path)).map((file) => join(path, file));
    for (const file of files) objects.push(...parse(await readFile(file, 'utf8')));
  }
  return objects.filter((object) => object?.kind === 'CustomResourceDefinition');
}

/** Retries until the API server serves the kind and the webhooks of the peer respond. */
async function createOnceServed(admin: ApiClient, object: JsonObject): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const result = await create(admin, object).catch((error: unknown) => ({ status: 0, text: String(error) }));
    if (result.status === 201) return;
    if (attempt === 100) throw new Error(`${String(object.kind)} is not created: ${result.text}`);
    await pause(200);
  }
}

/** The certificate is not verified, because the response only ends a wait. */
function isOk(url: string): Promise<boolean> {
  const { get } = url.startsWith('https:') ? https : http;
  return new Promise((resolve, reject) => {
    get(url, { rejectUnauthorized: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    }).on('error', reject);
  });
}
