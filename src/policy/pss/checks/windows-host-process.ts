import { LOST } from '../../pod/index.ts';
import { type Check, securityContextRule } from '../check.ts';

const FIELD = 'securityContext.windowsOptions.hostProcess';

const RULE = securityContextRule({
  name: 'hostProcess',
  reason: 'hostProcess',
  field: FIELD,
  violates: ({ hostProcess }) => hostProcess,
  passes: (owner) => `!${owner}.?securityContext.?windowsOptions.?hostProcess.orValue(false)`,
  must: () => `must not set ${FIELD}=true`,
  value: () => true,
});

/**
 * Containers must not run as HostProcess containers on Windows.
 *
 * Fields   spec.securityContext.windowsOptions.hostProcess
 *          spec.{init,ephemeral,}containers[*].securityContext.windowsOptions.hostProcess
 * Allowed  false or not set
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const windowsHostProcess: Check = {
  id: 'windowsHostProcess',
  level: 'baseline',
  why: "A HostProcess container runs as a process on the Windows node, with the node's privileges.",
  fix: 'Remove securityContext.windowsOptions.hostProcess, or set it to false.',
  violation: ['spec.containers[0].securityContext.windowsOptions', { hostProcess: true }],
  cis: '5.2.10',
  repairs: [{ set: false, note: LOST.hostProcess, explicit: true }],
  versions: [{ since: 'v1.0', ...RULE }],
};
