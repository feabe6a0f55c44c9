/**
 * What `check` found, as plain data: judged here, written in one of several formats. The folder writes nothing out and
 * reads nothing in.
 */
import type { Mode } from '../../policy/psa/policy.ts';

/** A place in a file; line and column count from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** An offending field, by its path in the object; its place is that of the field or of its nearest parent. */
export interface OffendingField extends Place {
  readonly path: string;
}

/** What one check holds against an object. */
export interface Finding {
  /** The strongest mode in which it counts. */
  readonly mode: Mode;
  /** `restricted:v1.30`; absent where it is no policy that is violated. */
  readonly policy?: string;
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
  /** What to do about it. */
  readonly remedy: string;
  /** At least one. */
  readonly fields: readonly OffendingField[];
}

/** One object that was judged. */
export interface Judgement extends Place {
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent for what lies in none. */
  readonly namespace?: string;
  readonly name: string;
  /** Absent where none count, as for an SCC. */
  readonly policies?: Readonly<Record<Mode, string>>;
  readonly findings: readonly Finding[];
}

/** Something to know about a place: why it could not be read, or was not judged. */
export interface Remark extends Place {
  readonly message: string;
}

export interface Report {
  readonly judgements: readonly Judgement[];
  /** How many objects are of kinds that are not judged. */
  readonly others: number;
  /** Objects of kinds that are judged which no API server would take, and why. */
  readonly unjudged: readonly Remark[];
  /** What changes no verdict. */
  readonly warnings: readonly Remark[];
  /** What could not be read. */
  readonly errors: readonly Remark[];
  /** The weakest mode whose findings fail the check. */
  readonly failOn: Mode;
}
