import {
  POD_SECURITY_LABELS,
  FORMER_LABEL_SYNC_MANAGER,
  LABEL_SYNC_MANAGER,
  LABEL_SYNC_LABEL,
  SUFFICIENT_LEVEL_ANNOTATION,
} from '../../kube/well-known.ts';
import { isLevel, type Level, parseVersion } from '../pss/policy.ts';
import { MODES, type Mode, isStricter } from '../psa/policy.ts';
import { type FieldOwner, getMetadataOwners } from '../../kube/managed-fields.ts';
import { type Namespace, isObject, type JsonObject } from '../../kube/types.ts';
import { sccMode, type SccSettings } from '../scc/mode.ts';
import { type SecurityContextConstraints, NAMESPACE_RANGE_ANNOTATIONS } from '../../kube/scc.ts';
import { serviceAccountSubject } from '../scc/access.ts';
import { prepareScc } from '../scc/scc.ts';
import type { CanUse, Subject } from '../scc/access.ts';
import { getApiVersion } from '../../kube/resources.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import type { SyncerMode } from './enforcement.ts';
import { quote, sortedSet } from '../../kube/text.ts';
import { readNamespaceRanges } from '../scc/namespace.ts';
import { psaLevelOf, type SccLevelOptions } from './scc-level.ts';
import { parseTimestamp } from '../../kube/units.ts';

/** The two labels of a mode. */
const MODE_LABELS: Readonly<Record<Mode, { readonly level: string; readonly version: string }>> = {
  enforce: { level: POD_SECURITY_LABELS.enforce, version: POD_SECURITY_LABELS.enforceVersion },
  audit: { level: POD_SECURITY_LABELS.audit, version: POD_SECURITY_LABELS.auditVersion },
  warn: { level: POD_SECURITY_LABELS.warn, version: POD_SECURITY_LABELS.warnVersion },
};

const VERSIONS: ReadonlySet<string> = new Set(MODES.map((mode) => MODE_LABELS[mode].version));

/** All six. */
const PSA_LABELS: readonly string[] = MODES.flatMap((mode) => [MODE_LABELS[mode].level, MODE_LABELS[mode].version]);

/** The labels that hold pods to something. */
const ENFORCE_LABELS: ReadonlySet<string> = new Set([MODE_LABELS.enforce.level, MODE_LABELS.enforce.version]);

/** The value of a label in a namespace of the level. */
function labelFor(key: string, level: Level): string {
  return VERSIONS.has(key) ? 'latest' : level;
}

/** True for a value that means something. */
function isValidLabel(key: string, value: string): boolean {
  return VERSIONS.has(key) ? parseVersion(value) !== undefined : isLevel(value);
}

/** What the syncer owns in a namespace by applying it; only that goes away when it is left out of an application. */
interface OwnFields {
  readonly labels: ReadonlySet<string>;
  readonly annotations: ReadonlySet<string>;
}

/**
 * The manager of fields that existed before the first server-side apply. Its owner is unknown.
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */
const NOBODY = 'before-first-apply';

const NOTHING: OwnFields = { labels: new Set(), annotations: new Set() };

/** The fields that the syncer applied; never what was written in another way or by others. */
export function getOwnFields(owners: readonly FieldOwner[]): OwnFields {
  return owners.find(isOwner) ?? NOTHING;
}

/** True if the label exists and another manager owns or co-owns it. */
function isForeign(key: string, namespace: Namespace, owners: readonly FieldOwner[]): boolean {
  return isPresent(key, namespace) && foreignOwnersOf(key, owners).length > 0;
}

/** The other managers that own the label. */
function foreignOwnersOf(key: string, owners: readonly FieldOwner[]): readonly string[] {
  const others = owners.filter((owner) => owner.labels.has(key) && !isOurs(owner) && owner.manager !== NOBODY);
  return others.map(({ manager }) => manager);
}

