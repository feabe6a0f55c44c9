/** Computes the label syncer state on which the default level depends. */
import { ENFORCE_LABEL } from '../../api/names.ts';
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import type { Namespace } from '../../kube/types.ts';
import { parseTimestamp } from '../../kube/units.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { ENFORCE_LABELS, getOwnFields } from './label-owners.ts';
import { isManaged, isRelaxed, isTerminating, type ManagementSettings } from './managed-namespaces.ts';
import { canRunPods } from './needed-level.ts';

/** The sync state of a namespace. */
export interface SyncState {
  readonly isManaged: boolean;
  readonly ownsEnforceLabel: boolean;
}

/** Computes the state from the labels and their owners. */
export function getSyncState(namespace: Namespace, settings: ManagementSettings): SyncState {
  const owners = getMetadataOwners(namespace.metadata);
  const own = getOwnFields(owners ?? []).labels;
  return {
    isManaged: isManaged(namespace, owners, settings),
    ownsEnforceLabel: isRelaxed(namespace) || ENFORCE_LABELS.some((key) => own.has(key)),
  };
}

interface AwaitedNamespace extends Pick<SyncState, 'isManaged'> {
  readonly namespace: Namespace;
  readonly serviceAccounts: readonly string[];
}

/** Minimum age at which a namespace delays raising the default. */
const GRACE_MS = 60_000;

/**
 * Returns true if a managed namespace lacks a label that it needs before the default is raised. Ignores namespaces that
 * cannot run pods.
 */
export function isAwaitingLabel({ namespace, isManaged, serviceAccounts }: AwaitedNamespace, nowMs: number): boolean {
  const { labels, creationTimestamp } = namespace.metadata ?? {};
  const isLabeled = labels?.[POD_SECURITY_LABELS.enforce] !== undefined || labels?.[ENFORCE_LABEL] !== undefined;
  if (!isManaged || isLabeled || isTerminating(namespace)) return false;
  return canRunPods(namespace, serviceAccounts) && nowMs - (parseTimestamp(creationTimestamp) ?? 0) >= GRACE_MS;
}
