/** Decides which PodSecurityExceptions apply, based on approval, the limits in the settings, and expiry. */
import { APPROVAL_ANNOTATIONS, ENFORCE_LABEL } from '../../api/names.ts';
import type { PodSecurityException } from '../../kube/pod-security-exception.ts';
import { printCount, summarizeNames } from '../../kube/text.ts';
import { isObject } from '../../kube/types.ts';
import { formatTimestamp, parseTimestamp } from '../../kube/units.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';
import { coversBaseline, type ExceptionRule, isSameControl } from '../pss/index.ts';
import { isStricter, type Labels, NO_DEFAULTS, type Policies, resolvePolicies } from './policy.ts';

export interface ExceptionSettings {
  readonly mode: 'off' | 'approved';
  readonly maxDurationMs: number;
  readonly forbiddenChecks: readonly string[];
  /** Namespaces in which exceptions apply. If empty, they apply in all namespaces. */
  readonly namespaces: readonly string[];
  readonly selfApproval: boolean;
  /** Users that may apply an exception together with its approval. */
  readonly trustedApprovers: readonly string[];
}

/** The approval in the status of an exception or, with `through` and `proposedBy`, in its annotations. */
type Approval = NonNullable<NonNullable<PodSecurityException['status']>['approval']> &
  Partial<Pick<Record<keyof typeof APPROVAL_ANNOTATIONS, string>, 'through' | 'proposedBy'>>;

/** A parsed exception, so reviews do not parse it again. */
export interface PreparedException {
  readonly name: string;
  readonly namespace: string;
  readonly spec: NonNullable<PodSecurityException['spec']>;
  readonly specHash: string;
  /** Users who created the exception or changed its spec. Empty if they are unknown. */
  readonly authors: readonly string[];
  readonly approval: Approval | undefined;
  /** Unix time in milliseconds, or `-Infinity` if the time is malformed. */
  readonly approvedMs: number;
  readonly rule: ExceptionRule;
}

export interface ExceptionProblem {
  readonly reason:
    | 'Off'
    | 'NamespaceNotPermitted'
    | 'CheckForbidden'
    | 'NotApproved'
    | 'SpecChanged'
    | 'SelfApproved'
    | 'TooLong'
    | 'Expired';
  readonly message: string;
}

const AUTHORS_UNKNOWN = 'its authors are unknown because it was stored without a review. Delete it and create it again';

/** Returns the reason why an exception does not apply to new pods, or `undefined` if it applies. */
export function findExceptionProblem(
  exception: PreparedException,
  settings: ExceptionSettings,
  nowMs: number,
): ExceptionProblem | undefined {
  return findLastingProblem(exception, settings) ?? findTimeProblem(exception, nowMs);
}

/** Returns a problem with an exception that does not depend on the time, or `undefined` if there is none. */
export function findLastingProblem(
  exception: PreparedException,
  settings: ExceptionSettings,
): ExceptionProblem | undefined {
  return findLimit(exception, settings) ?? findApprovalProblem(exception, settings);
}

/** Maximum allowed difference between the clocks of the replicas. */
export const CLOCK_SKEW_MS = 60_000;

/**
 * Returns a problem if an exception has expired, or if its approval is in the future, which would extend its duration.
 */
export function findTimeProblem(
  { approvedMs, rule, spec }: PreparedException,
  nowMs: number,
): ExceptionProblem | undefined {
  if (nowMs >= rule.expiresAtMs) return { reason: 'Expired', message: `it expired at ${spec.expiresAt}` };
  if (nowMs >= approvedMs - CLOCK_SKEW_MS) return undefined;
  return { reason: 'NotApproved', message: `its approval is in the future: ${formatTimestamp(approvedMs)}` };
}

