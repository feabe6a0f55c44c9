/**
 * What `explain` says, as plain data: found out here, written in one of several formats. The folder reads nothing in and
 * writes nothing out.
 */
import type { Change } from '../../policy/scc/changes.ts';
import type { ExplainedScc } from '../../policy/scc/explain.ts';
import type { Level } from '../../policy/pss/index.ts';
import type { SccDecision } from '../../policy/scc/types.ts';
import type { ForetoldMode } from '../scc-options.ts';

/** An SCC, with what it would change in the pod if it fits. */
export interface SccRow extends Omit<ExplainedScc, 'object'> {
  readonly changes?: readonly Change[];
}

/** What becomes of the pods of one object. */
export interface ExplainedObject {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly mode: ForetoldMode;
  /** Who creates the pod, in words. */
  readonly createdBy: string;
  /** Absent if the pod names none. */
  readonly serviceAccount?: string;
  /** Why the API server refuses the pod whatever SCCs say. */
  readonly refusal?: string;
  readonly decision: SccDecision;
  readonly chosen?: string;
  readonly next?: string;
  readonly reason?: string;
  readonly nearest?: string;
  readonly grantable?: string;
  /** The strictest level of the Pod Security Standards that the admitted pod keeps. */
  readonly level?: Level;
  readonly sccs: readonly SccRow[];
}

export interface Explanation {
  readonly objects: readonly ExplainedObject[];
  readonly assumptions: readonly string[];
}
