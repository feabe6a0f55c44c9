/**
 * Keeps something equal to what the API server holds of one resource: a list, then a watch from there on, and again
 * from the beginning when the thread is lost. It never gives up and never falls silent; what it could last read stays.
 */
import { UserError } from '../config/user-error.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { sleep, type Clock } from './clock.ts';
import { createBackoff } from './backoff.ts';
import type { Connection } from './connect.ts';
import { askedMs, codeOf, losesThread } from './failure.ts';
import { readPages } from './pages.ts';
import { watch, type WatchEvent } from './watch.ts';

/** What is kept equal. */
export interface Sink {
  /** The object is there, or has changed. */
  put(object: JsonObject): void;
  /** The object is gone; this is how it was last. */
  remove(object: JsonObject): void;
  /** Nothing is there but objects with these UIDs: a list of that version is complete. */
  retain(uids: ReadonlySet<unknown>, resourceVersion: string): void;
  /** All that has happened up to that version has been told. */
  reached(resourceVersion: string): void;
}

export interface ReflectorOptions {
  readonly connection: Pick<Connection, 'request' | 'stream'>;
  /** Of the resource, as `/api/v1/pods`. */
  readonly path: string;
  /** What of it; absent: all. */
  readonly query?: Readonly<Record<string, string>>;
  /** The forms of lists and of what watches tell; absent: plain JSON. */
  readonly accept?: { readonly list: string; readonly watch: string };
  readonly pageSize?: number | undefined;
  readonly sink: Sink;
  readonly clock: Clock;
  /** From 0 to less than 1. */
  random(): number;
  /** Of a resource that some clusters do not serve. Absent: each cluster serves it. */
  readonly unserved?: Unserved;
  /** Called each time a list is complete. */
  onListed(): void;
  /** Called for each failure; what was known stays until the next try. */
  onFailure(error: unknown, retryMs: number): void;
  /** Called when the server is heard again after failures. */
  onRecovered(): void;
}

/** What is done about a resource that is not found. */
export interface Unserved {
  /** Resolves to `true` if the cluster does not serve it, so that it is empty; else what was known stays. */
  confirm(signal: AbortSignal): Promise<boolean>;
  /** Called each time that is so. */
  onConfirmed(): void;
}

export interface Reflector {
  start(): void;
  /** Resolves when nothing is told any more. */
  stop(): Promise<void>;
  /** Looks at once whether a resource is served by now that was not. */
  lookAgain(): void;
  /** How long ago the server was last heard, in milliseconds. */
  lastEventAgeMs(): number;
}

const MIN_WATCH_S = 300;
const MAX_WATCH_S = 600;
/** A watch that ends sooner has failed, whatever it says. */
const SHORT_MS = 1000;
const UNSERVED_MS = 60_000;
/** A definition comes a little before what it defines. */
const SOON_MS = 1000;
const MAX_SOON = 10;

/** Makes a reflector that has yet to be started. */
export function createReflector(options: ReflectorOptions): Reflector {
  const { connection, path, query = {}, accept, pageSize, sink, clock, random } = options;
  const stopped = new AbortController();
  const { signal } = stopped;
  const backoff = createBackoff(clock, random);
  let heardMs = clock.now();
  let version: string | undefined;
  let soon = 0;
  let awake = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let isFailing = false;

  const heard = (): void => {
    heardMs = clock.now();
    if (!isFailing) return;
    isFailing = false;
    options.onRecovered();
  };

  const list = async (): Promise<string> => {
    let uids = new Set<unknown>();
    const resourceVersion = await readPages(connection, { path, query, accept: accept?.list, pageSize, signal }, () => {
      uids = new Set();
      return (items) => {
        heard();
        for (const item of items) {
          uids.add(uidOf(item));
          sink.put(item);
        }
      };
    });
    sink.retain(uids, resourceVersion);
    return resourceVersion;
  };

  const take = ({ type, object }: WatchEvent): void => {
    if (type === 'DELETED') sink.remove(object);
    else if (type !== 'BOOKMARK') sink.put(object);
    const reached = versionOf(object);
    if (reached === undefined) return;
    version = reached;
    sink.reached(reached);
  };

  /** Follows the resource as long as the server lets it. */
  const follow = async (resourceVersion: string): Promise<void> => {
    const startedMs = clock.now();
    await watch(connection, {
      path,
      query,
      accept: accept?.watch,
      resourceVersion,
      timeoutSeconds: MIN_WATCH_S + Math.round(random() * (MAX_WATCH_S - MIN_WATCH_S)),
      clock,
      signal,
      onHeard: heard,
      onEvent: take,
    });
    if (clock.now() - startedMs < SHORT_MS && !signal.aborted) throw new UserError('the watch ended at once');
  };

  const step = async (): Promise<void> => {
    if (version === undefined) {
      version = await list();
      soon = 0;
      options.onListed();
    }
    await follow(version);
  };

  const isUnserved = async (error: unknown): Promise<boolean> => {
    if (!options.unserved || codeOf(error) !== 404) return false;
    return await options.unserved.confirm(signal).catch(() => false);
  };

  const waitUnserved = async (): Promise<void> => {
    heard();
    sink.retain(new Set(), '');
    awake = new AbortController();
    const { signal: woken } = awake;
    options.onListed();
    options.unserved?.onConfirmed();
    await sleep(clock, soon-- > 0 ? SOON_MS : UNSERVED_MS * (0.5 + random() / 2), woken);
  };

  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        await step();
      } catch (error) {
        if (signal.aborted) return;
        const isListing = version === undefined;
        if (losesThread(error)) version = undefined;
        if (isListing && (await isUnserved(error))) {
          await waitUnserved();
          continue;
        }
        const delayMs = Math.max(askedMs(error), backoff.nextMs());
        isFailing = true;
        options.onFailure(error, delayMs);
        await sleep(clock, delayMs, signal);
      }
    }
  };

  return {
    start() {
      running = run();
    },
    async stop() {
      stopped.abort();
      awake.abort();
      await running;
    },
    lookAgain() {
      soon = MAX_SOON;
      awake.abort();
    },
    lastEventAgeMs: () => clock.now() - heardMs,
  };
}

function uidOf({ metadata }: JsonObject): unknown {
  return isObject(metadata) ? metadata['uid'] : undefined;
}

function versionOf({ metadata }: JsonObject): string | undefined {
  const version = isObject(metadata) ? metadata['resourceVersion'] : undefined;
  return typeof version === 'string' && version !== '' ? version : undefined;
}
