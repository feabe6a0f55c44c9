import type { Condition } from '../../kube/conditions.ts';
import type { DefaultLevel, RolloutPhase, SyncerMode } from '../../policy/rollout/enforcement.ts';
import type { Category, ViolatingWorkload } from '../../policy/rollout/readiness.ts';
import type { Level } from '../../policy/pss/types.ts';

/**
 * What would become of a namespace. `clean`: nothing in it would be refused. `violating`: something would. `inconclusive`:
 * there is no telling. `labelled`: it has a level of its own, which stays in force. `exempt`: it is held to nothing.
 */
export type Verdict = 'clean' | 'violating' | 'inconclusive' | 'labelled' | 'exempt';

/** A namespace on its way. */
export interface PlannedNamespace {
  readonly name: string;
  /** What pods are held to now, and by what. */
  readonly today: Level;
  readonly todayBy: 'label' | 'default' | 'exemption';
  /** What they would be held to; absent where nobody can tell. */
  readonly toCome?: Level;
  readonly verdict: Verdict;
  readonly categories: readonly Category[];
  /** As in the status of the PSAEnforcementConfig. */
  readonly reason?: string;
  /** What would be refused, sorted by kind and name. */
  readonly workloads: readonly ViolatingWorkload[];
  /** Why there is no verdict. */
  readonly error?: string;
  /** What to do, each step in one sentence. */
  readonly steps: readonly string[];
}

/** How many namespaces there are of each kind, and what would be refused in them. */
export type NamespaceCounts = Readonly<Record<Verdict | 'namespaces' | 'workloads' | 'pods', number>>;

/** Where the rollout stands. */
export interface RolloutState {
  readonly phase: RolloutPhase;
  readonly enforcementDate?: string;
  readonly gate: boolean;
  /** `spec.enforcementMode`; absent if there is no PSAEnforcementConfig. */
  readonly requested?: string;
  readonly requestedBy?: 'rollout' | 'others';
  readonly decided: string;
  readonly lastEvaluationTime?: string;
  /** What namespaces without a label are held to. */
  readonly enforce: DefaultLevel;
  readonly published: DefaultLevel;
  /** 0: nothing has been published yet. */
  readonly generation: number;
  readonly syncer: SyncerMode;
  readonly raiseSettleMs: number;
  readonly conditions: readonly Condition[];
  /** Managed namespaces that need a label before the default can be raised. */
  readonly unlabelled: readonly string[];
}
