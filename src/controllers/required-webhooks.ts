/**
 * Computes the webhook configurations that the settings require: which webhooks API servers call, for which namespaces,
 * and which of them fail closed. Only webhooks that enforce a policy fail closed.
 */
import type { V1LabelSelectorRequirement, V1MatchCondition, V1ValidatingWebhook } from '@kubernetes/client-node';
import type { Settings } from '../config/settings.ts';
import { celList } from '../kube/cel.ts';
import type { Wire } from '../kube/types.ts';
import {
  EXEMPT_CONDITION,
  type InstalledConfiguration,
  unchangedNamespaces,
  type WebhookRegistration,
} from '../kube/webhooks.ts';
import { FAIL_OPEN, KUBE_SYSTEM, NAMESPACE_NAME_LABEL, POD_SECURITY_LABELS, TIER_LABEL } from '../kube/well-known.ts';
import type { WorkloadResource } from '../policy/pod/templates.ts';
import type { PodSecurityConfiguration } from '../policy/psa/configuration.ts';
import { SCC_MODE_LABEL, type SccSettings, selectEnforcedNamespaces, selectSccNamespaces } from '../policy/scc/mode.ts';
import type { Service } from '../tls/trust.ts';
import type { ControllerContext } from './controller.ts';

/** The reviews and enforcement of an installation. */
export interface Enforcement {
  /** True if the default level can deny pods in namespaces that have no Pod Security labels. */
  readonly podSecurity: boolean;
  /** True if PodSecurityExceptions can apply. If so, Pod Security webhooks fail closed. */
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
   * open, and so do the SCC webhooks for pods that the baseline or restricted level applies to.
   */
  readonly floor: boolean;
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
  state: Pick<Enforcement, 'podSecurity' | 'someSccs' | 'floor' | 'defaults'>,
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

type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * Namespaces that share a failure policy. Label selectors cannot express "or", so each tier has its own webhooks and
 * each namespace belongs to a single tier.
 */
interface Tier {
  /** Prefix of webhook names. */
  readonly prefix: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly namespaces: readonly Requirement[];
  readonly condition?: Wire<V1MatchCondition>;
  /** True if reviews can deny pods, so a timeout might admit a forbidden pod. */
  readonly mayDeny?: boolean;
}

function isNot(key: string, ...values: readonly string[]): Requirement {
  return { key, operator: 'NotIn', values };
}

function isIn(key: string, ...values: readonly string[]): Requirement {
  return { key, operator: 'In', values };
}

/** Returns tiers that fail closed, except in namespaces labeled for networking, DNS and storage. */
function closedTiers(namespaces: readonly Requirement[]): readonly Tier[] {
  return [
    { prefix: '', failurePolicy: 'Fail', namespaces: [...namespaces, isNot(TIER_LABEL, FAIL_OPEN)] },
    { ...openTier('fail-open.', [...namespaces, isIn(TIER_LABEL, FAIL_OPEN)]), mayDeny: true },
  ];
}

function openTier(prefix: string, namespaces: readonly Requirement[]): Tier {
  return { prefix, failurePolicy: 'Ignore', namespaces };
}

function podSecurityTiers(isEnforced: boolean, { namespace }: Service): readonly Tier[] {
  // Namespace labels may set levels even if no level is enforced by default.
  if (!isEnforced) return [{ ...openTier('', [isNot(NAMESPACE_NAME_LABEL, namespace)]), mayDeny: true }];
  return [
    ...closedTiers([isNot(NAMESPACE_NAME_LABEL, KUBE_SYSTEM, namespace)]),
    // When a cluster starts, the pods in kube-system must be able to start first.
    { ...openTier(`${KUBE_SYSTEM}.`, [isIn(NAMESPACE_NAME_LABEL, KUBE_SYSTEM)]), mayDeny: true },
  ];
}

/** Excludes the namespaces that the server ignores. As in `sccMode`, an unknown label value means enforcement. */
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
 * Makes a tier fail open for pods that the floor holds to the baseline or restricted level. It still fails closed for
 * pods that are exempt from Pod Security and for pods in privileged namespaces.
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

/** Splits a fail-open tier so it fails closed for exempt namespaces. */
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

/** Splits a fail-open tier so it fails closed for exempt users and runtime classes. */
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

/**
 * Returns the webhooks for one registration: one for each namespace tier, or a single one for cluster-scoped objects.
 */
function createWebhooks(
  registration: WebhookRegistration,
  enforcement: Enforcement,
  target: WebhookTarget,
): readonly Webhook[] {
  const { feature, isEnforcing, failsClosed = false, isNamespaced } = registration;
  const { hasFloor = false, reviewsWorkloadResources = false } = registration;
  if (!isNamespaced) {
    const isEnforced = isEnforcing && feature === 'scc' && enforcement.scc.mode === 'enforce';
    const failurePolicy = failsClosed || isEnforced ? 'Fail' : 'Ignore';
    return [createWebhook(registration, { prefix: '', failurePolicy, namespaces: [] }, target)];
  }
  const tiers = namespaceTiers(registration, enforcement, target);
  const added = reviewsWorkloadResources ? enforcement.workloads.map(workloadRule) : [];
  const rules = [...registration.rules, ...added];
  // The floor supports neither exceptions nor the levels that only Portcullis enforces.
  const isOpen = feature === 'psa' && hasFloor && enforcement.floor && !enforcement.exceptions;
  return tiers.map((tier) =>
    createWebhook(
      { ...registration, rules },
      isOpen ? { ...tier, failurePolicy: 'Ignore', mayDeny: false } : tier,
      target,
    ),
  );
}

function namespaceTiers(
  { feature, configuration, isEnforcing, hasFloor = false }: WebhookRegistration,
  enforcement: Enforcement,
  { service }: WebhookTarget,
): readonly Tier[] {
  if (feature === 'scc') return sccTiers(enforcement, service, hasFloor);
  if (configuration.kind === 'ValidatingWebhookConfiguration') {
    return podSecurityTiers(isEnforcing && (enforcement.podSecurity || enforcement.exceptions), service);
  }
  const selected = feature === 'defaults' ? (enforcement.defaults ?? []) : [];
  // The policy for the service account permits mutating webhooks for pods only with this requirement.
  return [openTier('', [...selected, isNot(NAMESPACE_NAME_LABEL, ...unchangedNamespaces(service.namespace))])];
}

function workloadRule({ group, version, resource }: WorkloadResource): WebhookRegistration['rules'][number] {
  const operations = ['CREATE', 'UPDATE'];
  return { apiGroups: [group], apiVersions: [version], operations, resources: [resource], scope: 'Namespaced' };
}

/** Maximum timeout of other fail-open webhooks. */
const FAIL_OPEN_SECONDS = 5;
/**
 * Timeout of fail-open webhooks that deny pods and that the floor does not back. It is long enough for a busy
 * API server to send several large reviews.
 */
const ENFORCING_FAIL_OPEN_SECONDS = 15;

/** Returns a webhook that sets all fields that API servers would otherwise default. */
function createWebhook(
  registration: WebhookRegistration,
  { prefix, failurePolicy, namespaces, condition, mayDeny = false }: Tier,
  { service, url, timeoutSeconds: closedTimeout }: WebhookTarget,
): Webhook {
  const { name, path, configuration, rules, matchConditions, objectSelector = {}, timeoutSeconds } = registration;
  const waitSeconds = registration.isEnforcing && mayDeny ? ENFORCING_FAIL_OPEN_SECONDS : openSeconds(timeoutSeconds);
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
    timeoutSeconds: failurePolicy === 'Fail' ? (closedTimeout ?? timeoutSeconds) : waitSeconds,
    ...(configuration.kind === 'MutatingWebhookConfiguration' ? { reinvocationPolicy: 'IfNeeded' } : {}),
  };
}

export function openSeconds(timeoutSeconds = FAIL_OPEN_SECONDS): number {
  return Math.min(timeoutSeconds, FAIL_OPEN_SECONDS);
}

/** Prevents AKS from excluding its own namespaces. The selectors already ensure that a cluster can start. */
export const AKS_ANNOTATIONS: Readonly<Record<string, string>> = { 'admissions.enforcer/disabled': 'true' };
