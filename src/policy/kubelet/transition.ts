/**
 * Plans changes to the minimum kubelet version. There are three minimums. Users request the requested minimum, webhooks
 * enforce the minimum in force, and the rendered minimum determines the feature gates. The rendered minimum never
 * exceeds the minimum in force, so a feature that requires newer kubelets is enabled only while webhooks enforce their
 * version. An empty string means no minimum and is lower than every version.
 */
import type { ConditionState } from '../../kube/conditions.ts';
import { compareBytes, summarizeNames, plural } from '../../kube/text.ts';
import { compareNodes, type NodeState, type NodeViolation } from './admission.ts';
import { compareKubeletVersions, parseMinimum, parseSemanticVersion } from './version.ts';

/**
 * Compares two minimums. Returns a negative number if the first one is lower. An invalid version is treated as no
 * minimum.
 */
export function compareMinimums(a: string, b: string): number {
  const [first, second] = [parseSemanticVersion(a), parseSemanticVersion(b)];
  if ('error' in first || 'error' in second) return Number('value' in first) - Number('value' in second);
  return compareKubeletVersions(first.value, second.value);
}

/**
 * Returns the minimum that determines the feature gates, which is the lower of the requested minimum and the minimum in
 * force.
 */
export function renderMinimum(requested: string, inForce: string): string {
  return compareMinimums(requested, inForce) < 0 ? requested : inForce;
}

/** Returns the minimum for reports, which is the higher of the two, because nodes below either minimum lose access. */
export function reportedMinimum(requested: string, inForce: string): string {
  return compareMinimums(requested, inForce) > 0 ? requested : inForce;
}

/** A group of nodes that share a configuration. */
export interface Pool {
  readonly name: string;
  /**
   * The nodes or API servers in the pool. A member's ID identifies its configuration, and changes after a restart or an
   * update.
   */
  readonly members: readonly { readonly id: string; readonly isReady: boolean }[];
  /** True if an administrator has confirmed that the pool runs the rendered minimum. */
  readonly isConfirmed?: boolean;
}

/** The IDs of a pool's members when the rendered minimum was lowered. */
interface PoolBaseline {
  readonly name: string;
  readonly members: readonly string[];
}

interface MinimumState {
  readonly inForce: string;
  readonly rendered: string;
  /** Set while the rendered minimum is lower than before but the minimum in force has not been lowered yet. */
  readonly baseline?: readonly PoolBaseline[] | undefined;
}

interface MinimumInput {
  /** The requested minimum, which is `''` or a valid version. */
  readonly requested: string;
  readonly state: MinimumState;
  readonly nodes: readonly NodeState[];
  /** If true, nodes that have not reported a version block a higher minimum. */
  readonly strictNodes: boolean;
  readonly pools: readonly Pool[];
}

/** The next state of a change, and the nodes and pools that delay it. */
export interface MinimumPlan {
  readonly state: MinimumState;
  /** Nodes that do not meet a higher requested minimum. The minimum takes effect once the list is empty. */
  readonly blocking: readonly NodeViolation[];
  /** Pools in which no member has picked up the lower rendered minimum yet. */
  readonly waiting: readonly string[];
}

/** Plans the next step. It depends only on the current state, so a new leader can continue a change. */
export function planMinimum(input: MinimumInput): MinimumPlan {
  const { requested, state, nodes, strictNodes } = input;
  const { inForce } = state;
  const rendered = renderMinimum(requested, inForce);
  const direction = compareMinimums(requested, inForce);
  if (direction === 0) return { state: { inForce, rendered }, blocking: [], waiting: [] };
  if (direction < 0) return planLowering(input, rendered);
  const minimum = parseMinimum(requested);
  const target = 'value' in minimum ? minimum.value : undefined;
  const blocking = target === undefined ? [] : compareNodes(nodes, target, strictNodes).violations;
  return { state: { inForce: blocking.length > 0 ? inForce : requested, rendered }, blocking, waiting: [] };
}

/**
 * Plans the change to a lower minimum. First disables the features that require the higher minimum. Once every pool
 * runs without these features, lowers the minimum in force.
 */
