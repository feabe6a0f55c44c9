/** The data of a report. The page renders them, and `portcullis report -o json` prints them. */
import type { PolicyExemption } from '../cluster/exemptions.ts';
import type { Level } from '../policy/pss/policy.ts';
import type { ViolatingWorkload } from '../policy/rollout/evaluation.ts';

export interface ReportData {
  /** The address of the API server, or the manifests. */
  readonly source: string;
  /** RFC 3339. */
  readonly time: string;
  readonly version: string;
  /** The source of the settings; absent for defaults. */
  readonly settings?: string | undefined;
  readonly assumptions: readonly string[];
  readonly summary: NamespaceSummary;
  readonly rollout: ReportRollout;
  readonly namespaces: readonly ReportNamespace[];
  readonly sccs: readonly ReportScc[];
  /** The workloads that SCC admission denies, or would deny if it were enforced. */
  readonly sccDenials: readonly SccDenial[];
  readonly exemptions: readonly PolicyExemption[];
  /** The counts of the uses of exemptions; absent if no replica publishes any. */
  readonly uses?: { readonly since: string; readonly replicas: number } | undefined;
}

type Verdict = 'clean' | 'violating' | 'inconclusive' | 'labeled' | 'exempt';

/** Numbers of namespaces by verdict, and of workloads and running pods that enforcement would deny. */
export type NamespaceSummary = Readonly<Record<Verdict | 'namespaces' | 'workloads' | 'pods', number>>;

/** A step of the rollout of enforcement. */
export interface RolloutStep {
  readonly name: string;
  readonly state: 'done' | 'current' | 'waiting';
  readonly detail: string;
}

export interface ReportRollout {
  readonly isInstalled: boolean;
  readonly steps: readonly RolloutStep[];
  /** The state as titles and texts. */
  readonly facts: readonly (readonly [title: string, text: string])[];
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

export interface ReportNamespace {
  readonly name: string;
  readonly current: Level;
  readonly currentSource: string;
  /** The level with enforcement; absent if it cannot be computed. */
  readonly planned?: Level | undefined;
  readonly verdict: Verdict;
  /** The number of workloads that each level denies; absent if the evaluation failed. */
  readonly denied?: Readonly<Record<Level, number>> | undefined;
  /** The error of the evaluation. */
  readonly error?: string | undefined;
  /** The workloads that the planned level would deny. */
  readonly workloads: readonly ViolatingWorkload[];
  /** Next steps, one sentence each. */
  readonly steps: readonly string[];
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

export interface ReportGrant {
  readonly subject: string;
  /** The only namespace of the grant; absent for all namespaces. */
  readonly namespace?: string | undefined;
  /** The list, binding or role of the grant. */
  readonly through: string;
}

export interface SccDenial {
  readonly namespace: string;
  readonly kind: string;
  readonly name: string;
  /** `report`: the denial is only a warning. */
  readonly mode: 'enforce' | 'report';
  readonly reason: string;
  /** The next step, one sentence; absent if only a change of the workload helps. */
  readonly fix?: string | undefined;
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
