/** Combines the reports of many clusters, and compares the clusters with one of them. */
import { existsSync } from 'node:fs';
import { basename, extname, sep } from 'node:path';
import { listSettings } from '../../config/setting-paths.ts';
import { compareBytes, quote, sortedSet } from '../../kube/text.ts';
import { UserError } from '../../kube/user-error.ts';
import { LEVELS } from '../../policy/pss/index.ts';
import { orderChecks } from '../../web/check-order.ts';
import type {
  FleetCheck,
  FleetCluster,
  FleetData,
  FleetDifference,
  FleetWorkload,
  UnreadCluster,
} from '../../web/fleet-data.ts';
import { REPORT_API_VERSION, type ReportData, type UnreadReport } from '../../web/report-data.ts';
import { VERSION } from '../command.ts';
import type { SavedReport } from './saved-report.ts';

interface FleetOptions {
  /** Time of the fleet report in RFC 3339 format. */
  readonly time: string;
  /** Maximum number of denied workloads to list, which the reports share equally. */
  readonly maxWorkloads: number;
  /** Number of reports, which may be an estimate. */
  readonly reports: number;
  /** Name or context of the cluster with which all other clusters are compared. */
  readonly reference?: string | undefined;
}

/** Origin of a report, which is a context or the path of a file. */
interface Origin {
  /** Unique text that identifies the report in messages. */
  readonly origin: string;
  /** The file that contains only this report. */
  readonly file?: string | undefined;
}

interface Joined {
  readonly origin: string;
  readonly file: string | undefined;
  readonly cluster: FleetCluster;
  /** Names of earlier reports of the same cluster, such as other contexts. */
  readonly aliases: readonly string[];
  /** Number of denied workloads by their violated checks. The key contains the checks, separated by spaces. */
  readonly causes: ReadonlyMap<string, number>;
  /** Empty if there is no reference cluster. */
  readonly traits: Traits;
}

/** Combines reports one at a time, so memory use does not depend on their number. */
export interface Fleet {
  /**
   * Adds a report. If several reports have the same cluster UID, only the latest report counts, unless the cluster
   * names in their settings differ. Cloned clusters have the same UID.
   */
  add(report: SavedReport, origin: Origin): void;
  /**
   * Returns the data of the fleet report.
   * @throws {UserError} if there is no report of the reference cluster, or more than one
   */
  finish(): FleetData;
}

export function createFleet({ time, maxWorkloads, reports, reference }: FleetOptions): Fleet {
  const joined = new Map<string, Joined>();
  const unread: (UnreadCluster & UnreadReport)[] = [];
  const fixes = new Map<string, string>();
  const notes: string[] = [];
  return {
    add(report, { origin, file }) {
      const { cluster } = report;
      if ('error' in report) {
        unread.push({ name: cluster.name ?? cluster.context ?? origin, cluster, error: report.error });
        return;
      }
      const key = cluster.uid === undefined ? origin : `${cluster.uid} ${cluster.name ?? ''}`;
      const other = joined.get(key);
      const isLatest = other === undefined || isLater({ origin, time: report.time }, other);
      if (other) {
        const [shown, hidden] = isLatest ? [origin, other.origin] : [other.origin, origin];
        notes.push(`${hidden} is not part of the report, because ${shown} is the latest report of the same cluster.`);
      }
      const entry = summarize(report, { origin, file });
      const aliases = other ? [...other.aliases, ...ownNames(isLatest ? other : entry)] : [];
      if (!isLatest) {
        joined.set(key, { ...other, aliases });
        return;
      }
      for (const [check, fix] of Object.entries(report.fixes)) fixes.set(check, fix);
      const traits = reference === undefined ? {} : findTraits(report);
      joined.set(key, { ...entry, aliases, traits, cluster: limitWorkloads(entry.cluster, maxWorkloads / reports) });
    },
    finish() {
      const entries = withUniqueNames([...joined.values()]);
      const clusters = entries.map(({ cluster }) => limitWorkloads(cluster, maxWorkloads / entries.length));
      const comparison = reference === undefined ? undefined : compareWith(reference, entries, unread);
      return {
        apiVersion: REPORT_API_VERSION,
        kind: 'FleetReport',
        time,
        version: VERSION,
        clusters: clusters.toSorted(byDenied),
        checks: listChecks(entries, fixes),
        unread: unread.map(({ name, error }) => ({ name, error })),
        reference: comparison?.reference,
        differences: comparison?.differences,
        notes: [...notes, ...findClones(entries), ...(comparison?.notes ?? [])],
      };
    },
  };
}

