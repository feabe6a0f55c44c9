import { LOST, type PodFields } from '../../pod/index.ts';
import type { BuildCel } from '../cel.ts';
import { type Check, type Finding, forbiddenValue } from '../check.ts';

const FIELDS = ['hostNetwork', 'hostPID', 'hostIPC'] as const;

const cel: BuildCel = ({ spec }) => ({
  passes: FIELDS.map((field) => `!${spec}.?${field}.orValue(false)`).join(' && '),
  text: `"host namespaces (" + [${FIELDS.map((field) => `${spec}.?${field}.orValue(false) ? "${field}=true" : ""`).join(', ')}].filter(field, field != "").join(", ") + ")"`,
});

/**
 * Pods must not share the host namespaces.
 *
 * Fields   spec.hostNetwork, spec.hostPID, spec.hostIPC
 * Allowed  false or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const hostNamespaces: Check = {
  id: 'hostNamespaces',
  level: 'baseline',
  why: "In host namespaces, a container can see all processes, the node's network interfaces, and services on the node's loopback address, which often require no authentication.",
  fix: 'Remove hostNetwork, hostPID and hostIPC from the pod spec, or set them to false.',
  violation: ['spec.hostPID', true],
  cis: '5.2.3, 5.2.4, 5.2.5',
  nsa: 'no host namespaces',
  repairs: [
    { field: /^spec\.hostNetwork$/, set: false, note: LOST.hostNetwork, explicit: true },
    { field: /^spec\.hostPID$/, set: false, note: LOST.hostPID, explicit: true },
    { field: /^spec\.hostIPC$/, set: false, note: LOST.hostIPC, explicit: true },
  ],
  versions: [{ since: 'v1.0', check: noHostNamespaces, cel }],
};

function noHostNamespaces(pod: PodFields): Finding | undefined {
  if (!pod.hostNetwork && !pod.hostPID && !pod.hostIPC) return undefined;
  const set = FIELDS.filter((field) => pod[field]);
  return {
    reason: 'host namespaces',
    detail: set.map((field) => `${field}=true`).join(', '),
    fields: () => set.map((field) => forbiddenValue(pod, field, true)),
  };
}
