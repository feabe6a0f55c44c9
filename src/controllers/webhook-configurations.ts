/** Manages the webhook configurations in the cluster. */
import {
  DEFAULTS_KINDS,
  DEFAULTS_POLICY,
  FLOOR_ANNOTATION,
  isFloorPolicy,
  POLICY_KINDS,
} from '../api/admission-policies.ts';
import { BREAK_GLASS_ANNOTATION, INSTALLATION, WEBHOOK_LABELS } from '../api/names.ts';
import {
  CONFIGURATION_KINDS,
  type ConfigurationKind,
  CONFIGURATION_NAMES,
  getWebhooks,
  isCaInjection,
  isKnownConfiguration,
  SCC_REGISTERED_ANNOTATION,
  type WebhookConfiguration,
} from '../api/webhooks.ts';
import type { Store } from '../cluster/store.ts';
import { defined } from '../kube/defined.ts';
import { deepEqual } from '../kube/equality.ts';
import type { EndpointSlice, ObjectMeta } from '../kube/types.ts';
import { PRIVILEGED_SCC } from '../policy/scc/index.ts';
import { findOtherTrustProblems, findTrustProblems, type Service } from '../tls/index.ts';
import { ROLLOUT_KINDS } from '../views/rollout.ts';
import { createFloorState, hasDefaultsWebhook } from './admission-policies.ts';
import { isBreakGlassOn } from './break-glass.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  createStateAge,
  OBSERVED_MS,
  type ReconcileContext,
  type Reconciler,
  type Source,
  watch,
  watchValue,
  withOwner,
} from './controller.ts';
import { configurationRules, rbacRule } from './permissions.ts';
import {
  AKS_ANNOTATIONS,
  currentEnforcement,
  openSeconds,
  type RequiredConfiguration,
  requiredConfigurations,
  type RequiredWebhook,
} from './required-webhooks.ts';

const NAME = 'webhook-configuration-controller';
const OPTIONS = { fieldManager: NAME };

/** Owner of the configurations, which is the ClusterRole that grants this controller's permissions. */
const OWNER = INSTALLATION.webhookRole;

