/** A simulated installation for certificate tests, with configurations, replicas and leaders on a fake clock. */
import { INJECT_CA_ANNOTATION, INSTALLATION, PART_OF, PART_OF_LABEL } from '../../src/api/names.ts';
import { CONFIGURATION_KINDS, getWebhooks, type WebhookConfiguration } from '../../src/api/webhooks.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { createStore } from '../../src/cluster/store.ts';
import type { ServedPair } from '../../src/controllers/controller.ts';
import { installedConfigurations, replica } from '../../src/controllers/replica.ts';
import { type RunningController, startController } from '../../src/controllers/runtime.ts';
import { servingCertificate } from '../../src/controllers/serving-certificate.ts';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import type { Kind, Kinds } from '../../src/kube/kinds.ts';
import { draft, type Secret } from '../../src/kube/types.ts';
import { type KeyPair, readCertificates } from '../../src/tls/certificate-pair.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { decodeBundle, findTrustProblems } from '../../src/tls/trust.ts';
import { createController, createRecorder, createTestSettings, type Recorder } from './controllers.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';

export const { namespace: NAMESPACE, certificateSecret: SECRET } = INSTALLATION;
export const SERVICE = { namespace: NAMESPACE, name: INSTALLATION.name };
export const HOST = `${INSTALLATION.name}.${NAMESPACE}.svc`;
export const NAMES = { dnsNames: [HOST], ipAddresses: ['127.0.0.1'] };
export const TEST_MANAGER = { fieldManager: 'test' };
export const START_DATE = new Date('2026-01-01T00:00:00Z');
export const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns a webhook configuration with the annotation that requests the CAs in the Secret. */
export function configuration(name: string, hooks: readonly string[], caBundle?: string): WebhookConfiguration {
  return {
    metadata: {
      name,
      labels: { [PART_OF_LABEL]: PART_OF },
      annotations: { [INJECT_CA_ANNOTATION]: `${NAMESPACE}/${SECRET}` },
    },
    webhooks: hooks.map((hook) => ({
      name: hook,
      clientConfig: {
        service: { ...SERVICE, path: '/validate/pods' },
        ...(caBundle === undefined ? {} : { caBundle }),
      },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['nothings'] }],
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
      failurePolicy: 'Fail',
      timeoutSeconds: 5,
    })),
  };
}

export const CONFIGURATIONS = [
  ['ValidatingWebhookConfiguration', configuration('portcullis.dev', ['a.portcullis.dev', 'b.portcullis.dev'])],
  ['MutatingWebhookConfiguration', configuration('zz.portcullis.dev', ['c.portcullis.dev'])],
] as const;

const UNUSED: ServedPair = {
  current: () => ({ cert: '', key: '' }),
  isTemporary: () => true,
  use: () => undefined,
};

/** A replica with its served certificate and readiness. */
export interface StagedReplica extends Pick<Recorder, 'metrics'> {
  readonly name: string;
  current(): KeyPair;
  isReady(): boolean;
  /** Applies all delayed changes to the store. */
  catchUp(): void;
  /** Stops the replica without removing its Lease. */
  die(): Promise<void>;
  leave(): Promise<void>;
}

export interface StagedLeader extends Recorder {
  /** Stops the leader. All further writes fail. */
  die(): Promise<void>;
  /** Makes all writes after the given number of writes fail. */
  dieAfter(writes: number): void;
  isDead(): boolean;
  catchUp(): void;
}

export interface Stage {
  readonly cluster: DevCluster;
  readonly clock: FakeClock;
  date(): Date;
  secret(): Secret | undefined;
  /** Returns the decoded data of the Secret. */
  texts(): Readonly<Record<string, string>>;
  setTexts(texts: Readonly<Record<string, string>>): Promise<void>;
  askFor(rotation: string): Promise<void>;
  /** Returns the SHA-256 hashes of the CAs that each webhook trusts, in webhook order. */
  trusted(): readonly (readonly string[])[];
  replica(name: string, lagMs?: number): StagedReplica;
  leader(lagMs?: number): StagedLeader;
  /** Advances the clock in steps, and completes the due work after each step. */
  pass(ms: number, stepMs?: number): Promise<void>;
  /** Calls the function whenever a replica serves a different certificate. */
  onServed(call: (replica: StagedReplica) => void): void;
  stop(): Promise<void>;
}

