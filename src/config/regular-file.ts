import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';

/** The code of the error for what is no file. */
export const NOT_REGULAR = 'ENOTSUP';

/**
 * Opens a file for reading. Rejects for what is no file, such as a named pipe: whoever opens one waits until somebody
 * writes into it, and cannot be interrupted.
 */
export async function openRegularFile(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const kind = await handle.stat();
  // Of a folder, reading says so itself.
  if (kind.isFile() || kind.isDirectory()) return handle;
  await handle.close();
  throw Object.assign(new Error(`not a regular file: ${path}`), { code: NOT_REGULAR });
}
