import type { PodFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import type { Check, Finding } from '../types.ts';

const FIELDS = ['hostNetwork', 'hostPID', 'hostIPC'] as const;

/**
 * The namespaces of the host may not be shared.
 *
 * Fields   spec.hostNetwork, spec.hostPID, spec.hostIPC
 * Allowed  false or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostNamespaces: Check = {
  id: 'hostNamespaces',
  level: 'baseline',
  remedy: 'Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.',
  passesUnlessSet: ['hostNamespaces'],
  versions: [{ since: 'v1.0', check: noHostNamespaces }],
};

function noHostNamespaces(pod: PodFields): Finding | undefined {
  return pod.hostNetwork || pod.hostPID || pod.hostIPC ? finding(pod) : undefined;
}

function finding(pod: PodFields): Finding {
  const shared = FIELDS.filter((field) => pod[field]);
  return {
    reason: 'host namespaces',
    detail: shared.map((field) => `${field}=true`).join(', '),
    fields: () => shared.map((field) => forbidden(pod, field, true)),
  };
}
