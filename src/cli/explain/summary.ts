import { EXIT } from '../command.ts';
import type { ExplainedObject, Explanation } from './types.ts';

type Outcome = 'admitted' | 'refused' | 'ignored';

export function outcomeOf({ decision, chosen }: ExplainedObject): Outcome {
  if (!decision.allowed) return 'refused';
  return chosen === undefined ? 'ignored' : 'admitted';
}

/** 1 if something is refused where SCCs count. */
export function exitCodeOf({ objects }: Explanation): number {
  const isRefused = objects.some((object) => outcomeOf(object) === 'refused' && object.mode.mode !== 'off');
  return isRefused ? EXIT.violations : EXIT.passed;
}

/** `2 admitted, 1 refused` */
export function printSummary({ objects }: Explanation): string {
  const count = (outcome: Outcome): number => objects.filter((object) => outcomeOf(object) === outcome).length;
  const ignored = count('ignored');
  return `${count('admitted')} admitted, ${count('refused')} refused${ignored === 0 ? '' : `, ${ignored} ignored`}`;
}
