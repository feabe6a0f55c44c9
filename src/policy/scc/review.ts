/** Answers the review APIs of the security.openshift.io group. A review returns the SCCs that would admit a pod. */
import { setApiDefaults } from '../../kube/defaults.ts';
import { defined } from '../../kube/defined.ts';
import { type FieldError, formatFieldError, invalidValue, requiredField } from '../../kube/field-error.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { badRequest, createStatus, invalid, type Status } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { draft, isObject, type JsonObject, objectMember, stringsIn } from '../../kube/types.ts';
import { decodeMutablePod, type PodFields } from '../pod/index.ts';
import { serviceAccountSubject, type AccessSubject } from './access.ts';
import { completePod, writePod } from './complete.ts';
import { aggregate } from './decision.ts';
import { bindingError } from './namespace.ts';
import { toSccSet } from './order.ts';
import type { SccInput } from './request.ts';
import type { PreparedScc } from './scc.ts';
import { createSearch, type Search } from './search.ts';

/** The kinds of reviews. Their subjects are a given user, the requesting user, and service accounts, respectively. */
export const REVIEW_KINDS = [
  'PodSecurityPolicySubjectReview',
  'PodSecurityPolicySelfSubjectReview',
  'PodSecurityPolicyReview',
] as const;
type ReviewKind = (typeof REVIEW_KINDS)[number];

interface ReviewRequest {
  readonly kind: ReviewKind;
  /** The pod template after API defaulting. */
  readonly pod: PodFields;
  /** The given user. Empty if the subject is not a given user. */
  readonly user: string;
  readonly groups: readonly string[];
  readonly serviceAccountNames: readonly string[];
}

/**
 * Reads and validates a review. Validates only the names in the pod.
 * @see https://github.com/openshift/openshift-apiserver/blob/master/pkg/security/apis/security/validation/validation.go
 */
function readReview(review: JsonObject): ReviewRequest | { readonly error: Status } {
  const kind = REVIEW_KINDS.find((other) => other === review['kind']);
  if (kind === undefined) return { error: badRequest(`not one of ${REVIEW_KINDS.join(', ')}`) };
  const spec = objectMember(review, 'spec');
  const decoded = decodeMutablePod(toPod(spec['template']));
  if ('error' in decoded) {
    const path = `spec.template.${decoded.error.path}`;
    return { error: badRequest(formatFieldError({ ...decoded.error, path })) };
  }
  const request = {
    kind,
    pod: decoded.pod,
    user: typeof spec['user'] === 'string' ? spec['user'] : '',
    groups: stringsIn(spec['groups']),
    serviceAccountNames: stringsIn(spec['serviceAccountNames']),
  };
  const errors = validate(request, review['metadata']);
  return errors.length === 0 ? request : { error: invalid({ group: '', kind }, '', errors) };
}

/** Returns the pod that a template creates, after API defaulting. */
function toPod(template: unknown): JsonObject {
  const { metadata = {}, spec = {} } = isObject(template) ? template : {};
  const pod = { ...draft({ metadata, spec }), apiVersion: 'v1', kind: 'Pod' };
  setApiDefaults(pod);
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
    ...(kind === 'PodSecurityPolicySubjectReview' && hasNoSubject ? [requiredField('spec.user', NO_SUBJECT)] : []),
    ...serviceAccountNames.flatMap((name, index) => nameErrors(name, `spec.serviceAccountNames[${index}]`)),
    ...(isEmptyMetadata(metadata) ? [] : [invalidValue('metadata', metadata, 'must be empty')]),
  ];
}

const NO_SUBJECT = 'at least one of user, groups or serviceAccountName must be specified';

function nameErrors(name: string, path: string): readonly FieldError[] {
  if (name === '') return [invalidValue(path, name, '')];
  const reasons = dnsSubdomainErrors(name);
  return reasons.length === 0 ? [] : [invalidValue(path, name, reasons.join(', '))];
}

const ALLOWED_METADATA: ReadonlySet<string> = new Set(['namespace', 'managedFields']);

/** Returns true if the metadata is empty. Null values are allowed, because clients send a null creation timestamp. */
function isEmptyMetadata(metadata: unknown): boolean {
  if (metadata == null) return true;
  return (
    isObject(metadata) && Object.entries(metadata).every(([key, value]) => value == null || ALLOWED_METADATA.has(key))
  );
}

/**
 * A review and the data that is needed to answer it. `userInfo` is the requesting user, who is also the subject of a
 * self-subject review.
 */
export interface ReviewInput extends Omit<SccInput, 'operation' | 'subResource' | 'object' | 'oldObject'> {
  /** The review as received, which has not been validated. */
  readonly review: JsonObject;
  /** Returns true if the review's namespace contains the service account. */
  readonly hasServiceAccount: (name: string) => boolean;
}

