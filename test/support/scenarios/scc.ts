/** SCC requests with the examples of this repository and users that are not administrators. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { readDocuments } from '../../../src/config/yaml.ts';
import type { ApiResponse, ApiClient } from '../api-client.ts';

const EXAMPLES = fileURLToPath(new URL('../../../examples/scc/', import.meta.url));
const NAMESPACE = 'payments';

/** A request in the namespace `payments` and its expected response. */
export interface SccStep {
  readonly name: string;
  readonly as?: string;
  /** The example to create: a pod or an SCC. */
  readonly create?: string;
  /** Or a grant of an SCC in the namespace. */
  readonly grant?: { readonly scc: string; readonly user?: string; readonly serviceAccount?: string };
  /** Or the pod to execute a command in. */
  readonly exec?: string;
  /** The message of the denial. Absent if the request is allowed. */
  readonly denied?: string;
  readonly code?: number;
  readonly warnings?: readonly string[];
  /** The SCC of the created pod, the subject that may use it, and the user ID of the first container. */
  readonly pod?: { readonly scc: string; readonly subject: string; readonly runAsUser?: number | 'from the namespace' };
}

const UNABLE = 'unable to validate against any security context constraint: ';
const MUTATE = `admission webhook "mutate.scc.portcullis.dev" denied the request: ${UNABLE}`;
const EXEC = 'admission webhook "exec.scc.portcullis.dev" denied the request: ';
const UNUSABLE = (...names: readonly string[]): string =>
  names.map((name) => `provider "${name}": Forbidden: not usable by user or serviceaccount`).join(', ');
const REST = UNUSABLE(
  'restricted',
  'nested-container',
  'nonroot-v2',
  'nonroot',
  'hostmount-anyuid',
  'hostmount-anyuid-v2',
  'hostnetwork-v2',
  'hostnetwork',
  'hostaccess',
  'privileged',
);
const GRANTABLE = (scc: string): string =>
  `SCC "${scc}" would admit the pod if service account "default" were granted its use: bind ClusterRole "system:openshift:scc:${scc}".`;
const NO_USER_NAMESPACE = '.spec.hostUsers: Invalid value: null: Host Users must be set to false';
const NO_HOST_PID = 'Invalid value: true: Host PID is not allowed to be used';

