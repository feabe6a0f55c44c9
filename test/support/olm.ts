/** Reproduces decisions of the Operator Lifecycle Manager (OLM) about objects that it has created. */
import { isObject } from '../../src/kube/types.ts';

/**
 * Returns true if OLM keeps a Job instead of recreating it. OLM keeps a Job if every field that is set in the desired
 * Job has the same value, and lists have the same length.
 * @see https://github.com/operator-framework/operator-lifecycle-manager/blob/master/pkg/controller/bundle/bundle_unpacker.go
 */
export function isKeptByOlm(desired: unknown, live: unknown): boolean {
  if (desired === undefined || desired === null || desired === '') return true;
  if (Array.isArray(desired)) {
    if (desired.length === 0) return true;
    if (!Array.isArray(live) || live.length !== desired.length) return false;
    return desired.every((item, index) => isKeptByOlm(item, live[index]));
  }
  if (!isObject(desired)) return desired === live;
  return isObject(live) && Object.entries(desired).every(([key, value]) => isKeptByOlm(value, live[key]));
}