type ReviewAnswer =
  | {
      readonly status: JsonObject;
      /** Problems for which the status has no field, such as unusable SCCs or a required SCC that does not exist. */
      readonly warnings: readonly string[];
    }
  | { readonly error: Status };

/**
 * Answers a review. Evaluates each SCC against the pod as received and honors the required-scc annotation, like pod
 * admission but unlike OpenShift.
 * @see https://github.com/openshift/openshift-apiserver/tree/master/pkg/security/apiserver/registry
 */
export function answerReview(input: ReviewInput): ReviewAnswer {
  const request = readReview(input.review);
  if ('error' in request) return request;
  const { pod, kind, user, groups } = request;
  const userInfo = kind === 'PodSecurityPolicySubjectReview' ? { username: user, groups } : input.userInfo;
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  const search = createSearch({ ...input, userInfo, operation: 'CREATE', object: pod.json }, pod, {
    requiredScc,
    mutable: 'everything',
  });
  const answer =
    kind === 'PodSecurityPolicyReview' ? answerForAccounts(request, input, search) : answerForSubject(request, search);
  if ('error' in answer || search.candidatesError === undefined) return answer;
  return { ...answer, warnings: [search.candidatesError, ...answer.warnings] };
}

const CANNOT_ASSIGN = 'CantAssignSecurityContextConstraintProvider';

/** Answers with the first SCC that allows the pod and that one of the subjects may use. */
function answerForSubject({ kind, user, groups }: ReviewRequest, search: Search): ReviewAnswer {
  const { subjects, input } = search;
  const includesUser = kind === 'PodSecurityPolicySelfSubjectReview' || user !== '' || groups.length > 0;
  const reviewed = [includesUser ? subjects.user : undefined, subjects.serviceAccount];
  const { usable, broken } = findUsableSccs(
    reviewed.filter((pod) => pod !== undefined),
    search,
  );
  if (broken.length > 0 && input.compatibility === 'openshift') {
    return { error: createStatus(500, 'InternalError', aggregate(broken)) };
  }
  const [first] = findAdmissions(usable, search);
  return { status: first ?? (usable.length > 0 ? { reason: CANNOT_ASSIGN } : {}), warnings: broken };
}

/** Answers with all SCCs that allow the pod and that a service account may use, for each service account. */
function answerForAccounts(request: ReviewRequest, input: ReviewInput, search: Search): ReviewAnswer {
  const { pod, serviceAccountNames } = request;
  const { compatibility } = input;
  const names = serviceAccountNames.length > 0 ? serviceAccountNames : [pod.serviceAccountName || 'default'];
  const missing = names.filter((name) => !input.hasServiceAccount(name));
  if (missing.length > 0) return { error: badRequest(aggregate(missing.map(formatMissingAccount))) };
  const results = names.map((name) => {
    const account = serviceAccountSubject(search.namespace.name, name, compatibility);
    const { usable, broken } = findUsableSccs([account], search);
    const admissions = broken.length > 0 && compatibility === 'openshift' ? [] : findAdmissions(usable, search);
    return { broken, entries: admissions.map((status) => ({ name, ...status })) };
  });
  return {
    status: { allowedServiceAccounts: results.flatMap(({ entries }) => entries) },
    warnings: [...new Set(results.flatMap(({ broken }) => broken))],
  };
}

/**
 * Returns the SCCs that one of the subjects may use, and the errors for the SCCs that cannot be used in the namespace.
 */
function findUsableSccs(subjects: readonly AccessSubject[], { candidates, mayUse, namespace }: Search) {
  const usable = candidates.filter((scc) => subjects.some((subject) => mayUse(subject, scc)));
  return { usable, broken: usable.map((scc) => bindingError(scc, namespace)).filter((error) => error !== undefined) };
}

/** Returns the SCCs that allow the pod. Includes the defaulted pod if the pod sets its service account. */
function findAdmissions(usable: readonly PreparedScc[], search: Search): readonly JsonObject[] {
  const { objects } = toSccSet(search.input.sccs);
  return usable.flatMap((scc) => {
    const completion = completePod(scc, search);
    if (completion.errors.length > 0) return [];
    const isNamed = search.pod.serviceAccountName !== '';
    const template = isNamed ? { template: { spec: writePod(completion, {})['spec'] } } : {};
    return [{ allowedBy: createReference(objects, scc.name), ...template }];
  });
}

function createReference(objects: readonly SecurityContextConstraints[], name: string): JsonObject {
  const { uid, resourceVersion } = objects.find(({ metadata }) => metadata?.name === name)?.metadata ?? {};
  return {
    kind: 'SecurityContextConstraints',
    name,
    ...defined({ uid }),
    apiVersion: getApiVersion('SecurityContextConstraints'),
    ...defined({ resourceVersion }),
  };
}

function formatMissingAccount(name: string): string {
  return `unable to retrieve ServiceAccount ${name}: serviceaccount ${quote(name)} not found`;
}
