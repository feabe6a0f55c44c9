import { type AdmissionRequest, allow } from '../../kube/admission.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject, objectMember } from '../../kube/types.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { isLimited, type PodSecurity } from '../../policy/psa/configuration.ts';
import { assignScc, validateScc } from '../../policy/scc/assign.ts';
import type { SccDecision } from '../../policy/scc/decision.ts';
import { podAnnotation, type SccInput } from '../../policy/scc/request.ts';
import { enforcesSccs, isPodRequest, reviewPod, type SccReview, type SccReviewDeps } from '../scc-review.ts';
import {
  ANNOTATIONS_CHANGED,
  LABELS_CHANGED,
  relevantUpdate,
  rule,
  type Webhook,
  type WebhookContext,
  WRITES,
} from '../webhook.ts';

const PODS: Omit<WebhookRegistration, 'name' | 'path' | 'configuration'> = {
  feature: 'scc',
  rules: [rule(WRITES, '', ['pods']), rule(['UPDATE'], '', ['pods/ephemeralcontainers', 'pods/resize'])],
  matchConditions: [
    // SCC admission does not apply to Windows pods.
    { name: 'not-windows', expression: "!has(object.spec.os) || object.spec.os.name != 'windows'" },
    relevantUpdate(`object.spec != oldObject.spec || ${LABELS_CHANGED} || ${ANNOTATIONS_CHANGED}`),
  ],
  // A review waits up to 10 s for the ranges of a new namespace. The timeout is longer, so the client receives the
  // reason for a denial.
  timeoutSeconds: 15,
  failure: 'floor',
  isNamespaced: true,
};

/**
 * The API server calls mutating webhooks in the order of their configuration names, so `zz` runs after other mutations.
 */
export const SCC_MUTATE: WebhookRegistration = {
  name: 'mutate.scc.portcullis.dev',
  path: '/scc/mutate',
  configuration: { kind: 'MutatingWebhookConfiguration', name: 'zz.scc.portcullis.dev' },
  ...PODS,
};

export const SCC_VALIDATE: WebhookRegistration = {
  name: 'validate.scc.portcullis.dev',
  path: '/scc/validate',
  configuration: { kind: 'ValidatingWebhookConfiguration', name: 'scc.portcullis.dev' },
  ...PODS,
};

/** Creates the webhook that selects an SCC for each pod and defaults the pod where SCCs are enforced. */
export function createSccMutateWebhook(deps: SccReviewDeps): Webhook {
  return createPodWebhook(SCC_MUTATE.path, ['enforce'], assignScc, deps);
}

/**
 * Creates the webhook that validates each pod after all mutations. It also makes the reports in report mode, because
 * API servers drop changes to immutable fields from requests for subresources only after mutating webhooks. Users could
 * otherwise set such a field to hide an ephemeral container.
 */
export function createSccValidateWebhook(deps: SccReviewDeps, floor: FloorScope): Webhook {
  const decidePod = (input: SccInput): SccDecision => (input.isReported === true ? assignScc : validateScc)(input);
  const webhook = createPodWebhook(SCC_VALIDATE.path, ['enforce', 'report'], decidePod, deps);
  return {
    ...webhook,
    decide: (request, context) =>
      isLeftToFloor(request, context, floor) && enforcesSccs(request, context.store, deps.settings())
        ? allow()
        : webhook.decide(request, context),
  };
}

interface FloorScope {
  podSecurity(): PodSecurity;
  /** True if SCC webhooks fail open for pods that the floor policies restrict. */
  failsOpen(): boolean;
}

/**
 * True for a new pod without an SCC to which a floor policy applies. Where SCCs are enforced, the call of the mutating
 * webhook has failed.
 */
function isLeftToFloor(request: AdmissionRequest, { store }: WebhookContext, floor: FloorScope): boolean {
  const { operation, object, namespace: name = '' } = request;
  if (!floor.failsOpen() || operation !== 'CREATE' || !isObject(object)) return false;
  if (podAnnotation(object, POD_SCC_ANNOTATIONS.scc) !== '') return false;
  const namespace = store.get('Namespace', name);
  return namespace !== undefined && isLimited(request, namespace, floor.podSecurity(), objectMember(object, 'spec'));
}

function createPodWebhook(
  path: string,
  modes: SccReview['modes'],
  decidePod: (input: SccInput) => SccDecision,
  deps: SccReviewDeps,
): Webhook {
  return {
    path,
    enforces: (request, store) => isPodRequest(request) && enforcesSccs(request, store, deps.settings()),
    async decide(request, context) {
      if (!isPodRequest(request)) return allow();
      const { operation, subResource, object, oldObject, userInfo } = request;
      const decide: SccReview['decide'] = (cluster) =>
        decidePod({ operation, subResource, object, oldObject, userInfo, ...cluster });
      return (await reviewPod({ request, modes, context, decide }, deps)) ?? allow();
    },
  };
}
