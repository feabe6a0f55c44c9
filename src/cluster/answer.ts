import { UserError } from '../config/user-error.ts';
import { ApiError, failure, type Status } from '../kube/status.ts';
import { isObject, type JsonObject } from '../kube/types.ts';

/** What a server sent back. */
export interface RawAnswer {
  readonly code: number;
  /** Of the header `Retry-After`, in seconds. */
  readonly retryAfter: string | undefined;
  /** The headers `Warning`. */
  readonly warnings: readonly string[];
  readonly body: string;
}

/** More of a text that is no Status would help nobody. */
const MAX_TEXT = 200;

/**
 * The object in an answer.
 * @throws {ApiError} for a failure; its `retryAfterSeconds` says whether it is worth while to ask again
 * @throws {UserError} for what no Kubernetes API server would answer
 */
export function readAnswer(
  { code, retryAfter, body }: Pick<RawAnswer, 'code' | 'retryAfter' | 'body'>,
  server: string,
): JsonObject {
  const value = parse(body);
  if (code >= 200 && code < 300) {
    if (isObject(value)) return value;
    throw new UserError(`${server} answered something else than JSON: is it a Kubernetes API server?`);
  }
  const status = statusOf(code, value, body);
  const seconds = /^\d{1,5}$/.test(retryAfter ?? '') ? Number(retryAfter) : undefined;
  throw new ApiError(
    seconds === undefined ? status : { ...status, details: { ...status.details, retryAfterSeconds: seconds } },
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The Status that was sent, or one for whatever was sent instead. */
function statusOf(code: number, value: unknown, body: string): Status {
  if (isObject(value) && value['kind'] === 'Status' && typeof value['message'] === 'string') {
    return { ...(value as unknown as Status), code };
  }
  const text = body.trim().replaceAll(/\s+/g, ' ').slice(0, MAX_TEXT);
  return failure(code, REASONS.get(code) ?? 'Unknown', text === '' ? `HTTP status ${code}` : text);
}

const REASONS: ReadonlyMap<number, string> = new Map([
  [401, 'Unauthorized'],
  [403, 'Forbidden'],
  [404, 'NotFound'],
  [410, 'Gone'],
  [429, 'TooManyRequests'],
  [500, 'InternalError'],
  [503, 'ServiceUnavailable'],
]);
