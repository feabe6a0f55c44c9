/**
 * Reviews of PodSecurityExceptions: one records authors and approvers, and the other verifies them. While no replica
 * responds, the policy in `install/exception-policy.ts` verifies approvers and denies new exceptions.
 */
import { APPROVAL_ANNOTATIONS, AUTHORS_ANNOTATION } from '../../api/names.ts';
import { systemClock, withTimeout } from '../../cluster/clock.ts';
import type { Cluster } from '../../cluster/cluster.ts';
import { type AdmissionRequest, allow, type Decision, deny } from '../../kube/admission.ts';
import { defined } from '../../kube/defined.ts';
import { deepEqual, withoutNulls } from '../../kube/equality.ts';
import { type FieldError, forbiddenField, invalidValue, requiredField, tooLong } from '../../kube/field-error.ts';
import { LIMITS } from '../../kube/limits.ts';
import type { PodSecurityException } from '../../kube/pod-security-exception.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { badRequest, createStatus, forbidden, invalid } from '../../kube/status.ts';
import { quote, sortedSet } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { formatTimestamp, parseTimestamp } from '../../kube/units.ts';
import {
  CLOCK_SKEW_MS,
  type ExceptionSettings,
  findExceptionProblem,
  findLimit,
  parseAuthors,
} from '../../policy/psa/index.ts';
import { countExceeded } from '../../telemetry/limits.ts';
import { hashSpec, readException } from '../../views/exceptions.ts';
import { ACCESS_REVIEWS_LIMITED, type TakeAccessReview } from '../access-reviews.ts';
import { remainingMs } from '../waiting-room.ts';
import type { WebhookContext } from '../webhook.ts';
import type { ObjectReviewer } from '../webhooks/objects.ts';

const { group, resource } = RESOURCES.PodSecurityException;

export interface ExceptionDeps {
  /** Returns the effective settings. */
  settings(): ExceptionSettings;
  readonly cluster: Pick<Cluster, 'reviewAccess'>;
  readonly takeAccessReview: TakeAccessReview;
  /** Returns the time of day. */
  date(): Date;
}

/** Creates the reviewer that records authors and approvers, and denies exceptions that exceed the limits in the settings. */
export function createExceptionReviewer(deps: ExceptionDeps): ObjectReviewer {
  return {
    change(request) {
      const change = readChange(request);
      if (change === undefined) return allow();
      // `change` contains a copy without nulls. The response must start from the original object.
      const object = request.object as PodSecurityException;
      const { isStatus, approval } = change;
      if (!isStatus) return allow({ object: withRecord(object, change, deps.date()) });
      if (!change.isApproval || !isObject(approval)) return allow();
      const recorded = { ...approval, by: change.user, at: formatTimestamp(deps.date().getTime()) };
      return allow({ object: { ...object, status: { ...object.status, approval: recorded } } });
    },
    validate(request, context) {
      const change = readChange(request);
      if (change === undefined) return deny(badRequest('the object is not a PodSecurityException'));
      const errors = [
        ...authorErrors(change),
        ...appliedErrors(change, deps),
        ...(change.isSpecChanged ? specErrors(change, deps) : []),
        ...(change.isApproval ? approvalErrors(change, deps) : []),
      ];
      if (errors.length > 0) return deny(invalid({ group, kind: 'PodSecurityException' }, request.name ?? '', errors));
      const isApproval = change.isApplied || (change.isApproval && change.approval !== undefined);
      return isApproval ? authorize(request, context, deps) : allow();
    },
  };
}

/** Records the authors and, for an approval in the annotations, the requesting user and the time. */
function withRecord(
  object: PodSecurityException,
  { expectedAuthors, isApplied, user, recorded }: ExceptionChange,
  date: Date,
): PodSecurityException {
  const { metadata } = object;
  const { through, at } = isApplied ? { through: user, at: formatTimestamp(date.getTime()) } : recorded;
  const { [THROUGH]: _through, [AT]: _at, ...others } = metadata?.annotations ?? {};
  const record = defined({ [AUTHORS_ANNOTATION]: expectedAuthors, [THROUGH]: through, [AT]: at });
  const annotations = { ...others, ...record };
  if (deepEqual(annotations, metadata?.annotations ?? {})) return object;
  return { ...object, metadata: { ...metadata, annotations } };
}

