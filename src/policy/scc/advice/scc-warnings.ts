import { dnsLabelErrors, dnsSubdomainErrors } from '../../../kube/names.ts';
import { type SecurityContextConstraints, POD_SCC_ANNOTATIONS } from '../../../kube/scc.ts';
import { VOLUME_TYPES } from '../decode/volume.ts';
import { compareBytes, quote } from '../../../kube/text.ts';
import { OPENSHIFT_REQUIRED_SCCS, resolveCompatibility } from '../mode.ts';
import { orderSccs, explainOrder, type OrderedSccs } from '../order.ts';
import type { Compatibility, CanUse, Deviations } from '../request.ts';
import { deepEqual } from '../../../kube/equality.ts';
import { ownContainerValues, ownPodValues } from '../attempt.ts';
import type { ContainerFields } from '../decode/container.ts';
import { type PodFields, decodePod } from '../decode/pod.ts';
import { type NamespaceRanges, namespaceRangesOf } from '../namespace.ts';
import { type PreparedScc, prepareScc } from '../scc.ts';
import { attemptScc, fitsScc } from '../search.ts';
import type { ContainerValues, PodValues } from '../strategies/index.ts';
import type { Namespace, Pod } from '../../../kube/types.ts';
import { createMayUse, subjectsOf } from '../access.ts';
import { planStandardScc, STANDARD_SCCS } from '../standard.ts';
import { enumerate, fit, named } from './warnings.ts';

/** A value of a list of an SCC that is valid but matches nothing, or hardly what was meant. */
export interface SccTypo {
  readonly field: keyof SecurityContextConstraints;
  readonly index: number;
  readonly value: string;
  /** What is wrong with it: `is no type of volume`. */
  readonly why: string;
  /** What was probably meant. */
  readonly meant?: string;
}

/** Nobody reads more. */
const MAX_VALUES = 1000;

/** Finds what somebody must have mistyped: it is compared with what pods have as it stands. */
export function sccTypos(scc: SecurityContextConstraints): readonly SccTypo[] {
  return CHECKS.flatMap(({ field, why, isRight, meant }) =>
    (scc[field] ?? []).slice(0, MAX_VALUES).flatMap((value, index) => {
      if (isRight(value)) return [];
      const better = meant(value);
      return [{ field, index, value, why, ...(better === undefined ? {} : { meant: better }) }];
    }),
  );
}

interface Check {
  readonly field:
    | 'volumes'
    | 'allowedCapabilities'
    | 'defaultAddCapabilities'
    | 'requiredDropCapabilities'
    | 'seccompProfiles'
    | 'users';
  readonly why: string;
  isRight(value: string): boolean;
  meant(value: string): string | undefined;
}

const VOLUMES = [...VOLUME_TYPES, 'none', '*'];
const PROFILES = ['runtime/default', 'docker/default', 'unconfined', '*'];
const ACCOUNT = 'system:serviceaccount:';

const CAPABILITIES = (['allowedCapabilities', 'defaultAddCapabilities', 'requiredDropCapabilities'] as const).map(
  (field): Check => ({
    field,
    why: 'is not how pods write a capability',
    isRight: (value) => value === '*' || (/^[A-Z][A-Z0-9_]*$/.test(value) && !value.startsWith('CAP_')),
    meant: (value) => inCapitals(value),
  }),
);

const CHECKS: readonly Check[] = [
  {
    field: 'volumes',
    why: 'is no type of volume',
    isRight: (value) => VOLUMES.includes(value),
    meant: (value) => VOLUMES.find((type) => type.toLowerCase() === value.toLowerCase()),
  },
  ...CAPABILITIES,
  {
    field: 'seccompProfiles',
    why: 'is no seccomp profile',
    isRight: (value) => PROFILES.includes(value) || /^localhost\/./.test(value),
    meant: (value) => PROFILES.find((profile) => lettersOf(profile) === lettersOf(value)),
  },
  {
    field: 'users',
    why: `is no service account, which is ${ACCOUNT}NAMESPACE:NAME`,
    isRight: (value) => !value.startsWith(ACCOUNT) || isAccount(value.slice(ACCOUNT.length)),
    meant: () => undefined,
  },
];

function inCapitals(value: string): string | undefined {
  const name = value.toUpperCase().replace(/^CAP_/, '');
  return /^[A-Z][A-Z0-9_]*$/.test(name) ? name : undefined;
}

function lettersOf(profile: string): string {
  return profile.toLowerCase().replace('/', '');
}

function isAccount(text: string): boolean {
  const [namespace = '', name = '', ...rest] = text.split(':');
  return rest.length === 0 && dnsLabelErrors(namespace).length === 0 && dnsSubdomainErrors(name).length === 0;
}

