/** The same pod in all kinds with a pod template. */
import type { JsonObject } from '../../../src/kube/types.ts';

const LABELS = { app: 'kinds' };
const META = { labels: LABELS };
const SELECTOR = { matchLabels: LABELS };

interface Holder {
  readonly apiVersion: string;
  readonly kind: string;
  /** The fields of an object with the pod spec. */
  around(spec: JsonObject): JsonObject;
}

const JOB_POLICY = { restartPolicy: 'Never' };

/** Pod, and all kinds with a pod template. */
export const HOLDERS: readonly Holder[] = [
  { apiVersion: 'v1', kind: 'Pod', around: (spec) => ({ spec }) },
  { apiVersion: 'v1', kind: 'PodTemplate', around: (spec) => ({ template: { metadata: META, spec } }) },
  {
    apiVersion: 'v1',
    kind: 'ReplicationController',
    around: (spec) => ({ spec: { selector: LABELS, template: { metadata: META, spec } } }),
  },
  ...['Deployment', 'ReplicaSet', 'DaemonSet'].map((kind) => ({
    apiVersion: 'apps/v1',
    kind,
    around: (spec: JsonObject) => ({ spec: { selector: SELECTOR, template: { metadata: META, spec } } }),
  })),
  {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    around: (spec) => ({ spec: { serviceName: 'kinds', selector: SELECTOR, template: { metadata: META, spec } } }),
  },
  {
    apiVersion: 'batch/v1',
    kind: 'Job',
    around: (spec) => ({ spec: { template: { metadata: META, spec: { ...spec, ...JOB_POLICY } } } }),
  },
  {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    around: (spec) => ({
      spec: {
        schedule: '@hourly',
        jobTemplate: { spec: { template: { metadata: META, spec: { ...spec, ...JOB_POLICY } } } },
      },
    }),
  },
];

/** An object of a kind with a pod spec, named after the kind. */
export function objectOfKind({ apiVersion, kind, around }: Holder, namespace: string, spec: JsonObject): JsonObject {
  return { apiVersion, kind, metadata: { name: kind.toLowerCase(), namespace }, ...around(spec) };
}
