/** Gives the same text for equal texts. */
export type InternText = (text: string) => string;

/** Makes a pool of texts that keeps those used lately, at most twice as many as given. */
export function createInternText(limit: number): InternText {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  return (text) => {
    const known = young.get(text);
    if (known !== undefined) return known;
    const kept = old.get(text) ?? text;
    if (young.size >= limit) {
      old = young;
      young = new Map();
    }
    young.set(kept, kept);
    return kept;
  };
}
