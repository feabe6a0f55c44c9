/** Combines the CEL of the checks into the variables of a ValidatingAdmissionPolicy. */
import { celString } from '../../kube/cel.ts';
import { SHARED_VARIABLES, withoutListFunctions, type CelRule } from './cel.ts';
import { checks } from './checks/index.ts';
import { checksAt, latestVersion } from './evaluate.ts';
import { compareVersions, type Level, type Version } from './policy.ts';

/** The policies that a set of variables evaluates. */
export interface CelScope {
  /** With several levels, `variables.level` selects one of them. */
  readonly levels: readonly Level[];
  /** The version that `latest` means; absent: the newest known one. */
  readonly emulationVersion?: Version | undefined;
  /** True for API servers without the functions `flatten`, `distinct` and `sort` of lists. Texts are less exact then. */
  readonly hasListFunctions: boolean;
}

/** A variable of a policy. It may read the variables before it. */
export interface CelVariable {
  readonly name: string;
  readonly expression: string;
}

/** The verdict and the text of all checks. */
export interface CelChecks {
  /** One for each check, which is true if the pod passes, one for its text, and those that both need. */
  readonly variables: readonly CelVariable[];
  /** A bool: true if the pod passes all checks. */
  readonly passes: string;
  /** A string: the violations with their details, as in the messages of Pod Security Admission. */
  readonly violations: string;
}

/** The minor version that `latest` means. */
export function latestMinor({ emulationVersion }: Pick<CelScope, 'emulationVersion'>): number {
  return minorVersion(latestVersion(emulationVersion));
}

/** The expressions read `variables.pod`, a pod or pod template, and `variables.minor`, the minor version of the policy. */
export function buildCelChecks(scope: CelScope): CelChecks {
  const parts = checks.flatMap(({ id }) => {
    const selections = selectRevisions(id, scope);
    return selections.every(({ rule }) => rule === undefined) ? [] : [{ id, ...combine(selections, scope) }];
  });
  const adapt = (text: string): string => (scope.hasListFunctions ? text : withoutListFunctions(text));
  const all = parts.flatMap(({ id, variables, passes, text }): CelVariable[] => [
    ...variables.map(({ name, expression }) => ({ name, expression: adapt(expression) })),
    { name: id, expression: passes },
    { name: `${id}Text`, expression: adapt(`variables.${id} ? "" : ${text}`) },
  ]);
  // Checks of both levels share variables.
  const own = all.filter(({ name }, index) => all.findIndex((one) => one.name === name) === index);
  const shared = Object.entries(SHARED_VARIABLES).map(([name, expression]) => ({ name, expression }));
  return {
    variables: [...shared.filter(({ name }) => isUsed(name, [...shared, ...own])), ...own],
    passes: parts.map(({ id }) => `variables.${id}`).join(' && '),
    violations: `[${parts.map(({ id }) => `variables.${id}Text`).join(', ')}].filter(text, text != "").join(", ")`,
  };
}

function isUsed(name: string, variables: readonly CelVariable[]): boolean {
  return variables.some(({ expression }) => new RegExp(`\\bvariables\\.${name}\\b`).test(expression));
}

/** The rule of a check from one version until the next selection, at one level; no rule if the check does not run. */
interface Selection {
  readonly since: Version;
  readonly level: Level;
  readonly rule: CelRule | undefined;
}

/** The selections at each version at which the checks of a level change. */
function selectRevisions(id: string, { levels, emulationVersion }: CelScope): Selection[] {
  const newest = latestVersion(emulationVersion);
  const starts = checks.flatMap(({ versions }) => versions.map(({ since }) => since));
  const known = [...new Set(starts)].filter((since) => compareVersions(since, newest) <= 0).sort(compareVersions);
  return levels.flatMap((level) =>
    known.map((since) => {
      const selected = checksAt({ level, version: since, emulationVersion }).find((check) => check.id === id);
      return { since, level, rule: selected?.cel };
    }),
  );
}

interface CombinedRule {
  readonly variables: readonly CelVariable[];
  readonly passes: string;
  readonly text: string;
}

/** Combines the revisions of a check. What differs between them is selected by the minor version. */
function combine(selections: readonly Selection[], { levels }: CelScope): CombinedRule {
  const rules = selections.flatMap(({ since, rule }) => (rule === undefined ? [] : [{ since, rule }]));
  const names = new Set(rules.flatMap(({ rule }) => Object.keys(rule.variables ?? {})));
  const choose = (read: (rule: CelRule) => string | undefined): string =>
    chooseByVersion(rules.map(({ since, rule }) => ({ since, expression: read(rule) ?? '' })));
  const unless = chooseByVersion(rules.map(({ since, rule }) => ({ since, expression: rule.unless ?? 'false' })));
  const skipped = levels.map((level) => whereAbsent(selections.filter((one) => one.level === level)));
  const [first = '', second = first] = skipped;
  const isFirst = `variables.level == ${celString(levels[0] ?? '')}`;
  const conditions = [conditional(isFirst, first, second), unless, choose(({ passes }) => passes)];
  return {
    variables: [...names].map((name) => ({ name, expression: choose(({ variables }) => variables?.[name]) })),
    passes: conditions.filter((condition) => condition !== 'false').join(' || '),
    text: choose(({ text }) => text),
  };
}

interface Choice {
  readonly since: Version;
  /** Empty if any expression is correct from this version on. */
  readonly expression: string;
}

/** A conditional expression for the expressions from each version on; without a condition if all are equal. */
function chooseByVersion(choices: readonly Choice[]): string {
  const given = choices
    .filter(({ expression }) => expression !== '')
    .toSorted((a, b) => compareVersions(a.since, b.since));
  const changes = given.filter(({ expression }, index) => expression !== given[index - 1]?.expression);
  return changes.reduceRight(
    (later, { expression }, index) =>
      conditional(`variables.minor < ${minorVersion(changes[index + 1]?.since ?? 'v1.0')}`, expression, later),
    changes.at(-1)?.expression ?? '',
  );
}

/** `condition ? yes : no` in its shortest form. */
function conditional(condition: string, yes: string, no: string): string {
  if (yes === no) return yes;
  if (yes === 'true') return no === 'false' ? condition : `${condition} || ${no}`;
  if (yes === 'false') return no === 'true' ? `!(${condition})` : `!(${condition}) && (${no})`;
  return `(${condition} ? ${yes} : ${no})`;
}

/** A bool that is true for the versions at which a check does not run at a level. It runs in one range of versions. */
function whereAbsent(selections: readonly Selection[]): string {
  const first = selections.findIndex(({ rule }) => rule !== undefined);
  if (first < 0) return 'true';
  const from = selections[first]?.since ?? 'v1.0';
  const to = selections.slice(first).find(({ rule }) => rule === undefined)?.since;
  const conditions = [
    ...(first === 0 ? [] : [`variables.minor < ${minorVersion(from)}`]),
    ...(to === undefined ? [] : [`variables.minor >= ${minorVersion(to)}`]),
  ];
  return conditions.length === 0 ? 'false' : conditions.join(' || ');
}

/** Returns the minor version of Kubernetes 1. */
export function minorVersion(version: Version): number {
  return Number(version.slice('v1.'.length));
}
