import type { Kind } from '../../kube/types.ts';
import type { WritableStore } from '../store.ts';
import type { Storage } from './storage.ts';
import { metadataOf, type ResourceKey } from './types.ts';

const RBAC = 'rbac.authorization.k8s.io';

/** The resource of each kind that decisions read. */
export const RESOURCES: Readonly<Record<Kind, ResourceKey>> = {
  Namespace: { group: '', resource: 'namespaces' },
  Pod: { group: '', resource: 'pods' },
  ServiceAccount: { group: '', resource: 'serviceaccounts' },
  Role: { group: RBAC, resource: 'roles' },
  ClusterRole: { group: RBAC, resource: 'clusterroles' },
  RoleBinding: { group: RBAC, resource: 'rolebindings' },
  ClusterRoleBinding: { group: RBAC, resource: 'clusterrolebindings' },
};

/** Keeps the store equal to what is stored, write by write. */
export function mirror(storage: Storage, store: WritableStore): void {
  const kinds = new Map(Object.entries(RESOURCES).map(([kind, key]) => [`${key.resource}.${key.group}`, kind as Kind]));
  storage.subscribe(({ type, resource, object }) => {
    const kind = kinds.get(`${resource.resource}.${resource.group}`);
    if (!kind) return;
    const { name = '', namespace } = metadataOf(object);
    if (type === 'DELETED') store.remove(kind, name, namespace);
    else store.put(kind, object);
  });
  store.markSynced();
}
