import { FORMER_LABEL_SYNC_MANAGER, LABEL_SYNC_MANAGER } from '../../../kube/label-sync.ts';
import type { FieldOwner } from '../../../kube/managed-fields.ts';
import type { Namespace } from '../../../kube/types.ts';

/** What the syncer owns in a namespace by applying it; only that goes away when it is left out of an application. */
export interface OwnFields {
  readonly labels: ReadonlySet<string>;
  readonly annotations: ReadonlySet<string>;
}

/**
 * Stands for whoever wrote an object of which no owners were known at its first application: for nobody.
 * @see https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */
const NOBODY = 'before-first-apply';

const NOTHING: OwnFields = { labels: new Set(), annotations: new Set() };

/** The fields that the syncer applied; never what was written in another way or by others. */
export function ownFieldsOf(owners: readonly FieldOwner[]): OwnFields {
  return owners.find(isOwner) ?? NOTHING;
}

/** True if the label is there and somebody else owns it, alone or with the syncer. */
export function isForeign(key: string, namespace: Namespace, owners: readonly FieldOwner[]): boolean {
  return isPresent(key, namespace) && foreignOwnersOf(key, owners).length > 0;
}

/** The names of all others who own the label. */
export function foreignOwnersOf(key: string, owners: readonly FieldOwner[]): readonly string[] {
  const others = owners.filter((owner) => owner.labels.has(key) && !isOurs(owner) && owner.manager !== NOBODY);
  return others.map(({ manager }) => manager);
}

/** True if the label is there and nobody is known to own it, as after a restore from a backup. */
export function isUnowned(key: string, namespace: Namespace, owners: readonly FieldOwner[]): boolean {
  return isPresent(key, namespace) && !owners.some(({ labels, manager }) => labels.has(key) && manager !== NOBODY);
}

/** True if the label is there, nobody else owns it, and it is listed as early releases wrote it. */
export function isFormer(key: string, namespace: Namespace, owners: readonly FieldOwner[]): boolean {
  const isListed = owners.some((owner) => isFormerOwner(owner) && owner.labels.has(key));
  return isListed && isPresent(key, namespace) && !isForeign(key, namespace, owners);
}

/** True for what the syncer wrote by plain updates, under its name of today or the one before. */
export function isFormerOwner(owner: FieldOwner): boolean {
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
