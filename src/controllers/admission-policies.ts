/**
 * Manages the policies that API servers evaluate even while no replica responds. They consist of the floor, whose
 * ValidatingAdmissionPolicies make the same decisions as the webhooks, the MutatingAdmissionPolicy that defaults pods,
 * and the ValidatingAdmissionPolicy that guards the labels of namespaces.
 */
import { createHash } from 'node:crypto';
import type { V1LabelSelectorRequirement } from '@kubernetes/client-node';
import {
  type AdmissionPolicy,
  DEFAULTS_KINDS,
  DEFAULTS_POLICY,
  type DefaultsKind,
  FLOOR_ANNOTATION,
  FLOOR_POLICIES,
  FLOOR_PREFIX,
  GUARD_POLICY,
  POLICY_KINDS,
  type PolicyKind,
} from '../api/admission-policies.ts';
import { CONFIGURATION_NAME, FLOOR_LABELS, INSTALLATION } from '../api/names.ts';
import { CONFIGURATION_KINDS, CONFIGURATION_NAMES, DEFAULTS_PREFIX } from '../api/webhooks.ts';
import type { Store } from '../cluster/store.ts';
import { deepEqual } from '../kube/equality.ts';
import type { Kinds } from '../kube/kinds.ts';
import type { Wire } from '../kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../kube/well-known.ts';
import {
  generateDefaultsPolicy,
  generateGuardPolicy,
  generatePolicies,
  MIN_POLICY_MINOR,
  type PodSecurity,
  type PolicyObject,
  renamePolicy,
} from '../policy/psa/index.ts';
import { minorVersion, type Version } from '../policy/pss/index.ts';
import { effectivePodSecurity, ROLLOUT_KINDS } from '../views/rollout.ts';
import { isBreakGlassOn, listFloorPolicies, watchBreakGlass } from './break-glass.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  createStateAge,
  OBSERVED_MS,
  type ReconcileContext,
  type Reconciler,
  watch,
  watchValue,
  withOwner,
} from './controller.ts';
import { rbacRule } from './permissions.ts';
import { isReplicaLease } from './replica-leases.ts';

const NAME = 'admission-policy-controller';
const OPTIONS = { fieldManager: NAME };

export const admissionPolicies: ControllerDefinition = {
  name: NAME,
  description:
    'manages the policies for the floor, the guard and pod defaults. API servers evaluate them even while no replica responds',
  runsOn: 'leader',
  permissions: [
    {
      role: 'admission-policies',
      clusterRules: [
        // The rules contain names, because admission policies cannot restrict writes to other admission policies. With
        // server-side apply, a role that permits only certain names can also create the objects.
        ...POLICY_KINDS.map((kind) =>
          rbacRule(['create', 'patch', 'update', 'delete'], [kind], [...FLOOR_POLICIES[kind], GUARD_POLICY]),
        ),
        rbacRule(['delete'], DEFAULTS_KINDS, [DEFAULTS_POLICY]),
        rbacRule(['get'], ['ClusterRole'], [INSTALLATION.policyRole]),
      ],
    },
    {
      // The role is optional, because permission to write a MutatingAdmissionPolicy amounts to permission to change any
      // object. Without the role, the webhook defaults pods.
      role: 'admission-policies-defaults',
      clusterRules: [rbacRule(['create', 'patch', 'update'], DEFAULTS_KINDS, [DEFAULTS_POLICY])],
      isNeeded: ({ podDefaults }) => podDefaults,
    },
  ],
  // The controller is always enabled, so policies that the settings no longer require are deleted even after a restart.
  isEnabled: () => true,
  create: createReconciler,
};

/**
 * Time without a renewal of the leader's Lease after which other replicas act. The leader renews it every 2 seconds.
 */
const STANDBY_MS = 5_000;

/**
 * Recreates deleted policies after the leader has failed, without waiting for its Lease to expire. Several
 * replicas may create the same policy concurrently, because applying identical content changes nothing.
 */
export const admissionPolicyStandby: ControllerDefinition = {
  name: 'admission-policy-standby',
  description: `creates missing floor policies while the leader has not renewed its Lease for ${STANDBY_MS / 1000} s`,
  runsOn: 'replica',
  disabledWith: NAME,
  permissions: [],
  isEnabled: ({ replicas }) => replicas,
  create: createStandbyReconciler,
};

