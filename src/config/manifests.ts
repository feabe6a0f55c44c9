/**
 * Manifests: YAML or JSON as kubectl reads it, with the place of every field.
 *
 * The only file that knows the YAML library. What it reads is unknown data: nothing here knows a kind.
 */
import { setImmediate } from 'node:timers/promises';
import { isAlias, isMap, isScalar, isSeq, parseAllDocuments, stringify } from 'yaml';
import type { Alias, Document, Node, Pair, Scalar } from 'yaml';
import { createAliasBudget } from './manifests/alias-budget.ts';
import { readSteps, type ManifestDocument, type ManifestError, type Step } from './manifests/documents.ts';
import { listManifestFiles, readManifestText, STDIN } from './manifests/files.ts';
import { listNode, MAX_DEPTH, objectNode, TOO_DEEP } from './manifests/node.ts';
import type { DuplicateKey, Failure, Member, Parsed, TextNode } from './manifests/node.ts';
import { objectsOf, type ManifestObject, type ManifestObjects } from './manifests/objects.ts';
import { printKey, resolvePlain, resolveTagged, type ScalarValue } from './manifests/scalar.ts';

export type { DuplicateKeyPosition, ManifestDocument, ManifestError } from './manifests/documents.ts';
export type { Path } from './manifests/node.ts';
export { objectsOf, type ManifestObject, type ManifestObjects } from './manifests/objects.ts';

/** Everything that a text holds; a document that cannot be read is among the errors and does not hide the others. */
export interface Documents {
  readonly documents: readonly ManifestDocument[];
  readonly errors: readonly ManifestError[];
}

/** Reads a stream of YAML documents or JSON values; `file` is for messages. Empty documents are left out. */
export function readDocuments(text: string, file: string): Documents {
  const steps = [...readSteps(text, file, readYaml)];
  return {
    documents: steps.flatMap(({ document }) => document ?? []),
    errors: steps.flatMap(({ error }) => error ?? []),
  };
}

/** The objects of several files, in order. */
export interface Manifests extends Documents, ManifestObjects {}

export interface ReadOptions {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** Called at each percent of each file. */
  readonly onProgress?: (progress: ReadProgress) => void;
  /** Stops the reading when it is aborted. */
  readonly signal?: AbortSignal;
}

