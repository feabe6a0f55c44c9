import { invalidValue, requiredField, type FieldError } from '../../../kube/field-error.ts';
import { parseQuantity } from '../../../kube/units.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { objectAt } from '../read.ts';

/** Resources of which more may be promised than there is. */
function mayOvercommit(name: string): boolean {
  return (!name.includes('/') || name.startsWith('kubernetes.io/')) && !name.startsWith('hugepages-');
}

const STANDARD = new Set(['cpu', 'memory', 'ephemeral-storage', 'storage']);

/** Checks requests and limits: sound amounts, no request beyond its limit. */
export function validateResources(resources: JsonObject, path: string): FieldError[] {
  const limits = objectAt(resources, 'limits');
  const requests = objectAt(resources, 'requests');
  return [
    ...Object.entries(limits).flatMap(([name, amount]) => amountErrors(name, amount, `${path}.limits[${name}]`)),
    ...Object.entries(requests).flatMap(([name, amount]) => [
      ...amountErrors(name, amount, `${path}.requests[${name}]`),
      ...requestErrors(name, amount, limits, path),
    ]),
  ];
}

function amountErrors(name: string, amount: unknown, path: string): FieldError[] {
  const isKnown = name.includes('/') || STANDARD.has(name) || name.startsWith('hugepages-');
  const errors = isKnown
    ? []
    : [invalidValue(path, name, 'must be a standard resource type or fully qualified'), standardOnly(path, name)];
  const quantity = parseQuantity(amount) ?? 0n;
  return quantity < 0n ? [...errors, invalidValue(path, amount, 'must be greater than or equal to 0')] : errors;
}

function standardOnly(path: string, name: string): FieldError {
  return invalidValue(path, name, 'must be a standard resource for containers');
}

function requestErrors(name: string, amount: unknown, limits: JsonObject, path: string): FieldError[] {
  const limit = Object.hasOwn(limits, name) ? printed(limits[name]) : undefined;
  if (limit === undefined) {
    return mayOvercommit(name)
      ? []
      : [requiredField(`${path}.limits`, 'Limit must be set for non overcommitable resources')];
  }
  const difference = (parseQuantity(amount) ?? 0n) - (parseQuantity(limit) ?? 0n);
  if (difference !== 0n && !mayOvercommit(name)) {
    return [invalidValue(`${path}.requests`, amount, `must be equal to ${name} limit of ${limit}`)];
  }
  return difference > 0n
    ? [invalidValue(`${path}.requests`, amount, `must be less than or equal to ${name} limit of ${limit}`)]
    : [];
}

/** A quantity may be written as a number. */
function printed(quantity: unknown): string {
  return typeof quantity === 'number' ? String(quantity) : typeof quantity === 'string' ? quantity : '';
}