/** Returns a problem if a setting forbids the exception, regardless of its approval. */
export function findLimit(
  { namespace, spec }: Pick<PreparedException, 'namespace' | 'spec'>,
  { mode, namespaces, forbiddenChecks }: ExceptionSettings,
): ExceptionProblem | undefined {
  const setting = 'spec.podSecurity.exceptions';
  if (mode === 'off') return { reason: 'Off', message: `${setting}.mode is off: set it to approved` };
  if (namespaces.length > 0 && !namespaces.includes(namespace)) {
    const message = `${setting}.namespaces does not contain ${namespace}`;
    return { reason: 'NamespaceNotPermitted', message };
  }
  const forbidden = spec.allow.find(({ check }) => forbiddenChecks.some((other) => isSameControl(other, check)));
  if (forbidden === undefined) return undefined;
  return { reason: 'CheckForbidden', message: `${setting}.forbiddenChecks forbids exceptions from ${forbidden.check}` };
}

function findApprovalProblem(
  { name, namespace, approval, approvedMs, authors, specHash, rule }: PreparedException,
  { maxDurationMs, selfApproval, trustedApprovers }: ExceptionSettings,
): ExceptionProblem | undefined {
  // This is a function, so that evaluating many exceptions does not format commands that are never printed.
  const command = (): string => `portcullis exception approve ${name} -n ${namespace}`;
  if (approval === undefined) return { reason: 'NotApproved', message: `it is not approved: ${command()}` };
  if (authors.length === 0) return { reason: 'NotApproved', message: AUTHORS_UNKNOWN };
  if (approval.specHash !== specHash) {
    return { reason: 'SpecChanged', message: `its spec has changed since the approval: ${command()}` };
  }
  const { through, proposedBy } = approval;
  if (through !== undefined && !trustedApprovers.includes(through)) {
    const message = `its approval was applied by ${through}, which is not in spec.podSecurity.exceptions.trustedApprovers: ${command()}`;
    return { reason: 'NotApproved', message };
  }
  if (!selfApproval && [...authors, through, proposedBy].includes(approval.by)) {
    return { reason: 'SelfApproved', message: `${approval.by} is its author and cannot approve it` };
  }
  if (rule.expiresAtMs - approvedMs <= maxDurationMs) return undefined;
  const latest = approvedMs === -Infinity ? 'its approval' : formatTimestamp(approvedMs + maxDurationMs);
  return {
    reason: 'TooLong',
    message: `spec.podSecurity.exceptions.maxDuration does not permit an expiry after ${latest}`,
  };
}

/** Reads the users in the annotation. Returns an empty list if the annotation is absent or malformed. */
export function parseAuthors(text: string | undefined): readonly string[] {
  try {
    const value: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(value) && value.every((item) => typeof item === 'string') ? value : [];
  } catch {
    return [];
  }
}

/** Parses an exception. Returns `undefined` if the object does not conform to its schema. */
export function prepareException(
  { metadata, spec, status }: PodSecurityException,
  { specHash, authors }: { readonly specHash: string; readonly authors: string | undefined },
): PreparedException | undefined {
  const { name = '', namespace = '' } = metadata ?? {};
  if (!isObject(spec) || !Array.isArray(spec.allow)) return undefined;
  const rule: ExceptionRule = {
    name,
    serviceAccountName: spec.serviceAccountName,
    allow: spec.allow,
    // A malformed time is treated as expired.
    expiresAtMs: parseTimestamp(spec.expiresAt) ?? 0,
  };
  const approval = findApproval(metadata?.annotations ?? {}, status, specHash);
  const approvedMs = parseTimestamp(approval?.at) ?? -Infinity;
  return { name, namespace, spec, specHash, authors: parseAuthors(authors), approval, approvedMs, rule };
}

/**
 * Returns the approval in the status if it is for the current spec or if the annotations contain none. Otherwise,
 * returns the approval in the annotations.
 */
function findApproval(
  annotations: Readonly<Record<string, string>>,
  status: PodSecurityException['status'],
  currentHash: string,
): Approval | undefined {
  // Manifests may contain null.
  const stored = status?.approval ?? undefined;
  const read = (name: keyof typeof APPROVAL_ANNOTATIONS): string => annotations[APPROVAL_ANNOTATIONS[name]] ?? '';
  const [by, through] = [read('by'), read('through')];
  if (by === '' || through === '' || stored?.specHash === currentHash) return stored;
  return { by, through, proposedBy: read('proposedBy'), specHash: read('specHash'), at: read('at') };
}

