import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import { containersText, quotedSet } from '../text.ts';
import type { Finding } from '../types.ts';

const FIELD = 'securityContext.procMount';

/** Refuses every type of mount but `Default`; the empty string is another type. */
export function onlyDefaultProcMount(pod: PodFields): Finding | undefined {
  const containers = containersText(pod, isNotDefault);
  if (!containers) return undefined;
  const types = pod.containers.filter(isNotDefault).map(typeOf);
  return {
    reason: 'procMount',
    detail: `${containers} must not set securityContext.procMount to ${quotedSet(types)}`,
    fields,
  };
}

function fields(pod: PodFields): readonly FieldError[] {
  return pod.containers.filter(isNotDefault).map((container) => forbidden(container, FIELD, typeOf(container)));
}

const isNotDefault = (container: ContainerFields): boolean =>
  container.procMount !== undefined && container.procMount !== 'Default';

function typeOf(container: ContainerFields): string {
  return container.procMount ?? '';
}
