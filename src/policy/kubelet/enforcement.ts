/**
 * Determines whether API servers enforce the minimum kubelet version. The check is a SubjectAccessReview for a node
 * that does not exist. An API server that calls the authorization webhook denies the request with the webhook's reason.
 * The Node authorizer alone has no opinion on such a request.
 */
import type { ConditionState } from '../../kube/conditions.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { AccessReviewStatus } from '../../kube/types.ts';
import { nodeNotFound } from './authorizer.ts';

export interface EnforcementCheck {
  /** The API server's address or URL. */
  readonly server: string;
  /** The result of the check. `unknown` means that the API server did not answer the review. */
  readonly webhook: 'called' | 'not-called' | 'unknown';
  readonly error?: string;
}

const MAX_ERROR = 300;

/** Interprets the status of the SubjectAccessReview for a node that does not exist. */
export function readMinimumEnforcement(server: string, status: AccessReviewStatus, node: string): EnforcementCheck {
  const { denied = false, reason = '', evaluationError = '' } = status;
  // OpenShift's authorizer sets `evaluationError`. The webhook of Portcullis sets `reason`.
  const isFromWebhook = denied && `${reason}\n${evaluationError}`.includes(nodeNotFound(node));
  if (isFromWebhook) return { server, webhook: 'called' };
  return { server, webhook: 'not-called', ...(evaluationError === '' ? {} : { error: evaluationError }) };
}

const HOW_TO_CHECK =
  'Check --authorization-config of kube-apiserver and the static pod portcullis-authorizer on each control plane node';

/**
 * Returns the `KubeletMinimumEnforced` condition for a set of checks.
 * @param time time of the checks, in RFC 3339 format with second precision
 */
export function describeEnforcement(
  minimum: string,
  checks: readonly EnforcementCheck[],
  time: string,
): ConditionState {
  const list = (webhook: EnforcementCheck['webhook']): string =>
    summarizeNames(checks.filter((check) => check.webhook === webhook).map(printServer));
  const [called, uncalled, unknown] = [list('called'), list('not-called'), list('unknown')];
  const calls = [...(called ? [`called by ${called}`] : []), ...(uncalled ? [`not called by ${uncalled}`] : [])];
  const facts = [
    ...(calls.length === 0 ? [] : [`At ${time}, the authorization webhook was ${calls.join(' and ')}`]),
    ...(unknown ? [`At ${time}, the SubjectAccessReview failed at ${unknown}`] : []),
    ...(uncalled ? [HOW_TO_CHECK] : []),
  ];
  const condition = (status: ConditionState['status'], reason: string, verdict: string): ConditionState => ({
    type: 'KubeletMinimumEnforced',
    status,
    reason,
    message: [`the minimum ${minimum} is ${verdict}`, ...facts].join('. '),
  });
  if (uncalled) {
    const scope = called ? ' by all API servers' : '';
    return condition('False', 'AuthorizerNotCalled', `in force, but it is not enforced${scope}`);
  }
  if (unknown) return condition('Unknown', 'ReviewFailed', 'in force, but it is not known whether it is enforced');
  return condition('True', 'AuthorizerCalled', 'enforced');
}

/** Formats the server of a check, followed by the error in parentheses if there is one. */
export function printServer({ server, error }: EnforcementCheck): string {
  return error === undefined ? server : `${server} (${error.slice(0, MAX_ERROR)})`;
}
