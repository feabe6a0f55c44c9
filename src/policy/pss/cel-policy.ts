/** Combines the CEL expressions of the checks into ValidatingAdmissionPolicy variables. */
import { celString } from '../../kube/cel.ts';
import { type CelRule, EXCEPTIONS, SHARED_VARIABLES } from './cel.ts';
import type { Exception } from './check.ts';
import { checks } from './checks/index.ts';
import { checksAt, latestVersion } from './evaluate.ts';
import { compareVersions, type Level, type Version } from './policy.ts';

/** The levels and versions that a set of variables covers. */
export interface CelScope {
  /** If there are several levels, `variables.level` selects one of them. */
  readonly levels: readonly Level[];
  /** The version that `latest` refers to. Defaults to the newest known version. */
  readonly emulationVersion?: Version | undefined;
}

/** A policy variable. It may read the variables that precede it. */
export interface CelVariable {
  readonly name: string;
  readonly expression: string;
}

/** The combined verdict and message of all checks. */
interface CelChecks {
  /** The shared variables, followed by two variables for each check: whether the pod passes, and the message. */
  readonly variables: readonly CelVariable[];
  /** CEL bool that is true if the pod passes all checks. */
  readonly passes: string;
  /** CEL string with the violations and their details, as in Pod Security Admission messages. */
  readonly violations: string;
}

/** Returns the minor version that `latest` refers to. */
export function latestMinor({ emulationVersion }: Pick<CelScope, 'emulationVersion'>): number {
  return minorVersion(latestVersion(emulationVersion));
}

/**
 * Builds expressions that read `variables.pod`, which is a pod or a pod template, and `variables.minor`, which is the
 * minor version of the policy.
 */
export function buildCelChecks(scope: CelScope): CelChecks {
  const parts = checks.flatMap(({ id }) => {
    const selections = selectRevisions(id, scope);
    return selections.every(({ rule }) => rule === undefined) ? [] : [{ id, ...combine(selections, scope) }];
  });
  const own = parts.flatMap(({ id, passes, text }): CelVariable[] => [
    { name: id, expression: passes },
    { name: `${id}Text`, expression: `variables.${id} ? "" : ${text}` },
  ]);
  const shared = Object.entries(SHARED_VARIABLES).map(([name, expression]) => ({ name, expression }));
  return {
    variables: [...shared.filter(({ name }) => isUsed(name, [...shared, ...own])), ...own],
    passes: parts.map(({ id }) => `variables.${id}`).join(' && '),
    violations: `[${parts.map(({ id }) => `variables.${id}Text`).join(', ')}].filter(text, text != "").join(", ")`,
  };
}

/**
 * Builds a CEL bool that is true only if a pod passes all checks of the levels at every version. It ignores the
 * exceptions of the checks. `pod` is the pod expression. `conditions` are additional bools that must be true and may
 * read the shared variables. The result reads no variables because match conditions cannot read them.
 */
export function passesEveryVersion(scope: CelScope, pod: string, conditions: readonly string[]): string {
  const rules = checks.flatMap(({ id }) => selectRevisions(id, scope).flatMap(({ rule }) => rule ?? []));
  const terms = new Set([...conditions, ...rules.map(inlineVariables)]);
  const all = [...terms].map((term) => `(${term})`).join(' && ');
  return Object.entries({ pod, ...SHARED_VARIABLES })
    .reduceRight(
      (body, [name, value]) => (listReferences(body).includes(name) ? `[${value}].all(${name}, ${body})` : body),
      all,
    )
    .replaceAll('variables.', '');
}

/** Returns the condition of a rule after replacing the rule's variables with their expressions. */
function inlineVariables({ passes, variables = {} }: CelRule): string {
  return passes.replace(REFERENCE, (reference, name: string) =>
    name in variables ? `(${variables[name]})` : reference,
  );
}

/**
 * Returns the text of a rule, with its variables bound inside the expression. API servers prepare all policy variables
 * for each request, even if no expression reads them.
 */
function bindVariables({ text, variables = {} }: CelRule): string {
  return Object.entries(variables)
    .reduceRight(
      (body, [name, value]) => (listReferences(body).includes(name) ? `[${value}].map(${name}, ${body})[0]` : body),
      text,
    )
    .replace(REFERENCE, (reference, name: string) => (name in variables ? name : reference));
}

/** Matches a reference to a variable in an expression. */
const REFERENCE = /\bvariables\.(\w+)/g;

/**
 * Rewrites the verdict to read other inputs than `variables.minor` and `variables.level`, so one policy can evaluate
 * both. `renames` contains the new names of these inputs. Variables that depend on them get the prefix, and all other
 * variables keep their names.
 */
