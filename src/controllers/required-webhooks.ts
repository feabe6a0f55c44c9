/**
 * Computes the webhook configurations that the settings require: which webhooks API servers call, for which namespaces,
 * and which of them fail closed. Only webhooks that enforce a policy fail closed.
 */
import type { V1LabelSelectorRequirement, V1MatchCondition, V1ValidatingWebhook } from '@kubernetes/client-node';
import { effectivePodSecurity } from '../cluster/rollout.ts';
import type { Store } from '../cluster/store.ts';
import type { Settings } from '../config/settings.ts';
import { celList } from '../kube/cel.ts';
import { matchesLabelSelector } from '../kube/label-selector.ts';
import type { Namespace, Wire } from '../kube/types.ts';
import {
  EXEMPT_CONDITION,
  type InstalledConfiguration,
  matchesRule,
  OWN_LABEL_PREFIX,
  unchangedNamespaces,
  type WebhookRegistration,
} from '../kube/webhooks.ts';
import {
  ENFORCE_LABEL,
  FAIL_OPEN,
  KUBE_SYSTEM,
  NAMESPACE_NAME_LABEL,
  POD_SECURITY_LABELS,
  TIER_LABEL,
} from '../kube/well-known.ts';
import type { WorkloadResource } from '../policy/pod/templates.ts';
import type { PodSecurityConfiguration } from '../policy/psa/configuration.ts';
import { selectedNamespaces } from '../policy/psa/defaults.ts';
import {
  SCC_MODE_LABEL,
  sccMode,
  type SccSettings,
  selectEnforcedNamespaces,
  selectSccNamespaces,
} from '../policy/scc/mode.ts';
import { mayEnterEveryPod, PRIVILEGED_SCC } from '../policy/scc/standard.ts';
import type { Service } from '../tls/trust.ts';
import type { ControllerContext } from './controller.ts';

/** The reviews and enforcement of an installation. */
export interface Enforcement {
  /** True if the default level can deny pods in namespaces that have no Pod Security labels. */
  readonly podSecurity: boolean;
  /** True if PodSecurityExceptions are reviewed. */
  readonly exceptions: boolean;
  /** True if the rollout is not `Disabled`. */
  readonly rollout: boolean;
  /** True if the feature is installed and the settings contain `kubelet`. */
  readonly kubelet: boolean;
  /** True if nodes' certificate requests are also reviewed. */
  readonly kubeletCertificates: boolean;
  /** True if nodes' Leases and mirror pods are also reviewed. */
  readonly kubeletNodeWrites: boolean;
  /** True if the feature is installed and pod hardening is not `off`. */
  readonly olm: boolean;
  /** Namespaces where the webhook defaults new pods. If absent, it defaults no pods. */
  readonly defaults?: readonly Requirement[] | undefined;
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
  /** True if SCCs are enforced by default or in at least one namespace. */
  readonly someSccs: boolean;
  /**
   * True if the floor policies apply to pods while no replica responds. In that case, the Pod Security webhooks fail
   * open, except where only replicas enforce the level, and so do the SCC webhooks for pods that the baseline or
   * restricted level applies to.
   */
  readonly floor: boolean;
  /** True if users who may use the `privileged` SCC may enter every pod without a review. */
  readonly privileged: boolean;
  /** Pods that neither Pod Security nor the floor evaluates. */
  readonly exemptions: PodSecurityConfiguration['exemptions'];
  /** Additional resources that the advisory webhook reviews. */
  readonly workloads: readonly WorkloadResource[];
}

/** How API servers reach the webhooks. */
interface WebhookTarget {
  /** The installation's Service. Its namespace is never reviewed. */
  readonly service: Service;
  /** Base URL to use instead of the Service. */
  readonly url?: string | undefined;
  /** Timeout of fail-closed webhooks. By default, each webhook uses its own timeout. */
  readonly timeoutSeconds?: number | undefined;
}

export type Webhook = Wire<V1ValidatingWebhook>;

export type RequiredConfiguration = InstalledConfiguration & { readonly webhooks: readonly Webhook[] };

/** Returns the configurations of all webhooks whose feature is enabled. */
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

