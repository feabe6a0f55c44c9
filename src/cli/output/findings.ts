/** Formats findings in manifests as a table, SARIF, JUnit XML, GitHub annotations, JSON or YAML. */
import { createHash } from 'node:crypto';
import { isAbsolute, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ManifestError, Position } from '../../config/yaml.ts';
import { listNewerVersions, type Mode, parsePolicy, printPodSecurity } from '../../policy/psa/index.ts';
import { checkControls, checks } from '../../policy/pss/index.ts';
import { NO_SCC } from '../../policy/scc/index.ts';
import { docsUrl, EXIT, printPage, PROGRAM, VERSION } from '../command.ts';
import { type Cell, CONTROL_CHARACTERS, printable, printData, printTable, type Style } from './print.ts';

/** A position in a file. Line and column start at 1. */
interface FilePosition extends Position {
  readonly file: string;
}

/** A field path in the object, with the position of the field or of its nearest existing ancestor. */
export interface FieldPosition extends FilePosition {
  readonly path: string;
}

/** A check that an object violates. */
export interface ViolatedCheck {
  /** The strongest mode in which the finding applies. */
  readonly mode: Mode;
  /** The violated policy, such as `restricted:v1.30`. Absent if the check belongs to no policy. */
  readonly policy?: string;
  readonly check: string;
  readonly reason: string;
  readonly detail: string;
  readonly fix: string;
  /** The violating fields, of which there is at least one. */
  readonly fields: readonly FieldPosition[];
}

export interface CheckedObject extends FilePosition {
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string;
  readonly name: string;
  /** Path of the evaluated pod template. Absent for built-in kinds. */
  readonly template?: string;
  /** The namespace's policies by mode. Absent for SCCs. */
  readonly policies?: Readonly<Record<Mode, string>>;
  readonly findings: readonly ViolatedCheck[];
}

export interface CheckReport {
  readonly objects: readonly CheckedObject[];
  /** Number of objects of kinds that are not checked. */
  readonly otherKinds: number;
  /** Objects of checked kinds that no API server accepts. */
  readonly notEvaluated: readonly ManifestError[];
  /** Problems that do not affect the result. */
  readonly warnings: readonly ManifestError[];
  /** Documents that cannot be read. */
  readonly errors: readonly ManifestError[];
  /** The weakest mode in which findings fail the check. */
  readonly failOn: Mode;
}

/** Modes, strongest first. */
export const MODES_BY_STRENGTH: readonly Mode[] = ['enforce', 'warn', 'audit'];

/**
 * Returns the number of objects with each result. `warned` objects have findings only in modes weaker than `failOn`.
 */
function summarize(report: CheckReport) {
  const { objects, notEvaluated, otherKinds, errors } = report;
  const failed = objects.filter(({ findings }) => findings.some((finding) => isFailure(finding, report))).length;
  const passed = objects.filter(({ findings }) => findings.length === 0).length;
  const warned = objects.length - passed - failed;
  return { passed, failed, warned, notEvaluated: notEvaluated.length, otherKinds, errors: errors.length };
}

/** Returns true if the finding applies in the mode that fails the check or in a stronger mode. */
function isFailure({ mode }: ViolatedCheck, { failOn }: CheckReport): boolean {
  return MODES_BY_STRENGTH.indexOf(mode) <= MODES_BY_STRENGTH.indexOf(failOn);
}

/** Returns 2 for documents that cannot be read or evaluated, 1 for failures, and otherwise 0. */
export function exitCode(report: CheckReport): number {
  const { failed, notEvaluated, errors } = summarize(report);
  if (errors + notEvaluated > 0) return EXIT.usage;
  return failed > 0 ? EXIT.violations : EXIT.passed;
}

/** Formats the number of objects by result, such as `2 passed, 1 failed, 3 of other kinds`. */
function printSummary(report: CheckReport): string {
  const { objects } = report;
  const { passed, failed, warned, notEvaluated, otherKinds, errors } = summarize(report);
  const parts = [
    `${passed} passed`,
    `${failed} failed`,
    ...(warned > 0 ? [`${warned} with warnings`] : []),
    ...(notEvaluated > 0 ? [`${notEvaluated} not evaluated`] : []),
    ...(otherKinds > 0 ? [`${otherKinds} of other kinds`] : []),
    ...(errors > 0 ? [`${errors} unreadable`] : []),
  ];
  const policies = objects.flatMap((object) => Object.values(object.policies ?? {}));
  return [parts.join(', '), ...listNewerVersions(policies.map(parsePolicy))].join('; ');
}

/** Returns the errors and the objects that were not evaluated. */
export function problems({ errors, notEvaluated }: CheckReport): readonly ManifestError[] {
  return [...errors, ...notEvaluated];
}

