/** A bounded run of all targets against one server. */
import fc from 'fast-check';
import { createJudge } from './judge.ts';
import { readSeeds } from './pods.ts';
import { startFuzzServer } from './server.ts';
import { ARRIVALS, DECISIONS, type Context, type Target } from './targets.ts';
import { world } from './world.ts';

export interface FuzzOptions {
  /** What everything is generated from. */
  readonly seed: number;
  readonly timeMs: number;
  /** Only that target; absent, all. */
  readonly only?: string | undefined;
  /** The round to begin with. */
  readonly round?: number | undefined;
}

export interface Failure {
  readonly target: string;
  readonly round: number;
  /** As small as it could be made. */
  readonly counterexample: unknown;
  readonly error: string;
}

export interface FuzzReport {
  readonly seed: number;
  readonly answers: number;
  readonly failures: readonly Failure[];
  /** Once it was warm, and at the end. */
  readonly residentMiB: readonly [warm: number, end: number];
  /** What the server logged as errors; null if it was not there any more at the end. */
  readonly serverErrors: readonly string[];
  readonly exitCode: number | null;
}

export async function fuzz({ seed, timeMs, only, round = 0 }: FuzzOptions): Promise<FuzzReport> {
  const [generated] = fc.sample(world, { seed, numRuns: 1 });
  if (generated === undefined) throw new Error('no world was generated');
  const server = await startFuzzServer(generated);
  let answers = 0;
  const context: Context = {
    server,
    judge: createJudge(generated, server.stored),
    seeds: await readSeeds(),
    count: () => (answers += 1),
  };
  const startMs = performance.now();
  const end = startMs + timeMs;
  const failures: Failure[] = [];
  let warmMiB: number | undefined;
  const lane = async (targets: readonly Target[]): Promise<void> => {
    const chosen = targets.filter(({ name }) => only === undefined || name === only);
    for (let current = round; chosen.length > 0 && performance.now() < end && failures.length === 0; current++) {
      for (const target of chosen) {
        const failure = await attempt(target, { seed, round: current }, context);
        if (failure) failures.push(failure);
        if (failures.length > 0 || performance.now() >= end) return;
      }
      if (performance.now() - startMs > timeMs / 2) warmMiB ??= await server.residentMiB();
    }
  };
  await Promise.all([...DECISIONS, ...ARRIVALS].map((target) => lane([target])));
  const endMiB = await server.residentMiB();
  const { code, errors } = await server.stop();
  return {
    seed,
    answers,
    failures,
    residentMiB: [warmMiB ?? endMiB, endMiB],
    serverErrors: errors,
    exitCode: code,
  };
}

async function attempt(
  target: Target,
  { seed, round }: { readonly seed: number; readonly round: number },
  context: Context,
): Promise<Failure | undefined> {
  const details = await fc.check(target.property(context), {
    seed: (Math.imul(seed, 0x9e3779b1) + round) | 0,
    numRuns: target.runs,
  });
  if (!details.failed) return undefined;
  const { errorInstance } = details;
  const error = errorInstance instanceof Error ? (errorInstance.stack ?? errorInstance.message) : String(errorInstance);
  return { target: target.name, round, counterexample: details.counterexample, error };
}