/** Returns the enforcement that the settings require. `state` contains the values that depend on the cluster. */
export function requiredEnforcement(
  { exceptions, rollout, kubelet, olm, scc, podSecurity, workloadResources }: Settings,
  features: ControllerContext['features'],
  state: Pick<Enforcement, 'podSecurity' | 'someSccs' | 'floor' | 'privileged' | 'defaults'>,
): Enforcement {
  const hasKubelet = features.kubelet && kubelet.isOn;
  return {
    exceptions: exceptions.mode !== 'off',
    rollout: rollout.phase !== 'Disabled',
    kubelet: hasKubelet,
    kubeletCertificates: hasKubelet && kubelet.admission.certificates,
    kubeletNodeWrites: hasKubelet && kubelet.admission.nodeWrites,
    olm: features.olm && olm.hardening.mode !== 'off',
    scc,
    exemptions: podSecurity.configuration.exemptions,
    workloads: workloadResources,
    ...state,
  };
}

/** The cluster and the installation, on which the enforcement depends beside the settings. */
type EnforcementScope = Pick<ControllerContext, 'service' | 'version' | 'features'> & { readonly store: Store };

/** Returns the enforcement that the settings require in a cluster in which these policies are in force. */
export function currentEnforcement(
  settings: Settings,
  { store, service, version, features }: EnforcementScope,
  policies: { readonly floor: boolean; readonly hasDefaults: boolean },
): Enforcement {
  const { scc, defaults } = settings;
  const podSecurity = effectivePodSecurity({ store, namespace: service.namespace, version }, settings);
  return requiredEnforcement(settings, features, {
    podSecurity: podSecurity.configuration.defaults.enforce !== 'privileged',
    someSccs: scc.mode === 'enforce' || store.list('Namespace').some((one) => sccMode(one, scc).mode === 'enforce'),
    defaults: policies.hasDefaults ? undefined : selectedNamespaces(defaults),
    floor: policies.floor,
    privileged: mayEnterEveryPod(scc, store.get('SecurityContextConstraints', PRIVILEGED_SCC)),
  });
}

/**
 * Creates the function that returns true for namespaces in which no pods can be created while no replica responds. If
 * the settings require the floor, assumes that it is in force.
 */
export function createFailsClosed(
  registrations: readonly WebhookRegistration[],
  settings: Settings,
  scope: EnforcementScope,
): (namespace: Namespace) => boolean {
  const floor = settings.floor.mode === 'enforce' && settings.webhooks.failurePolicy === 'Ignore';
  const enforcement = currentEnforcement(settings, scope, { floor, hasDefaults: true });
  const closed = requiredConfigurations(registrations, enforcement, { service: scope.service })
    .flatMap(({ webhooks }) => webhooks)
    .filter(({ failurePolicy, rules, matchConditions }) => {
      const isForAll = matchConditions?.every(({ name }) => name !== EXEMPT_CONDITION) ?? true;
      return failurePolicy === 'Fail' && isForAll && rules?.some((one) => matchesRule(one, NEW_POD, PODS)) === true;
    });
  return ({ metadata }) =>
    closed.some(({ namespaceSelector = {} }) => matchesLabelSelector(namespaceSelector, metadata?.labels));
}

const NEW_POD = { operation: 'CREATE', namespace: 'any', subresource: '' } as const;
const PODS = { group: '', version: 'v1', resource: 'pods' };

type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * Namespaces that share a failure policy. Label selectors cannot express "or", so each tier has its own webhooks and
 * each namespace belongs to a single tier.
 */
interface Tier {
  /** Prefix of webhook names. */
  readonly prefix: string;
  /**
   * Requests that no replica reviews are denied if the tier is `closed`, and otherwise allowed. An `exposed` tier allows
   * requests that a review would deny, so API servers wait longer for its reviews.
   */
  readonly failure: 'closed' | 'exposed' | 'open';
  readonly namespaces: readonly Requirement[];
  readonly condition?: Wire<V1MatchCondition>;
}

function isNot(key: string, ...values: readonly string[]): Requirement {
  return { key, operator: 'NotIn', values };
}

function isIn(key: string, ...values: readonly string[]): Requirement {
  return { key, operator: 'In', values };
}

function isSet(key: string): Requirement {
  return { key, operator: 'Exists' };
}

function isAbsent(key: string): Requirement {
  return { key, operator: 'DoesNotExist' };
}

/** Namespaces labeled for networking, DNS and storage, and all others. */
const [LABELED_OPEN, NOT_LABELED_OPEN] = [isIn(TIER_LABEL, FAIL_OPEN), isNot(TIER_LABEL, FAIL_OPEN)];

