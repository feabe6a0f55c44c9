/**
 * Plans namespaces' Pod Security labels based on the SCCs that their service accounts may use.
 * @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer
 */
import { ENFORCE_LABEL, RELAXED_LABEL } from '../../api/names.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { type FieldOwner, getMetadataOwners } from '../../kube/managed-fields.ts';
import { NAMESPACE_RANGE_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { quote, sortedSet } from '../../kube/text.ts';
import { isObject, type JsonObject, type Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL, POD_SECURITY_LABELS, SUFFICIENT_LEVEL_ANNOTATION } from '../../kube/well-known.ts';
import { isStricter, psaLevel, type SccLevelOptions } from '../psa/index.ts';
import { isLevel, type Level, parseVersion } from '../pss/index.ts';
import {
  type SccAccess,
  type Compatibility,
  type PreparedScc,
  prepareScc,
  readNamespaceRanges,
  sccMode,
  type SccSettings,
  serviceAccountSubject,
} from '../scc/index.ts';
import type { SyncerMode } from './enforcement.ts';
import {
  classifyOwner,
  ENFORCE_LABELS,
  getOwnership,
  getOwnFields,
  LEVEL_LABELS,
  namespaceDocument,
} from './label-owners.ts';

// Labels and their owners.

const { enforce, enforceVersion, audit, auditVersion, warn, warnVersion } = POD_SECURITY_LABELS;

const PSA_LABELS: readonly string[] = [enforce, enforceVersion, audit, auditVersion, warn, warnVersion];

/** Returns the label value for a namespace that needs the given level. */
function labelValue(key: string, { isWarnedByWebhook }: Pick<LabelState, 'isWarnedByWebhook'>, level: Level): string {
  if (!LEVEL_LABELS.includes(key)) return 'latest';
  return key === warn && isWarnedByWebhook ? 'privileged' : level;
}

function isValidLabel(key: string, value: string): boolean {
  return LEVEL_LABELS.includes(key) ? isLevel(value) : parseVersion(value) !== undefined;
}

// Managed namespaces.

/** Settings that determine which namespaces are managed. */
export interface ManagementSettings {
  /** Namespaces that are never managed. */
  readonly exemptNamespaces: ReadonlySet<string>;
  /**
   * The syncer skips namespaces that do not enforce SCCs. There, the label that enables the syncer works only if the
   * cluster enforces SCCs by default.
   */
  readonly scc: SccSettings;
}

/** Name suffixes of the namespaces whose labels OpenShift itself maintains. */
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
 * Namespaces that are never managed.
 * @see
 * https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/nsexemptions/nsexemptions.go
 */
export const UNMANAGED_NAMESPACES: ReadonlySet<string> = new Set([
  ...['default', 'kube-node-lease', 'kube-public', 'kube-system', 'openshift'],
  ...PLATFORM.split(' ').map((name) => `openshift-${name}`),
]);

export function managementSettings(scc: ManagementSettings['scc']): ManagementSettings {
  return { exemptNamespaces: UNMANAGED_NAMESPACES, scc };
}

/** Returns true if the namespace label enables the syncer, which then even overwrites the labels of other managers. */
function isOptedIn(namespace: Namespace): boolean {
  return namespace.metadata?.labels?.[LABEL_SYNC_LABEL] === 'true';
}

/** Returns true if the name is reserved for platform namespaces. */
export function isPlatformNamespace(name: string): boolean {
  return name === 'openshift' || name.startsWith('openshift-');
}

/**
 * Returns true while break-glass relaxes the enforce label. Until it is restored, the namespace's Pod Security labels
 * do not change.
 */
export function isRelaxed({ metadata }: Namespace): boolean {
  return metadata?.labels?.[RELAXED_LABEL] !== undefined;
}

export function isTerminating({ metadata, status }: Namespace): boolean {
  return status?.phase === 'Terminating' || metadata?.deletionTimestamp != null;
}

/**
 * Returns true if the syncer manages the namespace's labels. It does not manage a namespace if other managers own all
 * six labels.
 * @param owners owners of the namespace's fields, or `undefined` if the managed fields cannot be parsed
 */
export function isManaged(
  namespace: Namespace,
  owners: readonly FieldOwner[] | undefined,
  { exemptNamespaces, scc }: ManagementSettings,
): boolean {
  const { name = '', labels } = namespace.metadata ?? {};
  if (exemptNamespaces.has(name)) return false;
  const isEnforced = sccMode(namespace, scc).mode === 'enforce';
  if (isOptedIn(namespace)) return isEnforced || scc.mode === 'enforce';
  if (!isEnforced || isPlatformNamespace(name) || owners === undefined) return false;
  if (PSA_LABELS.every((key) => getOwnership(key, namespace, owners) === 'foreign')) return false;
  return labels?.[LABEL_SYNC_LABEL] !== 'false';
}

// The level that a namespace needs.

/**
 * Creates a function that returns whether a service account may use an SCC in its namespace, either through the SCC's
 * users and groups or through roles. It ignores the permissions of the users who create pods.
 */
export function createSccAccess(
  serviceAccount: string,
  namespace: string,
  access: SccAccess,
): (scc: PreparedScc) => boolean {
  const subject = serviceAccountSubject(namespace, serviceAccount);
  const granted = access.namesFor?.(subject, namespace);
  return ({ name, users, groups }) => {
    if (users.includes(subject.username) || subject.groups.some((group) => groups.includes(group))) return true;
    return granted === undefined ? access.canUse(subject, name, namespace) : granted === 'any' || granted.has(name);
  };
}

/**
 * Returns the SCCs with the level that their pods satisfy in a namespace, most permissive first. The level is unknown
 * for an SCC that OpenShift cannot map.
 */
export type SccLevels = (namespace: Namespace) => readonly { readonly scc: PreparedScc; readonly level?: Level }[];

/**
 * A UID range that excludes root, one that includes it, and an invalid range. No other property of a namespace affects
 * an SCC's level.
 */
const EXAMPLES: readonly Namespace[] = ['1/1', '0/1', 'invalid'].map((range) => ({
  metadata: { name: 'any', annotations: { [NAMESPACE_RANGE_ANNOTATIONS.uidRange]: range } },
}));

/** Returns the profile for the labels of namespaces. */
export function sccLevelProfile(compatibility: Compatibility): SccLevelOptions['profile'] {
  return compatibility === 'openshift' ? 'upstream' : 'accurate';
}

/**
 * The order in which the label syncer evaluates SCCs. OpenShift stops at the first privileged SCC and otherwise fails for
 * an SCC whose level is unknown.
 */
const BY_PERMISSIVENESS: readonly (Level | undefined)[] = ['privileged', undefined, 'baseline', 'restricted'];

/** Computes the SCC levels once for all namespaces. */
export function createSccLevels(sccs: readonly SecurityContextConstraints[], options: SccLevelOptions): SccLevels {
  const getLevel = (scc: SecurityContextConstraints, namespace: Namespace): { readonly level?: Level } => {
    const { level, error } = psaLevel(scc, namespace, options);
    return level === undefined || (error !== undefined && options.profile === 'upstream') ? {} : { level };
  };
  const rank = ({ level }: { readonly level?: Level }): number => BY_PERMISSIVENESS.indexOf(level);
  const [withoutRoot = [], withRoot = [], invalid = []] = EXAMPLES.map((namespace) =>
    sccs.map((scc) => ({ scc: prepareScc(scc), ...getLevel(scc, namespace) })).sort((a, b) => rank(a) - rank(b)),
  );
  return (namespace) => {
    const { uidRange } = readNamespaceRanges(namespace);
    return !('value' in uidRange) ? invalid : uidRange.value.min > 0 ? withoutRoot : withRoot;
  };
}

/** The level that a namespace needs, and why. */
interface NeededLevel {
  readonly level: Level;
  /** The service account and SCC that require the level. Absent if no service account may use any SCC. */
  readonly cause?: { readonly serviceAccount: string; readonly scc: string };
}

/** Input for planning one namespace. */
export interface LabelSyncInput {
  readonly namespace: Namespace;
  /** Names of all service accounts in the namespace. */
  readonly serviceAccounts: readonly string[];
  readonly sccLevels: SccLevels;
  readonly access: SccAccess;
  readonly mode: SyncerMode;
  readonly settings: ManagementSettings;
}

/**
 * Returns the strictest level that admits every pod that the namespace's service accounts may run. The level is
 * restricted if they may not use any SCC. In OpenShift compatibility mode, the level is unknown in this case, and if an
 * SCC cannot be mapped. Returns `undefined` for an unknown level, and until the namespace has a UID range and a service
 * account. Yields at least once for each service account.
 */
export function* findNeededLevel(
  input: Omit<LabelSyncInput, 'mode' | 'settings'> & Pick<SccSettings, 'compatibility'>,
): Generator<undefined, NeededLevel | undefined> {
  const { namespace, serviceAccounts, sccLevels, access, compatibility } = input;
  if (!canRunPods(namespace, serviceAccounts)) return undefined;
  const namespaceName = namespace.metadata?.name ?? '';
  const levels = sccLevels(namespace);
  yield;
  let first = levels.length;
  let needed: NeededLevel | undefined = compatibility === 'openshift' ? undefined : { level: 'restricted' };
  for (const serviceAccount of serviceAccounts) {
    if (first === 0) break;
    // For an account with many bindings, this takes as long as the rest of the plan.
    const mayUse = createSccAccess(serviceAccount, namespaceName, access);
    yield;
    const index = levels.findIndex(({ scc }, at) => at >= first || mayUse(scc));
    const found = index < first ? levels[index] : undefined;
    if (found) {
      first = index;
      needed = found.level && { level: found.level, cause: { serviceAccount, scc: found.scc.name } };
    }
    yield;
  }
  return needed;
}

export function canRunPods({ metadata }: Namespace, serviceAccounts: readonly string[]): boolean {
  return serviceAccounts.length > 0 && (metadata?.annotations?.[NAMESPACE_RANGE_ANNOTATIONS.uidRange] ?? '') !== '';
}

// The plan.

/** The plan for a namespace, which contains at most one write. */
export interface LabelSyncPlan {
  readonly isManaged: boolean;
  /** Absent if the level cannot be computed or the namespace is not managed. */
  readonly neededLevel?: NeededLevel | undefined;
  /** Document for a forced apply as `LABEL_SYNC_MANAGER`. */
  readonly apply?: Namespace | undefined;
  /** A JSON patch. Set only if there is nothing to apply. */
  readonly patch?: readonly JsonPatchOp[] | undefined;
  /** Events to record once for as long as their cause persists. */
  readonly events: readonly LabelSyncEvent[];
}

interface LabelSyncEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: 'NoUsableSCC' | 'LabelKept' | 'LabelForced' | 'LevelPrivileged';
  readonly message: string;
}

