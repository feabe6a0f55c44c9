import { pathToFileURL } from 'node:url';
import { isAbsolute } from 'node:path';
import { checks } from '../../policy/pss/index.ts';
import { PROGRAM } from '../command.ts';
import { VERSION } from '../version.ts';
import { printObject, printVerdict, printWhy, problemsOf } from './text.ts';
import type { Finding, Judgement, Place, Remark, Report } from './types.ts';
import { UNKNOWN_FIELD } from './unknown-field.ts';

const LEVELS: Readonly<Record<Finding['mode'], string>> = { enforce: 'error', warn: 'warning', audit: 'note' };
const STANDARDS = 'https://kubernetes.io/docs/concepts/security/pod-security-standards/';
const SCCS = 'https://github.com/openshift/api/blob/master/security/v1/types.go';

/** Of checks that have nothing to do with the standards. */
const HELP: ReadonlyMap<string, string> = new Map([
  ['labels', 'https://kubernetes.io/docs/concepts/security/pod-security-admission/'],
  ['scc-label', 'https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/'],
  [UNKNOWN_FIELD, 'https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation'],
  ['scc', SCCS],
  ['unusable', SCCS],
  ['mistyped', SCCS],
]);

/**
 * For code scanning: a result for each offending field, a rule for each check that has results.
 * @see https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
 */
export function printSarif(report: Report): string {
  const findings = report.judgements.flatMap(({ findings }) => findings);
  const rules = [...new Map(findings.map((finding) => [finding.check, ruleOf(finding)])).values()];
  const indexes = new Map(rules.map(({ id }, index) => [id, index]));
  const run = {
    tool: { driver: { name: PROGRAM, semanticVersion: VERSION, rules } },
    columnKind: 'utf16CodeUnits',
    invocations: [
      {
        executionSuccessful: problemsOf(report).length === 0,
        toolExecutionNotifications: [
          ...problemsOf(report).map((problem) => notification('error', problem)),
          ...report.warnings.map((remark) => notification('warning', remark)),
        ],
      },
    ],
    results: report.judgements.flatMap((judgement) => resultsOf(judgement, indexes)),
  };
  const log = { $schema: 'https://json.schemastore.org/sarif-2.1.0.json', version: '2.1.0', runs: [run] };
  return `${JSON.stringify(log, undefined, 2)}\n`;
}

function ruleOf({ check, reason, remedy }: Finding) {
  const level = checks.find(({ id }) => id === check)?.level;
  return {
    id: check,
    shortDescription: { text: level === undefined ? reason : `Pod Security Standards, level ${level}: ${check}` },
    help: { text: remedy },
    helpUri: helpOf(check, level),
    defaultConfiguration: { level: 'error' },
  };
}

function helpOf(check: string, level: string | undefined): string {
  const help = HELP.get(check);
  if (help !== undefined) return help;
  return level === undefined ? STANDARDS : `${STANDARDS}#${level}`;
}

function resultsOf(judgement: Judgement, indexes: ReadonlyMap<string, number>) {
  return judgement.findings.flatMap((finding) =>
    finding.fields.map((field) => ({
      ruleId: finding.check,
      ruleIndex: indexes.get(finding.check),
      level: LEVELS[finding.mode],
      message: { text: `${printObject(judgement)} ${printVerdict(finding)}: ${printWhy(finding)}` },
      locations: [
        {
          physicalLocation: physicalLocation(field),
          logicalLocations: [{ fullyQualifiedName: `${printObject(judgement)} ${field.path}`.trim(), kind: 'object' }],
        },
      ],
    })),
  );
}

function notification(level: 'error' | 'warning', remark: Remark) {
  return { level, message: { text: remark.message }, locations: [{ physicalLocation: physicalLocation(remark) }] };
}

function physicalLocation({ file, line, column }: Place) {
  const uri = isAbsolute(file) ? pathToFileURL(file).href : file.split('/').map(encodeURIComponent).join('/');
  return { artifactLocation: { uri }, region: { startLine: line, startColumn: column } };
}
