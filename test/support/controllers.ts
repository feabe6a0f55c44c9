/** Support for controller tests, including clusters with the standard SCCs, settings, a fake clock, and log lines. */
import assert from 'node:assert/strict';
import { INSTALLATION } from '../../src/api/names.ts';
import { createAll } from '../../src/cli/serve/dev-cluster.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { createStore } from '../../src/cluster/store.ts';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import { createObservable, type Observable, type Settings } from '../../src/config/settings.ts';
import type { Controller, ControllerContext, ControllerDefinition } from '../../src/controllers/controller.ts';
import { createNamespaceEvaluations } from '../../src/controllers/evaluations.ts';
import { createController as createFromDefinition } from '../../src/controllers/index.ts';
import { followRemovedGrants } from '../../src/controllers/removed-grants.ts';
import { type RunningController, startController } from '../../src/controllers/runtime.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { CRDS } from '../../src/install/index.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION, type PodSecurityConfiguration } from '../../src/policy/psa/index.ts';
import type { Version } from '../../src/policy/pss/index.ts';
import { DEFAULT_ROLLOUT, type RolloutSettings } from '../../src/policy/rollout/index.ts';
import {
  type SccMode,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/index.ts';
import { DEFAULT_RANGES, type RangeSettings } from '../../src/policy/uid-range/index.ts';
import { WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { createFakeClock, type FakeClock } from './fake-clock.ts';
import { createRecorder, type Recorder } from './recorder.ts';

export { createRecorder, type Recorder };

/** Creates the missing CRDs of an installation in a cluster. */
export async function installCrds(cluster: DevCluster): Promise<void> {
  const missing = CRDS.filter(({ metadata }) => !cluster.storage.get(DEFINITION, '', metadata.name));
  await createAll(
    cluster,
    missing.map((value) => ({ value, origin: value.metadata.name })),
  );
}

/**
 * Creates the CRD for the settings without its validation rules, so a test can store settings that an earlier version
 * accepted.
 */
export async function installLaxSettings(cluster: DevCluster): Promise<void> {
  const [definition] = CRDS;
  assert.ok(definition);
  const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  const versions = definition.spec.versions.map((version) => ({ ...version, schema: { openAPIV3Schema } }));
  const value = { ...definition, spec: { ...definition.spec, versions } };
  await createAll(cluster, [{ value, origin: definition.metadata.name }]);
}

const DEFINITION = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };

/** Annotations of a namespace that has allocated ranges. */
export const RANGES = {
  'openshift.io/sa.scc.uid-range': '1000000000/10000',
  'openshift.io/sa.scc.supplemental-groups': '1000000000/10000',
  'openshift.io/sa.scc.mcs': 's0:c1,c0',
};

/** Creates the CRDs, the standard SCCs and their grants in a cluster. */
export async function installStandardSccs(cluster: DevCluster): Promise<void> {
  await installCrds(cluster);
  await cluster.idle();
  const by = { fieldManager: 'test' };
  for (const { scc } of STANDARD_SCCS) await cluster.create('SecurityContextConstraints', scc, by);
  for (const role of STANDARD_CLUSTER_ROLES) await cluster.create('ClusterRole', role, by);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) await cluster.create('ClusterRoleBinding', binding, by);
}

/** Settings for a test. Assigning a value notifies the subscribers. */
export interface TestSettings extends Observable<Settings> {
  rollout: RolloutSettings;
  sccMode: SccMode;
  disabledControllers: readonly string[];
}

export function createTestSettings(
  rollout: Partial<RolloutSettings>,
  exemptions = NO_EXEMPTIONS,
  ranges: RangeSettings = DEFAULT_RANGES,
): TestSettings {
  const defaults = createDefaultSettings({ controllers: [], namespace: INSTALLATION.namespace });
  const settings = createObservable<Settings>({
    ...defaults,
    podSecurity: createPodSecurity({ ...DEFAULT_CONFIGURATION, exemptions }),
    rollout: { ...DEFAULT_ROLLOUT, ...rollout },
    scc: { ...defaults.scc, mode: 'enforce', exemptNamespaces: [INSTALLATION.namespace] },
    ranges,
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
    get disabledControllers() {
      return settings.value.disabledControllers;
    },
    set disabledControllers(names) {
      settings.set({ ...settings.value, disabledControllers: names });
    },
    get sccMode() {
      return settings.value.scc.mode;
    },
    set sccMode(mode) {
      settings.set({ ...settings.value, scc: { ...settings.value.scc, mode } });
    },
  };
}

const NO_EXEMPTIONS: PodSecurityConfiguration['exemptions'] = { usernames: [], namespaces: [], runtimeClasses: [] };

const TEMPORARY: KeyPair = { cert: '', key: '' };

/** Creates a controller from the registry. */
export function createController(
  definition: ControllerDefinition,
  context: Partial<ControllerContext> = {},
): Controller {
  return createFromDefinition(definition, createContext(context));
}

/** Creates the controller context of a replica without a certificate. */
export function createContext(context: Partial<ControllerContext>): ControllerContext {
  const { namespace, name } = INSTALLATION;
  return {
    settings: createTestSettings({ phase: 'Enforce' }),
    service: { namespace, name },
    version: '0.0.0',
    apiServerVersion: createObservable<Version | undefined>('v1.36'),
    settingsStatus: () => ({}),
    initialSettings: {},
    replica: { name: 'portcullis-replica-test', identity: 'test', startMs: 0 },
    evaluations: createNamespaceEvaluations(),
    removedGrants: followRemovedGrants(createStore(), () => new Date()),
    certificate: {
      served: { current: () => TEMPORARY, isTemporary: () => true, use: () => undefined },
      names: { dnsNames: [], ipAddresses: [] },
      source: 'provided',
    },
    webhooks: { registrations: WEBHOOK_REGISTRATIONS, url: undefined, annotations: {} },
    features: { scc: true, kubelet: true, olm: true },
    metrics: createMetrics({ version: '0.0.0' }),
    date: () => new Date(),
    random: () => 0.5,
    ...context,
  };
}

export function withRanges(ranges: RangeSettings): TestSettings {
  return createTestSettings({}, NO_EXEMPTIONS, ranges);
}

export interface ControllerRun extends Recorder, RunningController {
  readonly clock: FakeClock;
  /** Advances the clock and completes the due work. */
  pass(ms: number): Promise<void>;
  /** Returns the error messages that were logged since the last call. */
  errors(): string[];
}

/** Starts controllers, which may trigger each other, with a fake clock. */
export function runControllers(controllers: readonly Controller[], cluster: Cluster): ControllerRun {
  const clock = createFakeClock();
  const recorder = createRecorder();
  const started = controllers.map((controller) => startController(controller, { ...recorder, cluster, clock }));
  const running: RunningController = {
    async idle() {
      for (let round = 0; round < started.length; round++) for (const { idle } of started) await idle();
    },
    async stop() {
      for (const { stop } of started) await stop();
    },
  };
  let reported = 0;
  return {
    ...recorder,
    ...running,
    clock,
    async pass(ms) {
      clock.advance(ms);
      await running.idle();
    },
    errors() {
      const fresh = recorder.log.slice(reported).filter(({ level }) => level === 50);
      reported = recorder.log.length;
      return fresh.map(({ err, reason, msg }) => (err as Error | undefined)?.message ?? String(reason ?? msg));
    },
  };
}

/** Starts a controller with a fake clock. */
export function runController(controller: Controller, cluster: Cluster): ControllerRun {
  return runControllers([controller], cluster);
}
