import { createStatus } from '../kube/status.ts';
import { currentObjects, readListOptions, type ListOptions } from './list.ts';
import type { Call, Core, WatchEvent, WatchResult } from './request.ts';
import { storageKey, toServed } from './resources.ts';
import { isSameResource, type StoredChange } from './storage.ts';
import { formatApiVersion, getMetadata, type ResourceInfo } from './types.ts';

/** The interval of bookmarks, in milliseconds. */
const BOOKMARK_MS = 60_000;
/** The duration of a watch without `timeoutSeconds`. */
const TIMEOUT_S = 3600;
/** A watch with more pending changes than this ends; the client resumes from its last resource version. */
const MAX_PENDING = 10_000;

/** Streams the changes of the selected objects of a resource. Throws ApiError 400. */
export function watch(core: Core, call: Call): WatchResult {
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
    if (from === 0) yield* initialEvents(core, call, options);
    else if (!missed) {
      yield expiredEvent(from, start);
      return;
    } else yield* missed.filter(inScope).flatMap((change) => changeEvents(info, options, change));
    for (;;) {
      const changes = await queue.next();
      if (changes === undefined) return;
      const later = changes.filter(({ revision }) => revision > start);
      yield* later.flatMap((change) => changeEvents(info, options, change));
      if (!isServed()) return;
      if (changes.length === 0 && options.allowWatchBookmarks) yield bookmark(info, storage.revision());
    }
  } finally {
    clearInterval(bookmarks);
    unsubscribe();
  }
}

/** Returns the events with which a watch without a resource version starts: an ADDED event for each object. */
function initialEvents(core: Core, call: Call, options: ListOptions): WatchEvent[] {
  const objects = currentObjects(core, call).filter(options.selects);
  return objects.map((object) => ({ type: 'ADDED', object }));
}

/** An object that starts or stops matching the selector is reported as added or deleted. */
function changeEvents(info: ResourceInfo, options: ListOptions, change: StoredChange): WatchEvent[] {
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

function bookmark(info: ResourceInfo, revision: number): WatchEvent {
  const metadata = { resourceVersion: String(revision) };
  return { type: 'BOOKMARK', object: { kind: info.kind, apiVersion: formatApiVersion(info), metadata } };
}

interface ChangeQueue {
  push(change: StoredChange): void;
  /** Makes `next` resolve even if there is no change. */
  wake(): void;
  /** Resolves to the changes since the last call; to `undefined` after an abort or an overflow. */
  next(): Promise<readonly StoredChange[] | undefined>;
}

function createQueue(signal: AbortSignal): ChangeQueue {
  let pending: StoredChange[] = [];
  let woken = Promise.withResolvers<undefined>();
  const wake = (): void => woken.resolve(undefined);
  signal.addEventListener('abort', wake, { once: true });
  return {
    push(change) {
      pending.push(change);
      wake();
    },
    wake,
    async next() {
      if (pending.length === 0 && !signal.aborted) await woken.promise;
      if (signal.aborted || pending.length > MAX_PENDING) return undefined;
      woken = Promise.withResolvers<undefined>();
      const changes = pending;
      pending = [];
      return changes;
    },
  };
}
