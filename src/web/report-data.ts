/** The data of a report, which the page renders and `portcullis report -o json` prints. */
import type { JsonObject, UnreviewedPod } from '../kube/types.ts';
import type { Level } from '../policy/pss/index.ts';
import type {
  NamespaceCounts,
  PlannedNamespace,
  RolloutPhase,
  RolloutStatus,
  RolloutStep,
  ViolatingWorkload,
} from '../policy/rollout/index.ts';
import type { SccDenial, TemporaryGrant } from '../policy/scc/index.ts';

/** API version of reports that are saved as JSON. It changes if fields change their meaning or are removed. */
export const REPORT_API_VERSION = 'report.portcullis.dev/v1alpha1';

/** Takes the place of a report for a cluster that could not be read. */
export interface UnreadReport {
  readonly cluster: ClusterIdentity;
  readonly error: string;
}

export interface ReportData {
  readonly apiVersion: typeof REPORT_API_VERSION;
  readonly kind: 'Report';
  readonly cluster: ClusterIdentity;
  /** Address of the API server, or a description of the manifests. */
  readonly source: string;
  /** Time of the report in RFC 3339 format. */
  readonly time: string;
  readonly version: string;
  /** Source of the settings. Absent if they are the defaults. */
  readonly settings?: string | undefined;
  /** Spec of the PortcullisConfiguration in force. Absent if it was not read, or if other settings are in force. */
  readonly spec?: JsonObject | undefined;
  /** Optional kinds that the user may not read. */
  readonly unread: readonly string[];
  readonly assumptions: readonly string[];
  readonly summary: NamespaceCounts;
  readonly rollout: ReportRollout;
  readonly namespaces: readonly ReportNamespace[];
  /** One sentence for each violated check that describes how to fix it. */
  readonly fixes: Readonly<Record<string, string>>;
  readonly sccs: readonly ReportScc[];
  /** Workloads that SCC admission denies or, if it is not enforced, would deny. */
  readonly sccDenials: readonly SccDenial[];
  /** Pods that were admitted without review, for example during an outage, and that the policy denies. */
  readonly unreviewedPods: readonly UnreviewedPod[];
  readonly exemptions: readonly PolicyExemption[];
  readonly exceptions: readonly ListedException[];
  /** Usage counts of exemptions. Absent if no replica publishes counts. */
  readonly uses?: { readonly since: string; readonly replicas: number } | undefined;
  /** Changes since an earlier report. */
  readonly comparison?: ReportComparison | undefined;
}

/** Identifies a cluster. A report on manifests has at most a name. */
export interface ClusterIdentity {
  /** UID of the `kube-system` namespace. */
  readonly uid?: string | undefined;
  /** Context in the kubeconfig. */
  readonly context?: string | undefined;
  /** `spec.clusterName` in the settings. */
  readonly name?: string | undefined;
}

interface ReportRollout extends RolloutStatus {
  readonly isInstalled: boolean;
  readonly phase: RolloutPhase;
  /** The level of namespaces without a label. */
  readonly default: Level;
  readonly steps: readonly RolloutStep[];
  /** The state and the next action. */
  readonly status: readonly (readonly [title: string, text: string])[];
  /** The fields of the interface that OpenShift defines. */
  readonly interface: readonly (readonly [title: string, text: string])[];
}

export interface ReportNamespace extends PlannedNamespace {
  readonly labels: Readonly<Record<string, string>>;
  readonly workloads: readonly ReportWorkload[];
  /** The workloads that each level denies, regardless of the level in force. Absent if the evaluation failed. */
  readonly denied?: Readonly<Record<DenyingLevel, readonly DeniedWorkload[]>> | undefined;
}

export type DenyingLevel = Exclude<Level, 'privileged'>;

export interface ReportWorkload extends ViolatingWorkload {
  readonly patch?: ReportPatch | undefined;
}

/** The change that fixes a workload's violations in the cluster, as far as its checks can be fixed automatically. */
export interface ReportPatch {
  readonly command: string;
  /** Conditions that cannot be determined from the cluster, so the user must verify them. */
  readonly notes: readonly string[];
}

