import type { Report } from './types.ts';
import { summarize } from './verdict.ts';

/** For programs: everything that is known. */
export function dataOf(report: Report) {
  const { judgements, unjudged, warnings, errors, failOn } = report;
  return { summary: summarize(report), failOn, objects: judgements, unjudged, warnings, errors };
}
