/** Makes access decisions based on the roles and bindings in a store. */
import { memoize, type Store } from '../cluster/store.ts';
import { objectName } from '../kube/resources.ts';
import type { UserInfo } from '../kube/types.ts';
import { type Action, createRbac, type Rbac, RBAC_KINDS, type RbacKind, USE_SCC } from '../policy/rbac/index.ts';
import {
  type SccAccess,
  createSccSet,
  type SccSet,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_SCCS,
} from '../policy/scc/index.ts';

/** Returns true if RBAC permits the action. */
export type Access = (user: UserInfo, action: Action) => boolean;

/** Group that the API server allows to perform all actions. */
const MASTERS = 'system:masters';

interface StoreAccess {
  readonly access: Access;
  readonly sccAccess: SccAccess;
}

/** Returns a function that makes access decisions based on the roles and bindings in the store. */
export function accessFromStore(store: Store): Access {
  return storeAccess(store).access;
}

/** Returns the functions that decide who may use an SCC, based on the roles and bindings in the store. */
export function sccAccess(store: Store): SccAccess {
  return storeAccess(store).sccAccess;
}

/** Indexes roles and bindings once per store. The cost of an update depends only on the changed object. */
const storeAccess = memoize((store: Store): StoreAccess => {
  const rbac = indexRbac(store);
  return {
    access: (user, action) => isMaster(user) || rbac.allows(user, action),
    sccAccess: {
      canUse: (subject, name, namespace) => isMaster(subject) || rbac.allows(subject, { ...USE_SCC, name, namespace }),
      namesFor: (subject, namespace) => (isMaster(subject) ? 'any' : rbac.namesFor(subject, USE_SCC, namespace)),
    },
  };
});

function indexRbac(store: Store): Rbac {
  const rbac = createRbac();
  for (const kind of RBAC_KINDS) for (const object of store.list(kind)) rbac.put(kind, object);
  store.subscribe(({ kind, type, object, before }) => {
    if (!isRbacKind(kind)) return;
    if (before !== undefined) rbac.remove(kind, before);
    if (type === 'put') rbac.put(kind, object);
  });
  return rbac;
}

function isRbacKind(kind: string): kind is RbacKind {
  return (RBAC_KINDS as readonly string[]).includes(kind);
}

const sccSet = memoize(createSccSet);

/** Returns the SCCs in a store, prepared for admission. */
export function getSccSet(store: Store): SccSet {
  return sccSet(store.list('SecurityContextConstraints'));
}

/** Returns true if any of the standard SCCs, or of the bindings that grant them, does not exist. */
export function lacksStandardSccs(store: Store): boolean {
  return (
    STANDARD_SCCS.some(({ scc }) => !store.get('SecurityContextConstraints', objectName(scc))) ||
    STANDARD_CLUSTER_ROLE_BINDINGS.some((binding) => !store.get('ClusterRoleBinding', objectName(binding)))
  );
}

function isMaster({ groups }: Pick<UserInfo, 'groups'>): boolean {
  return groups?.includes(MASTERS) === true;
}
