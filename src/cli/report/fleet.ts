/** Joins the reports of many clusters, which `portcullis report -o json` wrote. */
import { existsSync } from 'node:fs';
import { basename, extname, sep } from 'node:path';
import { compareBytes, sortedSet } from '../../kube/text.ts';
import { LEVELS } from '../../policy/pss/index.ts';
import { orderChecks } from '../../web/check-order.ts';
import type { FleetCheck, FleetCluster, FleetData, FleetWorkload } from '../../web/fleet-data.ts';
import { REPORT_API_VERSION, type ReportData } from '../../web/report-data.ts';
import { VERSION } from '../command.ts';
import { readReport } from './saved-report.ts';

interface FleetOptions {
  /** RFC 3339. */
  readonly time: string;
  /** Maximum number of denied workloads to list, of which each report gets the same share. */
  readonly maxWorkloads: number;
}

interface Joined {
  readonly file: string;
  readonly cluster: FleetCluster;
  /** Number of denied workloads by their violated checks, which a space separates. */
  readonly causes: ReadonlyMap<string, number>;
}

/**
 * Reads the files one after the other, so the memory for reports does not depend on their number. Of several reports
 * with the same cluster UID, only the latest counts. Rejects with a UserError if a file is not a report.
 */
export async function joinReports(files: readonly string[], { time, maxWorkloads }: FleetOptions): Promise<FleetData> {
  const joined = new Map<string, Joined>();
  const fixes = new Map<string, string>();
  const notes: string[] = [];
  const limit = Math.floor(maxWorkloads / Math.max(1, files.length));
  for (const file of files) {
    const report = await readReport(file);
    const key = report.cluster.uid ?? file;
    const other = joined.get(key);
    const isLatest = other === undefined || other.cluster.time < report.time;
    if (other) {
      const [shown, hidden] = isLatest ? [file, other.file] : [other.file, file];
      notes.push(`${hidden} is not part of the report, because ${shown} is a later report of the same cluster.`);
    }
    if (!isLatest) continue;
    for (const [check, fix] of Object.entries(report.fixes)) fixes.set(check, fix);
    joined.set(key, summarize(report, file, limit));
  }
  const entries = withUniqueNames([...joined.values()]);
  return {
    apiVersion: REPORT_API_VERSION,
    kind: 'FleetReport',
    time,
    version: VERSION,
    clusters: entries.map(({ cluster }) => cluster).toSorted(compareClusters),
    checks: listChecks(entries, fixes),
    notes,
  };
}

function summarize(report: ReportData, file: string, limit: number): Joined {
  const { source, time, version, rollout, namespaces, summary } = report;
  const evaluated = namespaces.filter(({ verdict }) => verdict !== 'inconclusive');
  const denied = evaluated.flatMap(({ name: namespace, workloads }) =>
    workloads.flatMap(({ kind, name, verdict, violations }): readonly FleetWorkload[] =>
      verdict === 'restart'
        ? []
        : [{ namespace, kind, name, verdict, checks: sortedSet(violations.map(({ check }) => check)) }],
    ),
  );
  const causes = new Map<string, number>();
  const checks = new Map<string, number>();
  for (const workload of denied) {
    increment(causes, workload.checks.join(' '));
    for (const check of workload.checks) increment(checks, check);
  }
  const { deniedNow, wouldBeDenied, restart } = summary.workloads;
  const page = `${file.slice(0, file.length - extname(file).length)}.html`;
  const cluster: FleetCluster = {
    name: report.cluster.name ?? basename(file, extname(file)),
    uid: report.cluster.uid,
    source,
    time,
    version,
    href: existsSync(page) ? page.split(sep).map(encodeURIComponent).join('/') : undefined,
    isInstalled: rollout.isInstalled,
    state: rollout.state,
    phase: rollout.phase,
    default: rollout.default,
    next: rollout.next,
    namespaces: namespaces.length,
    levels: countLevels(evaluated),
    notEvaluated: namespaces.filter(({ verdict }) => verdict === 'inconclusive').map(({ name }) => name),
    workloads: {
      deniedNow: deniedNow.workloads,
      wouldBeDenied: wouldBeDenied.workloads,
      restart: restart.workloads,
    },
    checks: Object.fromEntries(checks),
    denied: denied.slice(0, limit),
    omitted: Math.max(0, denied.length - limit),
  };
  return { file, cluster, causes };
}

function increment(counts: Map<string, number>, key: string, number = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + number);
}

function countLevels(namespaces: ReportData['namespaces']): FleetCluster['levels'] {
  const counts = new Map<string, number>();
  for (const { current } of namespaces) increment(counts, current);
  const [privileged = 0, baseline = 0, restricted = 0] = LEVELS.map((level) => counts.get(level) ?? 0);
  return { privileged, baseline, restricted };
}

/** Adds the file to names that several clusters have. */
function withUniqueNames(entries: readonly Joined[]): readonly Joined[] {
  const names = Map.groupBy(entries, ({ cluster }) => cluster.name);
  return entries.map((entry) => {
    const { name } = entry.cluster;
    const isUnique = names.get(name)?.length === 1;
    return isUnique ? entry : { ...entry, cluster: { ...entry.cluster, name: `${name} (${entry.file})` } };
  });
}

/** Clusters with the most denied workloads come first, then clusters that were not completely evaluated. */
function compareClusters(a: FleetCluster, b: FleetCluster): number {
  return (
    countDenied(b) - countDenied(a) || b.notEvaluated.length - a.notEvaluated.length || compareBytes(a.name, b.name)
  );
}

function countDenied({ workloads }: FleetCluster): number {
  return workloads.deniedNow + workloads.wouldBeDenied;
}

/** Returns the violated checks of all clusters, in the order in which their fixes admit the most workloads. */
function listChecks(entries: readonly Joined[], fixes: ReadonlyMap<string, string>): readonly FleetCheck[] {
  const totals = new Map<string, number>();
  for (const { causes } of entries) for (const [cause, number] of causes) increment(totals, cause, number);
  const groups = [...totals].map(([cause, workloads]) => ({ checks: new Set(cause.split(' ')), workloads }));
  return orderChecks(groups).map((ordered) => ({
    ...ordered,
    fix: fixes.get(ordered.check) ?? '',
    clusters: entries
      .map(({ cluster }) => ({ name: cluster.name, workloads: cluster.checks[ordered.check] ?? 0 }))
      .filter(({ workloads }) => workloads > 0)
      .toSorted((a, b) => b.workloads - a.workloads || compareBytes(a.name, b.name))
      .map(({ name }) => name),
  }));
}
