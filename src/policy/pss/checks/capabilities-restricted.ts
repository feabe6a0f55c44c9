import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { allOf, containersWhere, forbidden, missing } from '../offenders.ts';
import { unlessWindows } from '../relax.ts';
import { distinct, namesOf, quotedSet } from '../text.ts';
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
  const keeping = containersWhere(pod, keepsSome);
  const adding = containersWhere(pod, addsSome);
  return keeping || adding ? finding(keeping ?? [], adding ?? []) : undefined;
}

function finding(keeping: readonly ContainerFields[], adding: readonly ContainerFields[]): Finding {
  const drop = keeping.length === 0 ? '' : `${namesOf(keeping)} must set ${DROP}=["ALL"]`;
  const added = allOf(adding, forbiddenIn);
  const add = adding.length === 0 ? '' : `${namesOf(adding)} must not include ${quotedSet(added)} in ${ADD}`;
  return {
    reason: 'unrestricted capabilities',
    detail: drop === '' || add === '' ? drop + add : `${drop}; ${add}`,
    fields: () => [
      ...keeping.map(dropError),
      ...adding.map((container) => forbidden(container, ADD, distinct(forbiddenIn(container)))),
    ],
  };
}

function keepsSome(container: ContainerFields): boolean {
  return !container.capabilitiesDrop.includes('ALL');
}

function addsSome(container: ContainerFields): boolean {
  return !container.capabilitiesAdd.every(isAllowed);
}

function forbiddenIn(container: ContainerFields): string[] {
  return container.capabilitiesAdd.filter((name) => !isAllowed(name));
}

function isAllowed(name: string): boolean {
  return name === 'NET_BIND_SERVICE';
}

function dropError(container: ContainerFields): FieldError {
  const dropped = container.capabilitiesDrop;
  return dropped.length === 0 ? missing(container, DROP) : forbidden(container, DROP, distinct(dropped));
}