/** True if the label exists without a known owner, as after a restore from a backup. */
function isUnowned(key: string, namespace: Namespace, owners: readonly FieldOwner[]): boolean {
  return isPresent(key, namespace) && !owners.some(({ labels, manager }) => labels.has(key) && manager !== NOBODY);
}

/** True if the label exists, no other manager owns it, and an early release of the syncer wrote it by an update. */
function isFormer(key: string, namespace: Namespace, owners: readonly FieldOwner[]): boolean {
  const isListed = owners.some((owner) => isFormerOwner(owner) && owner.labels.has(key));
  return isListed && isPresent(key, namespace) && !isForeign(key, namespace, owners);
}

/** True for what the syncer wrote by plain updates, under its name of today or the one before. */
function isFormerOwner(owner: FieldOwner): boolean {
  return isOurs(owner) && !isOwner(owner);
}

function isOwner({ manager, operation, subresource }: FieldOwner): boolean {
  return manager === LABEL_SYNC_MANAGER && operation === 'Apply' && subresource === '';
}

function isOurs({ manager }: FieldOwner): boolean {
  return manager === LABEL_SYNC_MANAGER || manager === FORMER_LABEL_SYNC_MANAGER;
}

function isPresent(key: string, { metadata }: Namespace): boolean {
  return metadata?.labels?.[key] !== undefined;
}

/** Which namespaces are managed. */
export interface ManagementSettings {
  /** Namespaces that are never managed. */
  readonly exemptNamespaces: ReadonlySet<string>;
  /** Namespaces where SCCs are not enforced are not managed. */
  readonly scc: Pick<SccSettings, 'mode' | 'exemptNamespaces'>;
}

/** Namespaces of the platform, which looks after their labels itself. */
const PLATFORM =
  'apiserver apiserver-operator authentication authentication-operator cloud-controller-manager ' +
  'cloud-controller-manager-operator cloud-credential-operator cloud-network-config-controller cluster-csi-drivers ' +
  'cluster-machine-approver cluster-node-tuning-operator cluster-samples-operator cluster-storage-operator ' +
  'cluster-version config config-managed config-operator console console-operator console-user-settings ' +
  'controller-manager controller-manager-operator dns dns-operator etcd etcd-operator host-network image-registry ' +
  'infra ingress ingress-canary ingress-operator insights kni-infra kube-apiserver kube-apiserver-operator ' +
  'kube-controller-manager kube-controller-manager-operator kube-scheduler kube-scheduler-operator ' +
  'kube-storage-version-migrator kube-storage-version-migrator-operator machine-api machine-config-operator ' +
  'marketplace monitoring multus network-diagnostics network-operator node nutanix-infra oauth-apiserver ' +
  'openstack-infra operator-lifecycle-manager ovirt-infra sdn service-ca service-ca-operator ' +
  'user-workload-monitoring vsphere-infra';

/**
 * The namespaces that are exempt unless configured otherwise.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/nsexemptions/nsexemptions.go
 */
export const DEFAULT_UNMANAGED_NAMESPACES: readonly string[] = [
  ...['default', 'kube-node-lease', 'kube-public', 'kube-system', 'openshift'],
  ...PLATFORM.split(' ').map((name) => `openshift-${name}`),
];

/** The settings of an installation with these SCC settings. */
export function managementSettings(scc: ManagementSettings['scc']): ManagementSettings {
  return { exemptNamespaces: new Set(DEFAULT_UNMANAGED_NAMESPACES), scc };
}

/** True if the namespace asks to be managed, also where it would not be otherwise. */
function isOptedIn(namespace: Namespace): boolean {
  return namespace.metadata?.labels?.[LABEL_SYNC_LABEL] === 'true';
}

/** True for the platform's own namespaces, by their names. */
export function isPlatformNamespace(name: string): boolean {
  return name === 'openshift' || name.startsWith('openshift-');
}

/**
 * True if the syncer manages the labels of the namespace. A namespace with all six labels of other managers is not
 * managed; with some of them, it is.
 * @param owners of its fields; absent if they cannot be read
 */
