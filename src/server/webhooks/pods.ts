/** Reviews writes to pods. All policies decide in one review, so API servers send a pod at most twice. */
import { DEFAULTS_PREFIX, type WebhookRegistration } from '../../api/webhooks.ts';
import { checkSize, TooLargeError } from '../../cluster/json.ts';
import type { OlmSettings } from '../../config/settings.ts';
import { type AdmissionRequest, allow, combineDecisions, type Decision } from '../../kube/admission.ts';
import { celString } from '../../kube/cel.ts';
import { defined } from '../../kube/defined.ts';
import { LIMITS } from '../../kube/limits.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject, objectMember } from '../../kube/types.ts';
import { OLM_POD_EXPRESSION, readOlmPod, reviewOlmPod } from '../../policy/olm/index.ts';
import {
  completeNewPod,
  isLevelEnforced,
  NOT_MIRROR,
  type PodDefaults,
  type PodSecurity,
} from '../../policy/psa/index.ts';
import { podAnnotation, type SccSettings } from '../../policy/scc/index.ts';
import { createSccRecorder } from '../../telemetry/admission.ts';
import { countExceeded } from '../../telemetry/limits.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { namespaceMode, sccsSetUsers } from '../../views/scc-mode.ts';
import { allowUnlessEnforced } from '../limits.ts';
import { concludeScc, decideScc, enforcesSccs, type SccReview, type SccReviewDeps } from '../scc-review.ts';
import type { WebhookDefinition } from '../services.ts';
import {
  ANNOTATIONS_CHANGED,
  LABELS_CHANGED,
  relevantUpdate,
  webhookRule,
  type PodPolicy,
  type Webhook,
  type WebhookContext,
  WRITES,
} from '../webhook.ts';
import { createMirrorPodPolicy } from './nodes.ts';

const SPEC_CHANGED = 'object.spec != oldObject.spec';
const CHANGED_FOR_SCCS = relevantUpdate(`${SPEC_CHANGED} || ${LABELS_CHANGED} || ${ANNOTATIONS_CHANGED}`);

const MUTATE = { path: '/mutate/pods', kind: 'MutatingWebhookConfiguration' } as const;

/** The review that assigns SCCs. API servers call it for pods in namespaces that enforce SCCs. */
export const MUTATE_PODS: WebhookRegistration = {
  ...MUTATE,
  name: 'mutate.pods.portcullis.dev',
  description:
    'hardens new pods of the Operator Lifecycle Manager, sets absent security context fields and, where SCCs are enforced, assigns an SCC to the pod and defaults the pod. Only SCC admission denies pods. It waits up to 10 s for the ranges of a new namespace and for the standard SCCs of a new installation',
  rules: [
    { feature: 'scc', rule: webhookRule(WRITES, '', ['pods']) },
    { feature: 'scc', rule: webhookRule(['UPDATE'], '', ['pods/ephemeralcontainers', 'pods/resize']) },
  ],
  matchConditions: [CHANGED_FOR_SCCS],
  // The timeout is longer than the 10 s for which a review waits for the ranges of a new namespace, so the client
  // receives the reason for a denial.
  timeoutSeconds: 15,
  failure: 'floor',
  namespaces: 'sccs',
};

/**
 * Skips pods that already have an SCC, because the review that assigned it has made all changes. With a forged
 * annotation, users can only forgo hardening and defaults.
 */
const NOT_ASSIGNED = {
  feature: 'scc',
  name: 'not-assigned',
  expression: `!has(object.metadata.annotations) || !(${celString(POD_SCC_ANNOTATIONS.scc)} in object.metadata.annotations)`,
} as const;

/**
 * Only CREATE is reviewed, because security contexts are immutable. If the webhook is not called, policies still validate
 * the pod.
 */
const CREATED = { timeoutSeconds: 5, failure: 'open', namespaces: 'changed' } as const;
const CREATE_POD = webhookRule(['CREATE'], '', ['pods']);

/** The review of OLM pods in all namespaces. */
export const MUTATE_OLM_PODS: WebhookRegistration = {
  ...MUTATE,
  ...CREATED,
  name: `olm.${MUTATE_PODS.name}`,
  description: `hardens new pods of the Operator Lifecycle Manager to which \`${MUTATE_PODS.name}\` did not assign an SCC`,
  rules: [{ feature: 'olm', rule: CREATE_POD }],
  matchConditions: [{ name: 'olm-pod', expression: OLM_POD_EXPRESSION }, NOT_ASSIGNED],
};

/**
 * The review of pods in the namespaces that the pod defaults select. Registered only if the API server does not support
 * the MutatingAdmissionPolicy that sets the same defaults.
 */
