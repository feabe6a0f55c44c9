/** Compares nodes with the minimum kubelet version, and reviews writes to `nodes.config.openshift.io`. */
import { type AdmissionRequest, allow, type Decision, deny } from '../../kube/admission.ts';
import { type FieldError, forbiddenField, invalidValue } from '../../kube/field-error.ts';
import { forbidden } from '../../kube/status.ts';
import { compareBytes, quote } from '../../kube/text.ts';
import { objectMember } from '../../kube/types.ts';
import {
  createProblemFinder,
  findKubeletProblem,
  type KubeletProblem,
  type MinimumVersion,
  parseMinimum,
} from './version.ts';

export interface NodeState {
  readonly name: string;
  /** The reported kubelet version, or an empty string if the node has not reported one. */
  readonly kubeletVersion: string;
  /** True if the kubelet has reported the `Ready` condition. */
  readonly hasReadyCondition: boolean;
  /** True if the node is exempt from the minimum. */
  readonly isExempt: boolean;
}

export interface NodeViolation {
  readonly node: NodeState;
  readonly problem: KubeletProblem;
}

interface NodeComparison {
  readonly violations: readonly NodeViolation[];
  /** Names of the nodes that have not reported a version yet. */
  readonly skipped: readonly NodeState[];
}

/**
 * Compares all nodes with a minimum. Both lists in the result are sorted by node name. A node that has reported neither
 * a version nor the `Ready` condition belongs to a machine that has not started yet, so the node is skipped unless
 * `strictNodes` is true.
 */
export function compareNodes(
  nodes: readonly NodeState[],
  minimum: MinimumVersion,
  strictNodes: boolean,
): NodeComparison {
  const violations: NodeViolation[] = [];
  const skipped: NodeState[] = [];
  const findProblem = createProblemFinder(minimum);
  const compared = nodes.filter(({ isExempt }) => !isExempt).sort((a, b) => compareBytes(a.name, b.name));
  for (const node of compared) {
    const isUnreported = node.kubeletVersion === '' && !node.hasReadyCondition;
    const problem = findProblem(node.kubeletVersion);
    if (isUnreported && !strictNodes) skipped.push(node);
    else if (problem !== undefined) violations.push({ node, problem });
  }
  return { violations, skipped };
}

/** Denies a write by a node whose kubelet is below the minimum. */
export function reviewNodeWrite(
  { resource, name = '' }: AdmissionRequest,
  minimum: MinimumVersion,
  { node, strictNodes }: { readonly node: NodeState; readonly strictNodes: boolean },
): Decision {
  const [violation] = compareNodes([node], minimum, strictNodes).violations;
  if (violation === undefined) return allow();
  const { type, message } = violation.problem;
  return deny(forbidden(resource, name, message), { facts: { node: node.name, kubelet: type } });
}

/**
 * Denies the registration of a node with a kubelet below the minimum. Status updates are never denied, because an
 * upgraded kubelet must be able to report its version.
 */
export function reviewNode(
  { resource, subResource = '' }: AdmissionRequest,
  minimum: MinimumVersion,
  { user, node }: { readonly user: string; readonly node: NodeState },
): Decision {
  const problem = node.isExempt ? undefined : findKubeletProblem(node.kubeletVersion, minimum);
  const facts = { node: user, kubelet: problem?.type ?? (node.isExempt ? 'exempt' : 'sufficient') };
  if (problem === undefined || subResource === 'status') return allow({ facts });
  return deny(forbidden(resource, node.name, problem.message), { facts });
}

/** The reviewed fields of `nodes.config.openshift.io/cluster`. Absent fields are empty strings. */
interface NodesConfigFields {
  readonly name: string;
  readonly minimumKubeletVersion: string;
  readonly workerLatencyProfile: string;
}

interface NodesConfigReview {
  readonly config: NodesConfigFields;
  /** The stored object. Absent on CREATE. */
  readonly old?: NodesConfigFields | undefined;
  /** All nodes. Absent until the store has synced. */
  readonly nodes: readonly NodeState[] | undefined;
  /** If true, nodes are checked only when the minimum changes. */
  readonly ratchet: boolean;
  /** If true, nodes that have not reported a version violate the minimum. */
  readonly strictNodes: boolean;
}

