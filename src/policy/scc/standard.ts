import { GRANT_EXPIRY_ANNOTATION, TEMPORARY_GRANT_PREFIX } from '../../api/names.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { getApiVersion, RESOURCES } from '../../kube/resources.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import { compareBy, sortedSet } from '../../kube/text.ts';
import type { ClusterRole, ClusterRoleBinding, KubeObject, RoleBinding } from '../../kube/types.ts';
import type { Compatibility } from './mode.ts';
import { defaultScc } from './object-defaults.ts';
import standardSccs from './standard-sccs.json' with { type: 'json' };

export interface StandardScc {
  readonly scc: SecurityContextConstraints;
  /**
   * With `create`, the SCC is installed once and administrators may change it. With `reconcile`, the controller reverts
   * changes.
   */
  readonly upkeep: 'create' | 'reconcile';
  /** Groups that may use the SCC through RBAC, in addition to the groups that the SCC lists. */
  readonly grantedTo: readonly string[];
  /**
   * Service accounts of OpenShift's infrastructure that the SCC lists in OpenShift compatibility mode. Their namespaces
   * do not exist in other clusters, so any user who can choose the name of a namespace could use the SCC there.
   */
  readonly openshiftUsers?: readonly string[];
}

/**
 * The standard SCCs, with all the fields that the API server stores.
 * @see https://github.com/openshift/cluster-kube-apiserver-operator/tree/master/bindata/bootkube/scc-manifests
 */
export const STANDARD_SCCS = standardSccs as readonly StandardScc[];

/** The `openshiftUsers` of all standard SCCs. */
export const OPENSHIFT_USERS: readonly string[] = STANDARD_SCCS.flatMap(({ openshiftUsers = [] }) => openshiftUsers);

/** Returns a standard SCC with the users that it has in the compatibility mode. */
export function standardScc(
  { scc, openshiftUsers = [] }: StandardScc,
  compatibility: Compatibility,
): SecurityContextConstraints {
  const isOpenShift = compatibility === 'openshift' && openshiftUsers.length > 0;
  return isOpenShift ? { ...scc, users: [...(scc.users ?? []), ...openshiftUsers] } : scc;
}

const NAMES: readonly string[] = standardSccs.map(({ scc }) => scc.metadata.name);

/** Returns the name of the ClusterRole that grants use of an SCC, following OpenShift's naming convention. */
export function useRoleName(scc: string): string {
  return `system:openshift:scc:${scc}`;
}

/** Suffix of the ClusterRoles for temporary grants. SCC names contain no colons. */
const TEMPORARY_SUFFIX = ':temporary';

/** Returns the name of the ClusterRole that grants use of an SCC temporarily. */
function temporaryUseRoleName(scc: string): string {
  return `${useRoleName(scc)}${TEMPORARY_SUFFIX}`;
}

/** Returns the SCC that a role grants according to its name, or `undefined` if the name has a different format. */
export function useRoleScc(role: string): string | undefined {
  const prefix = useRoleName('');
  return role.startsWith(prefix) ? role.slice(prefix.length).replace(TEMPORARY_SUFFIX, '') : undefined;
}

/**
 * Permission of the subjects of temporary grants. It identifies them to the policy that prevents them from granting the
 * SCC to others. Neither the API group nor the resource exists, so roles that grant all permissions for other groups do
 * not include it.
 */
export const HOLD_TEMPORARY_GRANT = {
  apiGroup: 'grants.portcullis.dev',
  resource: 'temporarygrants',
  verb: 'hold',
} as const;

/**
 * Returns the name of the standard ClusterRole that grants use of an SCC, or `undefined` if the SCC is not a standard
 * SCC.
 */
export function standardUseRole(scc: string): string | undefined {
  return NAMES.includes(scc) ? useRoleName(scc) : undefined;
}

const { group: RBAC_GROUP } = RESOURCES.RoleBinding;

export function createUseRole(scc: string): ClusterRole {
  const { group, resource } = RESOURCES.SecurityContextConstraints;
  return {
    apiVersion: getApiVersion('ClusterRole'),
    kind: 'ClusterRole',
    metadata: { name: useRoleName(scc) },
    rules: [{ apiGroups: [group], resources: [resource], resourceNames: [scc], verbs: ['use'] }],
  };
}

