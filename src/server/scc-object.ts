import type { AdmissionRequest } from '../kube/admission.ts';
import type { FieldError } from '../kube/field-error.ts';
import { RESOURCES } from '../kube/resources.ts';
import type { SecurityContextConstraints } from '../kube/scc.ts';
import { invalid, type Status } from '../kube/status.ts';
import { isObject } from '../kube/types.ts';

const { group, resource } = RESOURCES.SecurityContextConstraints;
const KIND = { group, kind: 'SecurityContextConstraints' };

/** The SCC that a request writes, its fields of any type; `undefined` where it writes none. */
export function sccOf(request: AdmissionRequest): SecurityContextConstraints | undefined {
  const { operation, subResource = '' } = request;
  if (request.resource.group !== group || request.resource.resource !== resource || subResource !== '')
    return undefined;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return undefined;
  return isObject(request.object) ? request.object : {};
}

/** 422, in the words of the API server. */
export function refuseScc(request: AdmissionRequest, errors: readonly FieldError[]): Status {
  const metadata = isObject(request.object) ? request.object['metadata'] : undefined;
  const name = isObject(metadata) ? metadata['name'] : undefined;
  return invalid(KIND, typeof name === 'string' ? name : (request.name ?? ''), errors);
}
