import { UserError } from '../config/user-error.ts';

/** Far more than any cluster can hold: 500 objects each. */
const MAX_PAGES = 10_000;

/**
 * Makes a function that is told where each page of a list goes on.
 * @throws {UserError} when the list has no end: a server gives every token once
 */
export function createPageLimit(path: string): (token: string) => void {
  const seen = new Set<string>();
  return (token) => {
    const isRepeated = seen.has(token);
    seen.add(token);
    if (!isRepeated && seen.size < MAX_PAGES) return;
    const why = isRepeated ? 'it goes on where it has been before' : `there is more after ${MAX_PAGES} pages`;
    throw new UserError(`the server's list of ${path} does not end: ${why}`);
  };
}
