/**
 * Admission by security context constraints.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
import { at, copy, isObject, type JsonObject, mapAt, memoize, textAt } from './json.ts';
import { matchesType, SCC_POD_SCHEMA } from './object-schema.ts';
import { annotate, fill } from './scc-fill.ts';
import { type Authorizer, serviceAccountSubject, sortSccs, type Subject, subjectTypeFor } from './scc-order.ts';
import { createProvider, hasRanges } from './scc-ranges.ts';
import { findProblems } from './scc-validate.ts';
import { areEqual, without } from './semantic-equality.ts';

export interface SccEnvironment {
  readonly sccs: readonly JsonObject[];
  /** `undefined` if the namespace does not exist. */
  readonly namespace: JsonObject | undefined;
  readonly authorizer: Authorizer;
}

export interface SccVerdict {
  readonly allowed: boolean;
  /** The reason, which failed tests print. */
  readonly why: string;
  /** The SCC and the subject that allow the pod. */
  readonly scc?: string;
  readonly subjectType?: 'serviceaccount' | 'user';
  /** The defaulted pod. Absent if admission skips the request. */
  readonly pod?: JsonObject;
}

const REQUIRED_SCC = 'openshift.io/required-scc';
const RECORDED_SCC = 'openshift.io/scc';
const SUBJECT_TYPE = 'security.openshift.io/validated-scc-subject-type';

function annotation(pod: unknown, key: string): string {
  return mapAt(pod, 'metadata', 'annotations').get(key) ?? '';
}

const deny = (why: string): SccVerdict => ({ allowed: false, why });
const skip = (why: string): SccVerdict => ({ allowed: true, why });

/** The Portcullis label for the SCC mode of a namespace. */
export function sccMode(
  namespace: unknown,
  { exempt, mode }: { readonly exempt: readonly string[]; readonly mode: string },
): string {
  const labels = mapAt(namespace, 'metadata', 'labels');
  if (mode === 'off' || exempt.includes(textAt(namespace, 'metadata', 'name'))) return 'off';
  if (['0', '1'].includes(labels.get('openshift.io/run-level') ?? '')) return 'off';
  if (labels.get('security.openshift.io/disable-securitycontextconstraints') === 'true') return 'off';
  const label = labels.get('portcullis.dev/scc');
  if (label === undefined) return mode;
  return ['enforce', 'report', 'off'].includes(label) ? label : 'enforce';
}

/** Returns a verdict if admission skips the request or cannot decode it. */
function checkScope(request: JsonObject): SccVerdict | undefined {
  if (textAt(request, 'resource', 'group') !== '' || textAt(request, 'resource', 'resource') !== 'pods') {
    return skip('no pod');
  }
  const ignored = ['exec', 'attach', 'binding', 'eviction', 'log', 'portforward', 'proxy', 'status'];
  if (ignored.includes(textAt(request, 'subResource'))) return skip('subresource');
  const operation = textAt(request, 'operation');
  if (operation !== 'CREATE' && operation !== 'UPDATE') return skip('operation');
  const { object: pod, oldObject: old } = request;
  if ((textAt(pod, 'kind') || 'Pod') !== 'Pod') return deny('no pod');
  // A skipped pod needs no valid types.
  if (isObject(pod) && at(pod, 'spec', 'os', 'name') === 'windows') return skip('windows');
  const isUnchanged = operation === 'UPDATE' && isObject(pod) && isObject(old) && isSpecUnchanged(pod, old);
  if (isUnchanged && isMetadataIgnorable(pod, old)) return skip('no relevant change');
  return isPod(request) ? undefined : deny('no pod');
}

/** Deviation from OpenShift for updates that do not change the spec of a pod without a recorded SCC. */
function isUnprocessedUpdate({ operation, object, oldObject }: JsonObject): boolean {
  if (operation !== 'UPDATE') return false;
  const isRecorded = [object, oldObject].some((pod) => mapAt(pod, 'metadata', 'annotations').has(RECORDED_SCC));
  return !isRecorded && isSpecUnchanged(object, oldObject);
}

function isPod(request: JsonObject): boolean {
  const { object } = request;
  return isObject(object) && matchesPod(object);
}

const matchesPod = memoize((object) => matchesType(object, SCC_POD_SCHEMA));

function isSpecUnchanged(pod: unknown, old: unknown): boolean {
  return areEqual(without(at(pod, 'spec'), 'schedulingGates'), without(at(old, 'spec'), 'schedulingGates'));
}

function isMetadataIgnorable(pod: unknown, old: unknown): boolean {
  const rest = (object: unknown): JsonObject => {
    const metadata = without(
      at(object, 'metadata'),
      ...['ownerReferences', 'finalizers', 'selfLink', 'managedFields', 'annotations'],
    );
    const annotations = without(at(object, 'metadata', 'annotations'), 'k8s.ovn.org/pod-networks');
    return { ...without(object, 'spec', 'metadata'), metadata: { ...metadata, annotations } };
  };
  return areEqual(rest(pod), rest(old));
}

