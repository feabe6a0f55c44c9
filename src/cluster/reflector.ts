/**
 * Keeps a sink in sync with an API resource. It lists the resource, watches it from the list's resource version, and
 * lists it again when the watch cannot continue. A reflector retries forever. After a failure, the sink keeps the last
 * known state.
 */
import { defined } from '../kube/defined.ts';
import type { Kind } from '../kube/kinds.ts';
import { ApiError, ConnectionError, type Status } from '../kube/status.ts';
import { type JsonObject, objectMember } from '../kube/types.ts';
import { type Clock, sleep } from './clock.ts';
import { type Connection, httpStatusCode, retryAfterSeconds } from './connection.ts';
import { PAGE_SIZE, readPages } from './lists.ts';
import type { ParsedParts, Parser } from './parser.ts';

/** The target to which a reflector delivers objects. */
export interface Sink {
  /** Called when an object has been created or updated. */
  put(object: JsonObject): void;
  /** Called with the last state of a deleted object. */
  remove(object: JsonObject): void;
  /** Called when the list at this version is complete. Objects with other UIDs no longer exist. */
  retain(uids: ReadonlySet<unknown>, resourceVersion: string): void;
  /** Called when all changes up to this version have been delivered. */
  reached(resourceVersion: string): void;
}

export interface ReflectorOptions {
  readonly connection: Pick<Connection, 'read' | 'stream'>;
  readonly parser: Parser;
  /** Kind of the objects, of which the sink receives only the stored part. */
  readonly kind?: Kind | undefined;
  /** Path of the resource, for example `/api/v1/pods`. */
  readonly path: string;
  /** Query parameters that select the objects. */
  readonly query?: Readonly<Record<string, string>>;
  /** Accepted content types for lists and watch events. Defaults to plain JSON. */
  readonly accept?: { readonly list: string; readonly watch: string };
  readonly pageSize?: number | undefined;
  readonly sink: Sink;
  readonly clock: Clock;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  random(): number;
  /** Handler for a resource that some clusters do not serve. */
  readonly unserved?: UnservedHandler;
  /** Called after each complete list. */
  onListed(): void;
  /** Called after each failure, with the delay before the next attempt. */
  onFailure(error: unknown, retryMs: number): void;
  /** Called for the first response after failures. */
  onRecovered(): void;
}

interface UnservedHandler {
  /** Resolves to true if the cluster does not serve the resource, which is then treated as empty. */
  confirm(signal: AbortSignal): Promise<boolean>;
  /** Called each time `confirm` resolves to true. */
  onConfirmed(): void;
}

export interface Reflector {
  start(): void;
  /** Stops the reflector. Resolves when the sink is no longer called. */
  stop(): Promise<void>;
  /** Immediately retries to list a resource that was not served. */
  retryNow(): void;
  /** Time since the last response or event, in milliseconds. */
  lastEventAgeMs(): number;
}

/** Range of the server-side watch timeout. */
const MIN_WATCH_S = 300;
const MAX_WATCH_S = 600;
/** Minimum watch duration. A watch that ends sooner is treated as failed. */
const SHORT_MS = 1000;
/** Maximum interval between attempts to list a resource that is not served. */
const UNSERVED_MS = 60_000;
/**
 * Interval between the first attempts to list a resource after its CRD appears. API servers take a moment to start
 * serving a new resource.
 */
const SOON_MS = 1000;
const MAX_SOON = 10;
/** Maximum delay in seconds that a response can request. Jitter adds up to 25%. */
const MAX_RETRY_AFTER_S = 24;
/** Minimum page size in objects, and maximum multiplier for the time limit after timeouts. */
const MIN_PAGE_SIZE = 10;
const MAX_TIMEOUT_FACTOR = 10;

/** State and options of a reflector. */
interface Progress extends ReflectorOptions {
  /** Divisor of the page size and multiplier for the time limit, which doubles after each timeout of a list. */
  easing: number;
  lastEventMs: number;
  /** Version from which the watch continues. Absent until the first list. */
  version: string | undefined;
  isFailing: boolean;
  /** Number of remaining lists to send at the short interval while the resource is not served. */
  soonRetries: number;
  /** Aborted so that a resource that was not served is listed immediately. */
  wake: AbortController;
  /** Aborted when the reflector stops. */
  readonly signal: AbortSignal;
}