/** Returns a note for each UID that clusters with different names share. */
function findClones(entries: readonly Joined[]): readonly string[] {
  const byUid = Map.groupBy(entries, ({ cluster }) => cluster.uid);
  return [...byUid].flatMap(([uid, clones]) =>
    uid === undefined || clones.length === 1
      ? []
      : `${clones.map(({ origin }) => origin).join(', ')} have the same UID but are counted as different clusters, because their names in the settings differ. If a cluster was renamed, remove its older report.`,
  );
}

/** Returns true if a report is later than another report. Reports with the same time are ordered by their origin. */
function isLater(report: { readonly origin: string; readonly time: string }, { origin, cluster }: Joined): boolean {
  return report.time === cluster.time ? compareBytes(report.origin, origin) < 0 : report.time > cluster.time;
}

function limitWorkloads(cluster: FleetCluster, limit: number): FleetCluster {
  const denied = cluster.denied.slice(0, Math.floor(limit));
  return { ...cluster, denied, omitted: cluster.omitted + cluster.denied.length - denied.length };
}

/** Returns the names by which `--reference` refers to a cluster. */
function ownNames({ cluster, file }: Pick<Joined, 'cluster' | 'file'>): readonly string[] {
  return [cluster.name, cluster.context, file && basename(file, extname(file))].filter((name) => name !== undefined);
}

function compareWith(name: string, entries: readonly Joined[], unread: readonly (UnreadCluster & UnreadReport)[]) {
  const matching = entries.filter((entry) => [...ownNames(entry), ...entry.aliases].includes(name));
  const [reference, ...others] = matching;
  const failed = unread.find(({ name: own, cluster }) => own === name || cluster.context === name);
  const names = entries.map(({ cluster }) => cluster.name).join(', ');
  if (failed) throw new UserError(`the reference cluster ${quote(name)} could not be read: ${failed.error}`);
  if (!reference) throw new UserError(`no report of the reference cluster ${quote(name)}; the clusters are ${names}`);
  if (others.length > 0)
    throw new UserError(`several clusters have the name ${quote(name)}; the clusters are ${names}`);
  const toCompared = ({ cluster, traits }: Joined) => ({ name: cluster.name, traits });
  const compared = entries.filter((entry) => entry !== reference).map(toCompared);
  return { reference: reference.cluster.name, ...compareClusters(toCompared(reference), compared) };
}