interface FloorInput {
  /** The Pod Security settings, including the defaults of the rollout. */
  readonly podSecurity: PodSecurity;
  /** The version to which `latest` refers in reviews. */
  readonly emulationVersion: Version;
  readonly serverVersion: Version;
  /** Installation namespace. */
  readonly namespace: string;
}

/** Returns the floor policies with the API server's defaults, each followed by its bindings. */
export function requiredPolicies(input: FloorInput): readonly PolicyObject[] {
  const { podSecurity, emulationVersion, serverVersion, namespace } = input;
  const options = { modes: 'enforce', kubernetesMinor: minorVersion(serverVersion) } as const;
  const policies = generatePolicies({ podSecurity, emulationVersion }, options);
  return policies.map((object) => toFloorPolicy(object, namespace));
}

type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * Turns a generated object into a floor object by renaming it. Floor policies, like the webhooks, exclude the
 * installation namespace.
 */
function toFloorPolicy(object: PolicyObject, installation: string): PolicyObject {
  const { metadata, spec, ...renamed } = renamePolicy(object, (name) => `${FLOOR_PREFIX}${name}`);
  return {
    ...renamed,
    metadata: { ...metadata, labels: FLOOR_LABELS },
    spec: renamed.kind === 'ValidatingAdmissionPolicy' ? excludeNamespace(spec, installation) : spec,
  };
}

type Spec = PolicyObject['spec'];

function excludeNamespace(spec: Spec, name: string): Spec {
  const { namespaceSelector, ...constraints } = spec['matchConstraints'] as {
    readonly namespaceSelector?: { readonly matchExpressions?: readonly Requirement[] };
  };
  const other: Requirement = { key: NAMESPACE_NAME_LABEL, operator: 'NotIn', values: [name] };
  const matchExpressions = [...(namespaceSelector?.matchExpressions ?? []), other];
  return { ...spec, matchConstraints: { ...constraints, namespaceSelector: { matchExpressions } } };
}

type RequirementContext = Pick<ControllerContext, 'settings' | 'service' | 'version' | 'apiServerVersion'>;

/**
 * Creates a function that returns the floor policies that the settings require. It returns none if the floor is off,
 * the installation namespace is missing, or the API server is too old, and `undefined` while the API server's version
 * is unknown.
 */
function createFloorRequirements({ settings, service, version, apiServerVersion }: RequirementContext) {
  let cached: { readonly key: unknown; readonly policies: readonly PolicyObject[] } | undefined;
  return (store: Store): readonly PolicyObject[] | undefined => {
    const { namespace } = service;
    const { floor, emulationVersion } = settings.value;
    if (floor.mode === 'off' || !isRunning(store, namespace)) return [];
    const serverVersion = apiServerVersion.value;
    if (serverVersion === undefined) return undefined;
    if (isTooOld(serverVersion)) return [];
    const input: FloorInput = {
      podSecurity: effectivePodSecurity({ store, namespace, version }, settings.value),
      emulationVersion: emulationVersion ?? serverVersion,
      serverVersion,
      namespace,
    };
    // Compares only the configuration, because during a rollout the other fields differ on each call.
    const key = { ...input, podSecurity: input.podSecurity.configuration };
    if (!deepEqual(cached?.key, key)) cached = { key, policies: requiredPolicies(input) };
    return cached?.policies;
  };
}

// State of the policies in the cluster

/**
 * Creates a function that returns a digest of the floor policies, which changes when one of them is recreated or
 * modified. It returns `undefined` unless the settings require policies and all of them are current.
 */
export function createFloorState(context: RequirementContext) {
  const getRequired = createFloorRequirements(context);
  return (store: Store): string | undefined => {
    const required = getRequired(store) ?? [];
    return required.length === 0 ? undefined : digestCurrent(required, store);
  };
}

/** Returns a digest of the policies in the cluster, or `undefined` if one of them is missing or different. */
function digestCurrent(required: readonly MaintainedPolicy[], store: Store): string | undefined {
  const versions = required.flatMap((policy) => {
    const current = store.get(policy.kind, policy.metadata.name);
    return isCurrent(policy, current) ? [`${current.metadata?.uid} ${current.metadata?.generation}`] : [];
  });
  if (versions.length < required.length) return undefined;
  return createHash('sha256').update(versions.join()).digest('hex').slice(0, 16);
}

