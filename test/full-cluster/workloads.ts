/** Builds workloads of every built-in kind, and finds their pods in the cluster. */
import assert from 'node:assert/strict';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseItems } from '../support/answers.ts';
import type { ApiClient } from '../support/api-client.ts';

export interface Workload {
  readonly kind: string;
  readonly path: string;
  /** The number of pods that the controller creates in a cluster with the given number of zones and nodes. */
  readonly object: JsonObject;
}

type Template = JsonObject;

const GROUPS: Readonly<Record<string, string>> = {
  Deployment: 'apps/v1',
  StatefulSet: 'apps/v1',
  DaemonSet: 'apps/v1',
  ReplicaSet: 'apps/v1',
  ReplicationController: 'v1',
  Job: 'batch/v1',
  CronJob: 'batch/v1',
};

export const KINDS = Object.keys(GROUPS);

/** A pod spec that complies with the restricted level, and that the restricted-v2 SCC admits. */
export const COMPLIANT: JsonObject = {
  securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    {
      name: 'c',
      image: 'registry.example.com/c:1',
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    },
  ],
};

/** A pod spec without security contexts, which complies with the baseline level. */
export const PLAIN: JsonObject = { containers: [{ name: 'c', image: 'registry.example.com/c:1' }] };

/** A pod spec that violates the baseline level. */
export const HOST_NETWORK: JsonObject = { ...PLAIN, hostNetwork: true };

/** Impersonates the user that creates the pods of a ReplicaSet. */
export const CONTROLLER = { 'Impersonate-User': 'system:serviceaccount:kube-system:replicaset-controller' };

/** Builds a workload whose pods have the label `app` with its name. */
export function workload(kind: string, name: string, namespace: string, spec: JsonObject, replicas = 3): JsonObject {
  const labels = { app: name };
  const template: Template = { metadata: { labels }, spec };
  const job: Template = { metadata: { labels }, spec: { ...spec, restartPolicy: 'Never' } };
  const selector = { matchLabels: labels };
  const specs: Readonly<Record<string, JsonObject>> = {
    Deployment: { replicas, selector, template },
    ReplicaSet: { replicas, selector, template },
    ReplicationController: { replicas, selector: labels, template },
    StatefulSet: { replicas, serviceName: name, selector, template, podManagementPolicy: 'Parallel' },
    DaemonSet: {
      selector,
      template: { ...template, spec: { ...spec, nodeSelector: { 'topology.kubernetes.io/zone': 'zone-0' } } },
    },
    Job: { completions: replicas, parallelism: replicas, template: job },
    CronJob: { schedule: '* * * * *', jobTemplate: { spec: { completions: 1, template: job } } },
  };
  return { apiVersion: GROUPS[kind] ?? '', kind, metadata: { name, namespace, labels }, spec: specs[kind] ?? {} };
}

export function workloadPath(object: JsonObject): string {
  const apiVersion = String(object['apiVersion']);
  const { name, namespace } = objectMetadata(object);
  const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  return `${base}/namespaces/${String(namespace)}/${String(object['kind']).toLowerCase()}s/${String(name)}`;
}

export async function listPods(admin: ApiClient, namespace: string, app?: string): Promise<readonly JsonObject[]> {
  const query = app === undefined ? '' : `?labelSelector=${encodeURIComponent(`app=${app}`)}`;
  return responseItems(await admin.send('GET', `/api/v1/namespaces/${namespace}/pods${query}`));
}

/** Returns true if the pod is assigned to a node and runs or has completed. */
export function isRunning(pod: JsonObject): boolean {
  const { status } = pod;
  return isObject(status) && ['Running', 'Succeeded'].includes(String(status['phase']));
}

/** Waits until the given number of pods run. */
export async function assertRunning(admin: ApiClient, namespace: string, app: string, count: number): Promise<void> {
  const pods = await listPods(admin, namespace, app);
  assert.equal(pods.filter(isRunning).length, count, `${app}: ${pods.length} pods`);
}

/** Returns the messages of events with the given reason and for objects with the given name prefix. */
export async function eventMessages(
  admin: ApiClient,
  namespace: string,
  reason: string,
  prefix: string,
): Promise<readonly string[]> {
  const events = responseItems(
    await admin.send('GET', `/api/v1/namespaces/${namespace}/events?fieldSelector=reason=${reason}`),
  );
  return events
    .filter(({ involvedObject }) => isObject(involvedObject) && String(involvedObject['name']).startsWith(prefix))
    .map(({ message }) => String(message));
}
