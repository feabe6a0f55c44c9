import { EXIT } from '../command.ts';
import type { ExplainedObject, Explanation } from './types.ts';

/** `off`: SCCs do not count in the namespace; `ignored`: nor for such a pod. */
export type Outcome = 'admitted' | 'refused' | 'ignored' | 'off';

export function outcomeOf({ refusal, decision, chosen, mode }: ExplainedObject): Outcome {
  if (refusal !== undefined) return 'refused';
  if (mode.mode === 'off') return 'off';
  if (!decision.allowed) return 'refused';
  return chosen === undefined ? 'ignored' : 'admitted';
}

export function exitCodeOf({ objects }: Explanation): number {
  return objects.some((object) => outcomeOf(object) === 'refused') ? EXIT.violations : EXIT.passed;
}

/** `2 admitted, 1 refused` */
export function printSummary({ objects }: Explanation): string {
  const count = (outcome: Outcome): number => objects.filter((object) => outcomeOf(object) === outcome).length;
  const ignored = count('ignored') + count('off');
  return `${count('admitted')} admitted, ${count('refused')} refused${ignored === 0 ? '' : `, ${ignored} ignored`}`;
}
