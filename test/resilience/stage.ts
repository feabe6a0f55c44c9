/**
 * Setup for resilience tests, which consists of an installation, a proxy that injects faults into its API server
 * connections, and a load of reviews.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from 'node:tls';
import { INSTALLATION } from '../../src/api/names.ts';
import type { ManifestSettings } from '../../src/install/index.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import type { ApiClient } from '../support/api-client.ts';
import {
  type ControlPlane,
  createSystem,
  type Replica,
  REPLICA_USER,
  type ReplicaOptions,
  startControlPlane,
  type System,
} from '../support/control-plane/index.ts';
import { localObjects } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { podReview } from '../support/reviews.ts';
import { type ExpectedReview, type LoadReport, startLoad } from '../support/steady-load.ts';
import { createWebhookClient, type WebhookClient } from '../support/webhook-client.ts';

export interface Stage {
  readonly plane: ControlPlane;
  readonly proxy: FaultProxy;
  readonly system: System;
  /** Sends reviews to the address of the installation, as the API server does. */
  readonly client: WebhookClient;
  /** Starts replicas that reach the API server through the proxy. */
  start(more: number, options?: ReplicaOptions): Promise<readonly Replica[]>;
  /** Waits until the given number of replicas receive reviews and all decisions are correct. */
  settled(count: number): Promise<void>;
  /** Sends reviews during an action and for 500 ms afterwards. */
  underLoad(act: () => Promise<void>): Promise<LoadReport>;
  /** Creates a client for one replica. A replica that is not ready may have a temporary certificate. */
  getClient(replica: Replica, trust: 'installation' | 'any certificate'): WebhookClient;
  /** Collects the responses of failed readiness probes during an action. */
  collectUnready(act: () => Promise<void>): Promise<readonly string[]>;
  /** Changes the enforced level of a namespace. */
  changeLevel(): Promise<void>;
  /** Waits until all replicas apply the last change. Resolves to the duration in milliseconds. */
  waitForChange(timeoutMs: number): Promise<number>;
  /** Waits until a leader renews the lease. */
  waitForLeader(timeoutMs: number): Promise<void>;
  /** Returns the holder of the lease and the number of transitions. */
  lease(): Promise<{ readonly holder: unknown; readonly transitions: unknown }>;
  /** Returns the replica that holds the lease. */
  leader(): Promise<Replica>;
  /** Returns the fingerprints of served certificates and the trusted authorities in PEM. */
  certificates(): Promise<{ readonly served: ReadonlySet<string>; readonly trusted: readonly string[] }>;
  stop(): Promise<void>;
}

/** The timeout of reviews. It exceeds the timeout in the manifests, so reviews do not fail on a busy machine. */
const TIMEOUT_S = 15;

/** A short lease duration, which shortens the tests. */
const SHORT_LEASE = ['--leader-elect-lease-duration=3s'];

export interface StageOptions {
  /** Additional arguments of each replica. Default: a lease duration of 3 s. */
  readonly args?: readonly string[];
  /** Drain time of a terminated replica. */
  readonly drainSeconds?: number;
  readonly perSecond?: number;
  readonly manifests?: Partial<ManifestSettings>;
}

/** The namespace whose level changes during faults. */
const CHANGING = 'changing';

/** The namespace of the reviews, which enforces `restricted`. */
export const NAMESPACE = 'shop';
/** A namespace that enforces only Pod Security. */
export const WITHOUT_SCCS = 'levels';