/** Starts a cluster with an installation's configurations and, unless `absent`, its namespace. */
export async function createStage(namespace: 'there' | 'absent' = 'there'): Promise<Stage> {
  const clock = createFakeClock();
  const date = (): Date => new Date(START_DATE.getTime() + clock.now());
  const cluster = createDevCluster({ clock: date, call: () => Promise.reject(new Error('no webhook is called')) });
  if (namespace === 'there') await cluster.create('Namespace', { metadata: { name: NAMESPACE } }, TEST_MANAGER);
  for (const [kind, object] of CONFIGURATIONS) await cluster.create(kind, object, TEST_MANAGER);
  const running = new Set<RunningController>();
  const listeners: ((replica: StagedReplica) => void)[] = [];

  const idle = async (): Promise<void> => {
    for (let round = 0; round < 3; round++) await Promise.all([...running].map((one) => one.idle()));
  };
  const secret = (): Secret | undefined => cluster.store.get('Secret', SECRET, NAMESPACE);
  const run = (controller: Parameters<typeof startController>[0], options: Parameters<typeof startController>[1]) => {
    const one = startController(controller, options);
    running.add(one);
    return async (): Promise<void> => {
      running.delete(one);
      await one.stop();
    };
  };
  return {
    cluster,
    clock,
    date,
    secret,
    texts: () =>
      Object.fromEntries(Object.entries(secret()?.data ?? {}).map(([name, value]) => [name, decodeBundle(value)])),
    async setTexts(texts) {
      const data = Object.fromEntries(
        Object.entries(texts).map(([name, text]) => [name, Buffer.from(text).toString('base64')]),
      );
      const metadata = { name: SECRET, namespace: NAMESPACE };
      const known = secret();
      await (known
        ? cluster.update('Secret', { ...known, data }, TEST_MANAGER)
        : cluster.create('Secret', { metadata, type: 'Opaque', data }, TEST_MANAGER));
    },
    async askFor(rotation) {
      const known = draft(secret() ?? {});
      known.metadata = { ...known.metadata, annotations: { 'portcullis.dev/rotate': rotation } };
      await cluster.update('Secret', known, TEST_MANAGER);
    },
    trusted: () =>
      CONFIGURATION_KINDS.flatMap((kind) =>
        cluster.store
          .list(kind)
          .flatMap((one) =>
            getWebhooks(one).map(({ caBundle }) =>
              readCertificates(decodeBundle(caBundle)).map(printFingerprint).sort(),
            ),
          ),
      ),
    replica(name, lagMs = 0) {
      const view = lagging(cluster, clock, lagMs);
      const temporary = createServing(createAuthority({ now: date(), days: 1 }), NAMES, { now: date(), days: 1 });
      let pair = temporary;
      const served = {
        current: () => pair,
        isTemporary: () => pair === temporary,
        use(next: KeyPair) {
          pair = next;
          for (const call of listeners) call(staged);
        },
      };
      const recorder = createRecorder();
      let isDead = false;
      const seen: Cluster = {
        ...view.cluster,
        remove: (...args) =>
          isDead ? Promise.reject(new Error('the replica is stopped')) : view.cluster.remove(...args),
      };
      const controller = createController(replica, {
        service: SERVICE,
        settings: createTestSettings({ phase: 'Disabled' }),
        replica: { name: `portcullis-replica-${name}`, identity: `${name}_1`, startMs: START_DATE.getTime() },
        certificate: { served, names: NAMES, source: 'managed' },
        date,
        metrics: recorder.metrics,
      });
      const stop = run(controller, { ...recorder, cluster: seen, clock });
      const staged: StagedReplica = {
        name,
        metrics: recorder.metrics,
        current: () => pair,
        isReady: () =>
          findTrustProblems({
            pair,
            configurations: installedConfigurations(view.cluster.store),
            service: SERVICE,
            now: date(),
          }).length === 0,
        catchUp: view.catchUp,
        async die() {
          isDead = true;
          await stop();
          view.stop();
        },
        async leave() {
          await stop();
          view.stop();
        },
      };
      return staged;
    },
    leader(lagMs = 0) {
      const view = lagging(cluster, clock, lagMs);
      let left = Infinity;
      const recorder = createRecorder();
      const isAlive = (): boolean => left-- > 0;
      const writing = async <T>(write: () => Promise<T>): Promise<T> => {
        if (!isAlive()) throw new Error('the leader is stopped');
        return write();
      };
      const { cluster: seen } = view;
      const limited: Cluster = {
        ...seen,
        create: (kind, object, options) => writing(() => seen.create(kind, object, options)),
        update: (kind, object, options) => writing(() => seen.update(kind, object, options)),
        apply: (kind, object, options) => writing(() => seen.apply(kind, object, options)),
        remove: (kind, name, namespace) => writing(() => seen.remove(kind, name, namespace)),
      };
      const controller = createController(servingCertificate, {
        service: SERVICE,
        certificate: { served: UNUSED, names: NAMES, source: 'managed' },
        date,
        metrics: recorder.metrics,
      });
      const stop = run(controller, { ...recorder, cluster: limited, clock });
      return {
        ...recorder,
        catchUp: view.catchUp,
        dieAfter: (writes) => void (left = writes),
        isDead: () => left <= 0,
        async die() {
          left = 0;
          await stop();
          view.stop();
        },
      };
    },
    async pass(ms, stepMs = ms) {
      await idle();
      for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
        clock.advance(Math.min(stepMs, ms - passedMs));
        await idle();
      }
    },
    onServed: (call) => void listeners.push(call),
    async stop() {
      for (const one of running) await one.stop();
      cluster.stop();
    },
  };
}

