import { compareBytes, sortedSet } from '../../kube/text.ts';
import { type JsonObject, isObject } from '../../kube/types.ts';
import type { Capabilities } from './decode/container.ts';
import {
  stringsAt,
  type Reader,
  booleanAt,
  boundedAt,
  createWords,
  elementAt,
  INT32,
  INT53,
  listAt,
  NOTHING,
  objectAt,
  stringAt,
} from './decode/reader.ts';
import { type FieldError, formatFieldError } from '../../kube/field-error.ts';
import { readSeLinuxOptions, type SeLinuxFields } from './decode/security-context.ts';
import { GROUPS } from './strategies/groups.ts';
import { RUN_AS_USER } from './strategies/run-as-user.ts';
import { SE_LINUX_CONTEXT } from './strategies/se-linux-context.ts';
import { auditKey, deniedText } from './messages.ts';

/** Each weighs more than all that come after it together. */
const PRIVILEGED = 1_600_000;
const HOST_PORTS = 800_000;
const HOST_NETWORK = 400_000;
const HOST_VOLUMES = 200_000;
const NON_TRIVIAL_VOLUMES = 100_000;

/** Counted once for `runAsUser` and once for `seLinuxContext`. */
const RUN_AS: Readonly<Record<string, number>> = {
  RunAsAny: 40_000,
  MustRunAsNonRoot: 30_000,
  MustRunAsRange: 20_000,
  MustRunAs: 10_000,
};
const RUN_AS_UNIT = 10_000;

const CAPABILITIES = { base: 5000, addOne: 300, allowAll: 4000, allowOne: 10, dropAll: -3000, dropOne: -50, max: 9999 };

const TRIVIAL_VOLUMES = new Set(['secret', 'configMap', 'emptyDir', 'downwardAPI', 'projected', 'none']);

/**
 * How lax an SCC is, in points.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/util/sort/byrestrictions.go
 */
function scoreOf(scc: SccFields): number {
  return (
    (scc.allowPrivilegedContainer ? PRIVILEGED : 0) +
    (scc.allowHostPorts ? HOST_PORTS : 0) +
    (scc.allowHostNetwork ? HOST_NETWORK : 0) +
    scoreOfVolumes(scc.volumes) +
    scoreOfType(scc.seLinuxContext.type) +
    scoreOfType(scc.runAsUser.type) +
    scoreOfCapabilities(scc.capabilities)
  );
}

const WEIGHTS: readonly (readonly [points: number, what: string])[] = [
  [PRIVILEGED, 'privileged'],
  [HOST_PORTS, 'host ports'],
  [HOST_NETWORK, 'host networking'],
  [HOST_VOLUMES, 'host volume mounts'],
  [NON_TRIVIAL_VOLUMES, 'non-trivial volume mounts'],
];

/** What makes the lower score the lower one; empty if it is not. */
export function explainScores(lower: number, higher: number): string {
  if (lower >= higher) return '';
  let restLower = lower;
  let restHigher = higher;
  for (const [points, what] of WEIGHTS) {
    if (restHigher < points) continue;
    if (restLower < points) return `forbids ${what}`;
    restLower -= points;
    restHigher -= points;
  }
  const isByRunAs = Math.trunc(restLower / RUN_AS_UNIT) < Math.trunc(restHigher / RUN_AS_UNIT);
  return isByRunAs ? 'permits less runAs strategies' : 'permits less capabilities';
}

function scoreOfType(type: string): number {
  return Object.hasOwn(RUN_AS, type) ? (RUN_AS[type] ?? 0) : 0;
}

function scoreOfVolumes(volumes: readonly string[]): number {
  if (volumes.some((type) => type === 'hostPath' || type === '*')) return HOST_VOLUMES;
  return volumes.every((type) => TRIVIAL_VOLUMES.has(type)) ? 0 : NON_TRIVIAL_VOLUMES;
}

