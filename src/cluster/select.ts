import { createRbac, type Names, type Rbac } from '../policy/rbac/authorizer.ts';
import { RBAC_KINDS, type Action, type RbacKind } from '../policy/rbac/types.ts';
import type { CanUse, Subject } from '../policy/scc/types.ts';
import { RESOURCES } from '../kube/resources.ts';
import type { UserInfo } from '../kube/types.ts';
import type { Store } from './store.ts';

/** True if the user may do it, by the roles and bindings of now. */
export type Access = (user: UserInfo, action: Action) => boolean;

/** They may do everything, whatever the roles say. */
const MASTERS = 'system:masters';

const USE_SCC: Action = {
  verb: 'use',
  apiGroup: RESOURCES.SecurityContextConstraints.group,
  resource: RESOURCES.SecurityContextConstraints.resource,
};

/** What is derived from the roles and bindings of a store, and how often they have changed. */
interface Following {
  readonly rbac: Rbac;
  changes: number;
}

const followed = new WeakMap<Store, Following>();

/** The roles and bindings of a store, indexed: a change costs what the changed object costs, however many others there are. */
function follow(store: Store): Following {
  const known = followed.get(store);
  if (known) return known;
  const rbac = createRbac();
  const following: Following = { rbac, changes: 0 };
  for (const kind of RBAC_KINDS) for (const object of store.list(kind)) rbac.put(kind, object);
  store.subscribe(({ kind, type, object, before }) => {
    if (!isRbac(kind)) return;
    following.changes++;
    if (before !== undefined) rbac.remove(kind, before);
    if (type === 'put') rbac.put(kind, object);
  });
  followed.set(store, following);
  return following;
}

/** Answers from the roles and bindings in the store. */
export function accessOf(store: Store): Access {
  const { rbac } = follow(store);
  return (user, action) => user.groups?.includes(MASTERS) === true || rbac.allows(user, action);
}

/** Who may use which SCC, by the roles and bindings in the store. */
export function canUseScc(store: Store): CanUse {
  const following = follow(store);
  const known = new WeakMap<Subject, Usable>();
  return (subject, sccName, namespace) => {
    let usable = known.get(subject);
    if (usable?.namespace !== namespace || usable.changes !== following.changes) {
      usable = { namespace, changes: following.changes, names: usableBy(following.rbac, subject, namespace) };
      known.set(subject, usable);
    }
    return usable.names === 'any' || usable.names.has(sccName);
  };
}

/** The SCCs that a subject may use in a namespace, as they were after so many changes. */
interface Usable {
  readonly namespace: string;
  readonly changes: number;
  readonly names: Names;
}

function usableBy(rbac: Rbac, subject: Subject, namespace: string): Names {
  return subject.groups.includes(MASTERS) ? 'any' : rbac.namesFor(subject, { ...USE_SCC, namespace });
}

function isRbac(kind: string): kind is RbacKind {
  return (RBAC_KINDS as readonly string[]).includes(kind);
}
