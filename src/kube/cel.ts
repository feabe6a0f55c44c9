/** Builds parts of Common Expression Language (CEL) expressions. */

/** Returns a CEL string literal. */
export function celString(text: string): string {
  return JSON.stringify(text);
}

/** Returns a CEL list literal of strings. */
export function celList(items: Iterable<string>): string {
  return `[${[...items].map(celString).join(', ')}]`;
}