function scoreOfCapabilities({ defaultAdd: added, allowed, requiredDrop: dropped }: CapabilitiesFields): number {
  const { base, addOne, allowAll, allowOne, dropAll, dropOne, max } = CAPABILITIES;
  const forAllowed = allowed.includes('*') || hasAll(allowed) ? allowAll : allowed.length * allowOne;
  const forDropped = hasAll(dropped) ? dropAll : dropped.length * dropOne;
  return Math.min(Math.max(base + added.length * addOne + forAllowed + forDropped, 0), max);
}

function hasAll(names: readonly string[]): boolean {
  return names.some((name) => name.toUpperCase() === 'ALL');
}

/** Lists up to this length are searched faster than sets, longer ones too if they are searched only a few times. */
const MAX_SEARCHED = 16;
const MAX_SEARCHES = 4;

const sets = new WeakMap<readonly string[], ReadonlySet<string>>();

/**
 * True if a list of an SCC or of a container has the name. Of a long list that is asked for many names a set is kept, for
 * as long as the list lives, which must not change.
 */
export function hasName(list: readonly string[], name: string, searches: number): boolean {
  if (list.length <= MAX_SEARCHED || searches <= MAX_SEARCHES) return list.includes(name);
  let set = sets.get(list);
  if (set === undefined) sets.set(list, (set = new Set(list)));
  return set.has(name);
}

const MAX_INSERTED = 32;

/** Both lists as one, without repetitions and sorted. */
function unionOf(a: readonly string[], b: readonly string[]): readonly string[] {
  return a.length + b.length > MAX_INSERTED ? merge(sortedOf(a), sortedOf(b)) : insertAll(insertAll([], a), b);
}

/** Lists of capabilities are short: names are put in their places one by one. */
function insertAll(names: string[], added: readonly string[]): string[] {
  for (const name of added) {
    if (names.includes(name)) continue;
    let index = names.length;
    while (index > 0 && compareBytes(names[index - 1] ?? '', name) > 0) index--;
    names.splice(index, 0, name);
  }
  return names;
}

const sorted = new WeakMap<readonly string[], readonly string[]>();

/** A container's list is joined with those of every SCC: it is sorted once. */
function sortedOf(list: readonly string[]): readonly string[] {
  let known = sorted.get(list);
  if (known === undefined) sorted.set(list, (known = sortedSet(list)));
  return known;
}

function merge(a: readonly string[], b: readonly string[]): readonly string[] {
  const names: string[] = [];
  let [next, other] = [0, 0];
  while (next < a.length || other < b.length) {
    const [x, y] = [a[next], b[other]];
    const order = x === undefined ? 1 : y === undefined ? -1 : compareBytes(x, y);
    if (order <= 0) next++;
    if (order >= 0) other++;
    names.push((order <= 0 ? x : y) ?? '');
  }
  return names;
}

/** What an SCC says of capabilities. */
export interface CapabilitiesFields {
  readonly defaultAdd: readonly string[];
  readonly requiredDrop: readonly string[];
  readonly allowed: readonly string[];
  /** What a container gets that has none; `undefined`: none. */
  readonly ofNone: Capabilities | undefined;
}

function readSccCapabilities(reader: Reader, scc: JsonObject): CapabilitiesFields {
  const lists = {
    defaultAdd: stringsAt(reader, scc, 'defaultAddCapabilities', ''),
    requiredDrop: stringsAt(reader, scc, 'requiredDropCapabilities', ''),
  };
  const isAnyDemanded = lists.defaultAdd.length > 0 || lists.requiredDrop.length > 0;
  return {
    ...lists,
    allowed: stringsAt(reader, scc, 'allowedCapabilities', ''),
    ofNone: isAnyDemanded ? complete(lists, { add: [], drop: [] }) : undefined,
  };
}

