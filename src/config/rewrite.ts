/**
 * Changes values in YAML and JSON text. All text outside the changed fields stays the same, including comments, order,
 * quotes, white space and other documents.
 */
import { parseAllDocuments } from 'yaml';
import { deepEqual } from '../kube/equality.ts';
import { withValueAt } from '../kube/types.ts';
import { changeNode, type Splice } from './node-changes.ts';
import { AMBIGUOUS, type Layout, readLayout, Refusal } from './yaml-layout.ts';
import { type ManifestDocument, type Path, READ_OPTIONS, readDocuments } from './yaml.ts';

/** A new value of a field. It shares unchanged parts with the old value. */
export interface FieldValue {
  readonly document: ManifestDocument;
  readonly path: Path;
  readonly value: unknown;
}

/** The changes that a text allows, and why the other changes are not possible, by index. */
interface Rewritten {
  readonly text: string;
  readonly refusals: ReadonlyMap<number, string>;
}

/** Writes new field values into a text. No field in the list may contain another. */
export function rewrite(text: string, values: readonly FieldValue[]): Rewritten {
  const refusals = new Map<number, string>();
  const parts = Map.groupBy(values.entries(), ([, { document }]) => document.source.start);
  const splices = [...parts.values()].flatMap((entries) => rewritePart(text, entries, refusals));
  return { text: applySplices(text, splices), refusals };
}

type Entry = readonly [index: number, value: FieldValue];

/** Returns the splices for the changes in one part of the text, and records the refusals. */
function rewritePart(text: string, entries: readonly Entry[], refusals: Map<number, string>): readonly Splice[] {
  const { start = 0, end = 0 } = entries[0]?.[1].document.source ?? {};
  const part = text.slice(start, end);
  const lineAt = (offset: number): number => text.slice(0, start + offset).split('\n').length;
  // Read the layout of each document only once, because reading it visits the whole document.
  const layouts = parseAllDocuments(part, READ_OPTIONS).map((document) => readLayout(part, document, lineAt));
  const results = entries.map((entry) => ({ entry, splices: findSplices(layouts, entry[1]) }));
  const found = results.flatMap(({ entry, splices }) => (typeof splices === 'string' ? [] : [{ entry, splices }]));
  const isVerified = readsAs(part, found);
  const accepted = isVerified ? found : found.filter((change) => readsAs(part, [change]));
  const rewritten = new Set(accepted.map(({ entry }) => entry));
  for (const { entry, splices } of results) {
    if (rewritten.has(entry)) continue;
    refusals.set(entry[0], typeof splices === 'string' ? splices : AMBIGUOUS);
  }
  return accepted
    .flatMap(({ splices }) => splices)
    .map((splice) => ({ ...splice, start: splice.start + start, end: splice.end + start }));
}

function findSplices(
  layouts: readonly Layout[],
  { document: { value: before }, path, value }: FieldValue,
): readonly Splice[] | string {
  try {
    const [layout] = layouts;
    if (layout === undefined) return AMBIGUOUS;
    return changeNode(layout.contents, before, withValueAt(before, path, value), layout);
  } catch (error) {
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}

/** True if the changed text parses to exactly the documents with the new values. */
function readsAs(
  part: string,
  changes: readonly { readonly entry: Entry; readonly splices: readonly Splice[] }[],
): boolean {
  const [first] = changes;
  const expected = changes.reduce<unknown>(
    (document, { entry: [, { path, value }] }) => withValueAt(document, path, value),
    first?.entry[1].document.value,
  );
  const changed = applySplices(
    part,
    changes.flatMap(({ splices }) => splices),
  );
  const { documents, errors } = readDocuments(changed, '');
  if (errors.length > readDocuments(part, '').errors.length) return false;
  return changes.length === 0 || deepEqual(documents[0]?.value, expected);
}

/** Applies splices at the same offset in order, with insertions before replacements. */
function applySplices(text: string, splices: readonly Splice[]): string {
  let result = '';
  let position = 0;
  for (const { start, end, text: inserted } of splices.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
    result += text.slice(position, start) + inserted;
    position = end;
  }
  return result + text.slice(position);
}
