import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, type FileHandle, open, rename, rm, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { errorCode } from '../kube/error-code.ts';
import { LIMITS } from '../kube/limits.ts';
import { UserError } from '../kube/user-error.ts';

/** Error code for a path that is not a regular file. */
export const NOT_REGULAR = 'ENOTSUP';
/** Error code for a file that exceeds the limit. */
export const TOO_LARGE = 'EFBIG';

/**
 * Opens a regular file for reading. Rejects other file types, because opening a named pipe blocks until another process
 * writes to it, and cannot be interrupted.
 */
export async function openRegularFile(path: string): Promise<FileHandle> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const kind = await handle.stat();
  // Accepts directories, because reading them fails with a better error.
  if (kind.isFile() || kind.isDirectory()) return handle;
  await handle.close();
  throw Object.assign(new Error(`not a regular file: ${path}`), { code: NOT_REGULAR });
}

export interface TextFile {
  readonly file: string;
  readonly text: string;
}

/** Returns true for UTF-16 with a byte order mark, which is the encoding of redirected output in Windows PowerShell. */
export function isUtf16(bytes: Buffer): boolean {
  return bytes[0] === 0xff && bytes[1] === 0xfe;
}

/** Decodes UTF-8 or UTF-16. Replaces invalid bytes. Keeps the byte order mark. */
export function decodeText(bytes: Buffer): string {
  return bytes.toString(isUtf16(bytes) ? 'utf16le' : 'utf8');
}

/**
 * Reads a stream of text or bytes, which follows the bytes in `first`. Rejects if all bytes together exceed the limit.
 */
export async function readBytes(stream: AsyncIterable<unknown>, first: Buffer = Buffer.alloc(0)): Promise<Buffer> {
  const chunks = [first];
  let { length } = first;
  for await (const chunk of stream) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : Buffer.from(chunk as Uint8Array);
    length += bytes.length;
    checkLength(length);
    chunks.push(bytes);
  }
  return chunks.length === 1 ? first : Buffer.concat(chunks);
}

function checkLength(bytes: number): void {
  if (bytes > LIMITS.fileBytes) throw Object.assign(new Error('too large'), { code: TOO_LARGE });
}

/** Reads a text file. Rejects if it exceeds the limit or is not a regular file. */
export async function readFileText(path: string): Promise<string> {
  const handle = await openRegularFile(path);
  try {
    const { size } = await handle.stat();
    checkLength(size);
    // Reads the file in one call, which takes a third of the time of a stream. The stream reads only the remaining
    // bytes, for example of a file whose size is unknown.
    const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafeSlow(size + 1));
    return decodeText(await readBytes(handle.createReadStream({ autoClose: false }), buffer.subarray(0, bytesRead)));
  } finally {
    await handle.close();
  }
}

/**
 * Reads a file.
 * @throws {UserError} if it cannot be read
 */
export async function readSource(file: string): Promise<TextFile> {
  try {
    return { file, text: await readFileText(file) };
  } catch (error) {
    throw new UserError(`cannot read ${file}: ${failureReason(error)}`, { cause: error });
  }
}

/** Replaces a file atomically, so readers see either the old or the new content. */
export async function replaceFile(path: string, content: string | Buffer, mode: number): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    await writeFile(temporary, content, { mode, flag: 'wx' });
    // The umask of the process restricts the mode of new files.
    await chmod(temporary, mode);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Messages by operating system error code. */
const REASONS: ReadonlyMap<unknown, string> = new Map([
  ['ENOENT', 'there is no such file'],
  ['ENOTDIR', 'there is no such file'],
  ['EISDIR', 'it is a directory'],
  ['EACCES', 'permission denied'],
  ['EPERM', 'operation not permitted'],
  ['EBUSY', 'another program is using it'],
  ['ENOSPC', 'no space is left'],
  ['EROFS', 'the file system is read-only'],
  [NOT_REGULAR, 'it is not a regular file'],
  [TOO_LARGE, `larger than ${LIMITS.fileBytes / 1024 / 1024} MiB`],
]);

/** Returns the reason why a file cannot be read or written, without the file name. */
export function failureReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return REASONS.get(errorCode(error)) ?? error.message;
}

interface FileWatch<T> {
  /** Reads the content. Called once per interval. */
  readonly read: () => Promise<T>;
  /** Content when the watch starts. */
  readonly initial: T;
  /**
   * Called once changed content has been stable for one interval, and when the content becomes readable again after an
   * error. If it throws, it is called again at the next interval.
   */
  readonly onChange: (content: T) => void;
  /** Called for errors from `read` and `onChange`. Not called again for the same reason. */
  readonly onError: (error: unknown) => void;
  /** Stops the watch when it is aborted. */
  readonly signal: AbortSignal;
  /** Interval between reads in milliseconds. Defaults to 500. */
  readonly intervalMs?: number;
}

/**
 * Watches files for changes until the signal is aborted. It polls because Kubernetes updates a mounted ConfigMap or
 * Secret by replacing a symbolic link to its directory, which `fs.watch` does not report as a change to the file. A
 * change takes effect after two identical reads, because a file that is written in place is briefly incomplete, and an
 * incomplete configuration might be valid.
 */
export async function watchFile<T>(watch: FileWatch<T>): Promise<void> {
  const { read, onChange, onError, signal, intervalMs = 500 } = watch;
  let current: T | undefined = watch.initial;
  let last = current;
  let lastError: string | undefined;
  while (await waitInterval(intervalMs, signal)) {
    try {
      const content = await read();
      if (signal.aborted) return;
      const isSettled = isDeepStrictEqual(content, last);
      last = content;
      if (!isSettled || isDeepStrictEqual(content, current)) continue;
      onChange(content);
      current = content;
      lastError = undefined;
    } catch (error) {
      current = undefined;
      if (lastError !== String(error)) onError(error);
      lastError = String(error);
    }
  }
}

/** Waits for the interval. Resolves to false if the signal is aborted. The timer does not keep the process alive. */
async function waitInterval(intervalMs: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(intervalMs, undefined, { signal, ref: false });
    return true;
  } catch {
    return false;
  }
}
