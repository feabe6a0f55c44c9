import type { FieldError } from '../../../kube/field-error.ts';
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
  const setters = settersText(pod, isHostProcess);
  return setters === ''
    ? undefined
    : {
        reason: 'hostProcess',
        detail: `${setters} must not set securityContext.windowsOptions.hostProcess=true`,
        fields,
      };
}

function fields(pod: PodFields): readonly FieldError[] {
  return settersWhere(pod, isHostProcess).map((setter) => forbidden(setter, FIELD, true));
}

const isHostProcess = (setter: SetterFields): boolean => setter.hostProcess === true;
