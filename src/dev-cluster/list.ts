import { compareBytes } from '../kube/text.ts';
import { ApiError, badRequest, createStatus, invalid } from '../kube/status.ts';
import { forbiddenField } from '../kube/field-error.ts';
import { readBoolean, readInteger } from './body.ts';
import type { Call, Core, ListResult } from './request.ts';
import { storageKey, toServed } from './resources.ts';
import { parseFieldSelector, parseLabelSelector, type Selector } from './selectors.ts';
import { keyOfObject } from './storage.ts';
import { metadataOf, type ApiObject, type ResourceInfo } from './types.ts';

/** The query parameters of a list or a watch. */
export interface ListOptions {
  readonly selects: Selector;
  /** 0: any version. */
  readonly resourceVersion: number;
  readonly resourceVersionMatch: string;
  /** 0: no limit. */
  readonly limit: number;
  readonly continue: string;
  readonly timeoutSeconds: number;
  readonly allowWatchBookmarks: boolean;
  readonly sendInitialEvents: boolean | undefined;
}

/** Parses the query of a list or a watch. Throws ApiError 400. */
export function readListOptions(query: URLSearchParams, info: ResourceInfo): ListOptions {
  const labels = parseLabelSelector(query.get('labelSelector') ?? '');
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '', info);
  const resourceVersion = query.get('resourceVersion') ?? '';
  if (!/^\d*$/.test(resourceVersion)) {
    const detail = `strconv.ParseUint: parsing "${resourceVersion}": invalid syntax`;
    throw new ApiError(badRequest(`resourceVersion: Invalid value: "${resourceVersion}": ${detail}`));
  }
  return {
    selects: (object) => labels(object) && fields(object),
    resourceVersion: Number(resourceVersion),
    resourceVersionMatch: query.get('resourceVersionMatch') ?? '',
    limit: readInteger(query, 'limit') ?? 0,
    continue: query.get('continue') ?? '',
    timeoutSeconds: readInteger(query, 'timeoutSeconds') ?? 0,
    allowWatchBookmarks: readBoolean(query, 'allowWatchBookmarks'),
    sendInitialEvents: query.has('sendInitialEvents') ? readBoolean(query, 'sendInitialEvents') : undefined,
  };
}

/** The state of a list that is read in pages: all pages show the same resource version. */
interface Continuation {
  readonly revision: number;
  /** The key of the last object of the previous page. */
  readonly after: string;
}

/** Lists the selected objects of a resource. Throws ApiError 400, 410 or 504. */
export function list(core: Core, call: Call): ListResult {
  const options = readListOptions(call.query, call.info);
  if (options.sendInitialEvents !== undefined) {
    const error = forbiddenField('sendInitialEvents', 'sendInitialEvents is forbidden for list');
    throw new ApiError(invalid({ group: 'meta.k8s.io', kind: 'ListOptions' }, '', [error]));
  }
  const from = options.continue === '' ? undefined : readToken(options.continue);
  const revision = from?.revision ?? listRevision(core, options);
  const all = objectsAt(core, call, revision).filter(options.selects);
  const rest = from ? all.filter((object) => compareBytes(keyOfObject(object), from.after) > 0) : all;
  const items = options.limit > 0 ? rest.slice(0, options.limit) : rest;
  const last = items.at(-1);
  const more = last !== undefined && items.length < rest.length;
  const isSelected = call.query.has('labelSelector') || call.query.has('fieldSelector');
  return {
    kind: 'list',
    info: call.info,
    items,
    metadata: {
      resourceVersion: String(revision),
      ...(more ? { continue: writeToken({ revision, after: keyOfObject(last) }) } : {}),
      ...(more && !isSelected ? { remainingItemCount: rest.length - items.length } : {}),
    },
  };
}

/** Returns the resource version to list: the latest, unless the query requires an exact one. */
function listRevision(core: Core, { resourceVersion, resourceVersionMatch, limit }: ListOptions): number {
  requireExisting(core, resourceVersion);
  const exact = resourceVersionMatch === 'Exact' || (limit > 0 && resourceVersionMatch === '');
  return exact && resourceVersion > 0 ? resourceVersion : core.storage.revision();
}

/** Throws ApiError 504 for a resource version above the latest one. */
export function requireExisting({ storage }: Core, revision: number): void {
  const latest = storage.revision();
  if (revision <= latest) return;
  const message = `Timeout: Too large resource version: ${revision}, current: ${latest}`;
  const causes = [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }];
  throw new ApiError(createStatus(504, 'Timeout', message, { causes, retryAfterSeconds: 1 }));
}

/** Returns the current objects in the scope of a call. */
export function currentObjects(core: Core, { info, scope }: Call): readonly ApiObject[] {
  const objects = core.storage.list(storageKey(info), scope === '' ? undefined : scope);
  return objects.map((object) => toServed(info, object));
}

function objectsAt(core: Core, call: Call, revision: number): readonly ApiObject[] {
  const { info, scope } = call;
  if (revision >= core.storage.revision()) return currentObjects(core, call);
  if (revision < core.storage.oldestRevision()) throw expired(call.query.has('continue'));
  return core.storage
    .listAt(storageKey(info), revision)
    .filter((object) => scope === '' || metadataOf(object).namespace === scope)
    .map((object) => toServed(info, object));
}

function expired(isContinued: boolean): ApiError {
  const message = isContinued
    ? 'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.'
    : 'The resourceVersion for the provided list is too old.';
  return new ApiError(createStatus(410, 'Expired', message));
}

function writeToken(continuation: Continuation): string {
  return Buffer.from(JSON.stringify(continuation)).toString('base64url');
}

function readToken(token: string): Continuation {
  try {
    const { revision, after } = JSON.parse(Buffer.from(token, 'base64url').toString()) as Partial<Continuation>;
    if (typeof revision === 'number' && typeof after === 'string') return { revision, after };
  } catch {
    // Reported below, as is a token with other content.
  }
  throw new ApiError(badRequest('invalid continue token: continue key is not valid'));
}