/** Formats a position, such as `web.yaml:12:7`. */
export function printPosition({
  file,
  line,
  column,
  isWholeFile = false,
}: FilePosition & Pick<ManifestError, 'isWholeFile'>): string {
  return isWholeFile ? file : `${file}:${line}:${column}`;
}

/** Returns the name of an object, such as `Deployment shop/web` or `Rollout shop/web (spec.template)`. */
function printObject({ kind, namespace, name, template = '' }: CheckedObject): string {
  const path = template === '' ? '' : ` (${template})`;
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name === '' ? '(no name)' : name}${path}`;
}

/** Formats the reason and the detail as Kubernetes does in denials. */
export function printReason({ reason, detail }: Pick<ViolatedCheck, 'reason' | 'detail'>): string {
  return detail === '' ? reason : `${reason} (${detail})`;
}

/** Results of the checks outside the Pod Security Standards, whose findings belong to no policy. */
export const OTHER_RESULTS = {
  labels: 'has invalid labels',
  'scc-label': 'has an invalid SCC mode',
  unknownField: 'has unknown fields',
  decode: 'is invalid',
  invalid: 'is invalid',
  scc: 'is invalid',
  unusable: 'cannot admit any pod',
  mistyped: 'has values that match nothing',
  'scc-admission': `is denied, ${NO_SCC}`,
} as const;

export type OtherCheck = keyof typeof OTHER_RESULTS;

/** Formats a result, such as `violates PodSecurity "restricted:latest"`. The verb depends on the mode. */
function printResult({ mode, policy, check }: ViolatedCheck): string {
  if (policy === undefined) return `${OTHER_RESULTS[check as OtherCheck]}${mode === 'enforce' ? '' : ` (${mode})`}`;
  const name = printPodSecurity(parsePolicy(policy));
  return mode === 'enforce' ? `violates ${name}` : `would violate ${name} (${mode})`;
}

/** Formats the object, the result and the reason of a finding, with its fix on a second line. */
function printMessage(object: CheckedObject, finding: ViolatedCheck): string {
  return `${printObject(object)} ${printResult(finding)}: ${printReason(finding)}\nFix: ${finding.fix}`;
}

/** Formats each object with its findings, their positions and fixes, followed by the summary. */
export function printFindingTable(report: CheckReport, style: Style, isWide = false): string {
  const blocks = report.objects.flatMap((object) =>
    [...Map.groupBy(object.findings, printResult)].map(([result, findings]) => {
      const title = style('bold', printable(`${printObject(object)} ${result}`));
      const rows = findings.flatMap((finding) => findingRows(finding, report, isWide));
      return `${title}\n${printTable(rows, { style, indent: '  ', gap: '  ' })}`;
    }),
  );
  return [...blocks, ...templateBlocks(report, style), `${style('bold', printSummary(report))}\n`].join('\n');
}

/**
 * Lists the paths of the evaluated pod templates in custom resources, because the kind alone does not determine the
 * path.
 */
function templateBlocks({ objects }: CheckReport, style: Style): readonly string[] {
  const evaluated = objects.filter(({ template }) => template !== undefined);
  if (evaluated.length === 0) return [];
  const rows = evaluated.map((object) => [printPosition(object), printObject(object)]);
  const title = style('bold', 'Evaluated pod templates of other API groups');
  return [`${title}\n${printTable(rows, { style, indent: '  ', gap: '  ' })}`];
}

/**
 * Returns a row for the reason, a row for the fix, and a row for each additional position. The wide format adds a row
 * for the documentation page.
 */
function findingRows(finding: ViolatedCheck, report: CheckReport, isWide: boolean): readonly (readonly Cell[])[] {
  const positions = [...new Set(finding.fields.map(printPosition))];
  const texts: readonly Cell[] = [
    [printReason(finding), 'bold'],
    [`Fix: ${finding.fix}`, 'dim'],
    ...(isWide ? [[`See: ${printPage(checkPage(finding.check))}`, 'dim'] as const] : []),
  ];
  return Array.from({ length: Math.max(positions.length, texts.length) }, (_, index) => [
    positions[index] ?? '',
    index === 0 ? [finding.check, isFailure(finding, report) ? 'red' : 'yellow'] : '',
    texts[index] ?? '',
  ]);
}

const GITHUB_LEVELS: Readonly<Record<Mode, string>> = { enforce: 'error', warn: 'warning', audit: 'notice' };

/**
 * Returns GitHub Actions workflow commands, which annotate the violating lines.
 * @see https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
 */
function printGithub(report: CheckReport): string {
  const lines = [
    ...report.errors.map((error) => annotation('error', error, 'unreadable', error.message)),
    ...report.notEvaluated.map((error) => annotation('error', error, 'not evaluated', error.message)),
    ...report.warnings.map((warning) => annotation('warning', warning, 'warning', warning.message)),
    ...report.objects.flatMap((object) => object.findings.flatMap((finding) => annotations(object, finding))),
    printSummary(report),
  ];
  return `${lines.join('\n')}\n`;
}

function annotations(object: CheckedObject, finding: ViolatedCheck): string[] {
  const message = printMessage(object, finding);
  return finding.fields.map((field) => annotation(GITHUB_LEVELS[finding.mode], field, finding.check, message));
}

function annotation(level: string, { file, line, column }: FilePosition, title: string, message: string): string {
  const escape = (text: string): string => text.replaceAll('%', '%25').split('\n').map(printable).join('%0A');
  const property = (text: string): string => escape(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
  return `::${level} file=${property(file)},line=${line},col=${column},title=${property(title)}::${escape(message)}`;
}

/** Returns an XML element that contains text or elements. Without content, the element is empty. */
function element(
  name: string,
  attributes: Readonly<Record<string, string | number>>,
  content: readonly string[] | string = '',
): string {
  const pairs = Object.entries(attributes).map(([key, value]) => ` ${key}="${escapeAttribute(String(value))}"`);
  const start = `<${name}${pairs.join('')}`;
  if (content.length === 0) return `${start}/>`;
  const inner = typeof content === 'string' ? escapeXml(content) : `\n${content.join('\n')}\n`;
  return `${start}>${inner}</${name}>`;
}

/** Characters that XML 1.0 cannot represent, even escaped. */
const NOT_IN_XML = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

function escapeXml(text: string): string {
  return text
    .replace(NOT_IN_XML, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replace(CONTROL_CHARACTERS, (character) =>
      /[\t\n]/.test(character) ? character : `&#${character.charCodeAt(0)};`,
    );
}