/** Each step depends on the previous ones. `RANGE` is replaced with the range of the namespace. */
export const SCC_STEPS: readonly SccStep[] = [
  {
    name: 'a pod without a security context gets restricted-v2',
    as: 'alice',
    create: 'web',
    pod: { scc: 'restricted-v2', subject: 'serviceaccount', runAsUser: 'from the namespace' },
  },
  {
    name: 'a root pod is denied with suggestions',
    as: 'alice',
    create: 'root',
    denied: `${MUTATE}[${UNUSABLE('anyuid')}, provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: RANGE, provider restricted-v3: ${NO_USER_NAMESPACE}, provider restricted-v3: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000, 65534], ${REST}]`,
    warnings: [
      'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
      GRANTABLE('anyuid'),
    ],
  },
  { name: 'a service account is granted anyuid', grant: { scc: 'anyuid', serviceAccount: 'legacy' } },
  {
    name: 'a pod of the service account is admitted for every creator',
    as: 'alice',
    create: 'legacy',
    pod: { scc: 'anyuid', subject: 'serviceaccount', runAsUser: 0 },
  },
  { name: 'a user is granted anyuid', grant: { scc: 'anyuid', user: 'bob' } },
  {
    name: 'a pod of the user is admitted with a warning',
    as: 'bob',
    create: 'root',
    pod: { scc: 'anyuid', subject: 'user', runAsUser: 0 },
    warnings: [
      'SCC "anyuid" admits the pod only because its creator may use it. Service account "default" may not use it, so such pods fail when a controller creates them.',
    ],
  },
  {
    name: 'a pod that requires one SCC is denied with the errors of this SCC only',
    as: 'bob',
    create: 'pinned',
    denied: `${MUTATE}provider restricted-v2: .containers[0].runAsUser: Invalid value: 1000: must be in the ranges: RANGE`,
    warnings: [
      'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=1000.',
    ],
  },
  {
    name: 'a pod with a user namespace may use any user ID',
    as: 'alice',
    create: 'user-namespace',
    pod: { scc: 'restricted-v3', subject: 'serviceaccount', runAsUser: 1000 },
  },
  {
    name: 'a pod with hostNetwork is denied',
    as: 'alice',
    create: 'host-network',
    denied: `${MUTATE}[${UNUSABLE('anyuid')}, ${hostNetworkErrors('restricted-v2')}, ${hostNetworkErrors('restricted-v3', NO_USER_NAMESPACE)}, ${REST}]`,
    warnings: [
      'The closest usable SCC is "restricted-v2". It does not allow: spec.hostNetwork=true, spec.containers[0].ports[0].hostPort=80.',
      GRANTABLE('hostnetwork-v2'),
    ],
  },
  {
    name: 'an administrator may create a privileged pod',
    create: 'privileged',
    pod: { scc: 'privileged', subject: 'user' },
    warnings: [
      'SCC "privileged" admits the pod only because its creator may use it. Service account "default" may not use it, so such pods fail when a controller creates them.',
    ],
  },
  {
    name: 'exec is denied for a pod that the user could not create',
    as: 'alice',
    exec: 'debug',
    denied: `${EXEC}exec operation is not allowed because the pod's security context exceeds your permissions: pods "debug" is forbidden: ${UNABLE}[${UNUSABLE('anyuid')}, ${privilegedErrors('restricted-v2')}, ${privilegedErrors('restricted-v3', NO_USER_NAMESPACE)}, ${REST}]`,
    warnings: [
      'The closest usable SCC is "restricted-v2". It does not allow: spec.hostPID=true, spec.containers[0].securityContext.privileged=true.',
      GRANTABLE('privileged'),
    ],
  },
  {
    name: 'exec into a pod of the user reaches the kubelet',
    as: 'alice',
    exec: 'web',
    code: 400,
    denied: 'pod web does not have a host assigned',
  },
  { name: 'a short SCC is completed', create: 'web-scc' },
];

function hostNetworkErrors(scc: string, more?: string): string {
  const network = 'Invalid value: true: Host network is not allowed to be used';
  const ofPod = [`.spec.hostNetwork: ${network}`, ...(more === undefined ? [] : [more])];
  const ofContainer = [
    `.containers[0].hostNetwork: ${network}`,
    '.containers[0].containers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used',
  ];
  return [...ofPod, ...ofContainer].map((error) => `provider ${scc}: ${error}`).join(', ');
}

function privilegedErrors(scc: string, more?: string): string {
  const ofPod = [`.spec.hostPID: ${NO_HOST_PID}`, ...(more === undefined ? [] : [more])];
  const ofContainer = [
    '.containers[0].privileged: Invalid value: true: Privileged containers are not allowed',
    `.containers[0].hostPID: ${NO_HOST_PID}`,
  ];
  return [...ofPod, ...ofContainer].map((error) => `provider ${scc}: ${error}`).join(', ');
}

/** Sends the request that kubectl would send and verifies the response. */
export async function checkStep(client: ApiClient, step: SccStep): Promise<void> {
  const answer = await sendStep(client, step);
  const { message } = answer.body as { readonly message?: string };
  const denied = step.denied?.replaceAll('RANGE', await rangeOf(client));
  assert.equal(answer.status < 300 ? undefined : message, denied);
  if (denied !== undefined) assert.equal(answer.status, step.code ?? 403);
  assert.deepEqual(answer.warnings, (step.warnings ?? []).map(warningHeader));
  if (step.pod) assert.deepEqual(await summaryOf(client, answer), step.pod);
}

