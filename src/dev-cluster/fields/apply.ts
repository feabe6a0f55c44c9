/**
 * Server-side apply: the applied configuration is laid over the live object; its manager owns what it says.
 * @see https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.2/merge/update.go
 */
import { deepEqual } from '../../kube/equality.ts';
import { ApiError, badRequest } from '../../kube/status.ts';
import type { GroupVersionKind } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { decodeValue } from './decode-value.ts';
import {
  apiVersionOf,
  newObject,
  ownersAfterUpdate,
  setOwners,
  timeOf,
  withoutOwners,
  type Ownership,
} from './managed-fields.ts';
import { afterChange, conflictsOf, type OwnershipConflict } from './ownership/changes.ts';
import { conflictStatus } from './ownership/conflict-status.ts';
import { KUBECTL, updateLastApplied, withoutLastApplied } from './ownership/last-applied.ts';
import { NEVER_OWNED } from './ownership/never-owned.ts';
import { ownerKey, readOwners, type Owner, type Owners } from './ownership/owners.ts';
import { plainError } from './plain-error.ts';
import { pruneReleased } from './ownership/prune.ts';
import { resetFieldsOf } from './reset-fields.ts';
import { compare, filtered } from './typed/compare.ts';
import { createFieldSet, difference } from './typed/field-set.ts';
import { fieldSetOf } from './typed/field-set-of.ts';
import { merge } from './typed/merge.ts';
import { validateTyped } from './typed/validate.ts';

export interface ApplyRequest extends Ownership {
  /** As stored; absent when the apply creates. */
  readonly live?: ApiObject;
  /** As sent. */
  readonly config: ApiObject;
  readonly kind: GroupVersionKind;
  /** Takes fields over from other managers instead of failing with a conflict. */
  readonly force: boolean;
}

/**
 * Merges an applied configuration into the live object and returns the new object with its `metadata.managedFields`, not
 * yet defaulted. Throws ApiError 409 on conflicts, 400 for an object of another kind, 500 for one that does not fit its type.
 */
export function applyConfiguration(request: ApplyRequest): ApiObject {
  checkConfiguration(request);
  const live = withoutOwners(request.live ?? newObject(request));
  const owners = ownersBefore(request);
  const key = ownerKey(ownerOf(request));
  const { object, change, applied } = mergeInto(live, owners, request);
  if (!request.force) refuseConflicts(conflictsOf(applied, key, change), live, request);
  const unchanged = deepEqual(object, live);
  const result = unchanged ? structuredClone(live) : normalized(object, request);
  setOwners(result, ownersAfter(afterChange(applied, key, change), owners.get(key), request, unchanged));
  if (request.manager === KUBECTL) updateLastApplied(result, request.config);
  return result;
}

/** The live object with the configuration laid over it, and what that changes. */
function mergeInto(live: ApiObject, owners: Owners, request: ApplyRequest) {
  const { config, resource, subresource, type } = request;
  const filter = resetFieldsOf(resource, subresource);
  const owner = ownerOf(request);
  const key = ownerKey(owner);
  const applied: Owners = new Map([...owners, [key, { ...owner, fields: filter(fieldSetOf(type, config)) }]]);
  const object = pruneReleased(type, merge(type, live, config), applied, owners.get(key)?.fields);
  return { object, applied, change: filtered(compare(type, live, object), filter) };
}

function ownerOf({ manager, resource, subresource }: ApplyRequest) {
  return { manager, operation: 'Apply', apiVersion: apiVersionOf(resource), subresource } as const;
}

/** What an object without owners holds belongs to one that came before the first apply. */
function ownersBefore({ live, resource, subresource, type, now }: ApplyRequest): Owners {
  const owners = readOwners(live?.metadata?.['managedFields']);
  if (!owners) throw plainError('failed to decode managed fields: malformed entry');
  if (owners.size > 0 || !live) return owners;
  return ownersAfterUpdate(owners, { resource, subresource, type, now, object: live, manager: 'before-first-apply' });
}

/** The applier owns what it applied, since now, or still since its last apply where nothing has changed. */
function ownersAfter(owners: Owners, former: Owner | undefined, request: ApplyRequest, unchanged: boolean): Owners {
  const actor = ownerOf(request);
  const key = ownerKey(actor);
  const fields = difference(owners.get(key)?.fields ?? createFieldSet(), NEVER_OWNED);
  const time = unchanged ? former?.time : timeOf(request.now);
  return new Map([...owners, [key, { ...actor, ...(time === undefined ? {} : { time }), fields }]]);
}

/** kubectl may have what it applied from the client's side before; others must force. */
function refuseConflicts(conflicts: readonly OwnershipConflict[], live: ApiObject, request: ApplyRequest): void {
  const kubectl = request.manager === KUBECTL && conflicts.length > 0;
  const left = kubectl ? withoutLastApplied(conflicts, live, request.type) : conflicts;
  if (left.length > 0) throw new ApiError(conflictStatus(left));
}

function checkConfiguration({ config, kind, type }: ApplyRequest): void {
  const apiVersion = textOf(config.apiVersion);
  const name = textOf(config.kind);
  if (apiVersion !== apiVersionOf(kind) || name !== kind.kind) {
    throw new ApiError(badRequest(`invalid object type: ${printKind(apiVersion, name)}`));
  }
  if (config.metadata?.['managedFields'] != null) {
    throw new ApiError(badRequest('metadata.managedFields must be nil'));
  }
  const error = validateTyped(type, config, 'refused');
  if (error !== undefined) throw plainError(`failed to create typed patch object (${printObject(config)}): ${error}`);
}

/** The merged object as Go would write it. */
function normalized(object: unknown, { config, type }: ApplyRequest): ApiObject {
  const decoding = decodeValue(object, type);
  if (decoding.error === undefined) return decoding.object;
  const cause = decoding.error.replace(/Go struct field \S+ of/, 'Go value of');
  const kind = printKind(textOf(config.apiVersion), textOf(config.kind));
  throw plainError(
    `failed to convert new object (${printObject(config)}) to proper version: unable to convert unstructured object to ${kind}: ${cause}`,
  );
}

function printObject({ apiVersion, kind, metadata }: ApiObject): string {
  return `${textOf(metadata?.['namespace'])}/${textOf(metadata?.['name'])}; ${printKind(textOf(apiVersion), textOf(kind))}`;
}

/** What a requester has sent in place of a text counts as none. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** `apps/v1, Kind=Deployment`; the core group is empty: `/v1, Kind=Pod`. */
function printKind(apiVersion: string, kind: string): string {
  return `${apiVersion.includes('/') ? apiVersion : `/${apiVersion}`}, Kind=${kind}`;
}
