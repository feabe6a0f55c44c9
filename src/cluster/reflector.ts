/**
 * Keeps something equal to what the API server holds of one resource: a list, then a watch from there on, and again
 * from the beginning when the thread is lost. It never gives up and never falls silent; what it could last read stays.
 */
import { type Clock, sleep } from './clock.ts';
import { ApiError, type Status } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { type Connection, retryAfterMs, httpStatusCode, requiresRelist } from './connection.ts';
import { UserError } from '../config/files.ts';
import { readPages } from './lists.ts';

/** How long to wait after failures in a row. */
interface Backoff {
  /** Called once for each failure; in milliseconds. */
  nextMs(): number;
}

const MIN_MS = 800;
const MAX_MS = 30_000;
/** Whoever has not failed for so long starts from the beginning. */
const RESET_MS = 120_000;

/** Waits from 0.8 s on, twice as long each time up to 30 s, by chance not at the same moment as others. */
export function createBackoff(clock: Clock, random: () => number): Backoff {
  let failures = 0;
  let waitedUntilMs = -Infinity;
  return {
    nextMs() {
      const nowMs = clock.now();
      if (nowMs - waitedUntilMs > RESET_MS) failures = 0;
      const delayMs = Math.min(MAX_MS / 2, MIN_MS * 2 ** Math.min(failures++, 10)) * (1 + random());
      waitedUntilMs = nowMs + delayMs;
      return delayMs;
    },
  };
}

const NEWLINE = 0x0a;

/** Takes bytes as they come and gives the lines that are complete; a character may come in pieces, a line in many. */
interface LineSplitter {
  /** @throws {Error} once a line has more bytes than allowed */
  push(chunk: Buffer): readonly string[];
}

export function createLineSplitter(maxBytes: number): LineSplitter {
  let parts: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer): void => {
    length += part.length;
    if (length > maxBytes) throw new Error(`a line is longer than ${maxBytes} bytes`);
    parts.push(part);
  };
  return {
    push(chunk) {
      const lines: string[] = [];
      let start = 0;
      for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
        add(chunk.subarray(start, end));
        lines.push((parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)).toString('utf8'));
        parts = [];
        length = 0;
        start = end + 1;
      }
      if (start < chunk.length) add(chunk.subarray(start));
      return lines;
    },
  };
}

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: JsonObject;
}

interface WatchRequest {
  /** Of the resource, as `/api/v1/pods`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly accept?: string | undefined;
  /** What has happened since is told first. */
  readonly resourceVersion: string;
  /** How long the server shall go on, in seconds. */
  readonly timeoutSeconds: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called when the server begins to answer and whenever anything arrives. */
  onHeard(): void;
  onEvent(event: WatchEvent): void;
}

/** Bookmarks come every minute: who has been silent for longer is gone, though the connection may not know. */
const INACTIVITY_MS = 90_000;
/** Far beyond any object that the API server stores. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;

/**
 * Follows a resource until the server ends it, the connection breaks or nothing comes any more.
 * Rejects with an ApiError for what the server refuses (410: what has happened since is forgotten), with a UserError
 * if it cannot be reached, with an Error for what is no event.
 */
async function watch(connection: Pick<Connection, 'stream'>, request: WatchRequest): Promise<void> {
  const { path, query, accept, resourceVersion, timeoutSeconds, clock, signal, onHeard, onEvent } = request;
  const ended = new AbortController();
  const end = (): void => ended.abort();
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  const alarm = createAlarm(clock, end);
  try {
    const stream = await connection.stream({
      method: 'GET',
      path,
      query: {
        ...query,
        watch: 'true',
        allowWatchBookmarks: 'true',
        resourceVersion,
        timeoutSeconds: String(timeoutSeconds),
      },
      ...(accept === undefined ? {} : { accept }),
      signal: ended.signal,
    });
    const lines = createLineSplitter(MAX_LINE_BYTES);
    onHeard();
    for await (const chunk of untilBroken(stream)) {
      alarm.postpone();
      onHeard();
      for (const line of lines.push(chunk)) onEvent(readEvent(line));
    }
  } finally {
    alarm.cancel();
    signal.removeEventListener('abort', end);
    end();
  }
}

/** A connection that breaks has said all that it will say; the rest of a line is of no use. */
async function* untilBroken(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  try {
    yield* stream;
  } catch {
    return;
  }
}

/** @throws {ApiError} for the event that tells of an error */
function readEvent(line: string): WatchEvent {
  const { type, object } = parse(line);
  if (!isObject(object)) throw new Error('the watch sent a line that is no event');
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
    case 'BOOKMARK':
      return { type, object };
    case 'ERROR':
      throw new ApiError(statusOf(object));
    default:
      throw new Error('the watch sent an event of a type that does not exist');
  }
}

function parse(line: string): JsonObject {
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : {};
  } catch (error) {
    throw new Error('the watch sent a line that is no JSON', { cause: error });
  }
}

function statusOf(object: JsonObject): Status {
  const { code, message } = object;
  return {
    ...(object as unknown as Status),
    code: typeof code === 'number' ? code : 500,
    message: typeof message === 'string' ? message : 'the watch failed',
  };
}

interface Alarm {
  postpone(): void;
  cancel(): void;
}

/** Goes off when it has not been postponed for too long; postponing costs nothing. */
function createAlarm(clock: Clock, ring: () => void): Alarm {
  let lastMs = clock.now();
  let cancel = (): void => undefined;
  const set = (delayMs: number): void => {
    cancel = clock.after(delayMs, () => {
      const restMs = lastMs + INACTIVITY_MS - clock.now();
      if (restMs <= 0) ring();
      else set(restMs);
    });
  };
  set(INACTIVITY_MS);
  return {
    postpone: () => void (lastMs = clock.now()),
    cancel: () => cancel(),
  };
}

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
interface Unserved {
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
  retryNow(): void;
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
    if (!options.unserved || httpStatusCode(error) !== 404) return false;
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
        if (requiresRelist(error)) version = undefined;
        if (isListing && (await isUnserved(error))) {
          await waitUnserved();
          continue;
        }
        const delayMs = Math.max(retryAfterMs(error), backoff.nextMs());
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
    retryNow() {
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
