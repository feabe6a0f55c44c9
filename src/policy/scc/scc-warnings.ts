import { quote } from '../../kube/quote.ts';
import { planStandardScc } from './plan-standard.ts';
import { prepareScc, type PreparedScc } from './prepare.ts';
import { sccTypos } from './scc-typos.ts';
import { enumerate, fit, named } from './sentence.ts';
import { STANDARD_SCCS } from './standard.ts';
import type { CanUse, Deviations } from './types.ts';
import { winsOf, type Win, type WinsInput } from './wins.ts';

export interface SccWarningsInput extends WinsInput {
  readonly brokenScc: NonNullable<Deviations['brokenScc']>;
  /** What becomes of the SCCs that ship with the platform when they are changed; absent, nothing. */
  readonly standardSccs?: 'kept' | 'left alone';
}

const MAX_WINS = 3;
const MAX_TYPOS = 3;
const MAX_NAMESPACES = 10;
const MAX_LENGTH = 256;

/**
 * What whoever writes an SCC should know, though nothing is wrong with it by the rules: that no pod can use it, that it
 * comes before others for everybody, and which pods it would win from others. Of 256 characters at most each: API servers
 * may cut longer ones.
 */
export function sccWarnings(input: SccWarningsInput): readonly string[] {
  const scc = prepareScc(input.scc);
  const undone = warnOfUpkeep(scc, input);
  const warnings = undone === undefined ? [...warnOfEffects(scc, input), ...warnOfTypos(scc, input)] : [undone];
  return warnings.map((text) => (text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text));
}

function warnOfEffects(scc: PreparedScc, input: SccWarningsInput): readonly string[] {
  const defect = sccDefect(input.scc);
  return defect === undefined
    ? [...warnOfEverybody(scc, input), ...warnOfWins(scc, input)]
    : [warnOfDefect(scc, defect, input)];
}

/** What is set right at once has no effects. */
function warnOfUpkeep({ name }: PreparedScc, { scc, standardSccs }: SccWarningsInput): string | undefined {
  const standard = standardSccs === 'kept' ? STANDARD_SCCS.find((one) => one.scc.metadata?.name === name) : undefined;
  const fields = standard && planStandardScc(standard, scc)?.fields;
  if (fields === undefined || fields.length === 0) return undefined;
  return enumerate({
    head: `SCC ${quote(name)} ships with the platform and is kept as it is: what differs will be undone at once; write an SCC of another name instead (`,
    items: fields,
    tail: ')',
  });
}

/** What nobody can have meant, though it is valid. */
function warnOfTypos({ name }: PreparedScc, { scc }: SccWarningsInput): readonly string[] {
  const typos = sccTypos(scc);
  const rest = typos.length - MAX_TYPOS;
  return [
    ...typos.slice(0, MAX_TYPOS).map(({ field, value, why, meant }) => {
      const remedy = meant === undefined ? '' : `; write ${quote(meant)}`;
      return fit(`SCC ${quote(name)}: ${named(value)} in ${field} ${why}${remedy}`);
    }),
    ...(rest > 0
      ? [`SCC ${quote(name)} has ${count(rest, 'more value')} that ${rest === 1 ? 'is' : 'are'} mistyped`]
      : []),
  ];
}

/** Why no pod can use an SCC, though the rules for SCCs let it pass. */
export function sccDefect(scc: unknown): string | undefined {
  const { fields, needs } = prepareScc(scc);
  if (needs.defect !== undefined) return needs.defect;
  const { type, uidRangeMin: min = 0, uidRangeMax: max = 0 } = fields.runAsUser;
  return type === 'MustRunAsRange' && min > max
    ? `runAsUser.uidRangeMin ${min} is above uidRangeMax ${max}`
    : undefined;
}

/** An SCC of which no provider can be made may stop the pods of all others, too. */
function warnOfDefect({ name, needs }: PreparedScc, defect: string, { brokenScc }: SccWarningsInput): string {
  const stopsAll = brokenScc === 'refuse' && needs.defect !== undefined;
  return stopsAll
    ? `SCC ${quote(name)} stops every pod of the cluster: ${defect}`
    : `no pod can use SCC ${quote(name)}: ${defect}`;
}

const EVERYBODY = { username: '', groups: ['system:authenticated'] };
const STANDARD = new Set(STANDARD_SCCS.map(({ scc }) => scc.metadata?.name));

/** A priority is meant to bring an SCC to the front for those who may use it; for everybody it changes the standard. */
function warnOfEverybody(scc: PreparedScc, { sccs, canUse }: SccWarningsInput): readonly string[] {
  const { priority } = scc.fields;
  const isPreempted = ({ name, fields }: PreparedScc): boolean =>
    name !== scc.name && STANDARD.has(name) && fields.priority < priority;
  const preempted = sccs
    .map(prepareScc)
    .filter(isPreempted)
    .map(({ name }) => name);
  if (preempted.length === 0 || !isForEverybody(scc, canUse)) return [];
  const known = ['anyuid', 'restricted-v2'].filter((name) => preempted.includes(name));
  const which = known.length === 0 ? firstOf(preempted, 2) : known;
  return [
    `all users may use SCC ${quote(scc.name)}, and its priority ${priority} puts it before ${listed(which)}: it takes over every pod that fits it`,
  ];
}

function isForEverybody({ name, groups }: PreparedScc, canUse: CanUse): boolean {
  return groups.includes('system:authenticated') || canUse(EVERYBODY, name, '');
}

function warnOfWins({ name }: PreparedScc, input: SccWarningsInput): readonly string[] {
  const { wins, tried, total } = winsOf(input);
  const others = wins.slice(MAX_WINS);
  const pods = others.reduce((sum, win) => sum + win.pods, 0);
  return [
    ...wins.slice(0, MAX_WINS).map((win) => warnOfWin(name, win)),
    ...(others.length === 0
      ? []
      : [`SCC ${quote(name)} would also win ${count(pods, 'pod')} of ${count(others.length, 'other SCC')}`]),
    ...(tried === total ? [] : [`SCC ${quote(name)} was tried on ${tried} of ${total} pods only; it may win others`]),
  ];
}

/** Names as many namespaces as there is room for. */
function warnOfWin(name: string, { from, reason, namespaces, pods }: Win): string {
  const why = reason === 'ordered by name' ? 'it comes first by name' : `it ${reason}`;
  for (let shown = Math.min(namespaces.length, MAX_NAMESPACES); ; shown--) {
    const where = `${namespaces.length === 1 ? 'namespace' : 'namespaces'} ${listed(firstOf(namespaces, shown))}`;
    const text = `SCC ${quote(name)} would win ${count(pods, 'pod')} of SCC ${quote(from)} in ${where} when created again: ${why}`;
    if (text.length <= MAX_LENGTH || shown <= 1) return text;
  }
}

/** The first names, and how many there are beside them. */
function firstOf(names: readonly string[], shown: number): readonly string[] {
  return names.length <= shown ? names : [...names.slice(0, shown), `${names.length - shown} more`];
}

function listed(names: readonly string[]): string {
  return names.length === 1 ? (names[0] ?? '') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
