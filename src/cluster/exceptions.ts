/** Reads PodSecurityExceptions from a store. Each object is parsed only once. */
import { createHash } from 'node:crypto';
import { withoutNulls } from '../kube/equality.ts';
import { AUTHORS_ANNOTATION, type PodSecurityException } from '../kube/pod-security-exception.ts';
import { objectKey } from '../kube/resources.ts';
import { compareBytes } from '../kube/text.ts';
import { isObject } from '../kube/types.ts';
import {
  CLOCK_SKEW_MS,
  type ExceptionProblem,
  type ExceptionSettings,
  findExceptionProblem,
  findLastingProblem,
  findTimeProblem,
  type PreparedException,
  prepareException,
} from '../policy/psa/exceptions.ts';
import { type ExceptionIndex, indexExceptions, NO_EXCEPTIONS, unexpired } from '../policy/pss/exceptions.ts';
import { memoize, type Store } from './store.ts';

/** Returns the hash of a spec, which does not depend on the order of its members. */
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
  /** The last result, which is valid for the settings between two times. */
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
    // Reading an exception is slow, and authors can create any number of exceptions that are not approved.
    if (object.status?.approval === undefined) return [];
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

/** Returns the unexpired exceptions in manifests. These are assumed to be approved. */
export function proposedExceptions(store: Store, namespace: string, nowMs: number): ExceptionIndex {
  const rules = store.list('PodSecurityException', namespace).flatMap((object) => readException(object)?.rule ?? []);
  return indexExceptions(unexpired(rules, nowMs));
}

/** An exception, as listed by commands and reports. */
export interface ListedException {
  readonly namespace: string;
  readonly name: string;
  readonly serviceAccount: string;
  /** `Proposed`, `Active`, `Shadowed`, `Unused`, or the reason why the exception does not apply. */
  readonly state: string;
  /** Why the exception does not apply or has no effect. */
  readonly problem: string | undefined;
  /** RFC 3339. */
  readonly expiresAt: string;
  /** Hash of the current spec, which an approval must contain. */
  readonly specHash: string | undefined;
  readonly authors: readonly string[];
  readonly approvedBy: string | undefined;
  readonly uses: number;
  readonly lastUsed: string | undefined;
  readonly reason: string;
}

const UNAPPROVED: readonly ExceptionProblem['reason'][] = ['NotApproved', 'SpecChanged', 'SelfApproved'];

/** Returns why the current spec of an exception is not approved. */
export function unapproved(problem: ExceptionProblem | undefined): ExceptionProblem | undefined {
  return problem && UNAPPROVED.includes(problem.reason) ? problem : undefined;
}

/**
 * Lists the exceptions in all namespaces or one, sorted by namespace and name. If the settings are unknown, the states
 * are those in the status.
 */
export function listExceptions(
  store: Store,
  settings: ExceptionSettings | undefined,
  nowMs: number,
  namespace?: string,
): readonly ListedException[] {
  return store
    .list('PodSecurityException', namespace)
    .toSorted((a, b) => compareBytes(objectKey(a), objectKey(b)))
    .map((object) => listException(object, settings, nowMs));
}

function listException(
  object: PodSecurityException,
  settings: ExceptionSettings | undefined,
  nowMs: number,
): ListedException {
  const exception = readException(object);
  const { metadata: { name = '', namespace = '' } = {}, spec, status } = object;
  const problem =
    exception &&
    (settings ? findExceptionProblem(exception, settings, nowMs) : reportedProblem(exception, object, nowMs));
  const find = (type: string) => status?.conditions?.find((one) => one.type === type && one.status === 'True');
  const condition = find('Shadowed') ?? find('Unused');
  return {
    namespace,
    name,
    serviceAccount: spec?.serviceAccountName ?? '',
    state: unapproved(problem) ? 'Proposed' : (problem?.reason ?? condition?.type ?? 'Active'),
    problem: problem?.message ?? condition?.message,
    expiresAt: spec?.expiresAt ?? '',
    specHash: exception?.specHash,
    authors: exception?.authors ?? [],
    // An approval applies to the spec that was approved.
    approvedBy: unapproved(problem) ? undefined : status?.approval?.by,
    uses: status?.uses ?? 0,
    lastUsed: status?.lastUsed,
    reason: spec?.reason ?? '',
  };
}

/** Returns the problem that the leader has reported. */
function reportedProblem(
  exception: PreparedException,
  { status }: PodSecurityException,
  nowMs: number,
): ExceptionProblem | undefined {
  const active = status?.conditions?.find(({ type }) => type === 'Active');
  if (active?.status === 'True') return findTimeProblem(exception, nowMs);
  const { reason = 'NotApproved', message = 'its state is not reported yet' } = active ?? {};
  return { reason: reason as ExceptionProblem['reason'], message };
}
