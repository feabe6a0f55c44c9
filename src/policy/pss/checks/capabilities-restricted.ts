import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { forbidden, missing } from '../offenders.ts';
import { unlessWindows } from '../relax.ts';
import { onlyAdding } from '../rules/capabilities.ts';
import { both, containersText, distinct } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const add = onlyAdding(['NET_BIND_SERVICE']);
const DROP = 'securityContext.capabilities.drop';
const overrides = ['capabilities_baseline'];

/**
 * Each container drops all capabilities, and may add one back.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.capabilities.drop
 *          spec.{init,ephemeral,}containers[*].securityContext.capabilities.add
 * Allowed  drop with ALL in it; add with nothing but NET_BIND_SERVICE
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const capabilitiesRestricted: Check = {
  id: 'capabilities_restricted',
  level: 'restricted',
  remedy: 'Set securityContext.capabilities.drop to ["ALL"] in each container, and add nothing but NET_BIND_SERVICE.',
  versions: [
    { since: 'v1.22', check: dropAll, overrides },
    { since: 'v1.25', check: unlessWindows(dropAll), overrides },
  ],
};

function dropAll(pod: PodFields): Finding | undefined {
  const keeping = containersText(pod, keepsSome);
  const adding = add.detailOf(pod);
  if (!keeping && !adding) return undefined;
  const dropping = keeping ? `${keeping} must set securityContext.capabilities.drop=["ALL"]` : '';
  return {
    reason: 'unrestricted capabilities',
    detail: both(dropping, '; ', adding),
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return [...pod.containers.filter(keepsSome).map(dropError), ...add.fieldsOf(pod)];
}

function dropError(container: ContainerFields): FieldError {
  const dropped = container.capabilitiesDrop;
  return dropped.length === 0 ? missing(container, DROP) : forbidden(container, DROP, distinct(dropped));
}

const keepsSome = (container: ContainerFields): boolean => !container.capabilitiesDrop.includes('ALL');
