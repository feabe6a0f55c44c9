import { compareBytes } from '../../../kube/text.ts';
import { isObject } from '../../../kube/types.ts';
import type { ApiObject } from '../../types.ts';
import { compare } from '../typed/compare.ts';
import { createFieldSet, difference, hasPath, union } from '../typed/field-set.ts';
import { fieldSetOf } from '../typed/field-set-of.ts';
import { validateTyped } from '../typed/validate.ts';
import type { ObjectType } from '../types.ts';
import type { OwnershipConflict } from './changes.ts';

/** The manager for which server-side apply takes over from client-side apply. */
export const KUBECTL = 'kubectl';

/** Where `kubectl apply` keeps what it applied last from the client's side. */
const ANNOTATION = 'kubectl.kubernetes.io/last-applied-configuration';
/** The most that all annotations of an object may hold, in bytes. */
const MAX_ANNOTATIONS_BYTES = 256 * 1024;

/**
 * The conflicts that are left when kubectl may have what it applied from the client's side and nobody changed since.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go
 */
export function withoutLastApplied(
  conflicts: readonly OwnershipConflict[],
  live: ApiObject,
  type: ObjectType,
): readonly OwnershipConflict[] {
  const last = lastAppliedOf(live);
  if (!last || last['apiVersion'] !== live.apiVersion || validateTyped(type, last, 'refused') !== undefined)
    return conflicts;
  const { removed, modified, added } = compare(type, last, live);
  const allowed = difference(fieldSetOf(type, last), [removed, modified, added].reduce(union, createFieldSet()));
  return conflicts.filter(({ path }) => !hasPath(allowed, path));
}

/** Brings the annotation up to date after a server-side apply by kubectl, so that a client-side one can follow. */
export function updateLastApplied(object: ApiObject, config: ApiObject): void {
  const annotations = annotationsOf(object);
  if (!annotations[ANNOTATION]) return;
  const others = withoutAnnotation(annotations);
  const updated = { ...others, [ANNOTATION]: `${JSON.stringify(sortKeys(withoutLastAppliedIn(config)))}\n` };
  const bytes = Object.entries(updated).reduce((sum, pair) => sum + Buffer.byteLength(pair.join('')), 0);
  (object.metadata ??= {})['annotations'] = bytes > MAX_ANNOTATIONS_BYTES ? others : updated;
}

function withoutLastAppliedIn(config: ApiObject): ApiObject {
  const metadata = { ...config.metadata };
  const annotations = withoutAnnotation(annotationsOf(config));
  delete metadata['annotations'];
  return { ...config, metadata: Object.keys(annotations).length > 0 ? { ...metadata, annotations } : metadata };
}

function withoutAnnotation(annotations: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => key !== ANNOTATION));
}

function lastAppliedOf(live: ApiObject): Record<string, unknown> | undefined {
  const text = annotationsOf(live)[ANNOTATION];
  if (!text) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function annotationsOf(object: ApiObject): Record<string, string> {
  const annotations = object.metadata?.['annotations'];
  return isObject(annotations) ? (annotations as Record<string, string>) : {};
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (!isObject(value)) return value;
  const members = Object.entries(value).sort(([a], [b]) => compareBytes(a, b));
  return Object.fromEntries(members.map(([key, member]) => [key, sortKeys(member)]));
}
