import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { allIn, forbidden, missing } from '../offenders.ts';
import { unlessWindows } from '../relax.ts';
import { both, containersText, distinct, quotedSet } from '../text.ts';
import type { Check, Finding } from '../types.ts';

const ADD = 'securityContext.capabilities.add';
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
  const adding = containersText(pod, addsSome);
  if (keeping === '' && adding === '') return undefined;
  const drop = keeping === '' ? '' : `${keeping} must set securityContext.capabilities.drop=["ALL"]`;
  const add =
    adding === ''
      ? ''
      : `${adding} must not include ${quotedSet(allIn(pod.containers, notAllowed))} in securityContext.capabilities.add`;
  return { reason: 'unrestricted capabilities', detail: both(drop, '; ', add), fields };
}

function fields(pod: PodFields): readonly FieldError[] {
  const adding = pod.containers.filter(addsSome);
  return [
    ...pod.containers.filter(keepsSome).map(dropError),
    ...adding.map((container) => forbidden(container, ADD, distinct(notAllowed(container)))),
  ];
}

function dropError(container: ContainerFields): FieldError {
  const dropped = container.capabilitiesDrop;
  return dropped.length === 0 ? missing(container, DROP) : forbidden(container, DROP, distinct(dropped));
}

function keepsSome(container: ContainerFields): boolean {
  return !container.capabilitiesDrop.includes('ALL');
}

function addsSome(container: ContainerFields): boolean {
  return !container.capabilitiesAdd.every(isAllowed);
}

function notAllowed(container: ContainerFields): readonly string[] {
  return container.capabilitiesAdd.filter((name) => !isAllowed(name));
}

function isAllowed(name: string): boolean {
  return name === 'NET_BIND_SERVICE';
}
