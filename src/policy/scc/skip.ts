import { deepEqual, semanticEqual } from '../../kube/equality.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';

const IGNORED_SUBRESOURCES = new Set('exec attach binding eviction log portforward proxy status'.split(' '));
/** Set by the network plugin while the pod runs. */
const IGNORED_ANNOTATIONS = new Set(['k8s.ovn.org/pod-networks']);
/** What garbage collection changes, and what the API server keeps for itself. Annotations are looked at one by one. */
const IGNORED_METADATA = new Set(['annotations', 'ownerReferences', 'finalizers', 'selfLink', 'managedFields']);
const COMPARED_APART = new Set(['metadata', 'spec']);

/** True for subresources that carry no pod, or none that is run. */
export function isIgnoredSubresource(subresource: string | undefined): boolean {
  return subresource !== undefined && IGNORED_SUBRESOURCES.has(subresource);
}

/** True if the pod says that it runs on Windows, where SCCs mean nothing. */
export function isWindowsPod(pod: JsonObject): boolean {
  return memberOf(memberOf(pod, 'spec'), 'os')['name'] === 'windows';
}

/**
 * True if an update changes nothing that SCCs have to do with.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export function isIgnoredUpdate(pod: JsonObject, oldPod: JsonObject): boolean {
  return isSpecUnchanged(pod, oldPod) && isRestUnchanged(pod, oldPod);
}

/**
 * True if an update leaves the spec as it is and no SCC is recorded on the pod: it was created before there were any.
 * Whoever may update `pods/status` can remove the record, and pass from then on; that gains nothing, since only metadata
 * passes here, and `pods/status`, which SCCs never judge, lets the same people change it anyway.
 */
export function isUnprocessed(pod: JsonObject, oldPod: JsonObject): boolean {
  const isRecorded = [pod, oldPod].some((object) => annotationsOf(object)[POD_SCC_ANNOTATIONS.scc] != null);
  return !isRecorded && isSpecUnchanged(pod, oldPod);
}

/** Scheduling gates do not count: they go away before the pod runs. */
function isSpecUnchanged(pod: JsonObject, oldPod: JsonObject): boolean {
  const oldSpec = memberOf(oldPod, 'spec');
  return semanticEqual({ ...memberOf(pod, 'spec'), schedulingGates: oldSpec['schedulingGates'] }, oldSpec);
}

function isRestUnchanged(pod: JsonObject, oldPod: JsonObject): boolean {
  return (
    deepEqual(without(annotationsOf(pod), IGNORED_ANNOTATIONS), without(annotationsOf(oldPod), IGNORED_ANNOTATIONS)) &&
    semanticEqual(
      without(memberOf(pod, 'metadata'), IGNORED_METADATA),
      without(memberOf(oldPod, 'metadata'), IGNORED_METADATA),
    ) &&
    semanticEqual(without(pod, COMPARED_APART), without(oldPod, COMPARED_APART))
  );
}

function annotationsOf(pod: JsonObject): JsonObject {
  return memberOf(memberOf(pod, 'metadata'), 'annotations');
}

function without(object: JsonObject, keys: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.has(key)));
}

function memberOf(object: JsonObject, key: string): JsonObject {
  const member = object[key];
  return isObject(member) ? member : {};
}
