/** True for the characters that a part of a pattern matches. */
export type Test = (codePoint: number) => boolean;

/** A place that a pattern asks for without taking a character. */
export type Place = 'text start' | 'text end' | 'line start' | 'line end' | 'word edge' | 'no word edge';

/** A part of a pattern. */
export type Node =
  | { readonly kind: 'character'; readonly test: Test }
  | { readonly kind: 'place'; readonly place: Place }
  | { readonly kind: 'sequence'; readonly items: readonly Node[] }
  | { readonly kind: 'choice'; readonly items: readonly Node[] }
  | { readonly kind: 'repeat'; readonly item: Node; readonly min: number; readonly max: number };

/** What is wrong with a pattern, and the part of it that is. */
export function patternError(what: string, part: string): SyntaxError {
  return new SyntaxError(`error parsing regexp: ${what}: \`${part}\``);
}
