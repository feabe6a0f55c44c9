import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

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

/** A mistake of the person at the keyboard: a bad option, file or manifest. Shown as its message, without a stack. */
export class UserError extends Error {
  override readonly name = 'UserError';
}

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
    throw new UserError(`cannot read ${file}: ${failureReason(error)}`, { cause: error });
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
export function failureReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return ('code' in error ? REASONS.get(error.code) : undefined) ?? error.message;
}

interface FileWatch {
  /** Reads the file; called again and again. */
  readonly read: () => Promise<Source>;
  /** What was read before the watch began; it is no change. */
  readonly initial: Source;
  /** The content is another and stays so for an interval, or it can be read again after an error. */
  readonly onChange: (source: Source) => void;
  /** The file cannot be read; told once, until that changes. */
  readonly onError: (error: unknown) => void;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /** How often the file is read; 500 if absent. */
  readonly intervalMs?: number;
}

/**
 * Watches the content of a file until the signal aborts. It is read over and over: Kubernetes updates a mounted ConfigMap
 * by swapping a symbolic link to its folder, which a watch on the file itself does not see. Only what is read twice alike
 * is told: who writes a file in place empties it first, and the beginning of a configuration may be one, of another meaning.
 */
export async function watchFile(watch: FileWatch): Promise<void> {
  const { read, onChange, onError, signal, intervalMs = 500 } = watch;
  let told: Source | undefined = watch.initial;
  let last: Source | undefined = told;
  let complaint: string | undefined;
  while (await isTime(intervalMs, signal)) {
    try {
      const source = await read();
      if (signal.aborted) return;
      const isSettled = areEqual(source, last);
      last = source;
      complaint = undefined;
      if (!isSettled || areEqual(source, told)) continue;
      told = source;
      onChange(source);
    } catch (error) {
      told = last = undefined;
      if (complaint !== String(error)) onError(error);
      complaint = String(error);
    }
  }
}

function areEqual(source: Source, other: Source | undefined): boolean {
  return source.file === other?.file && source.text === other.text;
}

/** False if the watch has ended. The process does not live on for the sake of the timer. */
async function isTime(intervalMs: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(intervalMs, undefined, { signal, ref: false });
    return true;
  } catch {
    return false;
  }
}
