/** Events about workloads whose pods are denied or would be denied under enforcement. */
import type { ClusterEvent } from '../cluster/cluster.ts';
import { truncateNote } from '../cluster/event-recorder.ts';
import type { WorkloadReference } from '../views/workloads.ts';

/** The policy that denies the pods. */
type Policy = 'PodSecurity' | 'SCC';

const REASONS: Readonly<Record<Policy, string>> = { PodSecurity: 'PodSecurityViolation', SCC: 'SCCViolation' };

interface WorkloadDenial {
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
export function workloadDenialEvent(
  { kind, metadata }: WorkloadReference,
  { policy, action, text, denied }: WorkloadDenial,
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
