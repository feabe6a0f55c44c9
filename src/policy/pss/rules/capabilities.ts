import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import { containersText, distinct, quotedSet } from '../text.ts';

const FIELD = 'securityContext.capabilities.add';

/** What capabilities containers may add. */
export interface AddRule {
  /** What is wrong; empty if nothing is. */
  detailOf(pod: PodFields): string;
  fieldsOf(pod: PodFields): readonly FieldError[];
}

/** Refuses every capability that is not on the list; names are compared as they stand. */
export function onlyAdding(names: readonly string[]): AddRule {
  const allowed = new Set(names);
  const isForbidden = (name: string): boolean => !allowed.has(name);
  const addsForbidden = (container: ContainerFields): boolean => container.capabilitiesAdd.some(isForbidden);
  return {
    detailOf(pod) {
      const containers = containersText(pod, addsForbidden);
      if (!containers) return '';
      const added: string[] = [];
      for (const { capabilitiesAdd } of pod.containers) {
        for (const name of capabilitiesAdd) if (isForbidden(name)) added.push(name);
      }
      return `${containers} must not include ${quotedSet(added)} in securityContext.capabilities.add`;
    },
    fieldsOf: (pod) =>
      pod.containers
        .filter(addsForbidden)
        .map((container) => forbidden(container, FIELD, distinct(container.capabilitiesAdd.filter(isForbidden)))),
  };
}
