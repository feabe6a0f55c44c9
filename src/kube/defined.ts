/**
 * Returns the properties that are not `undefined`. Use it for optional properties that must be absent rather than
 * `undefined`.
 *
 * @example
 * const metadata = { name, ...defined({ namespace, uid }) };
 */
export function defined<T extends object>(properties: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const result: { [K in keyof T]?: T[K] } = {};
  for (const key in properties) {
    if (properties[key] !== undefined) result[key] = properties[key];
  }
  return result as { [K in keyof T]?: Exclude<T[K], undefined> };
}
