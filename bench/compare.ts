/** Applies the same load to several servers in turn, so other load on the machine affects all of them. */
import { type Client, type LoadResult, openClient } from './load.ts';
import type { Row } from './row.ts';
import { readCpuMicros, type Subject } from './subject.ts';

/** Rounds are short, so other load on the machine affects all servers in a round equally. */
const ROUNDS = 31;
const REQUESTS = 2_000;
/** Number of warm-up rounds, in which V8 optimizes the code. These rounds are not measured. */
const WARM_UP_ROUNDS = 8;

/** The bodies and the path of reviews, and the number of concurrent connections. */
export interface Load {
  readonly name: string;
  readonly path: string;
  readonly bodies: readonly string[];
  readonly connections: number;
  readonly requests?: number;
}

interface Measured extends LoadResult {
  readonly cpuMicros: number | undefined;
}

/** The measurements of each round, keyed by server name. */
export type Results = ReadonlyMap<string, readonly Measured[]>;

/** A server and its load. */
export type Turn = readonly [subject: Subject, load: Load];

/** Measures each server in several rounds after a warm-up. */
export async function measureInTurns(turns: readonly Turn[]): Promise<Results> {
  const measuring = await Promise.all(
    turns.map(async ([subject, { path, bodies, connections, requests = REQUESTS }]) => ({
      subject,
      requests,
      client: await openClient(subject.target(path), bodies, connections),
      results: [] as Measured[],
    })),
  );
  try {
    for (let round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
      for (const { subject, client, requests, results } of measuring) {
        const measured = await measure(subject, client, requests);
        if (round >= 0) results.push(measured);
      }
    }
  } finally {
    for (const { client } of measuring) client.close();
  }
  return new Map(measuring.map(({ subject, results }) => [subject.name, results]));
}

async function measure(subject: Subject, client: Client, requests: number): Promise<Measured> {
  const before = await readCpuMicros(subject);
  const result = await client.load(requests);
  const after = await readCpuMicros(subject);
  const used = before === undefined || after === undefined ? undefined : after - before;
  return { ...result, cpuMicros: used === undefined ? undefined : used / result.requests };
}

/** Returns the medians of each server. */
export function createRows(results: Results, { name: load, connections }: Load): readonly Row[] {
  return [...results].flatMap(([name, measured]): Row[] => {
    const medianOf = (value: (measurement: Measured) => number): number => median(measured.map(value));
    const hasCpu = measured.every(({ cpuMicros }) => cpuMicros !== undefined);
    return [
      {
        name: `${load}: ${name} at ${connections} connections`,
        value: medianOf(({ perSecond }) => perSecond),
        unit: 'reviews/s',
      },
      ...(hasCpu ? [{ name: '  CPU per review', value: medianOf(({ cpuMicros }) => cpuMicros ?? 0), unit: 'µs' }] : []),
      { name: '  p50', value: medianOf(({ p50Ms }) => p50Ms), unit: 'ms' },
      { name: '  p99', value: medianOf(({ p99Ms }) => p99Ms), unit: 'ms' },
    ];
  });
}

/** Returns the median of the ratios of one server to another within a round, in percent. */
export function computeRatio(
  results: Results,
  [one, other]: readonly [string, string],
  value: (measured: Measured) => number = ({ perSecond }) => perSecond,
): number {
  const others = results.get(other) ?? [];
  return (
    median((results.get(one) ?? []).map((measured, round) => value(measured) / value(others[round] ?? measured))) * 100
  );
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