type SettingsContext = Pick<ControllerContext, 'settings' | 'service' | 'version'>;

/** Returns the guard policy and its binding that the settings require. */
function requiredGuard(
  { settings: { value }, service, version }: SettingsContext,
  store: Store,
): readonly PolicyObject[] {
  if (value.guard.labels === 'off' || !isRunning(store, service.namespace)) return [];
  const podSecurity = effectivePodSecurity({ store, ...service, version }, value);
  return generateGuardPolicy({ ...value, podSecurity }, GUARD_POLICY);
}

/** Returns the policy that defaults pods and its binding, or `undefined` if API servers do not serve them. */
function requiredDefaults(
  { settings: { value }, service }: SettingsContext,
  { store, serves }: Pick<ReconcileContext['cluster'], 'store' | 'serves'>,
): readonly MaintainedPolicy[] | undefined {
  if (value.defaults.mode === 'off' || !isRunning(store, service.namespace)) return [];
  return DEFAULTS_KINDS.every(serves) ? generateDefaultsPolicy(value, DEFAULTS_POLICY) : undefined;
}

/** State of policies that are off and do not exist. */
export const POLICIES_OFF = 'off';

/**
 * Creates a function that returns the state of the policies for each setting. The state is `undefined` while the
 * policies differ from the setting. A webhook can replace the policy that defaults pods.
 */
export function createPolicyStates(context: ControllerContext) {
  const getFloor = createFloorRequirements(context);
  return (cluster: ReconcileContext['cluster']): readonly (readonly [setting: string, state: string | undefined])[] => {
    const { store } = cluster;
    const exists = (kinds: readonly (PolicyKind | DefaultsKind)[], name: string): boolean =>
      kinds.some((kind) => store.get(kind, name) !== undefined);
    const state = (required: readonly MaintainedPolicy[], isPresent: boolean): string | undefined => {
      if (required.length > 0) return digestCurrent(required, store);
      return isPresent ? undefined : POLICIES_OFF;
    };
    const floor = getFloor(store);
    const defaults = requiredDefaults(context, cluster);
    const hasDefaults = exists(DEFAULTS_KINDS, DEFAULTS_POLICY);
    const webhook = !hasDefaults && hasDefaultsWebhook(store) ? 'webhook' : undefined;
    return [
      // The floor is omitted until the replica has read the version of the API server.
      ...(floor ? [['spec.floor', state(floor, listFloorPolicies(store).length > 0)] as const] : []),
      ['spec.defaults', (defaults && state(defaults, hasDefaults)) ?? webhook],
      ['spec.guard', state(requiredGuard(context, store), exists(POLICY_KINDS, GUARD_POLICY))],
    ];
  };
}

/** Returns true if API servers call the webhook that defaults pods. */
export function hasDefaultsWebhook(store: Store): boolean {
  const kind = 'MutatingWebhookConfiguration';
  const { webhooks = [] } = store.get(kind, CONFIGURATION_NAMES[kind]) ?? {};
  return webhooks.some(({ name }) => name.startsWith(DEFAULTS_PREFIX));
}

/** Returns true if the object in the cluster matches the required object. */
function isCurrent<T extends AdmissionPolicy | Kinds[DefaultsKind]>(
  { spec }: Pick<MaintainedPolicy, 'spec'>,
  current: T | undefined,
): current is T {
  return current?.metadata?.deletionTimestamp == null && deepEqual(current?.spec, spec);
}

/** Keys for the floor policies, for the policy that defaults pods, and for the policy that guards labels. */
const ALL = '*';
const DEFAULTS = 'defaults';
const GUARD = 'guard';
const KEYS = [ALL, DEFAULTS, GUARD] as const;
const MAX_RETRY_MS = 30_000;
/** Interval for checking whether the API server serves MutatingAdmissionPolicies. */
const CHECK_AGAIN = { requeueAfterMs: 30_000 };

/**
 * Maximum time for which policies remain after the floor is turned off, while webhooks still depend on them. The limit
 * ensures that turning off the floor ends an outage in which no replica can change the webhooks.
 */
const MAX_REMAINING_MS = 30_000;

/**
 * Creates, corrects and deletes the policies. While break-glass is on, only deletes policies, and only if none are
 * required.
 */
