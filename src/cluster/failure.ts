import { UserError } from '../config/user-error.ts';
import { ApiError } from '../kube/status.ts';
import { retryAfter } from './connect.ts';

/** True if what has been missed cannot be told: it was forgotten, or cannot be understood. */
export function losesThread(error: unknown): boolean {
  if (error instanceof ApiError) return ![429, 503].includes(error.status.code);
  return !(error instanceof UserError);
}

/** The HTTP status code of what the server refused. */
export function codeOf(error: unknown): number | undefined {
  return error instanceof ApiError ? error.status.code : undefined;
}

/** How long the server wants to be left alone, in milliseconds. */
export function askedMs(error: unknown): number {
  return error instanceof ApiError ? (retryAfter(error) ?? 0) * 1000 : 0;
}
