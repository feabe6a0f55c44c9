/** Warnings about SCCs: values without effect, SCCs that admit no pods, and pods that would move to another SCC. */
import { deepEqual } from '../../../kube/equality.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../../kube/names.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../../kube/scc.ts';
import { compareBytes, printCount, quote } from '../../../kube/text.ts';
import type { Namespace, Pod } from '../../../kube/types.ts';
import { decodeMutablePod, type PodFields } from '../../pod/pod.ts';
import { type CanUse, createMayUse, podSubjects } from '../access.ts';
import { allowsPod, completePod, ownContainerValues, ownPodValues } from '../complete.ts';
import { formatListWarning, formatWarning, MAX_WARNING_LENGTH, quoteName } from '../messages.ts';
import { type Compatibility, type Deviations, OPENSHIFT_REQUIRED_SCCS, resolveCompatibility } from '../mode.ts';
import { type NamespaceRanges, readNamespaceRanges } from '../namespace.ts';
import { createSccSet } from '../order.ts';
import { VOLUME_TYPES } from '../pod.ts';
import { explainOrder, type PreparedScc, prepareScc } from '../scc.ts';
import { planStandardScc, STANDARD_SCCS } from '../standard.ts';
import type { ContainerValues, PodValues } from '../strategies/strategy.ts';

/** A valid value in an SCC list that cannot match any pod value. */
export interface InvalidValue {
  readonly field: keyof SecurityContextConstraints;
  readonly index: number;
  readonly value: string;
  /** A verb phrase, such as `is not a volume type`. */
  readonly problem: string;
  /** The value that was probably intended. */
  readonly suggestion?: string;
}

/** Maximum number of values to check in each list. */
const MAX_VALUES = 1000;

