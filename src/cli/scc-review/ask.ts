import type { ManifestObject } from '../../config/manifests.ts';
import { podTemplateOf } from '../../kube/pod.ts';
import { apiVersionOf } from '../../kube/resources.ts';
import { REVIEW_KINDS } from '../../policy/scc/review-request.ts';
import { namespaceOf } from '../report/identity.ts';
import { podPath } from '../report/pod.ts';
import type { AskedReview } from './types.ts';

/** Whom to ask about. */
export interface Subjects {
  readonly user: string | undefined;
  readonly groups: readonly string[];
  readonly serviceAccounts: readonly string[];
}

/** The API version of reviews is that of SCCs. */
const API_VERSION = apiVersionOf('SecurityContextConstraints');

/**
 * The review that an object is, or that asks about its pod; `undefined` for kinds without pods. Without a user or a group
 * it is about service accounts: those named, else that of the pod.
 */
export function askAbout(
  object: ManifestObject,
  { subjects, namespace: fallback }: { readonly subjects: Subjects; readonly namespace: string },
): AskedReview | undefined {
  const { apiVersion, kind, value } = object;
  const namespace = namespaceOf(value) ?? fallback;
  if (apiVersion === API_VERSION && REVIEW_KINDS.some((one) => one === kind)) {
    return { object, namespace, review: value };
  }
  const path = podPath(apiVersion, kind);
  if (path === undefined) return undefined;
  const { metadata, spec } = podTemplateOf(value, path) ?? {};
  const template = path.length === 0 ? { metadata: { annotations: metadata?.annotations }, spec } : { metadata, spec };
  return { object, namespace, review: { apiVersion: API_VERSION, ...questionOf(subjects, template) } };
}

function questionOf({ user, groups, serviceAccounts }: Subjects, template: unknown) {
  if (user === undefined && groups.length === 0) {
    const names = serviceAccounts.length === 0 ? {} : { serviceAccountNames: serviceAccounts };
    return { kind: 'PodSecurityPolicyReview', spec: { template, ...names } };
  }
  const spec = { template, ...(user === undefined ? {} : { user }), ...(groups.length === 0 ? {} : { groups }) };
  return { kind: 'PodSecurityPolicySubjectReview', spec };
}