/** What decisions do without. */
export interface SccProblems {
  /** SCCs that work in no namespace, and why, by name. */
  readonly broken: ReadonlyMap<string, string>;
  /** Standard SCCs that are not there, and none of the required ones. */
  readonly missing: readonly string[];
  /** SCCs that are not there and without which no pod is admitted. */
  readonly required: readonly string[];
}

/** Finds SCCs that no pod can get, because they are wrong or not there. */
export function findSccProblems(sccs: readonly unknown[], compatibility?: Compatibility): SccProblems {
  const { byName } = orderSccs(sccs);
  const broken = [...byName.values()].flatMap(({ name, needs }) =>
    needs.defect === undefined ? [] : [[name, needs.defect] as const],
  );
  const required = resolveCompatibility(compatibility).requiredSccs.filter((name) => !byName.has(name));
  return {
    broken: new Map(broken.sort(([a], [b]) => compareBytes(a, b))),
    missing: OPENSHIFT_REQUIRED_SCCS.filter((name) => !byName.has(name) && !required.includes(name)),
    required,
  };
}

/** The problems in a line; `undefined` if there are none. */
export function printSccProblems({ broken, missing, required }: SccProblems): string | undefined {
  const parts = [...broken].map(([name, why]) => `${name} is broken (${why})`);
  if (required.length > 0) parts.unshift(`no pod is admitted, since ${listed(required)} required and missing`);
  if (missing.length > 0) parts.push(`${listed(missing)} missing`);
  return parts.length === 0 ? undefined : parts.join('; ');
}

function listed(names: readonly string[]): string {
  return `${names.join(', ')} ${names.length === 1 ? 'is' : 'are'}`;
}

/**
 * A pod as it was before an SCC completed it, as far as can be told: values that the SCC would give it anyway are left
 * open. Its creator may have asked for just these; then the pod is taken for laxer than it was.
 */
