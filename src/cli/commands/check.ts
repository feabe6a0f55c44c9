import { pathToFileURL } from 'node:url';
import { isAbsolute } from 'node:path';
import { EXIT, PROGRAM, VERSION, defineCommand, type Io } from '../command.ts';
import { MODES_BY_STRENGTH, judge, createUnknownFieldFinder } from '../check/judge.ts';
import {
  UNKNOWN_FIELD,
  type Finding,
  type Judgement,
  type Report,
  type Place,
  type Remark,
  printObject,
  printVerdict,
  printWhy,
  printPlace,
  problemsOf,
} from '../output/findings.ts';
import { printable, printData, type Style, styleOf, outputOption } from '../output/print.ts';
import { checks, isLevel, parseVersion, type Level, type Version } from '../../policy/pss/index.ts';
import { UserError } from '../../config/files.ts';
import { formatFieldErrors } from '../../kube/field-error.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { resolvePolicies, type Labels } from '../../policy/psa/namespace-policy.ts';
import { LEVEL_RULE, VERSION_RULE, MODES } from '../../policy/psa/policy.ts';
import { flag, keyValue, list, mapped, objectName, oneOf, option } from '../options.ts';
import { readAllManifests } from '../inventory/manifests.ts';

/** True if the finding counts in the mode that fails the check, or in a stronger one. */
function isFailure({ mode }: Finding, { failOn }: Report): boolean {
  return MODES_BY_STRENGTH.indexOf(mode) <= MODES_BY_STRENGTH.indexOf(failOn);
}

/** How many objects passed, how many did not, and what could not be judged. */
interface Summary {
  readonly passed: number;
  /** Objects with a finding that fails the check. */
  readonly failed: number;
  /** Objects with findings in weaker modes only. */
  readonly warned: number;
  readonly unjudged: number;
  readonly others: number;
  readonly errors: number;
}

