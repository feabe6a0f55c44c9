/** Reads pod requests, and determines which requests SCC admission ignores. */
import type { Operation } from '../../kube/admission.ts';
import { deepEqual, semanticEqual } from '../../kube/equality.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import type { LimitName } from '../../kube/limits.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { createStatus, type Status, tooLarge } from '../../kube/status.ts';
import { printJson } from '../../kube/text.ts';
import { isObject, type JsonObject, type Namespace, type UserInfo, objectMember } from '../../kube/types.ts';
import { decodeMutablePod, findCompletionError, POD_NETWORKS_ANNOTATION, type PodFields } from '../pod/index.ts';
import type { SccAccess } from './access.ts';
import type { Compatibility } from './mode.ts';
import type { NamespaceRanges } from './namespace.ts';
import type { SccSet } from './order.ts';

/** Input for the decision on one pod request. */
export interface SccInput {
  readonly operation: Operation;
  readonly subResource?: string | undefined;
  /** The pod as received, which has not been validated. */
  readonly object: unknown;
  readonly oldObject?: unknown;
  readonly namespace: Namespace;
  /** The namespace ranges if the caller caches them. If absent, they are read from the namespace's annotations. */
  readonly namespaceRanges?: NamespaceRanges | undefined;
  readonly userInfo: UserInfo;
  /** All SCCs in the cluster. Pass an `SccSet` to avoid preparing them for each decision. */
  readonly sccs: readonly SecurityContextConstraints[] | SccSet;
  readonly access: SccAccess;
  readonly compatibility?: Compatibility | undefined;
  /**
   * If true, SCCs that require a user namespace come first among SCCs that have the same priority and score, provided
   * that the pod has one. Defaults to false.
   */
  readonly preferUserNamespaces?: boolean | undefined;
  /** True in report mode, in which warnings describe what SCC admission would do. */
  readonly isReported?: boolean | undefined;
}

/**
 * The result of reading a request. `evaluate` means that SCC admission evaluates the request. `oldPod` is set only for
 * updates.
 */
export type ReadRequest =
  | { readonly verdict: 'evaluate'; readonly pod: PodFields; readonly oldPod: JsonObject | undefined }
  | { readonly verdict: 'ignore' }
  | { readonly verdict: 'deny'; readonly status: Status; readonly limit?: LimitName | undefined };

/** Subresources whose objects are not pods or have no pod spec. */
const IGNORED_SUBRESOURCES = new Set('exec attach binding eviction log portforward proxy status'.split(' '));

/** Determines whether SCC admission evaluates a request, ignores it, or denies it because the object is not a pod. */
export function readRequest({ operation, subResource, object, oldObject }: SccInput): ReadRequest {
  const isUpdate = operation === 'UPDATE';
  if (!isUpdate && operation !== 'CREATE') return { verdict: 'ignore' };
  if (subResource !== undefined && IGNORED_SUBRESOURCES.has(subResource)) return { verdict: 'ignore' };
  // Future pod subresources might use a different kind.
  if (!isObject(object) || (object['kind'] != null && object['kind'] !== 'Pod')) return cannotConvert(object);
  if (objectMember(objectMember(object, 'spec'), 'os')['name'] === 'windows') return { verdict: 'ignore' };
  if (!isUpdate) return decode(object, undefined);
  if (!isObject(oldObject)) return cannotConvert(oldObject);
  return isIgnoredUpdate(object, oldObject) ? { verdict: 'ignore' } : decode(object, oldObject);
}

function decode(object: JsonObject, oldPod: JsonObject | undefined): ReadRequest {
  const decoded = decodeMutablePod(object);
  if ('error' in decoded) {
    const { error } = decoded;
    const message = formatFieldError(error);
    if (error.type !== 'FieldValueTooMany') return deny(message, error.limit);
    return { verdict: 'deny', status: tooLarge(message), limit: error.limit };
  }
  return { verdict: 'evaluate', pod: decoded.pod, oldPod };
}

/** Like `readRequest`, but for the creation of a pod that has already been decoded. */
export function readDecoded(pod: PodFields): ReadRequest {
  if (pod.osName === 'windows') return { verdict: 'ignore' };
  const error = findCompletionError(pod);
  return error ? deny(formatFieldError(error), error.limit) : { verdict: 'evaluate', pod, oldPod: undefined };
}

function cannotConvert(object: unknown): ReadRequest {
  return deny(printJson(object ?? null));
}

function deny(cause: string, limit?: LimitName): ReadRequest {
  const message = `object was marked as kind pod but was unable to be converted: ${cause}`;
  return { verdict: 'deny', status: createStatus(403, 'Forbidden', message), limit };
}

const IGNORED_ANNOTATIONS = new Set([POD_NETWORKS_ANNOTATION]);
/**
 * Metadata fields that are not compared because the garbage collector and the API server change them. Annotations are
 * compared separately.
 */
const IGNORED_METADATA = new Set(['annotations', 'ownerReferences', 'finalizers', 'selfLink', 'managedFields']);
const COMPARED_SEPARATELY = new Set(['metadata', 'spec']);

/**
 * Returns true if an update changes no fields that SCC admission evaluates.
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export function isIgnoredUpdate(pod: JsonObject, oldPod: JsonObject): boolean {
  const [metadata, oldMetadata] = [objectMember(pod, 'metadata'), objectMember(oldPod, 'metadata')];
  const [annotations, oldAnnotations] = [
    objectMember(metadata, 'annotations'),
    objectMember(oldMetadata, 'annotations'),
  ];
  return (
    isSpecUnchanged(pod, oldPod) &&
    deepEqual(omit(annotations, IGNORED_ANNOTATIONS), omit(oldAnnotations, IGNORED_ANNOTATIONS)) &&
    semanticEqual(omit(metadata, IGNORED_METADATA), omit(oldMetadata, IGNORED_METADATA)) &&
    semanticEqual(omit(pod, COMPARED_SEPARATELY), omit(oldPod, COMPARED_SEPARATELY))
  );
}

/**
 * Returns true if a pod has no recorded SCC and an update does not change its spec. A pod without a record was created
 * before SCC admission was installed. A user who may update `pods/status` can remove the record, but gains nothing by
 * this. Only metadata can then be changed without evaluation, which `pods/status` allows anyway.
 */
export function isWithoutScc(pod: JsonObject, oldPod: JsonObject): boolean {
  const isRecorded = [pod, oldPod].some(
    (object) => objectMember(objectMember(object, 'metadata'), 'annotations')[POD_SCC_ANNOTATIONS.scc] != null,
  );
  return !isRecorded && isSpecUnchanged(pod, oldPod);
}

/** Returns true if both specs are equal. Ignores scheduling gates, because they are removed before the pod runs. */
function isSpecUnchanged(pod: JsonObject, oldPod: JsonObject): boolean {
  const oldSpec = objectMember(oldPod, 'spec');
  return semanticEqual({ ...objectMember(pod, 'spec'), schedulingGates: oldSpec['schedulingGates'] }, oldSpec);
}

/** Returns a pod annotation, or an empty string if it is absent or not a string. Accepts pods of any type. */
export function podAnnotation(pod: unknown, key: string): string {
  const value = objectMember(objectMember(pod, 'metadata'), 'annotations')[key];
  return typeof value === 'string' ? value : '';
}

function omit(object: JsonObject, keys: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.has(key)));
}
