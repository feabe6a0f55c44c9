import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import {
  isPostponed,
  type MaybePromise,
  type Webhook,
  type WebhookContext,
  whenAvailable,
} from '../../src/server/webhook.ts';

/** Decides as the server does. A postponed review is decided again after its wait. */
export function decide(webhook: Webhook, request: AdmissionRequest, context: WebhookContext): MaybePromise<Decision> {
  return whenAvailable(webhook.decide(request, context), (first) => {
    if (!isPostponed(first)) return first;
    const again = async (): Promise<Decision> => {
      const last = await webhook.decide(request, { ...context, isRepeated: true });
      if (isPostponed(last)) throw new Error('the webhook waits twice');
      return last;
    };
    return first.until.then(again);
  });
}
