import { allow } from '../kube/admission.ts';
import { validateScc } from '../policy/scc/assign.ts';
import { andThen } from './later.ts';
import type { SccWebhookOptions } from './scc-mutate.ts';
import { inputOf, isPodRequest } from './scc-request.ts';
import { answerScc, modeIn, reviewScc, type JudgePod } from './scc-review.ts';
import type { Webhook } from './webhook.ts';

/**
 * Makes the webhook that judges what became of each pod after all changes. Where SCCs are only reported it has nothing to
 * say: the pod was not completed, so that it would not pass, and what became of it the first webhook has told.
 */
export function createSccValidateWebhook(options: SccWebhookOptions): Webhook {
  return {
    path: '/scc/validate',
    decide(request, context) {
      const { namespace: namespaceName = '' } = request;
      if (!isPodRequest(request)) return allow();
      if (modeIn(context.store, namespaceName, options.settings).mode !== 'enforce') return allow();
      const judge: JudgePod = (cluster) => validateScc({ ...inputOf(request), ...cluster });
      return andThen(reviewScc({ namespaceName, context, judge }, options), (outcome) => {
        if (outcome.mode.mode !== 'enforce') return allow();
        options.record(request, outcome);
        return answerScc(outcome);
      });
    },
  };
}