/** Returns the values in the lists of an SCC that cannot match any pod value. */
export function findInvalidValues(scc: SecurityContextConstraints): readonly InvalidValue[] {
  return VALUE_CHECKS.flatMap(({ field, problem, isValid, suggest }) =>
    (scc[field] ?? []).slice(0, MAX_VALUES).flatMap((value, index) => {
      if (isValid(value)) return [];
      const suggestion = suggest(value);
      return [{ field, index, value, problem, ...(suggestion === undefined ? {} : { suggestion }) }];
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

/** No pod volume has the type `serviceAccountToken`, but the SCC API defines it. */
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

/** The invalid and missing SCCs of a cluster. */
export interface SccProblems {
  /** The SCCs that cannot be used in any namespace, by name, with the reason. */
  readonly broken: ReadonlyMap<string, string>;
  /** True if one of these SCCs causes every pod to be denied. */
  readonly brokenBlocks: boolean;
  /** Missing standard SCCs, other than the required ones. */
  readonly missing: readonly string[];
  /** Missing SCCs that must exist for any pod to be admitted. */
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
  const { requiredSccs, brokenScc } = resolveCompatibility(compatibility);
  const required = requiredSccs.filter((name) => !byName.has(name));
  return {
    brokenBlocks: brokenScc === 'deny',
    broken: new Map(broken.sort(([a], [b]) => compareBytes(a, b))),
    missing: OPENSHIFT_REQUIRED_SCCS.filter((name) => !byName.has(name) && !required.includes(name)),
    required,
  };
}

/** Formats the problems in a single line. Returns `undefined` if there are none. */
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
  return `${names.length === 1 ? 'SCC' : 'SCCs'} ${names.join(', ')} ${names.length === 1 ? 'is' : 'are'} missing`;
}

/** An SCC that is created or updated, the other SCCs, and the pods that they admitted. */
export interface SccWarningsInput {
  readonly scc: SecurityContextConstraints;
  /** The SCC before an update. Absent for a new SCC. */
  readonly oldScc?: SecurityContextConstraints | undefined;
  /** All existing SCCs. An SCC with the same name as `scc` is ignored. */
  readonly sccs: readonly SecurityContextConstraints[];
  readonly pods: readonly Pod[];
  /** Returns `undefined` for namespaces to which SCCs do not apply. */
  findNamespace(name: string): Namespace | undefined;
  readonly canUse: CanUse;
  /** Maximum number of pods to evaluate. The pods of one controller are alike and are counted as one. */
  readonly maxPods: number;
  readonly brokenScc: NonNullable<Deviations['brokenScc']>;
  /** Whether a controller reverts changes to the standard SCCs. */
  readonly reconcilesStandardSccs: boolean;
}

/** Evaluates pods in steps. Each `yield` returns whether time is left for another step. */
type Evaluation<T> = Generator<void, T, boolean>;

/** The pods of one SCC that another SCC would admit if they were recreated. */
interface TakenOverPods {
  /** The SCC that admitted the pods. */
  readonly from: string;
  /** The reason why the other SCC is ordered before that SCC. */
  readonly reason: string;
  readonly namespaces: readonly string[];
  readonly pods: number;
}

interface Comparison {
  readonly takenOver: readonly TakenOverPods[];
  /** The number of pods that were evaluated. */
  readonly tried: number;
  readonly total: number;
}

/** The pods of one controller under one SCC, or a single pod. */
interface PodGroup {
  readonly pod: Pod;
  readonly admittedBy: PreparedScc;
  size: number;
}

/**
 * Finds the pods that an SCC would admit instead of the SCC that admitted them. The SCC that admitted them must come
 * later in the order, the pod must fit, and its service account must be allowed to use the SCC.
 */
function* compareAdmission(scc: PreparedScc, input: SccWarningsInput): Evaluation<Comparison> {
  const others = input.sccs.filter((other) => other.metadata?.name !== scc.name);
  const groups = yield* groupPods(input.pods, listBehind([...others, input.scc], scc.name));
  if (groups === undefined) return { takenOver: [], tried: 0, total: input.pods.length };
  const oldScc = input.oldScc && prepareScc(input.oldScc);
  const behindOld = oldScc && listBehind([...others, input.oldScc], oldScc.name);
  const found: PodGroup[] = [];
  let tried = 0;
  for (const group of groups) {
    if (tried === input.maxPods || !(yield)) break;
    tried++;
    const admits = createAdmitter(group, scc, input);
    if (admits?.(scc) && !(oldScc && behindOld?.has(group.admittedBy.name) && admits(oldScc))) found.push(group);
  }
  return { takenOver: summarize(found, scc), tried, total: groups.length };
}

/** Returns the SCCs that are evaluated after the SCC with this name. */
function listBehind(objects: readonly SecurityContextConstraints[], sccName: string): ReadonlyMap<string, PreparedScc> {
  const { sccs } = createSccSet(objects);
  const index = sccs.findIndex(({ name }) => name === sccName);
  return new Map(sccs.slice(index + 1).map((other) => [other.name, other]));
}

/**
 * Skips pods that require an SCC through their annotation, because no other SCC admits them. Returns `undefined` if no
 * time is left.
 */
function* groupPods(
  pods: readonly Pod[],
  sccsBehind: ReadonlyMap<string, PreparedScc>,
): Evaluation<readonly PodGroup[] | undefined> {
  const groups = new Map<unknown, PodGroup>();
  for (const pod of pods) {
    if (!(yield)) return undefined;
    const { annotations = {}, ownerReferences, namespace = '' } = pod.metadata ?? {};
    const admittedBy = sccsBehind.get(annotations[POD_SCC_ANNOTATIONS.scc] ?? '');
    if (admittedBy === undefined || (annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '') continue;
    const owner = ownerReferences?.find(({ controller }) => controller === true);
    const key = owner ? `${namespace} ${owner.uid} ${admittedBy.name}` : pod;
    const group = groups.get(key);
    if (group) group.size++;
    else groups.set(key, { pod, admittedBy, size: 1 });
  }
  return [...groups.values()];
}

/**
 * Creates a function that returns whether versions of an SCC would admit a pod. The function returns `undefined` if
 * SCCs do not apply or if the use of the SCC is not granted.
 */
function createAdmitter(
  { pod, admittedBy }: PodGroup,
  scc: PreparedScc,
  input: SccWarningsInput,
): ((scc: PreparedScc) => boolean) | undefined {
  const namespaceName = pod.metadata?.namespace ?? '';
  const namespace = input.findNamespace(namespaceName);
  const decoded = decodeMutablePod(pod);
  if (!namespace || 'error' in decoded) return undefined;
  const ranges = readNamespaceRanges(namespace);
  if (ranges.problem !== undefined) return undefined;
  const mayUse = createMayUse(input.canUse, namespaceName);
  const subject = findCreator(decoded.pod, namespaceName);
  if (!mayUse(subject, scc)) return undefined;
  const search = { namespace: ranges, pod: mostPermissivePod(decoded.pod, admittedBy, ranges) };
  return (one) => mayUse(subject, one) && allowsPod(one, search);
}

/** The creator of a pod is not recorded. The service account stands in for it, or else any authenticated user. */
function findCreator({ serviceAccountName }: PodFields, namespaceName: string) {
  const userInfo = { username: '', groups: ['system:authenticated'] };
  const { serviceAccount, user } = podSubjects({ userInfo, serviceAccountName, namespaceName, identity: 'accurate' });
  return serviceAccount ?? user;
}

/**
 * Returns the pod without the values that its SCC would generate. If the creator set these values explicitly, the
 * result still allows more SCCs than the original pod.
 */
function mostPermissivePod(pod: PodFields, scc: PreparedScc, namespace: NamespaceRanges): PodFields {
  const bare = {
    ...pod,
    ...NO_POD_VALUES,
    containers: pod.containers.map((container) => ({ ...container, ...NO_CONTAINER_VALUES })),
  };
  const { podValues, containerValues } = completePod(scc, { namespace, pod: bare });
  const containers = pod.containers.map((container, index) => {
    const generated = containerValues[index];
    return generated ? { ...container, ...removeGenerated(ownContainerValues(container), generated) } : container;
  });
  const seccompAnnotation = pod.seccompAnnotation === podValues.seccompAnnotation ? '' : pod.seccompAnnotation;
  return { ...pod, ...removeGenerated(ownPodValues(pod), podValues), seccompAnnotation, containers };
}

const NO_POD_VALUES: PodValues = {
  fsGroup: undefined,
  supplementalGroups: undefined,
  seLinuxOptions: undefined,
  seccompAnnotation: '',
  seccompProfile: undefined,
};

const NO_CONTAINER_VALUES: ContainerValues = {
  runAsUser: undefined,
  runAsNonRoot: undefined,
  seLinuxOptions: undefined,
  seccompProfile: undefined,
  capabilities: undefined,
  readOnlyRootFilesystem: undefined,
  allowPrivilegeEscalation: undefined,
};

function removeGenerated<Values extends object>(values: Values, generated: Values): Values {
  const rest = { ...values };
  for (const key in rest) {
    if (deepEqual(values[key], generated[key])) Reflect.set(rest, key, undefined);
  }
  return rest;
}

/** Returns the pods by SCC, sorted by their number in descending order. */
function summarize(groups: readonly PodGroup[], scc: PreparedScc): readonly TakenOverPods[] {
  const takenOver = Array.from(
    Map.groupBy(groups, ({ admittedBy }) => admittedBy),
    ([from, ofScc]) => ({
      from: from.name,
      reason: explainOrder(scc, from),
      namespaces: [...new Set(ofScc.map(({ pod }) => pod.metadata?.namespace ?? ''))].sort(),
      pods: ofScc.reduce((sum, { size }) => sum + size, 0),
    }),
  );
  return takenOver.sort((a, b) => b.pods - a.pods);
}

const MAX_COMPARED_SCCS = 3;
const MAX_INVALID_VALUES = 3;
const MAX_NAMESPACES = 10;

/**
 * Returns warnings about a valid SCC: it admits no pods, it precedes other SCCs for all users, it would admit pods that
 * other SCCs admitted, or it has values without effect.
 */
export function* sccWarnings(input: SccWarningsInput): Evaluation<readonly string[]> {
  const scc = prepareScc(input.scc);
  const reconciled = reconciliationWarning(scc, input);
  if (reconciled !== undefined) return [reconciled];
  const defect = findSccDefect(input.scc);
  const effects =
    defect === undefined
      ? [...priorityWarnings(scc, input), ...(yield* comparisonWarnings(scc, input))]
      : [defectWarning(scc, defect, input)];
  return [...effects, ...invalidValueWarnings(scc, input)].map(formatWarning);
}

/** A change that is reverted immediately has no other effects. */
function reconciliationWarning({ name }: PreparedScc, input: SccWarningsInput): string | undefined {
  const { scc, reconcilesStandardSccs } = input;
  const standard = reconcilesStandardSccs && STANDARD_SCCS.find((one) => one.scc.metadata?.name === name);
  const fields = (standard && planStandardScc(standard, scc)?.fields) || [];
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

/** Returns the reason why a valid SCC admits no pods, or `undefined` if it can admit pods. */
export function findSccDefect(scc: unknown): string | undefined {
  const { fields, needs } = prepareScc(scc);
  if (needs.defect !== undefined) return needs.defect;
  const { type, uidRangeMin: min = 0, uidRangeMax: max = 0 } = fields.runAsUser;
  return type === 'MustRunAsRange' && min > max
    ? `runAsUser.uidRangeMin ${min} is greater than uidRangeMax ${max}`
    : undefined;
}

/** An SCC for which no provider can be created may block the pods of all other SCCs. */
function defectWarning({ name, needs }: PreparedScc, defect: string, { brokenScc }: SccWarningsInput): string {
  const blocksAll = brokenScc === 'deny' && needs.defect !== undefined;
  return `SCC ${quote(name)} ${blocksAll ? 'blocks every pod in the cluster' : 'admits no pod'}: ${defect}`;
}

const ANY_USER = { username: '', groups: ['system:authenticated'] };
const STANDARD_NAMES = new Set(STANDARD_SCCS.map(({ scc }) => scc.metadata?.name));

/** An SCC that has a priority and that all users may use replaces the standard SCCs. */
function priorityWarnings(scc: PreparedScc, { sccs, canUse }: SccWarningsInput): readonly string[] {
  const { priority } = scc.fields;
  const preceded = sccs
    .map(prepareScc)
    .filter(({ name, fields }) => name !== scc.name && STANDARD_NAMES.has(name) && fields.priority < priority)
    .map(({ name }) => name);
  const isForAll = scc.groups.includes('system:authenticated') || canUse(ANY_USER, scc.name, '');
  if (preceded.length === 0 || !isForAll) return [];
  const common = ['anyuid', 'restricted-v2'].filter((name) => preceded.includes(name));
  const names = formatNames(common.length === 0 ? limitNames(preceded, 2) : common);
  return [
    `SCC ${quote(scc.name)} is usable by all users, and its priority ${priority} puts it before ${names}, so it will admit every pod that it allows`,
  ];
}

function* comparisonWarnings(scc: PreparedScc, input: SccWarningsInput): Evaluation<readonly string[]> {
  const { name } = scc;
  const { takenOver, tried, total } = yield* compareAdmission(scc, input);
  const others = takenOver.slice(MAX_COMPARED_SCCS);
  const pods = others.reduce((sum, other) => sum + other.pods, 0);
  return [
    ...takenOver.slice(0, MAX_COMPARED_SCCS).map((one) => comparisonWarning(name, one)),
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

/** Names as many namespaces as fit. */
function comparisonWarning(name: string, { from, reason, namespaces, pods }: TakenOverPods): string {
  const cause = reason === 'ordered by name' ? 'it comes first by name' : `it ${reason}`;
  for (let shown = Math.min(namespaces.length, MAX_NAMESPACES); ; shown--) {
    const where = `${namespaces.length === 1 ? 'namespace' : 'namespaces'} ${formatNames(limitNames(namespaces, shown))}`;
    const text = `SCC ${quote(name)} would admit ${printCount(pods, 'pod')} instead of SCC ${quote(from)} in ${where} if recreated, because ${cause}`;
    if (text.length <= MAX_WARNING_LENGTH || shown <= 1) return text;
  }
}

/** Returns the first names and the number of remaining names. */
function limitNames(names: readonly string[], shown: number): readonly string[] {
  return names.length <= shown ? names : [...names.slice(0, shown), `${names.length - shown} more`];
}

function formatNames(names: readonly string[]): string {
  return names.length === 1 ? (names[0] ?? '') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`;
}
