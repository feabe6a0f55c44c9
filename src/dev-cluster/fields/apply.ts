/**
 * Implements server-side apply, which merges a configuration into the live object and makes its manager the owner of
 * the fields in the configuration.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/merge/update.go
 */
import { defined } from '../../kube/defined.ts';
import { deepEqual } from '../../kube/equality.ts';
import { formatApiVersion } from '../../kube/resources.ts';
import { ApiError, badRequest, createStatus, type Status } from '../../kube/status.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import { formatTimestamp } from '../../kube/units.ts';
import type { ApiObject } from '../types.ts';
import { decodeValue, plainError } from './decode.ts';
import { comparePaths, type JoinedPath, type FieldSet, printPath, withParentFields } from './field-set.ts';
import {
  emptyObject,
  NEVER_OWNED,
  ownableFields,
  ownedChange,
  type Owner,
  ownerKey,
  type Owners,
  ownersAfterUpdate,
  type Ownership,
  parseOwners,
  releaseChanged,
  setOwners,
  withoutOwners,
} from './managed-fields.ts';
import type { Schema } from './schema.ts';
import { collectFields, type Comparison, merge, removeFields } from './typed.ts';

interface ApplyRequest extends Ownership {
  /** The stored object. Absent if the apply creates the object. */
  readonly live?: ApiObject;
  /** The configuration as the client sent it. */
  readonly config: ApiObject;
  /** True to take over fields from other managers instead of failing with a conflict. */
  readonly force: boolean;
}

/**
 * Returns the new object with its `metadata.managedFields`, before defaulting. Throws ApiError 409 on conflicts, and
 * 400 for an object of another kind.
 */
export function applyConfiguration(request: ApplyRequest): ApiObject {
  checkConfiguration(request);
  const { live: stored, config, resource, subresource, force } = request;
  const { schema } = resource;
  const live = withoutOwners(stored ?? emptyObject(resource, config));
  const before = ownersBefore(request);
  const actor = applier(request);
  const key = ownerKey(actor);
  const fields = ownableFields(resource, subresource, collectFields(schema, config));
  const applied: Owners = new Map([...before, [key, { ...actor, fields }]]);
  const object = removeReleased(schema, merge(schema, live, config), applied, before.get(key)?.fields);
  const change = ownedChange(resource, subresource, live, object);
  const conflicts = force ? [] : findConflicts(applied, key, change);
  if (conflicts.length > 0) throw new ApiError(conflictStatus(conflicts));

  const unchanged = deepEqual(object, live);
  const result = unchanged ? structuredClone(live) : decodeValue(object, schema).object;
  const time = unchanged ? before.get(key)?.time : formatTimestamp(request.now.getTime());
  const owned = { ...actor, ...defined({ time }), fields: fields.difference(NEVER_OWNED) };
  setOwners(result, new Map([...releaseChanged(applied, key, change), [key, owned]]));
  return result;
}

function applier({ manager, resource, subresource }: ApplyRequest): Omit<Owner, 'fields' | 'time'> {
  return { manager, operation: 'Apply', apiVersion: formatApiVersion(resource), subresource };
}

/** Assigns the fields of an object that has no owners to a separate manager. */
function ownersBefore(request: ApplyRequest): Owners {
  const { live } = request;
  const owners = parseOwners(live?.metadata?.['managedFields']);
  if (!owners) throw plainError('failed to decode managed fields: malformed entry');
  if (owners.size > 0 || !live) return owners;
  const { resource, subresource, now } = request;
  return ownersAfterUpdate(owners, { resource, subresource, now, object: live, manager: 'before-first-apply' });
}

function checkConfiguration({ config, resource }: ApplyRequest): void {
  const { apiVersion = '', kind: name = '', metadata } = config;
  const printed = `${apiVersion.includes('/') ? apiVersion : `/${apiVersion}`}, Kind=${name}`;
  if (apiVersion !== formatApiVersion(resource) || name !== resource.kind) {
    throw new ApiError(badRequest(`invalid object type: ${printed}`));
  }
  if (metadata?.['managedFields'] != null) throw new ApiError(badRequest('metadata.managedFields must be nil'));
}

/** Removes the fields that the applier no longer applies and that no other manager owns. */
function removeReleased(schema: Schema, merged: unknown, owners: Owners, last: FieldSet | undefined): unknown {
  if (!last || last.size === 0) return merged;
  const fieldsWithParents = (value: unknown): FieldSet => withParentFields(collectFields(schema, value));
  const all = fieldsWithParents(merged);
  const released = withParentFields(last);
  const owned = withParentFields(new Set([...owners.values()].flatMap(({ fields }) => [...fields])));
  const withoutLast = removeFields(schema, merged, released);
  const withOwned = removeFields(schema, merged, all.difference(fieldsWithParents(withoutLast).union(owned)));
  // Keeps fields that were never applied and were removed only together with their parent.
  return removeFields(schema, merged, all.difference(fieldsWithParents(withOwned)).intersection(released));
}

/** A field that the applier changes but another manager owns. */
interface Conflict {
  readonly owner: Owner;
  readonly path: JoinedPath;
}

function findConflicts(owners: Owners, actor: string, { modified, added }: Comparison): Conflict[] {
  const changed = modified.union(added);
  return [...owners]
    .filter(([key]) => key !== actor)
    .sort(([a], [b]) => compareBytes(a, b))
    .flatMap(([, owner]) => {
      const paths = [...owner.fields.intersection(changed)].sort(comparePaths);
      return paths.map((path) => ({ owner, path }));
    });
}

/**
 * Returns a Status with code 409 that lists all conflicts.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go
 */
function conflictStatus(conflicts: readonly Conflict[]): Status {
  const causes = conflicts.map(({ owner, path }) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with ${printOwner(owner)}`,
    field: printPath(path),
  }));
  const [first] = causes;
  if (causes.length === 1 && first) {
    return createStatus(409, 'Conflict', `Apply failed with 1 conflict: ${first.message}: ${first.field}`, { causes });
  }
  const lines = [...Map.groupBy(conflicts, ({ owner }) => owner)].flatMap(([owner, paths]) => [
    `conflicts with ${printOwner(owner)}:`,
    ...paths.map(({ path }) => `- ${printPath(path)}`),
  ]);
  return createStatus(409, 'Conflict', `Apply failed with ${causes.length} conflicts: ${lines.join('\n')}`, { causes });
}

function printOwner({ manager, operation, apiVersion, subresource }: Owner): string {
  const name = subresource === '' ? quote(manager) : `${quote(manager)} with subresource ${quote(subresource)}`;
  return operation === 'Update' ? `${name} using ${apiVersion}` : name;
}
