/**
 * Finding out what enforcement would refuse, without asking the API server: every pod and every pod template at the level
 * that its namespace would be held to.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/main/pkg/operator/podsecurityreadinesscontroller
 */
import type { Level } from '../../pss/types.ts';

/** Why workloads of a namespace violate its level to come; a namespace may be in `userSCC` and `unknown` at once. */
export const CATEGORIES = ['unknown', 'openshift', 'runLevelZero', 'disabledSyncer', 'userSCC'] as const;
export type Category = (typeof CATEGORIES)[number];

export type Cause = 'user' | 'serviceAccount';

/** What was found in a namespace. */
export interface NamespaceEvaluation {
  readonly name: string;
  readonly level: Level;
  readonly verdict: 'clean' | 'violating' | 'inconclusive';
  /** In no order; empty unless the verdict is `violating`. */
  readonly categories: readonly Category[];
  /** Sorted by kind and name. */
  readonly workloads: readonly ViolatingWorkload[];
  /** Why there is no verdict. */
  readonly error?: string;
}

/** Something whose pods enforcement would refuse: what makes the pods, or a pod that nothing makes. */
export interface ViolatingWorkload {
  readonly kind: string;
  readonly name: string;
  /** Pods that violate and run today. */
  readonly pods: number;
  /** Whose rights let in what violates: somebody's own, those of the service account, or some of both. */
  readonly causes: readonly Cause[];
  readonly violations: readonly FixableViolation[];
}

/** What one check holds against a workload, and what to do about it. */
export interface FixableViolation {
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
  /** Paths in the object of the workload: `spec.template.spec.hostNetwork`. */
  readonly fields: readonly string[];
  /** One sentence. */
  readonly fix: string;
}