/**
 * Returns false if an exception cannot have an approval, without parsing it. Authors can create any number of
 * exceptions, but they can set neither the status nor the annotations that record an approval by a trusted user.
 */
export function mayBeApproved(
  { metadata, status }: PodSecurityException,
  { trustedApprovers }: ExceptionSettings,
): boolean {
  const through = metadata?.annotations?.[APPROVAL_ANNOTATIONS.through];
  return status?.approval != null || (through !== undefined && trustedApprovers.includes(through));
}

/**
 * Returns the reason why other components deny an exception's pods, with the command that resolves the problem. The
 * PodSecurity plugin and the floor enforce the upstream label and the default, and do not support exceptions.
 */
export function findShadow(
  { namespace, spec }: Pick<PreparedException, 'namespace' | 'spec'>,
  labels: Labels,
  defaults: Policies = NO_DEFAULTS,
): string | undefined {
  const { [ENFORCE_LABEL]: own, ...others } = labels;
  const enforced = resolvePolicies(labels, defaults).enforce.level;
  const upstream = resolvePolicies(others, defaults).enforce.level;
  const left = spec.allow.some(coversBaseline) ? 'privileged' : 'baseline';
  if (!isStricter(upstream, left)) return undefined;
  const changes = [
    ...(own === enforced ? [] : [`${ENFORCE_LABEL}=${enforced}`]),
    `${POD_SECURITY_LABELS.enforce}=${left}`,
  ].join(' ');
  return `the PodSecurity plugin of the API server and the floor, if enabled, deny its pods at the ${upstream} level, regardless of exceptions. To let Portcullis alone enforce the level: kubectl label namespace ${namespace} ${changes} --overwrite`;
}

// Exceptions that end due to a change to the settings

interface EndedExceptions {
  readonly ended: readonly string[];
  /** Workloads whose running pods need the exceptions. */
  readonly workloads: readonly string[];
  readonly isComplete: boolean;
}

interface ExceptionsChange {
  readonly objects: readonly PodSecurityException[];
  read(object: PodSecurityException): PreparedException | undefined;
  readonly before: ExceptionSettings;
  readonly next: ExceptionSettings;
  readonly nowMs: number;
}

/** Finds the exceptions that apply before the change but not after it. Yields before each exception. */
export function* findEndedExceptions(change: ExceptionsChange): Generator<void, EndedExceptions, boolean> {
  const { objects, read, before, next, nowMs } = change;
  const ended: string[] = [];
  const workloads = new Set<string>();
  for (const object of objects) {
    if (!(yield)) return { ended, workloads: [...workloads], isComplete: false };
    const exception = mayBeApproved(object, before) ? read(object) : undefined;
    if (!exception || findExceptionProblem(exception, before, nowMs)) continue;
    if (!findExceptionProblem(exception, next, nowMs)) continue;
    ended.push(`${exception.namespace}/${exception.name}`);
    for (const workload of object.status?.workloads ?? []) {
      workloads.add(workload.replace('/', ` ${exception.namespace}/`));
    }
  }
  return { ended, workloads: [...workloads], isComplete: true };
}

/** Returns the warning about a change to the settings, or `undefined` if the change ends no exception. */
export function endedExceptionsWarning(
  { ended, workloads, isComplete }: EndedExceptions,
  showsNames: boolean,
): string | undefined {
  if (ended.length === 0) return undefined;
  const print = (names: readonly string[], noun: string): string =>
    `${isComplete ? '' : 'at least '}${printCount(names.length, noun)}${showsNames ? `: ${summarizeNames(names)}` : ''}`;
  const denied = workloads.length === 0 ? '' : `. It denies new pods of ${print(workloads, 'workload')}`;
  return `the change to spec.podSecurity.exceptions ends ${print(ended, 'active exception')}${denied}`;
}