/** Creates a reflector that has not been started. */
export function createReflector(options: ReflectorOptions): Reflector {
  const { clock, random } = options;
  const stopped = new AbortController();
  const { signal } = stopped;
  const progress: Progress = {
    ...options,
    easing: 1,
    lastEventMs: clock.now(),
    version: undefined,
    isFailing: false,
    soonRetries: 0,
    wake: new AbortController(),
    signal,
  };
  const backoff = createBackoff(clock, random);
  let running: Promise<void> = Promise.resolve();

  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        await listIfRequired(progress);
        await watchOnce(progress);
      } catch (error) {
        if (!signal.aborted) await handleFailure(progress, backoff, error);
      }
    }
  };

  return {
    start() {
      running = run();
    },
    async stop() {
      stopped.abort();
      progress.wake.abort();
      await running;
    },
    retryNow() {
      progress.soonRetries = MAX_SOON;
      progress.wake.abort();
    },
    lastEventAgeMs: () => clock.now() - progress.lastEventMs,
  };
}

function setAlive(progress: Progress): void {
  progress.lastEventMs = progress.clock.now();
  if (!progress.isFailing) return;
  progress.isFailing = false;
  progress.onRecovered();
}

async function listIfRequired(progress: Progress): Promise<void> {
  if (progress.version !== undefined) return;
  const { connection, parser, kind, path, query = {}, accept, easing, signal, sink } = progress;
  const { pageSize: fullSize = PAGE_SIZE } = progress;
  // A busy API server may take longer to send large pages.
  const pageSize = Math.max(Math.min(fullSize, MIN_PAGE_SIZE), Math.ceil(fullSize / easing));
  const timeoutFactor = Math.min(MAX_TIMEOUT_FACTOR, easing);
  const request = { parser, kind, path, query, accept: accept?.list, pageSize, timeoutFactor, signal };
  let uids = new Set<unknown>();
  const version = await readPages(connection, request, () => {
    uids = new Set();
    return (items) => {
      setAlive(progress);
      for (const item of items) {
        uids.add(objectMember(item, 'metadata')['uid']);
        sink.put(item);
      }
    };
  });
  sink.retain(uids, version);
  progress.version = version;
  progress.soonRetries = 0;
  progress.easing = 1;
  progress.onListed();
}

/** Watches the resource until the watch ends. Rejects with a ConnectionError if it ends immediately. */
async function watchOnce(progress: Progress): Promise<void> {
  const { connection, parser, kind, path, query = {}, accept, version = '', clock, random, signal } = progress;
  const startedMs = clock.now();
  await watch(connection, {
    parser,
    kind,
    path,
    query,
    accept: accept?.watch,
    resourceVersion: version,
    timeoutSeconds: MIN_WATCH_S + Math.round(random() * (MAX_WATCH_S - MIN_WATCH_S)),
    clock,
    signal,
    onAlive: () => setAlive(progress),
    onEvent: (event) => applyEvent(progress, event),
  });
  if (clock.now() - startedMs < SHORT_MS && !signal.aborted) throw new ConnectionError('the watch ended immediately');
}

function applyEvent(progress: Progress, { type, object }: WatchEvent): void {
  const { sink } = progress;
  if (type === 'DELETED') sink.remove(object);
  else if (type !== 'BOOKMARK') sink.put(object);
  const reached = resourceVersion(object);
  if (reached === undefined) return;
  progress.version = reached;
  sink.reached(reached);
}

async function handleFailure(progress: Progress, backoff: Backoff, error: unknown): Promise<void> {
  const { clock, random, signal } = progress;
  const isListing = progress.version === undefined;
  if (requiresRelist(error)) progress.version = undefined;
  if (isListing && (await isUnserved(error, progress))) {
    await waitUntilServed(progress);
    return;
  }
  if (isListing) progress.easing = nextEasing(error, progress.easing);
  const delayMs = Math.max(requestedDelayMs(error, random), backoff.nextMs());
  progress.isFailing = true;
  progress.onFailure(error, delayMs);
  await sleep(clock, delayMs, signal);
}

async function waitUntilServed(progress: Progress): Promise<void> {
  const { sink, clock, random, unserved } = progress;
  setAlive(progress);
  sink.retain(new Set(), '');
  const wake = new AbortController();
  progress.wake = wake;
  progress.onListed();
  unserved?.onConfirmed();
  const isSoon = progress.soonRetries-- > 0;
  await sleep(clock, isSoon ? SOON_MS : UNSERVED_MS * (0.5 + random() / 2), wake.signal);
}

/** Doubles the easing after a timeout. Resets it if a list is invalid, because it may have too many small pages. */
function nextEasing(error: unknown, easing: number): number {
  if (error instanceof ConnectionError) return error.timedOut ? easing * 2 : easing;
  return error instanceof ApiError ? easing : 1;
}

async function isUnserved(error: unknown, { unserved, signal }: Progress): Promise<boolean> {
  if (!unserved || httpStatusCode(error) !== 404) return false;
  return await unserved.confirm(signal).catch(() => false);
}

