import { allow } from '../../kube/admission.ts';
import { validateScc } from '../../policy/scc/assign.ts';
import type { SccMode } from '../../policy/scc/mode.ts';
import { andThen } from '../later.ts';
import type { SccWebhookOptions } from './scc-mutate.ts';
import { inputOf, isPodRequest } from '../scc-request.ts';
import { answerScc, reviewScc, type JudgePod } from '../scc-review.ts';
import type { Webhook } from '../webhook.ts';

const MODES: readonly SccMode[] = ['enforce'];

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
      const judge: JudgePod = (cluster) => validateScc({ ...inputOf(request), ...cluster });
      return andThen(reviewScc({ namespaceName, modes: MODES, context, judge }, options), (outcome) => {
        if (outcome === undefined) return allow();
        options.record(request, outcome);
        return answerScc(outcome);
      });
    },
  };
}
