/** The PodSecurityExceptions of a store, prepared once for each object. */
import { createHash } from 'node:crypto';
import { withoutNulls } from '../kube/equality.ts';
import { AUTHORS_ANNOTATION, type PodSecurityException } from '../kube/pod-security-exception.ts';
import { isObject } from '../kube/types.ts';
import {
  type ExceptionSettings,
  findExceptionProblem,
  type PreparedException,
  prepareException,
} from '../policy/psa/exceptions.ts';
import { type ExceptionRule, unexpired } from '../policy/pss/exceptions.ts';
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

/** Prepares an exception. Returns `undefined` for an object that its schema does not permit. */
export const readException = memoize((object: PodSecurityException): PreparedException | undefined =>
  prepareException(object, {
    specHash: hashSpec(object.spec),
    authors: object.metadata?.annotations?.[AUTHORS_ANNOTATION],
  }),
);

/** Returns the exceptions that apply to new pods in a namespace. */
export function activeExceptions(
  store: Store,
  settings: ExceptionSettings,
  namespace: string,
  nowMs: number,
): readonly ExceptionRule[] {
  if (settings.mode === 'off') return [];
  return store.list('PodSecurityException', namespace).flatMap((object) => {
    const exception = readException(object);
    return exception && findExceptionProblem(exception, settings, nowMs) === undefined ? [exception.rule] : [];
  });
}

/** Returns the exceptions in manifests, which are assumed to be approved. */
export function proposedExceptions(store: Store, namespace: string, nowMs: number): readonly ExceptionRule[] {
  const rules = store.list('PodSecurityException', namespace).flatMap((object) => readException(object)?.rule ?? []);
  return unexpired(rules, nowMs);
}
