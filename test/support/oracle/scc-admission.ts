/** Admission by security context constraints (2), by the numbers of the reference. */
import { at, isObject, mapAt, textAt, type JsonObject } from './json.ts';
import { fits, JUDGED_BY_SCCS } from './object-schema.ts';
import { annotate, fill } from './scc-fill.ts';
import { inOrder, serviceAccountOf, subjectTypeFor, type Authorizer, type Subject } from './scc-order.ts';
import { hasRanges, providerOf, type Provider } from './scc-ranges.ts';
import { problemsOf } from './scc-validate.ts';
import { areEqual, without } from './semantic-equality.ts';

/** Where an installation may deviate from OpenShift. */
export interface SccSettings {
  readonly identity: 'accurate' | 'openshift';
  readonly broken: 'skip' | 'refuse';
  readonly required: readonly string[];
  readonly unprocessed: 'pass' | 'judge';
}

export const OPENSHIFT: SccSettings = {
  identity: 'openshift',
  broken: 'refuse',
  required: [
    'anyuid',
    'hostaccess',
    'hostmount-anyuid',
    'hostnetwork',
    'hostnetwork-v2',
    'nonroot',
    'nonroot-v2',
    'privileged',
    'restricted',
    'restricted-v2',
  ],
  unprocessed: 'judge',
};

export const PORTCULLIS: SccSettings = { identity: 'accurate', broken: 'skip', required: [], unprocessed: 'pass' };

export interface SccSurroundings {
  readonly sccs: readonly JsonObject[];
  /** Undefined if there is none. */
  readonly namespace: JsonObject | undefined;
  readonly authorizer: Authorizer;
  readonly settings: SccSettings;
}

export interface SccVerdict {
  readonly allowed: boolean;
  /** For people. */
  readonly why: string;
  /** Of what was judged and allowed. */
  readonly scc?: string;
  readonly subjectType?: 'serviceaccount' | 'user';
  /** What becomes of the pod; absent if nothing was judged. */
  readonly pod?: JsonObject;
}

const REQUIRED_SCC = 'openshift.io/required-scc';
const RECORDED_SCC = 'openshift.io/scc';
const SUBJECT_TYPE = 'security.openshift.io/validated-scc-subject-type';

function annotation(pod: unknown, key: string): string {
  return mapAt(pod, 'metadata', 'annotations').get(key) ?? '';
}

const refuse = (why: string): SccVerdict => ({ allowed: false, why });
const skip = (why: string): SccVerdict => ({ allowed: true, why });

