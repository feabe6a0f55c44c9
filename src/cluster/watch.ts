import { ApiError, type Status } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import type { Clock } from './clock.ts';
import type { Connection } from './connect.ts';
import { createLineSplitter } from './line-splitter.ts';

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  readonly object: JsonObject;
}

export interface WatchRequest {
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
export async function watch(connection: Pick<Connection, 'stream'>, request: WatchRequest): Promise<void> {
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
