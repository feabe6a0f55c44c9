/**
 * True if a resource version comes before another of the same resource: they are whole numbers of any length.
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
 */
export function isBefore(version: string, other: string): boolean {
  return version.length === other.length ? version < other : version.length < other.length;
}
