import type { GroupVersionKind, GroupVersionResource, JsonObject } from '../../../kube/types.ts';
import type { ApiObject, Attributes, ResourceInfo } from '../../types.ts';

/** The only version of AdmissionReview that is spoken here. */
export const REVIEW_VERSION = 'admission.k8s.io/v1';

/** The AdmissionReview that a webhook receives, as if the request were made of that version of the resource. */
export function reviewOf(uid: string, attributes: Attributes, resource: ResourceInfo): JsonObject {
  return { kind: 'AdmissionReview', apiVersion: REVIEW_VERSION, request: reviewRequest(uid, attributes, resource) };
}

/**
 * The request inside an AdmissionReview.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/request/admissionreview.go
 */
export function reviewRequest(uid: string, attributes: Attributes, resource: ResourceInfo): JsonObject {
  const { subresource, name, namespace, operation } = attributes;
  return {
    uid,
    kind: kindOf(attributes, resource),
    resource: gvr(resource),
    ...(subresource === '' ? {} : { subResource: subresource }),
    requestKind: kindOf(attributes, attributes.resource),
    requestResource: gvr(attributes.resource),
    ...(subresource === '' ? {} : { requestSubResource: subresource }),
    ...(name === '' ? {} : { name }),
    ...(namespace === '' ? {} : { namespace }),
    operation,
    userInfo: userInfo(attributes),
    object: inVersion(attributes.object, attributes, resource) ?? null,
    oldObject: inVersion(attributes.oldObject, attributes, resource) ?? null,
    dryRun: attributes.dryRun,
    options: operation === 'CONNECT' ? null : attributes.options,
  };
}

/** The kind of what is sent: a subresource may have one of its own, such as PodExecOptions. */
function kindOf(attributes: Attributes, resource: ResourceInfo): GroupVersionKind {
  const sent = attributes.object ?? attributes.oldObject;
  const { group, version, kind } = resource;
  if (sent?.kind === undefined || sent.kind === kind) return { group, version, kind };
  const [first = '', second] = (sent.apiVersion ?? '').split('/', 2);
  return { group: second === undefined ? '' : first, version: second ?? first, kind: sent.kind };
}

function gvr({ group, version, resource }: ResourceInfo): GroupVersionResource {
  return { group, version, resource };
}

function userInfo({ user }: Attributes): JsonObject {
  const { username, uid, groups, extra } = user;
  return {
    ...(username == null || username === '' ? {} : { username }),
    ...(uid == null || uid === '' ? {} : { uid }),
    ...(groups == null || groups.length === 0 ? {} : { groups }),
    ...(extra == null || Object.keys(extra).length === 0 ? {} : { extra }),
  };
}

/** Versions of a resource differ in their name only: no other conversion is served. */
export function inVersion(
  object: ApiObject | undefined,
  attributes: Attributes,
  resource: ResourceInfo,
): ApiObject | undefined {
  if (!object || resource.version === attributes.resource.version || object.kind !== resource.kind) return object;
  return { ...object, apiVersion: resource.group === '' ? resource.version : `${resource.group}/${resource.version}` };
}
