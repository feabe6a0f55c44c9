import { printYaml } from '../../config/manifests.ts';
import type { Report } from './types.ts';
import { summarize } from './verdict.ts';

/** For programs: everything that is known. */
export function printJson(report: Report): string {
  return `${JSON.stringify(dataOf(report), undefined, 2)}\n`;
}

/** The same as JSON, in YAML. */
export function printYamlReport(report: Report): string {
  return printYaml([dataOf(report)]);
}

function dataOf(report: Report) {
  const { judgements, unjudged, warnings, errors, failOn } = report;
  return { summary: summarize(report), failOn, objects: judgements, unjudged, warnings, errors };
}