export function isManaged(
  namespace: Namespace,
  owners: readonly FieldOwner[] | undefined,
  { exemptNamespaces, scc }: ManagementSettings,
): boolean {
  const { name = '', labels } = namespace.metadata ?? {};
  if (exemptNamespaces.has(name)) return false;
  if (isOptedIn(namespace)) return true;
  if (isPlatformNamespace(name) || owners === undefined) return false;
  if (sccMode(namespace, scc).mode !== 'enforce') return false;
  if (PSA_LABELS.every((key) => isForeign(key, namespace, owners))) return false;
  return labels?.[LABEL_SYNC_LABEL] !== 'false';
}

/** Tells whether the service account of that name may use an SCC in the namespace. */
type MayUse = (scc: SecurityContextConstraints) => boolean;

/**
 * Whether a service account may use SCCs in its namespace: by the users and groups of the SCC, else by roles. Who has
 * created a pod plays no part.
 */
export function createSccAccess(serviceAccount: string, namespace: string, canUse: CanUse): MayUse {
  const subject = serviceAccountSubject(namespace, serviceAccount, 'accurate');
  const granted = canUse.namesFor?.(subject, namespace);
  return (scc) => {
    const { name, users, groups } = prepareScc(scc);
    if (isNamed(subject, users, groups)) return true;
    return granted === undefined ? canUse(subject, name, namespace) : granted === 'any' || granted.has(name);
  };
}

function isNamed({ username, groups: own }: Subject, users: readonly string[], groups: readonly string[]): boolean {
  return users.includes(username) || (groups.length > 0 && own.some((group) => groups.includes(group)));
}

/** True if the namespace is on its way out. */
export function isTerminating({ metadata, status }: Namespace): boolean {
  return status?.phase === 'Terminating' || metadata?.deletionTimestamp != null;
}

/** The object to apply by force so that the syncer owns exactly these fields; `undefined` if nothing differs. */
function documentFor({ namespace, owners }: FieldsInput, fields: IntendedFields): Namespace | undefined {
  const { labels, annotations } = namespace.metadata ?? {};
  const own = getOwnFields(owners);
  const isUpToDate =
    isSame(fields.labels, labels, own.labels) && isSame(fields.annotations, annotations, own.annotations);
  if (isUpToDate) return undefined;
  return {
    apiVersion: getApiVersion('Namespace'),
    kind: 'Namespace',
    metadata: {
      ...identityOf(namespace),
      ...(fields.labels.size === 0 ? {} : { labels: Object.fromEntries(fields.labels) }),
      ...(fields.annotations.size === 0 ? {} : { annotations: Object.fromEntries(fields.annotations) }),
    },
  };
}

/**
 * Binds an apply to the object that was read. Without the uid, a deleted namespace would be created; without the
 * resource version, a concurrent change would be overwritten.
 */
