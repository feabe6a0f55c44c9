/** What the scenarios play on: an installation, an unreliable way to its API server, and a steady load of reviews. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from 'node:tls';
import { INSTALLATION } from '../../src/kube/well-known.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import type { ApiClient } from '../support/api-client.ts';
import {
  createSystem,
  REPLICA_USER,
  startControlPlane,
  type ControlPlane,
  type Replica,
  type ReplicaOptions,
  type System,
} from '../support/control-plane/index.ts';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { eventually } from '../support/eventually.ts';
import { podReview } from '../support/reviews.ts';
import { startLoad, type LoadReport, type Question } from '../support/steady-load.ts';
import { createWebhookClient, type WebhookClient } from '../support/webhook-client.ts';

export interface Stage {
  readonly plane: ControlPlane;
  readonly proxy: FaultProxy;
  readonly system: System;
  /** Sends reviews to the address of the installation, as the API server does. */
  readonly client: WebhookClient;
  /** Starts replicas that reach the API server through the proxy. */
  start(more: number, options?: ReplicaOptions): Promise<readonly Replica[]>;
  /** Waits until so many replicas get reviews, and all reviews are answered rightly. */
  settled(count: number): Promise<void>;
  /** Sends reviews for as long as it takes to do something, and a moment longer. */
  underLoad(act: () => Promise<void>): Promise<LoadReport>;
  /** Sends reviews to one replica; with any certificate before it has that of the installation. */
  clientOf(replica: Replica, trust: 'installation' | 'any certificate'): WebhookClient;
  /** Does something, and tells what replicas said that were not ready meanwhile. */
  unreadyWhile(act: () => Promise<void>): Promise<readonly string[]>;
  /** Changes which level a namespace enforces, behind the backs of the replicas. */
  change(): Promise<void>;
  /** Waits until each replica knows of the last change; resolves to how long that took, in milliseconds. */
  known(timeoutMs: number): Promise<number>;
  /** Waits until somebody leads: has renewed the lease from now on. */
  led(timeoutMs: number): Promise<void>;
  /** Who leads, and how often that has changed. */
  lease(): Promise<{ readonly holder: unknown; readonly transitions: unknown }>;
  /** What replicas serve, as fingerprints, and whom the API server trusts, in PEM. */
  certificates(): Promise<{ readonly served: ReadonlySet<string>; readonly trusted: readonly string[] }>;
  stop(): Promise<void>;
}

/** More than the manifests have: a busy machine is no outage. */
const PATIENCE_S = 15;

/** What shortens the waits of a test, not what happens. */
const QUICK = [
  '--leader-elect-lease-duration=3s',
  '--leader-elect-renew-deadline=2s',
  '--leader-elect-retry-period=500ms',
];

export interface StageOptions {
  /** Of each replica, behind those of the Deployment; absent: a lease of 3 s. */
  readonly args?: readonly string[];
  /** How long a replica that ends goes on serving, in seconds. */
  readonly drainSeconds?: number;
  readonly perSecond?: number;
}

/** Whose level changes while something goes wrong. */
const CHANGING = 'changing';

/** Where the pods of the load would be created; `restricted` counts there. */
export const NAMESPACE = 'shop';

