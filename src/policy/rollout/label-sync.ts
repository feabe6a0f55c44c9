/**
 * Plans the Pod Security labels of namespaces based on the SCCs that their service accounts may use.
 * @see https://github.com/openshift/cluster-policy-controller/tree/master/pkg/psalabelsyncer
 */
import { ENFORCE_LABEL } from '../../api/names.ts';
import type { JsonPatchOp } from '../../kube/json-patch.ts';
import { type FieldOwner, getMetadataOwners } from '../../kube/managed-fields.ts';
import { quote, sortedSet } from '../../kube/text.ts';
import { isObject, type JsonObject, type Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL, POD_SECURITY_LABELS, SUFFICIENT_LEVEL_ANNOTATION } from '../../kube/well-known.ts';
import { isStricter } from '../psa/index.ts';
import { isLevel, type Level, parseVersion } from '../pss/index.ts';
import { sccMode, type SccSettings } from '../scc/index.ts';
import type { SyncerMode } from './enforcement.ts';
import {
  classifyOwner,
  ENFORCE_LABELS,
  getOwnership,
  getOwnFields,
  LEVEL_LABELS,
  namespaceDocument,
  PSA_LABELS,
} from './label-owners.ts';
import { isManaged, isOptedIn, isRelaxed, isTerminating, type ManagementSettings } from './managed-namespaces.ts';
import { findNeededLevel, type NeededLevel, type NeededLevelInput } from './needed-level.ts';

// Labels and their owners

const { enforce, enforceVersion, audit, warn, warnVersion } = POD_SECURITY_LABELS;

/** Returns the label value for a namespace that needs the given level. */
function labelValue(key: string, { isWarnedByWebhook }: Pick<LabelState, 'isWarnedByWebhook'>, level: Level): string {
  if (!LEVEL_LABELS.includes(key)) return 'latest';
  return key === warn && isWarnedByWebhook ? 'privileged' : level;
}

function isValidLabel(key: string, value: string): boolean {
  return LEVEL_LABELS.includes(key) ? isLevel(value) : parseVersion(value) !== undefined;
}

// The plan

/** Input for planning one namespace. */
export interface LabelSyncInput extends Omit<NeededLevelInput, 'compatibility'> {
  readonly mode: SyncerMode;
  readonly settings: ManagementSettings;
}

/** The plan for a namespace, which contains at most one write. */
export interface LabelSyncPlan {
  readonly isManaged: boolean;
  /** The level that the namespace needs. Absent if it cannot be computed or the namespace is not managed. */
  readonly neededLevel?: NeededLevel | undefined;
  /** Document for a forced apply as `LABEL_SYNC_MANAGER`. */
  readonly apply?: Namespace | undefined;
  /** A JSON patch. Set only if there is nothing to apply. */
  readonly patch?: readonly JsonPatchOp[] | undefined;
  /** Events that are recorded only once while their cause persists. */
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

/** Plans the labels of a namespace. Yields as often as `findNeededLevel`. */
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
 * template. An enforce label causes warnings even if there is no warn label. The warn label is therefore set to
 * privileged, and the webhook evaluates the template with the added fields.
 */
function warnsByWebhook(namespace: Namespace, scc: SccSettings): boolean {
  return scc.compatibility !== 'openshift' && sccMode(namespace, scc).mode === 'enforce';
}

/**
 * Returns the namespace with the warn level that it needs, or with the enforced level if that is stricter. Returns the
 * namespace unchanged if another manager owns the warn label.
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
 * Returns a document whose apply releases all of the syncer's labels and annotations. Returns `undefined` if the syncer
 * owns none.
 */
export function releaseLabels(namespace: Namespace): Namespace | undefined {
  const owners = getMetadataOwners(namespace.metadata);
  if (owners === undefined || isTerminating(namespace)) return undefined;
  const { labels, annotations } = getOwnFields(owners);
  return labels.size + annotations.size === 0 ? undefined : namespaceDocument(namespace, {});
}

/**
 * Returns the labels that the syncer owns after the apply. The apply releases all other labels. If Portcullis itself
 * enforces the level, there are no enforce labels, because the API server's PodSecurity plugin ignores exceptions.
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
 * Returns the planned value of a label, or `undefined` if the syncer should not own it. If the level is unknown, labels
 * stay unchanged, because removing one would change the enforced level. Enforce labels are removed only in `Advise`
 * mode. If the PodSecurity plugin returns warnings instead of the webhook, the warn label is set to the last known
 * level, which the other labels still have.
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
 * Returns true if the syncer must keep the label's current value because another manager owns it, or because its owner
 * is unknown and its value is valid.
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

/** Paths in `fieldsV1` of the fields that the syncer may own. */
const SYNCED_PATHS: readonly (readonly string[])[] = [
  ...PSA_LABELS.map((key) => ['f:metadata', 'f:labels', `f:${key}`]),
  ['f:metadata', 'f:annotations', `f:${SUFFICIENT_LEVEL_ANNOTATION}`],
];

/**
 * Returns a patch that removes the ownership that early releases recorded in the managed fields, once the syncer owns
 * the fields through apply. Returns `undefined` if there is nothing to remove. Labels and other entries do not change.
 * The patch contains the resource version, so it fails if the namespace has changed concurrently.
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

// Events

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

/**
 * Returns events about labels that belong to other managers. They report that a label is kept, or that it is
 * overwritten because the namespace opted in.
 */
function labelEvents(state: LabelState, level: Level, labels: Fields): readonly LabelSyncEvent[] {
  const { namespace, owners } = state;
  const own = getOwnFields(owners).labels;
  const current = namespace.metadata?.labels;
  const differing = PSA_LABELS.filter((key) => current?.[key] !== labelValue(key, state, level));
  // Warn labels of other managers are not reported, because they do not contradict the level.
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
