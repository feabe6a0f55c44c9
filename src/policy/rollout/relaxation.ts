/**
 * Break-glass for namespaces. The API server's PodSecurity plugin enforces the label syncer's labels even while no
 * Portcullis webhook is running. SCC admission does not default pods in that case, so the plugin denies ordinary pods.
 * Break-glass therefore sets these labels to `privileged` and records the previous level in `RELAXED_LABEL`. Removing
 * the labels would not be enough, because the plugin configuration may set a default level.
 */
import { BREAK_GLASS_MANAGER, RELAXED_LABEL } from '../../api/names.ts';
import { type FieldOwner, getMetadataOwners } from '../../kube/managed-fields.ts';
import { sortedSet } from '../../kube/text.ts';
import type { Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_MANAGER, POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { isStricter, NO_DEFAULTS, resolvePolicies } from '../psa/index.ts';
import { compareVersions, isLevel, type Level, type Policy } from '../pss/index.ts';
import { getOwnership, getOwnFields, namespaceDocument } from './label-owners.ts';
import { isRelaxed, isTerminating } from './managed-namespaces.ts';

const { enforce: ENFORCE, enforceVersion: VERSION } = POD_SECURITY_LABELS;

/** A write that fails if the object has changed concurrently. */
export interface ObjectWrite {
  readonly type: 'apply' | 'merge-patch';
  readonly fieldManager: string;
  readonly document: object;
}

/** Returns the write that relaxes an enforce label of the label syncer, or `undefined` if there is nothing to relax. */
export function planRelaxation(namespace: Namespace): ObjectWrite | undefined {
  const level = denyingLevel(namespace);
  const ownership = getOwnership(ENFORCE, namespace, getMetadataOwners(namespace.metadata) ?? []);
  if (level === undefined || (ownership !== 'own' && ownership !== 'previous')) return undefined;
  const labels = { [ENFORCE]: 'privileged', [RELAXED_LABEL]: level };
  return { type: 'apply', fieldManager: BREAK_GLASS_MANAGER, document: namespaceDocument(namespace, { labels }) };
}

/** Returns the enforced level, or `undefined` if it is privileged or the namespace is terminating. */
function denyingLevel(namespace: Namespace): string | undefined {
  const level = namespace.metadata?.labels?.[ENFORCE];
  return level === 'privileged' || isTerminating(namespace) ? undefined : level;
}

/**
 * Returns the next write that restores the namespace, or `undefined` if there is nothing left to restore. The first
 * write restores the previous level and makes the label syncer the owner of its label again. The second write removes
 * the `RELAXED_LABEL`.
 */
export function planRestoration(namespace: Namespace, recorded: Policy | undefined): ObjectWrite | undefined {
  const { labels = {}, annotations = {} } = namespace.metadata ?? {};
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const level = formerLevel(namespace, recorded);
  const isOwner = ownsEnforceLabel(namespace, owners, level);
  if (isTerminating(namespace) || (!isRelaxed(namespace) && !isOwner)) return undefined;
  if (isOwner && level !== undefined) {
    // An apply removes all fields of its manager that it omits.
    const own = getOwnFields(owners);
    const fields = {
      labels: { ...pick(labels, own.labels), [ENFORCE]: level },
      annotations: pick(annotations, own.annotations),
    };
    return { type: 'apply', fieldManager: LABEL_SYNC_MANAGER, document: namespaceDocument(namespace, fields) };
  }
  // If the previous level is missing or invalid, the label syncer sets the label again.
  const removed = { [RELAXED_LABEL]: null, ...(isOwner ? { [ENFORCE]: null } : {}) };
  const { uid, resourceVersion } = namespace.metadata ?? {};
  const document = { metadata: { uid, resourceVersion, labels: removed } };
  return { type: 'merge-patch', fieldManager: BREAK_GLASS_MANAGER, document };
}

/**
 * Returns the level before break-glass. This is the stricter of the label's level and the recorded level, because every
 * client that may patch the namespace can change the label.
 */
function formerLevel({ metadata }: Namespace, recorded: Policy | undefined): Level | undefined {
  const label = metadata?.labels?.[RELAXED_LABEL];
  if (!isLevel(label) || label === 'privileged') return recorded?.level;
  return recorded === undefined || isStricter(label, recorded.level) ? label : recorded.level;
}

/** Returns the policy that the PodSecurity plugin enforces for the labels. */
export function labeledPolicy({ metadata: { labels } = {} }: Namespace): Policy {
  const own = { [ENFORCE]: labels?.[ENFORCE], [VERSION]: labels?.[VERSION] };
  return resolvePolicies(own, NO_DEFAULTS).enforce;
}

/**
 * Returns the labels that must be set to the recorded values because the namespace's level is lower or its version is
 * older.
 */
export function loweredLabels(namespace: Namespace, recorded: Policy): readonly { name: string; value: string }[] {
  if (isTerminating(namespace)) return [];
  const { version } = labeledPolicy(namespace);
  return [
    ...(isBelow(namespace, recorded.level) ? [{ name: ENFORCE, value: recorded.level }] : []),
    ...(compareVersions(version, recorded.version) < 0 ? [{ name: VERSION, value: recorded.version }] : []),
  ];
}

/**
 * Returns true if break-glass set the enforce label and no other client has changed or applied it since. The label
 * syncer never changes a relaxed label, but every client that may patch the namespace can use the syncer's field
 * manager name.
 */
function ownsEnforceLabel(
  namespace: Namespace,
  owners: readonly FieldOwner[],
  previousLevel: Level | undefined,
): boolean {
  const managers = enforceManagers(owners);
  const isForged = isRelaxed(namespace) && isBelow(namespace, previousLevel);
  const own = isForged ? [BREAK_GLASS_MANAGER, LABEL_SYNC_MANAGER] : [BREAK_GLASS_MANAGER];
  return managers.length > 0 && managers.every((manager) => own.includes(manager));
}

function isBelow(namespace: Namespace, level: Level = 'privileged'): boolean {
  return isStricter(level, labeledPolicy(namespace).level);
}

function enforceManagers(owners: readonly FieldOwner[]): readonly string[] {
  return sortedSet(owners.filter(({ labels }) => labels.has(ENFORCE)).map(({ manager }) => manager));
}

function pick(values: Readonly<Record<string, string>>, keys: ReadonlySet<string>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => keys.has(key)));
}

