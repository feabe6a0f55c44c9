/** Raises and lowers the effective minimum kubelet version in safe steps, and reports nodes below it. */
import { CONFIGURATION_NAME, FEATURE_STATUS_CONTROLLERS, RENDERED_MINIMUM_ANNOTATION } from '../api/names.ts';
import type { Store } from '../cluster/store.ts';
import { type ConditionState, withTransitionTimes } from '../kube/conditions.ts';
import { defined } from '../kube/defined.ts';
import { deepEqual } from '../kube/equality.ts';
import { matchesLabelSelector } from '../kube/label-selector.ts';
import { objectName } from '../kube/resources.ts';
import { compareBytes } from '../kube/text.ts';
import type { Node, PortcullisConfiguration } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import {
  compareNodes,
  createProblemFinder,
  describeNodes,
  describeProgress,
  type MinimumPlan,
  nodePools,
  type NodeState,
  parseMinimum,
  planMinimum,
  type Pool,
  renderMinimum,
  reportedMinimum,
  type RequestProblem,
} from '../policy/kubelet/index.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import {
  type KubeletScope,
  listNodeStates,
  minimumInForce,
  NODES_CONFIG_NAME,
  requestedMinimum,
} from '../views/kubelet.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  runYielding,
  watch,
  watchValue,
} from './controller.ts';
import { statusRule } from './permissions.ts';

const [NAME] = FEATURE_STATUS_CONTROLLERS.kubelet;
const KIND = 'PortcullisConfiguration';
const OPTIONS = { fieldManager: NAME };

export const kubeletMinimum: ControllerDefinition = {
  name: NAME,
  description: 'raises and lowers the minimum kubelet version in force, and reports the nodes below it',
  runsOn: 'leader',
  permissions: [{ role: 'kubelet-minimum', clusterRules: [statusRule(['patch'], KIND)] }],
  isEnabled: ({ kubelet, settingsObject }) => kubelet && settingsObject,
  create: createReconciler,
};

type Status = NonNullable<PortcullisConfiguration['status']>;

/** Check interval while a change is in progress. Changes to Nodes also trigger a check. */
const CHECK = { requeueAfterMs: 30_000 };
const CONDITIONS: readonly string[] = ['KubeletsMeetMinimum', 'Progressing'];

function createReconciler({ settings, metrics, date }: ControllerContext): Reconciler {
  const key = (): readonly string[] => [CONFIGURATION_NAME];
  return {
    initialKeys: key(),
    sources: [
      watch(KIND, key),
      watch('NodesConfig', key),
      watch('Node', key),
      watch('MachineConfigPool', key),
      watchValue(settings, key),
    ],
    async reconcile(name, context) {
      const { store } = context.cluster;
      const object = store.get(KIND, name);
      if (!object) return undefined;
      const scope = { store, settings: () => settings.value.kubelet, hasSettingsObject: true };
      const review = await runYielding(reviewMinimum(object, scope), context);
      publish(review, metrics.kubelet);
      await write(object, review, { ...context, time: formatTimestamp(date().getTime()) });
      const { blocking, waiting } = review.plan;
      return blocking.length + waiting.length > 0 ? CHECK : undefined;
    },
    onStop() {
      resetMetrics(metrics.kubelet);
      return Promise.resolve();
    },
  };
}

interface Review {
  readonly requested: string;
  readonly plan: MinimumPlan;
  readonly nodes: readonly NodeState[];
  readonly source: string | undefined;
  readonly conditions: readonly ConditionState[];
}

/** Plans the next step from the objects in the store. Yields after each iteration over the nodes. */
function* reviewMinimum(object: PortcullisConfiguration, scope: KubeletScope): Generator<undefined, Review> {
  const { store } = scope;
  const kubelet = scope.settings();
  const inForce = minimumInForce(scope);
  const { source, ...request } = readRequest(object, inForce, scope);
  const state = {
    inForce,
    rendered: kubelet.isOn ? (object.status?.kubelet?.renderedMinimumVersion ?? '') : '',
    baseline: object.status?.kubelet?.pools,
  };
  const nodes = kubelet.isOn ? listNodeStates(scope) : [];
  yield;
  const pools = listPools(store, {
    rendered: renderMinimum(request.requested, inForce),
    exemptNodes: kubelet.exemptNodes,
    confirmed: object.metadata?.annotations?.[RENDERED_MINIMUM_ANNOTATION],
  });
  yield;
  const plan = planMinimum({ ...request, state, nodes, strictNodes: kubelet.compatibility === 'openshift', pools });
  yield;
  const progress = describeProgress({ ...request, plan, confirmation: confirmation(plan.state.rendered) });
  const conditions = [
    ...describeKubelets(reportedMinimum(request.requested, plan.state.inForce), nodes),
    ...(progress ? [progress] : []),
  ];
  yield;
  return { requested: request.requested, plan, nodes, source, conditions };
}

