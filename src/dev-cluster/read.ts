/** Serves lists and watches. */
import { type FieldError, forbiddenField, notSupported } from '../kube/field-error.ts';
import { matchesLabelSelector, parseLabelSelector } from '../kube/label-selector.ts';
import { formatApiVersion } from '../kube/resources.ts';
import { ApiError, badRequest, createStatus, invalid } from '../kube/status.ts';
import { compareBytes } from '../kube/text.ts';
import type { ListResult, WatchEvent, WatchResult } from './attributes.ts';
import { readBoolean, readInteger } from './body.ts';
import type { Call, Core } from './call.ts';
import type { ServedResource } from './resource-info.ts';
import { storageKey, toServed } from './resources.ts';
import { getObjectKey, isSameResource, type StoredChange } from './storage.ts';
import { type ApiObject, getMetadata, textAt } from './types.ts';

/** Returns true if the selector matches the object. */
type Selector = (object: ApiObject) => boolean;

/**
 * Parses a `labelSelector` query parameter, such as `a=b,c in (d,e),!f`. Throws ApiError 400.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/labels/selector.go
 */
export function parseLabelQuery(text: string): Selector {
  const selector = parseLabelSelector(text);
  if (!selector) throw new ApiError(badRequest(`unable to parse requirement: invalid label selector '${text}'`));
  return (object) => matchesLabelSelector(selector, getMetadata(object).labels);
}

/**
 * Parses a `fieldSelector` query parameter, such as `metadata.name=a,status.phase!=Running`. Throws ApiError 400 for an
 * unsupported selector.
 */
export function parseFieldSelector(text: string, { kind, selectableFields = [] }: ServedResource): Selector {
  const supported = ['metadata.name', 'metadata.namespace', ...selectableFields];
  const terms = text.split(',').filter((term) => term !== '');
  const selectors = terms.map((term): Selector => {
    const [, field = '', operator, value] = /^(.*?)(!=|==?)(.*)$/s.exec(term) ?? [];
    if (value === undefined) throw new ApiError(badRequest(`invalid selector: '${text}'; can't understand '${term}'`));
    if (!supported.includes(field)) throw new ApiError(badRequest(`field label not supported: ${field} (${kind})`));
    return (object) => (textAt(object, ...field.split('.')) === value) === (operator !== '!=');
  });
  return (object) => selectors.every((selects) => selects(object));
}

/** Returns the name that a field selector requires, so lists and watches can be authorized for that name. */
export function selectedName(fieldSelector: string): string {
  return /(?:^|,)metadata\.name==?([^,]*)(?:,|$)/.exec(fieldSelector)?.[1] ?? '';
}

/** Query parameters of a list or watch. */
type ListOptions = ReturnType<typeof readListOptions>;

/** Parses the query of a list or watch. Throws ApiError 400. */
function readListOptions(query: URLSearchParams, info: ServedResource) {
  const labels = parseLabelQuery(query.get('labelSelector') ?? '');
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '', info);
  return {
    selects: (object: ApiObject) => labels(object) && fields(object),
    /** Minimum version. 0 means any version. */
    resourceVersion: readInteger(query, 'resourceVersion') ?? 0,
    /** Page size. 0 means no limit. */
    limit: readInteger(query, 'limit') ?? 0,
    continue: query.get('continue') ?? '',
    timeoutSeconds: readInteger(query, 'timeoutSeconds') ?? 0,
    allowWatchBookmarks: readBoolean(query, 'allowWatchBookmarks'),
    /** Absent if the request does not set it. */
    sendInitialEvents: query.has('sendInitialEvents') ? readBoolean(query, 'sendInitialEvents') : undefined,
  };
}

const NOT_OLDER_THAN = 'NotOlderThan';

/**
 * Validates the parameters of streaming lists. Throws ApiError 422 if they contradict each other.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.2/pkg/apis/meta/internalversion/validation/validation.go
 */
