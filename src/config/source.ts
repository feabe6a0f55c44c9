import { openRegularFile } from './regular-file.ts';
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
    throw new UserError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}
