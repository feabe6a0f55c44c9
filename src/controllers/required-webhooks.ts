/**
 * Computes the webhook configurations that the settings require. They determine which webhooks API servers call, for
 * which namespaces, and which webhooks fail closed. Only webhooks that enforce a policy fail closed.
 */
import type { V1LabelSelectorRequirement, V1ValidatingWebhook } from '@kubernetes/client-node';
import { ENFORCE_LABEL, FAIL_OPEN, TIER_LABEL } from '../api/names.ts';
import {
  CONFIGURATION_KINDS,
  CONFIGURATION_NAMES,
  type ConfigurationKind,
  OWN_LABEL_PREFIX,
  unchangedNamespaces,
  type WebhookFeature,
  type WebhookRegistration,
} from '../api/webhooks.ts';
import type { Store } from '../cluster/store.ts';
import type { Settings } from '../config/settings.ts';
import { matchesLabelSelector } from '../kube/label-selector.ts';
import type { Namespace, Wire } from '../kube/types.ts';
import { matchesRule } from '../kube/webhook-rules.ts';
import { KUBE_SYSTEM, NAMESPACE_NAME_LABEL, POD_SECURITY_LABELS } from '../kube/well-known.ts';
import type { WorkloadResource } from '../policy/pod/index.ts';
import { type PodSecurityConfiguration, selectedNamespaces } from '../policy/psa/index.ts';
import {
  mayEnterEveryPod,
  PRIVILEGED_SCC,
  SCC_MODE_LABEL,
  type SccSettings,
  selectEnforcedNamespaces,
  selectSccNamespaces,
} from '../policy/scc/index.ts';
import type { Service } from '../tls/index.ts';
import { effectivePodSecurity } from '../views/rollout.ts';
import type { ControllerContext } from './controller.ts';

/** The reviews and enforcement of an installation. */
export interface Enforcement {
  /** True if the default level can deny pods in namespaces that have no Pod Security labels. */
  readonly defaultLevel: boolean;
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
  /** Namespaces in which the webhook defaults new pods. If absent, the webhook defaults no pods. */
  readonly defaults?: readonly Requirement[] | undefined;
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
  /**
   * True if the floor policies apply to pods while no replica responds. In that case, the Pod Security webhooks fail
   * open, except where only replicas enforce the level. The SCC webhooks also fail open for pods to which the baseline
   * or restricted level applies.
   */
  readonly floor: boolean;
  /** True if users who may use the `privileged` SCC may use `exec` and `attach` on every pod without a review. */
  readonly privilegedStreams: boolean;
  /** Pods that neither Pod Security nor the floor evaluates. */
  readonly exemptions: PodSecurityConfiguration['exemptions'];
  /** Additional resources that webhooks review as workloads. */
  readonly workloads: readonly WorkloadResource[];
}

/** Address at which API servers reach the webhooks. */
interface WebhookTarget {
  /** The installation's Service. Its namespace is never reviewed. */
  readonly service: Service;
  /** Base URL to use instead of the Service. */
  readonly url?: string | undefined;
  /** Timeout of fail-closed webhooks. By default, each webhook uses its own timeout. */
  readonly timeoutSeconds?: number | undefined;
}

export type RequiredWebhook = Wire<V1ValidatingWebhook>;

export interface RequiredConfiguration {
  readonly kind: ConfigurationKind;
  readonly name: string;
  readonly webhooks: readonly RequiredWebhook[];
}

/** Returns the configurations that contain at least one webhook whose feature is on. */
export function requiredConfigurations(
  registrations: readonly WebhookRegistration[],
  enforcement: Enforcement,
  target: WebhookTarget,
): readonly RequiredConfiguration[] {
  return CONFIGURATION_KINDS.flatMap((kind) => {
    const webhooks = registrations
      .filter((registration) => registration.kind === kind)
      .flatMap((registration) => createWebhooks(registration, enforcement, target));
    return webhooks.length === 0 ? [] : [{ kind, name: CONFIGURATION_NAMES[kind], webhooks }];
  });
}

