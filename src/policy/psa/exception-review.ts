/** Reviews writes to PodSecurityExceptions. Records authors and approvers, and denies invalid writes. */
import { APPROVAL_ANNOTATIONS, AUTHORS_ANNOTATION } from '../../api/names.ts';
import { type AdmissionRequest, allow, type Allowed, type Decision, deny } from '../../kube/admission.ts';
import { defined } from '../../kube/defined.ts';
import { deepEqual, withoutNulls } from '../../kube/equality.ts';
import { beyondLimit, type FieldError, forbiddenField, invalidValue, requiredField } from '../../kube/field-error.ts';
import { LIMITS } from '../../kube/limits.ts';
import type { PodSecurityException } from '../../kube/pod-security-exception.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { badRequest, invalid } from '../../kube/status.ts';
import { quote, sortedSet } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { formatTimestamp, parseTimestamp } from '../../kube/units.ts';
import { printFieldPath } from '../pod/index.ts';
import { findUnusable } from '../pss/index.ts';
import {
  CLOCK_SKEW_MS,
  type ExceptionSettings,
  findExceptionProblem,
  findLimit,
  parseAuthors,
  type PreparedException,
  prepareException,
} from './exceptions.ts';

const { group, resource } = RESOURCES.PodSecurityException;

interface ExceptionWrite {
  readonly request: AdmissionRequest;
  readonly settings: ExceptionSettings;
  readonly nowMs: number;
  /** Returns the hash of a spec. */
  hashSpec(spec: unknown): string;
}

/** Records the authors and the approver in the object. */
export function recordExceptionWrite(write: ExceptionWrite): Allowed {
  const change = readChange(write);
  if (change === undefined) return allow();
  // `change` contains a copy without nulls. The response must start from the original object.
  const object = write.request.object as PodSecurityException;
  const { isStatus, approval, user, nowMs } = change;
  if (!isStatus) return allow({ object: withRecord(object, change) });
  if (!change.isApproval || !isObject(approval)) return allow();
  const recorded = { ...approval, by: user, at: formatTimestamp(nowMs) };
  return allow({ object: { ...object, status: { ...object.status, approval: recorded } } });
}

/**
 * Denies a write if the exception exceeds the limits in the settings. An approval also requires the `approve`
 * permission.
 */
export function reviewExceptionWrite(write: ExceptionWrite): {
  readonly decision: Decision;
  readonly isApproval: boolean;
} {
  const change = readChange(write);
  if (change === undefined)
    return { decision: deny(badRequest('the object is not a PodSecurityException')), isApproval: false };
  const errors = [
    ...authorErrors(change),
    ...appliedErrors(change),
    ...(change.isSpecChanged ? specErrors(change) : []),
    ...(change.isApproval ? approvalErrors(change) : []),
  ];
  const isApproval = change.isApplied || (change.isApproval && change.approval !== undefined);
  if (errors.length === 0) {
    const unusable = change.isSpecChanged ? findUnusable(change.object.spec?.allow ?? []) : [];
    const warnings = unusable.map(({ path, reason }) => `${printFieldPath(path)} has no effect, because ${reason}`);
    return { decision: allow(warnings.length === 0 ? {} : { warnings }), isApproval };
  }
  const status = invalid({ group, kind: 'PodSecurityException' }, write.request.name ?? '', errors);
  return { decision: deny(status, { limit: errors.find(({ limit }) => limit !== undefined)?.limit }), isApproval };
}

/** Records the authors and, for an approval in the annotations, the requesting user and the time. */
function withRecord(
  object: PodSecurityException,
  { expectedAuthors, isApplied, user, recorded, nowMs }: ExceptionChange,
): PodSecurityException {
  const { metadata } = object;
  const { through, at } = isApplied ? { through: user, at: formatTimestamp(nowMs) } : recorded;
  const { [THROUGH]: _through, [AT]: _at, ...others } = metadata?.annotations ?? {};
  const record = defined({ [AUTHORS_ANNOTATION]: expectedAuthors, [THROUGH]: through, [AT]: at });
  const annotations = { ...others, ...record };
  if (deepEqual(annotations, metadata?.annotations ?? {})) return object;
  return { ...object, metadata: { ...metadata, annotations } };
}

interface ExceptionChange extends Pick<ExceptionWrite, 'settings' | 'nowMs' | 'hashSpec'> {
  readonly object: PodSecurityException;
  readonly user: string;
  readonly isStatus: boolean;
  readonly isSpecChanged: boolean;
  /** True if the approval is added, changed or removed. */
  readonly isApproval: boolean;
  readonly approval: NonNullable<PodSecurityException['status']>['approval'];
  /** Value of the authors annotation in the request, and the value that the annotation must have. */
  readonly authors: string | undefined;
  readonly expectedAuthors: string | undefined;
  /** True if an approval in the annotations is added or changed. */
  readonly isApplied: boolean;
  /** The deployer and time of the existing approval, which the annotations must keep unless the approval changes. */
  readonly recorded: { readonly through: string | undefined; readonly at: string | undefined };
}

