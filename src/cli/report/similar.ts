const MAX_LENGTH = 64;

/** The candidate that was probably meant: the same in other letters, or with up to two slips. */
export function similarTo(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const lower = name.toLowerCase();
  const limit = Math.min(2, Math.floor(name.length / 3));
  const distances = candidates.map((candidate) => ({ candidate, distance: slips(lower, candidate.toLowerCase()) }));
  const [nearest] = distances.filter(({ distance }) => distance <= limit).sort((a, b) => a.distance - b.distance);
  return nearest?.candidate;
}

/**
 * How many letters have to be put in, left out or replaced.
 * @see https://en.wikipedia.org/wiki/Levenshtein_distance
 */
function slips(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
