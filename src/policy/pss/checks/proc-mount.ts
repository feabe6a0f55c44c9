import { onlyDefaultProcMount } from '../rules/proc-mount.ts';
import { unlessUserNamespace } from '../relax.ts';
import type { Check } from '../types.ts';

/**
 * /proc stays masked, except in a user namespace, where it shows nothing of the host.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.procMount
 * Allowed  Default or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const procMount: Check = {
  id: 'procMount',
  level: 'baseline',
  remedy: 'Remove securityContext.procMount from the containers, or set it to Default.',
  passesUnlessSet: ['procMount'],
  versions: [
    { since: 'v1.0', check: onlyDefaultProcMount },
    { since: 'v1.35', check: unlessUserNamespace(onlyDefaultProcMount) },
  ],
};