/** Returns the ClusterRole that grants use of an SCC temporarily. */
export function createTemporaryUseRole(scc: string): ClusterRole {
  const { rules = [], ...role } = createUseRole(scc);
  const { apiGroup, resource, verb } = HOLD_TEMPORARY_GRANT;
  const metadata = { name: temporaryUseRoleName(scc) };
  return {
    ...role,
    metadata,
    rules: [...(rules ?? []), { apiGroups: [apiGroup], resources: [resource], verbs: [verb] }],
  };
}

/** The SCC that allows everything. */
export const PRIVILEGED_SCC = 'privileged';

/** Fields that determine who may use an SCC and when it is tried, but not which pods it allows. */
const ACCESS_FIELDS: readonly string[] = ['users', 'groups', 'priority'];

/**
 * Returns true if users who may use the `privileged` SCC may enter every pod without further permissions. As long as
 * the SCC has its standard content, it allows every pod, so they could enter every container of a node through a
 * privileged pod. OpenShift nevertheless evaluates, for example, whether they may use the pod's required SCC.
 */
export function mayEnterEveryPod(
  { compatibility }: { readonly compatibility?: Compatibility | undefined },
  privileged: SecurityContextConstraints | undefined,
): boolean {
  const standard = STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === PRIVILEGED_SCC);
  if (!standard || !privileged || compatibility === 'openshift') return false;
  const { fields = [] } = planUpdate(standard.scc, defaultScc(privileged)) ?? {};
  return fields.every((field) => ACCESS_FIELDS.includes(field));
}

/** One ClusterRole for each standard SCC, and one for `hostmount`, which OpenShift has although no such SCC exists. */
export const STANDARD_CLUSTER_ROLES: readonly ClusterRole[] = [...NAMES, 'hostmount'].map(createUseRole);

/** Bindings for the standard ClusterRoles. Each binding has the same name as its role. */
export const STANDARD_CLUSTER_ROLE_BINDINGS: readonly ClusterRoleBinding[] = STANDARD_SCCS.flatMap(
  ({ scc, grantedTo }) => {
    const subjects = grantedTo.map((name) => ({ apiGroup: RBAC_GROUP, kind: 'Group', name }));
    return subjects.length === 0 ? [] : [bindUseRole('ClusterRoleBinding', scc.metadata?.name ?? '', { subjects })];
  },
);

/** Returns a binding for the ClusterRole that grants use of an SCC, either in a namespace or cluster-wide. */
function bindUseRole<K extends 'ClusterRoleBinding' | 'RoleBinding'>(
  kind: K,
  scc: string,
  {
    metadata = {},
    subjects,
    role = useRoleName(scc),
  }: Required<Pick<RoleBinding, 'subjects'>> & Pick<RoleBinding, 'metadata'> & { readonly role?: string },
) {
  const roleRef = { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name: role };
  return { apiVersion: getApiVersion(kind), kind, metadata: { name: role, ...metadata }, roleRef, subjects };
}

/** A planned write. `replace` deletes and recreates the object, because one of the changed fields is immutable. */
export interface PlannedWrite<T> {
  readonly verb: 'create' | 'update' | 'replace';
  readonly object: T;
  /** The fields that differ. Empty for a new object. */
  readonly fields: readonly string[];
}

/** Name of the SCC that is never updated, because a cluster may already have its own SCC with this name. */
const NEVER_UPDATED = 'nested-container';

/**
 * Plans the write that restores a standard SCC. If administrators may change the SCC, the write only corrects the
 * `openshiftUsers`. Returns `undefined` if no write is necessary.
 * @see https://github.com/openshift/cluster-version-operator/blob/main/lib/resourcemerge/security.go
 */