export function withOtherInputs(
  { variables, passes }: CelChecks,
  renames: Readonly<Record<'minor' | 'level', string>>,
  prefix: string,
): Pick<CelChecks, 'variables' | 'passes'> {
  const needed = new Set(listReferences(passes));
  for (const { name, expression } of variables.toReversed()) {
    if (needed.has(name)) listReferences(expression).forEach((reference) => needed.add(reference));
  }
  const names = new Map<string, string>(Object.entries(renames));
  const rename = (expression: string): string =>
    expression.replace(REFERENCE, (_, name: string) => `variables.${names.get(name) ?? name}`);
  const renamed = variables.flatMap(({ name, expression }): readonly CelVariable[] => {
    if (!needed.has(name)) return [];
    if (listReferences(expression).some((reference) => names.has(reference))) names.set(name, `${prefix}${name}`);
    return [{ name: names.get(name) ?? name, expression: rename(expression) }];
  });
  return { variables: renamed, passes: rename(passes) };
}

function listReferences(expression: string): readonly string[] {
  return Array.from(expression.matchAll(REFERENCE), ([, name = '']) => name);
}

function isUsed(name: string, variables: readonly CelVariable[]): boolean {
  return variables.some(({ expression }) => listReferences(expression).includes(name));
}

/**
 * The rule of a check at one level. It applies from one version until the next selection. There is no rule if the check
 * does not run.
 */
interface Selection {
  readonly since: Version;
  readonly level: Level;
  readonly rule: CelRule | undefined;
  readonly unless: Exception | undefined;
}

/** Returns one selection for each version that changes the checks of a level. */
function selectRevisions(id: string, { levels, emulationVersion }: CelScope): Selection[] {
  const newest = latestVersion(emulationVersion);
  const starts = checks.flatMap(({ versions }) => versions.map(({ since }) => since));
  const known = [...new Set(starts)].filter((since) => compareVersions(since, newest) <= 0).sort(compareVersions);
  return levels.flatMap((level) =>
    known.map((since) => {
      const selected = checksAt({ level, version: since, emulationVersion }).find((check) => check.id === id);
      return { since, level, rule: selected?.cel, unless: selected?.unless };
    }),
  );
}

interface CombinedRule {
  readonly passes: string;
  readonly text: string;
}

/** Combines the revisions of a check. Where they differ, the minor version selects the expression. */
function combine(selections: readonly Selection[], { levels }: CelScope): CombinedRule {
  const rules = selections.flatMap(({ rule, ...rest }) => (rule === undefined ? [] : [{ ...rest, rule }]));
  const choose = (write: (rule: CelRule) => string): string =>
    chooseByVersion(rules.map(({ since, rule }) => ({ since, expression: write(rule) })));
  const unless = chooseByVersion(
    rules.map(({ since, unless }) => ({ since, expression: unless === undefined ? 'false' : EXCEPTIONS[unless] })),
  );
  const skipped = levels.map((level) => whereAbsent(selections.filter((selection) => selection.level === level)));
  const [first = '', second = first] = skipped;
  const isFirst = `variables.level == ${celString(levels[0] ?? '')}`;
  const conditions = [conditional(isFirst, first, second), unless, choose(inlineVariables)];
  return {
    passes: conditions.filter((condition) => condition !== 'false').join(' || '),
    text: choose(bindVariables),
  };
}

interface Choice {
  readonly since: Version;
  readonly expression: string;
}

/** Returns an expression that selects a choice by version, or the choice itself if all choices are equal. */
function chooseByVersion(choices: readonly Choice[]): string {
  const sorted = choices.toSorted((a, b) => compareVersions(a.since, b.since));
  const changes = sorted.filter(({ expression }, index) => expression !== sorted[index - 1]?.expression);
  return changes.reduceRight(
    (later, { expression }, index) =>
      conditional(`variables.minor < ${minorVersion(changes[index + 1]?.since ?? 'v1.0')}`, expression, later),
    changes.at(-1)?.expression ?? '',
  );
}

/** Returns the shortest form of `condition ? yes : no`. */
function conditional(condition: string, yes: string, no: string): string {
  if (yes === no) return yes;
  if (yes === 'true') return no === 'false' ? condition : `${condition} || ${no}`;
  if (yes === 'false') return no === 'true' ? `!(${condition})` : `!(${condition}) && (${no})`;
  return `(${condition} ? ${yes} : ${no})`;
}

/**
 * Returns a CEL bool that is true for the versions that do not run a check at a level. Each check runs in one
 * contiguous range of versions.
 */
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

/** Returns the minor version of a Kubernetes 1.x version. */
export function minorVersion(version: Version): number {
  return Number(version.slice('v1.'.length));
}