function printFingerprint(cert: { readonly fingerprint256: string }): string {
  return cert.fingerprint256.replaceAll(':', '').toLowerCase();
}

const LAGGING: readonly Kind[] = ['Secret', ...CONFIGURATION_KINDS];

/** Creates a view of the cluster that delays Secrets and webhook configurations, except for its own writes. */
function lagging(
  cluster: DevCluster,
  clock: FakeClock,
  lagMs: number,
): { readonly cluster: Cluster; catchUp(): void; stop(): void } {
  if (lagMs === 0) return { cluster, catchUp: () => undefined, stop: () => undefined };
  const store = createStore();
  const isOlder = (kind: Kind, object: Kinds[Kind]): boolean => {
    const { name = '', namespace, uid, resourceVersion } = object.metadata ?? {};
    const known = store.get(kind, name, namespace)?.metadata;
    return known?.uid === uid && Number(known?.resourceVersion) > Number(resourceVersion);
  };
  const put = (kind: Kind, object: Kinds[Kind]): void => {
    if (!isOlder(kind, object)) store.put(kind, object);
  };
  const drop = (kind: Kind, { metadata: { name = '', namespace, uid } = {} }: Kinds[Kind]): void => {
    if (store.get(kind, name, namespace)?.metadata?.uid === uid) store.remove(kind, name, namespace);
  };
  for (const kind of ['Lease', ...LAGGING] as const) for (const object of cluster.store.list(kind)) put(kind, object);
  let waiting: (() => void)[] = [];
  const stop = cluster.store.subscribe(({ kind, type, object }) => {
    const applyChange = (): void => (type === 'put' ? put(kind, object) : drop(kind, object));
    if (!LAGGING.includes(kind)) {
      applyChange();
      return;
    }
    waiting.push(applyChange);
    clock.after(lagMs, () => {
      if (!waiting.includes(applyChange)) return;
      waiting = waiting.filter((one) => one !== applyChange);
      applyChange();
    });
  });
  const wrote = async <K extends Kind>(kind: K, written: Promise<Kinds[K]>): Promise<Kinds[K]> => {
    put(kind, await written);
    return written;
  };
  return {
    cluster: {
      ...cluster,
      store: store,
      create: (kind, object, options) => wrote(kind, cluster.create(kind, object, options)),
      update: (kind, object, options) => wrote(kind, cluster.update(kind, object, options)),
      apply: (kind, object, options) => wrote(kind, cluster.apply(kind, object, options)),
    },
    catchUp() {
      const due = waiting;
      waiting = [];
      for (const applyChange of due) applyChange();
    },
    stop,
  };
}