async function sendStep(client: ApiClient, { as, create, grant, exec }: SccStep): Promise<ApiResponse> {
  const headers: Record<string, string> = as === undefined ? {} : { 'Impersonate-User': as };
  const namespace = `/api/v1/namespaces/${NAMESPACE}`;
  if (exec !== undefined) return client.send('POST', `${namespace}/pods/${exec}/exec?command=sh`, undefined, headers);
  if (grant) {
    const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${NAMESPACE}/rolebindings`;
    return client.send('POST', path, bindingOf(grant), headers);
  }
  const file = `${EXAMPLES}${create ?? ''}.yaml`;
  const object = readDocuments(await readFile(file, 'utf8'), file).documents[0]?.value as { readonly kind: string };
  const sccs = '/apis/security.openshift.io/v1/securitycontextconstraints';
  return client.send('POST', object.kind === 'Pod' ? `${namespace}/pods` : sccs, object, headers);
}

function bindingOf({ scc, user, serviceAccount }: NonNullable<SccStep['grant']>): object {
  const apiGroup = 'rbac.authorization.k8s.io';
  return {
    apiVersion: `${apiGroup}/v1`,
    kind: 'RoleBinding',
    metadata: { name: `${user ?? serviceAccount ?? ''}-${scc}` },
    roleRef: { apiGroup, kind: 'ClusterRole', name: `system:openshift:scc:${scc}` },
    subjects: [
      user === undefined
        ? { kind: 'ServiceAccount', name: serviceAccount, namespace: NAMESPACE }
        : { apiGroup, kind: 'User', name: user },
    ],
  };
}

/** The command line of kubectl. */
export function argumentsOf({ as, create, grant, exec }: SccStep): string[] {
  const common = ['-n', NAMESPACE, ...(as === undefined ? [] : ['--as', as])];
  if (exec !== undefined) return ['exec', exec, ...common, '--', 'sh'];
  if (create !== undefined) return ['create', '-f', `${EXAMPLES}${create}.yaml`, ...common];
  const { scc = '', user, serviceAccount } = grant ?? {};
  const subject = user === undefined ? `--serviceaccount=${NAMESPACE}:${serviceAccount ?? ''}` : `--user=${user}`;
  const name = `${user ?? serviceAccount ?? ''}-${scc}`;
  return ['create', 'rolebinding', name, `--clusterrole=system:openshift:scc:${scc}`, subject, ...common];
}

interface CreatedPod {
  readonly metadata: { readonly namespace: string; readonly annotations: Readonly<Record<string, string>> };
  readonly spec: { readonly containers: readonly [{ readonly securityContext?: { readonly runAsUser?: number } }] };
}

/** The SCC, the subject and the user of a created pod. */
export async function summaryOf(client: ApiClient, { body }: ApiResponse): Promise<SccStep['pod']> {
  const { metadata, spec } = body as CreatedPod;
  const runAsUser = spec.containers[0].securityContext?.runAsUser;
  const [first] = await boundsOf(client, metadata.namespace);
  return {
    scc: metadata.annotations['openshift.io/scc'] ?? '',
    subject: metadata.annotations['security.openshift.io/validated-scc-subject-type'] ?? '',
    ...(runAsUser === undefined ? {} : { runAsUser: runAsUser === first ? 'from the namespace' : runAsUser }),
  };
}

/** The range of a namespace in the notation of messages. */
export async function rangeOf(client: ApiClient, namespace = NAMESPACE): Promise<string> {
  return `[${(await boundsOf(client, namespace)).join(', ')}]`;
}

async function boundsOf(client: ApiClient, namespace: string): Promise<readonly number[]> {
  const { body } = await client.send('GET', `/api/v1/namespaces/${namespace}`);
  const { annotations } = (body as { readonly metadata: { readonly annotations: Readonly<Record<string, string>> } })
    .metadata;
  const [start = 0, size = 0] = (annotations['openshift.io/sa.scc.uid-range'] ?? '').split('/').map(Number);
  return [start, start + size - 1];
}

function warningHeader(text: string): string {
  return `299 - ${JSON.stringify(text)}`;
}
