import { semanticEqual } from '../../kube/equality.ts';
import { forbiddenField, invalidValue, notSupported, requiredField, type FieldError } from '../../kube/field-error.ts';
import type { ApiObject } from '../types.ts';
import { label, portNumber, subdomain } from './errors.ts';
import { LABEL } from './metadata.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt } from './read.ts';
import type { KindRules } from './strategy.ts';

/** Kinds of which little is asked here. */
export const otherRules: Readonly<Record<string, KindRules>> = {
  '/ConfigMap': {
    namespaced: true,
    validate: (object) => keyErrors(object, ['data', 'binaryData']),
    validateUpdate: immutable,
  },
  '/Secret': { namespaced: true, validate: (object) => keyErrors(object, ['data']), validateUpdate: immutable },
  '/Service': {
    namespaced: true,
    nameErrors: LABEL,
    initialStatus: () => ({ loadBalancer: {} }),
    validate: serviceErrors,
  },
  '/Node': { namespaced: false, initialStatus: (node) => node['status'] ?? {} },
  '/PersistentVolume': { namespaced: false, initialStatus: () => ({ phase: 'Pending' }) },
  '/PersistentVolumeClaim': { namespaced: true, initialStatus: () => ({ phase: 'Pending' }) },
  '/ResourceQuota': { namespaced: true, initialStatus: () => ({}) },
  'coordination.k8s.io/Lease': { namespaced: true, validate: leaseErrors },
  'node.k8s.io/RuntimeClass': {
    namespaced: false,
    validate: (object) => {
      const handler = textAt(object, 'handler');
      return handler === '' ? [requiredField('handler', '')] : label('handler', handler);
    },
    validateUpdate: (object, old) => unchanged(object, old, 'handler'),
  },
  'policy/PodDisruptionBudget': {
    namespaced: true,
    generation: 'counted',
    initialStatus: () => ({ disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 }),
  },
  'scheduling.k8s.io/PriorityClass': {
    namespaced: false,
    generation: 'counted',
    validate: priorityClassErrors,
    validateUpdate: (object, old) => unchanged(object, old, 'value'),
  },
};

const KEY = /^[-._a-zA-Z0-9]+$/;
const KEY_RULE =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

function keyErrors(object: ApiObject, fields: readonly string[]): FieldError[] {
  return fields.flatMap((field) =>
    Object.keys(objectAt(object, field))
      .filter((key) => !KEY.test(key))
      .map((key) => invalidValue(`${field}[${key}]`, key, KEY_RULE)),
  );
}

function immutable(object: ApiObject, old: ApiObject): FieldError[] {
  if (old['immutable'] !== true) return [];
  const detail = 'field is immutable when `immutable` is set';
  return [
    ...(object['immutable'] === true ? [] : [forbiddenField('immutable', detail)]),
    ...['data', 'binaryData']
      .filter((field) => !semanticEqual(object[field], old[field]))
      .map((field) => forbiddenField(field, detail)),
  ];
}

const SERVICE_TYPES = ['ClusterIP', 'ExternalName', 'LoadBalancer', 'NodePort'];

function serviceErrors(service: ApiObject): FieldError[] {
  const spec = objectAt(service, 'spec');
  const type = textAt(spec, 'type');
  const ports = objectsAt(spec, 'ports');
  const needsPorts = type !== 'ExternalName' && spec['clusterIP'] !== 'None';
  return [
    ...(needsPorts && ports.length === 0 ? [requiredField('spec.ports', '')] : []),
    ...(SERVICE_TYPES.includes(type) ? [] : [notSupported('spec.type', type, SERVICE_TYPES)]),
    ...ports.flatMap((port, index) => [
      ...(ports.length > 1 && textAt(port, 'name') === '' ? [requiredField(`spec.ports[${index}].name`, '')] : []),
      ...portNumber(`spec.ports[${index}].port`, numberAt(port, 'port') ?? 0),
    ]),
    ...(type === 'ExternalName' ? subdomain('spec.externalName', textAt(spec, 'externalName')) : []),
  ];
}

function leaseErrors(lease: ApiObject): FieldError[] {
  const spec = objectAt(lease, 'spec');
  const seconds = numberAt(spec, 'leaseDurationSeconds');
  const transitions = numberAt(spec, 'leaseTransitions');
  return [
    ...(seconds !== undefined && seconds <= 0
      ? [invalidValue('spec.leaseDurationSeconds', seconds, 'must be greater than 0')]
      : []),
    ...(transitions !== undefined && transitions < 0
      ? [invalidValue('spec.leaseTransitions', transitions, 'must be greater than or equal to 0')]
      : []),
  ];
}

const HIGHEST_USER_PRIORITY = 1_000_000_000;
const SYSTEM = 'system-';
const SYSTEM_CLASSES: Readonly<Record<string, number>> = {
  'system-node-critical': 2_000_001_000,
  'system-cluster-critical': 2_000_000_000,
};

function priorityClassErrors(object: ApiObject): FieldError[] {
  const name = textAt(object.metadata, 'name');
  const value = numberAt(object, 'value') ?? 0;
  if (name.startsWith(SYSTEM)) {
    if (SYSTEM_CLASSES[name] === value) return [];
    const detail = `priority class names with '${SYSTEM}' prefix are reserved for system use only. error: ${name} is not a known system priority class`;
    return [forbiddenField('metadata.name', detail)];
  }
  if (value <= HIGHEST_USER_PRIORITY) return [];
  const detail = `maximum allowed value of a user defined priority is ${HIGHEST_USER_PRIORITY}`;
  return [forbiddenField('value', detail)];
}

function unchanged(object: ApiObject, old: ApiObject, field: string): FieldError[] {
  if (semanticEqual(object[field], old[field])) return [];
  return hasField(object, field) ? [invalidValue(field, object[field], 'field is immutable')] : [];
}
