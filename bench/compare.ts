/** The same load for several servers, in turns, so that whatever else the machine does meets all of them. */
import { load, type LoadResult } from './load.ts';
import type { Row } from './row.ts';
import { cpuMicrosOf, type Subject } from './subject.ts';

const ROUNDS = 7;
const REQUESTS = 7_000;

/** Reviews, where they go, and how many at once. */
export interface Load {
  readonly name: string;
  readonly path: string;
  readonly bodies: readonly string[];
  readonly connections: number;
}

interface Measured extends LoadResult {
  readonly cpuMicros: number | undefined;
}

/** What was measured, by the name of the server, round by round. */
export type Results = ReadonlyMap<string, readonly Measured[]>;

/** Measures each server several times; the first round warms up and does not count. */
export async function measureInTurns(subjects: readonly Subject[], given: Load): Promise<Results> {
  const results = new Map<string, Measured[]>(subjects.map(({ name }) => [name, []]));
  for (let round = 0; round <= ROUNDS; round++) {
    for (const subject of subjects) {
      const measured = await measure(subject, given);
      if (round > 0) results.get(subject.name)?.push(measured);
    }
  }
  return results;
}

async function measure(subject: Subject, { path, bodies, connections }: Load): Promise<Measured> {
  const before = await cpuMicrosOf(subject);
  const result = await load(subject.target(path), bodies, { connections, requests: REQUESTS });
  const after = await cpuMicrosOf(subject);
  const used = before === undefined || after === undefined ? undefined : after - before;
  return { ...result, cpuMicros: used === undefined ? undefined : used / (result.requests + result.warmup) };
}

/** The medians of each server. */
export function rowsOf(results: Results, { name: load, connections }: Load): readonly Row[] {
  return [...results].flatMap(([name, measured]): Row[] => {
    const medianOf = (value: (one: Measured) => number): number => median(measured.map(value));
    const hasCpu = measured.every(({ cpuMicros }) => cpuMicros !== undefined);
    return [
      {
        name: `${load}: ${name} at ${connections} connections`,
        value: medianOf((one) => one.perSecond),
        unit: 'reviews/s',
      },
      ...(hasCpu ? [{ name: '  CPU per review', value: medianOf((one) => one.cpuMicros ?? 0), unit: 'µs' }] : []),
      { name: '  p50', value: medianOf((one) => one.p50Ms), unit: 'ms' },
      { name: '  p99', value: medianOf((one) => one.p99Ms), unit: 'ms' },
    ];
  });
}

/** The median of the ratios within a round, in percent: of a number of one server to that of the other. */
export function ratioOf(
  results: Results,
  [one, other]: readonly [string, string],
  value: (measured: Measured) => number = ({ perSecond }) => perSecond,
): number {
  const others = results.get(other) ?? [];
  return (
    median((results.get(one) ?? []).map((measured, round) => value(measured) / value(others[round] ?? measured))) * 100
  );
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
