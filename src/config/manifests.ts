/** Reads manifests from files, directories, URLs and standard input, as `kubectl apply -f` does. */
import { isUtf8 } from 'node:buffer';
import { existsSync, globSync } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { errorCode } from '../kube/error-code.ts';
import { compareBytes, quote } from '../kube/text.ts';
import { UserError } from '../kube/user-error.ts';
import { decodeText, failureReason, isUtf16, NOT_REGULAR, openRegularFile, readBytes, TOO_LARGE } from './files.ts';
import { CHART_FILE, type ManifestObjects, manifestObjects } from './objects.ts';
import { type Documents, type ManifestDocument, type ManifestError, readSteps } from './yaml.ts';

/** Documents and objects from all files, in order. */
export interface Manifests extends Documents, ManifestObjects {}

interface ReadOptions {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly signal?: AbortSignal;
  /** Called with the text of each file. */
  readonly onText?: (file: string, text: string) => void;
  /** Called for each percent of each file. */
  readonly onProgress?: (progress: ReadProgress) => void;
  /** If true, the files will be rewritten, so a symbolic link that points outside the directory is an error. */
  readonly isRewrite?: boolean;
}

interface ReadProgress {
  readonly file: string;
  /** Ordinal of the file, starting at 1. */
  readonly number: number;
  readonly files: number;
  readonly percent: number;
}

/** The argument for standard input, and its name in messages. */
export const STDIN = { path: '-', name: 'stdin' } as const;

/**
 * Reads all objects from files, directories and URLs, and from standard input for `-`. Reports unreadable files and
 * documents in `errors`. Rejects if the signal is aborted.
 * @throws {UserError} if a path does not exist or a directory contains no manifests
 */
export async function readManifests(paths: readonly string[], options: ReadOptions): Promise<Manifests> {
  const documents: ManifestDocument[] = [];
  const objects: ManifestObjects['objects'][number][] = [];
  const errors: ManifestObjects['errors'][number][] = [];
  const files = await listManifestFiles(paths);
  for (const [index, { path, folder }] of files.entries()) {
    const file = path === STDIN.path ? STDIN.name : path;
    let percent = 0;
    const report = async (): Promise<void> => {
      options.onProgress?.({ file, number: index + 1, files: files.length, percent });
      // Parsing does not yield, so yield here to let signals be handled.
      await setImmediate(undefined, options.signal ? { signal: options.signal } : {});
    };
    await report();
    const content = (options.isRewrite && (await findOutsideTarget(path, folder))) || (await readText(path, options));
    if ('message' in content) errors.push({ file, ...content });
    else options.onText?.(file, content.text);
    for (const { document, error, share } of 'text' in content ? readSteps(content.text, file) : []) {
      const read = document && manifestObjects(document);
      if (document) documents.push(document);
      for (const object of read?.objects ?? []) objects.push(object);
      for (const one of read?.errors ?? (error ? [error] : [])) errors.push(one);
      if (Math.floor(share * 100) <= percent) continue;
      percent = Math.floor(share * 100);
      await report();
    }
  }
  return { documents, objects, errors };
}

/** A file, and the argument that specifies it or its directory. */
interface ListedFile {
  readonly path: string;
  readonly folder: string;
}

/**
 * Lists the distinct files at the given paths. For a directory, lists the .yaml, .yml and .json files in it and its
 * subdirectories, sorted by name. Skips hidden files and symbolic links to directories. For a Helm chart directory,
 * returns only Chart.yaml, which is later reported as an error because templates are not manifests.
 */
async function listManifestFiles(paths: readonly string[]): Promise<readonly ListedFile[]> {
  const files = new Map<string, ListedFile>();
  for (const path of paths.flatMap(expandPattern)) {
    for (const file of await filesAt(path)) {
      const identity = file === STDIN.path || URL_PATTERN.test(file) ? file : resolve(file);
      if (!files.has(identity)) files.set(identity, { path: file, folder: path });
    }
  }
  return [...files.values()];
}

/** Returns the files that match a pattern, because Windows shells do not expand patterns. */
function expandPattern(path: string): readonly string[] {
  if (!/[*?[]/.test(path) || URL_PATTERN.test(path) || existsSync(path)) return [path];
  const matches = globSync(path);
  return matches.length === 0 ? [path] : matches.sort(compareBytes);
}

async function filesAt(path: string): Promise<string[]> {
  if (path === STDIN.path || URL_PATTERN.test(path)) return [path];
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const files = await filesBelow(path);
    if (files.length > 0) return files;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new UserError(`the path "${path}" does not exist`, { cause: error });
    if (errorCode(error) !== undefined)
      throw new UserError(`cannot read ${path}: ${failureReason(error)}`, { cause: error });
    throw error;
  }
  throw new UserError(`no .yaml, .yml or .json file in ${path}`);
}

