import type { SccMode } from '../../policy/scc/mode.ts';
import type { PlannedPod } from '../../policy/scc/plan.ts';
import type { ClusterRole, RoleBinding } from '../../kube/types.ts';

/** A namespace with what runs in it. */
export interface PlannedNamespace {
  readonly name: string;
  readonly mode: SccMode;
  /** What is wrong with the label that says the mode. */
  readonly problem?: string;
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
  readonly result: Outcome;
}

/** A plan for a cluster. */
export interface Plan {
  /** Sorted by name; only those in which something runs. */
  readonly namespaces: readonly PlannedNamespace[];
  /** What would admit all pods that grants can help. */
  readonly bindings: readonly (ClusterRole | RoleBinding)[];
  /** What was not there and had to be assumed. */
  readonly assumptions: readonly string[];
}