/** Escapes the value of an attribute, including line breaks, which XML parsers would otherwise replace with spaces. */
function escapeAttribute(text: string): string {
  return escapeXml(text).replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\t', '&#9;');
}

/**
 * Returns JUnit XML with a suite for each file and a test case for each object.
 * @see https://github.com/testmoapp/junitxml
 */
function printJunit(report: CheckReport): string {
  const { passed, failed, warned } = summarize(report);
  const errors = problems(report);
  const counts = { tests: passed + failed + warned + errors.length, failures: failed, errors: errors.length };
  const files = new Set([...report.objects, ...errors, ...report.warnings].map(({ file }) => file));
  const suites = [...files].map((file) => testSuite(file, report));
  const root = element('testsuites', { name: `${PROGRAM} check`, ...counts }, suites);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${root}\n`;
}

function testSuite(file: string, all: CheckReport): string {
  const isInFile = (position: FilePosition): boolean => position.file === file;
  const report: CheckReport = { ...all, objects: all.objects.filter(isInFile) };
  const errors = [
    ...all.errors.filter(isInFile).map((error) => errorCase(error, 'unreadable')),
    ...all.notEvaluated.filter(isInFile).map((error) => errorCase(error, 'not evaluated')),
  ];
  const cases = [...report.objects.map((object) => testCase(object, report)), ...errors];
  const warnings = all.warnings.filter(isInFile).map((warning) => `${printPosition(warning)}: ${warning.message}`);
  const output = warnings.length === 0 ? [] : [element('system-err', {}, warnings.join('\n'))];
  const counts = { tests: cases.length, failures: summarize(report).failed, errors: errors.length };
  return element('testsuite', { name: file, ...counts }, [...cases, ...output]);
}

function testCase(object: CheckedObject, report: CheckReport): string {
  const failures = object.findings.filter((finding) => isFailure(finding, report));
  const others = object.findings.filter((finding) => !isFailure(finding, report));
  const { file, line } = object;
  const message = [...new Set(failures.map(printResult))].join(', ');
  return element('testcase', { name: printObject(object), classname: file, file, line }, [
    ...(failures.length === 0 ? [] : [element('failure', { message, type: 'violation' }, printFindings(failures))]),
    ...(others.length === 0 ? [] : [element('system-out', {}, printFindings(others))]),
  ]);
}

function errorCase({ file, line, column, message }: ManifestError, type: string): string {
  const attributes = { name: `line ${line}, column ${column}`, classname: file, file, line };
  return element('testcase', attributes, [element('error', { message, type })]);
}

function printFindings(findings: readonly ViolatedCheck[]): string {
  return findings
    .map((finding) => {
      const positions = [...new Set(finding.fields.map(printPosition))].join(', ');
      return `${positions}: ${printResult(finding)}: ${finding.check}: ${printReason(finding)}\nFix: ${finding.fix}`;
    })
    .join('\n');
}

const SARIF_LEVELS: Readonly<Record<Mode, string>> = { enforce: 'error', warn: 'warning', audit: 'note' };

/** Returns the documentation page of a check. */
function checkPage(check: string): string {
  return `reference/checks/${check}.md`;
}

/**
 * Returns SARIF for code scanning, with a rule for each violated check and a result for each violating field.
 * @see https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
 */
function printSarif(report: CheckReport): string {
  const findings = report.objects.flatMap(({ findings }) => findings);
  const rules = [...new Map(findings.map((finding) => [finding.check, sarifRule(finding)])).values()];
  const run = {
    tool: { driver: { name: PROGRAM, semanticVersion: VERSION, rules } },
    columnKind: 'utf16CodeUnits',
    invocations: [
      {
        executionSuccessful: problems(report).length === 0,
        toolExecutionNotifications: [
          ...problems(report).map((error) => notification('error', error)),
          ...report.warnings.map((warning) => notification('warning', warning)),
        ],
      },
    ],
    results: report.objects.flatMap((object) => sarifResults(object, rules)),
  };
  const log = { $schema: 'https://json.schemastore.org/sarif-2.1.0.json', version: '2.1.0', runs: [run] };
  return printData('json', log);
}

function sarifRule({ check, reason, fix }: ViolatedCheck) {
  const level = checks.find(({ id }) => id === check)?.level;
  return {
    id: check,
    shortDescription: { text: level === undefined ? reason : `Pod Security Standards, ${level} level: ${check}` },
    help: { text: fix },
    helpUri: docsUrl(checkPage(check)),
    defaultConfiguration: { level: 'error' },
    properties: {
      tags: ['security', 'kubernetes', ...printControls(check)],
      'security-severity': SEVERITIES[level ?? 'other'],
    },
  };
}

/** Scores by level. Code scanning shows scores from 7.0 as high, and from 4.0 as medium. */
const SEVERITIES = { baseline: '8.0', restricted: '5.0', other: '4.0' } as const;

/** Returns the controls of a check as tags, such as `cis-5.2.2`. */
function printControls(check: string): readonly string[] {
  return Object.entries(checkControls(check)).flatMap(([standard, ids]) =>
    ids.split(', ').map((id) => `${standard}-${id.toLowerCase().replaceAll(' ', '-')}`),
  );
}

/** Returns an ID for a result that does not depend on its position in the file. */
function fingerprint(object: CheckedObject, finding: ViolatedCheck, path: string): string {
  const { apiVersion, kind, namespace, name, template, file } = object;
  const parts = [file, apiVersion, kind, namespace, name, template, finding.check, path];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

function sarifResults(object: CheckedObject, rules: readonly { readonly id: string }[]) {
  return object.findings.flatMap((finding) =>
    finding.fields.map((field) => ({
      ruleId: finding.check,
      ruleIndex: rules.findIndex(({ id }) => id === finding.check),
      level: SARIF_LEVELS[finding.mode],
      message: { text: printMessage(object, finding) },
      partialFingerprints: { 'portcullis/v1': fingerprint(object, finding, field.path) },
      locations: [
        {
          physicalLocation: physicalLocation(field),
          logicalLocations: [{ fullyQualifiedName: `${printObject(object)} ${field.path}`.trim(), kind: 'object' }],
        },
      ],
    })),
  );
}

function notification(level: 'error' | 'warning', error: ManifestError) {
  return { level, message: { text: error.message }, locations: [{ physicalLocation: physicalLocation(error) }] };
}

function physicalLocation({ file, line, column }: FilePosition) {
  const relative = file.replaceAll(sep, '/').split('/').map(encodeURIComponent).join('/');
  const uri = isAbsolute(file) ? pathToFileURL(file).href : relative;
  return { artifactLocation: { uri }, region: { startLine: line, startColumn: column } };
}

function reportData(report: CheckReport) {
  const { objects, notEvaluated, warnings, errors, failOn } = report;
  const linked = objects.map((object) => ({
    ...object,
    findings: object.findings.map((finding) => ({
      ...finding,
      ...checkControls(finding.check),
      url: docsUrl(checkPage(finding.check)),
    })),
  }));
  return { summary: summarize(report), failOn, objects: linked, notEvaluated, warnings, errors };
}

/** Machine-readable formats, which include errors and warnings. */
export const FINDING_FORMATS = {
  json: (report) => printData('json', reportData(report)),
  yaml: (report) => printData('yaml', reportData(report)),
  sarif: printSarif,
  junit: printJunit,
  github: printGithub,
} as const satisfies Readonly<Record<string, (report: CheckReport) => string>>;
