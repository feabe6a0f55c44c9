import type { Found } from '../../kube/types.ts';

/** Categories that SELinux knows: `c0` to `c1023`. */
export const CATEGORIES = 1024;

/** A level of SELinux with categories, for example `s0:c26,c5`. */
export interface McsLabel {
  /** What stands before the categories, its colon included. */
  readonly prefix: string;
  /** From the highest down, each once. */
  readonly categories: readonly number[];
}

/**
 * Reads a label, its categories in any order.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/security/mcs/label.go
 */
export function parseMcsLabel(text: string): Found<McsLabel> {
  const colon = text.lastIndexOf(':');
  const list = text.slice(colon + 1);
  const categories: number[] = [];
  for (const category of list.split(',')) {
    if (!/^c\d+$/.test(category)) return { error: `categories must start with 'c': ${list}` };
    categories.push(Number(category.slice(1)));
  }
  if (new Set(categories).size < categories.length) {
    return { error: `labels may not contain duplicate categories: ${text}` };
  }
  return { value: { prefix: text.slice(0, colon + 1), categories: categories.sort((a, b) => b - a) } };
}

export function printMcsLabel({ prefix, categories }: McsLabel): string {
  return prefix + categories.map((category) => `c${category}`).join(',');
}

/**
 * The place of a set of categories among all sets of its size, in the order of their highest one, then of the next:
 * the combinatorial number system. Exact for categories that SELinux knows and up to 5 of them.
 * @see https://en.wikipedia.org/wiki/Combinatorial_number_system
 */
export function rankOf(categories: readonly number[]): number {
  return categories.reduce((rank, category, index) => rank + binomial(category, categories.length - index), 0);
}

/** The set of that many categories at a place, which is not negative. Beyond the last set the categories are none that SELinux knows. */
export function categoriesAt(rank: number, length: number): readonly number[] {
  const categories: number[] = [];
  let rest = rank;
  for (let size = length; size > 0; size--) {
    const category = highestWithin(rest, size);
    categories.push(category);
    rest -= binomial(category, size);
  }
  return categories;
}

/** The highest category of which the sets below it are no more than the rest. */
function highestWithin(rest: number, size: number): number {
  let low = 0;
  let high = CATEGORIES;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (binomial(middle, size) <= rest) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** How many sets of `k` there are among `n`. All steps stay below 2^53 for `n` up to 1024 and `k` up to 5. */
export function binomial(n: number, k: number): number {
  if (n < k) return 0;
  let sets = 1;
  for (let i = 0; i < k; i++) sets = (sets * (n - i)) / (i + 1);
  return sets;
}