export function planStandardScc(
  standard: StandardScc,
  existing: SecurityContextConstraints | undefined,
  compatibility: Compatibility,
): PlannedWrite<SecurityContextConstraints> | undefined {
  const scc = standardScc(standard, compatibility);
  if (!existing) return { verb: 'create', object: scc, fields: [] };
  if (scc.metadata?.name === NEVER_UPDATED) return undefined;
  if (standard.upkeep === 'reconcile') return planUpdate(scc, defaultScc(existing));
  const users: readonly string[] = existing.users ?? [];
  const { openshiftUsers = [] } = standard;
  const others = users.filter((user) => !openshiftUsers.includes(user));
  const missing = openshiftUsers.filter((user) => !users.includes(user));
  const expected = compatibility === 'openshift' ? [...users, ...missing] : others;
  return expected.length === users.length
    ? undefined
    : { verb: 'update', object: { ...existing, users: expected }, fields: ['users'] };
}

/** Plans the write, if any, that restores a standard role or binding. The role of a binding is immutable. */
export function planRbacObject<T extends ClusterRole | ClusterRoleBinding>(
  desired: T,
  existing: T | undefined,
): PlannedWrite<T> | undefined {
  if (!existing) return { verb: 'create', object: desired, fields: [] };
  const update = planUpdate(desired, existing);
  return update?.fields.includes('roleRef') ? { ...update, verb: 'replace', object: desired } : update;
}

const NOT_COMPARED: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

/** Plans an update that keeps the existing object's metadata. Returns `undefined` if no field differs. */
function planUpdate<T extends KubeObject>(desired: T, existing: T): PlannedWrite<T> | undefined {
  const before = new Map<string, unknown>(Object.entries(existing));
  const after = new Map<string, unknown>(Object.entries(desired));
  const fields = [...new Set([...before.keys(), ...after.keys()])].filter(
    (field) => !NOT_COMPARED.has(field) && !semanticEqual(before.get(field), after.get(field)),
  );
  const { metadata = {} } = existing;
  return fields.length === 0 ? undefined : { verb: 'update', object: { ...desired, metadata }, fields };
}

export interface Grant {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly scc: string;
}

/**
 * Returns the missing ClusterRoles, followed by the RoleBindings for the grants, sorted by namespace, service account
 * and SCC.
 */
export function grantObjects(
  grants: readonly Grant[],
  { hasRole }: { readonly hasRole: (scc: string) => boolean },
): readonly (ClusterRole | RoleBinding)[] {
  const keys = ({ namespace, serviceAccount, scc }: Grant) => [namespace, serviceAccount, scc];
  const unique = [...new Map(grants.map((grant) => [keys(grant).join('/'), grant])).values()].sort(compareBy(keys));
  const missing = sortedSet(unique.map(({ scc }) => scc)).filter((scc) => !hasRole(scc));
  return [...missing.map(createUseRole), ...unique.map(createAccountBinding)];
}

/**
 * Returns a binding without subjects for the ClusterRole that grants use of an SCC. The binding has the name that `oc
 * adm policy` uses, or a unique name if the grant expires.
 */
export function createUseBinding(
  scc: string,
  namespace: string | undefined,
  expiresAt: string | undefined,
): ClusterRoleBinding | RoleBinding {
  const name = `${TEMPORARY_GRANT_PREFIX}${scc}:${expiresAt}`;
  const temporary = expiresAt === undefined ? {} : { name, annotations: { [GRANT_EXPIRY_ANNOTATION]: expiresAt } };
  const role = expiresAt === undefined ? useRoleName(scc) : temporaryUseRoleName(scc);
  if (namespace === undefined) {
    return bindUseRole('ClusterRoleBinding', scc, { metadata: temporary, subjects: [], role });
  }
  return bindUseRole('RoleBinding', scc, { metadata: { ...temporary, namespace }, subjects: [], role });
}

/**
 * Returns the RoleBinding for a grant. Its name is unambiguous, because service account and SCC names contain no
 * colons.
 */
function createAccountBinding({ namespace, serviceAccount, scc }: Grant): RoleBinding {
  const metadata = { name: `portcullis:scc:${scc}:${serviceAccount}`, namespace };
  const subjects = [{ kind: 'ServiceAccount', name: serviceAccount, namespace }];
  return bindUseRole('RoleBinding', scc, { metadata, subjects });
}
