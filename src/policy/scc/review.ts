import { applyDefaults } from '../../kube/defaults.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { invalidValue, formatFieldError, requiredField, type FieldError } from '../../kube/field-error.ts';
import { badRequest, invalid, type Status, createStatus } from '../../kube/status.ts';
import { draft, isObject, type JsonObject } from '../../kube/types.ts';
import { decodePod, type PodFields } from './decode/pod.ts';
import { getApiVersion } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { quote } from '../../kube/text.ts';
import { serviceAccountSubject } from './access.ts';
import { bindingError } from './namespace.ts';
import { findCandidates } from './order.ts';
import { resolveCompatibility } from './mode.ts';
import { createSearch, userNamespacesIn, attemptScc, type SearchInput } from './search.ts';
import type { PreparedScc } from './scc.ts';
import { aggregate } from './messages.ts';
import type { SccInput, Subject } from './request.ts';
import { writePod } from './attempt.ts';

/** The three questions: may a user, may I, may service accounts create a pod? */
export const REVIEW_KINDS = [
  'PodSecurityPolicySubjectReview',
  'PodSecurityPolicySelfSubjectReview',
  'PodSecurityPolicyReview',
] as const;
type ReviewKind = (typeof REVIEW_KINDS)[number];

/** What a review asks. */
interface ReviewRequest {
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
function readReview(review: JsonObject): ReviewRequest | { readonly error: Status } {
  const kind = REVIEW_KINDS.find((one) => one === review['kind']);
  if (kind === undefined) return { error: badRequest(`not one of ${REVIEW_KINDS.join(', ')}`) };
  const spec = isObject(review['spec']) ? review['spec'] : {};
  const decoded = decodePod(podOf(spec['template']));
  if ('error' in decoded) {
    const path = `spec.template.${decoded.error.path}`;
    return { error: badRequest(formatFieldError({ ...decoded.error, path })) };
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
    ...(kind === 'PodSecurityPolicySubjectReview' && hasNoSubject ? [requiredField('spec.user', NO_SUBJECT)] : []),
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

/** A review, and all that its answer depends on; `userInfo` is who asks, and whom a review of oneself is about. */
export interface ReviewInput extends Omit<SccInput, 'operation' | 'subResource' | 'object' | 'oldObject'> {
  /** As it was sent; nothing has checked it. */
  readonly review: JsonObject;
  /** True if the namespace of the review has a service account of that name. */
  readonly hasServiceAccount: (name: string) => boolean;
}

type ReviewAnswer =
  | {
      /** For the review's `status`. */
      readonly status: JsonObject;
      /** What there is no field for: SCCs that cannot work, a required SCC that does not exist. */
      readonly warnings: readonly string[];
    }
  | { readonly error: Status };

/**
 * Answers a review of the group security.openshift.io: which SCCs admit a pod, without creating it. Unlike the original
 * it tries each SCC on the pod as it was sent, and heeds the SCC that the pod requires.
 * @see https://github.com/openshift/openshift-apiserver/tree/master/pkg/security/apiserver/registry
 */
export function answerReview(input: ReviewInput): ReviewAnswer {
  const request = readReview(input.review);
  if ('error' in request) return request;
  const setting = settingOf(request, input);
  return request.kind === 'PodSecurityPolicyReview'
    ? answerForAccounts(request, input, setting)
    : answerForSubject(request, setting);
}

/** What is the same for all who are asked about. */
interface Setting {
  readonly search: SearchInput;
  readonly brokenScc: 'skip' | 'refuse';
  /** For a required SCC that does not exist. */
  readonly warnings: readonly string[];
  readonly referenceTo: (scc: PreparedScc) => JsonObject;
}

function settingOf(request: ReviewRequest, input: ReviewInput): Setting {
  const { pod, kind, user, groups } = request;
  const userInfo = kind === 'PodSecurityPolicySubjectReview' ? { username: user, groups } : input.userInfo;
  const given: SccInput = { ...input, userInfo, operation: 'CREATE', object: pod.json };
  const requiredScc = input.compatibility === 'openshift' ? '' : pod.annotations[POD_SCC_ANNOTATIONS.requiredScc];
  const found = findCandidates({
    sccs: input.sccs,
    requiredSccs: [],
    requiredScc: requiredScc ?? '',
    recordedScc: '',
    userNamespaces: userNamespacesIn(given, pod),
  });
  const candidates = 'error' in found ? [] : found.sccs;
  return {
    search: createSearch(given, pod, { candidates, mutable: 'everything' }),
    brokenScc: resolveCompatibility(input.compatibility).brokenScc,
    warnings: 'error' in found ? [found.error] : [],
    referenceTo: ({ name }) => referenceTo(input, name),
  };
}

const CANNOT_ASSIGN = 'CantAssignSecurityContextConstraintProvider';

/** By the first SCC that any of those asked about may use. */
function answerForSubject({ kind, user, groups }: ReviewRequest, setting: Setting): ReviewAnswer {
  const { subjects } = setting.search;
  const isUserAsked = kind === 'PodSecurityPolicySelfSubjectReview' || user !== '' || groups.length > 0;
  const asked = [isUserAsked ? subjects.user : undefined, subjects.serviceAccount].filter((one) => one !== undefined);
  const { usable, broken } = usableBy(asked, setting);
  if (broken.length > 0 && setting.brokenScc === 'refuse') {
    return { error: createStatus(500, 'InternalError', aggregate(broken)) };
  }
  const [first] = admissionsBy(usable, setting);
  const status = first ?? (usable.length > 0 ? { reason: CANNOT_ASSIGN } : {});
  return { status, warnings: [...setting.warnings, ...broken] };
}

/** By every SCC that a service account may use, account by account. */
function answerForAccounts(request: ReviewRequest, input: ReviewInput, setting: Setting): ReviewAnswer {
  const { pod, serviceAccountNames } = request;
  const fallback = pod.serviceAccountName === '' ? 'default' : pod.serviceAccountName;
  const names = serviceAccountNames.length > 0 ? serviceAccountNames : [fallback];
  const missing = names.filter((name) => !input.hasServiceAccount(name));
  if (missing.length > 0) return { error: badRequest(aggregate(missing.map(missingText))) };
  const allowed = names.map((name) => {
    const { usable, broken } = usableBy([accountNamed(name, input, setting)], setting);
    const isStopped = broken.length > 0 && setting.brokenScc === 'refuse';
    const admissions = isStopped ? [] : admissionsBy(usable, setting);
    return { broken, entries: admissions.map((status) => ({ name, ...status })) };
  });
  return {
    status: { allowedServiceAccounts: allowed.flatMap(({ entries }) => entries) },
    warnings: [...setting.warnings, ...new Set(allowed.flatMap(({ broken }) => broken))],
  };
}

interface Usable {
  readonly usable: readonly PreparedScc[];
  /** Why some of them cannot work in the namespace. */
  readonly broken: readonly string[];
}

function usableBy(subjects: readonly Subject[], { search }: Setting): Usable {
  const usable = search.candidates.filter((scc) => subjects.some((subject) => search.mayUse(subject, scc)));
  const broken = usable.map((scc) => bindingError(scc, search.namespace)).filter((error) => error !== undefined);
  return { usable, broken };
}

/** Of the SCCs those that admit the pod, each with the pod that it makes if the pod names its service account. */
function admissionsBy(usable: readonly PreparedScc[], { search, referenceTo }: Setting): readonly JsonObject[] {
  return usable.flatMap((scc) => {
    const attempt = attemptScc(scc, search);
    if (attempt.errors.length > 0) return [];
    const template = search.pod.serviceAccountName === '' ? {} : { template: { spec: writePod(attempt, {})['spec'] } };
    return [{ allowedBy: referenceTo(scc), ...template }];
  });
}

function accountNamed(name: string, { compatibility }: ReviewInput, { search }: Setting): Subject {
  return serviceAccountSubject(search.namespace.name, name, resolveCompatibility(compatibility).identity);
}

function referenceTo({ sccs }: ReviewInput, name: string): JsonObject {
  const { uid, resourceVersion } = sccs.find(({ metadata }) => metadata?.name === name)?.metadata ?? {};
  return {
    kind: 'SecurityContextConstraints',
    name,
    ...(uid === undefined ? {} : { uid }),
    apiVersion: getApiVersion('SecurityContextConstraints'),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

function missingText(name: string): string {
  return `unable to retrieve ServiceAccount ${name}: serviceaccount ${quote(name)} not found`;
}
