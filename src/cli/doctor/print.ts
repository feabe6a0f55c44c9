import type { Status } from '../break-glass/print.ts';
import { printColumns } from '../report/columns.ts';
import type { Style } from '../report/style.ts';
import { printable } from '../report/text.ts';
import { printNames } from './names.ts';
import type { Outage } from './outage.ts';
import type { Finding, Severity } from './types.ts';

/** What the doctor has to say. */
export interface Diagnosis {
  readonly server: string;
  readonly findings: readonly Finding[];
  /** While no replica answers and the glass is whole. */
  readonly outage: readonly Outage[];
  readonly breakGlass: Status['breakGlass'];
}

const EMPHASIS: Readonly<Partial<Record<Severity, Parameters<Style>[0]>>> = {
  problem: 'red',
  warning: 'yellow',
  unknown: 'dim',
  info: 'dim',
};

/** For people: each finding with why it matters and what mends it, what an outage would do, and the count. */
export function printDiagnosis({ findings, outage, breakGlass }: Diagnosis, style: Style): string {
  const widths = { severity: longest(findings, 'severity'), check: longest(findings, 'check') };
  const lines = findings.map((finding) => printFinding(finding, widths, style));
  return `${lines.join('')}${printOutage(outage, breakGlass, style)}\n${style('bold', printCount(findings))}\n`;
}

function printFinding(
  { severity, check, where, what, why, fix }: Finding,
  widths: { readonly severity: number; readonly check: number },
  style: Style,
): string {
  const emphasis = EMPHASIS[severity];
  const word = severity.padEnd(widths.severity);
  const head = `${emphasis ? style(emphasis, word) : word}  ${check.padEnd(widths.check)}  `;
  const indent = ' '.repeat(widths.severity + widths.check + 4);
  const more = [...(why === undefined ? [] : [`Why: ${why}`]), ...(fix === undefined ? [] : [`Fix: ${fix}`])];
  return [
    `${head}${printable(`${where}: ${what}`)}`,
    ...more.map((line) => `${indent}${style('dim', printable(line))}`),
  ]
    .map((line) => `${line}\n`)
    .join('');
}

function longest(findings: readonly Finding[], field: 'severity' | 'check'): number {
  return findings.reduce((length, finding) => Math.max(length, finding[field].length), 0);
}

function printOutage(outage: readonly Outage[], breakGlass: Status['breakGlass'], style: Style): string {
  if (outage.length === 0) return '';
  const rows = outage.map(({ tier, pods, namespaceLabels, newNamespaces, namespaces }) => [
    tier,
    pods,
    namespaceLabels,
    newNamespaces,
    `${namespaces.length}`,
    printNames(namespaces, SHOWN),
  ]);
  const when = breakGlass === 'off' ? '' : ', after "portcullis break-glass off"';
  const title = style('bold', `While no replica answers${when}:`);
  return `\n${title}\n${printColumns(['TIER', 'PODS', 'NAMESPACE LABELS', 'NEW NAMESPACES', 'COUNT', 'NAMESPACES'], rows)}`;
}

/** Of namespaces more are worth showing: people look for theirs. */
const SHOWN = 8;

/** `2 problems, 1 warning; 3 things could not be looked at` */
export function printCount(findings: readonly Finding[]): string {
  const count = (severity: Severity): number => findings.filter((one) => one.severity === severity).length;
  const plural = (number: number, word: string): string => `${number} ${word}${number === 1 ? '' : 's'}`;
  const [problems, warnings, unknown] = [count('problem'), count('warning'), count('unknown')];
  const blind = unknown === 0 ? '' : `; ${plural(unknown, 'thing')} could not be looked at`;
  return `${plural(problems, 'problem')}, ${plural(warnings, 'warning')}${blind}`;
}
