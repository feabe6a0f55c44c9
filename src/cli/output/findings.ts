/** The texts that all formats have in common. */
import type { Mode } from '../../policy/psa/policy.ts';
import { quote } from '../../kube/text.ts';

// * What `check` found, as plain data: judged here, written in one of several formats. The folder writes nothing out and
// reads nothing in.

/** The id of the check for fields that a kind does not have. */
export const UNKNOWN_FIELD = 'unknownField';

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

/** `web.yaml:12:7` */
export function printPlace({ file, line, column }: Place): string {
  return `${file}:${line}:${column}`;
}

/** `Deployment shop/web` */
export function printObject({ kind, namespace, name }: Judgement): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name === '' ? '(no name)' : name}`;
}

/** What is wrong, as upstream words it in denials. */
export function printWhy({ reason, detail }: Finding): string {
  return detail === '' ? reason : `${reason} (${detail})`;
}

/** Of checks that have nothing to do with a policy. */
const VERDICTS: ReadonlyMap<string, string> = new Map([
  ['labels', 'has invalid labels'],
  ['scc-label', 'names no mode of security context constraints'],
  [UNKNOWN_FIELD, 'has unknown fields'],
  ['unusable', 'can be used by no pod (warn)'],
  ['mistyped', 'has values that match nothing (warn)'],
]);

/** What the object does: `violates PodSecurity "restricted:latest"`, in words of the mode. */
export function printVerdict({ mode, policy, check }: Finding): string {
  if (policy === undefined) return VERDICTS.get(check) ?? 'is invalid';
  return mode === 'enforce'
    ? `violates PodSecurity ${quote(policy)}`
    : `would violate PodSecurity ${quote(policy)} (${mode})`;
}

/** All that could not be judged: what cannot be read, and what no API server would take. */
export function problemsOf({ errors, unjudged }: Report): readonly Remark[] {
  return [...errors, ...unjudged];
}
