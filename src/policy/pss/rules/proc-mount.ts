import type { ContainerFields, PodFields } from '../fields.ts';
import { containersWhere, forbidden } from '../offenders.ts';
import { namesOf, quotedSet } from '../text.ts';
import type { Finding } from '../types.ts';

const FIELD = 'securityContext.procMount';

/** Refuses every type of mount but `Default`; the empty string is another type. */
export function onlyDefaultProcMount(pod: PodFields): Finding | undefined {
  const offenders = containersWhere(pod, isNotDefault);
  return (
    offenders && {
      reason: 'procMount',
      detail: `${namesOf(offenders)} must not set ${FIELD} to ${quotedSet(offenders.map(typeOf))}`,
      fields: () => offenders.map((container) => forbidden(container, FIELD, typeOf(container))),
    }
  );
}

function isNotDefault(container: ContainerFields): boolean {
  return container.procMount !== undefined && container.procMount !== 'Default';
}

function typeOf(container: ContainerFields): string {
  return container.procMount ?? '';
}
