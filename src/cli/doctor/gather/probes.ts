/**
 * Dry runs that make the API server ask our webhooks: nothing is stored, and what it answers shows whether it reached
 * them.
 */
import type { Connection } from '../../../cluster/connect.ts';
import { UserError } from '../../../config/user-error.ts';
import { ApiError } from '../../../kube/status.ts';
import { POD_SECURITY_LABELS } from '../../../kube/well-known.ts';
import { collectionPath, type AnyObject } from '../../installation/resource.ts';
import type { Configuration } from '../../installation/own-webhooks.ts';
import { tierOf, type Tier } from '../matching.ts';
import type { NamespaceFact, Probe, ProbeRequest } from '../types.ts';

const NAME = 'portcullis-doctor';
const IMAGE = 'registry.k8s.io/pause:3.10';

interface ProbePlan {
  readonly installation: string;
  readonly configurations: readonly Configuration[];
  readonly namespaces: readonly NamespaceFact[];
  readonly groups: readonly string[];
}

/** One request for each thing that webhooks are asked about, and for each tier of namespaces. */
export function planProbes({ installation, configurations, namespaces, groups }: ProbePlan): readonly ProbeRequest[] {
  const byTier = Map.groupBy(namespaces, (namespace) => tierOf(configurations, namespace));
  const own = namespaces.find(({ name }) => name === installation);
  const tiers: readonly Tier[] = ['fail-closed', 'fail-open'];
  const chosen = [...tiers.flatMap((tier) => choose(byTier.get(tier) ?? [])), ...(own ? [own] : [])];
  return [
    { id: 'namespace', group: '', resource: 'namespaces', body: probe('v1', 'Namespace', {}) },
    ...chosen.map((namespace) => podProbe('pod', namespace, HARMLESS)),
    ...(own && isJudged(own) ? [podProbe('violating pod', own, VIOLATING)] : []),
    ...(groups.includes('security.openshift.io') ? [SCC] : []),
  ];
}

/** One namespace of a tier: rather one that says its level, and rather `default` than one that some tool minds. */
function choose(namespaces: readonly NamespaceFact[]): readonly NamespaceFact[] {
  const found = namespaces.find(({ name }) => name === 'default') ?? namespaces.find(isJudged) ?? namespaces[0];
  return found ? [found] : [];
}

function isJudged({ labels }: NamespaceFact): boolean {
  const level = labels[POD_SECURITY_LABELS.enforce];
  return level === 'baseline' || level === 'restricted';
}

/** Violates no level. */
const HARMLESS = {
  automountServiceAccountToken: false,
  securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    {
      name: 'pause',
      image: IMAGE,
      resources: { requests: { cpu: '1m', memory: '1Mi' }, limits: { cpu: '1m', memory: '1Mi' } },
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    },
  ],
};

/** Violates every level but privileged. */
const VIOLATING = { ...HARMLESS, hostPID: true };

const SCC: ProbeRequest = {
  id: 'scc',
  group: 'security.openshift.io',
  resource: 'securitycontextconstraints',
  body: probe('security.openshift.io/v1', 'SecurityContextConstraints', {
    runAsUser: { type: 'MustRunAsNonRoot' },
    seLinuxContext: { type: 'RunAsAny' },
    fsGroup: { type: 'RunAsAny' },
    supplementalGroups: { type: 'RunAsAny' },
    allowHostDirVolumePlugin: false,
    allowHostIPC: false,
    allowHostNetwork: false,
    allowHostPID: false,
    allowHostPorts: false,
    allowPrivilegedContainer: false,
    readOnlyRootFilesystem: true,
    allowedCapabilities: [],
    defaultAddCapabilities: [],
    requiredDropCapabilities: ['ALL'],
    volumes: ['emptyDir'],
    priority: 0,
  }),
};

function podProbe(id: ProbeRequest['id'], namespace: NamespaceFact, spec: object): ProbeRequest {
  return { id, namespace, group: '', resource: 'pods', body: probe('v1', 'Pod', { spec }) };
}

function probe(apiVersion: string, kind: string, content: object): object {
  return { apiVersion, kind, metadata: { generateName: `${NAME}-` }, ...content };
}

/** Sends a request as a dry run. */
export async function runProbe(connection: Connection, request: ProbeRequest, signal: AbortSignal): Promise<Probe> {
  const path = collectionPath({ ...request, version: 'v1' }, request.namespace?.name);
  const { body } = request;
  try {
    const object = await connection.request({ method: 'POST', path, query: { dryRun: 'All' }, body, signal });
    return { ...request, object: object as unknown as AnyObject };
  } catch (error) {
    // A server that waits too long for webhooks has answered before, and will again.
    if (!(error instanceof ApiError || error instanceof UserError)) throw error;
    return { ...request, refusal: error.message };
  }
}
