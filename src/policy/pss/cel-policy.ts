/** Combines the CEL expressions of the checks into ValidatingAdmissionPolicy variables. */
import { celString } from '../../kube/cel.ts';
import { type BuildCel, CEL_INPUTS, type CelInputs, EXCEPTIONS } from './cel.ts';
import type { Exception } from './check.ts';
import { checks } from './checks/index.ts';
import { checksAt, latestVersion } from './evaluate.ts';
import { compareVersions, type Level, type Version } from './policy.ts';

/** The levels and the newest version that a set of variables covers. */
export interface CelScope {
  readonly levels: readonly Level[];
  /** The version that `latest` refers to. Defaults to the newest known version. */
  readonly emulationVersion?: Version | undefined;
}

/** A policy variable. It may read the variables that precede it. */
export interface CelVariable {
  readonly name: string;
  readonly expression: string;
}

/** The combined verdict of all checks. */
interface CelVerdict {
  /** The inputs of the checks, followed by a variable for each check that is true if the pod passes. */
  readonly variables: readonly CelVariable[];
  /** CEL bool that is true if the pod passes all checks. */
  readonly passes: string;
}

/** The combined verdict and message of all checks. Each check also has a variable with its message. */
interface CelChecks extends CelVerdict {
  /** CEL string with the violations and their details, in the format of Pod Security Admission messages. */
  readonly violations: string;
}

/** Returns the minor version that `latest` refers to. */
export function latestMinor({ emulationVersion }: Pick<CelScope, 'emulationVersion'>): number {
  return minorVersion(latestVersion(emulationVersion));
}

/** References to the variables of the inputs. `buildCelChecks` returns the variables that the checks read. */
export const INPUT_VARIABLES: CelInputs = {
  spec: 'variables.spec',
  annotations: 'variables.annotations',
  containers: 'variables.containers',
  volumes: 'variables.volumes',
  isWindows: 'variables.isWindows',
  hasUserNamespace: 'variables.hasUserNamespace',
};

/** References to the values that the combined expressions read. */
interface References extends CelInputs {
  readonly pod: string;
  /** Minor version of the policy. */
  readonly minor: string;
  /** Level of the policy, if there are several levels. */
  readonly level: string;
}

/**
 * Creates references that record their use. An expression contains exactly the references that were read to build it.
 */
function recordReferences(print: (name: string) => string) {
  const used = new Set<string>();
  const references = new Proxy({} as References, {
    get(_target, name: string) {
      used.add(name);
      return print(name);
    },
  });
  return { references, used };
}

/**
 * Builds the expressions of the checks. They read `variables.pod`, which is a pod or a pod template, and
 * `variables.minor`, which is the minor version of the policy. If there are several levels, they also read
 * `variables.level`.
 */
export function buildCelChecks(scope: CelScope): CelChecks {
  const { references, used } = recordReferences((name) => `variables.${name}`);
  const parts = combineChecks(scope, references);
  const own = parts.flatMap(({ id, passes, text }): CelVariable[] => [
    { name: id, expression: passes },
    { name: `${id}Text`, expression: `variables.${id} ? "" : ${text}` },
  ]);
  return {
    variables: [...usedInputs(references, used), ...own],
    passes: parts.map(({ id }) => `variables.${id}`).join(' && '),
    violations: `[${parts.map(({ id }) => `variables.${id}Text`).join(', ')}].filter(text, text != "").join(", ")`,
  };
}

/** Options for a second verdict in a policy, which is about another level and version. */
interface SecondVerdict {
  /** Names of the variables with the minor version and the level. */
  readonly minor: string;
  readonly level: string;
  /** Prefix for the variables of checks whose expressions the existing variables do not contain. */
  readonly prefix: string;
  readonly existing: readonly CelVariable[];
}

/** Builds a second verdict. Checks that evaluate the same expression share the variables of the first verdict. */
export function buildSecondVerdict(scope: CelScope, { existing, prefix, ...names }: SecondVerdict): CelVerdict {
  const { references, used } = recordReferences(
    (name) => `variables.${name === 'minor' || name === 'level' ? names[name] : name}`,
  );
  const known = new Map(existing.map(({ name, expression }) => [name, expression]));
  const verdicts = combineChecks(scope, references).map(({ id, passes }): CelVariable => {
    return { name: known.get(id) === passes ? id : `${prefix}${id}`, expression: passes };
  });
  return {
    variables: [...usedInputs(references, used), ...verdicts].filter(({ name }) => !known.has(name)),
    passes: verdicts.map(({ name }) => `variables.${name}`).join(' && '),
  };
}

/** Returns the inputs that expressions read, and the inputs on which these depend. */
function usedInputs(references: References, used: ReadonlySet<string>): readonly CelVariable[] {
  return Object.entries(CEL_INPUTS)
    .toReversed()
    .flatMap(([name, define]) => (used.has(name) ? { name, expression: define(references) } : []))
    .toReversed();
}