function describeKubelets(minimum: string, nodes: readonly NodeState[]): readonly ConditionState[] {
  const parsed = parseMinimum(minimum);
  if ('error' in parsed || !parsed.value) return [];
  const compared = nodes.filter(({ isExempt }) => !isExempt);
  return [describeNodes(minimum, compareNodes(compared, parsed.value, true).violations, compared.length)];
}

interface Request {
  readonly requested: string;
  readonly problem?: { readonly reason: RequestProblem; readonly message: string };
  /** The object that requests the minimum. Absent if there is no minimum. */
  readonly source: string | undefined;
}

const NODES_CONFIG = `nodes.config.openshift.io/${NODES_CONFIG_NAME}`;
const SETTINGS = `portcullisconfiguration/${CONFIGURATION_NAME}`;

/** Reads the requested minimum. If it is invalid or its object was deleted, the minimum in force remains unchanged. */
function readRequest(object: PortcullisConfiguration, inForce: string, scope: KubeletScope): Request {
  const { isOn, minimumVersion } = scope.settings();
  if (!isOn) return { requested: '', source: undefined };
  const config = scope.store.get('NodesConfig', NODES_CONFIG_NAME);
  const hasConfig = config !== undefined;
  const source = hasConfig ? NODES_CONFIG : SETTINGS;
  const requested = requestedMinimum(scope);
  const parsed = parseMinimum(requested);
  if ('error' in parsed) {
    const message = `${source}: ${parsed.error}. ${describeKept(inForce)}`;
    return { requested: inForce, source, problem: { reason: 'InvalidMinimum', message } };
  }
  const previous = object.status?.kubelet?.source;
  if (previous === NODES_CONFIG && !hasConfig && inForce !== '' && minimumVersion === undefined) {
    const message = `${NODES_CONFIG} was deleted. ${describeKept(inForce)}. To remove the minimum, create the object without one, or remove spec.kubelet from the settings`;
    return { requested: inForce, source: previous, problem: { reason: 'MinimumNotFound', message } };
  }
  if (requested !== '' || inForce !== '') return { requested, source };
  if (!hasConfig || config.spec?.minimumKubeletVersion === '') return { requested, source: undefined };
  const problem = { reason: 'MinimumNotSet', message: describeUnset(minimumVersion) } as const;
  return { requested, source: undefined, problem };
}

/**
 * Describes an object without a minimum. API servers drop fields that the CRD lacks, so the administrator may have set
 * a minimum that the object does not contain.
 */
function describeUnset(ignored: string | undefined): string {
  const unset = `${NODES_CONFIG} has no spec.minimumKubeletVersion: no minimum is requested, or its CRD lacks the field (OpenShift: feature gate MinimumKubeletVersion)`;
  return ignored === undefined ? unset : `${unset}; spec.kubelet.minimumVersion ${ignored} has no effect`;
}

function describeKept(inForce: string): string {
  return inForce === '' ? 'No minimum is in force' : `The minimum ${inForce} stays in force`;
}

/** Returns the annotation value that confirms a rendered minimum. */
function confirmedValue(rendered: string): string {
  return rendered === '' ? 'none' : rendered;
}

function confirmation(rendered: string): string {
  return `kubectl annotate ${SETTINGS} --overwrite ${RENDERED_MINIMUM_ANNOTATION}=${confirmedValue(rendered)}`;
}

interface PoolOptions {
  readonly rendered: string;
  readonly exemptNodes: unknown;
  /** The rendered minimum that an administrator has confirmed for all pools. */
  readonly confirmed: string | undefined;
}