/** The state that determines a namespace's labels. */
interface LabelState {
  readonly namespace: Namespace;
  readonly owners: readonly FieldOwner[];
  readonly mode: SyncerMode;
  readonly isManaged: boolean;
  readonly neededLevel: NeededLevel | undefined;
  /** True if the webhook, rather than the API server's PodSecurity plugin, returns the warnings. */
  readonly isWarnedByWebhook: boolean;
  /** True if valid labels without a recorded owner stay unchanged. OpenShift overwrites them. */
  readonly keepsUnowned: boolean;
}

type Fields = Readonly<Record<string, string>>;

/** Plans the labels of a namespace. Yields like `findNeededLevel`. */
export function* planLabels(input: LabelSyncInput): Generator<undefined, LabelSyncPlan> {
  const { namespace, settings, mode } = input;
  const owners = getMetadataOwners(namespace.metadata);
  const managed = isManaged(namespace, owners, settings);
  if (owners === undefined || isTerminating(namespace) || isRelaxed(namespace))
    return { isManaged: managed, events: [] };
  const { compatibility } = settings.scc;
  const need = managed ? yield* findNeededLevel({ ...input, compatibility }) : undefined;
  const isWarnedByWebhook = warnsByWebhook(namespace, settings.scc);
  const keepsUnowned = compatibility !== 'openshift';
  const state: LabelState = {
    namespace,
    owners,
    mode,
    isManaged: managed,
    neededLevel: need,
    isWarnedByWebhook,
    keepsUnowned,
  };
  const labels = plannedLabels(state);
  const apply = applyDocument(state, labels);
  return {
    isManaged: managed,
    neededLevel: need,
    apply,
    patch: managed && apply === undefined ? removeFormerOwners(namespace, owners) : undefined,
    events: need ? [...levelEvents(namespace, need), ...labelEvents(state, need.level, labels)] : [],
  };
}