export const MUTATE_DEFAULTED_PODS: WebhookRegistration = {
  ...MUTATE,
  ...CREATED,
  name: `${DEFAULTS_PREFIX}${MUTATE_PODS.name}`,
  description: `sets absent security context fields of new pods to which \`${MUTATE_PODS.name}\` did not assign an SCC. Registered only if API servers do not support the MutatingAdmissionPolicy that sets the same defaults`,
  rules: [{ feature: 'defaults', rule: CREATE_POD }],
  matchConditions: [NOT_MIRROR, NOT_ASSIGNED],
};

/** The review of pods after all mutations. Pod Security evaluates only the spec and the annotations of pods. */
export const VALIDATE_PODS: WebhookRegistration = {
  name: 'validate.pods.portcullis.dev',
  path: '/validate/pods',
  description:
    'evaluates Pod Security and SCCs for the pod after all mutations. In report mode, SCC admission only returns warnings. With the setting `spec.kubelet.admission.nodeWrites`, also denies mirror pods of nodes whose kubelet is below the minimum in force. If several policies deny the pod, the message contains all reasons',
  kind: 'ValidatingWebhookConfiguration',
  rules: [
    { feature: 'podSecurity', rule: webhookRule(WRITES, '', ['pods', 'pods/ephemeralcontainers']) },
    { feature: 'scc', rule: webhookRule(['UPDATE'], '', ['pods/resize']) },
  ],
  matchConditions: [
    { unless: 'scc', ...relevantUpdate(`${SPEC_CHANGED} || ${ANNOTATIONS_CHANGED}`) },
    { feature: 'scc', ...CHANGED_FOR_SCCS },
  ],
  timeoutSeconds: 15,
  failure: 'floor',
  namespaces: 'reviewed',
};

export const pods: WebhookDefinition = {
  registrations: [MUTATE_PODS, MUTATE_OLM_PODS, MUTATE_DEFAULTED_PODS, VALIDATE_PODS],
  create({ settings, podSecurity, scc, kubelet, metrics, podSecurityReviewer }) {
    const { decisions, validations } = metrics.scc;
    return [
      createMutatePods({
        ...scc,
        record: createSccRecorder(decisions),
        harden: createOlmHardening({ ...scc, mode: () => settings().olm.hardening.mode, metrics: metrics.olm }),
        defaults: () => settings().defaults,
      }),
      createValidatePods([
        podSecurityReviewer,
        createSccPolicy(
          { ...scc, record: createSccRecorder(validations, decisions) },
          { podSecurity, failsOpen: () => settings().webhooks.failurePolicy === 'Ignore' },
        ),
        createMirrorPodPolicy(kubelet),
      ]),
    ];
  },
};

interface MutateDeps extends SccReviewDeps {
  /** Hardens OLM pods. Never denies a pod. */
  harden(request: AdmissionRequest, context: WebhookContext): Decision;
  /** Returns the current pod defaults. */
  defaults(): PodDefaults;
}

/**
 * Creates the webhook that changes pods. It hardens OLM pods, sets the pod defaults and, where SCCs are enforced,
 * selects an SCC and defaults the pod.
 */
export function createMutatePods(deps: MutateDeps): Webhook {
  return {
    path: MUTATE.path,
    enforces: (request, store) => enforcesSccs(request, store, deps.settings()),
    async decide(original, context) {
      const decisions: Decision[] = [];
      let request = original;
      for (const change of original.operation === 'CREATE' && !original.subResource ? [deps.harden, setDefaults] : []) {
        const decision = change(request, context, deps);
        decisions.push(decision);
        if (decision.allowed && decision.object !== undefined) request = { ...request, object: decision.object };
      }
      const review: SccReview = { request, modes: ['enforce'], precedesDenials: true, context, pass: 'assign' };
      const assigned = await decideScc(review, deps);
      if (assigned) decisions.push(concludeScc(request, assigned, deps));
      return combineDecisions(decisions);
    },
  };
}

/**
 * Sets the absent security context fields of a new pod in the namespaces that the settings select, unless an SCC defaults
 * the pod. Never denies a pod.
 */
function setDefaults(
  { object, namespace: name = '' }: AdmissionRequest,
  { store }: WebhookContext,
  { defaults, settings }: Pick<MutateDeps, 'defaults' | 'settings'>,
): Decision {
  const namespace = store.get('Namespace', name);
  // Uses the mode in force, which may be less strict than the settings.
  const isAssigned = namespaceMode(store, name, settings()).mode === 'enforce';
  return namespace && !isAssigned ? allow(defined({ object: completeNewPod(object, namespace, defaults()) })) : allow();
}

