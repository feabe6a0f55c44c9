import { applyDefaults } from '../../kube/defaults.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { invalidValue, printFieldError, required, type FieldError } from '../../kube/field-error.ts';
import { badRequest, invalid, type Status } from '../../kube/status.ts';
import { draft, isObject, type JsonObject } from '../../kube/types.ts';
import { decodePod, type PodFields } from './decode/pod.ts';

/** The three questions: may a user, may I, may service accounts create a pod? */
export const REVIEW_KINDS = [
  'PodSecurityPolicySubjectReview',
  'PodSecurityPolicySelfSubjectReview',
  'PodSecurityPolicyReview',
] as const;
export type ReviewKind = (typeof REVIEW_KINDS)[number];

/** What a review asks. */
export interface ReviewRequest {
  readonly kind: ReviewKind;
  /** Of the template, with the defaults of the API. */
  readonly pod: PodFields;
  /** Empty if none is asked about. */
  readonly user: string;
  readonly groups: readonly string[];
  readonly serviceAccountNames: readonly string[];
}

/**
 * Reads a review, whatever it holds. Of the pod only the names are validated.
 * @see https://github.com/openshift/openshift-apiserver/blob/master/pkg/security/apis/security/validation/validation.go
 */
export function readReview(review: JsonObject): ReviewRequest | { readonly error: Status } {
  const kind = REVIEW_KINDS.find((one) => one === review['kind']);
  if (kind === undefined) return { error: badRequest(`not one of ${REVIEW_KINDS.join(', ')}`) };
  const spec = isObject(review['spec']) ? review['spec'] : {};
  const decoded = decodePod(podOf(spec['template']));
  if ('error' in decoded) {
    const path = `spec.template.${decoded.error.path}`;
    return { error: badRequest(printFieldError({ ...decoded.error, path })) };
  }
  const request = {
    kind,
    pod: decoded.pod,
    user: typeof spec['user'] === 'string' ? spec['user'] : '',
    groups: textsOf(spec['groups']),
    serviceAccountNames: textsOf(spec['serviceAccountNames']),
  };
  const errors = validate(request, review['metadata']);
  return errors.length === 0 ? request : { error: invalid({ group: '', kind }, '', errors) };
}

/** A review is about a pod, which has the defaults of one. */
function podOf(template: unknown): JsonObject {
  const { metadata = {}, spec = {} } = isObject(template) ? template : {};
  const pod = { ...draft({ metadata, spec }), apiVersion: 'v1', kind: 'Pod' };
  applyDefaults(pod);
  return pod;
}

function validate(request: ReviewRequest, metadata: unknown): readonly FieldError[] {
  const { kind, pod, user, groups, serviceAccountNames } = request;
  const { serviceAccountName } = pod;
  const account =
    serviceAccountName === '' ? [] : nameErrors(serviceAccountName, 'spec.template.spec.serviceAccountName');
  const hasNoSubject = user === '' && groups.length === 0 && serviceAccountName === '';
  return [
    ...account,
    ...(kind === 'PodSecurityPolicySubjectReview' && hasNoSubject ? [required('spec.user', NO_SUBJECT)] : []),
    ...serviceAccountNames.flatMap((name, index) => nameErrors(name, `spec.serviceAccountNames[${index}]`)),
    ...(isEmpty(metadata) ? [] : [invalidValue('metadata', metadata, 'must be empty')]),
  ];
}

const NO_SUBJECT = 'at least one of user, groups or serviceAccountName must be specified';

function nameErrors(name: string, path: string): readonly FieldError[] {
  if (name === '') return [invalidValue(path, name, '')];
  const reasons = dnsSubdomainErrors(name);
  return reasons.length === 0 ? [] : [invalidValue(path, name, reasons.join(', '))];
}

const ALLOWED_METADATA: ReadonlySet<string> = new Set(['namespace', 'managedFields']);

/** Clients write a creation time that is null. */
function isEmpty(metadata: unknown): boolean {
  if (metadata == null) return true;
  return (
    isObject(metadata) && Object.entries(metadata).every(([key, value]) => value == null || ALLOWED_METADATA.has(key))
  );
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
