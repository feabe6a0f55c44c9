import type { Access } from '../cluster/access.ts';
import { impersonatedUser, parseServiceAccountUsername } from '../kube/admission.ts';
import { RESOURCES } from '../kube/resources.ts';
import { quote } from '../kube/text.ts';
import { ApiError, badRequest, createStatus, forbidden } from '../kube/status.ts';
import { isObject, type JsonObject, type UserInfo } from '../kube/types.ts';
import { readRoleRef, readSubject } from '../policy/rbac/authorizer.ts';
import type { Action } from '../policy/rbac/index.ts';
import { readWriteOptions } from './body.ts';
import { formatTimestamp } from '../kube/units.ts';
import { decodeNew } from './write.ts';
import { createAttributes, type Call, type Core, type ObjectResult } from './request.ts';
import {
  at,
  editMetadata,
  getMetadata,
  itemsAt,
  textAt,
  textsAt,
  type ApiObject,
  type ObjectReader,
  type ResourceInfo,
} from './types.ts';

/** Throws ApiError 403 unless RBAC allows the action. */
export function requireAccess(access: Access, user: UserInfo, action: Action): void {
  if (access(user, action)) return;
  const { verb, apiGroup = '', resource = '', name = '', nonResourceURL } = action;
  const cause = escapeHtml(`User ${quote(user.username ?? '')} cannot ${verb} ${formatTarget(action)}`);
  if (nonResourceURL !== undefined) throw new ApiError(createStatus(403, 'Forbidden', `forbidden: ${cause}`, {}));
  throw new ApiError(forbidden({ group: apiGroup, resource }, name, cause));
}

