/**
 * An API server of OpenShift that runs with `--openshift-config`, the SCC CRD, and the standard SCCs with their roles.
 * It needs neither controllers nor nodes.
 */
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { POD_SCC_ANNOTATIONS } from '../../src/kube/scc.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseObject } from '../support/answers.ts';
import { createApiClient, type ApiClient } from '../support/api-client.ts';
import { readKubeconfig } from '../support/api-upstream.ts';
import { apply } from '../support/control-plane/installation.ts';
import type { Verdict, Verdicts } from './verdicts.ts';

export interface OpenShift {
  readonly admin: ApiClient;
  /** Version of the API server, such as `Kubernetes 1.36`. */
  readonly version: string;
}

export async function connectOpenShift(kubeconfig: string): Promise<OpenShift> {
  const { server, authority, client } = readKubeconfig(await readFile(kubeconfig, 'utf8'));
  const admin = createApiClient({ port: Number(new URL(server).port), authority, ...(client ? { client } : {}) });
  const { major, minor } = responseObject(await admin.send('GET', '/version'));
  return { admin, version: `Kubernetes ${String(major)}.${String(minor)}` };
}

/** Creates a namespace with the same labels and annotations as in a cluster, and its objects. */
export async function copyNamespace(
  from: ApiClient,
  to: ApiClient,
  name: string,
  objects: readonly JsonObject[],
): Promise<void> {
  const { labels, annotations } = objectMetadata(responseObject(await from.send('GET', `/api/v1/namespaces/${name}`)));
  const metadata = { name, labels, annotations } as JsonObject;
  await apply(to, [
    { apiVersion: 'v1', kind: 'Namespace', metadata },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: name } },
    ...objects,
  ]);
}

/** Returns the reason for a denial without the names of the pod and the webhook. */
const REASON = /(?:unable to validate against any security context constraint|violates PodSecurity).*/s;

/**
 * Returns the decision about a pod without the type of the subject that may use the SCC, which is a documented
 * difference.
 */
function decision({ text, pod }: Verdict): unknown {
  if (pod === undefined) return REASON.exec(text)?.[0] ?? text;
  const { [POD_SCC_ANNOTATIONS.subjectType]: _, ...annotations } = objectMetadata(pod)['annotations'] as JsonObject;
  const { securityContext, hostUsers, initContainers, containers } = pod['spec'] as JsonObject;
  const contexts = [initContainers, containers]
    .flatMap((list) => (Array.isArray(list) ? list.filter(isObject) : []))
    .map((container) => ({ name: container['name'], securityContext: container['securityContext'] }));
  return { annotations, securityContext, hostUsers, containers: contexts };
}

/** Workloads whose pods OpenShift admits or denies differently. */
export function findOpenShiftDifferences(namespace: string, cluster: Verdicts, openshift: Verdicts): readonly string[] {
  return [...cluster].flatMap(([id, verdict]) => {
    const other = openshift.get(id);
    const [real, expected] = [decision(verdict), other && decision(other)];
    if (isDeepStrictEqual(real, expected)) return [];
    return [`${namespace}: ${id}: OpenShift: ${JSON.stringify(expected)}\n  cluster: ${JSON.stringify(real)}`];
  });
}
