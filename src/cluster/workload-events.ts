/** Events about workloads whose pods are denied or would be denied under enforcement. */
import { defined } from '../kube/defined.ts';
import { hasFinished } from '../kube/pod.ts';
import { getApiVersion } from '../kube/resources.ts';
import type { KubeObject, Pod } from '../kube/types.ts';
import { podOwner } from '../policy/rollout/index.ts';
import type { ClusterEvent } from './cluster.ts';
import { truncateNote } from './event-recorder.ts';
import type { Store } from './store.ts';
import { POD_SOURCES } from './workloads.ts';

/** The workload's type, name, namespace and UID. */
export type WorkloadReference = Required<Pick<KubeObject, 'apiVersion' | 'kind' | 'metadata'>>;

/**
 * Returns the outermost controller of a pod, or the pod itself if it has none. The store does not contain the
 * ReplicaSets of Deployments or the Jobs of CronJobs, so their owners are derived from their names.
 */
export function findPodWorkload(pod: Pod, store: Store): WorkloadReference {
  const { namespace = '' } = pod.metadata ?? {};
  const { kind, name } = podOwner(pod, (ownerKind, owner) => store.get(ownerKind, owner, namespace) !== undefined);
  const direct = pod.metadata?.ownerReferences?.find(
    (owner) => owner.controller === true && owner.kind === kind && owner.name === name,
  );
  const source = POD_SOURCES.find((known) => known === kind);
  const isSource = source !== undefined && (direct?.apiVersion ?? getApiVersion(source)) === getApiVersion(source);
  const stored = isSource ? store.get(source, name, namespace) : undefined;
  const uid = stored?.metadata?.uid ?? direct?.uid;
  return {
    apiVersion: direct?.apiVersion ?? (source ? getApiVersion(source) : ''),
    kind,
    metadata: { name, namespace, ...defined({ uid }) },
  };
}

/**
 * Returns true if a pod with the same policy decision is created when this pod ends. Finished Jobs, and finished pods
 * without another controller, create no more pods.
 */
export function isReplaced(pod: Pod, store: Store): boolean {
  if (!hasFinished(pod)) return true;
  const { kind, metadata } = findPodWorkload(pod, store);
  if (kind !== 'Job') return kind !== 'Pod';
  const job = store.get('Job', metadata.name ?? '', metadata.namespace);
  return job !== undefined && !hasFinished(job);
}

/** The policy that denies the pods. */
type Policy = 'PodSecurity' | 'SCC';

const REASONS: Readonly<Record<Policy, string>> = { PodSecurity: 'PodSecurityViolation', SCC: 'SCCViolation' };

interface Refusal {
  readonly policy: Policy;
  readonly action: string;
  /** The policy's message, in upstream's wording. */
  readonly text: string;
  /** Level that the pods violate, and its version. Absent for SCCs. */
  readonly denied?: { readonly level: string; readonly version: string } | undefined;
}

/**
 * Creates an event about a workload's denied pods. The note consists of the policy's message and a command that prints
 * the fix or the reason.
 */
export function refusalEvent(
  { kind, metadata }: WorkloadReference,
  { policy, action, text, denied }: Refusal,
): Pick<ClusterEvent, 'type' | 'reason' | 'action' | 'note'> {
  const target = `${kind.toLowerCase()}/${metadata.name ?? ''} -n ${metadata.namespace ?? ''}`;
  const { level, version } = denied ?? { level: 'restricted', version: 'latest' };
  const versionOption = version === 'latest' ? '' : ` --kubernetes-version=${version}`;
  const command =
    policy === 'SCC'
      ? `portcullis explain ${target}`
      : `kubectl get ${target} -o yaml | portcullis check --level=${level}${versionOption} --fix=diff -f -`;
  return {
    type: 'Warning',
    reason: REASONS[policy],
    action,
    note: truncateNote(text, `. To fix: ${command}`),
  };
}
