/** Parts of expressions of the Common Expression Language. */

/** A literal string. */
export function celString(text: string): string {
  return JSON.stringify(text);
}

/** A literal list of strings. */
export function celList(items: Iterable<string>): string {
  return `[${[...items].map(celString).join(', ')}]`;
}

/** An expression that reads the value of another one by a name. */
export function celWith(name: string, value: string, expression: string): string {
  return `[${value}].map(${name}, ${expression})[0]`;
}