/**
 * Returns the same tiers in every state, so a change of state opens no tier that must remain closed. Namespaces with the
 * own label fail closed, because only replicas enforce it. API servers enforce the upstream label with their plugin or
 * the floor, and the default level with the floor.
 */
function podSecurityTiers({ podSecurity, floor }: Enforcement, { namespace }: Service): readonly Tier[] {
  const reviewed = isNot(NAMESPACE_NAME_LABEL, KUBE_SYSTEM, namespace);
  const closed = [reviewed, NOT_LABELED_OPEN];
  return [
    {
      prefix: '',
      failure: floor ? 'open' : podSecurity ? 'closed' : 'exposed',
      namespaces: [...closed, isAbsent(ENFORCE_LABEL)],
    },
    { prefix: OWN_LABEL_PREFIX, failure: 'closed', namespaces: [...closed, isSet(ENFORCE_LABEL)] },
    { prefix: 'fail-open.', failure: 'exposed', namespaces: [reviewed, LABELED_OPEN] },
    // When a cluster starts, the pods in kube-system must be able to start first.
    { prefix: `${KUBE_SYSTEM}.`, failure: 'exposed', namespaces: [isIn(NAMESPACE_NAME_LABEL, KUBE_SYSTEM)] },
  ];
}

/** Excludes the namespaces that the server ignores. As in `sccMode`, an unknown label value means enforcement. */
function sccTiers(enforcement: Enforcement, { namespace }: Service, hasFloor: boolean): readonly Tier[] {
  const { scc, someSccs, floor } = enforcement;
  const unchanged = unchangedNamespaces(namespace);
  const reviewed = selectSccNamespaces(scc, unchanged);
  const open = (prefix: string, requirement: Requirement): Tier => ({
    ...{ prefix, failure: 'open' },
    namespaces: [...reviewed, requirement],
  });
  if (!someSccs) return [open('', isNot(SCC_MODE_LABEL, 'off'))];
  const enforced = selectEnforcedNamespaces(scc, unchanged);
  const closed: Tier = { prefix: '', failure: 'closed', namespaces: [...enforced, NOT_LABELED_OPEN] };
  return [
    ...(floor && hasFloor ? splitByLevel(closed, enforcement) : [closed]),
    { prefix: 'fail-open.', failure: 'exposed', namespaces: [...enforced, LABELED_OPEN] },
    open('report.', isIn(SCC_MODE_LABEL, 'report')),
    ...(scc.mode === 'enforce' ? [] : [open('unlabeled.', isAbsent(SCC_MODE_LABEL))]),
  ];
}

/**
 * Makes a tier fail open for pods that the floor holds to the baseline or restricted level. It still fails closed for
 * pods that are exempt from Pod Security and for pods in privileged namespaces.
 */
function splitByLevel(tier: Tier, { podSecurity, exemptions }: Enforcement): readonly Tier[] {
  const key = POD_SECURITY_LABELS.enforce;
  const [limited, others] = podSecurity
    ? [isNot(key, 'privileged'), isIn(key, 'privileged')]
    : [isIn(key, 'baseline', 'restricted'), isNot(key, 'baseline', 'restricted')];
  const select = (...namespaces: readonly Requirement[]): Tier => ({
    ...tier,
    namespaces: [...tier.namespaces, ...namespaces],
  });
  const open: Tier = { ...select(limited), prefix: 'floor.', failure: 'open' };
  return [select(others), ...exemptNamespaces(open, exemptions).flatMap((one) => exemptPods(one, exemptions))];
}

/** Splits a fail-open tier so it fails closed for exempt namespaces. */
function exemptNamespaces(open: Tier, { namespaces: names }: Enforcement['exemptions']): readonly Tier[] {
  if (names.length === 0) return [open];
  const select = (requirement: Requirement): readonly Requirement[] => [...open.namespaces, requirement];
  return [
    { ...open, namespaces: select(isNot(NAMESPACE_NAME_LABEL, ...names)) },
    {
      prefix: 'exempt-namespaces.',
      failure: 'closed',
      namespaces: select(isIn(NAMESPACE_NAME_LABEL, ...names)),
    },
  ];
}

