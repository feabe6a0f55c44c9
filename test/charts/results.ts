/** The recorded results of charts. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FILE = join(import.meta.dirname, 'results.json');

/** The workloads of a chart in a namespace with a level. */
export interface LevelResult {
  readonly allowed: number;
  /** The checks that other workloads fail, with the number of the workloads. */
  readonly checks: Readonly<Record<string, number>>;
}

/** The workloads of a chart in a namespace with SCC enforcement. */
export interface SccResult {
  /** The number of workloads by the SCC that admits them. */
  readonly sccs: Readonly<Record<string, number>>;
  /** By the closest usable SCC, the fields that it does not allow in other workloads, with the number of the workloads. */
  readonly closest: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The least permissive SCCs that admit other workloads, separated by spaces. */
  readonly grants: string;
}

export interface ChartResult {
  readonly version: string;
  /** The address of the project or of its sources. */
  readonly home: string;
  /** The values that differ from the defaults of the chart, by path. */
  readonly values: Readonly<Record<string, string>>;
  readonly workloads: number;
  readonly baseline: LevelResult;
  readonly restricted: LevelResult;
  readonly scc: SccResult;
}

export interface Results {
  /** Such as `kube-apiserver v1.37.2`. */
  readonly cluster: string;
  /** The date of the run. */
  readonly date: string;
  readonly charts: Readonly<Record<string, ChartResult>>;
}

export function readResults(): Results {
  if (!existsSync(FILE)) return { cluster: '', date: '', charts: {} };
  return JSON.parse(readFileSync(FILE, 'utf8')) as Results;
}

export function writeResults(results: Results): void {
  writeFileSync(FILE, `${JSON.stringify(results, null, 2)}\n`);
}
