import type { FieldError } from '../../kube/field-error.ts';
import type { PodFields, Setting } from './fields.ts';

/** The levels from the most permissive to the strictest. */
export const LEVELS = ['privileged', 'baseline', 'restricted'] as const;

/** @see https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
export type Level = (typeof LEVELS)[number];

/** A version of the Pod Security Standards, as in the labels of a namespace. */
export type Version = 'latest' | `v1.${number}`;

/** What a namespace asks of its pods. */
export interface Policy {
  readonly level: Level;
  readonly version: Version;
}

/** What one check holds against a pod. */
export interface Violation {
  /** The id of the check; `decode` if a field has the wrong type. */
  readonly check: string;
  /** Short, without names and values. */
  readonly reason: string;
  /** The offending containers and values; rarely empty. */
  readonly detail: string;
  /** The offending fields; only where they are asked for. */
  readonly fields?: readonly FieldError[];
}

/** What a check says of a pod that it refuses. One check has at most one finding, however many containers offend. */
export interface Finding {
  readonly reason: string;
  readonly detail: string;
  /** The offending fields of that pod; called only where they are asked for. */
  fields(pod: PodFields): readonly FieldError[];
}

/** Judges a pod; `undefined` means passed. */
export type Rule = (pod: PodFields) => Finding | undefined;

/** A check as it is from one version on, until its next revision. */
export interface Revision {
  readonly since: Version;
  readonly check: Rule;
  /** Ids of the baseline checks that need not run at level restricted, since this one is stricter. */
  readonly overrides?: readonly string[];
}

/** A named rule of the Pod Security Standards. */
export interface Check {
  readonly id: string;
  readonly level: Exclude<Level, 'privileged'>;
  /** What to do about a violation, in one sentence. */
  readonly remedy?: string;
  /** Where a check judges these fields only: pods that set none of them pass without it. Absent: it always runs. */
  readonly passesUnlessSet?: readonly Setting[];
  /** In rising order. */
  readonly versions: readonly Revision[];
}

/** True for the name of a level, in lower case. */
export function isLevel(value: unknown): value is Level {
  return value === 'privileged' || value === 'baseline' || value === 'restricted';
}
