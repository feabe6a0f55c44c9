/** Parts of expressions of the Common Expression Language. */

/** A literal string. */
export function celString(text: string): string {
  return JSON.stringify(text);
}

/** A literal list of strings. */
export function celList(items: Iterable<string>): string {
  return `[${[...items].map(celString).join(', ')}]`;
}
