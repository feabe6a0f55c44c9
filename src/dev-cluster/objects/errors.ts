import { type FieldError, invalidValue, notSupported, requiredField } from '../../kube/field-error.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../kube/names.ts';

/** A reference to something that does not exist. */
export function notFoundValue(path: string, value: unknown): FieldError {
  return { type: 'FieldValueNotFound', path, value, detail: '' };
}

/** One of a list; absent is as well if `required` does not ask for it. */
export function oneOf(path: string, value: unknown, supported: readonly string[]): FieldError[] {
  return value == null || (typeof value === 'string' && supported.includes(value))
    ? []
    : [notSupported(path, value, supported)];
}

export function label(path: string, value: string): FieldError[] {
  return dnsLabelErrors(value).map((error) => invalidValue(path, value, error));
}

export function subdomain(path: string, value: string): FieldError[] {
  return dnsSubdomainErrors(value).map((error) => invalidValue(path, value, error));
}

/** A label that must be there. */
export function requiredLabel(path: string, value: string): FieldError[] {
  return value === '' ? [requiredField(path, '')] : label(path, value);
}

export function nonNegative(path: string, value: unknown): FieldError[] {
  return typeof value === 'number' && value < 0
    ? [invalidValue(path, value, 'must be greater than or equal to 0')]
    : [];
}

/** A number in a range, both ends included. */
export function inRange(path: string, value: unknown, min: number, max: number): FieldError[] {
  if (typeof value !== 'number' || (value >= min && value <= max)) return [];
  return [invalidValue(path, value, `must be between ${min} and ${max}, inclusive`)];
}

const MAX_ID = 2147483647;
const MAX_PORT = 65535;

/** A user or group ID of Linux. */
export function id(path: string, value: unknown): FieldError[] {
  return inRange(path, value, 0, MAX_ID);
}

export function portNumber(path: string, value: unknown): FieldError[] {
  return inRange(path, value, 1, MAX_PORT);
}

/** A path below the place where it is used: not absolute, without steps back. */
export function descendingPath(path: string, value: string): FieldError[] {
  return value.startsWith('/') ? [invalidValue(path, value, 'must be a relative path')] : noBacksteps(path, value);
}

export function noBacksteps(path: string, value: string): FieldError[] {
  return value.split('/').includes('..') ? [invalidValue(path, value, "must not contain '..'")] : [];
}
