import { PROGRAM } from '../command.ts';
import { printObject, printPlace, printVerdict, printWhy, problemsOf } from './text.ts';
import type { Finding, Judgement, Place, Remark, Report } from './types.ts';
import { isFailure, summarize } from './verdict.ts';
import { element, printXml, type Element } from './xml.ts';

/**
 * For CI systems that show test results: a suite for each file, a test for each object.
 * @see https://github.com/testmoapp/junitxml
 */
export function printJunit(report: Report): string {
  const { passed, failed, warned } = summarize(report);
  const problems = problemsOf(report);
  const counts = { tests: passed + failed + warned + problems.length, failures: failed, errors: problems.length };
  const files = new Set([...report.judgements, ...problems, ...report.warnings].map(({ file }) => file));
  const suites = [...files].map((file) => suiteOf(file, report));
  return printXml(element('testsuites', { name: `${PROGRAM} check`, ...counts }, suites));
}

function suiteOf(file: string, all: Report): Element {
  const isHere = (place: Place): boolean => place.file === file;
  const report: Report = { ...all, judgements: all.judgements.filter(isHere) };
  const { failed } = summarize(report);
  const unread = all.errors.filter(isHere).map((error) => errorCase(error, 'unreadable'));
  const unjudged = all.unjudged.filter(isHere).map((remark) => errorCase(remark, 'not judged'));
  const cases = [...report.judgements.map((judgement) => caseOf(judgement, report)), ...unread, ...unjudged];
  const errors = unread.length + unjudged.length;
  const remarks = all.warnings
    .filter(isHere)
    .map((remark) => `${printPlace(remark)}: ${remark.message}`)
    .join('\n');
  const output = remarks === '' ? [] : [element('system-err', {}, remarks)];
  return element('testsuite', { name: file, tests: cases.length, failures: failed, errors }, [...cases, ...output]);
}

function caseOf(judgement: Judgement, report: Report): Element {
  const failures = judgement.findings.filter((finding) => isFailure(finding, report));
  const remarks = judgement.findings.filter((finding) => !isFailure(finding, report));
  const { file, line } = judgement;
  const attributes = { name: printObject(judgement), classname: file, file, line };
  const message = [...new Set(failures.map(printVerdict))].join(', ');
  return element('testcase', attributes, [
    ...(failures.length === 0 ? [] : [element('failure', { message, type: 'violation' }, printFindings(failures))]),
    ...(remarks.length === 0 ? [] : [element('system-out', {}, printFindings(remarks))]),
  ]);
}

function errorCase({ file, line, column, message }: Remark, type: string): Element {
  const attributes = { name: `line ${line}, column ${column}`, classname: file, file, line };
  return element('testcase', attributes, [element('error', { message, type })]);
}

function printFindings(findings: readonly Finding[]): string {
  return findings.map((finding) => printFinding(finding)).join('\n');
}

function printFinding(finding: Finding): string {
  const places = [...new Set(finding.fields.map(printPlace))].join(', ');
  return `${places}: ${printVerdict(finding)}: ${finding.check}: ${printWhy(finding)}\nFix: ${finding.remedy}`;
}
