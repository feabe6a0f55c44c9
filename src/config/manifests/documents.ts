import { readJson } from './json.ts';
import { createLineIndex, type Position } from './line-index.ts';
import { offsetOf, type Parsed, type Path } from './node.ts';
import { readYaml } from './yaml.ts';

/** One document of a file. */
export interface ManifestDocument {
  readonly file: string;
  /** Counts the documents of the file from 0, unreadable ones too, empty ones not. */
  readonly index: number;
  /** Where its value begins, from 1. */
  readonly line: number;
  readonly value: unknown;
  /** Where a field begins (a member at its key), or its nearest parent that exists. */
  positionOf(path: Path): Position;
  readonly duplicateKeys: readonly DuplicateKeyPosition[];
}

/** A key that an object has again; the last one counts. */
export interface DuplicateKeyPosition extends Position {
  readonly path: Path;
}

/** What could not be read, and where. */
export interface ManifestError extends Position {
  readonly file: string;
  readonly message: string;
}

/** One document of a text, or why it cannot be read, and how much of the text has been read with it, from 0 to 1. */
export interface Step {
  readonly document?: ManifestDocument;
  readonly error?: ManifestError;
  readonly share: number;
}

/** Splits a text into its documents and reads each by itself. */
export function* readSteps(text: string, file: string): Generator<Step, void> {
  const body = text.startsWith('\ufeff') ? text.slice(1) : text;
  const positionAt = createLineIndex(body);
  let index = 0;
  for (const { start, end } of chunksOf(body)) {
    const share = end / body.length;
    for (const parsed of parse(body.slice(start, end))) {
      const position = (offset: number): Position => positionAt(start + offset);
      const { node, failure } = parsed;
      if (failure) yield { error: { file, ...position(failure.offset), message: shorten(failure.message) }, share };
      else if (node.value === null) continue;
      else yield { document: createDocument(file, index, parsed, position), share };
      index++;
    }
  }
}

/** Messages may quote the text, which may be of any length. */
function shorten(message: string): string {
  const [line = ''] = message.split('\n');
  return line.length > 200 ? `${line.slice(0, 200)}…` : line;
}

function createDocument(
  file: string,
  index: number,
  { node, duplicateKeys }: Parsed,
  position: (offset: number) => Position,
): ManifestDocument {
  return {
    file,
    index,
    line: position(node.offset).line,
    value: node.value,
    positionOf: (path) => position(offsetOf(node, path)),
    duplicateKeys: duplicateKeys.map(({ path, offset }) => ({ path, ...position(offset) })),
  };
}

/** A line that ends a document; what follows `---` on the same line belongs to the next one. */
const SEPARATOR = /(?<=^|\n)---[ \t]*(?:#[^\n]*)?\r?(?:\n|$)|(?<=\n)(?=---[ \t])/g;

function* chunksOf(text: string): Generator<{ readonly start: number; readonly end: number }> {
  let start = 0;
  for (const marker of text.matchAll(SEPARATOR)) {
    yield { start, end: marker.index };
    start = marker.index + marker[0].length;
  }
  yield { start, end: text.length };
}

function parse(text: string): readonly Parsed[] {
  if (!/^\s*\{/.test(text)) return readYaml(text);
  const json = readJson(text);
  if (isReadable(json)) return json;
  // A YAML document may begin with a brace, too.
  const yaml = readYaml(text);
  return isReadable(yaml) ? yaml : json;
}

function isReadable(documents: readonly Parsed[]): boolean {
  return documents.every(({ failure }) => failure === undefined);
}
