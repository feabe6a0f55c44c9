/** Pod Security requests with the examples of this repository. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { readDocuments } from '../../../src/config/yaml.ts';
import type { ApiResponse, ApiClient } from '../api-client.ts';

const PODS = fileURLToPath(new URL('../../../examples/pods/', import.meta.url));

const PRIVILEGED = 'privileged (container "debug" must not set securityContext.privileged=true)';
const UNRESTRICTED = (container: string): string =>
  [
    `allowPrivilegeEscalation != false (container "${container}" must set securityContext.allowPrivilegeEscalation=false)`,
    `unrestricted capabilities (container "${container}" must set securityContext.capabilities.drop=["ALL"])`,
  ].join(', ');
const UNSPECIFIED = (container: string): string =>
  [
    `runAsNonRoot != true (pod or container "${container}" must set securityContext.runAsNonRoot=true)`,
    `seccompProfile (pod or container "${container}" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
  ].join(', ');

/** A request and its expected response. */
export interface PodSecurityScenario {
  readonly name: string;
  /** The example to create. */
  readonly create?: string;
  /** Or the labels to change on the namespace. */
  readonly label?: Readonly<Record<string, string | null>>;
  readonly namespace: string;
  readonly dryRun?: true;
  readonly as?: string;
  /** The message of the denial. Absent if the request is allowed. */
  readonly denied?: string;
  /** The HTTP status of the denial. Default: 403. */
  readonly code?: number;
  readonly warnings?: readonly string[];
}

const HOOK = 'admission webhook "psa.portcullis.dev" denied the request: ';

/** Each scenario depends on the previous ones. */
export const POD_SECURITY_SCENARIOS: readonly PodSecurityScenario[] = [
  {
    name: 'a privileged pod in a baseline namespace',
    create: 'privileged',
    namespace: 'baseline',
    denied: `${HOOK}pods "privileged" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true), ${PRIVILEGED}`,
  },
  {
    name: 'a privileged pod in a restricted namespace',
    create: 'privileged',
    namespace: 'restricted',
    denied: `${HOOK}pods "privileged" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostPID=true), ${PRIVILEGED}, ${UNRESTRICTED('debug')}, ${UNSPECIFIED('debug')}`,
  },
  { name: 'a privileged pod in a privileged namespace', create: 'privileged', namespace: 'privileged' },
  {
    name: 'a plain pod in a restricted namespace',
    create: 'baseline',
    namespace: 'restricted',
    denied: `${HOOK}pods "baseline" is forbidden: violates PodSecurity "restricted:latest": ${UNRESTRICTED('web')}, ${UNSPECIFIED('web')}`,
  },
  {
    name: 'a plain pod in a namespace that warns about restricted',
    create: 'baseline',
    namespace: 'warned',
    warnings: [`would violate PodSecurity "restricted:latest": ${UNRESTRICTED('web')}, ${UNSPECIFIED('web')}`],
  },
  { name: 'a plain pod in a namespace that audits restricted', create: 'baseline', namespace: 'audited' },
  { name: 'a restricted pod', create: 'restricted', namespace: 'restricted' },
  {
    name: 'a pod with hostNetwork, at a pinned version',
    create: 'host-network',
    namespace: 'shop',
    denied: `${HOOK}pods "host-network" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostNetwork=true), hostPort (container "proxy" uses hostPort 80)`,
  },
  {
    name: 'a Deployment causes a warning',
    create: 'deployment',
    namespace: 'restricted',
    warnings: [
      `would violate PodSecurity "restricted:latest": ${UNRESTRICTED('agent')}, restricted volume types (volume "logs" uses restricted volume type "hostPath"), ${UNSPECIFIED('agent')}`,
    ],
  },
  {
    name: 'a user with permissions in the namespace is denied by the policy',
    create: 'privileged',
    namespace: 'shop',
    as: 'alice',
    denied: `${HOOK}pods "privileged" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostPID=true), ${PRIVILEGED}`,
  },
  {
    name: 'a user without permissions is denied by RBAC',
    create: 'privileged',
    namespace: 'legacy',
    as: 'alice',
    denied: 'pods is forbidden: User "alice" cannot create resource "pods" in API group "" in the namespace "legacy"',
  },
  {
    name: 'a dry run of a label reports violating pods',
    label: { 'pod-security.kubernetes.io/enforce': 'baseline' },
    namespace: 'legacy',
    dryRun: true,
    warnings: [
      'existing pods in namespace "legacy" violate the new PodSecurity enforce level "baseline:latest"',
      'backup: hostPath volumes',
      'proxy-1 (and 1 other pod): host namespaces, hostPort',
    ],
  },
  {
    name: 'a level that does not exist',
    label: { 'pod-security.kubernetes.io/enforce': 'strict' },
    namespace: 'legacy',
    code: 422,
    denied: `${HOOK}Namespace "legacy" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted`,
  },
  {
    name: 'the dry run changed nothing',
    create: 'host-network',
    namespace: 'legacy',
  },
  {
    name: 'a label reports violating pods',
    label: { 'pod-security.kubernetes.io/enforce': 'baseline' },
    namespace: 'legacy',
    warnings: [
      'existing pods in namespace "legacy" violate the new PodSecurity enforce level "baseline:latest"',
      'backup: hostPath volumes',
      'host-network (and 2 other pods): host namespaces, hostPort',
    ],
  },
  {
    name: 'later pods are denied',
    create: 'privileged',
    namespace: 'legacy',
    denied: `${HOOK}pods "privileged" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true), ${PRIVILEGED}`,
  },
];

