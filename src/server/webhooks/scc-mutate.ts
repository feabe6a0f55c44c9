import { allow } from '../../kube/admission.ts';
import { assignScc } from '../../policy/scc/assign.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import { andThen } from '../later.ts';
import type { SccRecorder } from '../scc-metrics.ts';
import { inputOf, isPodRequest } from '../scc-request.ts';
import { answerScc, reviewScc, type JudgePod, type SccReviewDeps } from '../scc-review.ts';
import type { Webhook } from '../webhook.ts';

export interface SccWebhookOptions extends SccReviewDeps {
  readonly record: SccRecorder;
}

const MODES: readonly SccMode[] = ['enforce', 'report'];

/** Makes the webhook that chooses an SCC for each pod, and completes the pod by it. */
export function createSccMutateWebhook(options: SccWebhookOptions): Webhook {
  return {
    path: '/scc/mutate',
    decide(request, context) {
      const { namespace: namespaceName = '' } = request;
      if (!isPodRequest(request)) return allow();
      const judge: JudgePod = (cluster) => assignScc({ ...inputOf(request), ...cluster });
      return andThen(reviewScc({ namespaceName, modes: MODES, context, judge }, options), (outcome) => {
        if (outcome === undefined) return allow();
        options.record(request, outcome);
        return answerScc(outcome);
      });
    },
  };
}
