import { forbiddenField, requiredField, type FieldError } from '../../kube/field-error.ts';
import { pathOf, type ContainerFields, type PodFields, type Setter, type SetterFields } from './fields.ts';

export interface Annotation {
  readonly key: string;
  readonly value: string;
}

const NONE: readonly never[] = [];

/** The pod, if its own security context offends, then the containers whose do. */
export function settersWhere(pod: PodFields, offends: (setter: SetterFields) => boolean): readonly Setter[] {
  const containers = pod.containers.filter(offends);
  return offends(pod) ? [pod, ...containers] : containers;
}

/** The annotations that offend, null read as the empty string. */
export function annotationsWhere(
  { annotations }: PodFields,
  offends: (key: string, value: string) => boolean,
): readonly Annotation[] {
  let offenders: Annotation[] | undefined;
  for (const key in annotations) {
    const value = annotations[key] ?? '';
    if (offends(key, value)) (offenders ??= []).push({ key, value });
  }
  return offenders ?? NONE;
}

/** What the containers have, in one list. */
export function allIn<Item>(
  containers: readonly ContainerFields[],
  itemsOf: (container: ContainerFields) => readonly Item[],
): readonly Item[] {
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
  return withValue(requiredField(`${pathOf(setter)}.${path}`, ''), value);
}

export function forbiddenAnnotation({ key, value }: Annotation): FieldError {
  return withValue(forbiddenField(`metadata.annotations[${key}]`, ''), value);
}

function withValue(error: FieldError, value: unknown): FieldError {
  return value === undefined ? error : { ...error, value };
}
