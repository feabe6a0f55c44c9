import type { Metrics } from '../telemetry/metrics.ts';
import type { PodSecurity } from '../policy/psa/pod-security.ts';
import { reviewPodSecurity } from '../policy/psa/review.ts';
import { DEFAULT_LIMITS, type PodReviewLimits } from '../policy/psa/types.ts';
import type { Version } from '../policy/pss/types.ts';
import { createPodSecurityRecorder } from './psa-metrics.ts';
import type { Webhook } from './webhook.ts';

export interface PsaWebhookOptions {
  /** The configuration in force now; it may be another for the next request. */
  podSecurity(): PodSecurity;
  readonly metrics: Metrics['podSecurity'];
  /** Judge as that Kubernetes version would; absent, the newest rules known hold. */
  readonly emulationVersion?: Version;
  readonly limits?: PodReviewLimits;
}

/** Makes the webhook that answers as the Pod Security Admission of an API server does, from the store alone. */
export function createPsaWebhook(options: PsaWebhookOptions): Webhook {
  const { emulationVersion, limits = DEFAULT_LIMITS } = options;
  const record = createPodSecurityRecorder(options.metrics);
  const fixed = emulationVersion === undefined ? { limits } : { limits, emulationVersion };
  return {
    path: '/psa/validate',
    decide(request, { store, now, deadlineMs }) {
      const review = reviewPodSecurity({
        ...fixed,
        request,
        podSecurity: options.podSecurity(),
        findNamespace: (name) => store.get('Namespace', name),
        listPods: (namespace) => store.list('Pod', namespace),
        now,
        ...(deadlineMs === undefined ? {} : { deadlineMs }),
      });
      record(request, review.counts);
      return review.decision;
    },
  };
}
