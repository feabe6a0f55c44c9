import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { serviceAccountSubject } from './access.ts';
import type { PreparedScc } from './scc.ts';
import {
  admits,
  fitsScc,
  type Chosen,
  type SearchInput,
  type PassedOver,
  type SearchResult,
  findNext,
  searchScc,
  prepareSearch,
} from './search.ts';
import { fit, named, refusalWarnings, unjudgedWarnings } from './advice/warnings.ts';
import { quote } from '../../kube/text.ts';
import { explainOrder } from './order.ts';
import { aggregate, distinctTexts, printList, textsOf, UNABLE, auditKey } from './messages.ts';
import { forbiddenField, formatFieldError } from '../../kube/field-error.ts';
import { createStatus } from '../../kube/status.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import { resolveCompatibility } from './mode.ts';
import type { PodFields } from './decode/pod.ts';
import { isCheap } from './budget.ts';
import { readRequest, isUnprocessed, type SccDecision, type SccFacts, type SccInput } from './request.ts';
import { writePod } from './attempt.ts';
import type { Allowed, Denied } from '../../kube/admission.ts';

/** Warnings try other SCCs; of pods that nobody runs that would only cost time. */
const MAX_CONTAINERS = 1000;

/** What whoever creates a pod, or adds containers to debug it, should know although it is admitted. */
function admissionWarnings(search: SearchInput, chosen: Chosen): readonly string[] {
  const { subjectType } = chosen;
  const { hostUsers, containers } = search.pod;
  // Nearly all pods end here.
  if (subjectType !== 'user' && hostUsers !== false) return [];
  if (search.mutable === 'nothing' || containers.length > MAX_CONTAINERS) return [];
  const ofCreator = subjectType === 'user' ? creatorWarning(search, chosen.scc) : undefined;
  const ofIds = hostUsers === false && search.mutable === 'everything' ? idsWarning(search, chosen) : undefined;
  return [ofCreator, ofIds].filter((text) => text !== undefined);
}

/**
 * Of a pod that has an SCC which only its creator may use: what becomes of such pods when they are created by a controller,
 * that is by their service account. Of containers to debug: that the pod is more now than its annotation says.
 */
function creatorWarning(search: SearchInput, scc: PreparedScc): string | undefined {
  const { serviceAccountName, annotations } = search.pod;
  if (serviceAccountName === '') return undefined;
  // Controllers meet what the account may really do, whatever identity is configured.
  const account = serviceAccountSubject(search.namespace.name, serviceAccountName, 'accurate');
  if (search.mayUse(account, scc)) return undefined;
  const rest = search.candidates.slice(search.candidates.indexOf(scc) + 1);
  const other = rest.find((one) => search.mayUse(account, one) && admits(one, search));
  const lack = `service account ${named(serviceAccountName)} may not`;
  if (search.mutable === 'everything') {
    const fate = other ? `get SCC ${named(other.name)}` : 'fail';
    return fit(
      `SCC ${named(scc.name)} admits the pod because its creator may use it; ${lack}: such pods ${fate} when a controller creates them.`,
    );
  }
  const recorded = annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  if (other || recorded === '' || recorded === scc.name) return undefined;
  return fit(
    `SCC ${named(scc.name)} admits the debug container because you may use it; ${lack}: the pod now does more than SCC ${named(recorded)}, which it is annotated with, allows.`,
  );
}

/** The highest id that a pod has in a user namespace, unless kubelets are told otherwise. */
const MAX_ID = 65_535;

