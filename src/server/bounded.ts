import { shortened } from '../kube/quote.ts';

/**
 * What one text of an answer, and all its audit annotations together, may have in characters. A pod may be made to cause
 * many times more, which would end in logs.
 */
export const MAX_TEXT = 256 * 1024;

/** The text, or its beginning if it is longer than anybody reads. */
export function bounded(text: string): string {
  return shortened(text, MAX_TEXT);
}

/** The annotations; once they have become too long together, the rest of them is cut. */
export function boundedValues(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const values = Object.values(annotations);
  if (values.reduce((length, value) => length + value.length, 0) <= MAX_TEXT) return annotations;
  let left = MAX_TEXT;
  const cut: (readonly [string, string])[] = [];
  for (const [key, value] of Object.entries(annotations)) {
    cut.push([key, shortened(value, Math.max(left, 0))]);
    left -= value.length;
  }
  return Object.fromEntries(cut);
}