/** Returns the enforcement that the settings require. `state` contains the values that depend on the cluster. */
export function requiredEnforcement(
  { exceptions, rollout, kubelet, olm, scc, podSecurity, workloadResources }: Settings,
  features: ControllerContext['features'],
  state: Pick<Enforcement, 'defaultLevel' | 'floor' | 'privilegedStreams' | 'defaults'>,
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

/** Inputs besides the settings on which the enforcement depends. */
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
    defaultLevel: podSecurity.configuration.defaults.enforce !== 'privileged',
    defaults: policies.hasDefaults ? undefined : selectedNamespaces(defaults),
    floor: policies.floor,
    privilegedStreams: mayEnterEveryPod(scc, store.get('SecurityContextConstraints', PRIVILEGED_SCC)),
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
    .filter(
      ({ failurePolicy, rules }) =>
        failurePolicy === 'Fail' && rules?.some((rule) => matchesRule(rule, NEW_POD, PODS)) === true,
    );
  return ({ metadata }) =>
    closed.some(({ namespaceSelector = {} }) => matchesLabelSelector(namespaceSelector, metadata?.labels));
}

const NEW_POD = { operation: 'CREATE', namespace: 'any', subresource: '' } as const;
const PODS = { group: '', version: 'v1', resource: 'pods' };

type Requirement = Wire<V1LabelSelectorRequirement>;

/**
 * A set of namespaces that share a failure policy. Label selectors cannot express "or", so each tier has its own
 * webhooks, and each namespace belongs to a single tier.
 */
