import { printObject, printVerdict, printWhy } from './text.ts';
import type { Finding, Judgement, Place, Report } from './types.ts';
import { printSummary } from './verdict.ts';

const COMMANDS: Readonly<Record<Finding['mode'], string>> = { enforce: 'error', warn: 'warning', audit: 'notice' };

/**
 * For GitHub Actions: commands that put a note beside each offending line.
 * @see https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
 */
export function printGithub(report: Report): string {
  const lines = [
    ...report.errors.map((error) => command('error', error, 'unreadable', error.message)),
    ...report.unjudged.map((remark) => command('error', remark, 'not judged', remark.message)),
    ...report.warnings.map((remark) => command('warning', remark, 'warning', remark.message)),
    ...report.judgements.flatMap((judgement) => judgement.findings.flatMap((finding) => notes(judgement, finding))),
    printSummary(report),
  ];
  return `${lines.join('\n')}\n`;
}

function notes(judgement: Judgement, finding: Finding): string[] {
  const message = `${printObject(judgement)} ${printVerdict(finding)}: ${printWhy(finding)}\nFix: ${finding.remedy}`;
  return finding.fields.map((field) => command(COMMANDS[finding.mode], field, finding.check, message));
}

function command(name: string, { file, line, column }: Place, title: string, message: string): string {
  return `::${name} file=${escapeProperty(file)},line=${line},col=${column},title=${escapeProperty(title)}::${escapeData(message)}`;
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}
