/**
 * The webhook configurations: which webhooks API servers call, for which namespaces, and which of them fail closed. They
 * follow from the settings, so only what is enforced fails closed.
 */
import type { V1LabelSelectorRequirement, V1MatchCondition, V1ValidatingWebhook } from '@kubernetes/client-node';
import { effectivePodSecurity, ROLLOUT_KINDS, type RolloutScope } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import type { Settings } from '../config/settings.ts';
import { DEFAULTS_KINDS, DEFAULTS_POLICY, isFloorPolicy, POLICY_KINDS } from '../kube/admission-policies.ts';
import { celList } from '../kube/cel.ts';
import { deepEqual } from '../kube/equality.ts';
import type { EndpointSlice, ObjectMeta, Wire } from '../kube/types.ts';
import {
  CONFIGURATION_KINDS,
  EXEMPT_CONDITION,
  getWebhooks,
  INSTALLED_CONFIGURATIONS,
  isCaInjection,
  isInstalled,
  unchangedNamespaces,
  type ConfigurationKind,
  type InstalledConfiguration,
  type WebhookConfiguration,
  type WebhookRegistration,
} from '../kube/webhooks.ts';
import {
  BREAK_GLASS_ANNOTATION,
  FAIL_OPEN,
  INSTALLATION,
  KUBE_SYSTEM,
  NAMESPACE_NAME_LABEL,
  OPTIONAL_FEATURES,
  POD_SECURITY_LABELS,
  TIER_LABEL,
  WEBHOOK_LABELS,
  type OptionalFeature,
} from '../kube/well-known.ts';
import type { WorkloadResource } from '../policy/pod/templates.ts';
import type { PodSecurityConfiguration } from '../policy/psa/configuration.ts';
import { selectedNamespaces } from '../policy/psa/defaults.ts';
import {
  SCC_MODE_LABEL,
  sccMode,
  selectEnforcedNamespaces,
  selectSccNamespaces,
  type SccSettings,
} from '../policy/scc/mode.ts';
import { findOtherTrustProblems, findTrustProblems, type Service } from '../tls/trust.ts';
import { createFloorState, isBreakGlassOn } from './admission-policies.ts';
import {
  configurationRules,
  createStopwatch,
  isOptionalFeature,
  rule,
  watch,
  watchValue,
  withOwner,
  type ControllerContext,
  type ControllerDefinition,
  type Features,
  type ReconcileContext,
  type Reconciler,
} from './controller.ts';

const NAME = 'webhook-configuration-controller';
const OPTIONS = { fieldManager: NAME };

/** The ClusterRole with the permissions of this controller owns the configurations. */
const OWNER = INSTALLATION.webhookRole;

