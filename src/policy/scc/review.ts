import { apiVersionOf } from '../../kube/resources.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { quote } from '../../kube/text.ts';
import { badRequest, failure, type Status } from '../../kube/status.ts';
import type { JsonObject } from '../../kube/types.ts';
import { serviceAccountSubject } from './access.ts';
import { bindingError } from './bind.ts';
import { findCandidates } from './candidates.ts';
import { resolveCompatibility } from './compatibility.ts';
import { createSearch, userNamespacesIn } from './prepare-search.ts';
import type { PreparedScc } from './prepare.ts';
import { readReview, type ReviewRequest } from './review-request.ts';
import { attemptScc, type SearchInput } from './search.ts';
import { aggregate } from './texts.ts';
import type { SccInput, Subject } from './types.ts';
import { writePod } from './write.ts';

/** A review, and all that its answer depends on; `userInfo` is who asks, and whom a review of oneself is about. */
export interface ReviewInput extends Omit<SccInput, 'operation' | 'subResource' | 'object' | 'oldObject'> {
  /** As it was sent; nothing has checked it. */
  readonly review: JsonObject;
  /** True if the namespace of the review has a service account of that name. */
  readonly hasServiceAccount: (name: string) => boolean;
}

export type ReviewAnswer =
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
    return { error: failure(500, 'InternalError', aggregate(broken)) };
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
    apiVersion: apiVersionOf('SecurityContextConstraints'),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

function missingText(name: string): string {
  return `unable to retrieve ServiceAccount ${name}: serviceaccount ${quote(name)} not found`;
}