/** Creates the webhook that validates pods with all policies. A pod is denied if at least one policy denies it. */
export function createValidatePods(policies: readonly PodPolicy[]): Webhook {
  return {
    path: VALIDATE_PODS.path,
    enforces: (request, store) => policies.some((policy) => policy.enforces(request, store)),
    async decide(request, context) {
      const decisions: Decision[] = [];
      for (const policy of policies) {
        const decided = policy.decide(request, context);
        const decision = decided instanceof Promise ? await decided : decided;
        decisions.push(allowUnlessEnforced(policy, { request, store: context.store }, decision));
      }
      return combineDecisions(decisions);
    },
  };
}

interface FloorScope {
  podSecurity(): PodSecurity;
  /** Returns true if reviews of SCCs fail open for pods that the floor policies restrict. */
  failsOpen(): boolean;
}

/**
 * Creates the policy that validates the SCC of each pod after all mutations. The policy also creates the reports in
 * report mode. API servers drop changes to immutable fields in requests for subresources only after mutating webhooks
 * have run, so users could set such a field to hide an ephemeral container from a mutating webhook.
 */
function createSccPolicy(deps: SccReviewDeps, floor: FloorScope): PodPolicy {
  const validate = async (request: AdmissionRequest, context: WebhookContext): Promise<Decision> => {
    const decided = await decideScc({ request, modes: ['enforce', 'report'], context, pass: 'validate' }, deps);
    return decided ? concludeScc(request, decided, deps) : allow();
  };
  return {
    enforces: (request, store) => enforcesSccs(request, store, deps.settings()),
    decide(request, context) {
      const { mode } = namespaceMode(context.store, request.namespace ?? '', deps.settings());
      const isLeft = mode === 'off' || (mode === 'enforce' && isLeftToFloor(request, context, floor));
      return isLeft ? allow() : validate(request, context);
    },
  };
}

/**
 * Returns true for a new pod without an SCC to which a floor policy applies. In a namespace that enforces SCCs, this
 * means that the call of the mutating webhook has failed.
 */
function isLeftToFloor(request: AdmissionRequest, { store }: WebhookContext, floor: FloorScope): boolean {
  const { operation, object, namespace: name = '' } = request;
  if (!floor.failsOpen() || operation !== 'CREATE' || !isObject(object)) return false;
  if (podAnnotation(object, POD_SCC_ANNOTATIONS.scc) !== '') return false;
  const namespace = store.get('Namespace', name);
  return (
    namespace !== undefined && isLevelEnforced(request, namespace, floor.podSecurity(), objectMember(object, 'spec'))
  );
}

// Hardening of OLM pods

interface HardeningDeps {
  mode(): OlmSettings['hardening']['mode'];
  /** Returns the effective SCC settings. */
  settings(): SccSettings;
  readonly metrics: Metrics['olm'];
}

/** Creates the function that hardens OLM pods on creation. It never denies a pod. */
function createOlmHardening({ mode: currentMode, settings, metrics }: HardeningDeps) {
  return (request: AdmissionRequest, { store }: Pick<WebhookContext, 'store'>): Decision => {
    const mode = currentMode();
    const pod = mode === 'off' ? undefined : readOlmPod(request);
    if (mode === 'off' || pod === undefined) return allow();
    const warning = findDepthWarning(request.object);
    if (warning !== undefined) return allow({ warnings: [warning] });
    const { namespace = '' } = request;
    const { profile, result, decision } = reviewOlmPod(pod, {
      mode,
      isOpenShift: sccsSetUsers(store, namespace, settings()),
      findCatalog: (name) => store.get('CatalogSource', name, namespace),
      namespaceLabels: store.get('Namespace', namespace)?.metadata?.labels,
    });
    metrics.hardening.cell({ profile, result }).count++;
    return decision;
  };
}

/**
 * Returns the warning for a pod that is nested too deeply. The patch replaces whole lists, so it may contain members of
 * any depth.
 */
function findDepthWarning(object: unknown): string | undefined {
  try {
    checkSize(Buffer.from(JSON.stringify(object)), { values: 'jsonValues', levels: 'nestingLevels' });
    return undefined;
  } catch (error) {
    // A RangeError means that the stack is too small for the depth.
    if (!(error instanceof TooLargeError || error instanceof RangeError)) throw error;
    countExceeded('nestingLevels');
    return `OLM hardening: the pod is not hardened, because it is nested more than ${LIMITS.nestingLevels} levels deep`;
  }
}
