const SHOWN = 3;

/** Names between commas, each once; of many only the first. */
export function printNames(names: readonly string[]): string {
  const distinct = [...new Set(names)];
  if (distinct.length <= SHOWN + 1) return distinct.join(', ');
  return `${distinct.slice(0, SHOWN).join(', ')} and ${distinct.length - SHOWN} more`;
}