export const webhookConfigurations: ControllerDefinition = {
  name: NAME,
  description: 'registers the webhooks, and makes them fail closed only where the settings enforce a policy',
  runsOn: 'leader',
  permissions: [
    {
      role: 'webhook-configurations',
      clusterRules: [
        // RBAC cannot restrict a POST by name, but the policy for the service account does.
        rbacRule(['create'], ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']),
        ...configurationRules(['update', 'delete']),
        rbacRule(['get'], ['ClusterRole'], [OWNER]),
      ],
    },
  ],
  isEnabled: ({ managedWebhooks }) => managedWebhooks,
  create: createReconciler,
};

/** Check interval until a replica is ready. */
const CHECK_AGAIN = { requeueAfterMs: 1_000 };
const MAX_RETRY_MS = 30_000;

const KEYS: readonly string[] = CONFIGURATION_KINDS;

/**
 * Creates a configuration once a replica is ready, and makes its webhooks fail closed once API servers trust the
 * certificate. From then on, they fail open only if the settings require it, or if the settings permit it and the floor
 * is in force. Other components manage `caBundle`. The controller corrects all other webhook fields, except while
 * break-glass is on. It uses updates because server-side apply cannot remove a webhook whose `caBundle` has another
 * manager.
 */
function createReconciler(context: ControllerContext): Reconciler {
  const getRequired = createRequirements(context);
  const trusted = new Map(KEYS.map((key) => [key, createStateAge()]));
  const observePolicies = createPolicyObserver(context);
  const findRegisteredMode = createModeObserver(context);

  return {
    initialKeys: KEYS,
    sources: watchInputs(context),
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(key, reconcileContext) {
      const { cluster, logger, now } = reconcileContext;
      const { store } = cluster;
      const kind = CONFIGURATION_KINDS.find((known) => known === key) ?? 'ValidatingWebhookConfiguration';
      const id = { kind, name: CONFIGURATION_NAMES[kind] };
      const current = store.get(id.kind, id.name);
      const policies = observePolicies(store, current, now());
      const inForce = { floor: policies.floor !== undefined, hasDefaults: policies.hasDefaults };
      const all = getRequired(store, inForce);
      const required = all.find((configuration) => configuration.kind === kind);
      if (!required) {
        // Keeps the break-glass annotations while the feature is off, unless the installation is being deleted.
        if (!current || (all.length > 0 && isBreakGlass(current))) return undefined;
        await cluster.remove(id.kind, id.name);
        logger.info(id, 'webhook configuration deleted');
        return undefined;
      }
      const installed = CONFIGURATION_KINDS.flatMap((kind) => store.get(kind, CONFIGURATION_NAMES[kind]) ?? []);
      if (isBreakGlassOn(store)) return undefined;
      const isReady = !context.certificate.served.isTemporary() && hasEndpoint(store, context);
      if (!current && !isReady) return CHECK_AGAIN;
      const isTrusted = isReady && current !== undefined && isTrustedBy(current, context);
      const settledMs = trusted.get(key)?.(isTrusted ? key : undefined, now()) ?? 0;
      const next = settledMs >= OBSERVED_MS ? required : openUnlessClosed(required, current);
      // The policies must remain in force while webhooks still fail open.
      const recorded = next === required ? undefined : current?.metadata?.annotations?.[FLOOR_ANNOTATION];
      const floor = policies.floor ?? recorded;
      // The floor only splits the webhooks, so both variants select the same namespaces.
      const variants = [all, getRequired(store, { ...inForce, floor: !inForce.floor })];
      const scc = findRegisteredMode(store, { kind, variants, isReady, nowMs: now() });
      const merged = mergeConfiguration(next, current, {
        annotations: {
          ...AKS_ANNOTATIONS,
          ...context.webhooks.annotations,
          ...defined({ [FLOOR_ANNOTATION]: floor, [SCC_REGISTERED_ANNOTATION]: scc.mode }),
        },
        installed,
      });
      if (!deepEqual(merged, current)) await write(next, merged, reconcileContext);
      return next === required && !policies.isSettling && !scc.isSettling ? undefined : CHECK_AGAIN;
    },
  };
}

/** Watches the settings and objects on which the configurations depend. Any change may affect all configurations. */
function watchInputs({ settings, service, apiServerVersion }: ControllerContext): readonly Source[] {
  return [
    watchValue(settings, () => KEYS),
    ...CONFIGURATION_KINDS.map((kind) =>
      watch(kind, ({ metadata }) => (isKnownConfiguration(kind, metadata?.name) ? KEYS : [])),
    ),
    watch('Namespace', ({ metadata }) => (metadata?.name === service.namespace ? KEYS : [])),
    watch('EndpointSlice', (slice) => (belongsTo(slice, service) ? KEYS : [])),
    watch('SecurityContextConstraints', ({ metadata }) => (metadata?.name === PRIVILEGED_SCC ? KEYS : [])),
    ...ROLLOUT_KINDS.map((kind) => watch(kind, () => KEYS)),
    ...POLICY_KINDS.map((kind) => watch(kind, ({ metadata }) => (isFloorPolicy(kind, metadata?.name) ? KEYS : []))),
    ...DEFAULTS_KINDS.map((kind) => watch(kind, ({ metadata }) => (metadata?.name === DEFAULTS_POLICY ? KEYS : []))),
    watchValue(apiServerVersion, () => KEYS),
  ];
}

/**
 * Creates a function that returns the configurations that the settings require. It returns none if the installation
 * namespace is missing.
 */
function createRequirements({ settings, service, version, webhooks, features }: ControllerContext) {
  return (store: Store, policies: PoliciesInForce): readonly RequiredConfiguration[] => {
    const namespace = store.get('Namespace', service.namespace);
    if (!namespace || namespace.metadata?.deletionTimestamp != null) return [];
    const { timeoutSeconds } = settings.value.webhooks;
    const enforcement = currentEnforcement(settings.value, { store, service, version, features }, policies);
    return requiredConfigurations(webhooks.registrations, enforcement, { service, url: webhooks.url, timeoutSeconds });
  };
}

/** The policies in the cluster that replace webhooks once API servers have had time to observe them. */
interface ObservedPolicies {
  /** Digest of the policies that allow webhooks to fail open. Absent if webhooks must fail closed. */
  readonly floor: string | undefined;
  /**
   * True if API servers default pods. A registered webhook is kept until API servers have had time to observe the
   * policy.
   */
  readonly hasDefaults: boolean;
  /** True if a policy will soon replace a webhook. */
  readonly isSettling: boolean;
}

/** Creates a function that determines which policies in the cluster replace webhooks in a configuration. */
function createPolicyObserver({ settings, apiServerVersion, ...context }: ControllerContext) {
  const getState = createFloorState({ ...context, settings, apiServerVersion });
  const watches = { floor: createStateAge(), defaults: createStateAge() };
  return (store: Store, current: WebhookConfiguration | undefined, nowMs: number): ObservedPolicies => {
    const recorded = current?.metadata?.annotations?.[FLOOR_ANNOTATION];
    // Uses the recorded state until the API server's version is known, because the policies cannot be compared with the
    // settings before.
    const state = apiServerVersion.value === undefined ? recorded : getState(store);
    const floor = settings.value.webhooks.failurePolicy === 'Ignore' ? state : undefined;
    const floorMs = watches.floor(floor, nowMs);
    const uids = DEFAULTS_KINDS.map((kind) => store.get(kind, DEFAULTS_POLICY)?.metadata?.uid);
    const defaults = watches.defaults(uids.includes(undefined) ? undefined : uids.join(), nowMs);
    const isSettled = (ms: number | undefined): boolean => ms !== undefined && ms >= OBSERVED_MS;
    const isOpen = floor !== undefined && (floor === recorded || isSettled(floorMs));
    return {
      floor: isOpen ? floor : undefined,
      hasDefaults: defaults !== undefined && (isSettled(defaults) || !hasDefaultsWebhook(store)),
      isSettling: (floor !== undefined && !isOpen) || (defaults !== undefined && !isSettled(defaults)),
    };
  };
}

type PoliciesInForce = Parameters<typeof currentEnforcement>[2];

interface Registration {
  /** Kind of the configuration that is reconciled. */
  readonly kind: ConfigurationKind;
  /** The required configurations with and without the floor. */
  readonly variants: readonly (readonly RequiredConfiguration[])[];
  /** True if the replica serves a permanent certificate and the Service has an endpoint. */
  readonly isReady: boolean;
  readonly nowMs: number;
}

/** Returns true if a configuration contains all required webhooks with their namespace selectors. */
function hasSelectors(current: WebhookConfiguration | undefined, required: RequiredConfiguration | undefined): boolean {
  return (
    required?.webhooks.every(({ name, namespaceSelector }) =>
      current?.webhooks?.some(
        (webhook) => webhook.name === name && deepEqual(webhook.namespaceSelector, namespaceSelector),
      ),
    ) === true
  );
}

/**
 * Creates a function that returns the SCC mode to record on the validating configuration. A stricter mode is recorded
 * only after the mutating webhook has been registered for it for some time. The mode remains recorded if the mutating
 * configuration is deleted, so pods are denied until it has been restored.
 */
function createModeObserver(context: ControllerContext) {
  const registered = createStateAge();
  return (store: Store, { kind, variants, isReady, nowMs }: Registration) => {
    const { mode } = context.settings.value.scc;
    if (kind !== 'ValidatingWebhookConfiguration' || mode === 'off') return { mode: undefined, isSettling: false };
    const mutating = store.get('MutatingWebhookConfiguration', CONFIGURATION_NAMES.MutatingWebhookConfiguration);
    const isInPlace = variants.some((configurations) =>
      hasSelectors(
        mutating,
        configurations.find((other) => other.kind === 'MutatingWebhookConfiguration'),
      ),
    );
    const isTrusted = isReady && mutating !== undefined && isTrustedBy(mutating, context);
    const sinceMs = registered(isTrusted && isInPlace ? mode : undefined, nowMs) ?? 0;
    const recorded = store.get(kind, CONFIGURATION_NAMES[kind])?.metadata?.annotations?.[SCC_REGISTERED_ANNOTATION];
    if (recorded === mode || sinceMs >= OBSERVED_MS) return { mode, isSettling: false };
    return { mode: recorded === 'enforce' ? mode : recorded, isSettling: recorded !== 'enforce' };
  };
}

/** Label on an EndpointSlice with the name of its Service. */
const SERVICE_LABEL = 'kubernetes.io/service-name';

function belongsTo({ metadata }: EndpointSlice, { namespace, name }: Service): boolean {
  return metadata?.namespace === namespace && metadata.labels?.[SERVICE_LABEL] === name;
}

/**
 * Returns true if the Service has a ready endpoint. If there is a URL, it is assumed to lead to this replica, which is
 * ready.
 */
function hasEndpoint(store: Store, { service, webhooks }: Pick<ControllerContext, 'service' | 'webhooks'>): boolean {
  if (webhooks.url !== undefined) return true;
  return store
    .list('EndpointSlice', service.namespace)
    .filter((slice) => belongsTo(slice, service))
    .some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions?.ready !== false));
}