/** Returns OpenShift's MachineConfigPools or, in other clusters, the nodes by role. */
function listPools(store: Store, { rendered, exemptNodes, confirmed }: PoolOptions): readonly Pool[] {
  const isConfirmed = confirmed === confirmedValue(rendered);
  const machinePools = store.list('MachineConfigPool');
  if (machinePools.length > 0) {
    return machinePools.map((pool) => {
      const { observedGeneration = 0, machineCount = 0, updatedMachineCount = 0 } = pool.status ?? {};
      const member = { id: String(observedGeneration), isReady: updatedMachineCount > 0 };
      return { name: objectName(pool), members: machineCount > 0 ? [member] : [], isConfirmed };
    });
  }
  const nodes = store.list('Node').filter(({ metadata }) => !matchesLabelSelector(exemptNodes, metadata?.labels));
  const pools = Map.groupBy(
    nodes.flatMap((node) => nodePools(node.metadata?.labels).map((name) => ({ name, node }))),
    ({ name }) => name,
  );
  const isMarked = ({ metadata }: Node): boolean =>
    metadata?.annotations?.[RENDERED_MINIMUM_ANNOTATION] === confirmedValue(rendered);
  return [...pools].map(([name, members]) => ({
    name,
    members: members.map(({ node }) => ({ id: bootIdentity(node), isReady: isReady(node) })),
    isConfirmed: isConfirmed || members.some(({ node }) => isMarked(node)),
  }));
}

/**
 * Returns an ID that changes when a machine registers again or reboots. Simulated nodes report no boot ID. Prefixes of
 * the two random identifiers are sufficiently unique within a pool.
 */
function bootIdentity({ metadata, status }: Node): string {
  const { bootID }: { readonly bootID?: string } = status?.nodeInfo ?? {};
  return `${metadata?.uid?.slice(0, 8) ?? ''}/${bootID?.slice(0, 8) ?? ''}`;
}

function isReady({ status }: Node): boolean {
  return status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
}

interface WriteContext extends Pick<ReconcileContext, 'cluster' | 'logger'> {
  readonly time: string;
}

/**
 * Writes the status if it has changed. If another client has changed the object since it was read, the write fails with
 * a conflict and is retried.
 */
async function write(object: PortcullisConfiguration, review: Review, context: WriteContext): Promise<void> {
  const { state, blocking } = review.plan;
  const { kubelet: before = {}, conditions: previous = [] } = object.status ?? {};
  const kubelet: NonNullable<Status['kubelet']> = {
    ...(state.inForce === '' ? {} : { minimumVersion: state.inForce }),
    ...(state.rendered === '' ? {} : { renderedMinimumVersion: state.rendered }),
    ...(state.baseline ? { pools: state.baseline } : {}),
    ...defined({ source: review.source }),
  };
  const own = previous.filter(({ type }) => CONDITIONS.includes(type));
  const conditions = withTransitionTimes(review.conditions, own, context.time);
  if (deepEqual(kubelet, before) && deepEqual(byType(conditions), byType(own))) return;
  const { name, resourceVersion } = object.metadata ?? {};
  const metadata = { ...defined({ name }), ...(resourceVersion ? { resourceVersion } : {}) };
  await context.cluster.applyStatus(KIND, { metadata, status: { kubelet, conditions } }, { ...OPTIONS, force: true });
  const { minimumVersion: inForce = '', renderedMinimumVersion: rendered = '' } = before;
  if (inForce === state.inForce && rendered === state.rendered) return;
  const fields = { requested: review.requested, ...state, blocking: blocking.length };
  context.logger.info(fields, 'minimum kubelet version changed');
}

/** Sorts conditions by type for comparison, because the API server returns them in creation order. */
function byType(conditions: readonly ConditionState[]): readonly ConditionState[] {
  return conditions.toSorted((a, b) => compareBytes(a.type, b.type));
}

function publish({ requested, plan, nodes }: Review, metrics: Metrics['kubelet']): void {
  resetMetrics(metrics);
  const { inForce, rendered } = plan.state;
  metrics.waiting.set({ for: 'nodes' }, plan.blocking.length);
  metrics.waiting.set({ for: 'pools' }, plan.waiting.length);
  const parsed = parseMinimum(reportedMinimum(requested, inForce));
  if ('error' in parsed || !parsed.value) return;
  metrics.minimum.set({ requested, in_force: inForce, rendered }, 1);
  for (const state of ['sufficient', 'outdated', 'unknown', 'exempt'] as const) metrics.nodes.set({ state }, 0);
  const findProblem = createProblemFinder(parsed.value);
  const states = nodes.map(({ isExempt, kubeletVersion }) =>
    isExempt ? 'exempt' : (findProblem(kubeletVersion)?.type ?? 'sufficient'),
  );
  for (const [state, { length }] of Map.groupBy(states, (state) => state)) metrics.nodes.set({ state }, length);
}

function resetMetrics({ nodes, minimum, waiting }: Metrics['kubelet']): void {
  for (const gauge of [nodes, minimum, waiting]) gauge.reset();
}