export const webhookConfigurations: ControllerDefinition = {
  name: NAME,
  description: 'registers the webhooks, and makes them fail closed for exactly what the settings enforce',
  runsOn: 'leader',
  permissions: [
    {
      role: 'webhook-configurations',
      clusterRules: [
        // RBAC cannot limit a POST to names. The policy for the service account does.
        rule(['create'], ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']),
        ...configurationRules(['update', 'delete'], (feature) => !isOptionalFeature(feature)),
        rule(['get'], ['ClusterRole'], [OWNER]),
      ],
    },
    ...OPTIONAL_FEATURES.map((name) => ({
      role: `webhook-configurations-${name}`,
      clusterRules: configurationRules(['update', 'delete'], (feature) => feature === name),
      isNeeded: (features: Features) => features[name],
    })),
  ],
  isEnabled: ({ managedWebhooks }) => managedWebhooks,
  create: createReconciler,
};

// The configurations that the settings require.

/** The scope of reviews and of enforcement in an installation. */
export interface Enforcement {
  /** True if namespaces without Pod Security labels have a level that denies pods. */
  readonly podSecurity: boolean;
  /** True if the rollout is not `Disabled`. */
  readonly rollout: boolean;
  /** True if the feature is installed, and the settings have the section `kubelet`. */
  readonly kubelet: boolean;
  /** True if, in addition, certificate requests of nodes are reviewed. */
  readonly kubeletCertificates: boolean;
  /** True if, in addition, Leases and mirror pods of nodes are reviewed. */
  readonly kubeletNodeWrites: boolean;
  /** True if the feature is installed, and the hardening of pods is not `off`. */
  readonly olm: boolean;
  /** The namespaces whose new pods get defaults from the webhook; absent: none. */
  readonly defaults?: readonly Requirement[] | undefined;
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
  /** True if SCCs are enforced in a namespace, or may be at any time. */
  readonly someSccs: boolean;
  /**
   * True if the policies of the floor decide on pods while no replica responds. The webhooks of Pod Security then fail
   * open, as do those of SCCs for pods to which the baseline or restricted level applies.
   */
  readonly floor: boolean;
  /** The pods that Pod Security and the floor do not evaluate. */
  readonly exemptions: PodSecurityConfiguration['exemptions'];
  /** Resources that the advising webhook reviews in addition to its own. */
  readonly workloads: readonly WorkloadResource[];
}

/** How API servers reach the webhooks. */
export interface WebhookTarget {
  /** The service of the installation. Its namespace is never reviewed. */
  readonly service: Service;
  /** The base URL, in place of the service. */
  readonly url?: string | undefined;
  /** Timeout of the webhooks that fail closed. If absent, each webhook has its own default. */
  readonly timeoutSeconds?: number | undefined;
}

type Webhook = Wire<V1ValidatingWebhook>;

type RequiredConfiguration = InstalledConfiguration & { readonly webhooks: readonly Webhook[] };

/** Returns the configurations of all webhooks whose feature is on. */
export function requiredConfigurations(
  registrations: readonly WebhookRegistration[],
  enforcement: Enforcement,
  target: WebhookTarget,
): readonly RequiredConfiguration[] {
  const features = { ...enforcement, psa: true, scc: enforcement.scc.mode !== 'off' };
  const enabled = registrations.filter(({ feature }) => features[feature]);
  const byConfiguration = Map.groupBy(enabled, ({ configuration: { kind, name } }) => `${kind} ${name}`);
  return [...byConfiguration.values()].flatMap((group) =>
    group.slice(0, 1).map(({ configuration }) => ({
      ...configuration,
      webhooks: group.flatMap((one) => createWebhooks(one, enforcement, target)),
    })),
  );
}

type OptionalEnforcement = Pick<Enforcement, OptionalFeature | 'kubeletCertificates' | 'kubeletNodeWrites'>;

/** The optional features whose webhooks are registered with the settings. */
export function enabledOptionalFeatures(
  features: ControllerContext['features'],
  settings: Settings,
): OptionalEnforcement {
  const { isOn, admission } = settings.kubelet;
  const kubelet = features.kubelet && isOn;
  return {
    kubelet,
    kubeletCertificates: kubelet && admission.certificates,
    kubeletNodeWrites: kubelet && admission.nodeWrites,
    olm: features.olm && settings.olm.hardening.mode !== 'off',
  };
}

type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * Namespaces that share a failure policy. A label selector cannot express "or": each tier has its own webhooks, and a
 * namespace belongs to one tier.
 */
interface Tier {
  /** Prefix of the names of the webhooks. */
  readonly prefix: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly namespaces: readonly Requirement[];
  readonly condition?: Wire<V1MatchCondition>;
}

function isNot(key: string, ...values: readonly string[]): Requirement {
  return { key, operator: 'NotIn', values };
}

function isIn(key: string, ...values: readonly string[]): Requirement {
  return { key, operator: 'In', values };
}

/** Requests fail closed, except in namespaces with the label for networking, DNS and storage. */
function closedTiers(namespaces: readonly Requirement[]): readonly Tier[] {
  return [
    { prefix: '', failurePolicy: 'Fail', namespaces: [...namespaces, isNot(TIER_LABEL, FAIL_OPEN)] },
    { prefix: 'fail-open.', failurePolicy: 'Ignore', namespaces: [...namespaces, isIn(TIER_LABEL, FAIL_OPEN)] },
  ];
}

function openTier(prefix: string, namespaces: readonly Requirement[]): Tier {
  return { prefix, failurePolicy: 'Ignore', namespaces };
}

function podSecurityTiers(isEnforced: boolean, { namespace }: Service): readonly Tier[] {
  if (!isEnforced) return [openTier('', [isNot(NAMESPACE_NAME_LABEL, namespace)])];
  return [
    ...closedTiers([isNot(NAMESPACE_NAME_LABEL, KUBE_SYSTEM, namespace)]),
    // A cluster without running pods starts with those of kube-system.
    openTier(`${KUBE_SYSTEM}.`, [isIn(NAMESPACE_NAME_LABEL, KUBE_SYSTEM)]),
  ];
}

/** The server ignores the same namespaces. As in `sccMode`, an unknown value of the label enforces. */
function sccTiers(enforcement: Enforcement, { namespace }: Service, hasFloor: boolean): readonly Tier[] {
  const { scc, someSccs, floor } = enforcement;
  const unchanged = unchangedNamespaces(namespace);
  const reviewed = selectSccNamespaces(scc, unchanged);
  if (!someSccs) return [openTier('', [...reviewed, isNot(SCC_MODE_LABEL, 'off')])];
  const unlabeled: Requirement = { key: SCC_MODE_LABEL, operator: 'DoesNotExist' };
  const byDefault = scc.mode === 'enforce';
  const tiers = closedTiers(selectEnforcedNamespaces(scc, unchanged));
  return [
    ...(floor && hasFloor ? tiers.flatMap((tier) => splitByLevel(tier, enforcement)) : tiers),
    openTier('report.', [...reviewed, isIn(SCC_MODE_LABEL, 'report')]),
    ...(byDefault ? [] : [openTier('unlabeled.', [...reviewed, unlabeled])]),
  ];
}

/**
 * Opens a tier for the pods that the floor denies unless they satisfy the baseline or restricted level. Pods that are exempt
 * from Pod Security, and those of privileged namespaces, still fail closed.
 */
function splitByLevel(tier: Tier, { podSecurity, exemptions }: Enforcement): readonly Tier[] {
  if (tier.failurePolicy === 'Ignore') return [tier];
  const key = POD_SECURITY_LABELS.enforce;
  const [limited, others] = podSecurity
    ? [isNot(key, 'privileged'), isIn(key, 'privileged')]
    : [isIn(key, 'baseline', 'restricted'), isNot(key, 'baseline', 'restricted')];
  const select = (...namespaces: readonly Requirement[]): Tier => ({
    ...tier,
    namespaces: [...tier.namespaces, ...namespaces],
  });
  const closed = select(others);
  const open: Tier = { ...select(limited), prefix: 'floor.', failurePolicy: 'Ignore' };
  return [closed, ...exemptNamespaces(open, exemptions).flatMap((one) => exemptPods(one, exemptions))];
}

/** Splits an open tier: the exempt namespaces fail closed. */
function exemptNamespaces(open: Tier, { namespaces: names }: Enforcement['exemptions']): readonly Tier[] {
  if (names.length === 0) return [open];
  const select = (requirement: Requirement): readonly Requirement[] => [...open.namespaces, requirement];
  return [
    { ...open, namespaces: select(isNot(NAMESPACE_NAME_LABEL, ...names)) },
    {
      prefix: 'exempt-namespaces.',
      failurePolicy: 'Fail',
      namespaces: select(isIn(NAMESPACE_NAME_LABEL, ...names)),
    },
  ];
}

/** Splits an open tier: pods with an exempt runtime class, and those of exempt users, fail closed. */
function exemptPods(tier: Tier, { usernames, runtimeClasses }: Enforcement['exemptions']): readonly Tier[] {
  const runtimeClass = 'object.spec.runtimeClassName';
  const isExempt = [
    ...(usernames.length === 0 ? [] : [`request.userInfo.username in ${celList(usernames)}`]),
    ...(runtimeClasses.length === 0 ? [] : [`has(${runtimeClass}) && ${runtimeClass} in ${celList(runtimeClasses)}`]),
  ].join(' || ');
  if (tier.failurePolicy === 'Fail' || isExempt === '') return [tier];
  return [
    { ...tier, condition: { name: 'not-exempt', expression: `!(${isExempt})` } },
    { ...tier, prefix: 'exempt.', failurePolicy: 'Fail', condition: { name: EXEMPT_CONDITION, expression: isExempt } },
  ];
}

/** The webhooks of one registration: one for each tier of namespaces, or one for cluster-scoped objects. */
function createWebhooks(
  registration: WebhookRegistration,
  enforcement: Enforcement,
  target: WebhookTarget,
): readonly Webhook[] {
  const { feature, isEnforcing, isNamespaced, hasFloor = false, reviewsWorkloadResources = false } = registration;
  if (!isNamespaced) {
    const isEnforced = isEnforcing && feature === 'scc' && enforcement.scc.mode === 'enforce';
    const failurePolicy = isEnforced ? 'Fail' : 'Ignore';
    return [createWebhook(registration, { prefix: '', failurePolicy, namespaces: [] }, target)];
  }
  const tiers = namespaceTiers(registration, enforcement, target);
  const added = reviewsWorkloadResources ? enforcement.workloads.map(workloadRule) : [];
  const rules = [...registration.rules, ...added];
  const isOpen = feature === 'psa' && hasFloor && enforcement.floor;
  return tiers.map((tier) =>
    createWebhook({ ...registration, rules }, isOpen ? { ...tier, failurePolicy: 'Ignore' } : tier, target),
  );
}

function namespaceTiers(
  { feature, configuration, isEnforcing, hasFloor = false }: WebhookRegistration,
  enforcement: Enforcement,
  { service }: WebhookTarget,
): readonly Tier[] {
  if (feature === 'scc') return sccTiers(enforcement, service, hasFloor);
  if (configuration.kind === 'ValidatingWebhookConfiguration') {
    return podSecurityTiers(isEnforcing && enforcement.podSecurity, service);
  }
  const selected = feature === 'defaults' ? (enforcement.defaults ?? []) : [];
  // The policy for the service account permits no mutating webhook for pods without this requirement.
  return [openTier('', [...selected, isNot(NAMESPACE_NAME_LABEL, ...unchangedNamespaces(service.namespace))])];
}

function workloadRule({ group, version, resource }: WorkloadResource): WebhookRegistration['rules'][number] {
  const operations = ['CREATE', 'UPDATE'];
  return { apiGroups: [group], apiVersions: [version], operations, resources: [resource], scope: 'Namespaced' };
}

/** The longest wait for a replica where pods may start without a review. */
const FAIL_OPEN_SECONDS = 5;

/** A webhook with all fields that API servers would otherwise set to a default. */
function createWebhook(
  { name, path, configuration, rules, matchConditions, objectSelector = {}, timeoutSeconds }: WebhookRegistration,
  { prefix, failurePolicy, namespaces, condition }: Tier,
  { service, url, timeoutSeconds: closedSeconds = timeoutSeconds }: WebhookTarget,
): Webhook {
  const conditions = [...(matchConditions ?? []), ...(condition ? [condition] : [])];
  return {
    name: `${prefix}${name}`,
    admissionReviewVersions: ['v1'],
    clientConfig: url === undefined ? { service: { ...service, path, port: 443 } } : { url: `${url}${path}` },
    rules,
    namespaceSelector: namespaces.length === 0 ? {} : { matchExpressions: namespaces },
    objectSelector,
    ...(conditions.length > 0 ? { matchConditions: conditions } : {}),
    matchPolicy: 'Equivalent',
    sideEffects: 'None',
    failurePolicy,
    timeoutSeconds: failurePolicy === 'Fail' ? closedSeconds : openSeconds(timeoutSeconds),
    ...(configuration.kind === 'MutatingWebhookConfiguration' ? { reinvocationPolicy: 'IfNeeded' } : {}),
  };
}

function openSeconds(timeoutSeconds = FAIL_OPEN_SECONDS): number {
  return Math.min(timeoutSeconds, FAIL_OPEN_SECONDS);
}

/** AKS otherwise excludes its own namespaces. The selectors already allow a cluster to start. */
export const AKS_ANNOTATIONS: Readonly<Record<string, string>> = { 'admissions.enforcer/disabled': 'true' };

// The configurations in the cluster.

/**
 * Time for which a replica must have been ready and trusted before its webhooks fail closed, and for which policies must
 * have been in force before webhooks fail open for them, since API servers observe changes later.
 */
const SETTLE_MS = 5_000;
/** Interval between checks until a replica is ready. */
const CHECK_AGAIN = { requeueAfterMs: 1_000 };
const MAX_RETRY_MS = 30_000;

const KEYS: readonly string[] = CONFIGURATION_KINDS.flatMap((kind) =>
  INSTALLED_CONFIGURATIONS[kind].map((name) => `${kind}/${name}`),
);

/**
 * A configuration is created when a replica is ready, and fails closed after API servers trust the certificate. From then
 * on, it fails open only if the settings require it, or if they permit it and the floor is in force. Other components maintain
 * `caBundle`. All other fields of the webhooks are corrected, except while break-glass is on. An update is used instead of
 * server-side apply, which cannot remove a webhook whose caBundle has another manager.
 */
function createReconciler(context: ControllerContext): Reconciler {
  const { settings, service, webhooks } = context;
  const getRequired = createRequirements(context);
  const trusted = new Map(KEYS.map((key) => [key, createStopwatch()]));
  const observePolicies = createPolicyObserver(context);

  return {
    initialKeys: KEYS,
    sources: [
      watchValue(settings, () => KEYS),
      ...CONFIGURATION_KINDS.map((kind) =>
        watch(kind, ({ metadata }) => (isInstalled(kind, metadata?.name) ? KEYS : [])),
      ),
      watch('Namespace', ({ metadata }, _store, { before }) =>
        metadata?.name === service.namespace ||
        [metadata, before?.metadata].some((one) => one?.labels?.[SCC_MODE_LABEL] !== undefined)
          ? KEYS
          : [],
      ),
      watch('EndpointSlice', (slice) => (belongsTo(slice, service) ? KEYS : [])),
      ...ROLLOUT_KINDS.map((kind) => watch(kind, () => KEYS)),
      ...POLICY_KINDS.map((kind) => watch(kind, ({ metadata }) => (isFloorPolicy(kind, metadata?.name) ? KEYS : []))),
      ...DEFAULTS_KINDS.map((kind) => watch(kind, ({ metadata }) => (metadata?.name === DEFAULTS_POLICY ? KEYS : []))),
      watchValue(context.apiServerVersion, () => KEYS),
    ],
    maxRetryMs: MAX_RETRY_MS,
    async reconcile(key, reconcileContext) {
      const { cluster, logger, now } = reconcileContext;
      const { store } = cluster;
      const id = parseKey(key);
      const current = store.get(id.kind, id.name);
      const policies = observePolicies(store, current, now());
      const all = getRequired(store, policies);
      const required = all.find(({ kind, name }) => kind === id.kind && name === id.name);
      if (!required) {
        // The notes of break-glass are kept while the feature is off, unless the installation is deleted.
        if (!current || (all.length > 0 && isBreakGlass(current))) return undefined;
        await cluster.remove(id.kind, id.name);
        logger.info(id, 'webhook configuration deleted');
        return undefined;
      }
      const installed = listInstalled(store);
      if (isBreakGlassOn(store)) return undefined;
      const isReady = !context.certificate.served.isTemporary() && hasEndpoint(store, context);
      if (!current && !isReady) return CHECK_AGAIN;
      const isTrusted = isReady && current !== undefined && isTrustedBy(current, context);
      const settledMs = trusted.get(key)?.elapsedMs(isTrusted ? key : undefined, now()) ?? 0;
      const next = settledMs >= SETTLE_MS ? required : openUnlessClosed(required, current);
      const merged = mergeConfiguration(next, current, {
        annotations: {
          ...AKS_ANNOTATIONS,
          ...webhooks.annotations,
          ...(policies.floor === undefined ? {} : { [FLOOR_ANNOTATION]: policies.floor }),
        },
        installed,
      });
      if (!deepEqual(merged, current)) await write(next, merged, reconcileContext);
      return next === required && !policies.isSettling ? undefined : CHECK_AGAIN;
    },
  };
}

function parseKey(key: string): { readonly kind: ConfigurationKind; readonly name: string } {
  const [kind, name = ''] = key.split('/');
  return { kind: CONFIGURATION_KINDS.find((one) => one === kind) ?? 'ValidatingWebhookConfiguration', name };
}

function listInstalled(store: Store): readonly WebhookConfiguration[] {
  return KEYS.map(parseKey).flatMap(({ kind, name }) => store.get(kind, name) ?? []);
}

/** Creates the function that returns the configurations that the settings require; none without the namespace. */
function createRequirements({ settings, service, version, webhooks, features }: ControllerContext) {
  return (store: Store, policies: ObservedPolicies): readonly RequiredConfiguration[] => {
    const namespace = store.get('Namespace', service.namespace);
    if (!namespace || namespace.metadata?.deletionTimestamp != null) return [];
    const { timeoutSeconds } = settings.value.webhooks;
    const scope = { store, namespace: service.namespace, version };
    const optional = enabledOptionalFeatures(features, settings.value);
    const defaults = policies.hasDefaults ? undefined : selectedNamespaces(settings.value.defaults);
    const floor = policies.floor !== undefined;
    const enforcement = { ...getEnforcement(settings.value, scope), ...optional, defaults, floor };
    return requiredConfigurations(webhooks.registrations, enforcement, { service, url: webhooks.url, timeoutSeconds });
  };
}

/** The policies in the cluster. They replace webhooks when API servers have had time to observe them. */
interface ObservedPolicies {
  /** The state of the policies that let webhooks fail open. Absent if webhooks fail closed. */
  readonly floor: string | undefined;
  /** True if API servers set the defaults of pods. A registered webhook stays until they have observed the policy. */
  readonly hasDefaults: boolean;
  /** True if a policy will replace a webhook soon. */
  readonly isSettling: boolean;
}

/**
 * The state of the policies that let the webhooks of the configuration fail open. A new leader reads it, so webhooks do not
 * fail closed at each leader change.
 */
const FLOOR_ANNOTATION = 'portcullis.dev/floor';

/** Creates the function that returns which policies in the cluster replace webhooks of a configuration. */
function createPolicyObserver({ settings, apiServerVersion, ...context }: ControllerContext) {
  const getState = createFloorState({ ...context, settings, apiServerVersion });
  const watches = { floor: createStopwatch(), defaults: createStopwatch() };
  return (store: Store, current: WebhookConfiguration | undefined, nowMs: number): ObservedPolicies => {
    const recorded = current?.metadata?.annotations?.[FLOOR_ANNOTATION];
    // Until the version of the API server is known, the policies cannot be compared with the settings.
    const state = apiServerVersion.value === undefined ? recorded : getState(store);
    const floor = settings.value.webhooks.failurePolicy === 'Ignore' ? state : undefined;
    const floorMs = watches.floor.elapsedMs(floor, nowMs);
    const uids = DEFAULTS_KINDS.map((kind) => store.get(kind, DEFAULTS_POLICY)?.metadata?.uid);
    const defaults = watches.defaults.elapsedMs(uids.includes(undefined) ? undefined : uids.join(), nowMs);
    // The webhook configuration has the name of the policy.
    const hasWebhook = store.get('MutatingWebhookConfiguration', DEFAULTS_POLICY) !== undefined;
    const isSettled = (ms: number | undefined): boolean => ms !== undefined && ms >= SETTLE_MS;
    const isOpen = floor !== undefined && (floor === recorded || isSettled(floorMs));
    return {
      floor: isOpen ? floor : undefined,
      hasDefaults: defaults !== undefined && (isSettled(defaults) || !hasWebhook),
      isSettling: (floor !== undefined && !isOpen) || (defaults !== undefined && !isSettled(defaults)),
    };
  };
}

function getEnforcement(
  settings: Settings,
  scope: RolloutScope,
): Omit<Enforcement, keyof OptionalEnforcement | 'defaults' | 'floor'> {
  const { rollout, scc, workloadResources: workloads, podSecurity } = settings;
  return {
    podSecurity: effectivePodSecurity(scope, settings).configuration.defaults.enforce !== 'privileged',
    rollout: rollout.phase !== 'Disabled',
    exemptions: podSecurity.configuration.exemptions,
    scc,
    someSccs:
      scc.mode === 'enforce' || scope.store.list('Namespace').some((one) => sccMode(one, scc).mode === 'enforce'),
    workloads,
  };
}

/** The service of a slice. */
const SERVICE_LABEL = 'kubernetes.io/service-name';

function belongsTo({ metadata }: EndpointSlice, { namespace, name }: Service): boolean {
  return metadata?.namespace === namespace && metadata.labels?.[SERVICE_LABEL] === name;
}

/** True if the service has a ready endpoint. A URL is assumed to lead to this replica, which is ready. */
function hasEndpoint(store: Store, { service, webhooks }: Pick<ControllerContext, 'service' | 'webhooks'>): boolean {
  if (webhooks.url !== undefined) return true;
  return store
    .list('EndpointSlice', service.namespace)
    .filter((slice) => belongsTo(slice, service))
    .some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions?.ready !== false));
}

