import { printFieldError } from '../../kube/field-error.ts';
import { printJson } from '../../kube/text.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { decodePod, hasTooManyKeys, type PodFields } from './decode/pod.ts';
import { isIgnoredSubresource, isIgnoredUpdate, isWindowsPod } from './skip.ts';
import type { SccInput } from './types.ts';

/** A request that must be judged; `oldPod` on updates only. */
export interface JudgedRequest {
  readonly pod: PodFields;
  readonly oldPod: JsonObject | undefined;
}

/** What becomes of a request before any SCC is looked at. */
export type ReadRequest =
  | { readonly verdict: 'judge'; readonly request: JudgedRequest }
  | { readonly verdict: 'ignore' }
  | { readonly verdict: 'refuse'; readonly message: string };

/** Sorts out requests that SCCs have nothing to do with, and those whose objects are no pods. */
export function readRequest({ operation, subResource, object, oldObject }: SccInput): ReadRequest {
  const isUpdate = operation === 'UPDATE';
  if ((!isUpdate && operation !== 'CREATE') || isIgnoredSubresource(subResource)) return { verdict: 'ignore' };
  if (!isObject(object) || isOfAnotherKind(object)) return cannotConvert(object);
  if (isWindowsPod(object)) return { verdict: 'ignore' };
  if (!isUpdate) return decode(object, undefined);
  if (!isObject(oldObject)) return cannotConvert(oldObject);
  // Not compared: it would take long, and what is refused anyway needs no comparison.
  if (hasTooManyKeys(object) || hasTooManyKeys(oldObject)) return decode(object, oldObject);
  return isIgnoredUpdate(object, oldObject) ? { verdict: 'ignore' } : decode(object, oldObject);
}

function decode(object: JsonObject, oldPod: JsonObject | undefined): ReadRequest {
  const decoded = decodePod(object);
  if ('error' in decoded) return refuse(printFieldError(decoded.error));
  return { verdict: 'judge', request: { pod: decoded.pod, oldPod } };
}

/** Some subresource of pods may carry another kind one day. */
function isOfAnotherKind({ kind }: JsonObject): boolean {
  return kind != null && kind !== 'Pod';
}

function cannotConvert(object: unknown): ReadRequest {
  return refuse(printJson(object ?? null));
}

function refuse(what: string): ReadRequest {
  return { verdict: 'refuse', message: `object was marked as kind pod but was unable to be converted: ${what}` };
}
