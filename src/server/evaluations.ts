/** Evaluates existing pods for warnings without delaying reviews. A small review can cause a long evaluation. */
import { setImmediate } from 'node:timers/promises';
import { createTokenBucket, systemClock } from '../cluster/clock.ts';
import type { MaybePromise, WebhookContext } from './webhook.ts';

/** Maximum time without yielding to other reviews. */
const SLICE_MS = 10;
/** All evaluations of a replica share a burst of 2 s, and afterwards 10 % of the time. */
const SLICES = { burst: 200, perSecond: 10 };

export type Evaluations = ReturnType<typeof createEvaluations>;

/**
 * Creates the function that runs an evaluation. Each `yield` ends a step and returns whether there is time for another
 * step. If there is not, the evaluation must end with an incomplete result.
 */
export function createEvaluations(now: () => number) {
  const slices = createTokenBucket(SLICES, { ...systemClock, now });
  const turn = createTurn();
  const startSlice = async (endMs: number): Promise<boolean> => {
    await turn();
    return now() < endMs && slices.tryTake();
  };
  const run = async <T>(evaluation: Evaluation<T>, deadlineMs: number): Promise<T> => {
    const endMs = (now() + deadlineMs) / 2;
    let isTimeLeft = await startSlice(endMs);
    let startMs = now();
    let step = evaluation.next(isTimeLeft);
    while (!step.done) {
      if (isTimeLeft && now() - startMs >= SLICE_MS) {
        isTimeLeft = await startSlice(endMs);
        startMs = now();
      }
      step = evaluation.next(isTimeLeft);
    }
    return step.value;
  };
  return <T>(
    evaluation: Evaluation<T>,
    { deadlineMs = Infinity }: Pick<WebhookContext, 'deadlineMs'>,
  ): MaybePromise<T> => {
    // Most evaluations end before the first `yield`.
    const first = evaluation.next();
    return first.done ? first.value : run(evaluation, deadlineMs);
  };
}

type Evaluation<T> = Generator<void, T, boolean>;

/** Creates the function that waits for the next turn of the event loop. Each turn serves only one caller. */
export function createTurn(): () => Promise<void> {
  let last = Promise.resolve();
  return () => (last = last.then(() => setImmediate()));
}
