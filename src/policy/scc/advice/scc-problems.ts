/**
 * Finds problems with SCCs, and returns warnings about them. Problems are list values that match nothing, SCCs that are
 * invalid, are missing or admit no pods, and pods that would move to another SCC.
 */
import { defined } from '../../../kube/defined.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../../kube/names.ts';
import type { SecurityContextConstraints } from '../../../kube/scc.ts';
import { compareBytes, plural, printCount, quote } from '../../../kube/text.ts';
import { type Compatibility, OPENSHIFT_REQUIRED_SCCS } from '../mode.ts';
import { createSccSet } from '../order.ts';
import { type PreparedScc, prepareScc } from '../scc.ts';
import { planStandardScc, STANDARD_SCCS } from '../standard.ts';
import { VOLUME_TYPES } from '../volume-types.ts';
import {
  compareAdmission,
  type SccWarningsInput,
  type StepwiseEvaluation,
  type TakenOverPods,
} from './admission-changes.ts';
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

/** Returns the warning about a change that a controller reverts immediately. Such a change needs no other warnings. */
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

/** Warns about an SCC that replaces the standard SCCs because it has a priority and is usable by all users. */
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
      : [`SCC ${quote(name)} was evaluated for only ${tried} of ${total} pods and may also admit other pods`]),
  ];
}

/** Formats the warning about pods that an SCC would take over. Lists as many namespaces as fit. */
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

// SCCs that are invalid or missing, or that admit no pods

/** The invalid and the missing SCCs of a cluster. */
export interface SccProblems {
  /** The reasons why SCCs cannot be used in any namespace, by SCC name. */
  readonly broken: ReadonlyMap<string, string>;
  /** True if a single broken SCC causes every pod to be denied. */
  readonly brokenBlocks: boolean;
  /** Missing standard SCCs, except required ones. */
  readonly missing: readonly string[];
  /** Missing SCCs that must exist before any pod is admitted. */
  readonly required: readonly string[];
}

export function findSccProblems(
  sccs: readonly SecurityContextConstraints[],
  compatibility?: Compatibility,
): SccProblems {
  const { byName } = createSccSet(sccs);
  const broken = [...byName.values()].flatMap(({ name, needs }) =>
    needs.defect === undefined ? [] : [[name, needs.defect] as const],
  );
  const isOpenShift = compatibility === 'openshift';
  const missing = OPENSHIFT_REQUIRED_SCCS.filter((name) => !byName.has(name));
  return {
    brokenBlocks: isOpenShift,
    broken: new Map(broken.sort(([a], [b]) => compareBytes(a, b))),
    missing: isOpenShift ? [] : missing,
    required: isOpenShift ? missing : [],
  };
}

/** Formats the problems on a single line. Returns `undefined` if there are no problems. */
export function formatSccProblems({ broken, brokenBlocks, missing, required }: SccProblems): string | undefined {
  const consequence = 'no pod is admitted because ';
  const problems = [
    ...(required.length === 0 ? [] : [`${consequence}required ${formatMissing(required)}`]),
    ...[...broken].map(([name, defect]) => `${brokenBlocks ? consequence : ''}SCC ${name} is invalid (${defect})`),
    ...(missing.length === 0 ? [] : [`standard ${formatMissing(missing)}`]),
  ];
  return problems.length === 0 ? undefined : problems.join('; ');
}

function formatMissing(names: readonly string[]): string {
  return `${plural(names.length, 'SCC')} ${names.join(', ')} ${plural(names.length, 'is', 'are')} missing`;
}

/** Returns the reason why a valid SCC admits no pods, or `undefined` if it can admit pods. */
export function findSccDefect(scc: unknown): string | undefined {
  const { fields, needs } = prepareScc(scc);
  if (needs.defect !== undefined) return needs.defect;
  const { type, uidRangeMin: min = 0, uidRangeMax: max = 0 } = fields.runAsUser;
  return type === 'MustRunAsRange' && min > max
    ? `runAsUser.uidRangeMin ${min} is greater than uidRangeMax ${max}`
    : undefined;
}

// Values in lists that cannot match any pod value

/** A value in an SCC list that is valid but cannot match any pod value. */
export interface InvalidValue {
  readonly field: keyof SecurityContextConstraints;
  readonly index: number;
  readonly value: string;
  /** A verb phrase, such as `is not a volume type`. */
  readonly problem: string;
  /** The value that the author probably meant. */
  readonly suggestion?: string;
}

/** Maximum number of values to check in each list. */
const MAX_VALUES = 1000;

/** Returns the values in an SCC's lists that cannot match any pod value. */
export function findInvalidValues(scc: SecurityContextConstraints): readonly InvalidValue[] {
  return VALUE_CHECKS.flatMap(({ field, problem, isValid, suggest }) =>
    (scc[field] ?? []).slice(0, MAX_VALUES).flatMap((value, index) => {
      if (isValid(value)) return [];
      const suggestion = suggest(value);
      return [{ field, index, value, problem, ...defined({ suggestion }) }];
    }),
  );
}

interface ValueCheck {
  readonly field:
    | 'volumes'
    | 'allowedCapabilities'
    | 'defaultAddCapabilities'
    | 'requiredDropCapabilities'
    | 'seccompProfiles'
    | 'users';
  readonly problem: string;
  isValid(value: string): boolean;
  suggest(value: string): string | undefined;
}

/** Valid volume types. No pod volume has the type `serviceAccountToken`, but the SCC API defines it. */
const VOLUMES = [...VOLUME_TYPES, 'serviceAccountToken', 'none', '*'];
const PROFILES = ['runtime/default', 'docker/default', 'unconfined', '*'];
const CAPABILITY = /^[A-Z][A-Z0-9_]*$/;
const ACCOUNT = 'system:serviceaccount:';

const CAPABILITY_CHECKS = (['allowedCapabilities', 'defaultAddCapabilities', 'requiredDropCapabilities'] as const).map(
  (field): ValueCheck => ({
    field,
    problem: 'is not a capability name',
    isValid: (value) => value === '*' || (CAPABILITY.test(value) && !value.startsWith('CAP_')),
    suggest(value) {
      const name = value.toUpperCase().replace(/^CAP_/, '');
      return CAPABILITY.test(name) ? name : undefined;
    },
  }),
);

const VALUE_CHECKS: readonly ValueCheck[] = [
  {
    field: 'volumes',
    problem: 'is not a volume type',
    isValid: (value) => VOLUMES.includes(value),
    suggest: (value) => VOLUMES.find((type) => type.toLowerCase() === value.toLowerCase()),
  },
  ...CAPABILITY_CHECKS,
  {
    field: 'seccompProfiles',
    problem: 'is not a seccomp profile',
    isValid: (value) => PROFILES.includes(value) || /^localhost\/./.test(value),
    suggest: (value) => PROFILES.find((profile) => normalizeProfile(profile) === normalizeProfile(value)),
  },
  {
    field: 'users',
    problem: `is not a service account (${ACCOUNT}NAMESPACE:NAME)`,
    isValid: (value) => !value.startsWith(ACCOUNT) || isAccount(value.slice(ACCOUNT.length)),
    suggest: () => undefined,
  },
];

function normalizeProfile(profile: string): string {
  return profile.toLowerCase().replace('/', '');
}

function isAccount(text: string): boolean {
  const [namespace = '', name = '', ...rest] = text.split(':');
  return rest.length === 0 && dnsLabelErrors(namespace).length === 0 && dnsSubdomainErrors(name).length === 0;
}