function createReconciler(context: ControllerContext): Reconciler {
  const { settings, service, apiServerVersion } = context;
  const getRequired = createFloorRequirements(context);
  const report = createProblemReporter();
  const mustRemain = createRetention(service.namespace);
  return {
    initialKeys: KEYS,
    sources: [
      watchValue(settings, () => KEYS),
      watchValue(apiServerVersion, () => [ALL]),
      ...DEFAULTS_KINDS.map((kind) =>
        watch(kind, ({ metadata }) => (metadata?.name === DEFAULTS_POLICY ? [DEFAULTS] : [])),
      ),
      ...POLICY_KINDS.map((kind) => watch(kind, ({ metadata }) => (metadata?.name === GUARD_POLICY ? [GUARD] : []))),
      ...watchBreakGlass(KEYS),
      watch('Namespace', ({ metadata }) => (metadata?.name === service.namespace ? KEYS : [])),
      ...ROLLOUT_KINDS.map((kind) => watch(kind, () => [ALL, GUARD])),
    ],
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(key, reconcileContext) {
      const { cluster } = reconcileContext;
      if (key === DEFAULTS) return await reconcileDefaults(context, reconcileContext);
      if (key === GUARD) {
        const policies = requiredGuard(context, cluster.store);
        await reconcileNamed(policies, { kinds: POLICY_KINDS, name: GUARD_POLICY }, reconcileContext);
        return undefined;
      }
      const required = getRequired(cluster.store);
      if (!required) return undefined;
      report(
        settings.value.floor.mode === 'off' ? undefined : describeTooOld(apiServerVersion.value),
        reconcileContext,
      );
      if (required.length > 0 && isBreakGlassOn(cluster.store)) return undefined;
      if (mustRemain(required, reconcileContext)) return { requeueAfterMs: 1_000 };
      await removeOthers(required, reconcileContext);
      for (const policy of required) await write(policy, reconcileContext);
      return undefined;
    },
  };
}

/** Creates a function that returns true while policies must remain although the settings no longer require them. */
function createRetention(namespace: string) {
  const offAge = createStateAge();
  const unusedAge = createStateAge();
  return (required: readonly PolicyObject[], { cluster: { store }, now }: ReconcileContext): boolean => {
    const isOff = required.length === 0 && isRunning(store, namespace) && !isBreakGlassOn(store);
    const isUsed = CONFIGURATION_KINDS.some((kind) =>
      store.list(kind).some(({ metadata }) => metadata?.annotations?.[FLOOR_ANNOTATION] !== undefined),
    );
    const hasPolicies = isOff && listFloorPolicies(store).length > 0;
    const offMs = offAge(hasPolicies ? 'off' : undefined, now());
    const unusedMs = unusedAge(hasPolicies && !isUsed ? 'unused' : undefined, now()) ?? 0;
    return offMs !== undefined && offMs < MAX_REMAINING_MS && unusedMs < OBSERVED_MS;
  };
}

/** Creates missing policies while the leader is silent. Only the leader corrects and deletes policies. */
function createStandbyReconciler(context: ControllerContext): Reconciler {
  const { settings, service, apiServerVersion } = context;
  const getRequired = createFloorRequirements(context);
  const silenceAge = createStateAge();
  const printLease = (store: Store): string =>
    JSON.stringify(
      store.list('Lease', service.namespace).flatMap((lease) => (isReplicaLease(lease) ? [] : lease.spec)),
    );
  const findMissing = ({ store }: ReconcileContext['cluster']): readonly PolicyObject[] => {
    const isPaused = isBreakGlassOn(store);
    if (isPaused) return [];
    return (getRequired(store) ?? []).filter(({ kind, metadata }) => store.get(kind, metadata.name) === undefined);
  };
  return {
    initialKeys: [ALL],
    sources: [
      watchValue(settings, () => [ALL]),
      watchValue(apiServerVersion, () => [ALL]),
      ...watchBreakGlass([ALL]),
      ...ROLLOUT_KINDS.map((kind) => watch(kind, () => [ALL])),
    ],
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(_key, reconcileContext) {
      const { cluster, now } = reconcileContext;
      const policies = findMissing(cluster);
      const silentMs = silenceAge(policies.length === 0 ? undefined : printLease(cluster.store), now());
      if (silentMs === undefined) return undefined;
      if (silentMs < STANDBY_MS) return { requeueAfterMs: STANDBY_MS - silentMs };
      for (const policy of policies) await write(policy, reconcileContext);
      return undefined;
    },
  };
}

