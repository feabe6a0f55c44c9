import type { AuditFinding } from '../../policy/rollout/user-namespace-audit.ts';
import { assumptionBlocks } from '../inventory/print-assumptions.ts';
import type { Style } from '../report/style.ts';
import { printable } from '../report/text.ts';
import { remediesFor, summarizeAudit, type AuditReport } from './report.ts';

/** For people: a line for each finding, the summary, and what to do in which order. */
export function printAuditTable(report: AuditReport, style: Style): string {
  const { findings, assumptions } = report;
  const { high, medium, info } = summarizeAudit(report);
  const blocks = [
    ...(findings.length === 0 ? [] : [printFindings(findings, style)]),
    ...assumptionBlocks(assumptions),
    `${style('bold', `${high} high, ${medium} medium, ${info} info`)}\n${printRemedies(report)}`,
  ];
  return blocks.join('\n');
}

const EMPHASIS = { high: 'red', medium: 'yellow', info: 'dim' } as const;

function printFindings(findings: readonly AuditFinding[], style: Style): string {
  const width = findings.reduce((longest, one) => Math.max(longest, printSubject(one).length), 0);
  const lines = findings.map((one) => {
    const severity = style(EMPHASIS[one.severity], one.severity.padEnd('medium'.length));
    return `${one.code}  ${severity}  ${printSubject(one).padEnd(width)}  ${printable(one.message)}\n`;
  });
  return lines.join('');
}

function printSubject({ kind, namespace, name }: AuditFinding): string {
  return printable(`${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`);
}

function printRemedies(report: AuditReport): string {
  const remedies = remediesFor(report);
  if (remedies.length === 0) return 'Nothing has to be done.\n';
  const lines = remedies.map(({ code, remedy }, index) => `  ${index + 1}. ${code}: ${remedy}\n`);
  return `Before user namespaces cease to count, in this order:\n${lines.join('')}`;
}

/** For programs: everything that is known. */
export function dataOfAudit(report: AuditReport): unknown {
  const { findings, assumptions } = report;
  return { summary: summarizeAudit(report), findings, remedies: remediesFor(report), assumptions };
}
