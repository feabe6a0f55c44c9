import type { PodFields } from '../fields.ts';
import { onlyAdding } from '../rules/capabilities.ts';
import type { Check, Finding } from '../types.ts';

const add = onlyAdding([
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'MKNOD',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
]);

/**
 * Only capabilities that container runtimes give by default may be added.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.capabilities.add
 * Allowed  the default set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const capabilitiesBaseline: Check = {
  id: 'capabilities_baseline',
  level: 'baseline',
  remedy: 'Remove capabilities from securityContext.capabilities.add that container runtimes do not give by default.',
  passesUnlessSet: ['capabilitiesAdd'],
  versions: [{ since: 'v1.0', check: onlyDefaultCapabilities }],
};

function onlyDefaultCapabilities(pod: PodFields): Finding | undefined {
  const detail = add.detailOf(pod);
  return detail ? { reason: 'non-default capabilities', detail, fields: add.fieldsOf } : undefined;
}
