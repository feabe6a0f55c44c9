import { LOST } from '../../pod/index.ts';
import type { Check } from '../check.ts';
import { ONLY_DEFAULT_PROC_MOUNT } from './proc-mount.ts';

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
  why: 'The check is the same as `procMount`, but also applies to pods in user namespaces, for which the baseline level permits an unmasked /proc.',
  fix: 'Remove securityContext.procMount from the containers, or set it to Default.',
  violation: ['spec.containers[0].securityContext.procMount', 'Unmasked'],
  cis: '5.6.3',
  repairs: [{ remove: 'field', note: LOST.procMount, explicit: true }],
  versions: [{ since: 'v1.35', ...ONLY_DEFAULT_PROC_MOUNT, overrides: ['procMount'] }],
};
