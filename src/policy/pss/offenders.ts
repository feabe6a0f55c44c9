import { forbiddenField, required, type FieldError } from '../../kube/field-error.ts';
import {
  pathOf,
  type ContainerFields,
  type PodFields,
  type Setter,
  type SetterFields,
  type VolumeFields,
} from './fields.ts';

export interface Annotation {
  readonly key: string;
  readonly value: string;
}

/** The containers that offend, in visiting order; `undefined` if none does, so that a pod that passes costs no list. */
export function containersWhere(
  pod: PodFields,
  offends: (container: ContainerFields) => boolean,
): readonly ContainerFields[] | undefined {
  let offenders: ContainerFields[] | undefined;
  for (const container of pod.containers) {
    if (!offends(container)) continue;
    if (offenders) offenders.push(container);
    else offenders = [container];
  }
  return offenders;
}

/** The pod, if its own security context offends, then the containers whose do; `undefined` if none does. */
export function settersWhere(
  pod: PodFields,
  offends: (setter: SetterFields) => boolean,
): readonly Setter[] | undefined {
  const containers = containersWhere(pod, offends);
  return offends(pod) ? [pod, ...(containers ?? [])] : containers;
}

/** The volumes that offend, in list order; `undefined` if none does. */
export function volumesWhere(
  pod: PodFields,
  offends: (volume: VolumeFields) => boolean,
): readonly VolumeFields[] | undefined {
  let offenders: VolumeFields[] | undefined;
  for (const volume of pod.volumes) {
    if (!offends(volume)) continue;
    if (offenders) offenders.push(volume);
    else offenders = [volume];
  }
  return offenders;
}

/** The annotations that offend, null read as the empty string; `undefined` if none does. */
export function annotationsWhere(
  pod: PodFields,
  offends: (key: string, value: string) => boolean,
): readonly Annotation[] | undefined {
  let offenders: Annotation[] | undefined;
  for (const key in pod.annotations) {
    const value = pod.annotations[key] ?? '';
    if (offends(key, value)) (offenders ??= []).push({ key, value });
  }
  return offenders;
}

/** What was found in all the containers, in one list. */
export function allOf<Item>(
  containers: readonly ContainerFields[],
  itemsOf: (container: ContainerFields) => readonly Item[],
): Item[] {
  const all: Item[] = [];
  for (const container of containers) {
    for (const item of itemsOf(container)) all.push(item);
  }
  return all;
}

/** A field that has a value that it may not have; the path starts at the pod spec or at the container. */
export function forbidden(setter: SetterFields, path: string, value?: unknown): FieldError {
  return withValue(forbiddenField(`${pathOf(setter)}.${path}`, ''), value);
}

/** A field that should have been set. */
export function missing(setter: SetterFields, path: string, value?: unknown): FieldError {
  return withValue(required(`${pathOf(setter)}.${path}`, ''), value);
}

export function forbiddenAnnotation({ key, value }: Annotation): FieldError {
  return withValue(forbiddenField(`metadata.annotations[${key}]`, ''), value);
}

function withValue(error: FieldError, value: unknown): FieldError {
  return value === undefined ? error : { ...error, value };
}