export const URL_PATTERN = /^https?:\/\//;
const EXTENSIONS = /\.(?:ya?ml|json)$/i;

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  if (entries.some(({ name }) => name === CHART_FILE)) return [join(folder, CHART_FILE)];
  const files: string[] = [];
  for (const entry of entries.sort((a, b) => compareBytes(a.name, b.name))) {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) for (const file of await filesBelow(path)) files.push(file);
    else if (EXTENSIONS.test(entry.name) && (entry.isFile() || (await linksToFile(path)))) files.push(path);
  }
  return files;
}

/** Also lists broken links, so reading them reports the error. */
async function linksToFile(path: string): Promise<boolean> {
  return await stat(path).then(
    (target) => target.isFile(),
    () => true,
  );
}

/** Returns an error if a file is a symbolic link that points outside the directory of the argument. */
async function findOutsideTarget(path: string, folder: string): Promise<FileText | undefined> {
  if (path === folder) return undefined;
  const target = await realpath(path).catch(() => undefined);
  const way = target === undefined ? '' : relative(await realpath(folder), target);
  if (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return undefined;
  const message = `not fixed: this symbolic link points outside ${folder}, to ${target}: specify that file with -f, or replace the link with a copy`;
  return { message, line: 1, column: 1, isWholeFile: true };
}

type FileText = { readonly text: string } | Omit<ManifestError, 'file'>;

async function readText(path: string, { stdin, signal }: ReadOptions): Promise<FileText> {
  const problem = (message: string): FileText => ({ message, line: 1, column: 1, isWholeFile: true });
  try {
    const stream = await openStream(path, { stdin, signal });
    // Limit the size, because a pipe may never end.
    if (signal && stream instanceof Readable) addAbortSignal(signal, stream);
    return decode(await readBytes(stream));
  } catch (error) {
    if (signal?.aborted || error instanceof UserError) throw error;
    if (errorCode(error) === TOO_LARGE) return problem(failureReason(error));
    if (URL_PATTERN.test(path)) throw new UserError(unreadableUrl(path, error), { cause: error });
    if (errorCode(error) === undefined) throw error;
    if (errorCode(error) === NOT_REGULAR) return problem('not a regular file; use - to read standard input');
    return problem(failureReason(error));
  }
}

async function openStream(
  path: string,
  { stdin, signal }: Pick<ReadOptions, 'stdin'> & { readonly signal: AbortSignal | undefined },
): Promise<AsyncIterable<unknown>> {
  if (path === STDIN.path) {
    if (stdin instanceof Readable && stdin.readableEnded)
      throw new UserError('only one option can read standard input');
    return stdin;
  }
  return URL_PATTERN.test(path) ? await download(path, signal) : (await openRegularFile(path)).createReadStream();
}

const DOWNLOAD_TIMEOUT_MS = 30_000;

/** @throws {UserError} if the server cannot be reached or returns an error */
async function download(url: string, signal: AbortSignal | undefined): Promise<AsyncIterable<unknown>> {
  const timeout = AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS);
  const response = await fetch(url, { signal: signal ? AbortSignal.any([signal, timeout]) : timeout }).catch(
    (error: unknown) => {
      if (signal?.aborted) throw error;
      throw new UserError(unreadableUrl(url, error), { cause: error });
    },
  );
  if (response.ok) return response.body ?? Readable.from([]);
  const { status, statusText } = response;
  throw new UserError(
    `unable to read URL ${quote(url)}, server reported ${status} ${statusText}, status code=${status}`,
  );
}

/** `fetch` errors have the actual reason as their cause. */
function unreadableUrl(url: string, error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = cause instanceof Error ? cause.message : String(cause);
  const isTimeout = cause instanceof Error && cause.name === 'TimeoutError';
  const reason = isTimeout
    ? `no complete response within ${DOWNLOAD_TIMEOUT_MS / 1000} s`
    : message === 'bad port'
      ? 'HTTP clients block this port: download the file, or serve it on another port'
      : message;
  return `unable to read URL ${quote(url)}: ${reason}`;
}

function decode(bytes: Buffer): FileText {
  const text = decodeText(bytes);
  if (isUtf16(bytes) ? bytes.length % 2 === 0 && text.isWellFormed() : isUtf8(bytes)) return { text };
  const before = text.slice(0, Math.max(text.indexOf('\ufffd'), 0)).split('\n');
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1, message: 'not a text file in UTF-8' };
}
