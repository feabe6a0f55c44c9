import { createHash } from 'node:crypto';
import {
  DEFAULTS_KINDS,
  DEFAULTS_POLICY,
  FLOOR_PREFIX,
  GUARD_POLICY,
  POLICY_KINDS,
} from '../api/admission-policies.ts';
import {
  CONFIGURATION_NAME,
  FEATURE_STATUS_CONTROLLERS,
  INITIAL_SETTINGS_ANNOTATION,
  OPTIONAL_FEATURES,
  type OptionalFeature,
  SETTINGS_EXISTED_ANNOTATION,
  SETTINGS_GENERATION_ANNOTATION,
} from '../api/names.ts';
import { ignoreNotFound } from '../cluster/client.ts';
import type { Store } from '../cluster/store.ts';
import { listSettings, settingOwners, SETTINGS_MANAGER, withSetting } from '../config/setting-paths.ts';
import type { Settings } from '../config/settings.ts';
import { type ConditionState, READY_TYPES, readyConditions, withTransitionTimes } from '../kube/conditions.ts';
import { defined } from '../kube/defined.ts';
import { deepEqual } from '../kube/equality.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../kube/psa-enforcement-config.ts';
import { ApiError } from '../kube/status.ts';
import { type JsonObject, type Lease, type PortcullisConfiguration, valueAt } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import { findPendingPhase } from '../policy/rollout/index.ts';
import type { Service } from '../tls/index.ts';
import { registeredMode } from '../views/scc-mode.ts';
import { admissionPolicies, createPolicyStates, POLICIES_OFF } from './admission-policies.ts';
import { isBreakGlassOn, watchBreakGlass } from './break-glass.ts';
import { configObserver } from './config-observer.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  createStateAge,
  isDisabled,
  OBSERVED_MS,
  type ReconcileContext,
  type Reconciler,
  watch,
  watchValue,
} from './controller.ts';
import { rbacRule, statusRule } from './permissions.ts';
import { readiness } from './readiness.ts';
import { createReplicaObserver, isReplicaLease } from './replica-leases.ts';

const KIND = 'PortcullisConfiguration';
const OPTIONS = { fieldManager: SETTINGS_MANAGER };
/**
 * Options for restoring the settings. They use a separate field manager, because `SETTINGS_MANAGER` would later remove
 * all settings except the initial settings.
 */
const RESTORE = { fieldManager: 'portcullis-restored-settings' };

export const settingsStatus: ControllerDefinition = {
  name: SETTINGS_MANAGER,
  description: 'creates the PortcullisConfiguration, and reports in its status which replicas have applied it',
  runsOn: 'leader',
  permissions: [
    {
      role: 'settings-status',
      // Applying a missing object with server-side apply requires create permission for its name.
      clusterRules: [rbacRule(['create', 'patch'], [KIND], [CONFIGURATION_NAME]), statusRule(['patch'], KIND)],
    },
  ],
  isEnabled: ({ settingsObject }) => settingsObject,
  create: createReconciler,
};

type Status = NonNullable<PortcullisConfiguration['status']>;

/** Interval at which stopped replicas are detected. */
const CHECK = { requeueAfterMs: 30_000 };
/** Interval for checking whether API servers have observed the policies. */
const CHECK_POLICIES = { requeueAfterMs: 1_000 };

