/** Reads manifests from files, directories, URLs and standard input, as `kubectl apply -f` does. */
import { isUtf8 } from 'node:buffer';
import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, relative, sep } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { errorCode } from '../kube/error-code.ts';
import { quote, shellQuote } from '../kube/text.ts';
import { isObject } from '../kube/types.ts';
import { UserError } from '../kube/user-error.ts';
import { decodeText, failureReason, isUtf16, NOT_REGULAR, openRegularFile, readBytes, TOO_LARGE } from './files.ts';
import { type ListedFile, listManifestFiles, URL_PATTERN } from './manifest-files.ts';
import { type ManifestObject, type ManifestObjects, manifestObjects } from './objects.ts';
import { type Documents, type ManifestDocument, type ManifestError, readSteps, STDIN } from './yaml.ts';

/** Documents and objects from all files, in order. */
export interface Manifests extends Documents, ManifestObjects {}

/** Manifests, and the files that were not treated as manifests. */
interface ReadManifests extends Manifests {
  /** Files in directories that contain no Kubernetes objects. */
  readonly others: readonly string[];
  /** Files that kustomizations use as patches or other inputs. */
  readonly kustomizeInputs: readonly string[];
}

interface ReadOptions {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly signal?: AbortSignal;
  /** Glob patterns of files and directories to skip. */
  readonly exclude?: readonly string[];
  /** Called with the text of each manifest. */
  readonly onText?: (file: string, text: string) => void;
  /** Called for each percent of each file. */
  readonly onProgress?: (progress: ReadProgress) => void;
  /**
   * True if the files will be rewritten. In that case, a symbolic link that points outside the directory is an error.
   */
  readonly isRewrite?: boolean;
}

interface ReadProgress {
  readonly file: string;
  /** Ordinal of the file, starting at 1. */
  readonly number: number;
  readonly files: number;
  readonly percent: number;
}

/**
 * Reads all objects from files, directories and URLs, and from standard input for `-`. Reports unreadable files and
 * documents in `errors`. Rejects if the signal is aborted.
 * @throws {UserError} if a path does not exist or a directory contains no manifests
 */
export async function readManifests(paths: readonly string[], options: ReadOptions): Promise<ReadManifests> {
  const { files, emptyCharts, kustomizeInputs } = await listManifestFiles(paths, options.exclude ?? []);
  const documents: ManifestDocument[] = [];
  const objects: ManifestObject[] = [];
  const errors: ManifestError[] = [];
  const others = [...emptyCharts];
  for (const [index, listed] of files.entries()) {
    const file = listed.path === STDIN.path ? STDIN.name : listed.path;
    let percent = 0;
    const report = async (): Promise<void> => {
      options.onProgress?.({ file, number: index + 1, files: files.length, percent });
      // Yields so that signals are handled, because parsing does not yield.
      await setImmediate(undefined, options.signal ? { signal: options.signal } : {});
    };
    await report();
    const content = await readListed(listed, options);
    if ('message' in content) {
      errors.push({ file, ...content });
      continue;
    }
    const before = [documents.length, objects.length, errors.length] as const;
    let isUnreadable = false;
    for (const { document, error, share } of readSteps(content.text, file)) {
      const read = document && manifestObjects(document);
      isUnreadable ||= error !== undefined;
      if (document) documents.push(document);
      for (const object of read?.objects ?? []) objects.push(object);
      for (const problem of read?.errors ?? (error ? [error] : [])) errors.push(problem);
      if (Math.floor(share * 100) <= percent) continue;
      percent = Math.floor(share * 100);
      await report();
    }
    const isNamed = listed.path === listed.folder;
    if (isNamed || objects.length > before[1] || hasTypes(content.text, documents.slice(before[0]), isUnreadable)) {
      options.onText?.(file, content.text);
      continue;
    }
    others.push(file);
    documents.length = before[0];
    errors.length = before[2];
  }
  return { documents, objects, errors, others, kustomizeInputs };
}

/** Matches a type field of an object, at the beginning of a line in YAML or anywhere in JSON. */
const TYPE_FIELD = /^(?:apiVersion|kind|[ \t{,]*"(?:apiVersion|kind)")[ \t]*:/m;

/** Returns true if a file without readable objects contains a part of an object. Its errors must then be reported. */
function hasTypes(text: string, documents: readonly ManifestDocument[], isUnreadable: boolean): boolean {
  const isPart = ({ value }: ManifestDocument): boolean =>
    isObject(value) && ['apiVersion', 'kind'].some((field) => value[field] !== undefined);
  return documents.some(isPart) || (isUnreadable && TYPE_FIELD.test(text));
}

/** Returns an error for a Helm chart, whose templates are not manifests. */
function chartError({ path, folder }: ListedFile): FileText {
  const chart = dirname(path);
  const exclude =
    path === folder || chart === folder
      ? ''
      : `, or skip it with --exclude=${shellQuote(relative(folder, chart).replaceAll(sep, '/'))}`;
  const message = `a Helm chart must be rendered first: helm template ${shellQuote(chart)} | portcullis check -f -${exclude}`;
  return { message, line: 1, column: 1, isWholeFile: true };
}

/** Returns an error if a file is a symbolic link that points outside the directory of the argument. */
async function findOutsideTarget({ path, folder }: ListedFile): Promise<FileText | undefined> {
  if (path === folder) return undefined;
  const target = await realpath(path).catch(() => undefined);
  const way = target === undefined ? '' : relative(await realpath(folder), target);
  if (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return undefined;
  const message = `not fixed: this symbolic link points outside ${folder}, to ${target}: specify that file with -f, or replace the link with a copy`;
  return { message, line: 1, column: 1, isWholeFile: true };
}

type FileText = { readonly text: string } | Omit<ManifestError, 'file'>;

async function readListed(listed: ListedFile, options: ReadOptions): Promise<FileText> {
  if (listed.isChart) return chartError(listed);
  return (options.isRewrite && (await findOutsideTarget(listed))) || (await readText(listed.path, options));
}

async function readText(path: string, { stdin, signal }: ReadOptions): Promise<FileText> {
  const problem = (message: string): FileText => ({ message, line: 1, column: 1, isWholeFile: true });
  try {
    const stream = await openStream(path, { stdin, signal });
    // The size is limited because a pipe may never end.
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

/**
 * Downloads a manifest.
 * @throws {UserError} if the server cannot be reached or returns an error
 */
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

/** Returns the message for a URL that cannot be read. The cause of a `fetch` error contains the actual reason. */
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
