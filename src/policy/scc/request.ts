/** Requests for pods: the input of a decision, its result, and the requests that SCC admission ignores. */
import type { Allowed, Denied, Operation } from '../../kube/admission.ts';
import { deepEqual, semanticEqual } from '../../kube/equality.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { printJson } from '../../kube/text.ts';
import { createStatus, tooLarge, type Status } from '../../kube/status.ts';
import { isObject, type JsonObject, type Namespace, type UserInfo } from '../../kube/types.ts';
import { findCompletionError, type PodFields } from '../pod/pod.ts';
import { POD_NETWORKS_ANNOTATION } from '../pod/selection.ts';
import type { CanUse } from './access.ts';
import type { Compatibility } from './mode.ts';
import type { NamespaceRanges } from './namespace.ts';
import type { SccSet } from './order.ts';
import { decodeSccPod } from './pod.ts';

/** The input of a decision on one request for a pod. */
export interface SccInput {
  readonly operation: Operation;
  readonly subResource?: string | undefined;
  /** The pod as sent, without any validation. */
  readonly object: unknown;
  readonly oldObject?: unknown;
  readonly namespace: Namespace;
  /** The ranges of the namespace, if they are kept between decisions. By default, they are read from its annotations. */
  readonly namespaceRanges?: NamespaceRanges | undefined;
  readonly userInfo: UserInfo;
  /** All SCCs of the cluster. A set that is kept between decisions saves their preparation. */
  readonly sccs: readonly SecurityContextConstraints[] | SccSet;
  readonly canUse: CanUse;
  readonly compatibility?: Compatibility | undefined;
  /**
   * For a pod with a user namespace, SCCs that require one come first among those of equal priority and points. Off by
   * default.
   */
  readonly preferUserNamespaces?: boolean | undefined;
  /** True if the decision is only reported, which warnings state. */
  readonly isReported?: boolean | undefined;
}

interface Details {
  readonly warnings: readonly string[];
  /** Without the webhook name, which the API server adds as prefix. */
  readonly auditAnnotations: Readonly<Record<string, string>>;
  /** Absent if the pod is denied or SCCs do not apply to it. */
  readonly facts?: SccFacts;
}

/** The name of the SCC that admits the pod, and the type of the subject that may use it. */
export type SccFacts = Readonly<Record<'scc' | 'subjectType', string>>;

/**
 * The decision on a request. `object` is the admitted pod of the mutating pass, which shares unchanged parts with the
 * input. `status.message` does not include the prefix `pods "…" is forbidden: `.
 */
export type SccDecision = (Allowed & Details) | (Denied & Details);

/** A request. `evaluate`: SCC admission evaluates it; `oldPod` is set for updates only. */
export type ReadRequest =
  | { readonly verdict: 'evaluate'; readonly pod: PodFields; readonly oldPod: JsonObject | undefined }
  | { readonly verdict: 'ignore' }
  | { readonly verdict: 'deny'; readonly status: Status };

/** Subresources without a pod, or without a pod spec. */
const IGNORED_SUBRESOURCES = new Set('exec attach binding eviction log portforward proxy status'.split(' '));

/** Decides whether a request is evaluated: others are ignored, and objects that are not pods are denied. */
export function readRequest({ operation, subResource, object, oldObject }: SccInput): ReadRequest {
  const isUpdate = operation === 'UPDATE';
  if (!isUpdate && operation !== 'CREATE') return { verdict: 'ignore' };
  if (subResource !== undefined && IGNORED_SUBRESOURCES.has(subResource)) return { verdict: 'ignore' };
  // A future subresource of pods may contain another kind.
  if (!isObject(object) || (object['kind'] != null && object['kind'] !== 'Pod')) return cannotConvert(object);
  if (getObject(getObject(object, 'spec'), 'os')['name'] === 'windows') return { verdict: 'ignore' };
  if (!isUpdate) return decode(object, undefined);
  if (!isObject(oldObject)) return cannotConvert(oldObject);
  return isIgnoredUpdate(object, oldObject) ? { verdict: 'ignore' } : decode(object, oldObject);
}