function createReconciler(controllerContext: ControllerContext): Reconciler {
  const { settings, settingsStatus, service, date, features, webhooks, initialSettings: spec } = controllerContext;
  const observeReplicas = createReplicaObserver();
  const findUnobserved = createPolicyObserver(controllerContext);
  const digest = createHash('sha256').update(JSON.stringify(spec)).digest('hex').slice(0, 16);
  const describeObject = (object: PortcullisConfiguration, { cluster, now }: ReconcileContext) => {
    const generation = object.metadata?.generation ?? 0;
    const replicas = listReplicas(observeReplicas(cluster.store.list('Lease', service.namespace), now()));
    const [feature] = OPTIONAL_FEATURES.filter((name) => !features[name] && object.spec?.[name] != null);
    const missing = feature && { feature, hint: describeInstall(feature, features, webhooks.url) };
    const facts = { generation, missing, replicas, overridden: findOverridden(spec, object) };
    const states = describe(facts, settingsStatus());
    const unobserved = findUnobserved(object, cluster, now());
    const ready = describeReady(states, { settings: settings.value, store: cluster.store, unobserved });
    return { generation, replicas, states: [...states, ...ready], unobserved };
  };
  return {
    initialKeys: [CONFIGURATION_NAME],
    sources: [
      watch(KIND, ({ metadata }) => (metadata?.name === CONFIGURATION_NAME ? [CONFIGURATION_NAME] : [])),
      watch('Lease', (lease) => (isReplicaLease(lease) ? [CONFIGURATION_NAME] : [])),
      watch('PSAEnforcementConfig', () => [CONFIGURATION_NAME]),
      ...[...POLICY_KINDS, ...DEFAULTS_KINDS].map((kind) =>
        watch(kind, ({ metadata }) => (isMaintained(metadata?.name) ? [CONFIGURATION_NAME] : [])),
      ),
      ...watchBreakGlass([CONFIGURATION_NAME]),
      watchValue(settings, () => [CONFIGURATION_NAME]),
    ],
    async reconcile(name, context) {
      const { cluster } = context;
      const object = cluster.store.get(KIND, name);
      // Unchanged initial settings are not applied again, because this would restore fields that other clients have
      // removed since then.
      const isApplied = object?.metadata?.annotations?.[INITIAL_SETTINGS_ANNOTATION] === digest;
      const lost = object ? undefined : lostSpec(settingsStatus());
      if (lost) await restore(lost, context);
      else if (!isApplied) await applyInitial(spec, digest, context);
      if (!object) return CHECK;
      await recordExistence(service, context);
      await removeFeatureStatus(object, features, context);
      const { generation, replicas, states, unobserved } = describeObject(object, context);
      const time = formatTimestamp(date().getTime());
      const status: Status = {
        observedGeneration: generation,
        ...findApplied(object, settingsStatus()),
        ...(features.scc ? { sccMode: settings.value.scc.mode } : {}),
        rolloutPhase: settings.value.rollout.phase,
        conditions: withTransitionTimes(states, object.status?.conditions, time),
        replicas,
      };
      if (!deepEqual(status, ownStatus(object, states))) {
        await cluster.applyStatus(KIND, { metadata: { name }, status }, { ...OPTIONS, force: true });
      }
      return unobserved === undefined ? CHECK : CHECK_POLICIES;
    },
  };
}

function isMaintained(name = ''): boolean {
  return name === GUARD_POLICY || name === DEFAULTS_POLICY || name.startsWith(FLOOR_PREFIX);
}

/**
 * Creates a function that returns the first setting whose policies some API servers may not have observed yet. A new
 * leader relies on the Ready condition that the previous leader reported.
 */
function createPolicyObserver(context: ControllerContext) {
  const getStates = createPolicyStates(context);
  const ages = new Map<string, ReturnType<typeof createStateAge>>();
  return (
    { metadata, status }: PortcullisConfiguration,
    cluster: ReconcileContext['cluster'],
    nowMs: number,
  ): string | undefined => {
    if (isDisabled(admissionPolicies, context.settings.value.disabledControllers)) return undefined;
    const wasReady = status?.conditions?.some(
      ({ type, status: value, observedGeneration }) =>
        type === 'Ready' && value === 'True' && observedGeneration === metadata?.generation,
    );
    const unobserved = getStates(cluster).filter(([setting, state]) => {
      const known = ages.get(setting);
      const age = known ?? createStateAge();
      ages.set(setting, age);
      const isKnown = known === undefined && (state === POLICIES_OFF || wasReady === true);
      age(state, isKnown ? -Infinity : nowMs);
      return (age(state, nowMs) ?? 0) < OBSERVED_MS;
    });
    return unobserved[0]?.[0];
  };
}

/**
 * Removes the status of features that are neither installed nor configured, because their controllers no longer run.
 * Applying an empty object removes the fields that only the field manager owns.
 */
async function removeFeatureStatus(
  { metadata, spec }: PortcullisConfiguration,
  features: ControllerContext['features'],
  { cluster }: ReconcileContext,
): Promise<void> {
  for (const feature of OPTIONAL_FEATURES) {
    if (features[feature] || spec?.[feature] != null) continue;
    for (const fieldManager of FEATURE_STATUS_CONTROLLERS[feature]) {
      const isOwner = metadata?.managedFields?.some(
        ({ manager, subresource }) => manager === fieldManager && subresource === 'status',
      );
      if (isOwner !== true) continue;
      await cluster.applyStatus(KIND, { metadata: { name: CONFIGURATION_NAME } }, { fieldManager });
    }
  }
}

/** Returns the settings in force if their object was deleted without confirmation. */
function lostSpec({ problem, generation, spec }: ReturnType<ControllerContext['settingsStatus']>) {
  return problem !== undefined && generation !== undefined ? spec : undefined;
}

/** Creates the object again with the settings in force. */
async function restore(spec: JsonObject, { cluster, logger, recordEvent }: ReconcileContext): Promise<void> {
  // A 404 is ignored, because API servers return it until the CRD is installed.
  const object = await ignoreNotFound(cluster.apply(KIND, { metadata: { name: CONFIGURATION_NAME }, spec }, RESTORE));
  if (!object) return;
  const message = 'the object was deleted without confirmation, and the leader restored the settings in force';
  logger.warn(message);
  recordEvent(KIND, object, { type: 'Warning', reason: 'SettingsRestored', action: 'Restore', message });
}

