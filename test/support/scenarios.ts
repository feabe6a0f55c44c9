/** Requests with the examples in this repository, and the expected responses. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { readDocuments } from '../../src/config/yaml.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata } from './answers.ts';
import type { ApiClient, ApiResponse } from './api-client.ts';
import { create } from './control-plane/installation.ts';
import { eventually } from './eventually.ts';

/** A request from an administrator or another user. Each scenario depends on the previous scenarios. */
export interface Scenario {
  readonly name: string;
  readonly namespace: string;
  readonly as?: string;
  /** The example to create. */
  readonly create?: string;
  /** The namespace labels to change, instead of `create`. */
  readonly label?: Readonly<Record<string, string>>;
  readonly dryRun?: true;
  /** A grant of an SCC in the namespace, instead of `create`. */
  readonly grant?: { readonly scc: string; readonly user?: string; readonly serviceAccount?: string };
  /** The pod in which a command is executed, instead of `create`. */
  readonly exec?: string;
  /** The denial message, in which `RANGE` stands for the namespace's UID range. Absent if the request is allowed. */
  readonly denied?: string;
  /** HTTP status of the denial. Defaults to 403. */
  readonly code?: number;
  readonly warnings?: readonly string[];
  readonly pod?: AssignedScc;
}

/** The SCC of a created pod, the subject with permission to use it, and the user ID of the first container. */
export interface AssignedScc {
  readonly scc: string;
  readonly subject: string;
  readonly runAsUser?: number | 'from the namespace';
}

const root = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

function readFirst(path: string): unknown {
  return readDocuments(readFileSync(path, 'utf8'), path).documents[0]?.value;
}

export const POD_SECURITY = readFirst(root('test/fixtures/scenarios/pod-security.yaml')) as readonly Scenario[];
export const SCC = readFirst(root('test/fixtures/scenarios/scc.yaml')) as readonly Scenario[];

/**
 * Sends the request that kubectl would send and verifies the response. Replicas watch namespaces and pods, so they may
 * evaluate a request before they receive the change of the previous scenario. The request is therefore sent as a dry
 * run until the response is the expected one. A denied request changes nothing and is only sent as a dry run.
 */
export async function checkScenario(client: ApiClient, scenario: Scenario): Promise<void> {
  const { grant, exec, denied } = scenario;
  if (grant ?? exec) return verify(client, scenario);
  await eventually(() => verify(client, { ...scenario, dryRun: true }));
  if (denied === undefined && !scenario.dryRun) await verify(client, scenario);
}

async function verify(client: ApiClient, scenario: Scenario): Promise<void> {
  const answer = await send(client, scenario);
  const { message } = answer.body as { readonly message?: string };
  const denied = await expectedDenial(client, scenario);
  assert.equal(answer.status < 300 ? undefined : message, denied);
  if (denied !== undefined) assert.equal(answer.status, scenario.code ?? 403);
  assert.deepEqual(
    answer.warnings,
    (scenario.warnings ?? []).map((text) => `299 - ${JSON.stringify(text)}`),
  );
  if (scenario.pod) assert.deepEqual(await readAssignedScc(client, answer), scenario.pod);
}

function send(client: ApiClient, scenario: Scenario): Promise<ApiResponse> {
  const { namespace, as, create: example, label, dryRun, grant, exec } = scenario;
  const headers: Record<string, string> = as === undefined ? {} : { 'Impersonate-User': as };
  const query = dryRun ? '?dryRun=All' : '';
  const path = `/api/v1/namespaces/${namespace}`;
  if (exec !== undefined) return client.send('POST', `${path}/pods/${exec}/exec?command=sh`, undefined, headers);
  if (label) {
    const patch = { ...headers, 'Content-Type': 'application/merge-patch+json' };
    return client.send('PATCH', `${path}${query}`, { metadata: { labels: label } }, patch);
  }
  if (grant) return create(client, buildBinding(grant, namespace), headers);
  const object = readFirst(examplePath(example)) as JsonObject;
  const isNamespaced = object['kind'] !== 'SecurityContextConstraints';
  return create(
    client,
    isNamespaced ? { ...object, metadata: { ...objectMetadata(object), namespace } } : object,
    headers,
    query,
  );
}