function decode(object: JsonObject, oldPod: JsonObject | undefined): ReadRequest {
  const decoded = decodeSccPod(object);
  if ('error' in decoded) {
    const { error } = decoded;
    const message = formatFieldError(error);
    return error.type === 'FieldValueTooMany' ? { verdict: 'deny', status: tooLarge(message) } : deny(message);
  }
  return { verdict: 'evaluate', pod: decoded.pod, oldPod };
}

/** As `readRequest`, for the creation of a pod that has been decoded. */
export function readDecoded(pod: PodFields): ReadRequest {
  if (pod.osName === 'windows') return { verdict: 'ignore' };
  const error = findCompletionError(pod);
  return error ? deny(formatFieldError(error)) : { verdict: 'evaluate', pod, oldPod: undefined };
}

function cannotConvert(object: unknown): ReadRequest {
  return deny(printJson(object ?? null));
}

function deny(cause: string): ReadRequest {
  const message = `object was marked as kind pod but was unable to be converted: ${cause}`;
  return { verdict: 'deny', status: createStatus(403, 'Forbidden', message) };
}

const IGNORED_ANNOTATIONS = new Set([POD_NETWORKS_ANNOTATION]);
/** Fields that the garbage collector and the API server change. Annotations are compared separately. */
const IGNORED_METADATA = new Set(['annotations', 'ownerReferences', 'finalizers', 'selfLink', 'managedFields']);
const COMPARED_SEPARATELY = new Set(['metadata', 'spec']);

/**
 * True if an update changes nothing that SCC admission evaluates.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export function isIgnoredUpdate(pod: JsonObject, oldPod: JsonObject): boolean {
  const [metadata, oldMetadata] = [getObject(pod, 'metadata'), getObject(oldPod, 'metadata')];
  const [annotations, oldAnnotations] = [getObject(metadata, 'annotations'), getObject(oldMetadata, 'annotations')];
  return (
    isSpecUnchanged(pod, oldPod) &&
    deepEqual(omit(annotations, IGNORED_ANNOTATIONS), omit(oldAnnotations, IGNORED_ANNOTATIONS)) &&
    semanticEqual(omit(metadata, IGNORED_METADATA), omit(oldMetadata, IGNORED_METADATA)) &&
    semanticEqual(omit(pod, COMPARED_SEPARATELY), omit(oldPod, COMPARED_SEPARATELY))
  );
}

/**
 * True if an update does not change the spec and no SCC is recorded on the pod, because the pod is older than SCC
 * admission. A user with permission to update `pods/status` can remove the record. This does not extend the permissions
 * of the user: only metadata can be changed without evaluation, and `pods/status` allows that too.
 */
export function isWithoutScc(pod: JsonObject, oldPod: JsonObject): boolean {
  const isRecorded = [pod, oldPod].some(
    (object) => getObject(getObject(object, 'metadata'), 'annotations')[POD_SCC_ANNOTATIONS.scc] != null,
  );
  return !isRecorded && isSpecUnchanged(pod, oldPod);
}

/** Scheduling gates are ignored: they are removed before the pod runs. */
function isSpecUnchanged(pod: JsonObject, oldPod: JsonObject): boolean {
  const oldSpec = getObject(oldPod, 'spec');
  return semanticEqual({ ...getObject(pod, 'spec'), schedulingGates: oldSpec['schedulingGates'] }, oldSpec);
}

/** An annotation of a pod of any type; empty if it is absent or not a string. */
export function podAnnotation(pod: unknown, key: string): string {
  const value = isObject(pod) ? getObject(getObject(pod, 'metadata'), 'annotations')[key] : undefined;
  return typeof value === 'string' ? value : '';
}

function omit(object: JsonObject, keys: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.has(key)));
}

function getObject(owner: JsonObject, key: string): JsonObject {
  const member = owner[key];
  return isObject(member) ? member : {};
}
