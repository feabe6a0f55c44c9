import {
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { nonNegative, portNumber } from '../errors.ts';
import { hasField, numberAt, objectAt, textAt, textsAt } from '../read.ts';

const PROBES = ['livenessProbe', 'readinessProbe', 'startupProbe'] as const;
const HOOKS = ['postStart', 'preStop'] as const;
const COUNTS = ['initialDelaySeconds', 'timeoutSeconds', 'periodSeconds', 'successThreshold', 'failureThreshold'];

/** Checks what containers run or ask at their start, their end and in between. */
export function validateHandlers(container: JsonObject, path: string, graceSeconds: number | undefined): FieldError[] {
  const lifecycle = objectAt(container, 'lifecycle');
  return [
    ...HOOKS.filter((hook) => hasField(lifecycle, hook)).flatMap((hook) =>
      handlerErrors(objectAt(lifecycle, hook), `${path}.lifecycle.${hook}`, graceSeconds),
    ),
    ...PROBES.filter((probe) => hasField(container, probe)).flatMap((probe) =>
      probeErrors(objectAt(container, probe), `${path}.${probe}`, graceSeconds),
    ),
  ];
}

/** Containers that run to their end before the others start have neither. */
export function forbidHandlers(container: JsonObject, path: string): FieldError[] {
  const detail = 'may not be set for init containers without restartPolicy=Always';
  return ['lifecycle', ...PROBES]
    .filter((field) => hasField(container, field))
    .map((field) => forbiddenField(`${path}.${field}`, detail));
}

function probeErrors(probe: JsonObject, path: string, graceSeconds: number | undefined): FieldError[] {
  const seconds = numberAt(probe, 'terminationGracePeriodSeconds');
  return [
    ...handlerErrors(probe, path, graceSeconds),
    ...COUNTS.flatMap((field) => nonNegative(`${path}.${field}`, probe[field])),
    ...(seconds !== undefined && seconds <= 0
      ? [invalidValue(`${path}.terminationGracePeriodSeconds`, seconds, 'must be greater than 0')]
      : []),
    ...(path.endsWith('readinessProbe') && seconds !== undefined
      ? [invalidValue(`${path}.terminationGracePeriodSeconds`, seconds, 'must not be set for readinessProbes')]
      : []),
    ...(!path.endsWith('readinessProbe') && (numberAt(probe, 'successThreshold') ?? 1) !== 1
      ? [invalidValue(`${path}.successThreshold`, probe['successThreshold'], 'must be 1')]
      : []),
  ];
}

const HANDLERS = ['exec', 'httpGet', 'tcpSocket', 'grpc', 'sleep'];

function handlerErrors(handler: JsonObject, path: string, graceSeconds: number | undefined): FieldError[] {
  const given = HANDLERS.filter((field) => hasField(handler, field));
  const [first] = given;
  if (first === undefined) return [requiredField(path, 'must specify a handler type')];
  const more = given.slice(1);
  return [
    ...actionErrors(first, objectAt(handler, first), `${path}.${first}`, graceSeconds),
    ...more.map((field) => forbiddenField(`${path}.${field}`, 'may not specify more than 1 handler type')),
  ];
}

function actionErrors(kind: string, action: JsonObject, path: string, graceSeconds: number | undefined): FieldError[] {
  switch (kind) {
    case 'exec':
      return textsAt(action, 'command').length === 0 ? [requiredField(`${path}.command`, '')] : [];
    case 'httpGet': {
      const scheme = textAt(action, 'scheme');
      return [
        ...(textAt(action, 'path') === '' ? [requiredField(`${path}.path`, '')] : []),
        ...port(action, path),
        ...(['HTTP', 'HTTPS'].includes(scheme) ? [] : [notSupported(`${path}.scheme`, scheme, ['HTTP', 'HTTPS'])]),
      ];
    }
    case 'sleep': {
      const seconds = numberAt(action, 'seconds') ?? 0;
      if (graceSeconds === undefined || (seconds >= 0 && seconds <= graceSeconds)) return [];
      const detail = `must be non-negative and less than terminationGracePeriodSeconds (${graceSeconds})`;
      return [invalidValue(path, seconds, detail)];
    }
    default:
      return port(action, path);
  }
}

function port(action: JsonObject, path: string): FieldError[] {
  const value = action['port'] ?? 0;
  return typeof value === 'string' ? portName(`${path}.port`, value) : portNumber(`${path}.port`, value);
}

const MAX_PORT_NAME = 15;

/**
 * Checks the name of a port.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/util/validation/validation.go
 */
export function portName(path: string, name: string): FieldError[] {
  const errors: string[] = [];
  if (name.length > MAX_PORT_NAME) errors.push(`must be no more than ${MAX_PORT_NAME} bytes`);
  if (!/^[-a-z0-9]+$/.test(name)) {
    errors.push('must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)');
  }
  if (!/[a-z]/.test(name)) errors.push('must contain at least one letter (a-z)');
  if (name.includes('--')) errors.push('must not contain consecutive hyphens');
  if (name.startsWith('-') || name.endsWith('-')) errors.push('must not begin or end with a hyphen');
  return errors.map((error) => invalidValue(path, name, error));
}
