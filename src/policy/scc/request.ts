/**
 * Security context constraints: which SCC admits a pod, and what the pod becomes under it.
 *
 * The folder decides and nothing else: who may use an SCC beyond its own `users` and `groups` comes in as a predicate,
 * the ranges of a namespace as its annotations. It never throws, whatever it is given; what cannot be understood is
 * refused. Objects that it is given are revisions: they do not change afterwards, since what was read from them is kept.
 */
import { deepEqual, semanticEqual } from '../../kube/equality.ts';
import { POD_SCC_ANNOTATIONS, type SecurityContextConstraints } from '../../kube/scc.ts';
import { isObject, type JsonObject, type Namespace, type UserInfo } from '../../kube/types.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import { printJson } from '../../kube/text.ts';
import { decodePod, hasTooManyKeys, type PodFields } from './decode/pod.ts';
import type { Operation, Allowed, Denied } from '../../kube/admission.ts';

const IGNORED_SUBRESOURCES = new Set('exec attach binding eviction log portforward proxy status'.split(' '));
/** Set by the network plugin while the pod runs. */
const IGNORED_ANNOTATIONS = new Set(['k8s.ovn.org/pod-networks']);
/** What garbage collection changes, and what the API server keeps for itself. Annotations are looked at one by one. */
const IGNORED_METADATA = new Set(['annotations', 'ownerReferences', 'finalizers', 'selfLink', 'managedFields']);
const COMPARED_APART = new Set(['metadata', 'spec']);

/** True for subresources that carry no pod, or none that is run. */
function isIgnoredSubresource(subresource: string | undefined): boolean {
  return subresource !== undefined && IGNORED_SUBRESOURCES.has(subresource);
}

/** True if the pod says that it runs on Windows, where SCCs mean nothing. */
function isWindowsPod(pod: JsonObject): boolean {
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

/** A request that must be judged; `oldPod` on updates only. */
interface JudgedRequest {
  readonly pod: PodFields;
  readonly oldPod: JsonObject | undefined;
}

/** What becomes of a request before any SCC is looked at. */
type ReadRequest =
  | { readonly verdict: 'judge'; readonly request: JudgedRequest }
  | { readonly verdict: 'ignore' }
  | { readonly verdict: 'refuse'; readonly message: string };

/** Sorts out requests that SCCs have nothing to do with, and those whose objects are no pods. */
export function readRequest({ operation, subResource, object, oldObject }: SccInput): ReadRequest {
  const isUpdate = operation === 'UPDATE';
  if ((!isUpdate && operation !== 'CREATE') || isIgnoredSubresource(subResource)) return { verdict: 'ignore' };
  if (!isObject(object) || isOfAnotherKind(object)) return cannotConvert(object);
  if (isWindowsPod(object)) return { verdict: 'ignore' };
  if (!isUpdate) return decode(object, undefined);
  if (!isObject(oldObject)) return cannotConvert(oldObject);
  // Not compared: it would take long, and what is refused anyway needs no comparison.
  if (hasTooManyKeys(object) || hasTooManyKeys(oldObject)) return decode(object, oldObject);
  return isIgnoredUpdate(object, oldObject) ? { verdict: 'ignore' } : decode(object, oldObject);
}

function decode(object: JsonObject, oldPod: JsonObject | undefined): ReadRequest {
  const decoded = decodePod(object);
  if ('error' in decoded) return refuse(formatFieldError(decoded.error));
  return { verdict: 'judge', request: { pod: decoded.pod, oldPod } };
}

/** Some subresource of pods may carry another kind one day. */
function isOfAnotherKind({ kind }: JsonObject): boolean {
  return kind != null && kind !== 'Pod';
}

function cannotConvert(object: unknown): ReadRequest {
  return refuse(printJson(object ?? null));
}

function refuse(what: string): ReadRequest {
  return { verdict: 'refuse', message: `object was marked as kind pod but was unable to be converted: ${what}` };
}

export type { SecurityContextConstraints } from '../../kube/scc.ts';

/** Somebody who may be allowed to use an SCC: the requester, or the service account of the pod. */
export interface Subject {
  readonly username: string;
  readonly groups: readonly string[];
  readonly uid?: string;
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/**
 * True if the subject may `use` the SCC of that name in the namespace, by the authorizer alone: the `users` and `groups`
 * of the SCC are judged elsewhere.
 */
export interface CanUse {
  (subject: Subject, sccName: string, namespaceName: string): boolean;
  /** All SCCs for which it says yes, where they are known at once: asked for once, instead of for each of many SCCs. */
  readonly namesFor?: (subject: Subject, namespaceName: string) => ReadonlySet<string> | 'any';
}

/** Where this program deviates from OpenShift, unless told otherwise. */
export interface Deviations {
  /**
   * The groups of a pod's service account. `accurate` (the default): all that it really has. `openshift`: without
   * `system:authenticated`, so that most pods are admitted as their `user`.
   */
  readonly identity?: 'accurate' | 'openshift';
  /** `skip` (the default): an SCC that cannot work fits no pod. `refuse`: it stops every pod. */
  readonly brokenScc?: 'skip' | 'refuse';
  /** SCCs without which no pod is admitted; none by default. */
  readonly requiredSccs?: readonly string[];
  /**
   * `pass` (the default): an update goes through if it leaves the spec of the pod as it is and the pod never carried
   * `openshift.io/scc`. `judge`: it is judged like any other.
   */
  readonly unprocessedPods?: 'pass' | 'judge';
}

/** `openshift` is the original in everything. */
export type Compatibility = 'openshift' | Deviations;

/** All that the decision about one request for a pod needs. */
export interface SccInput {
  readonly operation: Operation;
  readonly subResource?: string | undefined;
  /** The pod; unknown on purpose: nothing has checked it. */
  readonly object: unknown;
  readonly oldObject?: unknown;
  readonly namespace: Namespace;
  readonly userInfo: UserInfo;
  readonly sccs: readonly SecurityContextConstraints[];
  readonly canUse: CanUse;
  readonly compatibility?: Compatibility | undefined;
  /**
   * Of SCCs with equal priority and score, try those first that require a user namespace, if the pod has one.
   * Off by default.
   */
  readonly preferUserNamespaces?: boolean | undefined;
}

interface Remarks {
  readonly warnings: readonly string[];
  /** Without the prefix that the API server puts in front. */
  readonly auditAnnotations: Readonly<Record<string, string>>;
  /** The SCC that admits the pod; absent of a pod that is refused or has nothing to do with SCCs. */
  readonly facts?: SccFacts;
}

/** Which SCC admits a pod, and who was allowed to use it. */
export type SccFacts = Readonly<Record<'scc' | 'subjectType', string>>;

/**
 * The answer to a request. Of the pass that assigns, `object` is the pod as admitted, which shares with the input all that
 * did not change; of the pass that validates there is none. `status.message` is the text without `pods "…" is forbidden: `.
 */
export type SccDecision = (Allowed & Remarks) | (Denied & Remarks);
