import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import { both } from '../text.ts';
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
  if (!pod.hostNetwork && !pod.hostPID && !pod.hostIPC) return undefined;
  const network = pod.hostNetwork ? 'hostNetwork=true' : '';
  const processes = both(pod.hostPID ? 'hostPID=true' : '', ', ', pod.hostIPC ? 'hostIPC=true' : '');
  return {
    reason: 'host namespaces',
    detail: both(network, ', ', processes),
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return FIELDS.filter((field) => pod[field]).map((field) => forbidden(pod, field, true));
}
