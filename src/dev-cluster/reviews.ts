import { invalidValue, type FieldError } from '../kube/field-error.ts';
import { ApiError, badRequest, invalid } from '../kube/status.ts';
import { isObject, type UserInfo } from '../kube/types.ts';
import type { Action } from '../policy/rbac/index.ts';
import { attributesOf } from './attributes.ts';
import type { ApiResult, Call, Core } from './core.ts';
import { decodeNew } from './create.ts';
import { editMetadata, timestamp } from './metadata.ts';
import { omit } from './omit.ts';
import { readWriteOptions } from './options.ts';
import { rulesOf } from './rules-review.ts';
import { at, textAt, textsAt } from './tables/cells.ts';
import { track } from './tracking.ts';
import { metadataOf, type ApiObject, type ResourceInfo } from './types.ts';

/** Questions that are posted and answered, and never stored. */
interface Review {
  errors?(object: ApiObject): FieldError[];
  status(core: Core, call: Call, object: ApiObject): unknown;
}

const REVIEWS: Readonly<Record<string, Review>> = {
  SelfSubjectAccessReview: {
    errors: attributeErrors,
    status: (core, call, object) => ({ allowed: core.access(call.user, actionOf(object)) }),
  },
  SubjectAccessReview: {
    errors: (object) => [...attributeErrors(object), ...subjectErrors(object)],
    status: (core, _call, object) => ({ allowed: core.access(subjectOf(object), actionOf(object)) }),
  },
  LocalSubjectAccessReview: {
    errors: (object) => [...attributeErrors(object), ...subjectErrors(object), ...localErrors(object)],
    status: (core, _call, object) => ({ allowed: core.access(subjectOf(object), actionOf(object)) }),
  },
  SelfSubjectRulesReview: {
    status(core, call, object) {
      const namespace = textAt(object, 'spec', 'namespace');
      if (namespace === '') throw new ApiError(badRequest('no namespace on request'));
      return rulesOf(core.storage, call.user, namespace);
    },
  },
  SelfSubjectReview: { status: (_core, call) => ({ userInfo: call.user }) },
  TokenReview: {
    status(_core, _call, object) {
      if (textAt(object, 'spec', 'token') !== '') return { user: {} };
      throw new ApiError(badRequest('token is required for TokenReview in authentication'));
    },
  },
};

export function isReview(info: ResourceInfo): boolean {
  return info.group.startsWith('auth') && Object.hasOwn(REVIEWS, info.kind);
}

/** Answers a review. */
export async function createReview(core: Core, call: Call): Promise<ApiResult> {
  const { info } = call;
  const review = REVIEWS[info.kind];
  if (!review) throw new ApiError(badRequest(`not a review: ${info.kind}`));
  const options = readWriteOptions(call.query, 'CreateOptions');
  const object = decodeNew(core, call, options);
  track(core, call, options.fieldManager, object);
  const subject = {
    operation: 'CREATE',
    object,
    options: options.as('CreateOptions'),
    dryRun: options.dryRun,
  } as const;
  const attributes = attributesOf(call, subject);
  const admitted = (await core.admission.mutate(attributes, call.context)) ?? object;
  const errors = review.errors?.(admitted) ?? [];
  if (errors.length > 0) throw new ApiError(invalid(info, '', errors));
  await core.admission.validate({ ...attributes, object: admitted }, call.context);
  if (info.kind === 'SelfSubjectReview') editMetadata(admitted)['creationTimestamp'] = timestamp(core.clock());
  admitted['status'] = review.status(core, call, admitted);
  return { kind: 'object', code: 201, object: admitted };
}

function actionOf(object: ApiObject): Action {
  const path = at(object, 'spec', 'nonResourceAttributes');
  if (isObject(path)) return { verb: textAt(path, 'verb'), nonResourceURL: textAt(path, 'path') };
  const attributes = at(object, 'spec', 'resourceAttributes');
  const text = (name: string): string => textAt(attributes, name);
  return {
    verb: text('verb'),
    apiGroup: text('group'),
    resource: text('resource'),
    subresource: text('subresource'),
    name: text('name'),
    namespace: text('namespace'),
  };
}

function subjectOf(object: ApiObject): UserInfo {
  return { username: textAt(object, 'spec', 'user'), groups: textsAt(object, 'spec', 'groups') };
}

function attributeErrors(object: ApiObject): FieldError[] {
  const resource = at(object, 'spec', 'resourceAttributes');
  const path = at(object, 'spec', 'nonResourceAttributes');
  if (resource !== undefined && path !== undefined) {
    return [
      invalidValue('spec.nonResourceAttributes', path, 'cannot be specified in combination with resourceAttributes'),
    ];
  }
  const detail = 'exactly one of nonResourceAttributes or resourceAttributes must be specified';
  return [
    ...(resource === undefined && path === undefined ? [invalidValue('spec.resourceAttributes', null, detail)] : []),
    ...metadataErrors(object),
  ];
}

/** Reviews have no name; a local one has a namespace. */
function metadataErrors(object: ApiObject): FieldError[] {
  const rest = omit(object.metadata ?? {}, 'managedFields', 'namespace');
  return Object.keys(rest).length > 0 ? [invalidValue('metadata', rest, 'must be empty')] : [];
}

function subjectErrors(object: ApiObject): FieldError[] {
  const { username, groups } = subjectOf(object);
  if ((username ?? '') !== '' || (groups ?? []).length > 0) return [];
  return [invalidValue('spec.user', '', 'at least one of user or group must be specified')];
}

function localErrors(object: ApiObject): FieldError[] {
  const path = at(object, 'spec', 'nonResourceAttributes');
  if (path !== undefined) {
    return [invalidValue('spec.nonResourceAttributes', path, 'disallowed on this kind of request')];
  }
  const namespace = textAt(object, 'spec', 'resourceAttributes', 'namespace');
  if (namespace === metadataOf(object).namespace) return [];
  return [invalidValue('spec.resourceAttributes.namespace', namespace, 'must match metadata.namespace')];
}