function planLowering({ requested, state, pools }: MinimumInput, rendered: string): MinimumPlan {
  const isNewRendering = compareMinimums(state.rendered, rendered) > 0;
  const baseline = isNewRendering ? pools.map(toBaseline) : state.baseline;
  const waiting = pools.filter((pool) => baseline && !hasPickedUp(pool, baseline)).map(({ name }) => name);
  if (waiting.length === 0) return { state: { inForce: requested, rendered }, blocking: [], waiting };
  return { state: { inForce: state.inForce, rendered, baseline }, blocking: [], waiting };
}

function toBaseline({ name, members }: Pool): PoolBaseline {
  return { name, members: members.map(({ id }) => id) };
}

/**
 * Returns true for a confirmed or empty pool, and for a pool that has a ready member whose configuration is newer than
 * the baseline.
 */
function hasPickedUp({ name, members, isConfirmed = false }: Pool, baseline: readonly PoolBaseline[]): boolean {
  if (isConfirmed || members.length === 0) return true;
  const known = new Set(baseline.find((pool) => pool.name === name)?.members);
  return members.some(({ id, isReady }) => isReady && !known.has(id));
}

export type RequestProblem = 'InvalidMinimum' | 'MinimumNotFound' | 'MinimumNotSet';

interface ProgressInput {
  readonly requested: string;
  readonly problem?: { readonly reason: RequestProblem; readonly message: string } | undefined;
  readonly plan: MinimumPlan;
  /** Command that confirms that all pools run the lower rendered minimum. */
  readonly confirmation: string;
}

/** Returns the `Progressing` condition, or `undefined` if there is no minimum. */
export function describeProgress({
  requested,
  problem,
  plan,
  confirmation,
}: ProgressInput): ConditionState | undefined {
  const { state, blocking, waiting } = plan;
  if (problem) return progressing('False', problem.reason, problem.message);
  if (blocking.length > 0) {
    const names = summarizeNames(blocking.map(({ node }) => node.name));
    const count = `${blocking.length} ${plural(blocking.length, 'node is', 'nodes are')} below it`;
    return progressing(
      'False',
      'NodesBelowMinimum',
      `the minimum ${requested} is not in force, because ${count}: ${names}`,
    );
  }
  if (waiting.length > 0) {
    const message = `the minimum ${state.inForce} stays in force until a node of each pool is configured for the lower minimum. Waiting for: ${summarizeNames(waiting)}. To confirm the change: ${confirmation}`;
    return progressing('True', 'WaitingForPools', message);
  }
  if (state.inForce === '' && state.rendered === '') return undefined;
  if (state.inForce !== state.rendered) {
    return progressing(
      'True',
      'Rendering',
      `the minimum ${state.inForce} is in force, and feature gates are being updated`,
    );
  }
  return progressing('False', 'UpToDate', `the minimum ${state.inForce} is in force`);
}

function progressing(status: 'True' | 'False', reason: string, message: string): ConditionState {
  return { type: 'Progressing', status, reason, message };
}

export function describeNodes(minimum: string, violations: readonly NodeViolation[], total: number): ConditionState {
  const type = 'KubeletsMeetMinimum';
  if (violations.length === 0) {
    const nodes = total === 1 ? 'the only node runs' : `all ${total} nodes run`;
    const message = `${nodes} kubelet ${minimum} or newer`;
    return { type, status: 'True', reason: 'AllNodesMeetMinimum', message };
  }
  const names = summarizeNames(violations.map(({ node }) => node.name));
  const message = `${violations.length} of ${total} nodes run a kubelet older than ${minimum} or with an unknown version: ${names}`;
  return { type, status: 'False', reason: 'NodesBelowMinimum', message };
}

const ROLE_PREFIX = 'node-role.kubernetes.io/';

/** Returns the sorted roles of a node as kubectl prints them, or `<none>` if the node has no role. */
export function nodePools(labels: Readonly<Record<string, string>> | undefined): readonly string[] {
  const roles = Object.keys(labels ?? {})
    .filter((key) => key.startsWith(ROLE_PREFIX))
    .map((key) => key.slice(ROLE_PREFIX.length));
  return roles.length === 0 ? ['<none>'] : roles.sort(compareBytes);
}
