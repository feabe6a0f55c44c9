/** Enforces the minimum kubelet version, and plans changes to it. */
export { findReviewType, mayBeNode, parseAccessReview } from './access-review.ts';
export {
  compareNodes,
  type NodeState,
  readNodesConfig,
  reviewNode,
  reviewNodesConfig,
  reviewNodeWrite,
} from './admission.ts';
export {
  type AccessRequest,
  accessReviewStatus,
  authorizeKubelet,
  type AuthorizerDecision,
  type AuthorizerMode,
  nodeName,
  type ResourceAttributes,
} from './authorizer.ts';
export { describeEnforcement, type EnforcementCheck, printServer, readMinimumEnforcement } from './enforcement.ts';
export {
  compareMinimums,
  describeNodes,
  describeProgress,
  type MinimumPlan,
  nodePools,
  planMinimum,
  type Pool,
  renderMinimum,
  reportedMinimum,
  type RequestProblem,
} from './transition.ts';
export {
  compareKubeletVersions,
  createProblemFinder,
  findKubeletProblem,
  type KubeletVersion,
  type MinimumVersion,
  parseKubeletVersion,
  parseMinimum,
  parseSemanticVersion,
} from './version.ts';
