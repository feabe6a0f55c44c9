/** Runs all targets against one server and reports failures. */
import fc, { type IAsyncProperty } from 'fast-check';
import { createJudge } from './judge.ts';
import { readSeeds } from './pods.ts';
import { startFuzzServer } from './server.ts';
import { type Context, DAMAGE, DECISIONS, type Target } from './targets.ts';
import { world } from './world.ts';

export interface FuzzOptions {
  /** Seed of all generated values. */
  readonly seed: number;
  readonly timeMs: number;
  /** Name of the only target to run. Default: all targets. */
  readonly only?: string | undefined;
  readonly round?: number | undefined;
}

export interface Failure {
  readonly target: string;
  readonly round: number;
  /** The shrunk counterexample. */
  readonly counterexample: unknown;
  readonly error: string;
}

export interface FuzzReport {
  readonly seed: number;
  readonly responses: number;
  readonly failures: readonly Failure[];
  readonly seconds: number;
  /** Resident memory at the start, at half time and at the end. */
  readonly residentMiB: readonly [start: number, warm: number, end: number];
  /** Error lines in the log of the server. */
  readonly serverErrors: readonly string[];
  readonly exitCode: number | null;
}

/** Concurrent rounds of each target. */
const LANES = 3;

export async function fuzz({ seed, timeMs, only, round = 0 }: FuzzOptions): Promise<FuzzReport> {
  const [generated] = fc.sample(world, { seed, numRuns: 1 });
  if (generated === undefined) throw new Error('no world was generated');
  const server = await startFuzzServer(generated);
  let responses = 0;
  const context: Context = {
    server,
    judge: createJudge(server.stored),
    seeds: await readSeeds(),
    count: () => (responses += 1),
  };
  const initialMiB = await server.residentMiB();
  const startMs = performance.now();
  const end = startMs + timeMs;
  const failures: Failure[] = [];
  let warmMiB: number | undefined;
  const lane = async (target: Target, first: number): Promise<void> => {
    const property = target.property(context);
    for (let current = first; performance.now() < end && failures.length === 0; current += LANES) {
      const failure = await runRound(target, property, { seed, round: current });
      if (failure) failures.push(failure);
      if (performance.now() - startMs > timeMs / 2) warmMiB ??= await server.residentMiB();
    }
  };
  const targets = [...DECISIONS, DAMAGE].filter(({ name }) => only === undefined || name === only);
  await Promise.all(
    targets.flatMap((target) => Array.from({ length: LANES }, (_, index) => lane(target, round + index))),
  );
  const seconds = Math.round((performance.now() - startMs) / 1000);
  const endMiB = await server.residentMiB();
  const { code, errors } = await server.stop();
  return {
    seed,
    responses,
    failures,
    seconds,
    residentMiB: [initialMiB, warmMiB ?? endMiB, endMiB],
    serverErrors: errors,
    exitCode: code,
  };
}

async function runRound(
  target: Target,
  property: IAsyncProperty<unknown>,
  { seed, round }: { readonly seed: number; readonly round: number },
): Promise<Failure | undefined> {
  const details = await fc.check(property, {
    seed: (Math.imul(seed, 0x9e3779b1) + round) | 0,
    numRuns: target.runs,
  });
  if (!details.failed) return undefined;
  const { errorInstance } = details;
  const error = errorInstance instanceof Error ? (errorInstance.stack ?? errorInstance.message) : String(errorInstance);
  return { target: target.name, round, counterexample: details.counterexample, error };
}

/** Limit of the memory growth in the second half, which a leak would exceed. The server has a heap of 256 MiB. */
const GROWTH_MIB = 128;

/** Returns the problems of the server, such as its exit code, memory growth and errors in its log. */
export function findProblems({ residentMiB: [, middle, end], serverErrors, exitCode }: FuzzReport): readonly string[] {
  return [
    ...(exitCode === 0 ? [] : [`the server exited with ${exitCode}`]),
    ...(end - middle <= GROWTH_MIB ? [] : [`the server grew from ${middle} MiB to ${end} MiB in the second half`]),
    ...serverErrors.slice(0, 20).map((line) => `the server logged: ${line}`),
  ];
}

/** Formats a report with the number of checked responses, and each failure with the command that reproduces it. */
export function formatReport(report: FuzzReport): string {
  const { seed, responses, seconds, failures, residentMiB } = report;
  const lines = [
    `seed ${seed}: ${responses} responses checked in ${seconds} s; the server used ${residentMiB.join(', ')} MiB at the start, half time and end`,
  ];
  for (const { target, round, counterexample, error } of failures) {
    lines.push(
      '',
      `FAILED: ${target}`,
      error,
      JSON.stringify(counterexample, shorten, 1),
      `reproduce: node test/run.ts fuzz --seed=${seed} --only='${target}' --round=${round}`,
    );
  }
  return `${[...lines, ...findProblems(report)].join('\n')}\n`;
}

function shorten(_key: string, value: unknown): unknown {
  return typeof value === 'string' && value.length > 500 ? `${value.slice(0, 500)}… (${value.length})` : value;
}
