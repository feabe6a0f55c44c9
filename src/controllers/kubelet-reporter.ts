/** Reports whether each node's kubelet meets the minimum version. */
import { KUBELET_CONDITION, KUBELET_STATE_ANNOTATION, KUBELET_TAINT, NODE_REPORTER } from '../api/names.ts';
import { httpStatusCode } from '../cluster/connection.ts';
import type { KubeletSettings } from '../config/settings.ts';
import type { ConditionState } from '../kube/conditions.ts';
import { objectName } from '../kube/resources.ts';
import type { Node } from '../kube/types.ts';
import { formatTimestamp } from '../kube/units.ts';
import { findKubeletProblem, type MinimumVersion, parseMinimum, reportedMinimum } from '../policy/kubelet/index.ts';
import { minimumInForce, nodeState, requestedMinimum } from '../views/kubelet.ts';
import {
  type ControllerContext,
  type ControllerDefinition,
  type ReconcileContext,
  type Reconciler,
  watch,
  watchChanges,
  watchValue,
} from './controller.ts';
import type { ControllerEvent } from './events.ts';
import { rbacRule, statusRule } from './permissions.ts';

const OPTIONS = { fieldManager: NODE_REPORTER };

export const kubeletReporter: ControllerDefinition = {
  name: NODE_REPORTER,
  description: `marks nodes below the minimum kubelet version by the condition ${KUBELET_CONDITION}, events and an optional taint`,
  runsOn: 'leader',
  permissions: [
    { role: 'kubelet-reporter', clusterRules: [statusRule(['patch'], 'Node')] },
    {
      role: 'kubelet-taint',
      clusterRules: [rbacRule(['get', 'patch'], ['Node'])],
      isNeeded: ({ kubeletTaint }) => kubeletTaint,
    },
  ],
  isEnabled: ({ kubelet }) => kubelet,
  create: createReconciler,
};

/** Key that enqueues all nodes. */
const ALL = '';

function createReconciler({ settings, date }: ControllerContext): Reconciler {
  return {
    concurrency: 4,
    sources: [
      watch('Node', ({ metadata }) => (metadata?.name === undefined ? [] : [metadata.name])),
      watchChanges('PortcullisConfiguration', () => [ALL]),
      watchChanges('NodesConfig', () => [ALL]),
      watchValue(settings, () => [ALL]),
    ],
    async reconcile(name, context) {
      const { store } = context.cluster;
      if (name === ALL) store.list('Node').forEach((node) => context.enqueue(objectName(node)));
      const node = store.get('Node', name);
      if (!node) return undefined;
      const kubelet = settings.value.kubelet;
      const scope = { store, settings: () => kubelet, hasSettingsObject: true };
      const minimum = parseMinimum(reportedMinimum(requestedMinimum(scope), minimumInForce(scope)));
      const report = describeNode(node, 'value' in minimum ? minimum.value : undefined, kubelet);
      await writeReport(node, report, { ...context, time: formatTimestamp(date().getTime()) });
      await writeTaint(node, kubelet.taint && report?.status === 'True', context);
      return undefined;
    },
  };
}

/** Condition reason and annotation value by condition status. */
const REPORTS = {
  True: { reason: 'KubeletOutdated', state: 'outdated' },
  False: { reason: 'KubeletVersionSufficient', state: 'ok' },
  Unknown: { reason: 'KubeletVersionUnknown', state: 'unknown' },
} as const;

/** Returns the condition for a node, or `undefined` if there is no minimum or the node is exempt. */
function describeNode(
  node: Node,
  minimum: MinimumVersion | undefined,
  kubelet: KubeletSettings,
): ConditionState | undefined {
  const { isExempt, kubeletVersion } = nodeState(node, kubelet);
  if (!kubelet.isOn || minimum === undefined || isExempt) return undefined;
  const problem = findKubeletProblem(kubeletVersion, minimum);
  const status = problem === undefined ? 'False' : problem.type === 'outdated' ? 'True' : 'Unknown';
  const message = problem?.message ?? `kubelet version ${kubeletVersion} is not lower than ${minimum.text}`;
  return { type: KUBELET_CONDITION, status, reason: REPORTS[status].reason, message };
}

