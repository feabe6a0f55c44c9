import type { Check } from '../check.ts';
import { onlyDefaultProcMount, PROC_MOUNT_CEL } from './proc-mount.ts';

/**
 * The masked paths in /proc must stay masked, even in user namespaces.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.procMount
 * Allowed  Default or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const procMountRestricted: Check = {
  id: 'procMount_restricted',
  level: 'restricted',
  fix: 'Remove securityContext.procMount from the containers, or set it to Default.',
  repairs: [{ remove: 'field' }],
  versions: [
    {
      since: 'v1.35',
      check: onlyDefaultProcMount,
      cel: PROC_MOUNT_CEL,
      overrides: ['procMount'],
    },
  ],
};