interface ExceptionChange {
  readonly object: PodSecurityException;
  readonly user: string;
  readonly isStatus: boolean;
  readonly isSpecChanged: boolean;
  /** True if the approval is added, changed or removed. */
  readonly isApproval: boolean;
  readonly approval: NonNullable<PodSecurityException['status']>['approval'];
  /** Value of the authors annotation in the request, and the value that it must have. */
  readonly authors: string | undefined;
  readonly expectedAuthors: string | undefined;
  /** True if an approval in the annotations is added or changed. */
  readonly isApplied: boolean;
  /** The deployer and the time that the annotations must contain if they are not changed. */
  readonly recorded: { readonly through: string | undefined; readonly at: string | undefined };
}

const { by: BY, proposedBy: PROPOSED_BY, specHash: SPEC_HASH, through: THROUGH, at: AT } = APPROVAL_ANNOTATIONS;

/** Reads the change in a request, in the same way for all versions, patches and subresources. */
function readChange(request: AdmissionRequest): ExceptionChange | undefined {
  const { userInfo, namespace = '', subResource = '' } = request;
  const isWrite = request.operation === 'CREATE' || request.operation === 'UPDATE';
  if (!isWrite || !isObject(request.object)) return undefined;
  const object = withoutNulls(request.object) as PodSecurityException;
  const old = (isObject(request.oldObject) ? withoutNulls(request.oldObject) : {}) as PodSecurityException;
  const user = userInfo.username ?? '';
  const isStatus = subResource === 'status';
  const isSpecChanged = !deepEqual(object.spec, old.spec);
  const [annotations, oldAnnotations] = [object.metadata?.annotations ?? {}, old.metadata?.annotations ?? {}];
  const isSame = [BY, PROPOSED_BY, SPEC_HASH].every((key) => annotations[key] === oldAnnotations[key]);
  const isRemoved = (annotations[BY] ?? '') === '';
  const before = oldAnnotations[AUTHORS_ANNOTATION];
  const known = parseAuthors(before);
  // The authors of a stored exception cannot become known, because any of them might be its approver.
  const isEdited = !isStatus && isSpecChanged && (request.operation === 'CREATE' || known.length > 0);
  return {
    object: { ...object, metadata: { ...object.metadata, namespace } },
    user,
    isStatus,
    isSpecChanged,
    isApproval: !deepEqual(object.status?.approval, old.status?.approval),
    approval: object.status?.approval,
    isApplied: !isStatus && !isSame && !isRemoved,
    recorded: isRemoved
      ? { through: undefined, at: undefined }
      : { through: oldAnnotations[THROUGH], at: oldAnnotations[AT] },
    authors: annotations[AUTHORS_ANNOTATION],
    expectedAuthors: isEdited ? JSON.stringify(sortedSet([...known, user])) : before,
  };
}

function authorErrors({ authors, expectedAuthors, user }: ExceptionChange): readonly FieldError[] {
  if (user !== '' && authors === expectedAuthors) return [];
  const detail = 'the webhook mutate.objects.portcullis.dev records the authors';
  return [forbiddenField(`metadata.annotations[${AUTHORS_ANNOTATION}]`, detail)];
}

/** Verifies an approval in the annotations. Only users that the settings trust may apply one. */
function appliedErrors(
  { object, user, isStatus, isApplied, recorded }: ExceptionChange,
  { settings, date }: ExceptionDeps,
) {
  if (isStatus) return [];
  const path = (key: string): string => `metadata.annotations[${key}]`;
  const annotations = object.metadata?.annotations ?? {};
  const skewMs = Math.abs((parseTimestamp(annotations[AT]) ?? 0) - date().getTime());
  const isRecorded = isApplied
    ? annotations[THROUGH] === user && skewMs <= CLOCK_SKEW_MS
    : annotations[THROUGH] === recorded.through && annotations[AT] === recorded.at;
  if (!isRecorded) {
    const detail = 'the webhook mutate.objects.portcullis.dev records the user and the time of the approval';
    return [forbiddenField(path(THROUGH), detail)];
  }
  if (!isApplied) return [];
  if (!settings().trustedApprovers.includes(user)) {
    const detail = `spec.podSecurity.exceptions.trustedApprovers of the settings does not contain ${quote(user)}: remove the annotation, and approve with portcullis exception approve`;
    return [forbiddenField(path(BY), detail)];
  }
  if ((annotations[PROPOSED_BY] ?? '') === '') {
    return [requiredField(path(PROPOSED_BY), 'name the person who proposed the exception, who is not its approver')];
  }
  const hash = hashSpec(object.spec);
  if (annotations[SPEC_HASH] !== hash) {
    return [invalidValue(path(SPEC_HASH), annotations[SPEC_HASH], `must be the hash of the spec (${hash})`)];
  }
  const exception = readException({ ...object, status: {} });
  const problem = exception && findExceptionProblem(exception, settings(), date().getTime());
  return problem ? [forbiddenField(path(BY), problem.message)] : [];
}