/** Returns the container's own if they lack nothing; else both lists without repetitions and sorted. */
export function complete(
  { defaultAdd, requiredDrop }: Pick<CapabilitiesFields, 'defaultAdd' | 'requiredDrop'>,
  own: Capabilities,
): Capabilities {
  const { add, drop } = own;
  const isDropped = (name: string): boolean => hasName(drop, name, defaultAdd.length);
  const lacksAdd = defaultAdd.some((name) => !hasName(add, name, defaultAdd.length) && !isDropped(name));
  const lacksDrop = requiredDrop.some((name) => !hasName(drop, name, requiredDrop.length));
  if (!lacksAdd && !lacksDrop) return own;
  const wanted = drop.length === 0 ? defaultAdd : defaultAdd.filter((name) => !isDropped(name));
  return { add: unionOf(add, wanted), drop: unionOf(drop, requiredDrop) };
}

/** Both ends belong to it; it is empty if `min` is above `max`. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

export interface RunAsUserFields {
  readonly type: string;
  readonly uid: number | undefined;
  readonly uidRangeMin: number | undefined;
  readonly uidRangeMax: number | undefined;
}

export interface SeLinuxContextFields {
  readonly type: string;
  readonly seLinuxOptions: SeLinuxFields | undefined;
}

export interface GroupFields {
  readonly type: string;
  readonly ranges: readonly Range[];
}

export interface SeccompProfilesFields {
  /** Without the wildcard. */
  readonly names: readonly string[];
  readonly isAnyAllowed: boolean;
}

/** What decisions read of an SCC: lists and booleans that are absent are empty and false. */
export interface SccFields {
  readonly name: string;
  readonly priority: number;
  readonly users: readonly string[];
  readonly groups: readonly string[];
  readonly allowPrivilegedContainer: boolean;
  readonly capabilities: CapabilitiesFields;
  /** Decisions on pods read `volumes` alone. */
  readonly allowHostDirVolumePlugin: boolean;
  readonly volumes: readonly string[];
  readonly allowedFlexVolumes: readonly string[];
  readonly allowHostNetwork: boolean;
  readonly allowHostPorts: boolean;
  readonly allowHostPID: boolean;
  readonly allowHostIPC: boolean;
  readonly userNamespaceLevel: string;
  readonly defaultAllowPrivilegeEscalation: boolean | undefined;
  readonly allowPrivilegeEscalation: boolean | undefined;
  readonly seLinuxContext: SeLinuxContextFields;
  readonly runAsUser: RunAsUserFields;
  readonly supplementalGroups: GroupFields;
  readonly fsGroup: GroupFields;
  readonly readOnlyRootFilesystem: boolean;
  readonly seccompProfiles: SeccompProfilesFields;
  readonly allowedUnsafeSysctls: readonly string[];
  readonly forbiddenSysctls: readonly string[];
}

/** SCCs have most of their words in common. */
const WORDS = createWords();

interface DecodedScc {
  readonly fields: SccFields;
  /** The first field of a wrong type; the rest then grants nothing. */
  readonly error: FieldError | undefined;
}

/** Reads an SCC, whatever it holds. */
export function decodeScc(scc: unknown): DecodedScc {
  const reader: Reader = { error: undefined, words: WORDS, items: 0 };
  const fields = readScc(reader, isObject(scc) ? scc : NOTHING);
  return { fields, error: reader.error };
}