function summarize(report: ReportData, { origin, file }: Origin): Omit<Joined, 'aliases' | 'traits'> {
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
  const page = file === undefined ? undefined : `${file.slice(0, file.length - extname(file).length)}.html`;
  const { uid, context, name = context ?? basename(file ?? origin, extname(file ?? '')) } = report.cluster;
  const cluster: FleetCluster = {
    name,
    uid,
    context,
    source,
    time,
    version,
    href: page !== undefined && existsSync(page) ? page.split(sep).map(encodeURIComponent).join('/') : undefined,
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
    denied,
    omitted: 0,
  };
  return { origin, file, cluster, causes };
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

/** Adds the origin to names that several clusters share. */
function withUniqueNames(entries: readonly Joined[]): readonly Joined[] {
  const names = Map.groupBy(entries, ({ cluster }) => cluster.name);
  return entries.map((entry) => {
    const { name } = entry.cluster;
    const isUnique = names.get(name)?.length === 1;
    return isUnique ? entry : { ...entry, cluster: { ...entry.cluster, name: `${name} (${entry.origin})` } };
  });
}

/**
 * Compares clusters for sorting. Clusters with the most denied workloads come first, followed by clusters that were not
 * completely evaluated.
 */
function byDenied(a: FleetCluster, b: FleetCluster): number {
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

// Comparison with a reference cluster

/**
 * Compared properties of a cluster, as values by name for each kind. A kind is absent if it was not read or not
 * evaluated.
 */
type Traits = Readonly<Partial<Record<DifferenceKind, ReadonlyMap<string, string> | undefined>>>;

type DifferenceKind = FleetDifference['kind'];

/** Value that represents a missing property. Levels are compared only for namespaces that exist in both clusters. */
const ABSENT: Readonly<Record<DifferenceKind, string>> = {
  setting: 'not set',
  level: '',
  exemption: 'none',
  grant: 'none',
  exception: 'none',
  check: 'passed',
};

const KINDS = Object.keys(ABSENT) as DifferenceKind[];

/** Returns the compared properties of a cluster. */
function findTraits(report: ReportData): Traits {
  const { spec, rollout, namespaces, exemptions, exceptions, unread } = report;
  const { clusterName: _name, ...settings } = spec ?? {};
  const evaluated = namespaces.filter(({ verdict }) => verdict !== 'inconclusive');
  const denied = evaluated.flatMap(({ workloads }) => workloads.filter(({ verdict }) => verdict !== 'restart'));
  const isExemption = ({ kind }: (typeof exemptions)[number]): boolean => kind !== 'grant' && kind !== 'exception';
  return {
    setting:
      spec &&
      new Map(
        listSettings(settings).map(({ path, value }) => [
          `spec.${path.join('.')}`,
          typeof value === 'string' ? value : JSON.stringify(value),
        ]),
      ),
    level: new Map([
      ['default', rollout.default],
      ...evaluated.map(({ name, current }) => [`namespace ${name}`, current] as const),
    ]),
    exemption: new Map(
      exemptions
        .filter(isExemption)
        .map(({ kind, name, policy, source }) => [`${kind} ${name} from ${policy}`, source]),
    ),
    grant: new Map(
      exemptions
        .filter(({ kind }) => kind === 'grant')
        .map(({ name, scc = '', namespace }) => [
          `SCC ${scc} to ${name}${namespace === undefined ? '' : ` in namespace ${namespace}`}`,
          'granted',
        ]),
    ),
    exception: unread.includes('PodSecurityException')
      ? undefined
      : new Map(
          exceptions.map(({ namespace, name, state, expiresAt, specHash = 'invalid' }) => [
            `${namespace}/${name}`,
            `${state} until ${expiresAt}, spec ${specHash.slice(0, 12)}`,
          ]),
        ),
    check:
      evaluated.length === 0
        ? undefined
        : new Map(denied.flatMap(({ violations }) => violations.map(({ check }) => [check, 'violated'] as const))),
  };
}

interface Compared {
  readonly name: string;
  readonly traits: Traits;
}

/**
 * Returns the differences of all clusters from the reference, and a note for each kind that could not be compared. Of
 * the checks, returns only those that the reference cluster passes and the other cluster violates.
 */
function compareClusters(
  reference: Compared,
  others: readonly Compared[],
): { readonly differences: readonly FleetDifference[]; readonly notes: readonly string[] } {
  const differences = new Map<string, FleetDifference & { readonly clusters: string[] }>();
  const notes: string[] = [];
  for (const kind of KINDS) {
    const expected = reference.traits[kind];
    for (const { name: cluster, traits } of others) {
      const actual = traits[kind];
      if (expected && actual) {
        for (const difference of compareTraits(kind, expected, actual)) {
          const key = JSON.stringify(difference);
          const known = differences.get(key);
          if (known) known.clusters.push(cluster);
          else differences.set(key, { ...difference, clusters: [cluster] });
        }
      } else
        notes.push(
          `The ${kind}s of ${expected ? cluster : reference.name} are not compared, because the report of this cluster does not contain them.`,
        );
    }
  }
  const rank = ({ kind }: FleetDifference): number => KINDS.indexOf(kind);
  return {
    differences: [...differences.values()].toSorted(
      (a, b) => rank(a) - rank(b) || b.clusters.length - a.clusters.length || compareBytes(a.name, b.name),
    ),
    notes: [...new Set(notes)],
  };
}

function compareTraits(
  kind: DifferenceKind,
  expected: ReadonlyMap<string, string>,
  actual: ReadonlyMap<string, string>,
): readonly Omit<FleetDifference, 'clusters'>[] {
  const names =
    kind === 'level'
      ? [...actual.keys()].filter((name) => expected.has(name))
      : kind === 'check'
        ? actual.keys()
        : new Set([...expected.keys(), ...actual.keys()]);
  return [...names].flatMap((name) => {
    const values = { reference: expected.get(name) ?? ABSENT[kind], value: actual.get(name) ?? ABSENT[kind] };
    return values.reference === values.value ? [] : [{ kind, name, ...values }];
  });
}
