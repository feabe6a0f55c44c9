import { randomInt } from 'node:crypto';

/** Characters for generated names. Excludes vowels and characters that are easily confused. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789';
export const SUFFIX_LENGTH = 5;

/** Returns the random suffix of a generated name. */
export function randomSuffix(): string {
  return Array.from({ length: SUFFIX_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}