interface WriteContext extends Pick<ReconcileContext, 'cluster' | 'logger' | 'recordEvent'> {
  readonly time: string;
}

/**
 * Writes the condition if it has changed. Records an event when the kubelet falls below the minimum or meets it again.
 */
async function writeReport(node: Node, report: ConditionState | undefined, context: WriteContext): Promise<void> {
  const condition = node.status?.conditions?.find(({ type }) => type === KUBELET_CONDITION);
  const annotation = node.metadata?.annotations?.[KUBELET_STATE_ANNOTATION];
  const state = report && REPORTS[report.status].state;
  const isReported = condition?.status === report?.status && condition?.message === report?.message;
  if (annotation === (isReported ? undefined : state)) {
    if (isReported || condition === undefined) return;
  }
  try {
    if (!isReported) await writeCondition(node, report, context);
    if (annotation !== undefined) await writeAnnotation(node, undefined, context);
  } catch (error) {
    if (httpStatusCode(error) !== 403) throw error;
    await writeAnnotation(node, state, context);
    context.logger.warn(
      { node: node.metadata?.name, state },
      'not allowed to patch the node status, writing an annotation instead',
    );
  }
  const wasOutdated = condition?.status === 'True' || annotation === REPORTS.True.state;
  const event = report && describeTransition(wasOutdated, report);
  if (event) context.recordEvent('Node', node, event);
}

function describeTransition(wasOutdated: boolean, report: ConditionState): ControllerEvent | undefined {
  const { status, reason, message } = report;
  const event = { reason, message, action: 'CompareVersion' };
  if (status === 'True' && !wasOutdated) return { ...event, type: 'Warning' };
  return status === 'False' && wasOutdated ? { ...event, type: 'Normal' } : undefined;
}

/**
 * Applies the condition to the node status. Without a report, the applied configuration omits the condition, so the API
 * server removes it.
 */
async function writeCondition(node: Node, report: ConditionState | undefined, context: WriteContext): Promise<void> {
  const { name = '' } = node.metadata ?? {};
  const before = node.status?.conditions?.find(({ type }) => type === KUBELET_CONDITION);
  const since = before?.status === report?.status ? before?.lastTransitionTime : undefined;
  const conditions = report ? [{ ...report, lastTransitionTime: since ?? context.time }] : [];
  await context.cluster.applyStatus(
    'Node',
    { metadata: { name }, status: { conditions } },
    { ...OPTIONS, force: true },
  );
  context.logger.info({ node: name, status: report?.status }, 'node condition written');
}

async function writeAnnotation(node: Node, state: string | undefined, { cluster }: WriteContext): Promise<void> {
  const { name = '' } = node.metadata ?? {};
  const annotations = state === undefined ? {} : { [KUBELET_STATE_ANNOTATION]: state };
  await cluster.apply('Node', { metadata: { name, annotations } }, { ...OPTIONS, force: true });
}

/**
 * Adds or removes the taint. All clients share a single list of taints, so the write must fail if the node has changed
 * since it was read.
 */
async function writeTaint(node: Node, isTainted: boolean, { cluster, logger }: ReconcileContext): Promise<void> {
  const { name = '' } = node.metadata ?? {};
  const isOwn = ({ key }: { readonly key: string }): boolean => key === KUBELET_TAINT;
  if ((node.spec?.taints?.some(isOwn) ?? false) === isTainted) return;
  const { metadata, spec } = await cluster.get('Node', name);
  const others = spec?.taints?.filter((taint) => !isOwn(taint)) ?? [];
  const value = isTainted ? [...others, { key: KUBELET_TAINT, effect: 'NoSchedule' }] : others;
  const ops = [
    { op: 'replace', path: '/metadata/resourceVersion', value: metadata?.resourceVersion ?? '' },
    { op: 'add', path: '/spec/taints', value },
  ] as const;
  await cluster.patch('Node', { name }, ops, OPTIONS);
  logger.info({ node: name, isTainted }, 'node taint written');
}
