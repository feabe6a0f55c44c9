import { isObject, type JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';

/** What lies at a path of fields; `undefined` where a part of the way is missing or no object. */
export function at(object: unknown, ...path: readonly string[]): unknown {
  let value = object;
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value ?? undefined;
}

export function textAt(object: unknown, ...path: readonly string[]): string {
  const value = at(object, ...path);
  return typeof value === 'string' ? value : '';
}

export function numberAt(object: unknown, ...path: readonly string[]): number {
  const value = at(object, ...path);
  return typeof value === 'number' ? value : 0;
}

/** The objects of a list; anything else is left out. */
export function itemsAt(object: unknown, ...path: readonly string[]): readonly JsonObject[] {
  const value = at(object, ...path);
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function textsAt(object: unknown, ...path: readonly string[]): readonly string[] {
  const value = at(object, ...path);
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

/** The entries of a map of texts in the order of the keys, as `a=b,c=d`; `<none>` for an empty map. */
export function labelsText(labels: unknown): string {
  if (!isObject(labels)) return '<none>';
  const pairs = Object.keys(labels)
    .sort()
    .map((key) => `${key}=${String(labels[key])}`);
  return pairs.length === 0 ? '<none>' : pairs.join(',');
}

/** A label selector as the API server prints it: `a=b,c in (d,e),!f`; `<none>` for one that selects everything. */
export function selectorText(selector: unknown): string {
  const labels = at(selector, 'matchLabels');
  const equals = isObject(labels) && Object.keys(labels).length > 0 ? [labelsText(labels)] : [];
  const terms = [...equals, ...itemsAt(selector, 'matchExpressions').map(requirementText)];
  return terms.length === 0 ? '<none>' : terms.join(',');
}

function requirementText(requirement: JsonObject): string {
  const key = textAt(requirement, 'key');
  const values = [...textsAt(requirement, 'values')].sort().join(',');
  switch (textAt(requirement, 'operator')) {
    case 'In':
      return `${key} in (${values})`;
    case 'NotIn':
      return `${key} notin (${values})`;
    case 'DoesNotExist':
      return `!${key}`;
    default:
      return key;
  }
}

/** How long ago something was, in two figures at most; `<unknown>` where there is no time. */
export function since(time: unknown, now: Date): string {
  const then = typeof time === 'string' ? Date.parse(time) : NaN;
  return Number.isNaN(then) ? '<unknown>' : humanDuration((now.getTime() - then) / 1000);
}

export function ageOf(object: ApiObject, now: Date): string {
  return since(object.metadata?.['creationTimestamp'], now);
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/**
 * A duration as `kubectl get` shows it.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/util/duration/duration.go
 */
export function humanDuration(duration: number): string {
  const seconds = Math.trunc(duration);
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  if (seconds < 2 * MINUTE) return `${seconds}s`;
  if (seconds < 10 * MINUTE) return pair(seconds, MINUTE, 'm', 1, 's');
  if (seconds < 3 * HOUR) return `${Math.trunc(seconds / MINUTE)}m`;
  if (seconds < 8 * HOUR) return pair(seconds, HOUR, 'h', MINUTE, 'm');
  if (seconds < 2 * DAY) return `${Math.trunc(seconds / HOUR)}h`;
  if (seconds < 8 * DAY) return pair(seconds, DAY, 'd', HOUR, 'h');
  if (seconds < 2 * YEAR) return `${Math.trunc(seconds / DAY)}d`;
  if (seconds < 8 * YEAR) return pair(seconds, YEAR, 'y', DAY, 'd');
  return `${Math.trunc(seconds / YEAR)}y`;
}

function pair(seconds: number, unit: number, name: string, rest: number, restName: string): string {
  const whole = Math.trunc(seconds / unit);
  const remainder = Math.trunc((seconds % unit) / rest);
  return remainder === 0 ? `${whole}${name}` : `${whole}${name}${remainder}${restName}`;
}
