import type { ProposedScc, PlannedPod } from '../../policy/scc/advice/explain.ts';
import type { ClusterRole, RoleBinding } from '../../kube/types.ts';
import type { ExpectedMode } from '../scc-options.ts';

/** A namespace with what runs in it. */
export interface PlannedNamespace extends ExpectedMode {
  readonly name: string;
  /** Sorted by kind and name. */
  readonly workloads: readonly PlannedWorkload[];
}

/** `off`: SCCs do not count in the namespace. */
export type Outcome = PlannedPod | { readonly outcome: 'off' };

/** An object that pods come from, and what becomes of its pods. */
export interface PlannedWorkload {
  readonly kind: string;
  readonly name: string;
  /** Of its pods; absent for mirror pods, and where none can be told. */
  readonly serviceAccount?: string;
  /** Why the API server refuses its pods whatever SCCs say. */
  readonly refusal?: string;
  readonly result: Outcome;
}

/** How a workload is called in its namespace. */
export type WorkloadName = Pick<PlannedWorkload, 'kind' | 'name'>;

/** The use of an SCC, to be granted to a service account in its namespace. */
export interface PlannedGrant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
  /** Which it admits. */
  readonly workloads: readonly WorkloadName[];
  /** Which were admitted before, and come under this SCC then. */
  readonly moves: readonly (WorkloadName & { readonly from: string })[];
}

/** A workload that only an SCC would admit which allows everything, and what should be written instead. */
export interface NeededScc {
  readonly namespace: string;
  readonly workload: WorkloadName;
  readonly instead: string;
  readonly scc: ProposedScc;
}

/** A plan for a cluster. */
export interface Plan {
  /** Sorted by name; only those in which something runs. */
  readonly namespaces: readonly PlannedNamespace[];
  /** What would admit all pods that grants can help; `bindings` as what is applied. */
  readonly grants: readonly PlannedGrant[];
  readonly bindings: readonly (ClusterRole | RoleBinding)[];
  /** What was not there and had to be assumed. */
  readonly assumptions: readonly string[];
}