/** Of a pod with a user namespace that is to run as a user whom it does not have there. */
function idsWarning(search: SearchInput, { scc, attempt }: Chosen): string | undefined {
  const uid = attempt.containerValues
    .map(({ runAsUser }) => runAsUser ?? search.pod.runAsUser)
    .find((one) => one !== undefined && one > MAX_ID);
  if (uid === undefined) return undefined;
  const better = search.candidates.find(
    (one) =>
      one.fields.userNamespaceLevel === 'RequirePodLevel' &&
      (one.fields.runAsUser.uidRangeMax ?? Infinity) <= MAX_ID &&
      search.subjectTypeOf(one) !== undefined &&
      fitsScc(one, search),
  );
  const { uidRangeMin = 1, uidRangeMax = MAX_ID } = better?.fields.runAsUser ?? {};
  const remedy = better
    ? `annotate it with ${POD_SCC_ANNOTATIONS.requiredScc}=${better.name}, or set runAsUser from ${uidRangeMin} to ${uidRangeMax}.`
    : `set runAsUser to at most ${MAX_ID}, or remove spec.hostUsers.`;
  return fit(
    `With spec.hostUsers=false a pod has ids up to ${MAX_ID}, but SCC ${named(scc.name)} lets it run as ${uid}: ${remedy}`,
  );
}

type Annotations = Readonly<Record<string, string>>;

const WOULD_CHANGE = 'failures final validation after mutating admission';

/** What the audit log says of a pod that is created: which SCCs were passed over and why the chosen one was chosen. */
function auditCreate({ passedOver, chosen }: SearchResult, next: PreparedScc | 'unknown' | undefined): Annotations {
  const denied: string[] = [];
  const annotations: Record<string, string> = {};
  for (const one of passedOver) {
    if (one.because === 'denied') denied.push(one.scc.name);
    else annotations[one.scc.auditKey] = whyNot(one);
  }
  const isAllDenied = denied.length === passedOver.length;
  annotations['denied'] = denied.join(',');
  annotations['reason'] = chosen
    ? whyChosen(chosen.scc, next)
    : isAllDenied
      ? 'all denied'
      : 'all too restrictive or denied';
  return annotations;
}

/** What the audit log says where the pod may not be changed; `recorded` is the SCC that was chosen before, if any. */
function auditUnchanged({ passedOver, chosen }: SearchResult, recorded: string): Annotations {
  const accepted: Annotations = chosen ? { chosen: chosen.scc.name } : {};
  if (recorded === '' || chosen?.scc.name === recorded) return accepted;
  const failure = passedOver.find(({ scc, because }) => because !== 'denied' && scc.name === recorded);
  const original = `originally chosen ${quote(recorded)}`;
  const denied = `${original} got denied in final validation after mutating admission`;
  return {
    ...(failure ? { [failure.scc.auditKey]: whyNot(failure) } : { 'denied-validation': denied }),
    ...(chosen
      ? {
          'reason-validation': `${original} did not pass final validation after mutating admission, but ${quote(chosen.scc.name)} did instead`,
        }
      : { 'denied-validation': `${denied}, and no other matched` }),
    ...accepted,
  };
}

function whyNot(passedOver: PassedOver): string {
  return passedOver.because === 'changes' ? WOULD_CHANGE : aggregate(distinctTexts([passedOver]));
}

function whyChosen(chosen: PreparedScc, next: PreparedScc | 'unknown' | undefined): string {
  const name = quote(chosen.name);
  if (next === 'unknown')
    return `${name} is most restrictive and not denied; the pod is too large to try those behind it`;
  if (next === undefined) return `${name} is the only one not too restrictive and not denied`;
  const reason = explainOrder(chosen, next);
  return `${name} is most restrictive, not denied, and chosen over ${quote(next.name)} because ${name} ${reason}`;
}

const HINT = formatFieldError(
  forbiddenField(
    'no access to scc/restricted',
    'the pod fails to validate against the `restricted-v2` security context constraint, but would validate successfully against the `restricted` security context constraint',
  ),
);

/**
 * What to say if no SCC was found and the pod would fit `restricted`, which everybody could use before there was
 * `restricted-v2`.
 */
