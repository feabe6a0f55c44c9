import type { PodFields, SetterFields } from '../fields.ts';
import { forbidden, settersWhere } from '../offenders.ts';
import { settersText } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const FIELD = 'securityContext.windowsOptions.hostProcess';

/**
 * No container may run as a process of a Windows host.
 *
 * Fields   spec.securityContext.windowsOptions.hostProcess
 *          spec.{init,ephemeral,}containers[*].securityContext.windowsOptions.hostProcess
 * Allowed  false or nothing
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const windowsHostProcess: Check = {
  id: 'windowsHostProcess',
  level: 'baseline',
  remedy: 'Remove securityContext.windowsOptions.hostProcess, or set it to false.',
  passesUnlessSet: ['windowsOptions'],
  versions: [{ since: 'v1.0', check: noHostProcess }],
};

function noHostProcess(pod: PodFields): Finding | undefined {
  const offenders = settersWhere(pod, isHostProcess);
  return (
    offenders && {
      reason: 'hostProcess',
      detail: `${settersText(offenders)} must not set ${FIELD}=true`,
      fields: () => offenders.map((setter) => forbidden(setter, FIELD, true)),
    }
  );
}

function isHostProcess(setter: SetterFields): boolean {
  return setter.hostProcess === true;
}
