import { NOT_REGULAR, openRegularFile } from './regular-file.ts';
import { UserError } from './user-error.ts';

/** A text and the file that it is from. */
export interface Source {
  readonly file: string;
  readonly text: string;
}

/**
 * Reads a file as it is now.
 * @throws {UserError} if it cannot be read
 */
export async function readSource(file: string): Promise<Source> {
  try {
    await using handle = await openRegularFile(file);
    return { file, text: await handle.readFile('utf8') };
  } catch (error) {
    throw new UserError(`cannot read ${file}: ${reasonOf(error)}`, { cause: error });
  }
}

/** For what the system says in its own words. */
const REASONS: ReadonlyMap<unknown, string> = new Map([
  ['ENOENT', 'there is no such file'],
  ['ENOTDIR', 'there is no such file'],
  ['EISDIR', 'it is a folder'],
  ['EACCES', 'permission denied'],
  [NOT_REGULAR, 'it is no regular file'],
]);

/** Why a file cannot be read or written, without its name. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return ('code' in error ? REASONS.get(error.code) : undefined) ?? error.message;
}