function openPod(pod: PodFields, scc: PreparedScc, namespace: NamespaceRanges): PodFields {
  const bare = { ...pod, ...NO_POD_VALUES, containers: pod.containers.map(withoutValues) };
  const { podValues, containerValues } = attemptScc(scc, { namespace, pod: bare });
  const containers = pod.containers.map((container, index) => {
    const generated = containerValues[index];
    return generated ? { ...container, ...openValues(ownContainerValues(container), generated) } : container;
  });
  return {
    ...pod,
    ...openValues(ownPodValues(pod), podValues),
    seccompAnnotation: openAnnotation(pod, podValues),
    containers,
  };
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

function withoutValues(container: ContainerFields): ContainerFields {
  return { ...container, ...NO_CONTAINER_VALUES };
}

/** Of values those that were not generated. */
function openValues<Values extends object>(own: Values, generated: Values): Values {
  const open = { ...own };
  for (const key in open) {
    if (deepEqual(own[key], generated[key])) Reflect.set(open, key, undefined);
  }
  return open;
}

function openAnnotation({ seccompAnnotation }: PodFields, generated: PodValues): string {
  return seccompAnnotation === generated.seccompAnnotation ? '' : seccompAnnotation;
}

/** An SCC that is written, among those that there are, and the pods that live under them. */
interface WinsInput {
  readonly scc: SecurityContextConstraints;
  /** As it was before; absent if it is new. */
  readonly oldScc?: SecurityContextConstraints | undefined;
  /** All that there are; one of the same name does not count. */
  readonly sccs: readonly SecurityContextConstraints[];
  readonly pods: readonly Pod[];
  /** `undefined` for namespaces in which SCCs do not count. */
  findNamespace(name: string): Namespace | undefined;
  readonly canUse: CanUse;
  /** How many pods are tried at most; those of one controller are alike and count as one. */
  readonly maxPods: number;
  /** True once the time is used up; asked after each pod. */
  isOver(): boolean;
}

/** The pods that an SCC would take over from another when they are created again. */
interface Win {
  /** The SCC that admitted them. */
  readonly from: string;
  /** Why the SCC is tried before that one. */
  readonly reason: string;
  readonly namespaces: readonly string[];
  readonly pods: number;
}

interface Wins {
  /** The most pods first. */
  readonly wins: readonly Win[];
  /** How many pods were tried, and how many there were to try. */
  readonly tried: number;
  readonly total: number;
}

/** Pods of one controller, which are alike; or a pod of its own. */
interface Group {
  readonly pod: Pod;
  readonly admittedBy: PreparedScc;
  size: number;
}

/**
 * Finds the pods that an SCC would win from others: those that were admitted by an SCC behind it, that fit it, and whose
 * service account may use it.
 */
export function winsOf(input: WinsInput): Wins {
  const scc = prepareScc(input.scc);
  const others = input.sccs.filter((other) => other.metadata?.name !== scc.name);
  const ordered = orderSccs([...others, input.scc]);
  const groups = groupPods(input.pods, behind(ordered, scc));
  const before = input.oldScc && {
    scc: prepareScc(input.oldScc),
    behind: behind(orderSccs([...others, input.oldScc]), prepareScc(input.oldScc)),
  };
  const won: Group[] = [];
  let tried = 0;
  for (const group of groups) {
    if (tried === input.maxPods || (tried > 0 && input.isOver())) break;
    tried++;
    const wins = createTrial(group, scc, input);
    if (wins?.(scc) && !(before?.behind.has(group.admittedBy.name) && wins(before.scc))) won.push(group);
  }
  return { wins: summarize(won, scc), tried, total: groups.length };
}

type Sccs = ReadonlyMap<string, PreparedScc>;

/** The SCCs that are tried after it. */
function behind({ sccs }: OrderedSccs, scc: PreparedScc): Sccs {
  return new Map(sccs.slice(sccs.indexOf(scc) + 1).map((other) => [other.name, other]));
}

/** Pods that name the SCC that they want are nobody's to win. */
function groupPods(pods: readonly Pod[], losers: Sccs): readonly Group[] {
  const groups = new Map<unknown, Group>();
  for (const pod of pods) {
    const { annotations = {}, ownerReferences, namespace = '' } = pod.metadata ?? {};
    const admittedBy = losers.get(annotations[POD_SCC_ANNOTATIONS.scc] ?? '');
    if (admittedBy === undefined || (annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '') !== '') continue;
    const owner = ownerReferences?.find(({ controller }) => controller === true);
    const key = owner ? `${namespace} ${owner.uid} ${admittedBy.name}` : pod;
    const group = groups.get(key);
    if (group) group.size++;
    else groups.set(key, { pod, admittedBy, size: 1 });
  }
  return [...groups.values()];
}

/** Says whether versions of an SCC would win a pod; `undefined` for a pod that is not judged, or where it is not granted. */
function createTrial(
  { pod, admittedBy }: Group,
  scc: PreparedScc,
  input: WinsInput,
): ((scc: PreparedScc) => boolean) | undefined {
  const namespaceName = pod.metadata?.namespace ?? '';
  const namespace = input.findNamespace(namespaceName);
  const decoded = decodePod(pod);
  if (!namespace || 'error' in decoded) return undefined;
  const ranges = namespaceRangesOf(namespace);
  if (ranges.problem !== undefined) return undefined;
  const mayUse = createMayUse(input.canUse, namespaceName);
  const subject = creatorOf(decoded.pod, namespaceName);
  // Asked first: it costs the least, and most SCCs are granted to few.
  if (!mayUse(subject, scc)) return undefined;
  const search = { namespace: ranges, pod: openPod(decoded.pod, admittedBy, ranges) };
  return (one) => mayUse(subject, one) && fitsScc(one, search);
}

/** Whoever creates the pod is authenticated; of its service account that is known, too. */
function creatorOf({ serviceAccountName }: PodFields, namespaceName: string) {
  const userInfo = { username: '', groups: ['system:authenticated'] };
  const { serviceAccount, user } = subjectsOf({ userInfo, serviceAccountName, namespaceName, identity: 'accurate' });
  return serviceAccount ?? user;
}

function summarize(won: readonly Group[], scc: PreparedScc): readonly Win[] {
  const wins = [...Map.groupBy(won, ({ admittedBy }) => admittedBy)].map(([from, groups]) => ({
    from: from.name,
    reason: explainOrder(scc, from),
    namespaces: [...new Set(groups.map(({ pod }) => pod.metadata?.namespace ?? ''))].sort(),
    pods: groups.reduce((sum, { size }) => sum + size, 0),
  }));
  return wins.sort((a, b) => b.pods - a.pods);
}

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
    `all users may use SCC ${quote(scc.name)}, and its priority ${priority} puts it before ${listedSccWarnings(which)}: it takes over every pod that fits it`,
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
    const where = `${namespaces.length === 1 ? 'namespace' : 'namespaces'} ${listedSccWarnings(firstOf(namespaces, shown))}`;
    const text = `SCC ${quote(name)} would win ${count(pods, 'pod')} of SCC ${quote(from)} in ${where} when created again: ${why}`;
    if (text.length <= MAX_LENGTH || shown <= 1) return text;
  }
}

/** The first names, and how many there are beside them. */
function firstOf(names: readonly string[], shown: number): readonly string[] {
  return names.length <= shown ? names : [...names.slice(0, shown), `${names.length - shown} more`];
}

function listedSccWarnings(names: readonly string[]): string {
  return names.length === 1 ? (names[0] ?? '') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
