/** What tests of controllers share: a cluster that serves SCCs and ranges, what is logged, and time that stands still. */
import { Writable } from 'node:stream';
import { pino, type Logger } from 'pino';
import { createAll } from '../../src/cli/serve/dev-cluster.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import type { Store } from '../../src/cluster/store.ts';
import { createObservable, type Observable, type Settings } from '../../src/config/settings.ts';
import type { Controller, ControllerContext, ControllerDefinition } from '../../src/controllers/controller.ts';
import { createControllers } from '../../src/controllers/index.ts';
import { DEFINITIONS } from '../../src/install/index.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/standard.ts';
import { startController, type RunningController } from '../../src/controllers/runtime.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { INSTALLATION } from '../../src/kube/well-known.ts';
import { DEFAULT_CONFIGURATION, type PodSecurityConfiguration } from '../../src/policy/psa/configuration.ts';
import { createPodSecurity } from '../../src/policy/psa/configuration.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/settings.ts';
import { DEFAULT_RANGES } from '../../src/policy/uid-range/ranges.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';

/** Lets the cluster serve the kinds of our own that it does not serve yet. */
export async function installCrds(cluster: DevCluster): Promise<void> {
  const missing = DEFINITIONS.filter(({ metadata }) => !cluster.storage.get(DEFINITION, '', metadata.name));
  await createAll(
    cluster,
    missing.map((value) => ({ value, origin: value.metadata.name })),
  );
}

const DEFINITION = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };

/** Gives the cluster the SCCs that ship with the platform, and the grants of their use. */
export async function installStandardSccs(cluster: DevCluster): Promise<void> {
  const by = { fieldManager: 'test' };
  for (const { scc } of STANDARD_SCCS) await cluster.create('SecurityContextConstraints', scc, by);
  for (const role of STANDARD_CLUSTER_ROLES) await cluster.create('ClusterRole', role, by);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) await cluster.create('ClusterRoleBinding', binding, by);
}

export interface Recorder {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** What was logged, line by line. */
  readonly log: Record<string, unknown>[];
}

export function createRecorder(): Recorder {
  const log: Record<string, unknown>[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  return { logger: pino({ base: null, level: 'debug' }, sink), metrics: createMetrics({ version: '0.0.0' }), log };
}

/** The settings of a test. Assigning `rollout` notifies the subscribers. */
export interface TestSettings extends Observable<Settings> {
  rollout: RolloutSettings;
}

export function createTestSettings(rollout: Partial<RolloutSettings>, exemptions = NO_EXEMPTIONS): TestSettings {
  const settings = createObservable<Settings>({
    podSecurity: createPodSecurity({ ...DEFAULT_CONFIGURATION, exemptions }),
    rollout: { ...DEFAULT_ROLLOUT, ...rollout },
    scc: {
      mode: 'enforce',
      exemptNamespaces: [INSTALLATION.namespace],
      compatibility: {},
      preferUserNamespaces: false,
    },
  });
  return {
    get value() {
      return settings.value;
    },
    subscribe: (listener) => settings.subscribe(listener),
    get rollout() {
      return settings.value.rollout;
    },
    set rollout(next) {
      settings.set({ ...settings.value, rollout: next });
    },
  };
}

const NO_EXEMPTIONS: PodSecurityConfiguration['exemptions'] = { usernames: [], namespaces: [], runtimeClasses: [] };

const TEMPORARY: KeyPair = { cert: '', key: '' };

/** Creates a controller of the registry. */
export function createController(
  definition: ControllerDefinition,
  context: Partial<ControllerContext> = {},
): Controller {
  const { namespace, name } = INSTALLATION;
  const [controller] = createControllers([definition], {
    settings: createTestSettings({ phase: 'Enforce' }),
    service: { namespace, name },
    version: '0.0.0',
    ranges: DEFAULT_RANGES,
    replica: { name: 'portcullis-replica-test', identity: 'test' },
    certificate: {
      served: { current: () => TEMPORARY, isTemporary: () => true, use: () => undefined },
      names: { dnsNames: [], ipAddresses: [] },
      source: 'provided',
    },
    metrics: createMetrics({ version: '0.0.0' }),
    date: () => new Date(),
    random: () => 0.5,
    ...context,
  });
  if (!controller) throw new Error('no controller was created');
  return controller;
}

export interface ControllerRun extends Recorder, RunningController {
  readonly clock: FakeClock;
  /** Lets time pass until what became due is done. */
  pass(ms: number): Promise<void>;
  /** Errors that were logged, as texts, since the last time. */
  errors(): string[];
}

/** Starts a controller whose clock stands still. */
export function runController(controller: Controller, cluster: DevCluster): ControllerRun {
  const clock = createFakeClock();
  const recorder = createRecorder();
  const running = startController(controller, { ...recorder, cluster, clock });
  let told = 0;
  return {
    ...recorder,
    ...running,
    clock,
    async pass(ms) {
      clock.advance(ms);
      await running.idle();
    },
    errors() {
      const fresh = recorder.log.slice(told).filter(({ level }) => level === 50);
      told = recorder.log.length;
      return fresh.map(({ err, reason, msg }) => (err as Error | undefined)?.message ?? String(reason ?? msg));
    },
  };
}

/** Waits until the store holds what is looked for. Rejects after a while. */
export async function eventually<T>(store: Store, look: () => T | undefined, timeoutMs = 20_000): Promise<T> {
  const found = look();
  if (found !== undefined) return found;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      unsubscribe();
      reject(new Error(`not within ${timeoutMs} ms: ${look.toString()}`));
    }, timeoutMs);
    const unsubscribe = store.subscribe(() => {
      const later = look();
      if (later === undefined) return;
      clearTimeout(timer);
      unsubscribe();
      resolve(later);
    });
  });
}
