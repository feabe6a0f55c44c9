import { onlyDefaultProcMount } from '../rules/proc-mount.ts';
import type { Check } from '../types.ts';

/**
 * /proc stays masked, in user namespaces too.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.procMount
 * Allowed  Default or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const procMountRestricted: Check = {
  id: 'procMount_restricted',
  level: 'restricted',
  remedy: 'Remove securityContext.procMount from the containers, or set it to Default.',
  passesUnlessSet: ['procMount'],
  versions: [{ since: 'v1.35', check: onlyDefaultProcMount, overrides: ['procMount'] }],
};
