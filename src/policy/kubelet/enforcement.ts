/**
 * Whether API servers enforce the minimum kubelet version. An API server that calls the authorization webhook denies a request of
 * a node that does not exist, with the reason of the webhook. The Node authorizer has no opinion on such a request.
 */
import type { ConditionState } from '../../kube/conditions.ts';
import { summarizeNames } from '../../kube/text.ts';
import type { AccessReviewStatus } from '../../kube/types.ts';
import { nodeNotFound } from './authorizer.ts';

export interface EnforcementCheck {
  /** The address or the URL of the API server. */
  readonly server: string;
  /** `unknown`: the API server did not answer the review. */
  readonly webhook: 'called' | 'not-called' | 'unknown';
  readonly error?: string;
}

const MAX_ERROR = 300;

/** Reads the review of a request by a node that does not exist. */
export function readEnforcement(server: string, status: AccessReviewStatus, node: string): EnforcementCheck {
  const { denied = false, reason = '', evaluationError = '' } = status;
  // The authorizer of OpenShift reports an error, and this webhook a reason.
  const isFromWebhook = denied && `${reason}\n${evaluationError}`.includes(nodeNotFound(node));
  if (isFromWebhook) return { server, webhook: 'called' };
  return { server, webhook: 'not-called', ...(evaluationError === '' ? {} : { error: evaluationError }) };
}

const HOW_TO_CHECK =
  'Check --authorization-config of kube-apiserver and the static pod portcullis-authorizer on each control plane node';

/**
 * Returns the condition `KubeletMinimumEnforced`.
 * @param time the time of the checks: RFC 3339, in seconds
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

/** Formats a check as the server with its error in parentheses. */
export function printServer({ server, error }: EnforcementCheck): string {
  return error === undefined ? server : `${server} (${error.slice(0, MAX_ERROR)})`;
}