/**
 * Reads the fields of an unvalidated object. Ignores fields that have the wrong type, because API servers reject them
 * based on the schema.
 */
export function readNodesConfig(object: unknown): NodesConfigFields {
  const read = (member: string, field: string): string => {
    const value = objectMember(object, member)[field];
    return typeof value === 'string' ? value : '';
  };
  return {
    name: read('metadata', 'name'),
    minimumKubeletVersion: read('spec', 'minimumKubeletVersion'),
    workerLatencyProfile: read('spec', 'workerLatencyProfile'),
  };
}

interface FieldReview {
  readonly errors: readonly FieldError[];
  readonly warnings: readonly string[];
}

/**
 * Reviews a write to `nodes.config.openshift.io`, except for status updates.
 * @see https://github.com/openshift/kubernetes/blob/master/openshift-kube-apiserver/admission/customresourcevalidation/node/validate_node_config.go
 */
export function reviewNodesConfig(review: NodesConfigReview): FieldReview {
  const { config, old } = review;
  const { errors, warnings } = reviewMinimum(review);
  const first = old === undefined ? validateName(config) : validateLatencyProfile(old, config);
  return { errors: [...first, ...errors], warnings };
}

function validateName({ name }: NodesConfigFields): readonly FieldError[] {
  return name === 'cluster' ? [] : [invalidValue('metadata.name', name, 'must be cluster')];
}

const EXTREME_PROFILE = 'LowUpdateSlowReaction';
const DEFAULT_PROFILES: readonly string[] = ['', 'Default'];

function validateLatencyProfile(
  { workerLatencyProfile: from }: NodesConfigFields,
  { workerLatencyProfile: to }: NodesConfigFields,
): readonly FieldError[] {
  const isExtreme =
    (DEFAULT_PROFILES.includes(from) && to === EXTREME_PROFILE) ||
    (from === EXTREME_PROFILE && DEFAULT_PROFILES.includes(to));
  if (!isExtreme) return [];
  const change = `cannot update worker latency profile from ${quote(from)} to ${quote(to)}`;
  const advice = 'please select any other profile with supported transition such as "MediumUpdateAverageReaction"';
  const detail = `${change} as extreme profile transition is unsupported, ${advice}`;
  return [invalidValue('spec.workerLatencyProfile', to, detail)];
}

const FIELD = 'spec.minimumKubeletVersion';

function reviewMinimum({ config, old, nodes, ratchet, strictNodes }: NodesConfigReview): FieldReview {
  const value = config.minimumKubeletVersion;
  if (ratchet && old?.minimumKubeletVersion === value) return NO_FINDINGS;
  if (nodes === undefined) {
    const detail = 'caches not synchronized, cannot validate minimumKubeletVersion';
    return { errors: [{ type: 'InternalError', path: FIELD, detail }], warnings: [] };
  }
  const parsed = parseMinimum(value);
  if ('error' in parsed) return { errors: [invalidValue(FIELD, value, parsed.error)], warnings: [] };
  if (parsed.value === undefined) return NO_FINDINGS;
  const { violations, skipped } = compareNodes(nodes, parsed.value, strictNodes);
  const [first] = violations;
  return {
    errors: first === undefined ? [] : [minimumError(value, first.problem)],
    warnings: [
      ...limitWarnings(violations.map(({ node, problem }) => `node ${quote(node.name)}: ${problem.message}`)),
      ...limitWarnings(skipped.map(({ name }) => `node ${quote(name)}: ${NOT_REPORTED}`)),
    ],
  };
}

const NO_FINDINGS: FieldReview = { errors: [], warnings: [] };
const NOT_REPORTED = 'no kubelet version reported yet; not compared with minimumKubeletVersion';

function minimumError(value: string, { type, message }: KubeletProblem): FieldError {
  return type === 'outdated' ? forbiddenField(FIELD, message) : invalidValue(FIELD, value, message);
}

/** Maximum number of warnings. API servers truncate the warnings in a response to 4096 characters in total. */
const MAX_WARNINGS = 30;

function limitWarnings(warnings: readonly string[]): readonly string[] {
  const rest = warnings.length - MAX_WARNINGS;
  return rest <= 0 ? warnings : [...warnings.slice(0, MAX_WARNINGS), `and ${rest} more nodes`];
}