/** The file that is read now, the number of the file among all, and how much of it has been read. */
export interface ReadProgress {
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
    const content = await readManifestText(path, options.stdin);
    if ('message' in content) found.errors.push({ file, ...content });
    else await readInto(found, readSteps(content.text, file, readYaml), onPercent);
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

/** Writes values as YAML documents, one after the other, such that kubectl reads the same values. */
export function printYaml(values: readonly unknown[]): string {
  return values.map((value) => stringify(value, { compat: [AMBIGUOUS], aliasDuplicateObjects: false })).join('---\n');
}

/** All but what YAML allows in a text. */
const CONTROL = /[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\u{10000}-\u{10ffff}]/u;

/** Scalars are all strings to the library ("failsafe"): what they mean to kubectl is up to `scalar.ts`. */
const OPTIONS = { schema: 'failsafe', resolveKnownTags: false, uniqueKeys: false, prettyErrors: false } as const;

/** The library recurses; there is no other way to learn that it went too deep. */
const STACK_OVERFLOW = /call stack/;

function readYaml(text: string): readonly Parsed[] {
  const control = text.search(CONTROL);
  if (control >= 0) return [failed(control, 'control characters are not allowed')];
  try {
    const documents: Document.Parsed[] = parseAllDocuments(text, OPTIONS);
    const wentTooDeep = documents.some(({ errors }) => errors.some(({ message }) => STACK_OVERFLOW.test(message)));
    return wentTooDeep ? [tooDeep(text)] : documents.map((document) => readYamlDocument(document));
  } catch (error) {
    if (error instanceof RangeError && STACK_OVERFLOW.test(error.message)) return [tooDeep(text)];
    throw error;
  }
}

function readYamlDocument(document: Document.Parsed): Parsed {
  const [error] = document.errors;
  if (error) return failed(error.pos[0], error.message);
  const reader = createReader();
  const node = reader.read(document.contents);
  return { node, duplicateKeys: reader.duplicateKeys, failure: reader.failure() };
}

function tooDeep(text: string): Parsed {
  return failed(Math.max(text.search(/\S/), 0), TOO_DEEP);
}

function failed(offset: number, message: string): Parsed {
  return { node: { value: null, offset }, duplicateKeys: [], failure: { offset, message } };
}

/** Turns nodes of the library into values with places; aliases are written out, within a budget. */
function createReader() {
  const anchors = new Map<string, Node>();
  const targets = new Map<Alias, Node | undefined>();
  const open = new Set<Node>();
  const budget = createAliasBudget();
  const duplicateKeys: DuplicateKey[] = [];
  const path: (string | number)[] = [];
  let failure: Failure | undefined;

  const fail = (offset: number, message: string): TextNode => {
    failure ??= { offset, message };
    return { value: null, offset };
  };

  function read(node: Node | null): TextNode {
    const offset = startOf(node);
    if (failure || node === null) return { value: null, offset };
    if (path.length > MAX_DEPTH) return fail(offset, TOO_DEEP);
    if (!budget.spend()) return fail(offset, 'document contains excessive aliasing');
    if (isAlias(node)) return expand(node, offset);
    if (node.anchor && !budget.expanding()) anchors.set(node.anchor, node);
    open.add(node);
    const result = readContent(node, offset);
    open.delete(node);
    return result;
  }

  function readContent(node: Node, offset: number): TextNode {
    if (isScalar(node)) return readScalar(node, offset);
    if (isSeq<Node | null>(node))
      return listNode(
        offset,
        node.items.map((item, index) => below(index, item)),
      );
    return objectNode(offset, isMap<Node, Node | null>(node) ? membersOf(node.items) : new Map<string, Member>());
  }

  function below(step: string | number, node: Node | null): TextNode {
    path.push(step);
    const result = read(node);
    path.pop();
    return result;
  }

  /** What the alias stands for; of several anchors with its name the last one before it. */
  function expand(alias: Alias, offset: number): TextNode {
    if (!targets.has(alias)) targets.set(alias, anchors.get(alias.source));
    const target = targets.get(alias);
    if (!target) return fail(offset, `unknown anchor '${alias.source}' referenced`);
    if (open.has(target)) return fail(offset, `anchor '${alias.source}' value contains itself`);
    return budget.within(() => read(target));
  }

  function readScalar(node: Scalar, offset: number): TextNode {
    const value = valueOf(node);
    if (value === undefined)
      return fail(offset, `cannot decode !!str \`${String(node.source)}\` as a ${shortTag(node.tag)}`);
    if (typeof value === 'number' && !Number.isFinite(value)) return fail(offset, `unsupported value: ${value}`);
    return { value, offset };
  }

  function membersOf(pairs: readonly Pair<Node, Node | null>[]): Map<string, Member> {
    const members = new Map<string, Member>();
    for (const { key, value } of pairs) {
      const keyOffset = startOf(key);
      if (isMergeKey(key)) merge(members, value);
      else {
        const name = readKey(key);
        if (name === undefined) break;
        if (members.has(name) && !budget.expanding()) duplicateKeys.push({ path: [...path, name], offset: keyOffset });
        members.set(name, { keyOffset, node: below(name, value) });
      }
    }
    return members;
  }

  function readKey(key: Node): string | undefined {
    const offset = startOf(key);
    const value = isScalar(key) ? valueOf(key) : read(key).value;
    const name = isScalarValue(value) ? printKey(value) : undefined;
    if (name === undefined) fail(offset, 'unsupported map key');
    return name;
  }

  /** Adds the members that `<<` brings. As with kubectl they win over earlier keys; of several maps the first wins. */
  function merge(members: Map<string, Member>, value: Node | null): void {
    const source = below('<<', value);
    for (const node of source.items?.toReversed() ?? [source]) {
      if (!node.members) fail(node.offset, 'map merge requires map or sequence of maps as the value');
      for (const [name, member] of node.members ?? []) members.set(name, member);
    }
  }

  return { read, duplicateKeys, failure: () => failure };
}

function startOf(node: Node | null): number {
  return node?.range?.[0] ?? 0;
}

/** What a scalar says, or `undefined` if its text does not fit its tag. */
function valueOf(node: Scalar): ScalarValue | undefined {
  const text = String(node.source);
  if (node.tag !== undefined) return resolveTagged(node.tag, text);
  return node.type === 'PLAIN' ? resolvePlain(text) : text;
}

function isMergeKey(key: Node): boolean {
  return isScalar(key) && key.source === '<<' && key.type === 'PLAIN' && (key.tag ?? MERGE_TAG) === MERGE_TAG;
}

const MERGE_TAG = 'tag:yaml.org,2002:merge';

function isScalarValue(value: unknown): value is ScalarValue {
  return value === null || typeof value !== 'object';
}

function shortTag(tag: string | undefined): string {
  return (tag ?? '').replace(/^tag:yaml\.org,2002:/, '!!');
}