/**
 * Builds a CEL bool that is true only if a pod passes all checks of the levels at every version. It ignores the
 * exceptions of the checks. `pod` is the pod expression. `condition` builds an additional bool that must be true. The
 * result reads no variables, because match conditions cannot read them.
 */
export function passesEveryVersion(scope: CelScope, pod: string, condition: (inputs: CelInputs) => string): string {
  const { references, used } = recordReferences((name) => name);
  const rules = checks.flatMap(({ id }) => selectRevisions(id, scope).flatMap(({ build }) => build ?? []));
  const terms = new Set([condition(references), ...rules.map((build) => build(references).passes)]);
  const all = [...terms].map((term) => `(${term})`).join(' && ');
  return [{ name: 'pod', expression: pod }, ...usedInputs(references, used)].reduceRight(
    (body, { name, expression }) => `[${expression}].all(${name}, ${body})`,
    all,
  );
}

/** The rule of a check at one level. It applies from one version until the next selection. */
interface Selection {
  readonly since: Version;
  readonly level: Level;
  /** Builds the rule. Returns `undefined` if the check does not run. */
  readonly build: BuildCel | undefined;
  readonly unless: Exception | undefined;
}

/** Returns one selection of a check for each version that changes the checks of a level. */
function selectRevisions(id: string, { levels, emulationVersion }: CelScope): Selection[] {
  const newest = latestVersion(emulationVersion);
  const starts = checks.flatMap(({ versions }) => versions.map(({ since }) => since));
  const known = [...new Set(starts)].filter((since) => compareVersions(since, newest) <= 0).sort(compareVersions);
  return levels.flatMap((level) =>
    known.map((since) => {
      const selected = checksAt({ level, version: since, emulationVersion }).find((check) => check.id === id);
      return { since, level, build: selected?.cel, unless: selected?.unless };
    }),
  );
}

interface CombinedRule {
  readonly id: string;
  readonly passes: string;
  readonly text: string;
}

/** Combines the revisions of each check that runs at one of the levels. */
function combineChecks(scope: CelScope, references: References): readonly CombinedRule[] {
  return checks.flatMap(({ id }) => {
    const selections = selectRevisions(id, scope);
    return selections.every(({ build }) => build === undefined)
      ? []
      : [{ id, ...combine(selections, scope, references) }];
  });
}

/** Combines the revisions of a check. Where they differ, the minor version selects the expression. */
function combine(
  selections: readonly Selection[],
  { levels }: CelScope,
  references: References,
): Omit<CombinedRule, 'id'> {
  const rules = selections.flatMap(({ since, build, unless }) =>
    build === undefined
      ? []
      : [{ since, ...build(references), unless: unless === undefined ? 'false' : references[EXCEPTIONS[unless]] }],
  );
  const choose = (member: 'passes' | 'text' | 'unless'): string =>
    chooseByVersion(
      rules.map(({ since, [member]: expression }) => ({ since, expression })),
      references,
    );
  const skipped = levels.map((level) =>
    whereAbsent(
      selections.filter((selection) => selection.level === level),
      references,
    ),
  );
  const [first = '', second = first] = skipped;
  const isSkipped =
    first === second ? first : conditional(`${references.level} == ${celString(levels[0] ?? '')}`, first, second);
  return {
    passes: [isSkipped, choose('unless'), choose('passes')].filter((condition) => condition !== 'false').join(' || '),
    text: choose('text'),
  };
}

interface Choice {
  readonly since: Version;
  readonly expression: string;
}

/** Returns an expression that selects one of the choices by version, or the choice itself if all choices are equal. */
function chooseByVersion(choices: readonly Choice[], { minor }: Pick<References, 'minor'>): string {
  const sorted = choices.toSorted((a, b) => compareVersions(a.since, b.since));
  const changes = sorted.filter(({ expression }, index) => expression !== sorted[index - 1]?.expression);
  return changes.reduceRight(
    (later, { expression }, index) =>
      conditional(`${minor} < ${minorVersion(changes[index + 1]?.since ?? 'v1.0')}`, expression, later),
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
function whereAbsent(selections: readonly Selection[], { minor }: Pick<References, 'minor'>): string {
  const first = selections.findIndex(({ build }) => build !== undefined);
  if (first < 0) return 'true';
  const from = selections[first]?.since ?? 'v1.0';
  const to = selections.slice(first).find(({ build }) => build === undefined)?.since;
  const conditions = [
    ...(first === 0 ? [] : [`${minor} < ${minorVersion(from)}`]),
    ...(to === undefined ? [] : [`${minor} >= ${minorVersion(to)}`]),
  ];
  return conditions.length === 0 ? 'false' : conditions.join(' || ');
}

/** Returns the minor version of a Kubernetes 1.x version. */
export function minorVersion(version: Version): number {
  return Number(version.slice('v1.'.length));
}
