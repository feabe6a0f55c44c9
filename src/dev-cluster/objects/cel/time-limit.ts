import { createContext, Script } from 'node:vm';
import { isObject } from '../../../kube/types.ts';

/** Longer than the API server's own budget for an object lasts, since time passes on a busy machine without work done. */
const LIMIT_MS = 2000;

const context = createContext({});
const script = new Script('run()');

/**
 * Runs a synchronous function and returns what it returns; `undefined` if it takes too long: expressions loop over what
 * somebody sent, in as many loops as somebody wrote.
 */
export function withinTime<T>(run: () => T): { readonly result: T } | undefined {
  context['run'] = run;
  try {
    return { result: script.runInContext(context, { timeout: LIMIT_MS }) as T };
  } catch (error) {
    if (isTimeout(error)) return undefined;
    throw error;
  } finally {
    delete context['run'];
  }
}

/** It is an error of the other context, and so no instance of an Error of this one. */
function isTimeout(error: unknown): boolean {
  return isObject(error) && error['code'] === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
}