/** Sends the request that kubectl would send and verifies the response. */
export async function checkScenario(client: ApiClient, scenario: PodSecurityScenario): Promise<void> {
  const answer = await sendScenario(client, scenario);
  const { message } = answer.body as { readonly message?: string };
  assert.equal(answer.status < 300 ? undefined : message, scenario.denied);
  if (scenario.denied !== undefined) assert.equal(answer.status, scenario.code ?? 403);
  assert.deepEqual(
    answer.warnings,
    (scenario.warnings ?? []).map((text) => `299 - ${JSON.stringify(text)}`),
  );
}

async function sendScenario(
  client: ApiClient,
  { create, label, namespace, dryRun, as }: PodSecurityScenario,
): Promise<ApiResponse> {
  const query = dryRun ? '?dryRun=All' : '';
  const headers: Record<string, string> = as === undefined ? {} : { 'Impersonate-User': as };
  if (create === undefined) {
    return client.send(
      'PATCH',
      `/api/v1/namespaces/${namespace}${query}`,
      { metadata: { labels: label } },
      {
        ...headers,
        'Content-Type': 'application/merge-patch+json',
      },
    );
  }
  const file = `${PODS}${create}.yaml`;
  const object = readDocuments(await readFile(file, 'utf8'), file).documents[0]?.value as { readonly kind: string };
  const path = object.kind === 'Pod' ? '/api/v1/namespaces' : '/apis/apps/v1/namespaces';
  const resource = object.kind === 'Pod' ? 'pods' : 'deployments';
  return client.send('POST', `${path}/${namespace}/${resource}${query}`, object, headers);
}

/** The command line of kubectl. */
export function argumentsOf({ create, label, namespace, dryRun, as }: PodSecurityScenario): string[] {
  const common = [...(dryRun ? ['--dry-run=server'] : []), ...(as === undefined ? [] : ['--as', as])];
  if (create !== undefined) return ['create', '-n', namespace, '-f', `${PODS}${create}.yaml`, ...common];
  const labels = Object.entries(label ?? {}).map(([key, value]) => (value === null ? `${key}-` : `${key}=${value}`));
  return ['label', 'namespace', namespace, ...labels, ...common];
}

/** kubectl formats errors about invalid objects itself: kind and name, then the causes. */
export function kubectlText({ denied = '', code }: PodSecurityScenario): string {
  return code === 422 ? denied.slice(denied.indexOf('is invalid: ')) : denied;
}
