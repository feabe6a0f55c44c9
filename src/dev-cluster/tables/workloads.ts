import type { ApiObject, TableColumn } from '../types.ts';
import { at, humanDuration, itemsAt, labelsText, numberAt, selectorText, since, textAt } from './cells.ts';
import {
  ageColumn,
  column,
  containerColumns,
  count,
  nameColumn,
  selectorColumn,
  templateContainers,
  wide,
} from './column.ts';

const templateColumns = containerColumns(templateContainers);

/** The columns of the kinds with a pod template. */
export const workloadColumns: Readonly<Record<string, readonly TableColumn[]>> = {
  PodTemplate: [
    nameColumn,
    ...containerColumns((object) => itemsAt(object, 'template', 'spec', 'containers')).map(always),
    column(
      'Pod Labels',
      (object) => labelsText(at(object, 'template', 'metadata', 'labels')),
      'The labels for the pod template.',
    ),
  ],
  ReplicationController: [
    ...replicaColumns(),
    ...templateColumns,
    wide(column('Selector', (object) => labelsText(at(object, 'spec', 'selector')))),
  ],
  ReplicaSet: [...replicaColumns(), ...templateColumns, selectorColumn],
  Deployment: [
    nameColumn,
    column('Ready', readyOfDesired, 'Number of the pod with ready state'),
    count('Up-to-date', (object) => numberAt(object, 'status', 'updatedReplicas')),
    count('Available', (object) => numberAt(object, 'status', 'availableReplicas')),
    ageColumn,
    ...templateColumns,
    selectorColumn,
  ],
  StatefulSet: [
    nameColumn,
    column('Ready', readyOfDesired, 'Number of the pod with ready state'),
    ageColumn,
    ...templateColumns,
  ],
  DaemonSet: [
    nameColumn,
    count('Desired', (object) => numberAt(object, 'status', 'desiredNumberScheduled')),
    count('Current', (object) => numberAt(object, 'status', 'currentNumberScheduled')),
    count('Ready', (object) => numberAt(object, 'status', 'numberReady')),
    count('Up-to-date', (object) => numberAt(object, 'status', 'updatedNumberScheduled')),
    count('Available', (object) => numberAt(object, 'status', 'numberAvailable')),
    column('Node Selector', (object) => labelsText(at(object, 'spec', 'template', 'spec', 'nodeSelector'))),
    ageColumn,
    ...templateColumns,
    selectorColumn,
  ],
  Job: [
    nameColumn,
    column('Status', jobStatus, 'Status of the job.'),
    column('Completions', completions),
    column('Duration', jobDuration, 'Time required to complete the job.'),
    ageColumn,
    ...templateColumns,
    selectorColumn,
  ],
  CronJob: [
    nameColumn,
    column('Schedule', (object) => textAt(object, 'spec', 'schedule')),
    column('Timezone', (object) => textAt(object, 'spec', 'timeZone') || '<none>'),
    { ...column('Suspend', suspended), type: 'boolean' },
    count('Active', (object) => itemsAt(object, 'status', 'active').length),
    column('Last Schedule', lastSchedule),
    ageColumn,
    ...containerColumns((object) => itemsAt(object, 'spec', 'jobTemplate', 'spec', 'template', 'spec', 'containers')),
    wide(column('Selector', (object) => selectorText(at(object, 'spec', 'jobTemplate', 'spec', 'selector')))),
  ],
};

function always(shown: TableColumn): TableColumn {
  return { ...shown, priority: 0 };
}

function replicaColumns(): readonly TableColumn[] {
  return [
    nameColumn,
    count('Desired', (object) => numberAt(object, 'spec', 'replicas')),
    count('Current', (object) => numberAt(object, 'status', 'replicas')),
    count('Ready', (object) => numberAt(object, 'status', 'readyReplicas')),
    ageColumn,
  ];
}

function readyOfDesired(object: ApiObject): string {
  return `${numberAt(object, 'status', 'readyReplicas')}/${numberAt(object, 'spec', 'replicas')}`;
}

function jobStatus(job: ApiObject): string {
  const holds = (type: string): boolean =>
    itemsAt(job, 'status', 'conditions').some(
      (condition) => condition['type'] === type && condition['status'] === 'True',
    );
  if (holds('Complete')) return 'Complete';
  if (holds('Failed')) return 'Failed';
  if (at(job, 'metadata', 'deletionTimestamp') !== undefined) return 'Terminating';
  return ['Suspended', 'FailureTarget', 'SuccessCriteriaMet'].find(holds) ?? 'Running';
}

function completions(job: ApiObject): string {
  const succeeded = numberAt(job, 'status', 'succeeded');
  const wanted = at(job, 'spec', 'completions');
  if (typeof wanted === 'number') return `${succeeded}/${wanted}`;
  const parallelism = numberAt(job, 'spec', 'parallelism');
  return parallelism > 1 ? `${succeeded}/1 of ${parallelism}` : `${succeeded}/1`;
}

function jobDuration(job: ApiObject, now: Date): string {
  const start = at(job, 'status', 'startTime');
  if (typeof start !== 'string') return '';
  const end = at(job, 'status', 'completionTime');
  if (typeof end !== 'string') return since(start, now);
  return humanDuration((Date.parse(end) - Date.parse(start)) / 1000);
}

function suspended(object: ApiObject): string {
  const value = at(object, 'spec', 'suspend');
  if (typeof value !== 'boolean') return '<unset>';
  return value ? 'True' : 'False';
}

function lastSchedule(object: ApiObject, now: Date): string {
  const time = at(object, 'status', 'lastScheduleTime');
  return time === undefined ? '<none>' : since(time, now);
}
