import { compareBytes } from '../../kube/text.ts';

const SHOWN = 10;

/** The first ten names in byte order, and how many more there are. */
export function printSome(names: readonly string[]): string {
  const sorted = [...names].sort(compareBytes);
  const rest = sorted.length - SHOWN;
  return sorted.slice(0, SHOWN).join(', ') + (rest > 0 ? ` and ${rest} more` : '');
}
