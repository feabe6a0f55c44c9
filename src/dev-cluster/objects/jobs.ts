import { semanticEqual } from '../../kube/equality.ts';
import { invalidValue, notSupported, requiredField, type FieldError } from '../../kube/field-error.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { nonNegative } from './errors.ts';
import { SUBDOMAIN } from './metadata.ts';
import { objectAt, textAt } from './read.ts';
import type { KindRules } from './strategy.ts';
import { templateErrors, warningsOf } from './template.ts';

const MAX_CRON_JOB_NAME = 52;

/**
 * Jobs and what makes them on a schedule.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/batch/validation/validation.go
 */
export const batchRules: Readonly<Record<string, KindRules>> = {
  'batch/Job': {
    namespaced: true,
    generation: 'counted',
    initialStatus: () => ({}),
    prepareForCreate: labelPods,
    validate: (job) => jobSpecErrors(objectAt(job, 'spec'), 'spec'),
    validateUpdate: (job, old, subresource) => (subresource === '' ? jobChange(job, old) : []),
    warnings: (job) => warningsOf('batch', 'Job', job),
  },
  'batch/CronJob': {
    namespaced: true,
    generation: 'counted',
    nameErrors: (name) => [
      ...SUBDOMAIN(name),
      ...(name.length > MAX_CRON_JOB_NAME ? [`must be no more than ${MAX_CRON_JOB_NAME} characters`] : []),
    ],
    initialStatus: () => ({}),
    validate: cronJobErrors,
    warnings: (cronJob) => warningsOf('batch', 'CronJob', cronJob),
  },
};

/** The pods of a job bear its name and UID, and are found by the latter, unless the job has a selector of its own. */
function labelPods(job: ApiObject): void {
  const spec = objectAt(job, 'spec') as Record<string, unknown>;
  if (spec['manualSelector'] === true) return;
  const [uid, name] = [textAt(job.metadata, 'uid'), textAt(job.metadata, 'name')];
  const template = objectAt(spec, 'template');
  const metadata = objectAt(template, 'metadata');
  const labels = {
    'batch.kubernetes.io/controller-uid': uid,
    'batch.kubernetes.io/job-name': name,
    'controller-uid': uid,
    'job-name': name,
  };
  spec['template'] = { ...template, metadata: { ...metadata, labels: { ...objectAt(metadata, 'labels'), ...labels } } };
  spec['selector'] ??= { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } };
}

function jobSpecErrors(spec: JsonObject, path: string): FieldError[] {
  const template = objectAt(spec, 'template');
  const policy = textAt(objectAt(template, 'spec'), 'restartPolicy');
  const at = `${path}.template.spec.restartPolicy`;
  const counts = ['parallelism', 'completions', 'backoffLimit', 'ttlSecondsAfterFinished', 'activeDeadlineSeconds'];
  return [
    ...counts.flatMap((field) => nonNegative(`${path}.${field}`, spec[field])),
    ...templateErrors(template, `${path}.template`),
    ...(policy === 'Always' || policy === '' ? [requiredField(at, 'valid values: "OnFailure", "Never"')] : []),
    ...(['', 'Always', 'OnFailure', 'Never'].includes(policy)
      ? []
      : [notSupported(at, policy, ['OnFailure', 'Never'])]),
  ];
}

function jobChange(job: ApiObject, old: ApiObject): FieldError[] {
  const [spec, before] = [objectAt(job, 'spec'), objectAt(old, 'spec')];
  return ['selector', 'template', 'completionMode']
    .filter((field) => !semanticEqual(spec[field], before[field]))
    .map((field) => invalidValue(`spec.${field}`, spec[field] ?? null, 'field is immutable'));
}

function cronJobErrors(cronJob: ApiObject): FieldError[] {
  const spec = objectAt(cronJob, 'spec');
  const schedule = textAt(spec, 'schedule');
  const policy = textAt(spec, 'concurrencyPolicy');
  const policies = ['Allow', 'Forbid', 'Replace'];
  const limits = ['startingDeadlineSeconds', 'successfulJobsHistoryLimit', 'failedJobsHistoryLimit'];
  return [
    ...(schedule === '' ? [requiredField('spec.schedule', '')] : scheduleErrors(schedule)),
    ...limits.flatMap((field) => nonNegative(`spec.${field}`, spec[field])),
    ...(policies.includes(policy) ? [] : [notSupported('spec.concurrencyPolicy', policy, policies)]),
    ...jobSpecErrors(objectAt(objectAt(spec, 'jobTemplate'), 'spec'), 'spec.jobTemplate.spec'),
  ];
}

const SHORTHANDS = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)$/;
const FIELDS = 5;

/** Only the form is checked: nothing here runs on a schedule. */
function scheduleErrors(schedule: string): FieldError[] {
  if (schedule.startsWith('@')) {
    return SHORTHANDS.test(schedule)
      ? []
      : [invalidValue('spec.schedule', schedule, `unrecognized descriptor: ${schedule}`)];
  }
  const fields = schedule.trim().split(/\s+/);
  if (fields.length === FIELDS) return [];
  const found = `expected exactly ${FIELDS} fields, found ${fields.length}: [${fields.join(' ')}]`;
  return [invalidValue('spec.schedule', schedule, found)];
}
