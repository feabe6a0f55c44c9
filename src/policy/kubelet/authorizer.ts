/**
 * Authorizer for the minimum kubelet version. It denies requests from nodes whose kubelet is older than the minimum,
 * has no opinion on other requests, and never allows a request.
 */
import { defined } from '../../kube/defined.ts';
import { quote } from '../../kube/text.ts';
import type { AccessReviewStatus } from '../../kube/types.ts';
import type { NodeState } from './admission.ts';
import { findKubeletProblem, type MinimumVersion } from './version.ts';

/** Attributes of a resource request. Absent attributes are empty strings. */
export interface ResourceAttributes {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly name: string;
}

export interface AccessRequest {
  readonly username: string;
  readonly groups: readonly string[];
  /** The resource attributes. Absent for non-resource requests such as `/version`. */
  readonly resource?: ResourceAttributes | undefined;
}

/**
 * `strict` makes the same decisions as OpenShift. `recoverable` also allows nodes to create Nodes and to patch their
 * own Node, so they can register and report a new kubelet version after an upgrade.
 */
export type AuthorizerMode = 'strict' | 'recoverable';

interface AuthorizerState {
  /** The minimum in force, or `unknown` until it can be read. Absent if there is no minimum. */
  readonly minimum: MinimumVersion | 'unknown' | undefined;
  readonly mode: AuthorizerMode;
  /** Returns a node by name. Absent until the node store has synced. */
  readonly findNode?: ((name: string) => NodeState | undefined) | undefined;
}

type NoOpinionCause = 'no-minimum' | 'exempt' | 'not-a-node' | 'recoverable' | 'exempt-node' | 'sufficient';
type DenialCause = 'not-synced' | 'node-not-found' | 'unknown-version' | 'outdated';

/** The decision on a request. A denial has a reason, or an error if the kubelet version is unknown. */
export type AuthorizerDecision =
  | { readonly decision: 'NoOpinion'; readonly cause: NoOpinionCause }
  | { readonly decision: 'Deny'; readonly cause: DenialCause; readonly reason?: string; readonly error?: string };

/**
 * Decides whether the minimum kubelet version denies a request.
 * @see https://github.com/openshift/kubernetes/blob/master/openshift-kube-apiserver/authorization/minimumkubeletversion/minimum_kubelet_version.go
 */
export function authorizeKubelet(request: AccessRequest, state: AuthorizerState): AuthorizerDecision {
  const { minimum, mode, findNode } = state;
  const { resource } = request;
  if (minimum === undefined) return noOpinion('no-minimum');
  if (resource !== undefined && isExempt(resource)) return noOpinion('exempt');
  const name = nodeName(request);
  if (name === undefined) return noOpinion('not-a-node');
  const isRecoverable = mode === 'recoverable' && minimum !== 'unknown';
  if (isRecoverable && resource !== undefined && isRecovery(resource, name)) return noOpinion('recoverable');
  if (findNode === undefined || minimum === 'unknown') {
    return denyWithError('not-synced', `node informer not synced, cannot check if node ${name} is new enough`);
  }
  const node = findNode(name);
  if (node === undefined) return denyWithError('node-not-found', nodeNotFound(name));
  if (node.isExempt) return noOpinion('exempt-node');
  const problem = findKubeletProblem(node.kubeletVersion, minimum);
  if (problem === undefined) return noOpinion('sufficient');
  if (problem.type === 'unknown') return denyWithError('unknown-version', problem.message);
  return { decision: 'Deny', cause: 'outdated', reason: problem.message };
}

/** Returns the error for a node that does not exist, in OpenShift's wording. */
export function nodeNotFound(name: string): string {
  return `node ${quote(name)} not found`;
}

function noOpinion(cause: NoOpinionCause): AuthorizerDecision {
  return { decision: 'NoOpinion', cause };
}

function denyWithError(cause: DenialCause, error: string): AuthorizerDecision {
  return { decision: 'Deny', cause, error };
}

/** Returns true for requests that are never denied, regardless of the kubelet version. */
function isExempt({ group, resource, verb }: ResourceAttributes): boolean {
  if (group === '' && resource === 'nodes') return verb === 'get' || verb === 'update';
  return group === 'authorization.k8s.io' && resource === 'subjectaccessreviews';
}

/** Returns true for requests that a node sends to register itself or to report the version of an upgraded kubelet. */
function isRecovery({ group, resource, verb, subresource, name }: ResourceAttributes, node: string): boolean {
  if (group !== '' || resource !== 'nodes') return false;
  if (verb === 'create') return subresource === '';
  return verb === 'patch' && (subresource === '' || subresource === 'status') && name === node;
}

export const NODE_PREFIX = 'system:node:';
export const NODE_GROUP = 'system:nodes';

interface User {
  readonly username?: string | undefined;
  readonly groups?: readonly string[] | null | undefined;
}

/** Returns the node name from a node's username. The name may be empty. Returns `undefined` for other users. */
export function nodeName({ username = '', groups }: User): string | undefined {
  if (!username.startsWith(NODE_PREFIX) || !groups?.includes(NODE_GROUP)) return undefined;
  return username.slice(NODE_PREFIX.length);
}

/**
 * Returns the status for the response, or `undefined` if the API server must retry. API servers cache the status and
 * ignore `evaluationError`, so `reason` also contains the error.
 */
export function accessReviewStatus(decision: AuthorizerDecision): AccessReviewStatus | undefined {
  if (decision.decision === 'NoOpinion') return { allowed: false };
  const { cause, reason, error } = decision;
  if (cause === 'not-synced') return undefined;
  if (error === undefined) return { allowed: false, denied: true, ...defined({ reason }) };
  return { allowed: false, denied: true, reason: error, evaluationError: error };
}