/**
 * Records in the leader election Lease that the object has existed. A replica that starts without the object then waits
 * for the object instead of applying the initial settings.
 */
async function recordExistence({ name, namespace }: Service, { cluster }: ReconcileContext): Promise<void> {
  const isRecorded = (lease: Lease): boolean => lease.metadata?.annotations?.[SETTINGS_EXISTED_ANNOTATION] === 'true';
  const known = cluster.store.get('Lease', name, namespace);
  if (!known || isRecorded(known)) return;
  const lease = await cluster.get('Lease', name, namespace);
  const annotations = { ...lease.metadata?.annotations, [SETTINGS_EXISTED_ANNOTATION]: 'true' };
  await cluster.update('Lease', { ...lease, metadata: { ...lease.metadata, annotations } }, OPTIONS);
}

/** Creates the object, or applies changed initial settings, except for fields that other clients have changed. */
async function applyInitial(spec: JsonObject, digest: string, { cluster, logger }: ReconcileContext): Promise<void> {
  const metadata = { name: CONFIGURATION_NAME, annotations: { [INITIAL_SETTINGS_ANNOTATION]: digest } };
  try {
    // A 404 is ignored, because API servers return it until the CRD is installed.
    await ignoreNotFound(cluster.apply(KIND, { metadata, spec }, OPTIONS));
  } catch (error) {
    const conflicts = conflictingFields(error);
    if (conflicts.length === 0) throw error;
    await cluster.apply(KIND, { metadata, spec: withoutFields(spec, conflicts) }, OPTIONS);
    logger.warn({ fields: conflicts }, 'initial settings not applied: other clients have changed these fields');
  }
}

