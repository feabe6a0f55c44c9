import { EXIT } from '../command.ts';
import { MODES_BY_STRENGTH } from './findings.ts';
import type { Finding, Judgement, Report } from './types.ts';

/** True if the finding counts in the mode that fails the check, or in a stronger one. */
export function isFailure({ mode }: Finding, { failOn }: Report): boolean {
  return MODES_BY_STRENGTH.indexOf(mode) <= MODES_BY_STRENGTH.indexOf(failOn);
}

/** How many objects passed, how many did not, and what could not be judged. */
export interface Summary {
  readonly passed: number;
  /** Objects with a finding that fails the check. */
  readonly failed: number;
  /** Objects with findings in weaker modes only. */
  readonly warned: number;
  readonly unjudged: number;
  readonly others: number;
  readonly errors: number;
}

export function summarize(report: Report): Summary {
  const { judgements, unjudged, others, errors } = report;
  const fails = ({ findings }: Judgement): boolean => findings.some((finding) => isFailure(finding, report));
  const failed = judgements.filter(fails).length;
  const passed = judgements.filter(({ findings }) => findings.length === 0).length;
  return {
    passed,
    failed,
    warned: judgements.length - passed - failed,
    unjudged: unjudged.length,
    others,
    errors: errors.length,
  };
}

/** 2 if something could not be read, or not be judged though it should, else 1 if something fails, else 0. */
export function exitCodeOf(report: Report): number {
  const { failed, unjudged, errors } = summarize(report);
  if (errors + unjudged > 0) return EXIT.usage;
  return failed > 0 ? EXIT.violations : EXIT.passed;
}

/** `2 passed, 1 failed, 3 not workloads` */
export function printSummary(report: Report): string {
  const { passed, failed, warned, unjudged, others, errors } = summarize(report);
  const parts = [
    `${passed} passed`,
    `${failed} failed`,
    ...(warned > 0 ? [`${warned} with warnings`] : []),
    ...(unjudged > 0 ? [`${unjudged} not judged`] : []),
    ...(others > 0 ? [`${others} not ${others === 1 ? 'a workload' : 'workloads'}`] : []),
    ...(errors > 0 ? [`${errors} unreadable`] : []),
  ];
  return parts.join(', ');
}