function validateInitialEvents(query: URLSearchParams, isWatch: boolean): void {
  const match = query.get('resourceVersionMatch') ?? '';
  const errors: FieldError[] = [];
  if (query.has('sendInitialEvents')) {
    if (!isWatch) errors.push(forbiddenField('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
    else if (match !== NOT_OLDER_THAN) {
      const detail = `sendInitialEvents requires setting resourceVersionMatch to ${NOT_OLDER_THAN}`;
      errors.push(forbiddenField('resourceVersionMatch', detail));
    }
  } else if (isWatch && match !== '') {
    const detail = 'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided';
    errors.push(forbiddenField('resourceVersionMatch', detail));
  }
  if (isWatch && match !== '' && match !== NOT_OLDER_THAN)
    errors.push(notSupported('resourceVersionMatch', match, [NOT_OLDER_THAN]));
  if (errors.length > 0) throw new ApiError(invalid({ group: 'meta.k8s.io', kind: 'ListOptions' }, '', errors));
}

/** State of a paginated list. */
interface Continuation {
  /**
   * Resource version of the first page. Later pages contain the latest objects, so a watch from this version repeats
   * the changes that they already contain.
   */
  readonly revision: number;
  /** Sort key of the last object on the previous page. */
  readonly after: string;
}

/** Lists the selected objects of a resource at the requested resource version or later. Throws ApiError 400 or 422. */
export function listResource(core: Core, call: Call): ListResult {
  validateInitialEvents(call.query, false);
  const options = readListOptions(call.query, call.info);
  const from = options.continue === '' ? undefined : readToken(options.continue);
  const revision = from?.revision ?? core.storage.revision();
  const all = currentObjects(core, call).filter(options.selects);
  const rest = from ? all.filter((object) => compareBytes(getObjectKey(object), from.after) > 0) : all;
  const items = options.limit > 0 ? rest.slice(0, options.limit) : rest;
  const last = items.at(-1);
  const hasMore = last !== undefined && items.length < rest.length;
  const token = hasMore ? { continue: writeToken({ revision, after: getObjectKey(last) }) } : {};
  return { kind: 'list', info: call.info, items, metadata: { resourceVersion: String(revision), ...token } };
}

/** Returns the current objects in a call's scope. */
function currentObjects(core: Core, { info, scope }: Call): readonly ApiObject[] {
  const objects = core.storage.list(storageKey(info), scope === '' ? undefined : scope);
  return objects.map((object) => toServed(info, object));
}

function writeToken(continuation: Continuation): string {
  return Buffer.from(JSON.stringify(continuation)).toString('base64url');
}

function readToken(token: string): Continuation {
  try {
    const { revision, after } = JSON.parse(Buffer.from(token, 'base64url').toString()) as Partial<Continuation>;
    if (typeof revision === 'number' && typeof after === 'string') return { revision, after };
  } catch {
    // The error is thrown below, as for any other invalid token.
  }
  throw new ApiError(badRequest('invalid continue token: continue key is not valid'));
}

/** Bookmark interval in milliseconds. */
const BOOKMARK_MS = 60_000;
/** Default watch duration if the request sets no `timeoutSeconds`. */
const TIMEOUT_S = 3600;

/** Streams changes to the selected objects of a resource. Throws ApiError 400 or 422. */
export function watchResource(core: Core, call: Call): WatchResult {
  validateInitialEvents(call.query, true);
  const options = readListOptions(call.query, call.info);
  const timeout = AbortSignal.timeout((options.timeoutSeconds || TIMEOUT_S) * 1000);
  const signal = AbortSignal.any([call.context.signal, timeout]);
  return { kind: 'watch', info: call.info, events: watchEvents(core, call, options, signal) };
}

async function* watchEvents(
  core: Core,
  call: Call,
  options: ListOptions,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent, void> {
  const { storage } = core;
  const { info, scope } = call;
  const key = storageKey(info);
  const queue = createQueue(signal);
  const isServed = (): boolean => core.registry.find(info.group, info.version, info.resource) !== undefined;
  const inScope = ({ resource, object }: StoredChange): boolean =>
    isSameResource(resource, key) && (scope === '' || getMetadata(object).namespace === scope);
  const unsubscribe = storage.subscribe((change) => {
    if (inScope(change)) queue.push(change);
    else if (info.custom && !isServed()) queue.wake();
  });
  const bookmarks = setInterval(queue.wake, BOOKMARK_MS).unref();
  try {
    const start = storage.revision();
    const from = options.resourceVersion;
    const missed = storage.changesSince(key, from);
    const { sendInitialEvents = from === 0, allowWatchBookmarks } = options;
    if (sendInitialEvents) {
      yield* initialEvents(core, call, options);
      if (options.sendInitialEvents === true && allowWatchBookmarks) yield bookmark(info, start, INITIAL_EVENTS_END);
    } else if (from === 0) {
      // Without a start version, the watch starts with the next change.
    } else if (!missed) {
      yield expiredEvent(from, start);
      return;
    } else yield* missed.filter(inScope).flatMap((change) => changeEvents(info, options, change));
    for (;;) {
      const changes = await queue.next();
      if (changes === undefined) return;
      const later = changes.filter(({ revision }) => revision > start);
      yield* later.flatMap((change) => changeEvents(info, options, change));
      if (!isServed()) return;
      if (changes.length === 0 && allowWatchBookmarks) yield bookmark(info, storage.revision());
    }
  } finally {
    clearInterval(bookmarks);
    unsubscribe();
  }
}

/** Metadata of the bookmark that marks the end of the initial events, for which clients wait. */
const INITIAL_EVENTS_END = { annotations: { 'k8s.io/initial-events-end': 'true' } };

/** Returns an ADDED event for each selected object. */
function initialEvents(core: Core, call: Call, options: ListOptions): WatchEvent[] {
  const objects = currentObjects(core, call).filter(options.selects);
  return objects.map((object) => ({ type: 'ADDED', object }));
}

/** Converts a change to watch events. An object that starts or stops matching the selector is added or deleted. */
function changeEvents(info: ServedResource, options: ListOptions, change: StoredChange): WatchEvent[] {
  const object = toServed(info, change.object);
  const was = change.before !== undefined && options.selects(toServed(info, change.before));
  const is = change.type !== 'DELETED' && options.selects(object);
  if (is) return [{ type: was ? 'MODIFIED' : 'ADDED', object }];
  return was ? [{ type: 'DELETED', object }] : [];
}

function expiredEvent(from: number, current: number): WatchEvent {
  const status = createStatus(410, 'Expired', `too old resource version: ${from} (${current})`);
  return { type: 'ERROR', object: { kind: 'Status', apiVersion: 'v1', ...status } };
}

function bookmark(info: ServedResource, revision: number, annotations: object = {}): WatchEvent {
  const metadata = { resourceVersion: String(revision), ...annotations };
  return { type: 'BOOKMARK', object: { kind: info.kind, apiVersion: formatApiVersion(info), metadata } };
}

function createQueue(signal: AbortSignal) {
  let pending: StoredChange[] = [];
  let woken = Promise.withResolvers<undefined>();
  const wake = (): void => woken.resolve(undefined);
  signal.addEventListener('abort', wake, { once: true });
  return {
    push(change: StoredChange): void {
      pending.push(change);
      wake();
    },
    /** Causes `next` to resolve even if there are no changes. */
    wake,
    /** Resolves to the changes since the last call, or to `undefined` once the signal is aborted. */
    async next(): Promise<readonly StoredChange[] | undefined> {
      if (pending.length === 0 && !signal.aborted) await woken.promise;
      if (signal.aborted) return undefined;
      woken = Promise.withResolvers<undefined>();
      const changes = pending;
      pending = [];
      return changes;
    },
  };
}