/** Splits a fail-open tier so it fails closed for exempt users and runtime classes. */
function exemptPods(tier: Tier, { usernames, runtimeClasses }: Enforcement['exemptions']): readonly Tier[] {
  const runtimeClass = 'object.spec.runtimeClassName';
  const isExempt = [
    ...(usernames.length === 0 ? [] : [`request.userInfo.username in ${celList(usernames)}`]),
    ...(runtimeClasses.length === 0 ? [] : [`has(${runtimeClass}) && ${runtimeClass} in ${celList(runtimeClasses)}`]),
  ].join(' || ');
  if (tier.failure === 'closed' || isExempt === '') return [tier];
  return [
    { ...tier, condition: { name: 'not-exempt', expression: `!(${isExempt})` } },
    { ...tier, prefix: 'exempt.', failure: 'closed', condition: { name: EXEMPT_CONDITION, expression: isExempt } },
  ];
}

/**
 * Returns the webhooks for one registration: one for each namespace tier, or a single one for cluster-scoped objects.
 */
function createWebhooks(
  registration: WebhookRegistration,
  enforcement: Enforcement,
  target: WebhookTarget,
): readonly Webhook[] {
  const { reviewsWorkloadResources = false, unlessPrivileged } = registration;
  const added = reviewsWorkloadResources ? enforcement.workloads.map(workloadRule) : [];
  const rules = [...registration.rules, ...added];
  const conditions = [
    ...(registration.matchConditions ?? []),
    ...(unlessPrivileged && enforcement.privileged ? [unlessPrivileged] : []),
  ];
  return findTiers(registration, enforcement, target).map((tier) =>
    createWebhook({ ...registration, rules, matchConditions: conditions }, tier, target),
  );
}

function findTiers(
  { feature, configuration, failure, isNamespaced }: WebhookRegistration,
  enforcement: Enforcement,
  { service }: WebhookTarget,
): readonly Tier[] {
  if (!isNamespaced) {
    const isClosed = failure === 'closed' && (feature !== 'scc' || enforcement.someSccs);
    return [{ prefix: '', failure: isClosed ? 'closed' : 'open', namespaces: [] }];
  }
  if (feature === 'scc') return sccTiers(enforcement, service, failure === 'floor');
  if (failure !== 'open') return podSecurityTiers(enforcement, service);
  // The policy for the service account permits mutating webhooks for pods only if they exclude all these namespaces.
  const isMutating = configuration.kind === 'MutatingWebhookConfiguration';
  const excluded = isMutating ? unchangedNamespaces(service.namespace) : [service.namespace];
  const selected = feature === 'defaults' ? (enforcement.defaults ?? []) : [];
  return [{ prefix: '', failure: 'open', namespaces: [...selected, isNot(NAMESPACE_NAME_LABEL, ...excluded)] }];
}

function workloadRule({ group, version, resource }: WorkloadResource): WebhookRegistration['rules'][number] {
  const operations = ['CREATE', 'UPDATE'];
  return { apiGroups: [group], apiVersions: [version], operations, resources: [resource], scope: 'Namespaced' };
}

/** Maximum timeout of other fail-open webhooks. */
const OPEN_SECONDS = 5;
/** Timeout of exposed tiers. It is long enough for a busy API server to send several large reviews. */
const EXPOSED_SECONDS = 15;

/** Returns a webhook that sets all fields that API servers would otherwise default. */
function createWebhook(
  registration: WebhookRegistration,
  { prefix, failure, namespaces, condition }: Tier,
  { service, url, timeoutSeconds: closedTimeout }: WebhookTarget,
): Webhook {
  const { name, path, configuration, rules, matchConditions, objectSelector = {}, timeoutSeconds } = registration;
  const seconds = {
    closed: closedTimeout ?? timeoutSeconds,
    exposed: EXPOSED_SECONDS,
    open: openSeconds(timeoutSeconds),
  };
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
    failurePolicy: failure === 'closed' ? 'Fail' : 'Ignore',
    timeoutSeconds: seconds[failure],
    ...(configuration.kind === 'MutatingWebhookConfiguration' ? { reinvocationPolicy: 'IfNeeded' } : {}),
  };
}

export function openSeconds(timeoutSeconds = OPEN_SECONDS): number {
  return Math.min(timeoutSeconds, OPEN_SECONDS);
}

/** Prevents AKS from excluding its own namespaces. The selectors already ensure that a cluster can start. */
export const AKS_ANNOTATIONS: Readonly<Record<string, string>> = { 'admissions.enforcer/disabled': 'true' };