/**
 * Writes the policy that defaults pods, or deletes it if it is not required. Until API servers serve
 * MutatingAdmissionPolicies, a webhook defaults pods instead.
 */
async function reconcileDefaults(
  context: ControllerContext,
  reconcileContext: ReconcileContext,
): ReturnType<Reconciler['reconcile']> {
  const policies = requiredDefaults(context, reconcileContext.cluster);
  if (policies === undefined) return CHECK_AGAIN;
  await reconcileNamed(policies, { kinds: DEFAULTS_KINDS, name: DEFAULTS_POLICY }, reconcileContext);
  return undefined;
}

/** Writes a policy and its binding, or deletes them if they are not required. */
async function reconcileNamed(
  policies: readonly MaintainedPolicy[],
  { kinds, name }: { readonly kinds: readonly (PolicyKind | DefaultsKind)[]; readonly name: string },
  reconcileContext: ReconcileContext,
): Promise<void> {
  const { cluster, logger } = reconcileContext;
  const { store } = cluster;
  if (policies.length === 0) {
    for (const kind of kinds.filter((served) => store.get(served, name) !== undefined).toReversed()) {
      await cluster.remove(kind, name);
      logger.info({ kind, name }, 'admission policy deleted');
    }
  } else if (!isBreakGlassOn(store)) {
    for (const { metadata, ...object } of policies) {
      await write({ ...object, metadata: { ...metadata, labels: FLOOR_LABELS } }, reconcileContext);
    }
  }
}

/** Returns false if the installation namespace is missing or terminating. */
function isRunning(store: Store, namespace: string): boolean {
  const installation = store.get('Namespace', namespace);
  return installation !== undefined && installation.metadata?.deletionTimestamp == null;
}

function isTooOld(version: Version): boolean {
  return minorVersion(version) < MIN_POLICY_MINOR;
}

function describeTooOld(version: Version | undefined): string | undefined {
  if (version === undefined || !isTooOld(version)) return undefined;
  return `spec.floor has no effect: its policies require Kubernetes 1.${MIN_POLICY_MINOR}, and the version of the API server is ${version}`;
}

/** Creates a function that logs each new problem and records it as an event on the settings. */
function createProblemReporter() {
  let reported: string | undefined;
  return (problem: string | undefined, { cluster, logger, recordEvent }: ReconcileContext): void => {
    if (problem === reported) return;
    reported = problem;
    if (problem === undefined) return;
    logger.error(problem);
    const object = cluster.store.get('PortcullisConfiguration', CONFIGURATION_NAME);
    const event = { type: 'Warning', reason: 'FloorNotEnforced', action: 'Reconcile', message: problem } as const;
    if (object) recordEvent('PortcullisConfiguration', object, event);
  };
}

/** Deletes policies that are not required. Deletes bindings first, because a policy without a binding has no effect. */
async function removeOthers(required: readonly PolicyObject[], { cluster, logger }: ReconcileContext): Promise<void> {
  const others = listFloorPolicies(cluster.store).filter(
    ({ kind, name }) => !required.some((object) => object.kind === kind && object.metadata.name === name),
  );
  for (const { kind, name } of others.toReversed()) {
    await cluster.remove(kind, name);
    logger.info({ kind, name }, 'admission policy deleted');
  }
}

type MaintainedPolicy = PolicyObject<PolicyKind | DefaultsKind>;

async function write(policy: MaintainedPolicy, { cluster, logger }: ReconcileContext): Promise<void> {
  const { kind, metadata, spec } = policy;
  const { name } = metadata;
  const current = cluster.store.get(kind, name);
  const merged = {
    ...current?.metadata,
    name,
    labels: { ...current?.metadata?.labels, ...metadata.labels },
    annotations: { ...current?.metadata?.annotations, ...metadata.annotations },
  };
  if (isCurrent(policy, current) && deepEqual(merged, current.metadata)) return;
  const object = { ...current, metadata: await withOwner(merged, INSTALLATION.policyRole, cluster), spec };
  await (current ? cluster.update(kind, object, OPTIONS) : cluster.apply(kind, object, OPTIONS));
  logger.info({ kind, name }, `admission policy ${current ? 'updated' : 'created'}`);
}
