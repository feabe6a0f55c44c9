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
  /** In the middle of the time, and at the end. */
  readonly residentMiB: readonly [warm: number, end: number];
  /** What the server logged as errors; null if it was not there any more at the end. */
  readonly serverErrors: readonly string[];
  readonly exitCode: number | null;
}

/** How many rounds of one target are under way at once: the server has to keep answers apart. */
const LANES = 3;

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
  const lane = async (target: Target, first: number): Promise<void> => {
    for (let current = first; performance.now() < end && failures.length === 0; current += LANES) {
      const failure = await attempt(target, { seed, round: current }, context);
      if (failure) failures.push(failure);
      if (performance.now() - startMs > timeMs / 2) warmMiB ??= await server.residentMiB();
    }
  };
  const targets = [...DECISIONS, ...ARRIVALS].filter(({ name }) => only === undefined || name === only);
  await Promise.all(
    targets.flatMap((target) => Array.from({ length: LANES }, (_, index) => lane(target, round + index))),
  );
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
