import type { Pod } from '../../../kube/types.ts';
import { decode } from '../../pss/decode.ts';
import { pathOf, type ContainerFields, type PodFields, type SetterFields } from '../../pss/fields.ts';

/** The fields of a pod that give more rights than a user namespace of the node should see, each with its value, once. */
export function rootlikeFields(pod: Pod): readonly string[] {
  const { error, pod: fields } = decode(pod);
  if (error !== undefined) return [];
  return [...new Set(fields.containers.flatMap((container) => fieldsOf(container, fields)))];
}

function fieldsOf(container: ContainerFields, pod: PodFields): readonly string[] {
  const user = container.runAsUser === undefined ? pod : container;
  const nonRoot = container.runAsNonRoot === undefined ? pod : container;
  return [
    ...(user.runAsUser === 0 ? [print(user, 'runAsUser', 0)] : []),
    ...(nonRoot.runAsNonRoot === false ? [print(nonRoot, 'runAsNonRoot', false)] : []),
    ...(container.capabilitiesAdd.length > 0 ? [print(container, 'capabilities.add', container.capabilitiesAdd)] : []),
    ...(container.procMount === 'Unmasked' ? [print(container, 'procMount', 'Unmasked')] : []),
  ];
}

function print(owner: SetterFields, field: string, value: unknown): string {
  return `${pathOf(owner)}.securityContext.${field}=${JSON.stringify(value)}`;
}