/**
 * Returns true if SCC admission defaults pods in the namespace, except in OpenShift compatibility mode. The API
 * server's PodSecurity plugin evaluates a template before an SCC adds fields to it, so it would warn about nearly every
 * template. Even if there is no warn label, an enforce label causes warnings. The warn label is therefore set to
 * privileged, and the webhook evaluates the template with the added fields.
 */
function warnsByWebhook(namespace: Namespace, scc: SccSettings): boolean {
  return scc.compatibility !== 'openshift' && sccMode(namespace, scc).mode === 'enforce';
}

/**
 * Sets the namespace's warn level to the level that it needs, or to the enforced level if that is stricter, unless
 * another manager owns the label.
 */
export function withWarnLevel(namespace: Namespace): Namespace {
  const { labels, annotations } = namespace.metadata ?? {};
  const level = annotations?.[SUFFICIENT_LEVEL_ANNOTATION] ?? labels?.[warn];
  if (!isLevel(level)) return namespace;
  const ownership = getOwnership(warn, namespace, getMetadataOwners(namespace.metadata) ?? []);
  if (ownership !== 'absent' && ownership !== 'own') return namespace;
  const enforced = labels?.[enforce];
  const warned =
    isLevel(enforced) && isStricter(enforced, level)
      ? { ...labels, [warn]: enforced, [warnVersion]: labels?.[enforceVersion] ?? 'latest' }
      : { [warnVersion]: 'latest', ...labels, [warn]: level };
  return { ...namespace, metadata: { ...namespace.metadata, labels: warned } };
}

