/** Makes access decisions, based on the roles and bindings in a store or on access reviews by the API server. */
import { objectName } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import { type AccessReviewStatus, isObject, type UserInfo } from '../kube/types.ts';
import { type Action, createRbac, type Rbac, RBAC_KINDS, type RbacKind, USE_SCC } from '../policy/rbac/index.ts';
import {
  type SccAccess,
  createSccSet,
  type SccSet,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_SCCS,
} from '../policy/scc/index.ts';
import type { ApiRequest, Connection } from './connection.ts';
import { memoize, type Store } from './store.ts';

/** Returns true if RBAC permits the action. */
export type Access = (user: UserInfo, action: Action) => boolean;

/** The API server allows this group to perform all actions. */
const MASTERS = 'system:masters';

interface StoreAccess {
  readonly access: Access;
  readonly sccAccess: SccAccess;
}

/** Returns a function that makes access decisions based on the roles and bindings in the store. */
export function accessFromStore(store: Store): Access {
  return storeAccess(store).access;
}

/** Returns the decisions about who may use an SCC, based on the roles and bindings in the store. */
export function sccAccess(store: Store): SccAccess {
  return storeAccess(store).sccAccess;
}

/** Indexes roles and bindings once per store. The cost of a change depends only on the changed object. */
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

/** Returns the prepared SCCs of a store. */
export function getSccSet(store: Store): SccSet {
  return sccSet(store.list('SecurityContextConstraints'));
}

/** Returns true if a standard SCC or a binding that grants one does not exist. */
export function lacksStandardSccs(store: Store): boolean {
  return (
    STANDARD_SCCS.some(({ scc }) => !store.get('SecurityContextConstraints', objectName(scc))) ||
    STANDARD_CLUSTER_ROLE_BINDINGS.some((binding) => !store.get('ClusterRoleBinding', objectName(binding)))
  );
}

function isMaster({ groups }: Pick<UserInfo, 'groups'>): boolean {
  return groups?.includes(MASTERS) === true;
}

/**
 * Returns the identity that the server assigns to the connection's credentials, or `undefined` if it does not serve
 * SelfSubjectReviews.
 */
export async function reviewSelf(connection: Connection, signal?: AbortSignal): Promise<UserInfo | undefined> {
  try {
    const status = await createReview(connection, 'authentication.k8s.io', 'SelfSubjectReview', {}, { signal });
    const user = isObject(status) ? status['userInfo'] : undefined;
    return isObject(user) ? user : undefined;
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}

type ReviewOptions = Pick<ApiRequest, 'address' | 'signal'>;

/** Creates a SubjectAccessReview for a user. Rejects like `Connection.request`. */
export async function reviewAccess(
  connection: Connection,
  { username, uid, groups, extra }: UserInfo,
  { nonResourceURL, verb, apiGroup = '', ...resource }: Action,
  options: ReviewOptions = {},
): Promise<AccessReviewStatus> {
  const attributes =
    nonResourceURL === undefined
      ? { resourceAttributes: { verb, group: apiGroup, ...resource } }
      : { nonResourceAttributes: { verb, path: nonResourceURL } };
  const spec = { user: username, uid, groups, extra, ...attributes };
  const status = await createReview(connection, 'authorization.k8s.io', 'SubjectAccessReview', { spec }, options);
  return { ...(isObject(status) ? status : {}), allowed: isObject(status) && status['allowed'] === true };
}

async function createReview(
  connection: Connection,
  group: string,
  kind: string,
  content: Readonly<Record<string, unknown>>,
  options: ReviewOptions,
): Promise<unknown> {
  const apiVersion = `${group}/v1`;
  const { status } = await connection.request({
    method: 'POST',
    path: `/apis/${apiVersion}/${kind.toLowerCase()}s`,
    body: { apiVersion, kind, ...content },
    ...options,
  });
  return status;
}