/** A workload, and the checks that it violates. */
export interface DeniedWorkload {
  readonly kind: string;
  readonly name: string;
  readonly checks: readonly string[];
}

/** Differences in the violations of denied workloads since an earlier report. */
export interface ReportComparison {
  /** Source and time of the earlier report. */
  readonly source: string;
  readonly time: string;
  readonly added: readonly ChangedWorkload[];
  /** Violations that workloads no longer have, including those of deleted workloads. */
  readonly fixed: readonly ChangedWorkload[];
  /** Number of violations that appear in both reports. */
  readonly unchanged: number;
  /** Namespaces that are not compared because an evaluation failed. */
  readonly skipped: readonly string[];
}

interface ChangedWorkload extends DeniedWorkload {
  readonly namespace: string;
}

/** The usage and the grants of an SCC. */
export interface ReportScc {
  readonly name: string;
  readonly priority: number;
  /** Number of running pods that the SCC admitted. */
  readonly pods: number;
  /** Number of workloads whose pods the SCC would admit now. */
  readonly workloads: number;
  readonly grants: readonly ReportGrant[];
}

interface ReportGrant {
  readonly subject: string;
  /** Namespace of the grant. Absent for a cluster-wide grant. */
  readonly namespace?: string | undefined;
  /** The list, binding or role that contains the grant. */
  readonly through: string;
}

/**
 * An exemption. `exception` is a PodSecurityException. `default` is the level or mode for unlabeled namespaces.
 * `namespace`, `user` and `runtimeClass` are exempt names. `scc` is an SCC that admits pods that the restricted level
 * denies. `grant` is a subject that may use such an SCC.
 */
export interface PolicyExemption {
  readonly kind: 'default' | 'namespace' | 'user' | 'runtimeClass' | 'scc' | 'grant' | 'exception';
  /** Name of the exempt object. For a grant, the subject, such as `ServiceAccount shop/builder`. */
  readonly name: string;
  /**
   * The policy that does not apply. `webhook` means that pods are admitted without review, either always or while no
   * replica responds.
   */
  readonly policy: 'Pod Security' | 'SCC' | 'webhook';
  /** The setting, label or binding that defines the exemption. */
  readonly source: string;
  /** The granted SCC. */
  readonly scc?: string;
  /** Namespace to which the grant is limited. */
  readonly namespace?: string;
  /** The Pod Security Standards level that pods under the SCC satisfy. */
  readonly level?: Level;
  /** Number of namespaces to which a default applies. */
  readonly namespaces?: number;
  /**
   * For a permanent grant, the temporary grant of the same SCC that existed when the permanent grant was created or
   * changed.
   */
  readonly during?: TemporaryGrant;
  /** Start time of the exemption in RFC 3339 format. */
  readonly since?: string;
  /**
   * Source of `since`. `managedFields` is the last change to the field, although an earlier value may have had the
   * same effect. `creationTimestamp` is the creation of the object, which is the earliest possible start of the
   * exemption.
   */
  readonly sinceSource?: 'managedFields' | 'creationTimestamp';
  /** The first workloads whose running pods need the exception. */
  readonly workloads?: readonly string[];
  /**
   * Number of running pods to which the exemption applies. Absent if it cannot be determined from pods, as for exempt
   * users.
   */
  readonly pods?: number;
  /**
   * Number of requests that the exemption has admitted since the replicas started. Absent if requests are not counted.
   */
  readonly uses?: number;
}

/** An exception, as listed by commands and reports. */
export interface ListedException {
  readonly namespace: string;
  readonly name: string;
  readonly serviceAccount: string;
  /** `Proposed`, `Active`, `Shadowed`, `Unused`, or the reason why the exception does not apply. */
  readonly state: string;
  /** Reason why the exception does not apply or has no effect. */
  readonly problem: string | undefined;
  /** Expiry time in RFC 3339 format. */
  readonly expiresAt: string;
  /** Hash of the current spec, which an approval must contain. */
  readonly specHash: string | undefined;
  readonly authors: readonly string[];
  readonly approvedBy: string | undefined;
  readonly uses: number;
  readonly lastUsed: string | undefined;
  readonly reason: string;
}
