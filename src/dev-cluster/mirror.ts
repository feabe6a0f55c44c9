import { findKind } from '../kube/resources.ts';
import type { WritableStore } from '../cluster/store.ts';
import type { Storage } from './storage.ts';
import { metadataOf } from './types.ts';

/** Keeps the store equal to what is stored, write by write. */
export function mirror(storage: Storage, store: WritableStore): void {
  storage.subscribe(({ type, resource, object }) => {
    const kind = findKind(resource);
    if (!kind) return;
    const { name = '', namespace } = metadataOf(object);
    if (type === 'DELETED') store.remove(kind, name, namespace);
    else store.put(kind, object);
  });
  store.markSynced();
}
