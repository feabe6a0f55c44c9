/** Warnings about SCCs: values that match nothing, SCCs that admit no pods, and pods that would move to another SCC. */
import { printCount, quote, plural } from '../../../kube/text.ts';
import { type PreparedScc, prepareScc } from '../scc.ts';
import { planStandardScc, STANDARD_SCCS } from '../standard.ts';
import {
  compareAdmission,
  type StepwiseEvaluation,
  type SccWarningsInput,
  type TakenOverPods,
} from './admission-changes.ts';
import { findInvalidValues } from './invalid-values.ts';
import { findSccDefect } from './scc-defects.ts';
import { formatListWarning, formatWarning, MAX_WARNING_LENGTH, quoteName } from './warning-text.ts';

const MAX_COMPARED_SCCS = 3;
const MAX_INVALID_VALUES = 3;
const MAX_NAMESPACES = 10;

/**
 * Returns warnings about a valid SCC if it admits no pods, precedes other SCCs for all users, would take over pods from
 * other SCCs, or has values that match nothing.
 */
export function* sccWarnings(input: SccWarningsInput): StepwiseEvaluation<readonly string[]> {
  const scc = prepareScc(input.scc);
  const reconciled = reconciliationWarning(scc, input);
  if (reconciled !== undefined) return [reconciled];
  const defect = findSccDefect(input.scc);
  const effects =
    defect === undefined
      ? [...priorityWarnings(scc, input), ...(yield* comparisonWarnings(scc, input))]
      : [`SCC ${quote(scc.name)} admits no pod: ${defect}`];
  return [...effects, ...invalidValueWarnings(scc, input)].map(formatWarning);
}

/** No other warnings are needed for a change that is reverted immediately. */
function reconciliationWarning({ name }: PreparedScc, input: SccWarningsInput): string | undefined {
  const { scc, reconcilesStandardSccs } = input;
  const standard =
    reconcilesStandardSccs && STANDARD_SCCS.find((standardScc) => standardScc.scc.metadata?.name === name);
  const fields = (standard && planStandardScc(standard, scc, 'portcullis')?.fields) || [];
  if (fields.length === 0) return undefined;
  const head = `SCC ${quote(name)} is a standard SCC and is reconciled. Changes to these fields will be reverted: `;
  return formatListWarning(head, fields, '. Create an SCC with another name instead.');
}

function invalidValueWarnings({ name }: PreparedScc, { scc }: SccWarningsInput): readonly string[] {
  const values = findInvalidValues(scc);
  const rest = values.length - MAX_INVALID_VALUES;
  return [
    ...values.slice(0, MAX_INVALID_VALUES).map(({ field, value, problem, suggestion }) => {
      const remedy = suggestion === undefined ? '' : `; use ${quote(suggestion)}`;
      return `SCC ${quote(name)}: ${quoteName(value)} in ${field} ${problem}${remedy}`;
    }),
    ...(rest > 0 ? [`SCC ${quote(name)} has ${printCount(rest, 'more invalid value')}`] : []),
  ];
}

const ANY_USER = { username: '', groups: ['system:authenticated'] };
const STANDARD_NAMES = new Set(STANDARD_SCCS.map(({ scc }) => scc.metadata?.name));

/** An SCC that has a priority and is usable by all users replaces the standard SCCs. */
function priorityWarnings(scc: PreparedScc, { sccs, access }: SccWarningsInput): readonly string[] {
  const { priority } = scc.fields;
  const preceded = sccs
    .map(prepareScc)
    .filter(({ name, fields }) => name !== scc.name && STANDARD_NAMES.has(name) && fields.priority < priority)
    .map(({ name }) => name);
  const isForAll = scc.groups.includes('system:authenticated') || access.canUse(ANY_USER, scc.name, '');
  if (preceded.length === 0 || !isForAll) return [];
  const common = ['anyuid', 'restricted-v2'].filter((name) => preceded.includes(name));
  const names = joinNames(common.length === 0 ? limitNames(preceded, 2) : common);
  return [
    `SCC ${quote(scc.name)} is usable by all users, and its priority ${priority} puts it before ${names}, so it will admit every pod that it allows`,
  ];
}

function* comparisonWarnings(scc: PreparedScc, input: SccWarningsInput): StepwiseEvaluation<readonly string[]> {
  const { name } = scc;
  const { takenOver, tried, total } = yield* compareAdmission(scc, input);
  const others = takenOver.slice(MAX_COMPARED_SCCS);
  const pods = others.reduce((sum, other) => sum + other.pods, 0);
  return [
    ...takenOver.slice(0, MAX_COMPARED_SCCS).map((other) => comparisonWarning(name, other, input)),
    ...(others.length === 0
      ? []
      : [
          `SCC ${quote(name)} would also admit ${printCount(pods, 'pod')} instead of ${printCount(others.length, 'other SCC')}`,
        ]),
    ...(tried === total
      ? []
      : [`SCC ${quote(name)} was evaluated for only ${tried} of ${total} pods and may admit others as well`]),
  ];
}

/** Lists as many namespaces as fit. */
function comparisonWarning(
  name: string,
  { from, reason, namespaces, pods }: TakenOverPods,
  { showsNamespaces }: SccWarningsInput,
): string {
  const cause = reason === 'ordered by name' ? 'its name comes first' : `it ${reason}`;
  const count = namespaces.length;
  for (let shown = showsNamespaces ? Math.min(count, MAX_NAMESPACES) : 0; ; shown--) {
    const where =
      shown === 0
        ? printCount(count, 'namespace')
        : `${plural(count, 'namespace')} ${joinNames(limitNames(namespaces, shown))}`;
    const text = `SCC ${quote(name)} would admit ${printCount(pods, 'pod')} instead of SCC ${quote(from)} in ${where} if recreated, because ${cause}`;
    if (text.length <= MAX_WARNING_LENGTH || shown <= 1) return text;
  }
}

/** Returns the first names and the number of omitted names. */
function limitNames(names: readonly string[], shown: number): readonly string[] {
  return names.length <= shown ? names : [...names.slice(0, shown), `${names.length - shown} more`];
}

function joinNames(names: readonly string[]): string {
  return names.length === 1 ? (names[0] ?? '') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`;
}
