/**
 * The data of a fleet report, which combines the reports of many clusters. `portcullis report --fleet -o json` prints
 * this data.
 */
import type { Level } from '../policy/pss/index.ts';
import type { WorkloadVerdict } from '../policy/rollout/index.ts';
import type { REPORT_API_VERSION, ReportData } from './report-data.ts';

export interface FleetData {
  readonly apiVersion: typeof REPORT_API_VERSION;
  readonly kind: 'FleetReport';
  /** Time of the fleet report in RFC 3339 format. */
  readonly time: string;
  readonly version: string;
  readonly clusters: readonly FleetCluster[];
  /**
   * The violated checks in the order in which to fix them. The fix of each check admits the most additional workloads
   * at that point.
   */
  readonly checks: readonly FleetCheck[];
  /** Clusters that could not be read. They are not included in any count. */
  readonly unread: readonly UnreadCluster[];
  /** Name of the reference cluster, and the differences between it and the other clusters. */
  readonly reference?: string | undefined;
  readonly differences?: readonly FleetDifference[] | undefined;
  /** Reports that are not part of the data, and properties that could not be compared. */
  readonly notes: readonly string[];
}

export interface UnreadCluster {
  readonly name: string;
  readonly error: string;
}

/** A property in which clusters differ from the reference cluster. */
export interface FleetDifference {
  /**
   * Kind of the property. `check` is a check that denied workloads violate in these clusters, but not in the reference
   * cluster.
   */
  readonly kind: 'setting' | 'level' | 'exemption' | 'grant' | 'exception' | 'check';
  readonly name: string;
  /** Value in the reference cluster. */
  readonly reference: string;
  /** Value in these clusters. */
  readonly value: string;
  readonly clusters: readonly string[];
}

/** The state of a cluster. The counts do not include namespaces that were not evaluated. */
export interface FleetCluster {
  /** Unique name, which is the name in the settings, the context, or the name of the file without its extension. */
  readonly name: string;
  readonly context?: string | undefined;
  /** UID of the `kube-system` namespace. Absent for a report on manifests. */
  readonly uid?: string | undefined;
  /** Address of the API server, or a description of the manifests. */
  readonly source: string;
  /** Time of the report in RFC 3339 format. */
  readonly time: string;
  readonly version: string;
  /** URL of the cluster's own report, relative to the file. Absent if there is none. */
  readonly href?: string | undefined;
  readonly isInstalled: boolean;
  readonly state: ReportData['rollout']['state'];
  readonly phase: ReportData['rollout']['phase'];
  readonly default: Level;
  readonly next?: string | undefined;
  readonly namespaces: number;
  /** Number of evaluated namespaces by level in force. */
  readonly levels: Readonly<Record<Level, number>>;
  readonly notEvaluated: readonly string[];
  /** Number of workloads by verdict. */
  readonly workloads: Readonly<Record<WorkloadVerdict, number>>;
  /** Number of denied workloads by violated check. */
  readonly checks: Readonly<Record<string, number>>;
  /** The first denied workloads, or all of them. */
  readonly denied: readonly FleetWorkload[];
  /** Number of denied workloads that are not listed. */
  readonly omitted: number;
}

/** A denied workload. */
export interface FleetWorkload {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
  readonly verdict: Exclude<WorkloadVerdict, 'restart'>;
  readonly checks: readonly string[];
}

/** A check, and the workloads that its fix helps to admit. */
export interface FleetCheck {
  readonly check: string;
  readonly fix: string;
  /** Number of denied workloads that violate the check. */
  readonly workloads: number;
  /** Number of workloads that pass once this check and all previous checks are fixed. */
  readonly admitted: number;
  /**
   * Names of the clusters with workloads that violate the check, in descending order of the number of these workloads.
   */
  readonly clusters: readonly string[];
}
