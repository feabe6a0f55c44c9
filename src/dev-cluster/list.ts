import { compareBytes } from '../kube/text.ts';
import { ApiError, badRequest, createStatus } from '../kube/status.ts';
import type { ApiResult, Call, Core, ListResult } from './core.ts';
import { keyOfObject } from './keys.ts';
import { readListOptions, type ListOptions } from './list-options.ts';
import { metadataOf, type ApiObject } from './types.ts';
import { present, storageKey } from './views.ts';

/** Where a list goes on: behind a key, as of a resource version. */
interface Continuation {
  readonly revision: number;
  readonly start: string;
}

/** Lists the selected objects of a resource, by page if asked to. */
export function list(core: Core, call: Call): ApiResult {
  return listObjects(core, call, readListOptions(call.query, call.info, 'list'));
}

export function listObjects(core: Core, call: Call, options: ListOptions): ListResult {
  const from = options.continue === '' ? undefined : readContinue(options.continue, call.scope);
  const revision = from?.revision ?? revisionOf(core, options);
  const all = objectsAt(core, call, revision);
  const rest = from ? all.filter((object) => compareBytes(keyOfObject(object), from.start) >= 0) : all;
  const matching = rest.filter(options.selects);
  const items = options.limit > 0 ? matching.slice(0, options.limit) : matching;
  const last = items.at(-1);
  const more = items.length < matching.length && last !== undefined;
  const selected = call.query.has('labelSelector') || call.query.has('fieldSelector');
  return {
    kind: 'list',
    info: call.info,
    items,
    metadata: {
      resourceVersion: String(revision),
      ...(more ? { continue: writeContinue(revision, keyOfObject(last), call.scope) } : {}),
      ...(more && !selected ? { remainingItemCount: matching.length - items.length } : {}),
    },
  };
}

/** The version that a list shows: the latest, unless just that one is asked for. Throws ApiError 504 for a future one. */
function revisionOf(core: Core, options: ListOptions): number {
  const latest = core.storage.revision();
  const asked = Number(options.resourceVersion);
  if (asked > latest) throw tooLarge(asked, latest);
  const exact = options.resourceVersionMatch === 'Exact' || (options.limit > 0 && options.resourceVersionMatch === '');
  return exact && asked > 0 ? asked : latest;
}

/** 504: a version that nothing has been written under yet. */
export function tooLarge(asked: number, latest: number): ApiError {
  return new ApiError(
    createStatus(504, 'Timeout', `Timeout: Too large resource version: ${asked}, current: ${latest}`, {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    }),
  );
}

function objectsAt(core: Core, call: Call, revision: number): readonly ApiObject[] {
  const key = storageKey(call.info);
  const namespace = call.scope === '' ? undefined : call.scope;
  const now = core.storage.list(key, namespace);
  if (revision >= core.storage.revision()) return now.map((object) => present(call.info, object));
  const history = core.storage.history(key);
  if (revision < history.oldest()) throw expired(call.query.has('continue') ? 'continue' : 'resourceVersion');
  return history
    .undo(core.storage.list(key), revision)
    .filter((object) => namespace === undefined || metadataOf(object).namespace === namespace)
    .toSorted((a, b) => compareBytes(keyOfObject(a), keyOfObject(b)))
    .map((object) => present(call.info, object));
}

const EXPIRED = {
  continue:
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.',
  resourceVersion: 'The resourceVersion for the provided list is too old.',
};

function expired(parameter: keyof typeof EXPIRED): ApiError {
  return new ApiError(createStatus(410, 'Expired', EXPIRED[parameter]));
}

/** The form of the API server: keys below the scope of the request, the first one being right behind the last shown. */
function writeContinue(revision: number, last: string, scope: string): string {
  const start = `/${last.slice(scope === '' ? 0 : scope.length + 1)}\0`;
  return Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: revision, start })).toString('base64url');
}

function readContinue(token: string, scope: string): Continuation {
  const bad = /[^A-Za-z0-9_-]/.exec(token)?.index ?? (token.length % 4 === 1 ? token.length - 1 : undefined);
  if (bad !== undefined) throw invalidContinue(`illegal base64 data at input byte ${bad}`);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(token, 'base64url').toString());
  } catch (error) {
    throw invalidContinue(error instanceof Error ? error.message : String(error));
  }
  const { v, rv, start } = (value ?? {}) as { v?: unknown; rv?: unknown; start?: unknown };
  if (v !== 'meta.k8s.io/v1') throw invalidToken('server does not recognize this encoded version');
  if (typeof rv !== 'number' || rv <= 0)
    throw invalidToken('incorrect encoded start resourceVersion (version meta.k8s.io/v1)');
  if (typeof start !== 'string' || start === '') throw invalidToken('empty start key (version meta.k8s.io/v1)');
  const key = start.replace(/^\//, '');
  return { revision: rv, start: scope === '' ? key : `${scope}/${key}` };
}

function invalidContinue(cause: string): ApiError {
  return invalidToken(`continue key is not valid: ${cause}`);
}

function invalidToken(cause: string): ApiError {
  return new ApiError(badRequest(`invalid continue token: ${cause}`));
}
