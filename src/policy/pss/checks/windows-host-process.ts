import type { PodFields } from '../../pod/pod.ts';
import { setterRule, type CelRule } from '../cel.ts';
import { findSetters, forbidden, formatSetters, type Check, type Finding } from '../check.ts';

const FIELD = 'securityContext.windowsOptions.hostProcess';

const SETTERS = setterRule({
  name: 'hostProcess',
  passes: (owner) => `!${owner}.?securityContext.?windowsOptions.?hostProcess.orValue(false)`,
});
const CEL: CelRule = {
  variables: SETTERS.variables,
  passes: SETTERS.passes,
  text: `"hostProcess (" + ${SETTERS.setters}.join(" and ") + " must not set ${FIELD}=true)"`,
};

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
  fix: 'Remove securityContext.windowsOptions.hostProcess, or set it to false.',
  repairs: [{ set: false }],
  versions: [{ since: 'v1.0', check: noHostProcess, cel: CEL }],
};

function noHostProcess(pod: PodFields): Finding | undefined {
  const setters = findSetters(pod, (setter) => setter.hostProcess);
  if (setters.length === 0) return undefined;
  return {
    reason: 'hostProcess',
    detail: `${formatSetters(setters)} must not set securityContext.windowsOptions.hostProcess=true`,
    fields: () => setters.map((setter) => forbidden(setter, FIELD, true)),
  };
}
