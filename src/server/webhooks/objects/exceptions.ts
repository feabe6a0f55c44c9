/**
 * Reviews PodSecurityExceptions. The mutating review records authors and approvers, and the validating review verifies
 * them. While no replica responds, the policy in `install/exception-policy.ts` verifies approvers and denies new
 * exceptions.
 */
import { ACCESS_REVIEWS_LIMITED, type TakeAccessReview } from '../../../cluster/access-reviews.ts';
import { systemClock, withTimeout } from '../../../cluster/clock.ts';
import type { Cluster } from '../../../cluster/cluster.ts';
import { type AdmissionRequest, type Decision, deny } from '../../../kube/admission.ts';
import { RESOURCES } from '../../../kube/resources.ts';
import { createStatus, forbidden } from '../../../kube/status.ts';
import { quote } from '../../../kube/text.ts';
import { type ExceptionSettings, recordExceptionWrite, reviewExceptionWrite } from '../../../policy/psa/index.ts';
import { hashSpec } from '../../../views/exceptions.ts';
import { remainingMs } from '../../waiting-room.ts';
import type { ObjectReviewer, WebhookContext } from '../../webhook.ts';

const { group, resource } = RESOURCES.PodSecurityException;

export interface ExceptionDeps {
  settings(): ExceptionSettings;
  readonly cluster: Pick<Cluster, 'reviewAccess'>;
  readonly takeAccessReview: TakeAccessReview;
  /** Returns the current date and time. */
  date(): Date;
}

/** Creates the reviewer that records authors and approvers, and enforces the limits in the settings. */
export function createExceptionReviewer(deps: ExceptionDeps): ObjectReviewer {
  const write = (request: AdmissionRequest) => ({
    request,
    settings: deps.settings(),
    nowMs: deps.date().getTime(),
    hashSpec,
  });
  return {
    change: (request) => recordExceptionWrite(write(request)),
    validate(request, context) {
      const { decision, isApproval } = reviewExceptionWrite(write(request));
      return decision.allowed && isApproval ? authorize(request, context, { ...deps, decision }) : decision;
    },
  };
}

/**
 * Returns the decision if the user has the `approve` verb, which is also used for CertificateSigningRequests. The API
 * server evaluates the request with all its authorizers.
 */
async function authorize(
  { name = '', namespace = '', userInfo }: AdmissionRequest,
  context: WebhookContext,
  { cluster, takeAccessReview, decision }: ExceptionDeps & { readonly decision: Decision },
): Promise<Decision> {
  if (!takeAccessReview(context.address)) return deny(createStatus(429, 'TooManyRequests', ACCESS_REVIEWS_LIMITED));
  const action = { verb: 'approve', apiGroup: group, resource, name, namespace };
  const user = quote(userInfo.username ?? '');
  try {
    const review = withTimeout(systemClock, remainingMs(context), () => cluster.reviewAccess(userInfo, action));
    const { allowed } = await review;
    if (allowed) return decision;
    const cause = `User ${user} cannot approve resource "${resource}" in API group "${group}" in the namespace ${quote(namespace)}`;
    return deny(forbidden({ group, resource }, name, cause));
  } catch {
    const message = `failed to check with the API server whether ${user} may approve ${resource}.${group}; try again`;
    return deny(createStatus(503, 'ServiceUnavailable', message));
  }
}