function hintTexts(search: SearchInput, passedOver: readonly PassedOver[]): readonly string[] {
  const restricted = passedOver.find(({ scc, because }) => because === 'denied' && scc.name === 'restricted');
  const isSuperseded = passedOver.some(({ scc }) => scc.name === 'restricted-v2');
  if (restricted === undefined || !isSuperseded) return [];
  return fitsScc(restricted.scc, search) ? [HINT] : [];
}

type AnnotationsAssign = Readonly<Record<string, string>>;

/**
 * The first pass: finds the first SCC that is usable and fits, and gives the pod what that SCC generates. On updates
 * nothing may change but ephemeral containers that are being added.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export function assignScc(input: SccInput): SccDecision {
  const read = readRequest(input);
  if (read.verdict === 'refuse') return refuse(read.message);
  if (read.verdict === 'ignore') return accept({ object: input.object });
  const { pod, oldPod } = read.request;
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  if (oldPod && requiredScc !== requiredSccOf(oldPod)) {
    const key = POD_SCC_ANNOTATIONS.requiredScc;
    return refuse(`invalid change of required security context constraint annotation: ${key}`);
  }
  if (oldPod && mayPass(input, pod, oldPod)) return accept({ object: input.object });
  const search = prepareSearch(input, pod, { requiredScc, recordedScc: '', mutable: mutableIn(input) });
  if ('error' in search)
    return refuse(search.error, { warnings: advise(input, undefined, () => unjudgedWarnings(input, pod)) });
  const result = searchScc(search);
  if (result.excess) return refuse(`${UNABLE}: ${formatFieldError(result.excess)}`);
  const audit = search.mutable === 'everything' ? auditWithNext(search, result) : auditUnchanged(result, '');
  const { chosen } = result;
  if (chosen === undefined) {
    const texts = [...distinctTexts(result.passedOver), ...hintTexts(search, result.passedOver)];
    return refuse(`${UNABLE}: ${aggregate(texts)}`, {
      auditAnnotations: audit,
      warnings: advise(input, search, () => refusalWarnings(input, search, result)),
    });
  }
  return accept({
    object: writePod(chosen.attempt, {
      [POD_SCC_ANNOTATIONS.scc]: chosen.scc.name,
      [POD_SCC_ANNOTATIONS.subjectType]: chosen.subjectType,
    }),
    auditAnnotations: audit,
    facts: factsOf(chosen),
    warnings: advise(input, search, () => admissionWarnings(search, chosen)),
  });
}

/** The second pass: the pod, as it is now, fits an SCC that is usable, without any change. */
export function validateScc(input: SccInput): SccDecision {
  const read = readRequest(input);
  if (read.verdict === 'refuse') return refuse(read.message);
  if (read.verdict === 'ignore') return accept({});
  const { pod, oldPod } = read.request;
  if (oldPod && mayPass(input, pod, oldPod)) return accept({});
  const requiredScc = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  const recordedScc = pod.annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
  if (requiredScc !== '' && requiredScc !== recordedScc) {
    return refuse(`required scc/${requiredScc} does not match the suggested scc/${recordedScc}`);
  }
  const search = prepareSearch(input, pod, { requiredScc, recordedScc, mutable: 'nothing' });
  if ('error' in search)
    return refuse(search.error, { warnings: advise(input, undefined, () => unjudgedWarnings(input, pod)) });
  const result = searchScc(search);
  if (result.excess) return refuse(`${UNABLE}: ${formatFieldError(result.excess)}`);
  const audit = auditUnchanged(result, recordedScc);
  if (result.chosen) return accept({ auditAnnotations: audit, facts: factsOf(result.chosen) });
  const texts = [...result.passedOver.flatMap(textsOf), ...hintTexts(search, result.passedOver)];
  return refuse(`${UNABLE}: ${printList(texts)}`, {
    auditAnnotations: audit,
    warnings: advise(input, search, () => refusalWarnings(input, search, result)),
  });
}