function readScc(reader: Reader, scc: JsonObject): SccFields {
  return {
    name: stringAt(reader, objectAt(reader, scc, 'metadata', '') ?? NOTHING, 'name', 'metadata'),
    priority: boundedAt(reader, scc, 'priority', { path: '', ...INT32 }) ?? 0,
    users: stringsAt(reader, scc, 'users', ''),
    groups: stringsAt(reader, scc, 'groups', ''),
    allowPrivilegedContainer: booleanAt(reader, scc, 'allowPrivilegedContainer', '') ?? false,
    capabilities: readSccCapabilities(reader, scc),
    allowHostDirVolumePlugin: booleanAt(reader, scc, 'allowHostDirVolumePlugin', '') ?? false,
    volumes: stringsAt(reader, scc, 'volumes', ''),
    allowedFlexVolumes: readDrivers(reader, scc),
    allowHostNetwork: booleanAt(reader, scc, 'allowHostNetwork', '') ?? false,
    allowHostPorts: booleanAt(reader, scc, 'allowHostPorts', '') ?? false,
    allowHostPID: booleanAt(reader, scc, 'allowHostPID', '') ?? false,
    allowHostIPC: booleanAt(reader, scc, 'allowHostIPC', '') ?? false,
    userNamespaceLevel: stringAt(reader, scc, 'userNamespaceLevel', ''),
    defaultAllowPrivilegeEscalation: booleanAt(reader, scc, 'defaultAllowPrivilegeEscalation', ''),
    allowPrivilegeEscalation: booleanAt(reader, scc, 'allowPrivilegeEscalation', ''),
    seLinuxContext: readSeLinuxContext(reader, scc),
    runAsUser: readRunAsUser(reader, scc),
    supplementalGroups: readGroups(reader, scc, 'supplementalGroups'),
    fsGroup: readGroups(reader, scc, 'fsGroup'),
    readOnlyRootFilesystem: booleanAt(reader, scc, 'readOnlyRootFilesystem', '') ?? false,
    seccompProfiles: readSeccompProfiles(reader, scc),
    allowedUnsafeSysctls: stringsAt(reader, scc, 'allowedUnsafeSysctls', ''),
    forbiddenSysctls: stringsAt(reader, scc, 'forbiddenSysctls', ''),
  };
}

function readRunAsUser(reader: Reader, scc: JsonObject): RunAsUserFields {
  const options = objectAt(reader, scc, 'runAsUser', '') ?? NOTHING;
  return {
    type: stringAt(reader, options, 'type', 'runAsUser'),
    uid: idAt(reader, options, 'uid', 'runAsUser'),
    uidRangeMin: idAt(reader, options, 'uidRangeMin', 'runAsUser'),
    uidRangeMax: idAt(reader, options, 'uidRangeMax', 'runAsUser'),
  };
}

function idAt(reader: Reader, owner: JsonObject, key: string, path: string): number | undefined {
  return boundedAt(reader, owner, key, { path, ...INT53 });
}

function readSeLinuxContext(reader: Reader, scc: JsonObject): SeLinuxContextFields {
  const options = objectAt(reader, scc, 'seLinuxContext', '') ?? NOTHING;
  return {
    type: stringAt(reader, options, 'type', 'seLinuxContext'),
    seLinuxOptions: readSeLinuxOptions(reader, options, 'seLinuxContext'),
  };
}

function readSeccompProfiles(reader: Reader, scc: JsonObject): SeccompProfilesFields {
  const profiles = stringsAt(reader, scc, 'seccompProfiles', '');
  const isAnyAllowed = profiles.includes('*');
  return { names: isAnyAllowed ? profiles.filter((name) => name !== '*') : profiles, isAnyAllowed };
}

function readGroups(reader: Reader, scc: JsonObject, field: 'fsGroup' | 'supplementalGroups'): GroupFields {
  const options = objectAt(reader, scc, field, '') ?? NOTHING;
  const list = listAt(reader, options, 'ranges', field);
  const ranges = list.map((_, index) => {
    const range = elementAt(reader, list, index, `${field}.ranges`);
    const path = `${field}.ranges[${index}]`;
    return { min: idAt(reader, range, 'min', path) ?? 0, max: idAt(reader, range, 'max', path) ?? 0 };
  });
  return { type: stringAt(reader, options, 'type', field), ranges };
}

function readDrivers(reader: Reader, scc: JsonObject): readonly string[] {
  const list = listAt(reader, scc, 'allowedFlexVolumes', '');
  return list.map((_, index) =>
    stringAt(reader, elementAt(reader, list, index, 'allowedFlexVolumes'), 'driver', `allowedFlexVolumes[${index}]`),
  );
}

