import { stringify } from 'yaml';

/** Texts that kubectl would not read as texts if they were not quoted, and some others. */
const AMBIGUOUS = {
  tag: '!ambiguous',
  default: true,
  test: /^(?:[-+.~\d].*|<<|null|y|yes|n|no|true|false|on|off)$/is,
  resolve: (text: string) => text,
} as const;

/** Texts of several lines stand as they are: of folded ones with indented lines kubectl reads other texts. */
const OPTIONS = { compat: [AMBIGUOUS], aliasDuplicateObjects: false, blockQuote: 'literal' as const };

/** Writes values as YAML documents, one after the other, such that kubectl reads the same values. */
export function printYaml(values: readonly unknown[]): string {
  return values.map((value) => stringify(value, OPTIONS)).join('---\n');
}
