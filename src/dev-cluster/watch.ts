import { createStatus } from '../kube/status.ts';
import type { ApiResult, Call, Core, WatchEvent } from './core.ts';
import type { StoredChange } from './history.ts';
import { readListOptions, type ListOptions } from './list-options.ts';
import { tooLarge } from './list.ts';
import { metadataOf, type ApiObject, type ResourceInfo } from './types.ts';
import { apiVersionOf, present, storageKey } from './views.ts';

/** A bookmark a minute, as the API server sends. */
const BOOKMARK_MS = 60_000;
/** Watches without a time limit of their own end after half an hour to an hour. */
const MIN_TIMEOUT_S = 1800;
const MAX_TIMEOUT_S = 24 * 3600;
/** A watcher that is further behind is let go: it can start again from where it was. */
const MAX_WAITING = 10_000;

/** Follows the selected objects of a resource from a resource version on. */
export function watch(core: Core, call: Call): ApiResult {
  const options = readListOptions(call.query, call.info, 'watch');
  const latest = core.storage.revision();
  const from = Number(options.resourceVersion);
  if (from > latest) throw tooLarge(from, latest);
  const signal = AbortSignal.any([call.context.signal, AbortSignal.timeout(timeoutMs(options.timeoutSeconds ?? 0))]);
  return { kind: 'watch', info: call.info, events: follow(core, call, options, signal) };
}

function timeoutMs(seconds: number): number {
  const wanted = seconds > 0 ? seconds : MIN_TIMEOUT_S * (1 + Math.random());
  return Math.round(Math.min(wanted, MAX_TIMEOUT_S) * 1000);
}

async function* follow(
  core: Core,
  call: Call,
  options: ListOptions,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent, void> {
  const { info } = call;
  const key = storageKey(info);
  const queue = createQueue(signal);
  const concerns = ({ resource, object }: StoredChange): boolean =>
    resource.group === key.group &&
    resource.resource === key.resource &&
    (call.scope === '' || metadataOf(object).namespace === call.scope);
  const unsubscribe = core.storage.subscribe((change) => {
    if (concerns(change)) queue.push(change);
    else if (info.custom && !isServed(core, info)) queue.wake();
  });
  const bookmarks = setInterval(() => queue.wake(), BOOKMARK_MS);
  bookmarks.unref();
  try {
    const { events, replayed, seen } = beginning(core, call, options);
    yield* events;
    for (const change of replayed.filter(concerns)) yield* shown(info, options, change);
    if (seen === undefined) return;
    for (;;) {
      const changes = await queue.next();
      if (changes === undefined) return;
      for (const change of changes) if (change.revision > seen) yield* shown(info, options, change);
      if (!isServed(core, info)) return;
      if (changes.length === 0 && options.allowWatchBookmarks) yield bookmark(info, core.storage.revision());
    }
  } finally {
    clearInterval(bookmarks);
    unsubscribe();
  }
}

/** False as soon as the definition of a custom resource is gone; then nothing is left to follow. */
function isServed({ registry }: Core, { group, version, resource }: ResourceInfo): boolean {
  return registry.find(group, version, resource) !== undefined;
}

/** How a watch begins; all of one moment, so that what comes later is later than `seen`. */
interface Beginning {
  readonly events: readonly WatchEvent[];
  /** What has happened since the version asked for. */
  readonly replayed: readonly StoredChange[];
  /** The latest version that the above covers; absent where the watch cannot go on. */
  readonly seen?: number;
}

function beginning(core: Core, call: Call, options: ListOptions): Beginning {
  const seen = core.storage.revision();
  const asked = Number(options.resourceVersion);
  if (options.sendInitialEvents === true) return { events: initialEvents(core, call, options), replayed: [], seen };
  if (asked === 0) return { events: [], replayed: [], seen };
  const history = core.storage.history(storageKey(call.info));
  if (asked >= history.oldest()) return { events: [], replayed: history.since(asked), seen };
  const status = createStatus(410, 'Expired', `too old resource version: ${asked} (${history.oldest()})`);
  return {
    events: [{ type: 'ERROR', object: { kind: 'Status', apiVersion: 'v1', ...status, metadata: {} } }],
    replayed: [],
  };
}

function initialEvents(core: Core, { info, scope }: Call, options: ListOptions): WatchEvent[] {
  const objects = core.storage
    .list(storageKey(info), scope === '' ? undefined : scope)
    .map((stored) => present(info, stored))
    .filter(options.selects);
  const events: WatchEvent[] = objects.map((object) => ({ type: 'ADDED', object }));
  const end = bookmark(info, core.storage.revision(), { 'k8s.io/initial-events-end': 'true' });
  return options.allowWatchBookmarks ? [...events, end] : events;
}

/** An object comes and goes with the selection, whatever happened to it. */
function* shown(info: ResourceInfo, options: ListOptions, change: StoredChange): Generator<WatchEvent> {
  const object = present(info, change.object);
  const was = change.before !== undefined && options.selects(present(info, change.before));
  const is = change.type !== 'DELETED' && options.selects(object);
  if (is) yield { type: was ? 'MODIFIED' : 'ADDED', object };
  else if (was) yield { type: 'DELETED', object };
}

function bookmark(info: ResourceInfo, revision: number, annotations?: Record<string, string>): WatchEvent {
  const object: ApiObject = {
    kind: info.kind,
    apiVersion: apiVersionOf(info),
    metadata: { resourceVersion: String(revision), ...(annotations ? { annotations } : {}) },
  };
  return { type: 'BOOKMARK', object };
}

interface Queue {
  push(change: StoredChange): void;
  /** Ends the waiting without a change. */
  wake(): void;
  /** What has come since, when something has; `undefined` once the signal is aborted or too much has come. */
  next(): Promise<readonly StoredChange[] | undefined>;
}

function createQueue(signal: AbortSignal): Queue {
  let changes: StoredChange[] = [];
  let { promise, resolve } = Promise.withResolvers<undefined>();
  const wake = (): void => resolve(undefined);
  signal.addEventListener('abort', wake, { once: true });
  return {
    push(change) {
      changes.push(change);
      wake();
    },
    wake,
    async next() {
      if (changes.length === 0 && !signal.aborted) await promise;
      if (signal.aborted || changes.length > MAX_WAITING) return undefined;
      ({ promise, resolve } = Promise.withResolvers<undefined>());
      const taken = changes;
      changes = [];
      return taken;
    },
  };
}
