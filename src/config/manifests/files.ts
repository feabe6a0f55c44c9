import { isUtf8 } from 'node:buffer';
import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { compareBytes } from '../../kube/order.ts';
import { NOT_REGULAR, openRegularFile } from '../regular-file.ts';
import { reasonOf } from '../source.ts';
import { UserError } from '../user-error.ts';
import { createLineIndex, type Position } from './line-index.ts';

/** The path that stands for the standard input, and its name in messages. */
export const STDIN = { path: '-', name: 'stdin' } as const;

/** A larger file is no manifest, and would not fit into memory several times. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024;

const EXTENSIONS = /\.(?:ya?ml|json)$/i;

/**
 * The files that the paths name, each once. A folder gives its .yaml, .yml and .json files, those of subfolders too,
 * sorted by name; nothing hidden, and no folders behind symbolic links.
 * @throws {UserError} for a path that does not exist, and for a folder without manifests
 */
export async function listManifestFiles(paths: readonly string[]): Promise<string[]> {
  const files = new Map<string, string>();
  for (const path of paths) {
    for (const file of await filesAt(path)) {
      const identity = file === STDIN.path ? file : resolve(file);
      if (!files.has(identity)) files.set(identity, file);
    }
  }
  return [...files.values()];
}

async function filesAt(path: string): Promise<string[]> {
  if (path === STDIN.path) return [path];
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const found = await filesBelow(path);
    if (found.length > 0) return found;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new UserError(`the path "${path}" does not exist`, { cause: error });
    if (codeOf(error) !== undefined) throw new UserError(`cannot read ${path}: ${reasonOf(error)}`, { cause: error });
    throw error;
  }
  throw new UserError(`no .yaml, .yml or .json file in ${path}`);
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries.sort((a, b) => compareBytes(a.name, b.name))) {
    const path = join(folder, entry.name);
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) for (const file of await filesBelow(path)) found.push(file);
    else if (EXTENSIONS.test(entry.name) && (entry.isFile() || (await linksToFile(path)))) found.push(path);
  }
  return found;
}

/** A link that leads nowhere counts as a file, so that it is reported when it is read. */
async function linksToFile(path: string): Promise<boolean> {
  return await stat(path).then(
    (target) => target.isFile(),
    () => true,
  );
}

/** The text of a file, or why it has none and where. */
export type FileText = { readonly text: string } | (Position & { readonly message: string });

export interface TextOptions {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** Stops the reading when it is aborted. */
  readonly signal?: AbortSignal;
}

/**
 * Reads a file, or the standard input for `-`. A file that cannot be read gives a message, so that others go on.
 * Rejects when the signal is aborted.
 */
export async function readManifestText(path: string, { stdin, signal }: TextOptions): Promise<FileText> {
  try {
    const stream = path === STDIN.path ? stdin : (await openRegularFile(path)).createReadStream();
    // The other end of a pipe may stay silent for ever.
    if (signal && stream instanceof Readable) addAbortSignal(signal, stream);
    const bytes = await readBytes(stream);
    return bytes === undefined ? problem(`larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB`) : decode(bytes);
  } catch (error) {
    if (signal?.aborted || codeOf(error) === undefined) throw error;
    if (codeOf(error) === NOT_REGULAR) return problem('not a regular file; use - to read the standard input');
    return problem(reasonOf(error));
  }
}

async function readBytes(stream: AsyncIterable<unknown>): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stream) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : Buffer.from(chunk as Uint8Array);
    length += bytes.length;
    if (length > MAX_FILE_BYTES) return undefined;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

function decode(bytes: Buffer): FileText {
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return { text };
  const position = createLineIndex(text)(Math.max(text.indexOf('\ufffd'), 0));
  return { ...position, message: 'not a text file in UTF-8' };
}

function problem(message: string): FileText {
  return { message, line: 1, column: 1 };
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
