/** Stores equal parts of projected objects only once. */
import { deepEqual } from '../kube/equality.ts';
import type { Kind, Kinds } from '../kube/kinds.ts';
import { podTemplatePath } from '../kube/pod.ts';
import { RESOURCES } from '../kube/resources.ts';
import { isObject, type JsonObject, valueAt, withValueAt } from '../kube/types.ts';
import { POD_SPEC, select, type Selection, type Share, TEMPLATE_SPEC } from '../policy/pod/index.ts';

/** Fields that have the same value in many objects of a kind. */
const COMMON_MEMBERS: Partial<Readonly<Record<Kind, readonly string[]>>> = {
  Pod: ['status'],
  Namespace: ['spec', 'status'],
  Role: ['rules'],
  RoleBinding: ['roleRef', 'subjects'],
};

/** Creates the function that replaces parts of projected objects with equal parts of other objects. */
export function createPooling(): (kind: Kind, projected: JsonObject) => Kinds[Kind] {
  const share = createObjectPool();
  // Pools the whole spec, which all pods of a controller share, and its parts, which many pods share.
  const shareSpec = (spec: unknown, selection: Selection): unknown =>
    share(spec, (created) => select(created, selection, { share }) as object);
  return (kind, projected) => {
    const pooled: Record<string, unknown> = { ...projected };
    for (const name of COMMON_MEMBERS[kind] ?? []) if (pooled[name] != null) pooled[name] = share(pooled[name]);
    if (isObject(projected['metadata'])) pooled['metadata'] = poolMetadata(projected['metadata'], share);
    if (kind === 'Pod' && pooled['spec'] != null) pooled['spec'] = shareSpec(pooled['spec'], POD_SPEC);
    const path = podTemplatePath(RESOURCES[kind].group, kind);
    if (path === undefined) return pooled;
    const specPath = [...path, 'spec'];
    const spec = valueAt(pooled, specPath);
    return spec == null ? pooled : (withValueAt(pooled, specPath, shareSpec(spec, TEMPLATE_SPEC)) as JsonObject);
  };
}

function poolMetadata(metadata: JsonObject, share: Share): JsonObject {
  const pooled: Record<string, unknown> = { ...metadata };
  for (const name of ['labels', 'annotations', 'ownerReferences'])
    if (pooled[name] != null) pooled[name] = share(pooled[name]);
  if (!Array.isArray(pooled['managedFields'])) return pooled;
  const shareFields = (entry: unknown): unknown =>
    isObject(entry) && isObject(entry['fieldsV1']) ? { ...entry, fieldsV1: share(entry['fieldsV1']) } : entry;
  return { ...pooled, managedFields: pooled['managedFields'].map(shareFields) };
}

/** Number of old entries that are checked for each new entry. */
const SWEPT = 2;

/**
 * Creates a pool of JSON objects. Entries consist of a hash and a weak reference, so unused objects are
 * garbage-collected. If two different objects have the same hash, only the first object is shared.
 */
export function createObjectPool(): Share {
  const pool = new Map<number, WeakRef<object>>();
  let cursor = pool.entries();
  const sweep = (): void => {
    for (let count = 0; count < SWEPT; count++) {
      const { value: entry } = cursor.next();
      if (entry === undefined) {
        cursor = pool.entries();
        return;
      }
      const [hash, reference] = entry;
      if (reference.deref() === undefined) pool.delete(hash);
    }
  };
  return (value, onNew) => {
    if (typeof value !== 'object' || value === null) return value;
    const hash = hashText(JSON.stringify(value));
    const pooled = pool.get(hash)?.deref();
    if (pooled !== undefined) return deepEqual(pooled, value) ? pooled : value;
    sweep();
    const created = onNew ? onNew(value) : value;
    pool.set(hash, new WeakRef(created));
    return created;
  };
}

/** Returns the FNV-1a hash, truncated to 30 bits because V8 stores such numbers without allocation. */
function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 2;
}
