/** The data of a report. The page renders them, and `portcullis report -o json` prints them. */
import type { PolicyExemption } from '../cluster/exemptions.ts';
import type { UnreviewedPod } from '../kube/types.ts';
import type { Level } from '../policy/pss/policy.ts';
import type { NamespaceCounts, PlannedNamespace } from '../policy/rollout/plan.ts';
import type { RolloutStep } from '../policy/rollout/state.ts';
import type { SccDenial } from '../policy/scc/advice/denials.ts';

export interface ReportData {
  /** The address of the API server, or the manifests. */
  readonly source: string;
  /** RFC 3339. */
  readonly time: string;
  readonly version: string;
  /** The source of the settings; absent for defaults. */
  readonly settings?: string | undefined;
  readonly assumptions: readonly string[];
  readonly summary: NamespaceCounts;
  readonly rollout: ReportRollout;
  readonly namespaces: readonly ReportNamespace[];
  readonly sccs: readonly ReportScc[];
  /** The workloads that SCC admission denies, or would deny if it were enforced. */
  readonly sccDenials: readonly SccDenial[];
  /** Pods that were admitted without a review, such as during an outage, and that the policy denies. */
  readonly unreviewedPods: readonly UnreviewedPod[];
  readonly exemptions: readonly PolicyExemption[];
  /** The counts of the uses of exemptions; absent if no replica publishes any. */
  readonly uses?: { readonly since: string; readonly replicas: number } | undefined;
}

interface ReportRollout {
  readonly isInstalled: boolean;
  readonly steps: readonly RolloutStep[];
  /** The state as titles and texts. */
  readonly facts: readonly (readonly [title: string, text: string])[];
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

export interface ReportNamespace extends PlannedNamespace {
  /** The number of workloads that each level denies; absent if the evaluation failed. */
  readonly denied?: Readonly<Record<Level, number>> | undefined;
}

/** The use of an SCC and the grants of its use. */
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
  /** The only namespace of the grant; absent for all namespaces. */
  readonly namespace?: string | undefined;
  /** The list, binding or role of the grant. */
  readonly through: string;
}

/** A review of an admission webhook. */
export interface Decision {
  /** RFC 3339. */
  readonly time: string;
  /** The path of the webhook. */
  readonly webhook: string;
  readonly operation: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly user: string;
  readonly verdict: 'allowed' | 'changed' | 'warned' | 'denied' | 'failed';
  /** The message of the denial, or the warnings. */
  readonly text: string;
}