/**
 * Returns the delay from the `Retry-After` header, with jitter. The delay is limited because the kind is not watched in
 * the meantime.
 */
function requestedDelayMs(error: unknown, random: () => number): number {
  return Math.min(MAX_RETRY_AFTER_S, retryAfterSeconds(error) ?? 0) * 1000 * (1 + random() / 4);
}

/**
 * Returns true if the watch cannot continue because the server has discarded the version (410) or sent a malformed
 * event.
 */
function requiresRelist(error: unknown): boolean {
  if (error instanceof ApiError) return ![429, 503].includes(error.status.code);
  return !(error instanceof ConnectionError);
}

function resourceVersion(object: JsonObject): string | undefined {
  const version = objectMember(object, 'metadata')['resourceVersion'];
  return typeof version === 'string' && version !== '' ? version : undefined;
}

const MIN_BACKOFF_MS = 800;
const MAX_BACKOFF_MS = 30_000;
/** Time without failures after which the delay is reset to the minimum. */
const RESET_MS = 120_000;

type Backoff = ReturnType<typeof createBackoff>;

/** Computes the delays after consecutive failures. The delay starts at 0.8 s and doubles up to 30 s, with jitter. */
export function createBackoff(clock: Clock, random: () => number) {
  let failures = 0;
  let endMs = -Infinity;
  return {
    nextMs(): number {
      const nowMs = clock.now();
      if (nowMs - endMs > RESET_MS) failures = 0;
      const delayMs = Math.min(MAX_BACKOFF_MS / 2, MIN_BACKOFF_MS * 2 ** Math.min(failures++, 10)) * (1 + random());
      endMs = nowMs + delayMs;
      return delayMs;
    },
  };
}

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: JsonObject;
}

interface WatchRequest extends Pick<ReflectorOptions, 'parser' | 'kind'> {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly accept: string | undefined;
  /** Version after which the watch starts. */
  readonly resourceVersion: string;
  readonly timeoutSeconds: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called when the response starts and whenever bytes arrive. */
  onAlive(): void;
  onEvent(event: WatchEvent): void;
}

/**
 * Maximum silence on a watch. Bookmarks arrive every minute, so a longer silence means that the connection is dead even
 * if it is still open.
 */
const INACTIVITY_MS = 90_000;

/**
 * Watches a resource until the server ends the watch, the connection breaks, or no bytes arrive for too long. Rejects
 * with an ApiError for an error event (410 if the version is too old), with a ConnectionError if the server cannot be
 * reached, and with an Error for a malformed event.
 */
async function watch(connection: Pick<Connection, 'stream'>, request: WatchRequest): Promise<void> {
  const { parser, kind, path, query, accept, resourceVersion: from, timeoutSeconds, clock, signal } = request;
  const ended = new AbortController();
  let cancel = (): void => undefined;
  const awaitBytes = (): void => {
    cancel();
    cancel = clock.after(INACTIVITY_MS, () => ended.abort());
  };
  awaitBytes();
  try {
    const stream = await connection.stream({
      method: 'GET',
      path,
      query: {
        ...query,
        watch: 'true',
        allowWatchBookmarks: 'true',
        resourceVersion: from,
        timeoutSeconds: String(timeoutSeconds),
      },
      ...defined({ accept }),
      signal: AbortSignal.any([signal, ended.signal]),
    });
    request.onAlive();
    const onChunk = (): void => {
      awaitBytes();
      request.onAlive();
    };
    for await (const line of parser.lines(untilBroken(stream, onChunk))) {
      request.onEvent(readEvent(await parser.parse(line, { form: 'event', kind })));
    }
  } catch (error) {
    throw error instanceof SyntaxError ? new Error('malformed watch event: not JSON', { cause: error }) : error;
  } finally {
    cancel();
    ended.abort();
  }
}

/** Yields the bytes of a stream until the connection breaks. */
async function* untilBroken(stream: AsyncIterable<Buffer>, onChunk: () => void): AsyncGenerator<Buffer, void> {
  try {
    for await (const chunk of stream) {
      onChunk();
      yield chunk;
    }
  } catch {
    return;
  }
}

function readEvent({ head: { type }, parts }: ParsedParts): WatchEvent {
  const [object] = parts?.flatMap((part) => part()) ?? [];
  if (object === undefined) throw new Error('malformed watch event: it has no object');
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
    case 'BOOKMARK':
      return { type, object };
    case 'ERROR':
      throw new ApiError(errorStatus(object));
    default:
      throw new Error('malformed watch event: unknown type');
  }
}

function errorStatus(object: JsonObject): Status {
  const { code, message } = object;
  return {
    ...(object as unknown as Status),
    code: typeof code === 'number' ? code : 500,
    message: typeof message === 'string' ? message : 'the watch failed',
  };
}
