import { createRbac, type Names, type Rbac } from '../policy/rbac/authorizer.ts';
import { RBAC_KINDS, type Action, type RbacKind } from '../policy/rbac/rules.ts';
import type { CanUse, Subject } from '../policy/scc/request.ts';
import { RESOURCES } from '../kube/resources.ts';
import { type UserInfo, isObject } from '../kube/types.ts';
import type { Store } from './store.ts';
import { ApiError } from '../kube/status.ts';
import type { AccessAttributes } from './cluster.ts';
import type { Connection } from './connection.ts';

/** True if the user may do it, by the roles and bindings of now. */
export type Access = (user: UserInfo, action: Action) => boolean;

/** They may do everything, whatever the roles say. */
const MASTERS = 'system:masters';

const USE_SCC: Action = {
  verb: 'use',
  apiGroup: RESOURCES.SecurityContextConstraints.group,
  resource: RESOURCES.SecurityContextConstraints.resource,
};

const followed = new WeakMap<Store, Rbac>();

/** The roles and bindings of a store, indexed: a change costs what the changed object costs, however many others there are. */
function follow(store: Store): Rbac {
  const known = followed.get(store);
  if (known) return known;
  const rbac = createRbac();
  followed.set(store, rbac);
  for (const kind of RBAC_KINDS) for (const object of store.list(kind)) rbac.put(kind, object);
  store.subscribe(({ kind, type, object, before }) => {
    if (!isRbac(kind)) return;
    if (before !== undefined) rbac.remove(kind, before);
    if (type === 'put') rbac.put(kind, object);
  });
  return rbac;
}

function isRbac(kind: string): kind is RbacKind {
  return (RBAC_KINDS as readonly string[]).includes(kind);
}

/** Answers from the roles and bindings in the store. */
export function accessFromStore(store: Store): Access {
  const rbac = follow(store);
  return (user, action) => isMaster(user) || rbac.allows(user, action);
}

const predicates = new WeakMap<Store, CanUse>();

/** Who may use which SCC, by the roles and bindings in the store. */
export function canUseScc(store: Store): CanUse {
  const known = predicates.get(store);
  if (known) return known;
  const rbac = follow(store);
  const namesFor = (subject: Subject, namespace: string): Names =>
    isMaster(subject) ? 'any' : rbac.namesFor(subject, { ...USE_SCC, namespace });
  const isAllowed = (subject: Subject, name: string, namespace: string): boolean =>
    isMaster(subject) || rbac.allows(subject, { ...USE_SCC, name, namespace });
  const canUse = Object.assign(isAllowed, { namesFor });
  predicates.set(store, canUse);
  return canUse;
}

function isMaster({ groups }: Pick<UserInfo, 'groups'>): boolean {
  return groups?.includes(MASTERS) === true;
}

/** Who the server takes us for; `undefined` if it does not tell. */
export async function reviewSelf(connection: Connection, signal?: AbortSignal): Promise<UserInfo | undefined> {
  try {
    const { status } = await create(connection, 'authentication.k8s.io', 'SelfSubjectReview', {}, signal);
    const user = isObject(status) ? status['userInfo'] : undefined;
    return isObject(user) ? user : undefined;
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

/** Asks the server whether a user may do something. Rejects as `request` does. */
export async function reviewAccess(
  connection: Connection,
  { username, uid, groups, extra }: UserInfo,
  { nonResourceURL, verb, apiGroup, ...resource }: AccessAttributes,
  signal?: AbortSignal,
): Promise<boolean> {
  const spec = {
    user: username,
    uid,
    groups,
    extra,
    ...(nonResourceURL === undefined
      ? { resourceAttributes: { verb, group: apiGroup ?? '', ...resource } }
      : { nonResourceAttributes: { verb, path: nonResourceURL } }),
  };
  const { status } = await create(connection, 'authorization.k8s.io', 'SubjectAccessReview', { spec }, signal);
  return isObject(status) && status['allowed'] === true;
}

async function create(
  connection: Connection,
  group: string,
  kind: string,
  content: Readonly<Record<string, unknown>>,
  signal: AbortSignal | undefined,
): ReturnType<Connection['request']> {
  const apiVersion = `${group}/v1`;
  return await connection.request({
    method: 'POST',
    path: `/apis/${apiVersion}/${kind.toLowerCase()}s`,
    body: { apiVersion, kind, ...content },
    ...(signal ? { signal } : {}),
  });
}
