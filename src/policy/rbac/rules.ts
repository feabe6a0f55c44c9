/**
 * Evaluates the stored role-based access control (RBAC) roles and bindings.
 *
 * Aggregated roles are not resolved, and the `system:masters` group has no special permissions. Malformed objects grant
 * no permissions.
 */
import { RESOURCES } from '../../kube/resources.ts';
import { type ClusterRole, isObject, type KubeObject } from '../../kube/types.ts';

export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  /** Names of the objects to which the rule applies. If empty or absent, it applies to all objects. */
  readonly resourceNames?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
}

/** A Role or a ClusterRole. */
export interface RoleLike extends Pick<KubeObject, 'metadata'> {
  readonly rules?: readonly PolicyRule[] | null;
}

/** The subject of a binding, which is a `User`, a `Group` or a `ServiceAccount`. */
export interface Subject {
  readonly kind: string;
  readonly name: string;
  /** Namespace of a service account. In a RoleBinding, it defaults to the namespace of the binding. */
  readonly namespace?: string;
}

/** A RoleBinding or a ClusterRoleBinding. */
export interface RoleBindingLike extends Pick<KubeObject, 'metadata'> {
  readonly subjects?: readonly Subject[] | null;
  readonly roleRef: { readonly kind: string; readonly name: string };
}

export const RBAC_KINDS = ['Role', 'ClusterRole', 'RoleBinding', 'ClusterRoleBinding'] as const;
export type RbacKind = (typeof RBAC_KINDS)[number];

/** The RBAC objects of a cluster. */
export interface RbacObjects {
  readonly roles: readonly RoleLike[];
  readonly clusterRoles: readonly RoleLike[];
  readonly roleBindings: readonly RoleBindingLike[];
  readonly clusterRoleBindings: readonly RoleBindingLike[];
}

/** The requesting user as the API server has authenticated it. */
export interface User {
  readonly username?: string;
  readonly groups?: readonly string[];
}

/** An action on a resource, or on a non-resource URL if `nonResourceURL` is set. */
export interface Action {
  readonly verb: string;
  /** API group of the resource. Empty or absent for the core group. */
  readonly apiGroup?: string;
  /** The lowercase plural resource name. */
  readonly resource?: string;
  readonly subresource?: string;
  readonly name?: string;
  /** Namespace of the request. Empty or absent for cluster-wide requests. */
  readonly namespace?: string;
  readonly nonResourceURL?: string;
}

/** The role that exists in every cluster and grants everything. */
export const CLUSTER_ADMIN: ClusterRole = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name: 'cluster-admin' },
  rules: [
    { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
    { nonResourceURLs: ['*'], verbs: ['*'] },
  ],
};

/** The `use` verb on SCCs. The caller adds the name. */
export const USE_SCC: Required<Pick<Action, 'verb' | 'apiGroup' | 'resource'>> = {
  verb: 'use',
  apiGroup: RESOURCES.SecurityContextConstraints.group,
  resource: RESOURCES.SecurityContextConstraints.resource,
};

/** Returns true if the user may perform the action. */
export type Authorizer = (user: User, action: Action) => boolean;

/** A rule whose field types have been verified. */
export type VerifiedRule = Required<PolicyRule>;

const ALL = '*';

/**
 * Reads the rules of a role. Drops malformed rules, because a rule without one of its lists might grant more
 * permissions.
 */
export function readRules(rules: unknown): readonly VerifiedRule[] {
  if (!Array.isArray(rules)) return [];
  return rules.map(readRule).filter((rule) => rule !== undefined);
}

function readRule(rule: unknown): VerifiedRule | undefined {
  if (!isObject(rule)) return undefined;
  const verbs = readTexts(rule['verbs']);
  const apiGroups = readTexts(rule['apiGroups']);
  const resources = readTexts(rule['resources']);
  const resourceNames = readTexts(rule['resourceNames']);
  const nonResourceURLs = readTexts(rule['nonResourceURLs']);
  if (!verbs || !apiGroups || !resources || !resourceNames || !nonResourceURLs) return undefined;
  return { verbs, apiGroups, resources, resourceNames, nonResourceURLs };
}

function readTexts(value: unknown): readonly string[] | undefined {
  if (value == null) return [];
  return Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : undefined;
}

/**
 * Returns true if the rule grants the action, regardless of the namespace.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/rbac/v1/evaluation_helpers.go
 */
export function ruleAllows(rule: VerifiedRule, action: Action): boolean {
  if (action.nonResourceURL != null) {
    return matches(rule.verbs, action.verb) && matchesUrl(rule.nonResourceURLs, action.nonResourceURL);
  }
  return (
    ruleCovers(rule, action) && (rule.resourceNames.length === 0 || rule.resourceNames.includes(action.name ?? ''))
  );
}

/** Returns true if the rule grants the action on at least one object of the resource, regardless of the name. */
export function ruleCovers(rule: VerifiedRule, { verb, apiGroup, resource, subresource }: Action): boolean {
  return (
    matches(rule.verbs, verb) &&
    matches(rule.apiGroups, apiGroup ?? '') &&
    matchesResource(rule.resources, resource ?? '', subresource ?? '')
  );
}

/**
 * Returns the parts of a role's rules that grant an action on a resource, with at most `maxNames` names in each rule.
 * Rules that differ only in their names are merged. The result never grants more than the original rules.
 */
export function selectRules(
  rules: unknown,
  { verb, apiGroup = '', resource = '' }: Action,
  maxNames: number,
): { readonly rules: readonly PolicyRule[]; readonly isCut: boolean } {
  const selected = new Map<string, PolicyRule & { readonly names: Set<string> | undefined }>();
  let isCut = false;
  for (const rule of readRules(rules)) {
    if (!ruleCovers(rule, { verb, apiGroup, resource })) continue;
    const parts = {
      verbs: matching(rule.verbs, verb),
      apiGroups: matching(rule.apiGroups, apiGroup),
      resources: matching(rule.resources, resource),
    };
    const isAny = rule.resourceNames.length === 0;
    const key = JSON.stringify([parts, isAny]);
    const names = selected.get(key)?.names ?? new Set<string>();
    for (const name of rule.resourceNames) {
      if (name.length <= MAX_NAME && (names.size < maxNames || names.has(name))) names.add(name);
      else isCut = true;
    }
    if (isAny || names.size > 0) selected.set(key, { ...parts, names: isAny ? undefined : names });
  }
  const result = Array.from(selected.values(), ({ names, ...rule }) =>
    names ? { ...rule, resourceNames: [...names] } : rule,
  );
  return { rules: result, isCut };
}

/** Maximum length of an object's name. */
const MAX_NAME = 253;

function matching(granted: readonly string[], asked: string): readonly string[] {
  return [ALL, asked].filter((text) => granted.includes(text));
}

function matches(granted: readonly string[], asked: string): boolean {
  return granted.includes(ALL) || granted.includes(asked);
}

function matchesResource(granted: readonly string[], resource: string, subresource: string): boolean {
  if (subresource === '') return matches(granted, resource);
  return matches(granted, `${resource}/${subresource}`) || granted.includes(`*/${subresource}`);
}

/**
 * Returns true if one of the patterns matches the URL. A pattern that ends with an asterisk matches every URL with that
 * prefix.
 */
function matchesUrl(granted: readonly string[], url: string): boolean {
  return granted.some(
    (pattern) => pattern === url || (pattern.endsWith(ALL) && url.startsWith(trimAsterisks(pattern))),
  );
}

function trimAsterisks(pattern: string): string {
  let end = pattern.length;
  while (pattern[end - 1] === ALL) end--;
  return pattern.slice(0, end);
}