/** Sets up an installation without replicas. */
export async function setStage({ args = QUICK, drainSeconds = 3, perSecond = 25 }: StageOptions = {}): Promise<Stage> {
  const plane = await startControlPlane();
  const system = await createSystem(plane, { args: [...args, `--shutdown-delay-duration=${drainSeconds}s`] });
  const bundle = followBundle(plane.admin);
  let level: Level = 'privileged';
  await enforce(plane.admin, NAMESPACE, 'restricted');
  await enforce(plane.admin, CHANGING, level);
  await system.install();
  const account = [REPLICA_USER, ['system:serviceaccounts', 'system:authenticated']] as const;
  const proxy = await startFaultProxy(await plane.kubeconfigFor(...account));
  const clients: WebhookClient[] = [];
  const clientFor = (port: number, trust: 'installation' | 'any certificate' = 'installation'): WebhookClient => {
    const serverName = `${INSTALLATION.name}.${INSTALLATION.namespace}.svc`;
    const made = createWebhookClient({
      port,
      serverName,
      authority: trust === 'installation' ? bundle.current : 'any',
      timeoutSeconds: PATIENCE_S,
    });
    clients.push(made);
    return made;
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
        for (const { path, review, allowed } of QUESTIONS) assert.equal(await client.call(path, review), allowed, path);
      }, 60_000);
    },
    async underLoad(act) {
      const load = startLoad({ client, questions: QUESTIONS, perSecond });
      try {
        await act();
        await pause(500);
      } finally {
        await load.stop();
      }
      return load.report();
    },
    clientOf: ({ port }, trust) => clientFor(port, trust),
    async unreadyWhile(act) {
      const said: string[] = [];
      const look = async (): Promise<void> => {
        for (const replica of system.replicas) {
          const { status, text } = await replica
            .probe()
            .catch((error: unknown) => ({ status: 0, text: String(error) }));
          if (status !== 200) said.push(`${replica.name}: ${text}`);
        }
      };
      const timer = setInterval(() => void look(), 1000);
      await act().finally(() => clearInterval(timer));
      return said;
    },
    async change() {
      level = level === 'privileged' ? 'restricted' : 'privileged';
      await enforce(plane.admin, CHANGING, level);
    },
    async known(timeoutMs) {
      const review = podReview({ namespace: CHANGING, spec: specOf('privileged') });
      const startMs = performance.now();
      for (const replica of system.replicas) {
        const one = clientFor(replica.port);
        await eventually(async () => {
          assert.equal(await one.call('/psa/validate', review), level === 'privileged', replica.name);
        }, timeoutMs);
      }
      return Math.round(performance.now() - startMs);
    },
    async led(timeoutMs) {
      const before = (await leaseSpec(plane.admin))['renewTime'];
      await eventually(
        async () => assert.notEqual((await leaseSpec(plane.admin))['renewTime'], before, 'nobody leads'),
        timeoutMs,
      );
    },
    async lease() {
      const { holderIdentity: holder, leaseTransitions: transitions } = await leaseSpec(plane.admin);
      return { holder, transitions };
    },
    async certificates() {
      const served = await Promise.all(system.replicas.map(({ port }) => servedAt(port)));
      return { served: new Set(served), trusted: bundle.current().match(PEM) ?? [] };
    },
    async stop() {
      bundle.stop();
      for (const made of clients) made.close();
      await proxy.set('none');
      await system.stop();
      await proxy.stop();
      await plane.stop();
    },
  };
}

type Level = 'restricted' | 'privileged';

const SECURITY = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };

/** A pod that meets `restricted`, or one that meets nothing. */
export function specOf(kind: Level): JsonObject {
  const securityContext = kind === 'restricted' ? SECURITY : { privileged: true };
  return {
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [{ name: 'web', image: 'web:1', securityContext }],
  };
}

/** Reviews of pods that are let in and of pods that are not, under both policies. */
export const QUESTIONS: readonly Question[] = ['/psa/validate', '/scc/mutate'].flatMap((path) => [
  { path, allowed: true, review: podReview({ namespace: NAMESPACE, spec: specOf('restricted') }) },
  { path, allowed: false, review: podReview({ namespace: NAMESPACE, spec: specOf('privileged') }) },
]);

/** Creates a namespace that enforces a level, or changes which one it enforces. */
export async function enforce(admin: ApiClient, name: string, level: Level): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': level, 'portcullis.dev/scc': 'enforce' };
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

async function leaseSpec(admin: ApiClient): Promise<JsonObject> {
  const { body } = await admin.send('GET', LEASE);
  const spec: unknown = isObject(body) ? body['spec'] : undefined;
  return isObject(spec) ? spec : {};
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The fingerprint of the certificate that a new connection is shown. */
function servedAt(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

interface Bundle {
  /** In PEM; whom the API server trusts. */
  current(): string;
  stop(): void;
}

const CONFIGURATION = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/psa.portcullis.dev';
const LOOK_MS = 250;

/** Follows the certificates that API servers trust for our webhooks. */
function followBundle(admin: ApiClient): Bundle {
  let current = '';
  const look = async (): Promise<void> => {
    const { body } = await admin.send('GET', CONFIGURATION);
    const webhooks: unknown = isObject(body) ? body['webhooks'] : undefined;
    const [first] = Array.isArray(webhooks) ? (webhooks as readonly { clientConfig: { caBundle?: string } }[]) : [];
    current = Buffer.from(first?.clientConfig.caBundle ?? '', 'base64').toString();
  };
  // While the API server is away nothing changes.
  const timer = setInterval(() => void look().catch(() => undefined), LOOK_MS);
  return { current: () => current, stop: () => clearInterval(timer) };
}

/** What a person wants to know of a load. */
export function summaryOf(report: LoadReport): string {
  const { sent, failures, failedAgain, wrong, p50Ms, p99Ms, maxMs } = report;
  const failed = `${failures.length} failed (${failedAgain} again), ${wrong} wrong`;
  return `${sent} reviews: ${failed}; p50 ${p50Ms} ms, p99 ${p99Ms} ms, longest ${maxMs} ms`;
}

/** Asserts that each review was answered, and rightly. */
export function assertFlawless({ failures, wrong, sent }: LoadReport): void {
  assert.deepEqual({ failures: failures.slice(0, 5), wrong }, { failures: [], wrong: 0 });
  assert.ok(sent > 0, 'no reviews were sent');
}