const { by: BY, proposedBy: PROPOSED_BY, specHash: SPEC_HASH, through: THROUGH, at: AT } = APPROVAL_ANNOTATIONS;

/**
 * Returns the change in a request. Treats all operations and subresources in the same way. Returns `undefined` if there
 * is no exception.
 */
function readChange({ request, ...context }: ExceptionWrite): ExceptionChange | undefined {
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
  // If the authors of a stored exception are unknown, they stay unknown, because the approver might be one of them.
  const isEdited = !isStatus && isSpecChanged && (request.operation === 'CREATE' || known.length > 0);
  return {
    ...context,
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
function appliedErrors(change: ExceptionChange): readonly FieldError[] {
  const { object, user, isStatus, isApplied, recorded, settings, nowMs } = change;
  if (isStatus) return [];
  const path = (key: string): string => `metadata.annotations[${key}]`;
  const annotations = object.metadata?.annotations ?? {};
  const skewMs = Math.abs((parseTimestamp(annotations[AT]) ?? 0) - nowMs);
  const isRecorded = isApplied
    ? annotations[THROUGH] === user && skewMs <= CLOCK_SKEW_MS
    : annotations[THROUGH] === recorded.through && annotations[AT] === recorded.at;
  if (!isRecorded) {
    const detail = 'the webhook mutate.objects.portcullis.dev records the user and the time of the approval';
    return [forbiddenField(path(THROUGH), detail)];
  }
  if (!isApplied) return [];
  if (!settings.trustedApprovers.includes(user)) {
    const detail = `spec.podSecurity.exceptions.trustedApprovers of the settings does not contain ${quote(user)}: remove the annotation, and approve with portcullis exception approve`;
    return [forbiddenField(path(BY), detail)];
  }
  if ((annotations[PROPOSED_BY] ?? '') === '') {
    return [
      requiredField(
        path(PROPOSED_BY),
        'must be the name of the person who proposed the exception, who must not be its approver',
      ),
    ];
  }
  const hash = change.hashSpec(object.spec);
  if (annotations[SPEC_HASH] !== hash) {
    return [invalidValue(path(SPEC_HASH), annotations[SPEC_HASH], `must be the hash of the spec (${hash})`)];
  }
  const exception = readException({ ...change, object: { ...object, status: {} } });
  const problem = exception && findExceptionProblem(exception, settings, nowMs);
  return problem ? [forbiddenField(path(BY), problem.message)] : [];
}

function specErrors(change: ExceptionChange): readonly FieldError[] {
  const { isStatus, settings, nowMs } = change;
  const exception = readException(change);
  if (exception === undefined || isStatus) return [forbiddenField('spec', 'is not the spec of an exception')];
  const isTooLong = Buffer.byteLength(JSON.stringify(exception.spec)) > LIMITS.exceptionSpecBytes;
  if (isTooLong) return [beyondLimit('spec', 'exceptionSpecBytes')];
  const limit = findLimit(exception, settings);
  if (limit) return [forbiddenField('spec', limit.message)];
  const { expiresAt } = exception.spec;
  const leftMs = exception.rule.expiresAtMs - nowMs;
  if (leftMs <= 0) return [invalidValue('spec.expiresAt', expiresAt, 'must be in the future')];
  if (leftMs <= settings.maxDurationMs) return [];
  const hours = settings.maxDurationMs / 3_600_000;
  const detail = `must be at most ${hours}h from now (spec.podSecurity.exceptions.maxDuration of the settings)`;
  return [invalidValue('spec.expiresAt', expiresAt, detail)];
}

function approvalErrors(change: ExceptionChange): readonly FieldError[] {
  const { object, approval, isStatus, user, settings, nowMs } = change;
  const path = 'status.approval';
  if (!isStatus) return [forbiddenField(path, `may only be set through the status subresource of ${resource}`)];
  // Removing an approval requires no further checks.
  if (approval === undefined) return [];
  const hash = change.hashSpec(object.spec);
  if (approval.by !== user)
    return [invalidValue(`${path}.by`, approval.by, `must be the requesting user ${quote(user)}`)];
  if (Math.abs((parseTimestamp(approval.at) ?? 0) - nowMs) > CLOCK_SKEW_MS) {
    return [invalidValue(`${path}.at`, approval.at, 'must be the current time')];
  }
  if (approval.specHash !== hash) {
    const detail = `must be the hash of the current spec (${hash}): read the spec again before you approve it`;
    return [invalidValue(`${path}.specHash`, approval.specHash, detail)];
  }
  const exception = readException(change);
  const problem = exception && findExceptionProblem(exception, settings, nowMs);
  if (exception && problem === undefined) return [];
  return [forbiddenField(path, problem?.message ?? 'the spec is not valid')];
}

function readException({
  object,
  hashSpec,
}: Pick<ExceptionChange, 'object' | 'hashSpec'>): PreparedException | undefined {
  return prepareException(object, {
    specHash: hashSpec(object.spec),
    authors: object.metadata?.annotations?.[AUTHORS_ANNOTATION],
  });
}