interface Tier {
  /** Prefix of webhook names. */
  readonly prefix: string;
  /**
   * While no replica responds, requests are denied in a `closed` tier and allowed in all other tiers. An `exposed` tier
   * then allows requests that a review would deny, so API servers wait longer for its reviews.
   */
  readonly failure: 'closed' | 'exposed' | 'open';
  readonly namespaces: readonly Requirement[];
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

/**
 * Requirements for namespaces that are labeled to fail open, such as those for networking, DNS and storage, and for all
 * other namespaces.
 */
const [LABELED_OPEN, NOT_LABELED_OPEN] = [isIn(TIER_LABEL, FAIL_OPEN), isNot(TIER_LABEL, FAIL_OPEN)];

/**
 * Returns the tiers of reviews that validate pods for all policies. A tier fails closed if one policy requires it.
 * Namespaces with the `portcullis.dev/enforce` label fail closed, because only replicas enforce this label. API servers
 * enforce the upstream label through their plugin or the floor, and the default level through the floor.
 */
function podTiers(enforcement: Enforcement, { namespace }: Service): readonly Tier[] {
  const { defaultLevel, floor, scc } = enforcement;
  const reviewed = isNot(NAMESPACE_NAME_LABEL, KUBE_SYSTEM, namespace);
  const closed = [reviewed, NOT_LABELED_OPEN];
  const failure = floor ? 'open' : defaultLevel ? 'closed' : 'exposed';
  const others: Tier = { prefix: '', failure, namespaces: [...closed, isAbsent(ENFORCE_LABEL)] };
  return [
    ...(scc.mode === 'off' || failure === 'closed' ? [others] : splitBySccs(others, enforcement, namespace)),
    { prefix: OWN_LABEL_PREFIX, failure: 'closed', namespaces: [...closed, isSet(ENFORCE_LABEL)] },
    { prefix: 'fail-open.', failure: 'exposed', namespaces: [reviewed, LABELED_OPEN] },
    // Pods in kube-system must be able to start before the replicas when a cluster starts.
    { prefix: `${KUBE_SYSTEM}.`, failure: 'exposed', namespaces: [isIn(NAMESPACE_NAME_LABEL, KUBE_SYSTEM)] },
  ];
}

/**
 * Splits a tier that fails open, so that it fails closed in namespaces where SCCs are enforced. OpenShift's labels that
 * exempt a namespace do not change its tier, because each label would require another webhook.
 */
function splitBySccs(tier: Tier, enforcement: Enforcement, installation: string): readonly Tier[] {
  const { mode, exemptNamespaces } = enforcement.scc;
  const select = (prefix: string, ...namespaces: readonly Requirement[]): Tier => ({
    ...tier,
    prefix,
    namespaces: [...tier.namespaces, ...namespaces],
  });
  // As in `sccMode`, an unknown label value means that SCCs are enforced.
  const [notEnforced, enforced] = [isIn(SCC_MODE_LABEL, 'off', 'report'), isNot(SCC_MODE_LABEL, 'off', 'report')];
  const exempt = exemptNamespaces.filter((name) => !unchangedNamespaces(installation).includes(name));
  const [closed, open] =
    mode !== 'enforce'
      ? [select('', isSet(SCC_MODE_LABEL), enforced), [select('unlabeled.', isAbsent(SCC_MODE_LABEL))]]
      : exempt.length === 0
        ? [select('', enforced), []]
        : [
            select('', enforced, isNot(NAMESPACE_NAME_LABEL, ...exempt)),
            [select('exempt.', enforced, isIn(NAMESPACE_NAME_LABEL, ...exempt))],
          ];
  return [...splitByFloor({ ...closed, failure: 'closed' }, enforcement), select('report.', notEnforced), ...open];
}

/** Returns the tiers of reviews that only SCCs require. Excludes the namespaces that SCC admission ignores. */
function sccTiers(
  enforcement: Enforcement,
  { namespace }: Service,
  { failure, kind }: WebhookRegistration,
): readonly Tier[] {
  const { scc } = enforcement;
  const unchanged = unchangedNamespaces(namespace);
  const enforced = selectEnforcedNamespaces(scc, unchanged);
  const closed: Tier = { prefix: '', failure: 'closed', namespaces: [...enforced, NOT_LABELED_OPEN] };
  const open = (prefix: string, ...requirements: readonly Requirement[]): Tier => ({
    prefix,
    failure: 'open',
    namespaces: [...selectSccNamespaces(scc, unchanged), ...requirements],
  });
  if (failure === 'open') return [open('')];
  // In report mode, SCC admission changes no pods.
  const reported =
    kind === 'MutatingWebhookConfiguration'
      ? []
      : [
          open('report.', isIn(SCC_MODE_LABEL, 'report')),
          ...(scc.mode === 'enforce' ? [] : [open('unlabeled.', isAbsent(SCC_MODE_LABEL))]),
        ];
  return [
    ...(failure === 'floor' ? splitByFloor(closed, enforcement) : [closed]),
    { prefix: 'fail-open.', failure: 'exposed', namespaces: [...enforced, LABELED_OPEN] },
    ...reported,
  ];
}

/**
 * While the floor is in force, makes a tier fail open for pods on which the floor enforces the baseline or restricted
 * level. The tier still fails closed in privileged and exempt namespaces. If there are exempt users or runtime classes,
 * it fails closed for all pods, because selectors cannot match them.
 */
function splitByFloor(tier: Tier, { floor, defaultLevel, exemptions }: Enforcement): readonly Tier[] {
  const { namespaces: exempt, usernames, runtimeClasses } = exemptions;
  if (!floor || usernames.length + runtimeClasses.length > 0) return [tier];
  const key = POD_SECURITY_LABELS.enforce;
  const [limited, others] = defaultLevel
    ? [isNot(key, 'privileged'), isIn(key, 'privileged')]
    : [isIn(key, 'baseline', 'restricted'), isNot(key, 'baseline', 'restricted')];
  const select = (prefix: string, failure: Tier['failure'], ...namespaces: readonly Requirement[]): Tier => ({
    prefix,
    failure,
    namespaces: [...tier.namespaces, ...namespaces],
  });
  if (exempt.length === 0) return [select('', 'closed', others), select('floor.', 'open', limited)];
  return [
    select('', 'closed', others),
    select('floor.', 'open', limited, isNot(NAMESPACE_NAME_LABEL, ...exempt)),
    select('floor-exempt.', 'closed', limited, isIn(NAMESPACE_NAME_LABEL, ...exempt)),
  ];
}

/** Returns the webhooks of a registration, one for each tier. Returns none if its features are off. */
function createWebhooks(
  registration: WebhookRegistration,
  enforcement: Enforcement,
  target: WebhookTarget,
): readonly RequiredWebhook[] {
  const isOn: Readonly<Record<WebhookFeature, boolean>> = {
    ...enforcement,
    podSecurity: true,
    scc: enforcement.scc.mode !== 'off',
    defaults: enforcement.defaults !== undefined,
  };
  const { reviewsWorkloadResources = false } = registration;
  const rules = [
    ...registration.rules.filter(({ feature }) => isOn[feature]).map((registered) => registered.rule),
    ...(reviewsWorkloadResources ? enforcement.workloads.map(workloadRule) : []),
  ];
  if (rules.length === 0) return [];
  const matchConditions = (registration.matchConditions ?? [])
    .filter(({ feature, unless }) => (!feature || isOn[feature]) && !(unless && isOn[unless]))
    .map(({ name, expression }) => ({ name, expression }));
  return findTiers(registration, enforcement, target.service).map((tier) =>
    createWebhook({ ...registration, rules, matchConditions }, tier, target),
  );
}

function findTiers(registration: WebhookRegistration, enforcement: Enforcement, service: Service): readonly Tier[] {
  const { failure, namespaces, rules } = registration;
  const all = { prefix: '', failure: failure === 'closed' ? 'closed' : 'open' } as const;
  if (namespaces === undefined) return [{ ...all, namespaces: [] }];
  switch (namespaces) {
    case 'sccs':
      return sccTiers(enforcement, service, registration);
    case 'reviewed':
      if (failure === 'floor') return podTiers(enforcement, service);
      return [{ ...all, namespaces: [isNot(NAMESPACE_NAME_LABEL, service.namespace)] }];
    case 'changed': {
      const selected = rules.some(({ feature }) => feature === 'defaults') ? (enforcement.defaults ?? []) : [];
      // The policy for the service account permits mutating webhooks for pods only if they exclude these namespaces.
      const excluded = isNot(NAMESPACE_NAME_LABEL, ...unchangedNamespaces(service.namespace));
      return [{ ...all, namespaces: [...selected, excluded] }];
    }
  }
}

function workloadRule({ group, version, resource }: WorkloadResource): NonNullable<RequiredWebhook['rules']>[number] {
  const operations = ['CREATE', 'UPDATE'];
  return { apiGroups: [group], apiVersions: [version], operations, resources: [resource], scope: 'Namespaced' };
}

/** Maximum timeout of other fail-open webhooks. */
const OPEN_SECONDS = 5;
/** Timeout of exposed tiers. It is long enough for a busy API server to send several large reviews. */
const EXPOSED_SECONDS = 15;

/** Returns a webhook that sets all fields that API servers would otherwise default. */
function createWebhook(
  registration: Pick<WebhookRegistration, 'name' | 'path' | 'kind' | 'timeoutSeconds'> &
    Required<Pick<RequiredWebhook, 'rules' | 'matchConditions'>>,
  { prefix, failure, namespaces }: Tier,
  { service, url, timeoutSeconds: closedTimeout }: WebhookTarget,
): RequiredWebhook {
  const { name, path, kind, rules, matchConditions, timeoutSeconds } = registration;
  const seconds = {
    closed: closedTimeout ?? timeoutSeconds,
    exposed: EXPOSED_SECONDS,
    open: openSeconds(timeoutSeconds),
  };
  return {
    name: `${prefix}${name}`,
    admissionReviewVersions: ['v1'],
    clientConfig: url === undefined ? { service: { ...service, path, port: 443 } } : { url: `${url}${path}` },
    rules,
    namespaceSelector: namespaces.length === 0 ? {} : { matchExpressions: namespaces },
    objectSelector: {},
    ...(matchConditions.length > 0 ? { matchConditions } : {}),
    matchPolicy: 'Equivalent',
    sideEffects: 'None',
    failurePolicy: failure === 'closed' ? 'Fail' : 'Ignore',
    timeoutSeconds: seconds[failure],
    ...(kind === 'MutatingWebhookConfiguration' ? { reinvocationPolicy: 'IfNeeded' } : {}),
  };
}

export function openSeconds(timeoutSeconds = OPEN_SECONDS): number {
  return Math.min(timeoutSeconds, OPEN_SECONDS);
}

/**
 * Prevents AKS from excluding its own namespaces, which is unnecessary because the selectors already ensure that a
 * cluster can start.
 */
export const AKS_ANNOTATIONS: Readonly<Record<string, string>> = { 'admissions.enforcer/disabled': 'true' };