function summarize(report: Report): Summary {
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
function exitCodeOf(report: Report): number {
  const { failed, unjudged, errors } = summarize(report);
  if (errors + unjudged > 0) return EXIT.usage;
  return failed > 0 ? EXIT.violations : EXIT.passed;
}

/** `2 passed, 1 failed, 3 not workloads` */
function printSummary(report: Report): string {
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

/** For programs: everything that is known. */
function dataOf(report: Report) {
  const { judgements, unjudged, warnings, errors, failOn } = report;
  return { summary: summarize(report), failOn, objects: judgements, unjudged, warnings, errors };
}

const COMMANDS: Readonly<Record<Finding['mode'], string>> = { enforce: 'error', warn: 'warning', audit: 'notice' };

/**
 * For GitHub Actions: commands that put a note beside each offending line.
 * @see https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
 */
function printGithub(report: Report): string {
  const lines = [
    ...report.errors.map((error) => annotation('error', error, 'unreadable', error.message)),
    ...report.unjudged.map((remark) => annotation('error', remark, 'not judged', remark.message)),
    ...report.warnings.map((remark) => annotation('warning', remark, 'warning', remark.message)),
    ...report.judgements.flatMap((judgement) => judgement.findings.flatMap((finding) => notes(judgement, finding))),
    printSummary(report),
  ];
  return `${lines.join('\n')}\n`;
}

function notes(judgement: Judgement, finding: Finding): string[] {
  const message = `${printObject(judgement)} ${printVerdict(finding)}: ${printWhy(finding)}\nFix: ${finding.remedy}`;
  return finding.fields.map((field) => annotation(COMMANDS[finding.mode], field, finding.check, message));
}

function annotation(name: string, { file, line, column }: Place, title: string, message: string): string {
  return `::${name} file=${escapeProperty(file)},line=${line},col=${column},title=${escapeProperty(title)}::${escapeData(message)}`;
}

function escapeData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}

/** An element: its attributes, and what it holds. */
interface Element {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly content: readonly Element[] | string;
}

function element(name: string, attributes: Element['attributes'], content: Element['content'] = ''): Element {
  return { name, attributes, content };
}

/** Writes a whole document. */
function printXml(root: Element): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${print(root, '')}\n`;
}

function print({ name, attributes, content }: Element, indent: string): string {
  const pairs = Object.entries(attributes).map(([key, value]) => ` ${key}="${escapeAttribute(String(value))}"`);
  const start = `${indent}<${name}${pairs.join('')}`;
  if (content.length === 0) return `${start}/>`;
  if (typeof content === 'string') return `${start}>${escape(content)}</${name}>`;
  return [`${start}>`, ...content.map((child) => print(child, `${indent}  `)), `${indent}</${name}>`].join('\n');
}

/** What XML 1.0 has no way to write, not even escaped. */
const IMPOSSIBLE = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

/** Line ends in attributes would be read as spaces. */
function escapeAttribute(text: string): string {
  return escape(text).replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\t', '&#9;');
}

function escape(text: string): string {
  return text
    .replace(IMPOSSIBLE, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('\r', '&#13;');
}

/**
 * For CI systems that show test results: a suite for each file, a test for each object.
 * @see https://github.com/testmoapp/junitxml
 */
function printJunit(report: Report): string {
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
function printSarif(report: Report): string {
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

/** The formats for programs. They hold warnings and errors, too. */
export const FORMATS = {
  json: (report) => printData('json', dataOf(report)),
  yaml: (report) => printData('yaml', dataOf(report)),
  sarif: printSarif,
  junit: printJunit,
  github: printGithub,
} satisfies Record<string, (report: Report) => string>;

type Format = keyof typeof FORMATS;

const FORMAT_NAMES = Object.keys(FORMATS) as readonly Format[];

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

// Values of options that name policies.

function level(value: string): Level {
  if (!isLevel(value)) throw new UserError(LEVEL_RULE);
  return value;
}

/** A version of the Pod Security Standards. */
function policyVersion(value: string): Version {
  const version = parseVersion(value);
  if (version === undefined) throw new UserError(VERSION_RULE);
  return version;
}

const KNOWN_LABELS: ReadonlySet<string> = new Set(Object.values(POD_SECURITY_LABELS));
const DEFAULT = { level: 'restricted', version: 'latest' } as const;

/** Labels of a namespace; where there are any, they have to set policies, and rightly. */
function podSecurityLabels(pairs: readonly (readonly [key: string, value: string])[]): Labels {
  const labels = Object.fromEntries(pairs);
  const { errors } = resolvePolicies(labels, { enforce: DEFAULT, audit: DEFAULT, warn: DEFAULT });
  if (errors.length > 0) throw new UserError(formatFieldErrors(errors));
  const setsPolicy = pairs.some(([key]) => KNOWN_LABELS.has(key));
  if (pairs.length > 0 && !setsPolicy) throw new UserError(`must have one of ${[...KNOWN_LABELS].join(', ')}`);
  return labels;
}

const DETAILS = `
Paths are files, folders (their .yaml, .yml and .json files, those of subfolders too) and - for the
standard input. Every object with pods is judged by the policies of its namespace: those that the
labels of the Namespace say if it is among the manifests, else those of --namespace-labels. What
labels do not say, --level and --version do. SecurityContextConstraints are judged by the rules
that the API server holds them to, and for fields that it would drop.

Exit codes:
  0  nothing violates a policy in the mode of --fail-on, or in a stronger one (enforce, warn, audit)
  1  something does, or an SCC is wrong
  2  wrong usage, or a document that cannot be read or judged; the others are judged all the same

Examples:
  portcullis check deploy/
  helm template shop ./chart | portcullis check --level baseline -
  portcullis check --version v1.30 -o sarif deploy/ > portcullis.sarif
  portcullis check --namespace-labels pod-security.kubernetes.io/enforce=baseline pod.yaml
`;

/** Judges manifests by the Pod Security Standards, and SCCs by their own rules, without a cluster. */
export const command = defineCommand({
  operands: '<path...>',
  details: DETAILS,
  options: {
    level: option('LEVEL', level, 'restricted', { help: 'Level to enforce: privileged, baseline, restricted' }),
    version: option('VERSION', policyVersion, 'latest', { help: 'Version of the policies: latest, v1.N' }),
    'namespace-labels': mapped(
      list('KEY=VALUE', keyValue, { help: 'Labels of namespaces that are not among the manifests' }),
      podSecurityLabels,
    ),
    namespace: option('NAME', objectName, 'default', { short: 'n', help: 'Namespace of objects that name none' }),
    'fail-on': option('MODE', oneOf(MODES), 'enforce', {
      help: 'Weakest mode in which a violation fails the check: enforce, warn, audit',
    }),
    strict: flag({ help: 'Report fields that pods, workloads and namespaces do not have, too' }),
    output: outputOption(['table', ...FORMAT_NAMES]),
  },
  async run(options, paths, io) {
    const manifests = await readAllManifests(paths, io);
    const report = judge(manifests, {
      level: options.level,
      version: options.version,
      namespaceLabels: options['namespace-labels'],
      namespace: options.namespace,
      failOn: options['fail-on'],
      ...(options.strict ? { findUnknownFields: await createUnknownFieldFinder() } : {}),
    });
    if (options.output === 'table') writeTable(report, io);
    else io.stdout.write(FORMATS[options.output](report));
    return exitCodeOf(report);
  },
});

/** The table on the standard output; on the error output what could not be read, and warnings. */
function writeTable(report: Report, io: Io): void {
  const writeRemarks = (prefix: string, remarks: readonly Remark[]): void => {
    for (const remark of remarks)
      io.stderr.write(`${prefix}: ${printable(`${printPlace(remark)}: ${remark.message}`)}\n`);
  };
  writeRemarks('error', problemsOf(report));
  writeRemarks('warning', report.warnings);
  io.stdout.write(printTable(report, styleOf(io)));
}
