/**
 * Compares by the bytes of the UTF-8 form, as Go sorts strings. JavaScript's own order compares UTF-16 units and
 * differs where a character lies outside the Basic Multilingual Plane.
 */
export function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index);
    const y = b.charCodeAt(index);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** Distinct texts in byte order. */
export function sortedSet(texts: Iterable<string>): string[] {
  return [...new Set(texts)].sort(compareBytes);
}

/** Surrogates stand for code points above every other unit. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