/** 2.2, and the label of this program that says what SCCs do in a namespace. */
export function modeIn(
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

/** 2.3: why the request is not judged, or that it cannot be. */
function scopeOf(request: JsonObject): SccVerdict | undefined {
  // 1, 2
  if (textAt(request, 'resource', 'group') !== '' || textAt(request, 'resource', 'resource') !== 'pods') {
    return skip('no pod');
  }
  const ignored = ['exec', 'attach', 'binding', 'eviction', 'log', 'portforward', 'proxy', 'status'];
  if (ignored.includes(textAt(request, 'subResource'))) return skip('subresource');
  const operation = textAt(request, 'operation');
  if (operation !== 'CREATE' && operation !== 'UPDATE') return skip('operation');
  // 3, its kind
  const { object: pod, oldObject: old } = request;
  if ((textAt(pod, 'kind') || 'Pod') !== 'Pod') return refuse('no pod');
  // 4 and 5 before the rest of 3: where nothing is judged, nothing needs the right type.
  if (isObject(pod) && at(pod, 'spec', 'os', 'name') === 'windows') return skip('windows');
  const isUnchanged = operation === 'UPDATE' && isObject(pod) && isObject(old) && isSpecUnchanged(pod, old);
  if (isUnchanged && isMetadataIgnorable(pod, old)) return skip('nothing of interest changes');
  // 3
  return isPod(request) ? undefined : refuse('no pod');
}

/** A deviation: an update that leaves the spec as it is, of a pod that no SCC was ever recorded on. */
function isLeftAlone({ operation, object, oldObject }: JsonObject, { settings }: SccSurroundings): boolean {
  if (settings.unprocessed !== 'pass' || operation !== 'UPDATE') return false;
  const isRecorded = [object, oldObject].some((pod) => mapAt(pod, 'metadata', 'annotations').has(RECORDED_SCC));
  return !isRecorded && isSpecUnchanged(object, oldObject);
}

function isPod(request: JsonObject): boolean {
  const { object } = request;
  return isObject(object) && fits(object, JUDGED_BY_SCCS);
}

/** 2.3, rule 5 */
export function isSpecUnchanged(pod: unknown, old: unknown): boolean {
  return areEqual(without(at(pod, 'spec'), 'schedulingGates'), without(at(old, 'spec'), 'schedulingGates'));
}

/** 2.3, rule 5 */
export function isMetadataIgnorable(pod: unknown, old: unknown): boolean {
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

/** 2.4 */
export function firstPass(request: JsonObject, surroundings: SccSurroundings): SccVerdict {
  const outOfScope = scopeOf(request);
  if (outOfScope) return outOfScope;
  const pod = request['object'] as JsonObject;
  const isUpdate = request['operation'] === 'UPDATE';
  // 1
  const required = annotation(pod, REQUIRED_SCC);
  if (isUpdate && required !== annotation(request['oldObject'], REQUIRED_SCC)) return refuse('required-scc changed');
  if (isLeftAlone(request, surroundings)) return skip('from before there were SCCs');
  // 2
  const isEphemeral = textAt(request, 'subResource') === 'ephemeralcontainers';
  const mutation = !isUpdate ? 'everything' : isEphemeral ? 'ephemeral containers' : 'nothing';
  // 3
  const verdict = evaluate(request, surroundings, { mutation, required, recorded: '' });
  if (!verdict.allowed) return verdict;
  // 4
  const completed = structuredClone(verdict.pod) as Record<string, unknown>;
  annotate(completed, RECORDED_SCC, verdict.scc ?? '');
  annotate(completed, SUBJECT_TYPE, verdict.subjectType ?? '');
  return { ...verdict, pod: completed };
}

/** 2.5 */
export function secondPass(request: JsonObject, surroundings: SccSurroundings): SccVerdict {
  // 1
  const outOfScope = scopeOf(request);
  if (outOfScope) return outOfScope;
  if (isLeftAlone(request, surroundings)) return skip('from before there were SCCs');
  // 2
  const required = annotation(request['object'], REQUIRED_SCC);
  const recorded = annotation(request['object'], RECORDED_SCC);
  if (required !== '' && required !== recorded) return refuse('required-scc is not the recorded one');
  // 3 to 5
  return evaluate(request, surroundings, { mutation: 'nothing', required, recorded });
}

/** 2.11: exec and attach into a stored pod, as if the caller created it now. */
export function judgeExec(request: JsonObject, pod: JsonObject | undefined, surroundings: SccSurroundings): SccVerdict {
  const isPodResource =
    textAt(request, 'resource', 'group') === '' && textAt(request, 'resource', 'resource') === 'pods';
  const subresource = textAt(request, 'subResource');
  if (request['operation'] !== 'CONNECT' || !isPodResource || !['exec', 'attach'].includes(subresource)) {
    return skip('no exec');
  }
  if (pod === undefined) return refuse('there is no such pod');
  const creation = { ...request, operation: 'CREATE', subResource: '', object: pod, kind: { kind: 'Pod' } };
  return firstPass(creation, surroundings);
}

interface Pass {
  readonly mutation: 'everything' | 'ephemeral containers' | 'nothing';
  readonly required: string;
  readonly recorded: string;
}

/** 2.6 */
function evaluate(request: JsonObject, surroundings: SccSurroundings, pass: Pass): SccVerdict {
  const { sccs, namespace, settings } = surroundings;
  const pod = request['object'] as JsonObject;
  const names = sccs.map((scc) => textAt(scc, 'metadata', 'name'));
  // 2.8
  const missing = settings.required.filter((name) => !names.includes(name));
  if (missing.length > 0) return refuse(`missing SCCs ${missing.join(', ')}`);
  if (namespace === undefined || !hasRanges(namespace)) return refuse('the namespace has no ranges');

  const candidates = listCandidates(sccs, pass);
  if (candidates.length === 0) return refuse('no SCC');
  const providers: Provider[] = [];
  for (const scc of candidates) {
    const provider = providerOf(scc, namespace);
    if (provider !== undefined) providers.push(provider);
    else if (settings.broken === 'refuse') return refuse(`broken SCC ${textAt(scc, 'metadata', 'name')}`);
  }

  const namespaceName = textAt(request, 'namespace');
  const access = {
    user: userOf(request),
    serviceAccount: serviceAccountOf(pod, namespaceName, settings.identity),
    namespace: namespaceName,
    authorizer: surroundings.authorizer,
  };
  const reasons: string[] = [];
  for (const provider of providers) {
    // 1
    const subjectType = subjectTypeFor(provider.scc, access);
    if (subjectType === undefined) {
      reasons.push(`${provider.name}: not usable`);
      continue;
    }
    // 2
    const filled = fill(pod, provider);
    const problems = problemsOf(filled, provider);
    if (problems.length > 0) {
      reasons.push(`${provider.name}: ${problems.join(', ')}`);
      continue;
    }
    // 3
    if (!isChangeAllowed(pod, filled, pass)) {
      reasons.push(`${provider.name}: would change the pod`);
      continue;
    }
    return { allowed: true, why: `fits ${provider.name}`, scc: provider.name, subjectType, pod: filled };
  }
  return refuse(reasons.join('; '));
}

/** 2.6, listing */
function listCandidates(sccs: readonly JsonObject[], { required, recorded, mutation }: Pass): readonly JsonObject[] {
  const named = (name: string) => (scc: JsonObject) => textAt(scc, 'metadata', 'name') === name;
  if (required !== '') return sccs.filter(named(required));
  const ordered = inOrder(sccs);
  if (mutation === 'everything' || recorded === '') return ordered;
  const isRecorded = named(recorded);
  return [...ordered.filter(isRecorded), ...ordered.filter((scc) => !isRecorded(scc))];
}

function userOf(request: JsonObject): Subject {
  const groups = at(request, 'userInfo', 'groups');
  return {
    username: textAt(request, 'userInfo', 'username'),
    groups: Array.isArray(groups) ? (groups as readonly string[]) : [],
  };
}

/** 2.6, step 3 */
function isChangeAllowed(pod: JsonObject, filled: JsonObject, { mutation }: Pass): boolean {
  if (mutation === 'everything') return true;
  if (mutation === 'nothing') return areEqual(filled, pod);
  const rest = (object: JsonObject): JsonObject => ({
    ...object,
    spec: without(object['spec'], 'ephemeralContainers'),
  });
  return areEqual(rest(filled), rest(pod));
}