/** Returns true if every webhook's `caBundle` trusts this replica's certificate. */
function isTrustedBy(current: WebhookConfiguration, { certificate, service, date }: ControllerContext): boolean {
  const { webhooks = [] } = current;
  if (webhooks.some(({ clientConfig }) => !clientConfig.caBundle)) return false;
  const trust = { pair: certificate.served.current(), configurations: [current], service, now: date() };
  return findTrustProblems(trust).length + findOtherTrustProblems(trust, []).length === 0;
}

/** Makes webhooks fail open unless they already fail closed. Returns `required` itself if no webhook has to change. */
function openUnlessClosed(
  required: RequiredConfiguration,
  current: WebhookConfiguration | undefined,
): RequiredConfiguration {
  const closed = new Set(
    current?.webhooks?.flatMap(({ name, failurePolicy }) => (failurePolicy === 'Fail' ? name : [])),
  );
  const isOpened = ({ name, failurePolicy }: RequiredWebhook): boolean => failurePolicy === 'Fail' && !closed.has(name);
  if (!required.webhooks.some(isOpened)) return required;
  const open = (webhook: RequiredWebhook): RequiredWebhook => ({
    ...webhook,
    failurePolicy: 'Ignore',
    timeoutSeconds: openSeconds(webhook.timeoutSeconds),
  });
  return { ...required, webhooks: required.webhooks.map((webhook) => (isOpened(webhook) ? open(webhook) : webhook)) };
}

