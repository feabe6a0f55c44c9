import { canUseScc } from '../cluster/access.ts';
import { decideOn, keyOf } from '../policy/scc/access.ts';
import type { CanUse, SccDecision } from '../policy/scc/request.ts';
import type { AskAccess } from './access-reviews.ts';
import type { WithAccess } from './scc-review.ts';
import { remainingMs } from './waiting-room.ts';

/** By whom access is known: the roles and bindings in the store, or the API server, asked by SubjectAccessReviews. */
export const AUTHORIZATIONS = ['rbac', 'sar'] as const;
export type Authorization = (typeof AUTHORIZATIONS)[number];

/** Access by the roles and bindings in the store: known at once. */
export const withStoredAccess: WithAccess = (decide, { store }) => decide(canUseScc(store));

/** So many questions are on their way at once for a request. */
const MAX_AT_ONCE = 16;

/** Access by asking, as little as the decision needs. When the time is up, what has not been asked counts as a no. */
export function withAskedAccess(ask: AskAccess): WithAccess {
  return async (decide: (canUse: CanUse) => SccDecision, context) => {
    const answers = new Map<string, boolean>();
    const untilMs = context.now() + remainingMs(context);
    const leftMs = (): number => (context.signal?.aborted ? 0 : untilMs - context.now());
    do {
      const step = decideOn(decide, (question) => answers.get(keyOf(question)));
      if ('decision' in step) return step.decision;
      const open = step.questions.values();
      const askNext = async (): Promise<void> => {
        for (const question of open) {
          const timeoutMs = leftMs();
          if (timeoutMs <= 0) return;
          answers.set(keyOf(question), await ask(question, timeoutMs));
        }
      };
      await Promise.all(Array.from({ length: MAX_AT_ONCE }, askNext));
    } while (leftMs() > 0);
    return decide(
      (subject, sccName, namespaceName) => answers.get(keyOf({ subject, sccName, namespaceName })) ?? false,
    );
  };
}