/** Sets up an installation without replicas. */
export async function setUpStage({
  args = SHORT_LEASE,
  drainSeconds = 3,
  perSecond = 25,
  manifests,
}: StageOptions = {}): Promise<Stage> {
  const plane = await startControlPlane();
  const system = await createSystem(plane, {
    args: [...args, `--shutdown-delay-duration=${drainSeconds}s`],
    objectsFor: (port) => localObjects(port, manifests),
  });
  const bundle = watchBundle(plane.admin);
  let level: Level = 'privileged';
  await enforce(plane.admin, NAMESPACE, 'restricted', 'enforce');
  await enforce(plane.admin, WITHOUT_SCCS, 'restricted');
  await enforce(plane.admin, CHANGING, level);
  await system.install();
  const account = [REPLICA_USER, ['system:serviceaccounts', 'system:authenticated']] as const;
  const proxy = await startFaultProxy(await plane.kubeconfigFor(...account));
  const clients: WebhookClient[] = [];
  const clientFor = (port: number, trust: 'installation' | 'any certificate' = 'installation'): WebhookClient => {
    const serverName = `${INSTALLATION.name}.${INSTALLATION.namespace}.svc`;
    const created = createWebhookClient({
      port,
      serverName,
      authority: trust === 'installation' ? bundle.current : 'any',
      timeoutSeconds: TIMEOUT_S,
    });
    clients.push(created);
    return created;
  };
  const client = clientFor(system.port);
  return {
    plane,
    proxy,
    system,
    client,
    async start(more, options = {}) {
      return await system.start(more, { kubeconfig: proxy.kubeconfig, ...options });
    },
    async settled(count) {
      await system.settled(count);
      await eventually(async () => {
        for (const { path, review, allowed } of REVIEWS) assert.equal(await client.call(path, review), allowed, path);
      }, 60_000);
    },
    async underLoad(act) {
      const load = startLoad({ client, reviews: REVIEWS, perSecond });
      try {
        await act();
        await pause(500);
      } finally {
        await load.stop();
      }
      return load.report();
    },
    getClient: ({ port }, trust) => clientFor(port, trust),
    async collectUnready(act) {
      const failures: string[] = [];
      const probeAll = async (): Promise<void> => {
        for (const replica of system.replicas) {
          const { status, text } = await replica
            .probe()
            .catch((error: unknown) => ({ status: 0, text: String(error) }));
          if (status !== 200) failures.push(`${replica.name}: ${text}`);
        }
      };
      const timer = setInterval(() => void probeAll(), 1000);
      await act().finally(() => clearInterval(timer));
      return failures;
    },
    async changeLevel() {
      level = level === 'privileged' ? 'restricted' : 'privileged';
      await enforce(plane.admin, CHANGING, level);
    },
    async waitForChange(timeoutMs) {
      const review = podReview({ namespace: CHANGING, spec: buildSpec('privileged') });
      const startMs = performance.now();
      for (const replica of system.replicas) {
        const replicaClient = clientFor(replica.port);
        await eventually(async () => {
          assert.equal(await replicaClient.call('/validate/pods', review), level === 'privileged', replica.name);
        }, timeoutMs);
      }
      return Math.round(performance.now() - startMs);
    },
    async waitForLeader(timeoutMs) {
      const before = (await getLeaseSpec(plane.admin))['renewTime'];
      await eventually(
        async () =>
          assert.notEqual((await getLeaseSpec(plane.admin))['renewTime'], before, 'no leader renews the lease'),
        timeoutMs,
      );
    },
    async lease() {
      const { holderIdentity: holder, leaseTransitions: transitions } = await getLeaseSpec(plane.admin);
      return { holder, transitions };
    },
    async leader() {
      const { holderIdentity } = await getLeaseSpec(plane.admin);
      const found = system.replicas.find((replica) =>
        replica.log().some(({ msg, identity }) => msg === 'leadership begins' && identity === holderIdentity),
      );
      assert.ok(found, `no replica is ${String(holderIdentity)}`);
      return found;
    },
    async certificates() {
      const served = await Promise.all(system.replicas.map(({ port }) => getServedFingerprint(port)));
      return { served: new Set(served), trusted: bundle.current().match(PEM) ?? [] };
    },
    async stop() {
      bundle.stop();
      for (const created of clients) created.close();
      await proxy.set('none');
      await system.stop();
      await proxy.stop();
      await plane.stop();
    },
  };
}

type Level = 'restricted' | 'privileged';

const SECURITY = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };

/** Builds a pod spec that satisfies `restricted`, or one that satisfies only `privileged`. */
export function buildSpec(kind: Level): JsonObject {
  const securityContext = kind === 'restricted' ? SECURITY : { privileged: true };
  return {
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [{ name: 'web', image: 'web:1', securityContext }],
  };
}

/** Returns reviews of admitted and denied pods under both policies. A pod without an SCC is valid where SCCs are off. */
export const REVIEWS: readonly ExpectedReview[] = [
  ['/validate/pods', WITHOUT_SCCS] as const,
  ['/mutate/pods', NAMESPACE] as const,
].flatMap(([path, namespace]) => [
  { path, allowed: true, review: podReview({ namespace, spec: buildSpec('restricted') }) },
  { path, allowed: false, review: podReview({ namespace, spec: buildSpec('privileged') }) },
]);

/** Applies a namespace that enforces a level but, by default, no SCCs. */
async function enforce(admin: ApiClient, name: string, level: Level, scc: 'enforce' | 'off' = 'off'): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': level, 'portcullis.dev/scc': scc };
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
  const { status, text } = await admin.send(
    'PATCH',
    `/api/v1/namespaces/${name}?fieldManager=test&force=true`,
    namespace,
    {
      'content-type': 'application/apply-patch+yaml',
    },
  );
  assert.ok(status < 300, text);
}

const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${INSTALLATION.namespace}/leases/${INSTALLATION.name}`;

async function getLeaseSpec(admin: ApiClient): Promise<JsonObject> {
  const { body } = await admin.send('GET', LEASE);
  const spec: unknown = isObject(body) ? body['spec'] : undefined;
  return isObject(spec) ? spec : {};
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Returns the fingerprint of the certificate on a new connection. */
function getServedFingerprint(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

interface Bundle {
  /** Returns the authorities in PEM that API servers trust. */
  current(): string;
  stop(): void;
}

const CONFIGURATION = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/portcullis.dev';
const POLL_MS = 250;

/** Polls the caBundle of the webhooks. */
function watchBundle(admin: ApiClient): Bundle {
  let current = '';
  const poll = async (): Promise<void> => {
    const { body } = await admin.send('GET', CONFIGURATION);
    const webhooks: unknown = isObject(body) ? body['webhooks'] : undefined;
    const [first] = Array.isArray(webhooks) ? (webhooks as readonly { clientConfig: { caBundle?: string } }[]) : [];
    current = Buffer.from(first?.clientConfig.caBundle ?? '', 'base64').toString();
  };
  // The bundle does not change while the API server is unreachable.
  const timer = setInterval(() => void poll().catch(() => undefined), POLL_MS);
  return { current: () => current, stop: () => clearInterval(timer) };
}

/**
 * Prints the table row for a fault. `test/run.ts` prints all rows in one table.
 * @param convergedMs time until the system recovered, or `undefined` if the fault requires no reaction
 */
export function recordFault(t: TestContext, report: LoadReport, convergedMs?: number, fault = t.name): void {
  const { sent, failures, wrong } = report;
  const seconds = convergedMs === undefined ? '–' : `${(convergedMs / 1000).toFixed(1)} s`;
  t.diagnostic(formatReport(report));
  t.diagnostic(`| ${fault} | ${sent} | ${failures.length} | ${wrong} | ${seconds} |`);
}

export function formatReport(report: LoadReport): string {
  const { sent, failures, failedRetries, wrong, p50Ms, p99Ms, maxMs } = report;
  const failed = `${failures.length} failed (${failedRetries} on retry), ${wrong} wrong`;
  return `${sent} reviews: ${failed}; p50 ${p50Ms} ms, p99 ${p99Ms} ms, maximum ${maxMs} ms`;
}

/** Asserts that all decisions arrived and were correct. */
export function assertNoFailures({ failures, wrong, sent }: LoadReport): void {
  assert.deepEqual({ failures: failures.slice(0, 5), wrong }, { failures: [], wrong: 0 });
  assert.ok(sent > 0, 'no reviews were sent');
}
