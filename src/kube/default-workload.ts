import { defaultPodSpec, fill, partAt, partIn, partsAt, type Part } from './default-pod.ts';

/** Fills in the fields of a workload of one kind. */
type Defaulter = (workload: Part) => void;

/**
 * What the API server fills in of workloads, by API group and kind.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/apps/v1/defaults.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/batch/v1/defaults.go
 */
export const workloadDefaults: Readonly<Record<string, Defaulter>> = {
  '/PodTemplate': (object) => defaultTemplate(object),
  '/ReplicationController': (object) => {
    const spec = partIn(object, 'spec');
    fill(spec, 'replicas', 1);
    adoptTemplateLabels(object, spec);
    if (partAt(spec, 'template')) defaultTemplate(spec);
  },
  'apps/DaemonSet': defaultDaemonSet,
  'apps/Deployment': defaultDeployment,
  'apps/ReplicaSet': (object) => {
    const spec = partIn(object, 'spec');
    fill(spec, 'replicas', 1);
    defaultTemplate(spec);
  },
  'apps/StatefulSet': defaultStatefulSet,
  'batch/CronJob': defaultCronJob,
  'batch/Job': defaultJob,
};

function defaultTemplate(owner: Part): void {
  const template = partIn(owner, 'template');
  fill(template, 'metadata', {});
  defaultPodSpec(partIn(template, 'spec'));
}

function adoptTemplateLabels(object: Part, spec: Part): void {
  const labels = partAt(partAt(partAt(spec, 'template') ?? {}, 'metadata') ?? {}, 'labels');
  if (!labels) return;
  if (isEmpty(spec['selector'])) spec['selector'] = structuredClone(labels);
  const metadata = partIn(object, 'metadata');
  if (isEmpty(metadata['labels'])) metadata['labels'] = structuredClone(labels);
}

function isEmpty(value: unknown): boolean {
  return value == null || (typeof value === 'object' && Object.keys(value).length === 0);
}

function defaultDeployment(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'replicas', 1);
  defaultTemplate(spec);
  const strategy = partIn(spec, 'strategy');
  fill(strategy, 'type', 'RollingUpdate');
  if (strategy['type'] === 'RollingUpdate') {
    const rollingUpdate = partIn(strategy, 'rollingUpdate');
    fill(rollingUpdate, 'maxUnavailable', '25%');
    fill(rollingUpdate, 'maxSurge', '25%');
  }
  fill(spec, 'revisionHistoryLimit', 10);
  fill(spec, 'progressDeadlineSeconds', 600);
}

function defaultDaemonSet(object: Part): void {
  const spec = partIn(object, 'spec');
  defaultTemplate(spec);
  const strategy = partIn(spec, 'updateStrategy');
  fill(strategy, 'type', 'RollingUpdate');
  if (strategy['type'] === 'RollingUpdate') {
    const rollingUpdate = partIn(strategy, 'rollingUpdate');
    fill(rollingUpdate, 'maxUnavailable', 1);
    fill(rollingUpdate, 'maxSurge', 0);
  }
  fill(spec, 'revisionHistoryLimit', 10);
}

function defaultStatefulSet(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'podManagementPolicy', 'OrderedReady');
  const strategy = partIn(spec, 'updateStrategy');
  if (isEmpty(strategy['type']) || strategy['type'] === '') {
    strategy['type'] = 'RollingUpdate';
    fill(strategy, 'rollingUpdate', {});
  }
  const rollingUpdate = strategy['type'] === 'RollingUpdate' ? partAt(strategy, 'rollingUpdate') : undefined;
  if (rollingUpdate) fill(rollingUpdate, 'partition', 0);
  const retention = partIn(spec, 'persistentVolumeClaimRetentionPolicy');
  fill(retention, 'whenDeleted', 'Retain');
  fill(retention, 'whenScaled', 'Retain');
  fill(spec, 'replicas', 1);
  fill(spec, 'revisionHistoryLimit', 10);
  defaultTemplate(spec);
  for (const claim of partsAt(spec, 'volumeClaimTemplates')) fill(partIn(claim, 'spec'), 'volumeMode', 'Filesystem');
}

function defaultJob(object: Part): void {
  const spec = partIn(object, 'spec');
  if (spec['completions'] == null && spec['parallelism'] == null) fill(spec, 'completions', 1);
  fill(spec, 'parallelism', 1);
  fill(spec, 'backoffLimit', spec['backoffLimitPerIndex'] == null ? 6 : 0x7fffffff);
  const labels = partAt(partAt(partAt(spec, 'template') ?? {}, 'metadata') ?? {}, 'labels');
  const metadata = partIn(object, 'metadata');
  if (labels && isEmpty(metadata['labels'])) metadata['labels'] = structuredClone(labels);
  fill(spec, 'completionMode', 'NonIndexed');
  fill(spec, 'suspend', false);
  fill(spec, 'podReplacementPolicy', spec['podFailurePolicy'] == null ? 'TerminatingOrFailed' : 'Failed');
  fill(spec, 'manualSelector', false);
  defaultTemplate(spec);
}

function defaultCronJob(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'concurrencyPolicy', 'Allow');
  fill(spec, 'suspend', false);
  fill(spec, 'successfulJobsHistoryLimit', 3);
  fill(spec, 'failedJobsHistoryLimit', 1);
  const jobTemplate = partIn(spec, 'jobTemplate');
  fill(jobTemplate, 'metadata', {});
  defaultTemplate(partIn(jobTemplate, 'spec'));
}
