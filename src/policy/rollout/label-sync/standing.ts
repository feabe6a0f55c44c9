import { metadataOwnersOf } from '../../../kube/managed-fields.ts';
import type { Namespace } from '../../../kube/types.ts';
import { ENFORCE_LABELS } from './labels.ts';
import { isManaged, type ManagementSettings } from './managed.ts';
import { ownFieldsOf } from './ownership.ts';

/** How a namespace stands with the syncer. */
export interface Standing {
  readonly isManaged: boolean;
  /** Whether the syncer holds its pods to something, which it may have to give up. */
  readonly ownsEnforceLabel: boolean;
}

/** Tells it by the labels of the namespace and their owners. */
export function standingOf(namespace: Namespace, settings: ManagementSettings): Standing {
  const owners = metadataOwnersOf(namespace.metadata);
  const own = ownFieldsOf(owners ?? []).labels;
  return {
    isManaged: isManaged(namespace, owners, settings),
    ownsEnforceLabel: [...ENFORCE_LABELS].some((key) => own.has(key)),
  };
}
