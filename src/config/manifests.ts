import { isUtf8 } from 'node:buffer';
import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { stringify } from 'yaml';
import { compareBytes } from '../kube/order.ts';
import { NOT_REGULAR, openRegularFile } from './regular-file.ts';
import { reasonOf } from './source.ts';
import { UserError } from './user-error.ts';
import { createLineIndex, type Position } from './manifests/line-index.ts';
import { isObject, type JsonObject } from '../kube/types.ts';
import { type ManifestDocument, type ManifestError, readSteps, type Step } from './manifests/documents.ts';
import type { Path } from './manifests/node.ts';

/** The path that stands for the standard input, and its name in messages. */
const STDIN = { path: '-', name: 'stdin' } as const;

/** A larger file is no manifest, and would not fit into memory several times. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;

const EXTENSIONS = /\.(?:ya?ml|json)$/i;

/**
 * The files that the paths name, each once. A folder gives its .yaml, .yml and .json files, those of subfolders too,
 * sorted by name; nothing hidden, and no folders behind symbolic links.
 * @throws {UserError} for a path that does not exist, and for a folder without manifests
 */
async function listManifestFiles(paths: readonly string[]): Promise<string[]> {
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
type FileText = { readonly text: string } | (Position & { readonly message: string });

interface TextOptions {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** Stops the reading when it is aborted. */
  readonly signal?: AbortSignal;
}

/**
 * Reads a file, or the standard input for `-`. A file that cannot be read gives a message, so that others go on.
 * Rejects when the signal is aborted.
 */
async function readManifestText(path: string, { stdin, signal }: TextOptions): Promise<FileText> {
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

/** An object of the Kubernetes API in a document: the whole, or an item of a list. */
export interface ManifestObject extends Position {
  readonly document: ManifestDocument;
  /** Where the object lies in the document; empty for the whole. */
  readonly path: Path;
  readonly apiVersion: string;
  readonly kind: string;
  readonly value: JsonObject;
  /** Where a field of the object begins, or its nearest parent that exists. */
  positionOf(path: Path): Position;
}

interface ManifestObjects {
  readonly objects: readonly ManifestObject[];
  readonly errors: readonly ManifestError[];
}

/** The objects of a document, lists taken apart; what is no object of the Kubernetes API is an error. */
export function objectsOf(document: ManifestDocument): ManifestObjects {
  const objects: ManifestObject[] = [];
  const errors: ManifestError[] = [];

  function add(value: unknown, path: Path, inherited: TypeMeta): void {
    const type = typeMetaOf(value, inherited);
    if ('message' in type) {
      errors.push({ file: document.file, ...document.positionOf([...path, ...type.path]), message: type.message });
      return;
    }
    const items = type.kind.endsWith('List') ? type.value.items : undefined;
    if (Array.isArray(items)) {
      const itemType = type.kind === 'List' ? {} : { apiVersion: type.apiVersion, kind: type.kind.slice(0, -4) };
      items.forEach((item, index) => add(item, [...path, 'items', index], itemType));
    } else objects.push(createObject(document, path, type));
  }

  add(document.value, [], {});
  return { objects, errors };
}

/** What the items of a `PodList` are, which the API server does not repeat in each. */
interface TypeMeta {
  readonly apiVersion?: string;
  readonly kind?: string;
}

/** An object with its type, or what is wrong with it and where. */
type Typed =
  | { readonly apiVersion: string; readonly kind: string; readonly value: JsonObject }
  | { readonly path: Path; readonly message: string };

function typeMetaOf(value: unknown, inherited: TypeMeta): Typed {
  if (!isObject(value)) return { path: [], message: 'expected an object with apiVersion and kind' };
  const { apiVersion, kind } = value.apiVersion == null && value.kind == null ? inherited : value;
  if (kind == null || kind === '') return { path: [], message: "Object 'Kind' is missing" };
  if (apiVersion == null || apiVersion === '') return { path: [], message: "Object 'apiVersion' is missing" };
  if (typeof kind !== 'string') return { path: ['kind'], message: 'kind must be a string' };
  if (typeof apiVersion !== 'string') return { path: ['apiVersion'], message: 'apiVersion must be a string' };
  return { apiVersion, kind, value: value.kind == null ? { ...value, apiVersion, kind } : value };
}

function createObject(
  document: ManifestDocument,
  path: Path,
  typed: Pick<ManifestObject, 'apiVersion' | 'kind' | 'value'>,
): ManifestObject {
  return {
    ...typed,
    document,
    path,
    ...document.positionOf(path),
    positionOf: (below) => document.positionOf([...path, ...below]),
  };
}

// * Manifests: YAML or JSON as kubectl reads it, with the place of every field.
//
// Only here and in the folder beside it the YAML library is known. What is read is unknown data: nothing here knows a kind.

export type { DuplicateKeyPosition, ManifestDocument, ManifestError } from './manifests/documents.ts';
export type { Path } from './manifests/node.ts';

/** Everything that a text holds; a document that cannot be read is among the errors and does not hide the others. */
interface Documents {
  readonly documents: readonly ManifestDocument[];
  readonly errors: readonly ManifestError[];
}

/** Reads a stream of YAML documents or JSON values; `file` is for messages. Empty documents are left out. */
export function readDocuments(text: string, file: string): Documents {
  const steps = [...readSteps(text, file)];
  return {
    documents: steps.flatMap(({ document }) => document ?? []),
    errors: steps.flatMap(({ error }) => error ?? []),
  };
}

/** The objects of several files, in order. */
export interface Manifests extends Documents, ManifestObjects {}

interface ReadOptions extends TextOptions {
  /** Called at each percent of each file. */
  readonly onProgress?: (progress: ReadProgress) => void;
}

/** The file that is read now, the number of the file among all, and how much of it has been read. */
interface ReadProgress {
  readonly file: string;
  readonly number: number;
  readonly files: number;
  readonly percent: number;
}

/**
 * Reads all objects from files, folders and, for `-`, the standard input.
 * @throws {UserError} for a path that does not exist, and for a folder without manifests
 */
export async function readManifests(paths: readonly string[], options: ReadOptions): Promise<Manifests> {
  const found: Found = { documents: [], objects: [], errors: [] };
  const files = await listManifestFiles(paths);
  for (const [index, path] of files.entries()) {
    const file = path === STDIN.path ? STDIN.name : path;
    const onPercent = async (percent: number): Promise<void> => {
      options.onProgress?.({ file, number: index + 1, files: files.length, percent });
      // Reading is work without pause: let signals in.
      await setImmediate(undefined, options.signal ? { signal: options.signal } : {});
    };
    await onPercent(0);
    const content = await readManifestText(path, options);
    if ('message' in content) found.errors.push({ file, ...content });
    else await readInto(found, readSteps(content.text, file), onPercent);
  }
  return found;
}

/** What has been found so far. */
interface Found {
  readonly documents: ManifestDocument[];
  readonly objects: ManifestObject[];
  readonly errors: ManifestError[];
}

async function readInto(
  found: Found,
  steps: Iterable<Step>,
  onPercent: (percent: number) => Promise<void>,
): Promise<void> {
  let last = 0;
  for (const { document, error, share } of steps) {
    if (error) found.errors.push(error);
    if (document) {
      const { objects, errors } = objectsOf(document);
      found.documents.push(document);
      for (const object of objects) found.objects.push(object);
      for (const one of errors) found.errors.push(one);
    }
    const percent = Math.floor(share * 100);
    if (percent > last) await onPercent((last = percent));
  }
}

/** Texts that kubectl would not read as texts if they were not quoted, and some others. */
const AMBIGUOUS = {
  tag: '!ambiguous',
  default: true,
  test: /^(?:[-+.~\d].*|<<|null|y|yes|n|no|true|false|on|off)$/is,
  resolve: (text: string) => text,
} as const;

/** Texts of several lines stand as they are: of folded ones with indented lines kubectl reads other texts. */
const OPTIONS = { compat: [AMBIGUOUS], aliasDuplicateObjects: false, blockQuote: 'literal' as const };

/** Writes values as YAML documents, one after the other, such that kubectl reads the same values. */
export function printYaml(values: readonly unknown[]): string {
  return values.map((value) => stringify(value, OPTIONS)).join('---\n');
}
