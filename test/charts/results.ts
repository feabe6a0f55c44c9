/** The recorded results of charts. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const FILE = join(import.meta.dirname, 'results.json');

/** Results for the workloads of a chart in a namespace that enforces a level. */
export interface LevelResult {
  readonly allowed: number;
  /** The number of denied workloads by failed check. */
  readonly checks: Readonly<Record<string, number>>;
}

/** Results for the workloads of a chart in a namespace that enforces SCCs. */
export interface SccResult {
  /** The number of admitted workloads by SCC. */
  readonly sccs: Readonly<Record<string, number>>;
  /** For each closest usable SCC, the number of denied workloads by disallowed field. */
  readonly closest: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The least permissive SCCs that would admit the denied workloads, separated by spaces. */
  readonly grants: string;
}

export interface ChartResult {
  readonly version: string;
  /** URL of the project or of its sources. */
  readonly home: string;
  /** Values that differ from the defaults of the chart, by path. */
  readonly values: Readonly<Record<string, string>>;
  readonly workloads: number;
  readonly baseline: LevelResult;
  readonly restricted: LevelResult;
  readonly scc: SccResult;
  /** The version and the date of the comparison with OpenShift's API server, such as `Kubernetes 1.36, 2026-11-28`. */
  readonly openshift?: string;
}

export interface Results {
  /** Program and version, such as `kube-apiserver v1.37.2`. */
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