function identityOf({ metadata }: Namespace): NonNullable<Namespace['metadata']> {
  const { name = '', uid, resourceVersion } = metadata ?? {};
  return {
    name,
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

/** True if the values are there, and these keys and no others are owned. */
function isSame(
  intended: ReadonlyMap<string, string>,
  values: Readonly<Record<string, string>> | null | undefined,
  own: ReadonlySet<string>,
): boolean {
  const keys = [...own].filter((key) => key !== '.');
  return (
    keys.length === intended.size && [...intended].every(([key, value]) => own.has(key) && values?.[key] === value)
  );
}

/** Every field that the syncer may ever own. */
const SYNCED_FIELDS = { labels: PSA_LABELS, annotations: [SUFFICIENT_LEVEL_ANNOTATION] } as const;

/**
 * The patch that removes the entries of early releases from the managed fields, once the syncer owns the fields by
 * apply; `undefined` if there are none. Labels and other entries do not change. The resource version makes the patch
 * fail after a concurrent change.
 */
function forgetFormer(namespace: Namespace): readonly JsonPatchOp[] | undefined {
  const { resourceVersion, managedFields } = namespace.metadata ?? {};
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const isLeft = owners.map((owner) => isFormerOwner(owner) && ownsSynced(owner));
  if (!isLeft.includes(true)) return undefined;
  const value = (managedFields ?? []).flatMap((entry, index) => {
    if (isLeft[index] !== true) return [entry];
    const fieldsV1 = change(entry.fieldsV1, 'f:metadata', withoutSynced);
    return fieldsV1 === undefined ? [] : [{ ...entry, fieldsV1 }];
  });
  return [
    { op: 'replace', path: '/metadata/managedFields', value },
    ...(resourceVersion === undefined
      ? []
      : [{ op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion } as const]),
  ];
}

const MAPS = ['labels', 'annotations'] as const;

function ownsSynced(owner: FieldOwner): boolean {
  return MAPS.some((map) => SYNCED_FIELDS[map].some((key) => owner[map].has(key)));
}

function withoutSynced(metadata: unknown): JsonObject | undefined {
  return MAPS.reduce<JsonObject | undefined>(
    (left, map) =>
      left &&
      change(left, `f:${map}`, (members) =>
        SYNCED_FIELDS[map].reduce<JsonObject | undefined>(
          (rest, key) => rest && change(rest, `f:${key}`, () => undefined),
          isObject(members) ? members : undefined,
        ),
      ),
    isObject(metadata) ? metadata : undefined,
  );
}

/** The object with one member changed, or without it; `undefined` if none is left. */
function change(object: unknown, name: string, by: (member: unknown) => unknown): JsonObject | undefined {
  const members = Object.entries(isObject(object) ? object : {}).flatMap(([key, member]) => {
    const changed = key === name ? by(member) : member;
    return changed === undefined ? [] : [[key, changed] as const];
  });
  return members.length === 0 ? undefined : Object.fromEntries(members);
}

/** The fields that the syncer owns after the apply. Fields that are left out are released. */
interface IntendedFields {
  readonly labels: ReadonlyMap<string, string>;
  readonly annotations: ReadonlyMap<string, string>;
}

/** The input for the fields of one namespace. */
interface FieldsInput {
  readonly namespace: Namespace;
  readonly owners: readonly FieldOwner[];
  readonly mode: SyncerMode;
  readonly isManaged: boolean;
  /** Absent where there is no telling, and in namespaces that are not managed. */
  readonly level?: Level | undefined;
}

/**
 * The fields for a namespace. Without a level, labels stay unchanged, since removing one would change what is
 * enforced. Only in mode Advise, enforce labels are removed.
 */
function intendedFields(input: FieldsInput): IntendedFields {
  const labels = PSA_LABELS.flatMap((key) => {
    const value = intendedLabel(key, input);
    return value === undefined ? [] : [[key, value] as const];
  });
  return { labels: new Map(labels), annotations: intendedAnnotations(input) };
}

/** True if another manager owns the label, so that it keeps its value. */
function isLeftAlone(key: string, { namespace, owners, level }: FieldsInput): boolean {
  if (level === undefined || isOptedIn(namespace)) return false;
  if (isForeign(key, namespace, owners)) return true;
  const value = valueOf(key, namespace) ?? '';
  return isUnowned(key, namespace, owners) && isValidLabel(key, value) && value !== labelFor(key, level);
}

function intendedLabel(key: string, input: FieldsInput): string | undefined {
  const { namespace, owners, mode, level, isManaged } = input;
  const isKept = mode === 'Enforce' || !ENFORCE_LABELS.has(key);
  if (isKept && level !== undefined) return isLeftAlone(key, input) ? undefined : labelFor(key, level);
  // What is still listed as early releases wrote it has to be owned first: only then it can be given up.
  const isPast = isManaged && isFormer(key, namespace, owners);
  const isOwn = getOwnFields(owners).labels.has(key) && (isKept || mode === 'Hold');
  return isPast || isOwn ? valueOf(key, namespace) : undefined;
}

function intendedAnnotations({ namespace, owners, isManaged, level }: FieldsInput): IntendedFields['annotations'] {
  const isOwn = isManaged && getOwnFields(owners).annotations.has(SUFFICIENT_LEVEL_ANNOTATION);
  const value = level ?? (isOwn ? namespace.metadata?.annotations?.[SUFFICIENT_LEVEL_ANNOTATION] : undefined);
  return new Map(value === undefined ? [] : [[SUFFICIENT_LEVEL_ANNOTATION, value]]);
}

function valueOf(key: string, { metadata }: Namespace): string | undefined {
  return metadata?.labels?.[key];
}

/** The level that a namespace needs, and its cause. */
interface NeededLevel {
  readonly level: Level;
  /** The service account and the SCC for which it is not stricter; absent if no account may use any SCC. */
  readonly cause?: { readonly serviceAccount: string; readonly scc: string };
  /** What the original rules could not judge in that SCC. */
  readonly doubt?: string;
}

interface NeedInput {
  readonly namespace: Namespace;
  /** The names of all of them. */
  readonly serviceAccounts: readonly string[];
  readonly sccLevels: SccLevels;
  readonly canUse: CanUse;
}

/**
 * The strictest level that admits every pod that the service accounts of the namespace may run; restricted if they may
 * use no SCC.
 */
function neededLevelOf({ namespace, serviceAccounts, sccLevels, canUse }: NeedInput): NeededLevel {
  const namespaceName = namespace.metadata?.name ?? '';
  const accounts = serviceAccounts.map((name) => ({ name, mayUse: createSccAccess(name, namespaceName, canUse) }));
  for (const { scc, level, doubt } of sccLevels(namespace)) {
    const account = accounts.find(({ mayUse }) => mayUse(scc));
    if (account === undefined) continue;
    const cause = { serviceAccount: account.name, scc: scc.metadata?.name ?? '' };
    return { level, cause, ...(doubt === undefined ? {} : { doubt }) };
  }
  return { level: 'restricted' };
}

/** An event about the namespace, recorded once for as long as its cause lasts. */
export interface LabelSyncEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: 'NoUsableSCC' | 'LabelKept' | 'LabelForced' | 'LevelPrivileged';
  readonly message: string;
}

/** The events of a plan. */
function eventsFor(input: FieldsInput, need: NeededLevel, fields: IntendedFields): readonly LabelSyncEvent[] {
  return [...ofNeed(input, need), ...ofKeptLabels(input, need.level), ...ofForcedLabels(input, fields)];
}

function ofNeed({ namespace }: FieldsInput, { level, cause }: NeededLevel): readonly LabelSyncEvent[] {
  if (cause === undefined) {
    const message = 'no service account of the namespace may use any SCC: its level is restricted';
    return [{ type: 'Warning', reason: 'NoUsableSCC', message }];
  }
  const before = namespace.metadata?.annotations?.[SUFFICIENT_LEVEL_ANNOTATION];
  if (level !== 'privileged' || before === undefined || before === level) return [];
  const message = `the level changes to privileged, because service account ${quote(cause.serviceAccount)} may use SCC ${quote(cause.scc)}`;
  return [{ type: 'Warning', reason: 'LevelPrivileged', message }];
}

function ofKeptLabels(input: FieldsInput, level: Level): readonly LabelSyncEvent[] {
  const { labels } = input.namespace.metadata ?? {};
  return PSA_LABELS.filter((key) => isLeftAlone(key, input) && labels?.[key] !== labelFor(key, level)).map((key) => ({
    type: 'Normal',
    reason: 'LabelKept',
    message: `label ${key}=${labels?.[key] ?? ''} ${ownersText(key, input)}: it stays, although ${labelFor(key, level)} would do`,
  }));
}

function ofForcedLabels(input: FieldsInput, { labels }: IntendedFields): readonly LabelSyncEvent[] {
  const current = input.namespace.metadata?.labels;
  const own = getOwnFields(input.owners).labels;
  return [...labels]
    .filter(([key, value]) => !own.has(key) && current?.[key] !== value && isForeignIn(input, key))
    .map(([key, value]) => ({
      type: 'Warning',
      reason: 'LabelForced',
      message: `label ${key}=${current?.[key] ?? ''} ${ownersText(key, input)}: it becomes ${value}, since the namespace has label ${LABEL_SYNC_LABEL}=true`,
    }));
}

function isForeignIn({ namespace, owners }: FieldsInput, key: string): boolean {
  return namespace.metadata?.labels?.[key] !== undefined && foreignOwnersOf(key, owners).length > 0;
}

function ownersText(key: string, { owners }: FieldsInput): string {
  const managers = sortedSet(foreignOwnersOf(key, owners));
  return managers.length === 0 ? 'has no recorded owner' : `belongs to ${managers.map(quote).join(', ')}`;
}

// * Keeping the Pod Security labels of namespaces at what the SCCs that their service accounts may use ask for.
// @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer

export {
  findAffectedNamespaces as reachOf,
  type AffectedNamespaces as Reach,
  type ObjectChange as SyncChange,
} from './affected-namespaces.ts';

/** The input of the plan for one namespace. */
export interface LabelSyncInput {
  readonly namespace: Namespace;
  /** The names of all service accounts in it. */
  readonly serviceAccounts: readonly string[];
  readonly sccLevels: SccLevels;
  readonly canUse: CanUse;
  readonly mode: SyncerMode;
  readonly settings: ManagementSettings;
}

/** The plan for a namespace: at most one write. */
export interface LabelSyncPlan {
  readonly isManaged: boolean;
  /** What the namespace needs; absent where there is no telling. */
  readonly need?: NeededLevel | undefined;
  /** To apply by force, as `LABEL_SYNC_MANAGER`. */
  readonly apply?: Namespace | undefined;
  /** To send as a JSON patch, where there is nothing to apply. */
  readonly patch?: readonly JsonPatchOp[] | undefined;
  /** Events to record once for as long as their cause lasts. */
  readonly events: readonly LabelSyncEvent[];
}

/** Plans the labels of a namespace. */
export function planLabels(input: LabelSyncInput): LabelSyncPlan {
  const { namespace, settings, mode } = input;
  const owners = getMetadataOwners(namespace.metadata);
  const managed = isManaged(namespace, owners, settings);
  if (owners === undefined || isTerminating(namespace)) return { isManaged: managed, events: [] };
  const need = managed ? getNeededLevel(input) : undefined;
  const given: FieldsInput = { namespace, owners, mode, isManaged: managed, level: need?.level };
  const fields = intendedFields(given);
  const apply = documentFor(given, fields);
  return {
    isManaged: managed,
    need,
    apply,
    patch: managed && apply === undefined ? forgetFormer(namespace) : undefined,
    events: need ? eventsFor(given, need, fields) : [],
  };
}

/** The needed level; `undefined` until the namespace has a UID range and a service account. */
export function getNeededLevel(input: Omit<LabelSyncInput, 'mode' | 'settings'>): NeededLevel | undefined {
  const { namespace, serviceAccounts } = input;
  const range = namespace.metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '';
  return range === '' || serviceAccounts.length === 0 ? undefined : neededLevelOf(input);
}

/** Namespaces that SCC admission skips, and whose pods may need all permissions. */
export const RUN_LEVEL_ZERO_NAMESPACES = ['default', 'kube-system', 'kube-public'] as const;

/**
 * The document to apply by force, as `RUN_LEVEL_ZERO_MANAGER`, for one of these namespaces to be privileged in every mode;
 * `undefined` for all others and where nothing differs. Versions stay as they are.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/privileged_namespaces_controller.go
 */
export function planRunLevelZero(namespace: Namespace): Namespace | undefined {
  const { metadata } = namespace;
  const name = RUN_LEVEL_ZERO_NAMESPACES.find((one) => one === metadata?.name);
  const keys = MODES.map((mode) => MODE_LABELS[mode].level);
  if (name === undefined || keys.every((key) => metadata?.labels?.[key] === 'privileged')) return undefined;
  return {
    apiVersion: getApiVersion('Namespace'),
    kind: 'Namespace',
    metadata: { ...identityOf(namespace), labels: Object.fromEntries(keys.map((key) => [key, 'privileged'])) },
  };
}

/** An SCC and the level that its pods satisfy. */
interface LevelledScc {
  readonly scc: SecurityContextConstraints;
  readonly level: Level;
  /** What in the SCC could not be judged by the original rules. */
  readonly doubt?: string;
}

/** SCCs with their levels, from the most permissive level on. */
export type SccLevels = (namespace: Namespace) => readonly LevelledScc[];

/** Namespaces whose UID range excludes and includes root: nothing else of a namespace changes the level of an SCC. */
const EXAMPLES: readonly Namespace[] = ['1/1', '0/1'].map((range) => ({
  metadata: { name: 'any', annotations: { [NAMESPACE_RANGE_ANNOTATIONS.uidRange]: range } },
}));

/** Computes the levels of SCCs once for all namespaces. */
export function createSccLevels(sccs: readonly SecurityContextConstraints[], options: SccLevelOptions): SccLevels {
  const [ordinary = [], rooted = []] = EXAMPLES.map((example) => levelsIn(sccs, example, options));
  return (namespace) => {
    const { uidRange } = readNamespaceRanges(namespace);
    return 'value' in uidRange && uidRange.value.min > 0 ? ordinary : rooted;
  };
}

function levelsIn(
  sccs: readonly SecurityContextConstraints[],
  namespace: Namespace,
  options: SccLevelOptions,
): readonly LevelledScc[] {
  return sccs
    .map((scc): LevelledScc => {
      const { level = 'privileged' } = psaLevelOf(scc, namespace, options);
      const { error } = psaLevelOf(scc, namespace, { profile: 'upstream' });
      return { scc, level, ...(error === undefined ? {} : { doubt: error }) };
    })
    .sort((a, b) => Number(isStricter(a.level, b.level)) - Number(isStricter(b.level, a.level)));
}

/** The state of a namespace with regard to the syncer. */
export interface SyncState {
  readonly isManaged: boolean;
  /** Whether the syncer holds its pods to something, which it may have to give up. */
  readonly ownsEnforceLabel: boolean;
}

/** Computes the state from the labels and their owners. */
export function getSyncState(namespace: Namespace, settings: ManagementSettings): SyncState {
  const owners = getMetadataOwners(namespace.metadata);
  const own = getOwnFields(owners ?? []).labels;
  return {
    isManaged: isManaged(namespace, owners, settings),
    ownsEnforceLabel: [...ENFORCE_LABELS].some((key) => own.has(key)),
  };
}

/** What is known of a namespace and its label. */
interface LabelState {
  readonly namespace: Namespace;
  readonly isManaged: boolean;
  readonly serviceAccounts: readonly string[];
}

/** Namespaces younger than this are not awaited. */
const GRACE_MS = 60_000;

/**
 * True for a managed namespace that needs a label before the default is raised and has none. Namespaces in which no
 * pod can run are not awaited.
 */
export function isAwaitingLabel({ namespace, isManaged, serviceAccounts }: LabelState, nowMs: number): boolean {
  const { labels, annotations, creationTimestamp } = namespace.metadata ?? {};
  if (!isManaged || labels?.[POD_SECURITY_LABELS.enforce] !== undefined) return false;
  if (isTerminating(namespace)) return false;
  const canRun = serviceAccounts.length > 0 && (annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '') !== '';
  return canRun && nowMs - (parseTimestamp(creationTimestamp) ?? 0) >= GRACE_MS;
}
