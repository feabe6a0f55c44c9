/** Answers reviews, which are not stored. */
import { isObject } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import type { Action } from '../policy/rbac/index.ts';
import type { ObjectResult } from './attributes.ts';
import { readWriteOptions } from './body.ts';
import { type Call, type Core, createAttributes } from './call.ts';
import type { ServedResource } from './resource-info.ts';
import { type ApiObject, at, editMetadata, textAt, textsAt } from './types.ts';
import { decodeNew } from './write.ts';

type ReviewStatus = (core: Core, call: Call, review: ApiObject) => unknown;

/** The functions that compute the status of reviews, by kind. */
const REVIEWS: Readonly<Record<string, ReviewStatus>> = {
  SelfSubjectAccessReview: (core, call, review) => ({ allowed: core.access(call.user, reviewedAction(review)) }),
  SubjectAccessReview: (core, _call, review) => {
    const user = { username: textAt(review, 'spec', 'user'), groups: textsAt(review, 'spec', 'groups') };
    return { allowed: core.access(user, reviewedAction(review)) };
  },
  SelfSubjectReview: (_core, { user }) => ({ userInfo: user }),
};

export function isReview({ group, kind }: ServedResource): boolean {
  return /^auth(entication|orization)\.k8s\.io$/.test(group) && Object.hasOwn(REVIEWS, kind);
}

/** Answers a review without storing it. */
export async function createReview(core: Core, call: Call): Promise<ObjectResult> {
  const { info, context } = call;
  const options = readWriteOptions(call.query);
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
