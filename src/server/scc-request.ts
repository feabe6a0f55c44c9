import type { AdmissionRequest } from '../kube/admission.ts';
import type { SccInput } from '../policy/scc/request.ts';

/** The part of a decision's input that comes with the request. */
export function inputOf(
  request: AdmissionRequest,
): Pick<SccInput, 'operation' | 'subResource' | 'object' | 'oldObject' | 'userInfo'> {
  const { operation, subResource, object, oldObject, userInfo } = request;
  return { operation, subResource, object, oldObject, userInfo };
}

/** True for requests about pods, whatever they do with them. */
export function isPodRequest({ resource }: Pick<AdmissionRequest, 'resource'>): boolean {
  return resource.resource === 'pods' && (resource.group ?? '') === '';
}