/** What an SCC takes from the namespace of the pod, and why it works in none. */
export interface Needs {
  readonly uidRange: boolean;
  readonly seLinuxLevel: boolean;
  readonly fsGroup: boolean;
  readonly supplementalGroups: boolean;
  /** A strategy of an unknown type, or one that lacks options which no namespace fills in. */
  readonly defect: string | undefined;
}

/** `problem` is a field of a wrong type, as a message. */
function needsOf(scc: SccFields, problem: string | undefined): Needs {
  const { runAsUser, seLinuxContext, fsGroup, supplementalGroups } = scc;
  const needs = {
    uidRange:
      runAsUser.type === 'MustRunAsRange' && runAsUser.uidRangeMin === undefined && runAsUser.uidRangeMax === undefined,
    seLinuxLevel: seLinuxContext.type === 'MustRunAs' && (seLinuxContext.seLinuxOptions?.level ?? '') === '',
    fsGroup: fsGroup.type === 'MustRunAs' && fsGroup.ranges.length === 0,
    supplementalGroups: supplementalGroups.type === 'MustRunAs' && supplementalGroups.ranges.length === 0,
  };
  const defect = problem ?? findDefect(scc, needs);
  return defect === undefined ? shared(needs) : { ...needs, defect };
}

const known = new Map<string, Needs>();

/** Equal needs are the same object: they are asked of every SCC, and there are only a few. */
function shared(needs: Omit<Needs, 'defect'>): Needs {
  const key = Object.values(needs).join();
  let same = known.get(key);
  if (same === undefined) known.set(key, (same = { ...needs, defect: undefined }));
  return same;
}

function findDefect(scc: SccFields, needs: Omit<Needs, 'defect'>): string | undefined {
  return (
    (needs.uidRange ? undefined : defectOf(RUN_AS_USER, scc.runAsUser, 'RunAsUser')) ??
    (needs.seLinuxLevel ? undefined : defectOf(SE_LINUX_CONTEXT, scc.seLinuxContext, 'SELinuxContext')) ??
    (needs.fsGroup ? undefined : defectOf(GROUPS, scc.fsGroup, 'FSGroup')) ??
    (needs.supplementalGroups ? undefined : defectOf(GROUPS, scc.supplementalGroups, 'SupplementalGroups'))
  );
}

function defectOf<Options extends { readonly type: string }>(
  strategies: ReadonlyMap<string, { defect(options: Options): string | undefined }>,
  options: Options,
  name: string,
): string | undefined {
  const strategy = strategies.get(options.type);
  return strategy ? strategy.defect(options) : `Unrecognized ${name} strategy type ${options.type}`;
}

/** An SCC as decisions use it. At hand lies what is asked of every SCC; `fields` are read of those that are tried. */
export interface PreparedScc {
  readonly name: string;
  readonly users: readonly string[];
  readonly groups: readonly string[];
  /** True if there are users or groups. */
  readonly namesSubjects: boolean;
  readonly fields: SccFields;
  /** The higher, the laxer. */
  readonly score: number;
  readonly needs: Needs;
  /** The key of what the audit log says of it. */
  readonly auditKey: string;
  /** What is said where it may not be used. */
  readonly deniedText: string;
}

const prepared = new WeakMap<object, PreparedScc>();

/** What an SCC amounts to; remembered for as long as the object lives, which must not change. */
export function prepareScc(scc: unknown): PreparedScc {
  if (typeof scc !== 'object' || scc === null) return prepare(scc);
  let known = prepared.get(scc);
  if (known === undefined) prepared.set(scc, (known = prepare(scc)));
  return known;
}

function prepare(scc: unknown): PreparedScc {
  const { fields, error } = decodeScc(scc);
  const { name, users, groups } = fields;
  return {
    name,
    users,
    groups,
    namesSubjects: users.length > 0 || groups.length > 0,
    fields,
    score: scoreOf(fields),
    needs: needsOf(fields, error && formatFieldError(error)),
    auditKey: auditKey(name),
    deniedText: deniedText(name),
  };
}
