import {
  duplicateValue,
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { notFoundValue } from '../errors.ts';
import { hasField, numberAt, objectsAt, textAt } from '../read.ts';
import { validateContainer, type Surroundings } from './container.ts';
import { forbidHandlers, validateHandlers } from './handlers.ts';

/** Checks all containers of a pod, regular, init and ephemeral ones. */
export function validateContainers(surroundings: Surroundings, path: string): FieldError[] {
  const { spec } = surroundings;
  const regular = objectsAt(spec, 'containers');
  const init = objectsAt(spec, 'initContainers');
  const ephemeral = objectsAt(spec, 'ephemeralContainers');
  return [
    ...regularErrors(regular, `${path}.containers`, surroundings),
    ...initErrors(init, namesOf(regular), `${path}.initContainers`, surroundings),
    ...ephemeralErrors(ephemeral, namesOf([...regular, ...init]), `${path}.ephemeralContainers`, surroundings),
  ];
}

function namesOf(containers: readonly JsonObject[]): ReadonlySet<string> {
  return new Set(containers.map((container) => textAt(container, 'name')));
}

function regularErrors(containers: readonly JsonObject[], path: string, surroundings: Surroundings): FieldError[] {
  if (containers.length === 0) return [requiredField(path, '')];
  const names = new Set<string>();
  const graceSeconds = numberAt(surroundings.spec, 'terminationGracePeriodSeconds');
  const errors = containers.flatMap((container, index) => {
    const at = `${path}[${index}]`;
    return [
      ...validateContainer(container, at, surroundings),
      ...takenName(container, names, at),
      ...validateHandlers(container, at, graceSeconds),
      ...restartErrors(container, at),
    ];
  });
  return [...errors, ...hostPortConflicts(containers, path)];
}

function initErrors(
  containers: readonly JsonObject[],
  taken: ReadonlySet<string>,
  path: string,
  surroundings: Surroundings,
): FieldError[] {
  const names = new Set(taken);
  const graceSeconds = numberAt(surroundings.spec, 'terminationGracePeriodSeconds');
  return containers.flatMap((container, index) => {
    const at = `${path}[${index}]`;
    return [
      ...validateContainer(container, at, surroundings),
      ...restartErrors(container, at),
      ...takenName(container, names, at),
      ...hostPortConflicts([container], path),
      ...(container['restartPolicy'] === 'Always'
        ? validateHandlers(container, at, graceSeconds)
        : forbidHandlers(container, at)),
    ];
  });
}

const NOT_FOR_EPHEMERAL = ['ports', 'resources', 'livenessProbe', 'readinessProbe', 'startupProbe', 'lifecycle'];

function ephemeralErrors(
  containers: readonly JsonObject[],
  others: ReadonlySet<string>,
  path: string,
  surroundings: Surroundings,
): FieldError[] {
  const names = new Set(others);
  const refused = 'cannot be set for an Ephemeral Container';
  return containers.flatMap((container, index) => {
    const at = `${path}[${index}]`;
    const target = textAt(container, 'targetContainerName');
    return [
      ...validateContainer(container, at, surroundings),
      ...paddedImage(container, at),
      ...takenName(container, names, at),
      ...(target === '' || others.has(target) ? [] : [notFoundValue(`${at}.targetContainerName`, target)]),
      ...NOT_FOR_EPHEMERAL.filter((field) => isSet(container[field])).map((field) =>
        forbiddenField(`${at}.${field}`, refused),
      ),
      ...objectsAt(container, 'volumeMounts').flatMap((mount, number) =>
        ['subPath', 'subPathExpr']
          .filter((field) => textAt(mount, field) !== '')
          .map((field) => forbiddenField(`${at}.volumeMounts[${number}].${field}`, refused)),
      ),
    ];
  });
}

function isSet(value: unknown): boolean {
  return value != null && (typeof value !== 'object' || Object.keys(value).length > 0);
}

function takenName(container: JsonObject, names: Set<string>, path: string): FieldError[] {
  const name = textAt(container, 'name');
  if (names.has(name)) return [duplicateValue(`${path}.name`, name)];
  if (name !== '') names.add(name);
  return [];
}

const RESTARTS = ['Always', 'Never', 'OnFailure'];

function restartErrors(container: JsonObject, path: string): FieldError[] {
  if (!hasField(container, 'restartPolicy')) return [];
  const value = textAt(container, 'restartPolicy');
  return RESTARTS.includes(value) ? [] : [notSupported(`${path}.restartPolicy`, value, RESTARTS)];
}

function hostPortConflicts(containers: readonly JsonObject[], path: string): FieldError[] {
  const taken = new Set<string>();
  return containers.flatMap((container, index) =>
    objectsAt(container, 'ports').flatMap((port, number) => {
      const hostPort = numberAt(port, 'hostPort') ?? 0;
      if (hostPort === 0) return [];
      const key = `${textAt(port, 'protocol')}/${textAt(port, 'hostIP')}/${hostPort}`;
      if (taken.has(key)) return [duplicateValue(`${path}[${index}].ports[${number}].hostPort`, key)];
      taken.add(key);
      return [];
    }),
  );
}

/** Pod templates have been let through with such images for too long. */
export function paddedImage(container: JsonObject, path: string): FieldError[] {
  const image = textAt(container, 'image');
  if (image === image.trim()) return [];
  return [invalidValue(`${path}.image`, image, 'must not have leading or trailing whitespace')];
}
