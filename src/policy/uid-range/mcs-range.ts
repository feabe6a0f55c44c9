import type { Found } from '../../kube/types.ts';
import { binomial, CATEGORIES, categoriesAt, type McsLabel } from './mcs-label.ts';

/** All labels with that prefix and that many categories. */
export interface McsRange {
  readonly prefix: string;
  /** Categories in a label: 1 to 5. */
  readonly length: number;
  /** Categories to choose from: `c0` to the one below this. */
  readonly categories: number;
}

const FORMAT = /^([^/]*)\/(\d+)(?:,(\d+))?$/;

/**
 * Reads `<prefix>/<categories in a label>[,<categories to choose from>]`.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/mcs/label.go
 */
export function parseMcsRange(text: string): Found<McsRange> {
  const [, prefix, k, n = String(CATEGORIES)] = FORMAT.exec(text) ?? [];
  if (prefix === undefined) return { error: 'range not in the format "<prefix>/<numLabel>[,<maxCategory>]"' };
  const length = Number(k);
  const categories = Number(n);
  if (length > 5) return { error: 'range may not include more than 5 labels' };
  if (categories > CATEGORIES) return { error: `range may not include more than ${CATEGORIES} categories` };
  if (categories === 0) return { error: 'label max value must be a positive integer' };
  if (length === 0) return { error: 'label length must be a positive integer' };
  return { value: { prefix, length, categories } };
}

/** The text that `parseMcsRange` reads. */
export function printMcsRange({ prefix, length, categories }: McsRange): string {
  return `${prefix}/${length}${categories === CATEGORIES ? '' : `,${categories}`}`;
}

/** How many labels there are. */
export function labelCountOf({ length, categories }: McsRange): number {
  return binomial(categories, length);
}

export function isInMcsRange({ length, categories, ...range }: McsRange, label: McsLabel): boolean {
  return (
    label.prefix === withSeparator(range.prefix) &&
    label.categories.length === length &&
    label.categories.every((category) => category < categories)
  );
}

/** The label at a place among those of the range; beyond the last one it has categories that are none of the range. */
export function labelAt({ prefix, length }: McsRange, rank: number): McsLabel {
  return { prefix: withSeparator(prefix), categories: categoriesAt(rank, length) };
}

function withSeparator(prefix: string): string {
  return prefix === '' || /[:,]$/.test(prefix) ? prefix : `${prefix}:`;
}
