import type { Style } from './style.ts';
import { printable, printObject, printPlace, printVerdict, printWhy } from './text.ts';
import type { Finding, Judgement, Report } from './types.ts';
import { isFailure, printSummary } from './verdict.ts';

/** For people: of each object what is wrong, where, why, and how to fix it; at the end the summary. */
export function printTable(report: Report, style: Style): string {
  const blocks = report.judgements.flatMap((judgement) =>
    byVerdict(judgement.findings).map((findings) => printBlock(judgement, findings, report, style)),
  );
  return [...blocks, `${style('bold', printSummary(report))}\n`].join('\n');
}

function byVerdict(findings: readonly Finding[]): (readonly Finding[])[] {
  return [...Map.groupBy(findings, printVerdict).values()];
}

function printBlock(judgement: Judgement, findings: readonly Finding[], report: Report, style: Style): string {
  const [first] = findings;
  if (!first) return '';
  const emphasis = isFailure(first, report) ? 'red' : 'yellow';
  const title = `${printObject(judgement)} ${printVerdict(first)}`;
  const rows = findings.flatMap(rowsOf);
  const placeWidth = longest(rows.map(({ place }) => place));
  const checkWidth = longest(rows.map(({ check }) => check));
  const lines = rows.map(({ place, check, text, tone }) => {
    const cells = [place.padEnd(placeWidth), style(emphasis, check.padEnd(checkWidth)), style(tone, text)];
    return `  ${cells.join('  ')}`.trimEnd();
  });
  return `${[style('bold', printable(title)), ...lines].join('\n')}\n`;
}

interface Row {
  readonly place: string;
  readonly check: string;
  readonly text: string;
  readonly tone: Parameters<Style>[0];
}

/** A line for the finding, one for its remedy, and as many more as there are places. */
function rowsOf(finding: Finding): Row[] {
  const places = [...new Set(finding.fields.map((field) => printable(printPlace(field))))];
  const texts = [printable(printWhy(finding)), `Fix: ${finding.remedy}`];
  return Array.from({ length: Math.max(places.length, texts.length) }, (_, index) => ({
    place: places[index] ?? '',
    check: index === 0 ? finding.check : '',
    text: texts[index] ?? '',
    tone: index === 0 ? 'bold' : 'dim',
  }));
}

function longest(texts: readonly string[]): number {
  return texts.reduce((longest, { length }) => Math.max(longest, length), 0);
}
