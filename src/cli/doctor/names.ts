const SHOWN = 3;

/** Names between commas, each once; of many only the first. */
export function printNames(names: readonly string[], shown = SHOWN): string {
  const distinct = [...new Set(names)];
  if (distinct.length <= shown + 1) return distinct.join(', ');
  return `${distinct.slice(0, shown).join(', ')} and ${distinct.length - shown} more`;
}
