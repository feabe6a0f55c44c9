import { allow } from '../../kube/admission.ts';
import type { WebhookRegistration } from '../../kube/webhooks.ts';
import { assignScc, validateScc } from '../../policy/scc/assign.ts';
import type { SccDecision, SccInput } from '../../policy/scc/request.ts';
import { isPodRequest, reviewPod, type SccReview, type SccReviewDeps } from '../scc-review.ts';
import {
  whenAvailable,
  ANNOTATIONS_CHANGED,
  LABELS_CHANGED,
  relevantUpdate,
  rule,
  WRITES,
  type Webhook,
} from '../webhook.ts';

const PODS: Omit<WebhookRegistration, 'name' | 'path' | 'configuration'> = {
  feature: 'scc',
  rules: [rule(WRITES, '', ['pods']), rule(['UPDATE'], '', ['pods/ephemeralcontainers', 'pods/resize'])],
  matchConditions: [
    // SCC admission does not apply to Windows pods.
    { name: 'not-windows', expression: "!has(object.spec.os) || object.spec.os.name != 'windows'" },
    relevantUpdate(`object.spec != oldObject.spec || ${LABELS_CHANGED} || ${ANNOTATIONS_CHANGED}`),
  ],
  // Longer than the wait of 10 s for the ranges of a new namespace, so that the requester receives the reason.
  timeoutSeconds: 15,
  isEnforcing: true,
  isNamespaced: true,
};

/** The API server calls mutating webhooks in the order of their configurations: `zz` follows other mutations. */
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

/** Creates the webhook that selects an SCC for each pod and completes the pod. */
export function createSccMutateWebhook(deps: SccReviewDeps): Webhook {
  return createPodWebhook(SCC_MUTATE.path, ['enforce', 'report'], assignScc, deps);
}

/**
 * Creates the webhook that validates each pod after all mutations. In report mode it does not apply: the pod was not
 * completed and could only fail, and the mutating webhook has already reported on it.
 */
export function createSccValidateWebhook(deps: SccReviewDeps): Webhook {
  return createPodWebhook(SCC_VALIDATE.path, ['enforce'], validateScc, deps);
}

function createPodWebhook(
  path: string,
  modes: SccReview['modes'],
  decidePod: (input: SccInput) => SccDecision,
  deps: SccReviewDeps,
): Webhook {
  return {
    path,
    decide(request, context) {
      if (!isPodRequest(request)) return allow();
      const { operation, subResource, object, oldObject, userInfo } = request;
      const decide: SccReview['decide'] = (cluster) =>
        decidePod({ operation, subResource, object, oldObject, userInfo, ...cluster });
      return whenAvailable(reviewPod({ request, modes, context, decide }, deps), (decision) => decision ?? allow());
    },
  };
}