function examplePath(example = ''): string {
  return root(`examples/${example}.yaml`);
}

function buildBinding({ scc, user, serviceAccount }: NonNullable<Scenario['grant']>, namespace: string): JsonObject {
  const apiGroup = 'rbac.authorization.k8s.io';
  return {
    apiVersion: `${apiGroup}/v1`,
    kind: 'RoleBinding',
    metadata: { name: `${user ?? serviceAccount ?? ''}-${scc}`, namespace },
    roleRef: { apiGroup, kind: 'ClusterRole', name: `system:openshift:scc:${scc}` },
    subjects: [
      user === undefined
        ? { kind: 'ServiceAccount', name: serviceAccount, namespace }
        : { apiGroup, kind: 'User', name: user },
    ],
  };
}

/** Returns the kubectl arguments for the same request. */
export function kubectlArguments({ namespace, as, ...scenario }: Scenario): readonly string[] {
  const { create: example, label, dryRun, grant, exec } = scenario;
  const common = ['-n', namespace, ...(dryRun ? ['--dry-run=server'] : []), ...(as === undefined ? [] : ['--as', as])];
  if (exec !== undefined) return ['exec', exec, ...common, '--', 'sh'];
  if (example !== undefined) return ['create', '-f', examplePath(example), ...common];
  if (label) {
    const labels = Object.entries(label).map(([key, value]) => `${key}=${value}`);
    return ['label', '--overwrite', 'namespace', namespace, ...labels, ...common.slice(2)];
  }
  const { scc = '', user, serviceAccount } = grant ?? {};
  const subject = user === undefined ? `--serviceaccount=${namespace}:${serviceAccount ?? ''}` : `--user=${user}`;
  const name = `${user ?? serviceAccount ?? ''}-${scc}`;
  return ['create', 'rolebinding', name, `--clusterrole=system:openshift:scc:${scc}`, subject, ...common];
}

/** Returns the message of the expected denial, or `undefined` if the request is allowed. */
export async function expectedDenial(client: ApiClient, { denied, namespace }: Scenario): Promise<string | undefined> {
  if (denied?.includes('RANGE') !== true) return denied;
  return denied.replaceAll('RANGE', `[${(await readRange(client, namespace)).join(', ')}]`);
}

interface CreatedPod {
  readonly metadata: { readonly namespace: string; readonly annotations: Readonly<Record<string, string>> };
  readonly spec: { readonly containers: readonly [{ readonly securityContext?: { readonly runAsUser?: number } }] };
}

export async function readAssignedScc(client: ApiClient, { body }: ApiResponse): Promise<AssignedScc> {
  const { metadata, spec } = body as CreatedPod;
  const runAsUser = spec.containers[0].securityContext?.runAsUser;
  const [first] = await readRange(client, metadata.namespace);
  return {
    scc: metadata.annotations['openshift.io/scc'] ?? '',
    subject: metadata.annotations['security.openshift.io/validated-scc-subject-type'] ?? '',
    ...(runAsUser === undefined ? {} : { runAsUser: runAsUser === first ? 'from the namespace' : runAsUser }),
  };
}

/** Returns the first and the last user ID of a namespace. */
async function readRange(client: ApiClient, namespace: string): Promise<readonly number[]> {
  const { body } = await client.send('GET', `/api/v1/namespaces/${namespace}`);
  const { annotations } = objectMetadata(body as JsonObject) as {
    readonly annotations: Readonly<Record<string, string>>;
  };
  const [start = 0, size = 0] = (annotations['openshift.io/sa.scc.uid-range'] ?? '').split('/').map(Number);
  return [start, start + size - 1];
}