/** True if the `caBundle` of each webhook trusts the certificate of this replica. */
function isTrustedBy(current: WebhookConfiguration, { certificate, service, date }: ControllerContext): boolean {
  const { webhooks = [] } = current;
  if (webhooks.some(({ clientConfig }) => !clientConfig.caBundle)) return false;
  const trust = { pair: certificate.served.current(), configurations: [current], service, now: date() };
  return findTrustProblems(trust).length + findOtherTrustProblems(trust, []).length === 0;
}

/** Opens the webhooks that do not fail closed already. Returns the argument if no webhook is opened. */
function openUnlessClosed(
  required: RequiredConfiguration,
  current: WebhookConfiguration | undefined,
): RequiredConfiguration {
  const closed = new Set(
    current?.webhooks?.flatMap(({ name, failurePolicy }) => (failurePolicy === 'Fail' ? name : [])),
  );
  const isOpened = ({ name, failurePolicy }: Webhook): boolean => failurePolicy === 'Fail' && !closed.has(name);
  if (!required.webhooks.some(isOpened)) return required;
  const open = (webhook: Webhook): Webhook => ({
    ...webhook,
    failurePolicy: 'Ignore',
    timeoutSeconds: openSeconds(webhook.timeoutSeconds),
  });
  return { ...required, webhooks: required.webhooks.map((one) => (isOpened(one) ? open(one) : one)) };
}