/**
 * Returns a document that, when applied, releases all of the syncer's labels and annotations. Returns `undefined` if
 * the syncer owns none.
 */
export function releaseLabels(namespace: Namespace): Namespace | undefined {
  const owners = getMetadataOwners(namespace.metadata);
  if (owners === undefined || isTerminating(namespace)) return undefined;
  const { labels, annotations } = getOwnFields(owners);
  return labels.size + annotations.size === 0 ? undefined : namespaceDocument(namespace, {});
}

/**
 * Returns the labels that the syncer owns after the apply, which releases omitted labels. If Portcullis itself enforces
 * the level, there are no enforce labels, because the API server's PodSecurity plugin ignores exceptions.
 */
function plannedLabels(state: LabelState): Fields {
  const isOwnLevel = state.isManaged && state.namespace.metadata?.labels?.[ENFORCE_LABEL] !== undefined;
  return Object.fromEntries(
    PSA_LABELS.filter((key) => !(isOwnLevel && ENFORCE_LABELS.includes(key))).flatMap((key) => {
      const value = plannedLabel(key, state);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}

/**
 * If the level is unknown, labels stay unchanged, because removing one would change the enforced level. Enforce labels
 * are removed only in `Advise` mode. Once the PodSecurity plugin rather than the webhook returns warnings again, the
 * warn label is set to the last known level, which the other labels still have.
 */
function plannedLabel(key: string, state: LabelState): string | undefined {
  const { namespace, owners, mode, neededLevel: need } = state;
  const isMaintained = mode === 'Enforce' || !ENFORCE_LABELS.includes(key);
  if (isMaintained && need) return isKept(key, state, need.level) ? undefined : labelValue(key, state, need.level);
  // If an early release wrote a label, the syncer must take ownership of it before it can release it.
  const isPrevious = state.isManaged && getOwnership(key, namespace, owners) === 'previous';
  const own = getOwnFields(owners).labels;
  const isOwn = own.has(key) && (isMaintained || mode === 'Hold');
  if (!isPrevious && !isOwn) return undefined;
  const isRestored = key === warn && isOwn && !state.isWarnedByWebhook;
  const source = isRestored ? [audit, enforce].find((other) => own.has(other)) : undefined;
  return namespace.metadata?.labels?.[source ?? key];
}

/**
 * Returns true if the syncer must keep the label's value, because another manager owns it or because its owner is
 * unknown and its value is valid.
 */
function isKept(key: string, state: LabelState, level: Level): boolean {
  const { namespace, owners } = state;
  if (isOptedIn(namespace)) return false;
  const ownership = getOwnership(key, namespace, owners);
  const value = namespace.metadata?.labels?.[key] ?? '';
  const isUnownedChoice =
    state.keepsUnowned &&
    ownership === 'unowned' &&
    isValidLabel(key, value) &&
    value !== labelValue(key, state, level);
  return ownership === 'foreign' || isUnownedChoice;
}

function plannedAnnotations({ namespace, owners, isManaged, neededLevel: need }: LabelState): Fields {
  const isOwn = isManaged && getOwnFields(owners).annotations.has(SUFFICIENT_LEVEL_ANNOTATION);
  const value = need?.level ?? (isOwn ? namespace.metadata?.annotations?.[SUFFICIENT_LEVEL_ANNOTATION] : undefined);
  return value === undefined ? {} : { [SUFFICIENT_LEVEL_ANNOTATION]: value };
}

/** Returns a document that makes the syncer the owner of exactly these fields, or `undefined` if nothing changes. */
function applyDocument(state: LabelState, labels: Fields): Namespace | undefined {
  const { namespace, owners } = state;
  const { metadata } = namespace;
  const annotations = plannedAnnotations(state);
  const own = getOwnFields(owners);
  if (isApplied(labels, metadata?.labels, own.labels) && isApplied(annotations, metadata?.annotations, own.annotations))
    return undefined;
  return namespaceDocument(namespace, {
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
  });
}

/** Returns true if the fields have these values and the syncer owns exactly these fields. */
function isApplied(planned: Fields, current: Fields | null | undefined, own: ReadonlySet<string>): boolean {
  const entries = Object.entries(planned);
  const ownCount = [...own].filter((key) => key !== '.').length;
  return ownCount === entries.length && entries.every(([key, value]) => own.has(key) && current?.[key] === value);
}

/** `fieldsV1` paths of the fields that the syncer may own. */
const SYNCED_PATHS: readonly (readonly string[])[] = [
  ...PSA_LABELS.map((key) => ['f:metadata', 'f:labels', `f:${key}`]),
  ['f:metadata', 'f:annotations', `f:${SUFFICIENT_LEVEL_ANNOTATION}`],
];

/**
 * Returns a patch that removes the ownership that early releases recorded in the managed fields, once the syncer owns
 * the fields through apply. Returns `undefined` if there is nothing to remove. Labels and other entries do not change.
 * Because of the resource version, the patch fails if the namespace has changed concurrently.
 */
function removeFormerOwners(
  { metadata: { resourceVersion, managedFields } = {} }: Namespace,
  owners: readonly FieldOwner[],
): readonly JsonPatchOp[] | undefined {
  const isRemoved = owners.map((owner) => classifyOwner(owner) === 'previous' && ownsSyncedField(owner));
  if (!isRemoved.includes(true)) return undefined;
  const value = (managedFields ?? []).flatMap((entry, index) => {
    if (isRemoved[index] !== true) return [entry];
    const fields: JsonObject | undefined = isObject(entry.fieldsV1) ? entry.fieldsV1 : undefined;
    const fieldsV1 = SYNCED_PATHS.reduce((rest, path) => rest && omitPath(rest, path), fields);
    return fieldsV1 === undefined ? [] : [{ ...entry, fieldsV1 }];
  });
  const version = { op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion } as const;
  return [
    { op: 'replace', path: '/metadata/managedFields', value },
    ...(resourceVersion === undefined ? [] : [version]),
  ];
}

function ownsSyncedField({ labels, annotations }: FieldOwner): boolean {
  return annotations.has(SUFFICIENT_LEVEL_ANNOTATION) || PSA_LABELS.some((key) => labels.has(key));
}

/** Removes the member at the path, and the parents that become empty. Returns `undefined` if nothing is left. */
function omitPath(object: JsonObject, [name, ...rest]: readonly string[]): JsonObject | undefined {
  const entries = Object.entries(object).flatMap(([key, member]) => {
    if (key !== name) return [[key, member] as const];
    const left = rest.length > 0 && isObject(member) ? omitPath(member, rest) : undefined;
    return left === undefined ? [] : [[key, left] as const];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

// Events.

function levelEvents({ metadata }: Namespace, { level, cause }: NeededLevel): readonly LabelSyncEvent[] {
  if (cause === undefined) {
    const message = 'no service account in the namespace may use any SCC, so its level is restricted';
    return [{ type: 'Warning', reason: 'NoUsableSCC', message }];
  }
  const before = metadata?.annotations?.[SUFFICIENT_LEVEL_ANNOTATION];
  if (level !== 'privileged' || before === undefined || before === level) return [];
  const message = `the level changes to privileged because service account ${quote(cause.serviceAccount)} may use SCC ${quote(cause.scc)}`;
  return [{ type: 'Warning', reason: 'LevelPrivileged', message }];
}

/** Reports other managers' labels that are kept, or that are overwritten because the namespace opted in. */
function labelEvents(state: LabelState, level: Level, labels: Fields): readonly LabelSyncEvent[] {
  const { namespace, owners } = state;
  const own = getOwnFields(owners).labels;
  const current = namespace.metadata?.labels;
  const differing = PSA_LABELS.filter((key) => current?.[key] !== labelValue(key, state, level));
  // Do not report warn labels of other managers, because they do not contradict the level.
  const retained = differing.filter((key) => isKept(key, state, level) && !(key === warn && state.isWarnedByWebhook));
  const forced = differing.filter(
    (key) => labels[key] !== undefined && !own.has(key) && getOwnership(key, namespace, owners) === 'foreign',
  );
  const describe = (key: string): string => `label ${key}=${current?.[key] ?? ''} ${describeOwners(key, owners)}`;
  return [
    ...retained.map((key): LabelSyncEvent => {
      const message = `${describe(key)} and is kept, but the namespace needs ${labelValue(key, state, level)}`;
      return { type: 'Normal', reason: 'LabelKept', message };
    }),
    ...forced.map((key): LabelSyncEvent => {
      const message = `${describe(key)} and is changed to ${labels[key] ?? ''} because the namespace has label ${LABEL_SYNC_LABEL}=true`;
      return { type: 'Warning', reason: 'LabelForced', message };
    }),
  ];
}

function describeOwners(key: string, owners: readonly FieldOwner[]): string {
  const others = owners.filter((owner) => owner.labels.has(key) && classifyOwner(owner) === 'other');
  const managers = sortedSet(others.map(({ manager }) => manager));
  return managers.length === 0 ? 'has no recorded owner' : `belongs to ${managers.map(quote).join(', ')}`;
}