export function firstPass(request: JsonObject, surroundings: SccEnvironment): SccVerdict {
  const outOfScope = checkScope(request);
  if (outOfScope) return outOfScope;
  const pod = request['object'] as JsonObject;
  const isUpdate = request['operation'] === 'UPDATE';
  const required = annotation(pod, REQUIRED_SCC);
  if (isUpdate && required !== annotation(request['oldObject'], REQUIRED_SCC)) return deny('required-scc changed');
  if (isUnprocessedUpdate(request)) return skip('no recorded SCC');
  const isEphemeral = textAt(request, 'subResource') === 'ephemeralcontainers';
  const mutation = !isUpdate ? 'everything' : isEphemeral ? 'ephemeral containers' : 'nothing';
  const verdict = evaluate(request, surroundings, { mutation, required, recorded: '' });
  if (!verdict.allowed) return verdict;
  const completed = copy(verdict.pod) as Record<string, unknown>;
  annotate(completed, RECORDED_SCC, verdict.scc ?? '');
  annotate(completed, SUBJECT_TYPE, verdict.subjectType ?? '');
  return { ...verdict, pod: completed };
}

export function secondPass(request: JsonObject, surroundings: SccEnvironment): SccVerdict {
  const outOfScope = checkScope(request);
  if (outOfScope) return outOfScope;
  if (isUnprocessedUpdate(request)) return skip('no recorded SCC');
  const required = annotation(request['object'], REQUIRED_SCC);
  const recorded = annotation(request['object'], RECORDED_SCC);
  if (required !== '' && required !== recorded) return deny('required-scc differs from the recorded SCC');
  return evaluate(request, surroundings, { mutation: 'nothing', required, recorded });
}

/** Evaluates exec and attach as if the caller created the stored pod. */
export function evaluateExec(
  request: JsonObject,
  pod: JsonObject | undefined,
  surroundings: SccEnvironment,
): SccVerdict {
  const isPodResource =
    textAt(request, 'resource', 'group') === '' && textAt(request, 'resource', 'resource') === 'pods';
  const subresource = textAt(request, 'subResource');
  if (request['operation'] !== 'CONNECT' || !isPodResource || !['exec', 'attach'].includes(subresource)) {
    return skip('no exec');
  }
  if (pod === undefined) return deny('there is no such pod');
  const creation = { ...request, operation: 'CREATE', subResource: '', object: pod, kind: { kind: 'Pod' } };
  return firstPass(creation, surroundings);
}

interface Pass {
  readonly mutation: 'everything' | 'ephemeral containers' | 'nothing';
  readonly required: string;
  readonly recorded: string;
}

function evaluate(request: JsonObject, surroundings: SccEnvironment, pass: Pass): SccVerdict {
  const { sccs, namespace } = surroundings;
  const pod = request['object'] as JsonObject;
  if (namespace === undefined || !hasRanges(namespace)) return deny('the namespace has no ranges');

  const candidates = listCandidates(sccs, pass);
  if (candidates.length === 0) return deny('no SCC');

  const namespaceName = textAt(request, 'namespace');
  const access = {
    user: getUser(request),
    serviceAccount: serviceAccountSubject(pod, namespaceName),
    namespace: namespaceName,
    authorizer: surroundings.authorizer,
  };
  const reasons: string[] = [];
  for (const scc of candidates) {
    const subjectType = subjectTypeFor(scc, access);
    if (subjectType === undefined) {
      reasons.push(`${textAt(scc, 'metadata', 'name')}: not usable`);
      continue;
    }
    // Deviation from OpenShift, because SCCs that cannot be bound to the namespace are skipped.
    const provider = createProvider(scc, namespace);
    if (!provider) continue;
    const filled = fill(pod, provider);
    const problems = findProblems(filled, provider);
    if (problems.length > 0) {
      reasons.push(`${provider.name}: ${problems.join(', ')}`);
      continue;
    }
    if (!isChangeAllowed(pod, filled, pass)) {
      reasons.push(`${provider.name}: would change the pod`);
      continue;
    }
    return { allowed: true, why: `fits ${provider.name}`, scc: provider.name, subjectType, pod: filled };
  }
  return deny(reasons.join('; '));
}

function listCandidates(sccs: readonly JsonObject[], { required, recorded, mutation }: Pass): readonly JsonObject[] {
  const named = (name: string) => (scc: JsonObject) => textAt(scc, 'metadata', 'name') === name;
  if (required !== '') return sccs.filter(named(required));
  const ordered = sortSccs(sccs);
  if (mutation === 'everything' || recorded === '') return ordered;
  const isRecorded = named(recorded);
  return [...ordered.filter(isRecorded), ...ordered.filter((scc) => !isRecorded(scc))];
}

function getUser(request: JsonObject): Subject {
  const groups = at(request, 'userInfo', 'groups');
  return {
    username: textAt(request, 'userInfo', 'username'),
    groups: Array.isArray(groups) ? (groups as readonly string[]) : [],
  };
}

function isChangeAllowed(pod: JsonObject, filled: JsonObject, { mutation }: Pass): boolean {
  if (mutation === 'everything') return true;
  if (mutation === 'nothing') return areEqual(filled, pod);
  const rest = (object: JsonObject): JsonObject => ({
    ...object,
    spec: without(object['spec'], 'ephemeralContainers'),
  });
  return areEqual(rest(filled), rest(pod));
}