interface MergeOptions {
  readonly annotations: Readonly<Record<string, string>>;
  /** All configurations of the installation. */
  readonly installed: readonly WebhookConfiguration[];
}

/** Sets the fields of this controller. A new webhook gets the authorities of the present ones. */
function mergeConfiguration(
  { name, webhooks }: RequiredConfiguration,
  current: WebhookConfiguration | undefined,
  { annotations, installed }: MergeOptions,
): WebhookConfiguration {
  const [caBundle] = installed.flatMap((one) => getWebhooks(one).flatMap((webhook) => webhook.caBundle || []));
  const { metadata } = current ?? {};
  const kept = Object.entries(metadata?.annotations ?? {}).filter(
    ([key]) => !isCaInjection(key) && key !== FLOOR_ANNOTATION,
  );
  const merged: ObjectMeta = {
    ...(metadata ?? { name }),
    labels: { ...metadata?.labels, ...WEBHOOK_LABELS },
    annotations: { ...Object.fromEntries(kept), ...annotations },
  };
  const merge = (required: Webhook): Webhook => {
    const existing = current?.webhooks?.find((one) => one.name === required.name);
    const bundle = existing?.clientConfig.caBundle ?? caBundle;
    const { clientConfig, matchConditions } = required;
    return {
      ...existing,
      ...required,
      clientConfig: { ...clientConfig, ...(bundle === undefined ? {} : { caBundle: bundle }) },
      ...(existing?.matchConditions && !matchConditions ? { matchConditions: [] } : {}),
    };
  };
  return { ...current, metadata: merged, webhooks: webhooks.map(merge) };
}

/** While break-glass is on, the webhooks stay as they are, and none is registered. */
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
  const closed = webhooks.flatMap((one) => (one.failurePolicy === 'Fail' ? one.name : []));
  logger.info({ kind, name, failClosed: closed }, `webhook configuration ${isNew ? 'created' : 'updated'}`);
}