function specErrors({ object, isStatus }: ExceptionChange, { settings, date }: ExceptionDeps) {
  const exception = readException(object);
  if (exception === undefined || isStatus) return [forbiddenField('spec', 'is not the spec of an exception')];
  if (Buffer.byteLength(JSON.stringify(exception.spec)) > LIMITS.exceptionSpecBytes) {
    countExceeded('exceptionSpecBytes');
    return [tooLong('spec', LIMITS.exceptionSpecBytes)];
  }
  const limit = findLimit(exception, settings());
  if (limit) return [forbiddenField('spec', limit.message)];
  const { expiresAt } = exception.spec;
  const leftMs = exception.rule.expiresAtMs - date().getTime();
  const { maxDurationMs } = settings();
  if (leftMs <= 0) return [invalidValue('spec.expiresAt', expiresAt, 'must be in the future')];
  if (leftMs <= maxDurationMs) return [];
  const hours = maxDurationMs / 3_600_000;
  const detail = `must be at most ${hours}h from now (spec.podSecurity.exceptions.maxDuration of the settings)`;
  return [invalidValue('spec.expiresAt', expiresAt, detail)];
}

function approvalErrors(
  { object, approval, isStatus, user }: ExceptionChange,
  { settings, date }: ExceptionDeps,
): readonly FieldError[] {
  const path = 'status.approval';
  if (!isStatus) return [forbiddenField(path, `may only be set through the status subresource of ${resource}`)];
  // Removing an approval requires no further checks.
  if (approval === undefined) return [];
  const nowMs = date().getTime();
  const hash = hashSpec(object.spec);
  if (approval.by !== user)
    return [invalidValue(`${path}.by`, approval.by, `must be the requesting user ${quote(user)}`)];
  if (Math.abs((parseTimestamp(approval.at) ?? 0) - nowMs) > CLOCK_SKEW_MS) {
    return [invalidValue(`${path}.at`, approval.at, 'must be the current time')];
  }
  if (approval.specHash !== hash) {
    const detail = `must be the hash of the current spec (${hash}): read the spec again before you approve it`;
    return [invalidValue(`${path}.specHash`, approval.specHash, detail)];
  }
  const exception = readException(object);
  const problem = exception && findExceptionProblem(exception, settings(), nowMs);
  if (exception && problem === undefined) return [];
  return [forbiddenField(path, problem?.message ?? 'the spec is not valid')];
}

/**
 * Requires the `approve` verb, as for CertificateSigningRequests. The API server evaluates the request with all its
 * authorizers.
 */
async function authorize(
  { name = '', namespace = '', userInfo }: AdmissionRequest,
  context: WebhookContext,
  { cluster, takeAccessReview }: ExceptionDeps,
): Promise<Decision> {
  if (!takeAccessReview(context.address)) return deny(createStatus(429, 'TooManyRequests', ACCESS_REVIEWS_LIMITED));
  const action = { verb: 'approve', apiGroup: group, resource, name, namespace };
  const user = quote(userInfo.username ?? '');
  try {
    const review = withTimeout(systemClock, remainingMs(context), () => cluster.reviewAccess(userInfo, action));
    const { allowed } = await review;
    if (allowed) return allow();
    const cause = `User ${user} cannot approve resource "${resource}" in API group "${group}" in the namespace ${quote(namespace)}`;
    return deny(forbidden({ group, resource }, name, cause));
  } catch {
    const message = `failed to check with the API server whether ${user} may approve ${resource}.${group}; try again`;
    return deny(createStatus(503, 'ServiceUnavailable', message));
  }
}
