/** Evaluates existing pods for warnings without delaying other reviews, because an evaluation may take long. */
import { createTurn } from '../cluster/clock.ts';
import type { WebhookContext } from './webhook.ts';

/** Maximum time without yielding to other reviews. */
const SLICE_MS = 10;
/**
 * Budget of all evaluations of a replica together, which is 2 s and then a quarter of the elapsed time. It applies
 * without client certificates, because any client may then send reviews.
 */
const BURST_MS = 2000;
const SHARE = 0.25;

export type Evaluations = ReturnType<typeof createEvaluations>;

/**
 * Creates the function that runs an evaluation. Each `yield` ends a step and returns true if there is time for another
 * step. Otherwise, the evaluation must end with an incomplete result. With `areClientsKnown`, evaluations have no
 * common time limit, as in an API server.
 */
export function createEvaluations(now: () => number, areClientsKnown = false) {
  const turn = createTurn();
  const burstMs = areClientsKnown ? Infinity : BURST_MS;
  let leftMs = burstMs;
  let filledMs = now();
  const startSlice = async (endMs: number): Promise<boolean> => {
    await turn();
    const nowMs = now();
    leftMs = Math.min(burstMs, leftMs + (nowMs - filledMs) * SHARE);
    filledMs = nowMs;
    return nowMs < endMs && leftMs > 0;
  };
  const run = async <T>(evaluation: Evaluation<T>, deadlineMs: number): Promise<T> => {
    const endMs = (now() + deadlineMs) / 2;
    let isTimeLeft = await startSlice(endMs);
    let startMs = now();
    let step = evaluation.next(isTimeLeft);
    while (!step.done) {
      const spentMs = now() - startMs;
      if (isTimeLeft && spentMs >= SLICE_MS) {
        leftMs -= spentMs;
        isTimeLeft = await startSlice(endMs);
        startMs = now();
      }
      step = evaluation.next(isTimeLeft);
    }
    leftMs -= now() - startMs;
    return step.value;
  };
  return async <T>(
    evaluation: Evaluation<T>,
    { deadlineMs = Infinity }: Pick<WebhookContext, 'deadlineMs'>,
  ): Promise<T> => {
    // Most evaluations end before the first `yield`.
    const first = evaluation.next();
    return first.done ? first.value : await run(evaluation, deadlineMs);
  };
}

type Evaluation<T> = Generator<void, T, boolean>;