interface MergeOptions {
  readonly annotations: Readonly<Record<string, string>>;
  /** All configurations of the installation. */
  readonly installed: readonly WebhookConfiguration[];
}

/** Sets the fields that this controller manages. New webhooks receive the CAs of the existing webhooks. */
function mergeConfiguration(
  { name, webhooks }: RequiredConfiguration,
  current: WebhookConfiguration | undefined,
  { annotations, installed }: MergeOptions,
): WebhookConfiguration {
  const [caBundle] = installed.flatMap((configuration) =>
    getWebhooks(configuration).flatMap((webhook) => webhook.caBundle || []),
  );
  const { metadata } = current ?? {};
  const others = Object.entries(metadata?.annotations ?? {}).filter(
    ([key]) => !isCaInjection(key) && key !== FLOOR_ANNOTATION && key !== SCC_REGISTERED_ANNOTATION,
  );
  const merged: ObjectMeta = {
    ...(metadata ?? { name }),
    labels: { ...metadata?.labels, ...WEBHOOK_LABELS },
    annotations: { ...Object.fromEntries(others), ...annotations },
  };
  const merge = (required: RequiredWebhook): RequiredWebhook => {
    const existing = current?.webhooks?.find((webhook) => webhook.name === required.name);
    const bundle = existing?.clientConfig.caBundle ?? caBundle;
    const { clientConfig, matchConditions } = required;
    return {
      ...existing,
      ...required,
      clientConfig: { ...clientConfig, ...defined({ caBundle: bundle }) },
      ...(existing?.matchConditions && !matchConditions ? { matchConditions: [] } : {}),
    };
  };
  return { ...current, metadata: merged, webhooks: webhooks.map(merge) };
}

/** Returns true while break-glass is on. During that time, the controller neither changes nor registers webhooks. */
function isBreakGlass({ metadata }: WebhookConfiguration): boolean {
  return metadata?.annotations?.[BREAK_GLASS_ANNOTATION] !== undefined;
}

async function write(
  { kind, name, webhooks }: RequiredConfiguration,
  object: WebhookConfiguration,
  { cluster, logger }: ReconcileContext,
): Promise<void> {
  const metadata = await withOwner(object.metadata ?? { name }, OWNER, cluster);
  const isNew = object.metadata?.resourceVersion === undefined;
  await (isNew
    ? cluster.create(kind, { ...object, metadata }, OPTIONS)
    : cluster.update(kind, { ...object, metadata }, OPTIONS));
  const closed = webhooks.flatMap((webhook) => (webhook.failurePolicy === 'Fail' ? webhook.name : []));
  logger.info({ kind, name, failClosed: closed }, `webhook configuration ${isNew ? 'created' : 'updated'}`);
}
