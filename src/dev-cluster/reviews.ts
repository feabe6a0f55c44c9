/** The reviews that the server answers and does not store. */
import { RESOURCES } from '../kube/resources.ts';
import { ApiError, badRequest } from '../kube/status.ts';
import { isObject, type JsonObject, type UserInfo } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import { readRoleRef, readSubject } from '../policy/rbac/authorizer.ts';
import type { Action } from '../policy/rbac/index.ts';
import type { ObjectResult } from './attributes.ts';
import { readWriteOptions } from './body.ts';
import { createAttributes, type Call, type Core } from './call.ts';
import type { ResourceInfo } from './resource-info.ts';
import { at, editMetadata, getMetadata, itemsAt, textAt, textsAt, type ApiObject, type ObjectReader } from './types.ts';
import { decodeNew } from './write.ts';

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
  // The server issues no tokens, so no token is valid.
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