/** Returns the generation that each live replica applies, or 0 for a replica that has not reported a generation yet. */
function listReplicas(observed: ReturnType<ReturnType<typeof createReplicaObserver>>): NonNullable<Status['replicas']> {
  return observed
    .filter(({ isLive }) => isLive)
    .map(({ lease, name }) => ({
      name,
      generation: Number(lease.metadata?.annotations?.[SETTINGS_GENERATION_ANNOTATION] ?? 0),
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Returns the part of the status that this controller owns. Other controllers own the other fields and conditions. */
function ownStatus({ status = {} }: PortcullisConfiguration, states: readonly ConditionState[]): object {
  const { observedGeneration, applied, sccMode, rolloutPhase, replicas, conditions = [] } = status;
  const types = [...READY_TYPES, ...states.map(({ type }) => type)];
  const own = conditions.filter(({ type }) => types.includes(type));
  return {
    observedGeneration,
    ...(applied ? { applied } : {}),
    ...defined({ sccMode }),
    rolloutPhase,
    conditions: own,
    replicas,
  };
}

/** Records the settings in force, which replicas use at startup while the object is invalid. */
function findApplied(
  object: PortcullisConfiguration,
  { generation = 0, spec }: ReturnType<ControllerContext['settingsStatus']>,
): Pick<Status, 'applied'> {
  const applied = spec ? { generation, spec } : object.status?.applied;
  return applied ? { applied } : {};
}

/** Returns the conflicting fields of a server-side apply, which other field managers own, such as `.spec.scc.mode`. */
function conflictingFields(error: unknown): readonly string[] {
  if (!(error instanceof ApiError) || error.status.code !== 409) return [];
  return error.status.details?.causes?.flatMap(({ field }) => field ?? []) ?? [];
}

function withoutFields(spec: JsonObject, fields: readonly string[]): JsonObject {
  const contains = (outer: string, inner: string): boolean => `${inner}.`.startsWith(`${outer}.`);
  const settings = listSettings(spec).filter(({ path }) => {
    const own = `.spec.${path.join('.')}`;
    return !fields.some((field) => contains(field, own) || contains(own, field));
  });
  return settings.reduce(withSetting, {});
}

/** Returns the initial settings that other clients have changed, along with their field managers. */
function findOverridden(spec: JsonObject, object: PortcullisConfiguration): readonly string[] {
  return listSettings(spec).flatMap(({ path, value }) => {
    const owners = settingOwners(object, path);
    const isOverridden = owners.length > 0 && !deepEqual(valueAt(object.spec, path), value);
    return isOverridden ? [`spec.${path.join('.')} (${owners.join(', ')})`] : [];
  });
}

interface Facts {
  readonly generation: number;
  readonly replicas: NonNullable<Status['replicas']>;
  /** A feature that the settings configure but that is not installed, and the options that install it. */
  readonly missing: { readonly feature: OptionalFeature; readonly hint: string } | undefined;
  /** Initial settings that other clients have changed. */
  readonly overridden: readonly string[];
}

/** Returns the conditions that report whether a generation is valid, and whether all replicas have applied it. */
function describe(facts: Facts, status: ReturnType<ControllerContext['settingsStatus']>): readonly ConditionState[] {
  const { generation: observedGeneration } = facts;
  const { generation = 0, problem } = status;
  const accepted: ConditionState =
    generation === observedGeneration || problem === undefined
      ? { type: 'Accepted', status: 'True', reason: 'Valid', message: 'the settings are valid', observedGeneration }
      : { type: 'Accepted', status: 'False', reason: 'Invalid', message: problem, observedGeneration };
  const obstacle = findObstacle(facts, generation);
  const state = obstacle ?? describeInForce(facts.overridden);
  return [accepted, { type: 'Applied', status: obstacle ? 'False' : 'True', ...state, observedGeneration }];
}

type Explanation = Pick<ConditionState, 'reason' | 'message'>;

function describeInForce(overridden: readonly string[]): Explanation {
  const message = 'all replicas have applied these settings';
  if (overridden.length === 0) return { reason: 'InForce', message };
  const list = overridden.join(', ');
  return {
    reason: 'InitialSettingsOverridden',
    message: `${message}; other clients have changed these initial settings of the Deployment: ${list}`,
  };
}

/** Returns the explanation for `Applied=False`, if any. `applied` is the generation that the leader has applied. */
function findObstacle({ generation, replicas, missing }: Facts, applied: number): Explanation | undefined {
  if (applied !== generation) {
    const inForce = applied === 0 ? 'the default settings' : `the settings of generation ${applied}`;
    return { reason: 'NotInForce', message: `the leader applies ${inForce}` };
  }
  const behind = replicas.filter((replica) => replica.generation !== generation).map(({ name }) => name);
  if (behind.length > 0) {
    const message = `these replicas have not applied the settings yet: ${behind.join(', ')}`;
    return { reason: 'Progressing', message };
  }
  if (missing === undefined) return undefined;
  const { feature, hint } = missing;
  const message = `spec.${feature} has no effect, because the ${feature} feature is not installed: set spec.${feature} to null, or install the feature with portcullis install ${hint}`;
  return { reason: 'FeatureNotInstalled', message };
}

/**
 * Returns the options that install a feature. Replicas outside the cluster have a URL, and must be restarted by hand.
 */
function describeInstall(added: OptionalFeature, features: ControllerContext['features'], url: string | undefined) {
  if (url === undefined) return `--${added}`;
  const all = OPTIONAL_FEATURES.filter((feature) => features[feature] || feature === added);
  const options = ['--profile=local', ...all.map((feature) => `--${feature}`)].join(' ');
  return `${options}, and restart the replicas with ${added} in --features`;
}

/**
 * Returns the conditions that report whether all replicas and API servers enforce the settings, and whether the rollout
 * has reached the requested phase.
 */
function describeReady(
  states: readonly ConditionState[],
  { settings, store, unobserved }: { settings: Settings; store: Store; unobserved: string | undefined },
): readonly ConditionState[] {
  const { scc, rollout, disabledControllers } = settings;
  const failed = states.find(({ status }) => status === 'False');
  const observed = defined({ observedGeneration: states[0]?.observedGeneration });
  const pending = (reason: string, message: string) => readyConditions('reconciling', { reason, message, ...observed });
  if (failed) {
    const { reason, message } = failed;
    const isStalled = reason === 'Invalid' || reason === 'FeatureNotInstalled';
    return readyConditions(isStalled ? 'stalled' : 'reconciling', { reason, message, ...observed });
  }
  if (isBreakGlassOn(store)) {
    const message = 'break-glass is on, so nothing is enforced. To turn it off: portcullis break-glass off';
    return readyConditions('stalled', { reason: 'BreakGlass', message, ...observed });
  }
  if (scc.mode === 'enforce' && registeredMode(store) !== 'enforce') {
    return pending('WebhookNotRegistered', 'SCCs are enforced once API servers call the webhook that defaults pods');
  }
  if (unobserved !== undefined) {
    return pending('PoliciesNotObserved', `API servers have not observed the policies of ${unobserved} yet`);
  }
  const hasRollout = ![configObserver, readiness].some((controller) => isDisabled(controller, disabledControllers));
  if (rollout.phase !== 'Disabled' && hasRollout) {
    const conditions = store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG)?.status?.conditions ?? [];
    const phase = findPendingPhase(conditions, rollout.phase);
    if (phase) return pending('RolloutProgressing', phase.message);
  }
  return readyConditions('ready', { reason: 'InForce', message: 'all replicas enforce these settings', ...observed });
}
