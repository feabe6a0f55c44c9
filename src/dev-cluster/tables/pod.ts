import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject, TableColumn } from '../types.ts';
import { at, itemsAt, numberAt, since, textAt } from './cells.ts';
import { ageColumn, column, nameColumn, wide } from './column.ts';

/** How far a pod is, in the one word that `kubectl get pods` shows, and the counts beside it. */
interface Progress {
  readonly ready: number;
  readonly total: number;
  readonly reason: string;
  readonly restarts: number;
  readonly lastRestart: string;
}

/**
 * The columns of pods.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/printers/internalversion/printers.go
 */
export const podColumns: readonly TableColumn[] = [
  nameColumn,
  column(
    'Ready',
    (pod) => {
      const { ready, total } = progressOf(pod);
      return `${ready}/${total}`;
    },
    'The aggregate readiness state of this pod for accepting traffic.',
  ),
  column('Status', (pod) => progressOf(pod).reason, 'The aggregate status of the containers in this pod.'),
  column(
    'Restarts',
    (pod, now) => {
      const { restarts, lastRestart } = progressOf(pod);
      return restarts > 0 && lastRestart !== '' ? `${restarts} (${since(lastRestart, now)} ago)` : String(restarts);
    },
    'The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.',
  ),
  ageColumn,
  wide(
    column(
      'IP',
      (pod) => textAt(itemsAt(pod, 'status', 'podIPs')[0], 'ip') || '<none>',
      'podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.',
    ),
  ),
  wide(
    column(
      'Node',
      (pod) => textAt(pod, 'spec', 'nodeName') || '<none>',
      'NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename',
    ),
  ),
  wide(
    column(
      'Nominated Node',
      (pod) => textAt(pod, 'status', 'nominatedNodeName') || '<none>',
      'nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right away as preemption victims receive their graceful termination periods. This field does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is scheduled.',
    ),
  ),
  wide(
    column(
      'Readiness Gates',
      readinessGates,
      'If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers are ready AND all conditions specified in the readiness gates have status equal to "True" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates',
    ),
  ),
];

/**
 * Pods change status only where somebody writes it, so the word is the phase, the reason of the first container that
 * waits or has ended, or `Terminating`.
 */
function progressOf(pod: ApiObject): Progress {
  const statuses = itemsAt(pod, 'status', 'containerStatuses');
  const sidecars = itemsAt(pod, 'spec', 'initContainers').filter((one) => one['restartPolicy'] === 'Always');
  const restarts = statuses.map((status) => numberAt(status, 'restartCount'));
  const ended = statuses.map((status) => textAt(status, 'lastState', 'terminated', 'finishedAt')).sort();
  return {
    ready: statuses.filter((status) => status['ready'] === true && at(status, 'state', 'running') !== undefined).length,
    total: itemsAt(pod, 'spec', 'containers').length + sidecars.length,
    reason: reasonOf(pod, statuses),
    restarts: restarts.reduce((sum, more) => sum + more, 0),
    lastRestart: ended.at(-1) ?? '',
  };
}

function reasonOf(pod: ApiObject, statuses: readonly JsonObject[]): string {
  const phase = textAt(pod, 'status', 'phase');
  const ended = phase === 'Succeeded' || phase === 'Failed';
  if (at(pod, 'metadata', 'deletionTimestamp') !== undefined && !ended) return 'Terminating';
  const gated = itemsAt(pod, 'status', 'conditions').some(({ type, reason }) => {
    return type === 'PodScheduled' && reason === 'SchedulingGated';
  });
  const own = gated ? 'SchedulingGated' : textAt(pod, 'status', 'reason') || phase;
  return statuses.map(containerReason).find((reason) => reason !== '') ?? own;
}

function containerReason(status: JsonObject): string {
  const ended = at(status, 'state', 'terminated');
  if (ended === undefined) return textAt(status, 'state', 'waiting', 'reason');
  const signal = numberAt(ended, 'signal');
  const code = signal === 0 ? `ExitCode:${numberAt(ended, 'exitCode')}` : `Signal:${signal}`;
  return textAt(ended, 'reason') || code;
}

function readinessGates(pod: ApiObject): string {
  const gates = itemsAt(pod, 'spec', 'readinessGates');
  if (gates.length === 0) return '<none>';
  const conditions = itemsAt(pod, 'status', 'conditions');
  const open = gates.filter((gate) =>
    conditions.some(({ type, status }) => type === gate['conditionType'] && status === 'True'),
  );
  return `${open.length}/${gates.length}`;
}