function formatTarget({ apiGroup = '', resource = '', subresource = '', namespace = '', nonResourceURL }: Action) {
  if (nonResourceURL !== undefined) return `path ${quote(nonResourceURL)}`;
  const target = subresource === '' ? resource : `${resource}/${subresource}`;
  const scope = namespace === '' ? 'at the cluster scope' : `in the namespace ${quote(namespace)}`;
  return `resource ${quote(target)} in API group ${quote(apiGroup)} ${scope}`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const EXTRA_HEADER = 'impersonate-extra-';

/**
 * Returns the user that the Impersonate headers name, or the requester if there are none. Throws ApiError 403 if the
 * requester must not impersonate that user.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
 */
export function impersonate(access: Access, requester: UserInfo, rawHeaders: readonly string[]): UserInfo {
  const headers = Map.groupBy(headerPairs(rawHeaders), ([name]) => name);
  const values = (name: string): string[] => (headers.get(name) ?? []).map(([, value]) => value);
  const [username = ''] = values('impersonate-user');
  const [uid = ''] = values('impersonate-uid');
  const groups = values('impersonate-group');
  const extra = [...headers.keys()]
    .filter((name) => name.startsWith(EXTRA_HEADER))
    .map((name) => [decodeURIComponent(name.slice(EXTRA_HEADER.length)), values(name)] as const);
  if (username === '') {
    if (groups.length === 0 && uid === '' && extra.length === 0) return requester;
    throw new ApiError(badRequest(`requested [${groups.join(' ')}] without impersonating a user`));
  }
  const require = (action: Omit<Action, 'verb'>): void =>
    requireAccess(access, requester, { verb: 'impersonate', ...action });
  const account = parseServiceAccountUsername(username);
  if (account) require({ resource: 'serviceaccounts', ...account });
  else require({ resource: 'users', name: username });
  for (const name of groups) require({ resource: 'groups', name });
  const apiGroup = 'authentication.k8s.io';
  for (const [subresource, names] of extra) {
    for (const name of names) require({ apiGroup, resource: 'userextras', subresource, name });
  }
  if (uid !== '') require({ apiGroup, resource: 'uids', name: uid });
  return {
    ...impersonatedUser(username, groups),
    ...(uid === '' ? {} : { uid }),
    ...(extra.length === 0 ? {} : { extra: Object.fromEntries(extra) }),
  };
}

/** Node merges repeated headers, except in `rawHeaders`, where names and values alternate. */
function headerPairs(raw: readonly string[]): [name: string, value: string][] {
  return raw.flatMap((name, index) => (index % 2 === 0 ? [[name.toLowerCase(), raw[index + 1] ?? '']] : []));
}

/** Returns the rules of all roles that are bound to a user in the cluster or in a namespace. */
function userRules(reader: ObjectReader, user: UserInfo, namespace: string): readonly JsonObject[] {
  const local = namespace === '' ? [] : reader.list(RESOURCES.RoleBinding, namespace);
  return [...reader.list(RESOURCES.ClusterRoleBinding), ...local].flatMap((binding) => {
    const { namespace: scope = '' } = getMetadata(binding);
    const role = readRoleRef(binding['roleRef'], scope);
    const subjects = itemsAt(binding, 'subjects').map((subject) => readSubject(subject, scope));
    const isBound = subjects.some(
      (subject) => subject && { users: [user.username], groups: user.groups }[subject.list]?.includes(subject.name),
    );
    if (!role || !isBound) return [];
    const resource = role.namespace === '' ? RESOURCES.ClusterRole : RESOURCES.Role;
    return itemsAt(reader.get(resource, role.namespace, role.name), 'rules');
  });
}

type ReviewStatus = (core: Core, call: Call, review: ApiObject) => unknown;

/** The reviews by kind, with the function that computes their status. */
const REVIEWS: Readonly<Record<string, ReviewStatus>> = {
  SelfSubjectAccessReview: (core, call, review) => ({ allowed: core.access(call.user, reviewedAction(review)) }),
  SubjectAccessReview: (core, _call, review) => {
    const user = { username: textAt(review, 'spec', 'user'), groups: textsAt(review, 'spec', 'groups') };
    return { allowed: core.access(user, reviewedAction(review)) };
  },
  SelfSubjectRulesReview: (core, { user }, review) => {
    const namespace = textAt(review, 'spec', 'namespace');
    if (namespace === '') throw new ApiError(badRequest('no namespace on request'));
    const all = [
      { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
      { verbs: ['*'], nonResourceURLs: ['*'] },
    ];
    const own = userRules(core.storage, user, namespace);
    const rules = user.groups?.includes('system:masters') ? [...all, ...own] : own;
    return {
      resourceRules: rules.filter((rule) => textsAt(rule, 'resources').length > 0),
      nonResourceRules: rules.filter((rule) => textsAt(rule, 'nonResourceURLs').length > 0),
      incomplete: false,
    };
  },
  SelfSubjectReview: (_core, { user }) => ({ userInfo: user }),
  // The server issues no tokens, so that no token is valid.
  TokenReview: () => ({ user: {} }),
};

export function isReview({ group, kind }: ResourceInfo): boolean {
  return /^auth(entication|orization)\.k8s\.io$/.test(group) && Object.hasOwn(REVIEWS, kind);
}

/** Answers a review, which is not stored. */
export async function createReview(core: Core, call: Call): Promise<ObjectResult> {
  const { info, context } = call;
  const options = readWriteOptions(call.query, 'CreateOptions');
  const sent = decodeNew(core, call, options);
  const change = { operation: 'CREATE', options: options.toObject('CreateOptions'), dryRun: options.dryRun } as const;
  const attributes = createAttributes(call, { ...change, object: sent });
  const object = (await core.admission.mutate(attributes, context)) ?? sent;
  await core.admission.validate({ ...attributes, object }, context);
  editMetadata(object)['creationTimestamp'] =
    info.kind === 'SelfSubjectReview' ? formatTimestamp(core.clock().getTime()) : null;
  object['status'] = REVIEWS[info.kind]?.(core, call, object);
  return { kind: 'object', code: 201, object };
}

function reviewedAction(review: ApiObject): Action {
  const url = at(review, 'spec', 'nonResourceAttributes');
  if (isObject(url)) return { verb: textAt(url, 'verb'), nonResourceURL: textAt(url, 'path') };
  const text = (field: string): string => textAt(review, 'spec', 'resourceAttributes', field);
  return {
    verb: text('verb'),
    apiGroup: text('group'),
    resource: text('resource'),
    subresource: text('subresource'),
    name: text('name'),
    namespace: text('namespace'),
  };
}
