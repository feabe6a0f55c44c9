/**
 * A value read from text, with the places where it and its parts stand there.
 *
 * The files of this folder serve `../manifests.ts`; others import that one.
 */
export interface TextNode {
  readonly value: unknown;
  /** Where the value begins, counted from the start of the text. */
  readonly offset: number;
  readonly members?: ReadonlyMap<string, Member>;
  readonly items?: readonly TextNode[];
}

export interface Member {
  readonly keyOffset: number;
  readonly node: TextNode;
}

/** Where a field stands: members of objects, by name, and items of lists, by index. */
export type Path = readonly (string | number)[];

/** A key that an object has twice; the last one counts. */
export interface DuplicateKey {
  readonly path: Path;
  readonly offset: number;
}

/** Why a text could not be read on. */
export interface Failure {
  readonly offset: number;
  readonly message: string;
}

/** One document of a text; after a failure its node is worth nothing. */
export interface Parsed {
  readonly node: TextNode;
  readonly duplicateKeys: readonly DuplicateKey[];
  readonly failure: Failure | undefined;
}

/** Deeper nesting is refused, so that all who take the value may recurse. */
export const MAX_DEPTH = 500;
export const TOO_DEEP = `nested more than ${MAX_DEPTH} levels deep`;

/** Where the field begins (a member at its key), or its nearest parent that exists. */
export function offsetOf(root: TextNode, path: Path): number {
  let node = root;
  let offset = root.offset;
  for (const step of path) {
    const next = typeof step === 'number' ? itemOf(node, step) : node.members?.get(step);
    if (next === undefined) return offset;
    offset = next.keyOffset;
    node = next.node;
  }
  return offset;
}

function itemOf(node: TextNode, index: number): Member | undefined {
  const item = node.items?.[index];
  return item && { keyOffset: item.offset, node: item };
}

/** The node of an object. Its value has each key as a property of its own, even `__proto__`. */
export function objectNode(offset: number, members: ReadonlyMap<string, Member>): TextNode {
  const value: Record<string, unknown> = {};
  for (const [key, { node }] of members) {
    if (key !== '__proto__') value[key] = node.value;
    else Object.defineProperty(value, key, { value: node.value, enumerable: true, writable: true, configurable: true });
  }
  return { value, offset, members };
}

export function listNode(offset: number, items: readonly TextNode[]): TextNode {
  return { value: items.map((item) => item.value), offset, items };
}
