import {
  duplicateValue,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { descendingPath, notFoundValue, portNumber, requiredLabel } from '../errors.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt } from '../read.ts';
import { portName } from './handlers.ts';
import { validateResources } from './resources.ts';
import { validateSecurity } from './security-context.ts';

/** What a container may refer to. */
export interface Surroundings {
  readonly spec: JsonObject;
  readonly volumes: ReadonlySet<string>;
}

/** Checks what all kinds of containers have in common. */
export function validateContainer(container: JsonObject, path: string, { spec, volumes }: Surroundings): FieldError[] {
  return [
    ...requiredLabel(`${path}.name`, textAt(container, 'name')),
    ...(textAt(container, 'image') === '' ? [requiredField(`${path}.image`, '')] : []),
    ...chosen(container, 'terminationMessagePolicy', path, ['File', 'FallbackToLogsOnError']),
    ...portErrors(container, `${path}.ports`),
    ...envErrors(container, `${path}.env`),
    ...envFromErrors(container, `${path}.envFrom`),
    ...mountErrors(container, `${path}.volumeMounts`, volumes),
    ...chosen(container, 'imagePullPolicy', path, ['Always', 'IfNotPresent', 'Never']),
    ...validateResources(objectAt(container, 'resources'), `${path}.resources`),
    ...validateSecurity(container, path, spec),
  ];
}

function chosen(container: JsonObject, field: string, path: string, supported: readonly string[]): FieldError[] {
  const value = textAt(container, field);
  if (value === '') return [requiredField(`${path}.${field}`, '')];
  return supported.includes(value) ? [] : [notSupported(`${path}.${field}`, value, supported)];
}

const PROTOCOLS = ['SCTP', 'TCP', 'UDP'];

function portErrors(container: JsonObject, path: string): FieldError[] {
  const names = new Set<string>();
  return objectsAt(container, 'ports').flatMap((port, index) => {
    const at = `${path}[${index}]`;
    const { hostPort = 0 } = port;
    return [
      ...portNameErrors(textAt(port, 'name'), `${at}.name`, names),
      ...((numberAt(port, 'containerPort') ?? 0) === 0
        ? [requiredField(`${at}.containerPort`, '')]
        : portNumber(`${at}.containerPort`, port['containerPort'])),
      ...(hostPort === 0 ? [] : portNumber(`${at}.hostPort`, hostPort)),
      ...chosen(port, 'protocol', at, PROTOCOLS),
    ];
  });
}

function portNameErrors(name: string, path: string, names: Set<string>): FieldError[] {
  if (name === '') return [];
  const errors = portName(path, name);
  if (errors.length > 0) return errors;
  if (names.has(name)) return [duplicateValue(path, name)];
  names.add(name);
  return [];
}

const ENV_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const ENV_SOURCES = ['fieldRef', 'resourceFieldRef', 'configMapKeyRef', 'secretKeyRef', 'fileKeyRef'];

function envErrors(container: JsonObject, path: string): FieldError[] {
  return objectsAt(container, 'env').flatMap((variable, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(variable, 'name');
    return [
      ...(name === '' ? [requiredField(`${at}.name`, '')] : envName(`${at}.name`, name)),
      ...(hasField(variable, 'valueFrom') ? sourceErrors(variable, `${at}.valueFrom`) : []),
    ];
  });
}

function envName(path: string, name: string): FieldError[] {
  return /^[ -<>-~]+$/.test(name) ? [] : [invalidValue(path, name, ENV_RULE)];
}

function sourceErrors(variable: JsonObject, path: string): FieldError[] {
  const source = objectAt(variable, 'valueFrom');
  const given = ENV_SOURCES.filter((field) => hasField(source, field));
  const keys = given
    .filter((field) => field.endsWith('KeyRef') && textAt(objectAt(source, field), 'key') === '')
    .map((field) => requiredField(`${path}.${field}.key`, ''));
  if (given.length === 0) {
    const detail =
      'must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`';
    return [invalidValue(path, '', detail)];
  }
  if (textAt(variable, 'value') !== '') {
    return [...keys, invalidValue(path, '', 'may not be specified when `value` is not empty')];
  }
  return given.length === 1
    ? keys
    : [...keys, invalidValue(path, '', 'may not have more than one field specified at a time')];
}

function envFromErrors(container: JsonObject, path: string): FieldError[] {
  return objectsAt(container, 'envFrom').flatMap((source, index) => {
    const prefix = textAt(source, 'prefix');
    const given = ['configMapRef', 'secretRef'].filter((field) => hasField(source, field));
    return [
      ...(prefix === '' ? [] : envName(`${path}[${index}].prefix`, prefix)),
      ...given
        .filter((field) => textAt(objectAt(source, field), 'name') === '')
        .map((field) => requiredField(`${path}[${index}].${field}.name`, '')),
      ...(given.length === 0 ? [invalidValue(path, '', 'must specify one of: `configMapRef` or `secretRef`')] : []),
      ...(given.length > 1 ? [invalidValue(path, '', 'may not have more than one field specified at a time')] : []),
    ];
  });
}

function mountErrors(container: JsonObject, path: string, volumes: ReadonlySet<string>): FieldError[] {
  const places = new Set<string>();
  return objectsAt(container, 'volumeMounts').flatMap((mount, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(mount, 'name');
    const place = textAt(mount, 'mountPath');
    const errors = [
      ...(name === '' ? [requiredField(`${at}.name`, '')] : []),
      ...(volumes.has(name) ? [] : [notFoundValue(`${at}.name`, name)]),
      ...(place === '' ? [requiredField(`${at}.mountPath`, '')] : []),
      ...(places.has(place) ? [invalidValue(`${at}.mountPath`, place, 'must be unique')] : []),
      ...descendingPath(`${path}.subPath`, textAt(mount, 'subPath')),
      ...propagationErrors(mount, container, `${path}.mountPropagation`),
    ];
    places.add(place);
    return errors;
  });
}

const PROPAGATIONS = ['Bidirectional', 'HostToContainer', 'None'];

function propagationErrors(mount: JsonObject, container: JsonObject, path: string): FieldError[] {
  if (!hasField(mount, 'mountPropagation')) return [];
  const value = textAt(mount, 'mountPropagation');
  if (!PROPAGATIONS.includes(value)) return [notSupported(path, value, PROPAGATIONS)];
  const isPrivileged = objectAt(container, 'securityContext')['privileged'] === true;
  if (value !== 'Bidirectional' || isPrivileged) return [];
  const detail = 'Bidirectional mount propagation is available only to privileged containers';
  return [{ type: 'FieldValueForbidden', path, detail }];
}