/** What the first pass may change in the pod. */
export function mutableIn({ operation, subResource }: SccInput): SearchInput['mutable'] {
  if (operation === 'CREATE') return 'everything';
  return subResource === 'ephemeralcontainers' ? 'ephemeralContainers' : 'nothing';
}

/** True for a pod from before there were SCCs that is updated without a change of its spec. */
function mayPass({ compatibility }: SccInput, { json }: PodFields, oldPod: JsonObject): boolean {
  return resolveCompatibility(compatibility).unprocessedPods === 'pass' && isUnprocessed(json, oldPod);
}

/** The only SCC that a pod accepts; empty: any. */
function requiredSccOf(pod: JsonObject): string {
  const metadata = pod['metadata'];
  const annotations = isObject(metadata) ? metadata['annotations'] : undefined;
  const value = isObject(annotations) ? annotations[POD_SCC_ANNOTATIONS.requiredScc] : undefined;
  return typeof value === 'string' ? value : '';
}

function auditWithNext(search: SearchInput, result: SearchResult): AnnotationsAssign {
  return auditCreate(result, result.chosen && findNext(search, result.chosen.scc));
}

function factsOf({ scc, subjectType }: Chosen): SccFacts {
  return { scc: scc.name, subjectType };
}

/** OpenShift says nothing beside its decisions. Nor is anything said that takes many times as long as the decision. */
function advise(
  { compatibility }: SccInput,
  search: SearchInput | undefined,
  warnings: () => readonly string[],
): readonly string[] {
  return compatibility === 'openshift' || (search && !isCheap(search)) ? [] : warnings();
}

type Given<Allowed extends boolean> = Partial<Omit<SccDecision & { readonly allowed: Allowed }, 'allowed' | 'status'>>;

function accept(given: Given<true>): SccDecision {
  return { allowed: true, warnings: [], auditAnnotations: {}, ...given };
}

function refuse(message: string, given: Given<false> = {}): SccDecision {
  const status = createStatus(403, 'Forbidden', message);
  return { allowed: false, status, warnings: [], auditAnnotations: {}, ...given };
}

/** What API servers pass on of a warning when there are many. */
const MAX_LENGTH = 256;

const PREFIX = 'would be refused if security context constraints were enforced: ';

/**
 * A decision where it is only told: nothing is refused or changed, and the requester is warned of a refusal. The audit
 * annotations stay.
 */
export function reportScc(decision: SccDecision): Allowed {
  const { auditAnnotations, facts, warnings } = decision;
  const remarks = { auditAnnotations: { ...auditAnnotations, mode: 'report' } };
  if (decision.allowed) return { allowed: true, ...remarks, warnings, facts: { ...facts, mode: 'report' } };
  const reason = decision.status.message;
  return {
    allowed: true,
    ...remarks,
    warnings: [shorten(PREFIX + mostUseful(decision, MAX_LENGTH - PREFIX.length)), ...warnings],
    facts: { mode: 'report', verdict: 'deny', reason },
  };
}

/**
 * Of the errors of all SCCs, if they are too long or other warnings sum them up, no more than the first that can be mended.
 * A single one is told if it is short enough.
 */
function mostUseful({ status, warnings, auditAnnotations }: Denied & SccDecision, maxLength: number): string {
  const { message } = status;
  const start = message.indexOf(`${UNABLE}: `);
  const areSeveral = message.startsWith(`${UNABLE}: [`, start);
  const isTooLong = message.length > maxLength;
  if (start < 0 || (!isTooLong && !areSeveral)) return message;
  if (warnings.length > 0) return message.slice(0, start + UNABLE.length);
  if (!isTooLong) return message;
  const first = Object.keys(auditAnnotations).find((key) => key.startsWith(auditKey('')));
  return (first === undefined ? undefined : auditAnnotations[first]) ?? message;
}

function shorten(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH - 1).trimEnd()}…`;
}
