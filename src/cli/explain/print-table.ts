import type { SccMode } from '../../policy/scc/mode.ts';
import { printChanges } from '../report/changes.ts';
import type { Style } from '../report/style.ts';
import { printable } from '../report/text.ts';
import { printAssumptions } from '../inventory/print-assumptions.ts';
import { outcomeOf, printSummary, type Outcome } from './summary.ts';
import type { ExplainedObject, Explanation, SccRow } from './types.ts';

/** For people: of each object what becomes of its pod and why, and what every SCC has to say. */
export function printExplanation(explanation: Explanation, style: Style): string {
  const blocks = explanation.objects.map((object) => printObject(object, style));
  const summary = explanation.objects.length > 1 ? [`${style('bold', printSummary(explanation))}\n`] : [];
  return [...blocks, ...summary].join('\n') + printAssumptions(explanation.assumptions);
}

function printObject(object: ExplainedObject, style: Style): string {
  const lines = [
    style('bold', printable(titleOf(object))),
    ...printFacts(object),
    ...(object.sccs.length === 0 ? [] : ['', ...printSccs(object, style)]),
    ...printWarnings(object, style),
  ];
  return `${lines.join('\n')}\n`;
}

function printWarnings({ decision: { warnings } }: ExplainedObject, style: Style): readonly string[] {
  const lines = warnings.map((warning) => `${style('yellow', 'Warning:')} ${printable(warning)}`);
  return lines.length === 0 ? [] : ['', ...lines];
}

function titleOf(object: ExplainedObject): string {
  const { kind, namespace, name, chosen, decision } = object;
  const verdicts: Readonly<Record<Outcome, string>> = {
    admitted: `SCC ${chosen ?? ''} admits it`,
    refused: refusalOf(object) === undefined ? 'no SCC admits it' : 'it is refused',
    ignored: 'SCCs have nothing to do with it',
    off: `SCCs do not count in its namespace; otherwise they would ${decision.allowed ? 'admit' : 'refuse'} it`,
  };
  return `${kind} ${namespace}/${name === '' ? '(no name)' : name}: ${verdicts[outcomeOf(object)]}`;
}

const MODES: Readonly<Record<SccMode, string>> = {
  enforce: '',
  report: ': refusals are told, and nothing is changed',
  off: ': pods are neither judged nor changed',
};

/** `report, assumed: refusals are told, and nothing is changed` */
function printMode({ mode, modeFrom }: ExplainedObject['mode']): string {
  return `${mode}${modeFrom === undefined ? '' : ', assumed'}${MODES[mode]}`;
}

function printFacts(object: ExplainedObject): readonly string[] {
  const { createdBy, serviceAccount, mode, decision, reason, level } = object;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['Created by', createdBy],
    ['Service account', serviceAccount ?? '(none)'],
    ['Mode', mode.problem ?? printMode(mode)],
    ['Refused because', refusalOf(object)],
    ['Usable by', decision.facts && SUBJECTS.get(decision.facts.subjectType)],
    ['Chosen because', reason],
    ['Level', level && `${level} (Pod Security Standards, latest)`],
  ];
  const shown = facts.filter((fact): fact is readonly [string, string] => fact[1] !== undefined);
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, text]) => `  ${name.padEnd(width)}  ${printable(text)}`);
}

const SUBJECTS: ReadonlyMap<string, string> = new Map([
  ['serviceaccount', 'the service account'],
  ['user', 'its creator, not the service account'],
]);

/** The text of a refusal, unless the rows of the SCCs say it all. */
function refusalOf({ refusal, decision }: ExplainedObject): string | undefined {
  if (refusal !== undefined) return refusal;
  if (decision.allowed) return undefined;
  const { message } = decision.status;
  return message.startsWith('unable to validate against any') ? undefined : message;
}

const HEADER = ['SCC', 'PRIORITY', 'SCORE', 'USABLE BY', 'FITS'];

function printSccs({ sccs, chosen }: ExplainedObject, style: Style): readonly string[] {
  const rows = sccs.map((scc) => [scc.name, String(scc.priority), String(scc.score), usersOf(scc), fitOf(scc)]);
  const widths = HEADER.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const print = (cells: readonly string[]): string =>
    printable(cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')).trimEnd();
  return [
    `  ${print(HEADER)}`,
    ...sccs.flatMap((scc, index) => {
      const line = print(rows[index] ?? []);
      const details = detailsOf(scc).map((text) => `      ${style('dim', printable(text))}`);
      return [scc.name === chosen ? style('bold', `* ${line}`) : `  ${line}`, ...details];
    }),
  ];
}

function usersOf({ usableBy }: SccRow): string {
  return usableBy.length === 0 ? '-' : usableBy.join(', ');
}

function fitOf({ fits, broken }: SccRow): string {
  if (fits) return 'yes';
  return broken === undefined ? 'no' : 'broken';
}

function detailsOf({ name, isCandidate, errors, broken, changes = [] }: SccRow): readonly string[] {
  const prefix = `provider ${name}: `;
  return [
    ...(isCandidate ? [] : ['not tried: the pod requires another']),
    ...(broken === undefined
      ? errors.map((error) => (error.startsWith(prefix) ? error.slice(prefix.length) : error))
      : [broken]),
    ...printChanges(changes),
  ];
}