/** Returns the reason why restoring the label does not restore its exact state, or `undefined` if it does. */
export function restorationProblem(namespace: Namespace, recorded: Policy | undefined): 'changed' | 'lost' | undefined {
  const owners = getMetadataOwners(namespace.metadata) ?? [];
  const level = formerLevel(namespace, recorded);
  if (ownsEnforceLabel(namespace, owners, level)) return level === undefined ? 'lost' : undefined;
  const isAtLevel = level !== undefined && !isBelow(namespace, level);
  const isRestored = isAtLevel && enforceManagers(owners).includes(LABEL_SYNC_MANAGER);
  return isRelaxed(namespace) && !isRestored ? 'changed' : undefined;
}

/** An enforce label that break-glass does not change because another client owns it. */
interface RemainingLabel {
  readonly namespace: string;
  readonly level: string;
  /** Field managers that own the label. Empty if they are unknown. */
  readonly managers: readonly string[];
}

/** Returns the enforce label if it denies pods and another client owns it, or `undefined` otherwise. */
export function remainingLabel(namespace: Namespace): RemainingLabel | undefined {
  const level = denyingLevel(namespace);
  if (level === undefined || planRelaxation(namespace)) return undefined;
  const managers = enforceManagers(getMetadataOwners(namespace.metadata) ?? []);
  return { namespace: namespace.metadata?.name ?? '', level, managers };
}
