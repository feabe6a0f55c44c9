/** Reads PodSecurityExceptions from a store. Each object is parsed only once. */
import { createHash } from 'node:crypto';
import { AUTHORS_ANNOTATION } from '../api/names.ts';
import { memoize, type Store } from '../cluster/store.ts';
import { withoutNulls } from '../kube/equality.ts';
import type { PodSecurityException } from '../kube/pod-security-exception.ts';
import { isObject } from '../kube/types.ts';
import {
  CLOCK_SKEW_MS,
  type ExceptionProblem,
  type ExceptionSettings,
  findLastingProblem,
  findTimeProblem,
  mayBeApproved,
  type PreparedException,
  prepareException,
} from '../policy/psa/index.ts';
import { type ExceptionIndex, indexExceptions, NO_EXCEPTIONS } from '../policy/pss/index.ts';

/** Returns the hash of a spec. The hash does not depend on the order of members. */
export function hashSpec(spec: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(sortMembers(withoutNulls(spec)) ?? null))
    .digest('hex');
}

function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([key, member]) => [key, sortMembers(member)] as const);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Parses an exception. Returns `undefined` if the object does not conform to its schema. */
export const readException = memoize((object: PodSecurityException): PreparedException | undefined =>
  prepareException(object, {
    specHash: hashSpec(object.spec),
    authors: object.metadata?.annotations?.[AUTHORS_ANNOTATION],
  }),
);

/** The exceptions of a namespace. */
interface NamespaceExceptions {
  readonly objects: readonly PodSecurityException[];
  /** The last result. It is valid for the given settings from `fromMs` to `untilMs`. */
  active?: {
    readonly settings: ExceptionSettings;
    readonly fromMs: number;
    readonly untilMs: number;
    readonly index: ExceptionIndex;
  };
}

const byNamespace = memoize(
  (all: readonly PodSecurityException[]): ReadonlyMap<string, NamespaceExceptions> =>
    new Map(
      Map.groupBy(all, ({ metadata }) => metadata?.namespace ?? '')
        .entries()
        .map(([namespace, objects]) => [namespace, { objects }]),
    ),
);

/** Returns the exceptions that apply to new pods in a namespace. */
export function activeExceptions(
  store: Store,
  settings: ExceptionSettings,
  namespace: string,
  nowMs: number,
): ExceptionIndex {
  if (settings.mode === 'off') return NO_EXCEPTIONS;
  const known = byNamespace(store.list('PodSecurityException')).get(namespace);
  if (!known) return NO_EXCEPTIONS;
  const { active } = known;
  if (active?.settings === settings && active.fromMs <= nowMs && nowMs < active.untilMs) return active.index;
  const lasting = known.objects.flatMap((object) => {
    // Parsing an exception is slow.
    if (!mayBeApproved(object, settings)) return [];
    const exception = readException(object);
    return exception && findLastingProblem(exception, settings) === undefined ? [exception] : [];
  });
  let fromMs = -Infinity;
  let untilMs = Infinity;
  for (const { approvedMs, rule } of lasting) {
    for (const change of [approvedMs - CLOCK_SKEW_MS, rule.expiresAtMs]) {
      if (change <= nowMs) fromMs = Math.max(fromMs, change);
      else untilMs = Math.min(untilMs, change);
    }
  }
  const applicable = lasting.filter((exception) => findTimeProblem(exception, nowMs) === undefined);
  const index = indexExceptions(applicable.map(({ rule }) => rule));
  known.active = { settings, fromMs, untilMs, index };
  return index;
}

const UNAPPROVED: readonly ExceptionProblem['reason'][] = ['NotApproved', 'SpecChanged', 'SelfApproved'];

/** Returns the reason why the current spec of an exception is not approved, or `undefined` if it is approved. */
export function unapproved(problem: ExceptionProblem | undefined): ExceptionProblem | undefined {
  return problem && UNAPPROVED.includes(problem.reason) ? problem : undefined;
}
