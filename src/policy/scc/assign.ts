/** Makes SCC admission decisions in the mutating pass, in the validating pass, and in report mode. */
import type { Allowed, Denied } from '../../kube/admission.ts';
import { forbiddenField, formatFieldError } from '../../kube/field-error.ts';
import { POD_SCC_ANNOTATIONS } from '../../kube/scc.ts';
import { createStatus, type Status } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { PodFields } from '../pod/index.ts';
import { serviceAccountSubject } from './access.ts';
import { MAX_WARNING_LENGTH } from './advice/warning-text.ts';
import { admissionWarnings, denialWarnings, earlyDenialWarnings } from './advice/warnings.ts';
import { isWithinSuggestionBudget } from './budget.ts';
import { allowsPod, applyCompletion, type ChangeExtent, writePod } from './complete.ts';
import { type SccDecision, aggregate, auditKey, UNABLE_TO_VALIDATE } from './decision.ts';
import { type Compatibility, OPENSHIFT_REQUIRED_SCCS, type SccMode } from './mode.ts';
import { isWithoutScc, podAnnotation, readDecoded, type ReadRequest, readRequest, type SccInput } from './request.ts';
import { explainOrder } from './scc.ts';
import {
  type SccAdmission,
  createSearch,
  findNextAdmitting,
  findProblem,
  type Rejection,
  type Search,
  type SearchResult,
  searchScc,
} from './search.ts';

/**
 * Makes the decision in the mutating pass. Finds the first usable SCC that allows the pod, and defaults the pod with
 * it. On updates, it may change only added ephemeral containers.
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sccadmission/admission.go
 */
export function assignScc(input: SccInput): SccDecision {
  return evaluateScc(input, 'assign').decision;
}

/** Makes the decision in the validating pass, in which a usable SCC must allow the pod without changing it. */
export function validateScc(input: SccInput): SccDecision {
  return evaluateScc(input, 'validate').decision;
}

/**
 * A decision with the pod and the search on which it is based. Both are absent if the decision does not depend on them.
 */
export interface SccEvaluation {
  readonly decision: SccDecision;
  readonly pod?: PodFields;
  readonly search?: Search;
  readonly result?: SearchResult;
}

type Pass = 'assign' | 'validate';

export function evaluateScc(input: SccInput, pass: Pass): SccEvaluation {
  const found = findScc(input, pass, readRequest(input));
  if ('decision' in found) return found;
  const decision = (pass === 'assign' ? decideAssign : decideValidate)(found.search, found.result);
  return { ...found, decision };
}

/** Searches for an SCC that admits the pod. If no search is necessary, returns the decision instead. */
function findScc(
  input: SccInput,
  pass: Pass,
  request: ReadRequest,
): Required<Omit<SccEvaluation, 'decision'>> | Pick<SccEvaluation, 'decision' | 'pod'> {
  const unchanged = pass === 'assign' ? { object: input.object } : {};
  if (request.verdict === 'deny') return { decision: denyWith(request.status, { limit: request.limit }) };
  if (request.verdict === 'ignore') return { decision: admit(unchanged) };
  const { pod, oldPod } = request;
  const isExempt = oldPod !== undefined && isExemptUpdate(input, pod, oldPod);
  const error = pass === 'assign' ? requiredSccChange(pod, oldPod) : isExempt ? undefined : requiredSccMismatch(pod);
  if (error !== undefined) return { decision: deny(error), pod };
  if (isExempt) return { decision: admit(unchanged), pod };
  const search = createSearch(input, pod, {
    requiredSccs: input.compatibility === 'openshift' ? OPENSHIFT_REQUIRED_SCCS : [],
    requiredScc: pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '',
    recordedScc: pass === 'assign' ? '' : recordedScc(pod),
    mutable: pass === 'assign' ? mutableFields(input) : 'nothing',
  });
  const problem = findProblem(search);
  if (problem !== undefined) {
    const warnings = input.compatibility === 'openshift' ? [] : earlyDenialWarnings(search);
    return { decision: deny(problem, { warnings }), pod };
  }
  return { pod, search, result: searchScc(search) };
}

/** SCC admission input for the pods that a template creates. */
export type TemplateInput = Omit<SccInput, 'operation' | 'subResource' | 'object' | 'oldObject' | 'userInfo'>;

interface TemplateAdmission {
  /** The template with the SCC's values, or the unchanged template if its pods are denied. */
  readonly pod: PodFields;
  readonly denial?: SccDecision & Denied;
}

const DEFAULT_ACCOUNT = 'default';

/**
 * Defaults a pod template in the same way as SCC admission defaults its pods, using the template's service account.
 * @see
 * https://github.com/openshift/kubernetes/blob/master/openshift-kube-apiserver/admission/authorization/podsecurity/patch_podspecextractor.go
 */
export function admitTemplate(template: PodFields, input: TemplateInput): TemplateAdmission {
  const serviceAccountName = template.serviceAccountName || DEFAULT_ACCOUNT;
  const pod = { ...template, serviceAccountName };
  const userInfo = serviceAccountSubject(input.namespace.metadata?.name ?? '', serviceAccountName);
  const request = { ...input, operation: 'CREATE', object: template.json, userInfo } as const;
  const found = findScc(request, 'assign', readDecoded(pod));
  if ('result' in found && found.result.admission) return { pod: applyCompletion(found.result.admission.completion) };
  const decision = 'decision' in found ? found.decision : decideAssign(found.search, found.result);
  return decision.allowed ? { pod: template } : { pod: template, denial: decision };
}

/**
 * Returns true for an update that leaves the spec of a pod without a recorded SCC unchanged. OpenShift also evaluates
 * these updates.
 */
function isExemptUpdate({ compatibility }: SccInput, { json }: PodFields, oldPod: JsonObject): boolean {
  return compatibility !== 'openshift' && isWithoutScc(json, oldPod);
}

function requiredSccChange({ annotations }: PodFields, oldPod: JsonObject | undefined): string | undefined {
  const key = POD_SCC_ANNOTATIONS.requiredScc;
  if (!oldPod || (annotations[key] ?? '') === podAnnotation(oldPod, key)) return undefined;
  return `invalid change of required security context constraint annotation: ${key}`;
}

function requiredSccMismatch(pod: PodFields): string | undefined {
  const required = pod.annotations[POD_SCC_ANNOTATIONS.requiredScc] ?? '';
  const recorded = recordedScc(pod);
  return required === '' || required === recorded
    ? undefined
    : `required scc/${required} does not match the suggested scc/${recorded}`;
}

/** Returns the SCC that the mutating pass recorded, or an empty string if there is none. */
function recordedScc({ annotations }: PodFields): string {
  return annotations[POD_SCC_ANNOTATIONS.scc] ?? '';
}

/** Returns the parts of the pod that the mutating pass may change. */
function mutableFields({ operation, subResource }: SccInput): ChangeExtent {
  if (operation === 'CREATE') return 'everything';
  return subResource === 'ephemeralcontainers' ? 'ephemeralContainers' : 'nothing';
}

function decideAssign(search: Search, result: SearchResult): SccDecision {
  const auditAnnotations = search.mutable === 'everything' ? auditCreate(search, result) : auditUnchanged(result, '');
  const { admission } = result;
  if (!admission) return denySearched(search, result, { auditAnnotations, format: aggregate });
  const { scc, completion, subjectType } = admission;
  return admit({
    object: writePod(completion, {
      [POD_SCC_ANNOTATIONS.scc]: scc.name,
      [POD_SCC_ANNOTATIONS.subjectType]: subjectType,
    }),
    auditAnnotations,
    facts: { scc: scc.name, subjectType },
    warnings: mayWarn(search) ? admissionWarnings(search, admission) : [],
  });
}

function decideValidate(search: Search, result: SearchResult): SccDecision {
  const auditAnnotations = auditUnchanged(result, recordedScc(search.pod));
  const { admission } = result;
  // OpenShift formats the messages as a Go list in this pass.
  if (!admission) return denySearched(search, result, { auditAnnotations, format: (all) => `[${all.join(' ')}]` });
  return admit({ auditAnnotations, facts: { scc: admission.scc.name, subjectType: admission.subjectType } });
}

interface DenialOptions {
  readonly auditAnnotations: Annotations;
  readonly format: (messages: readonly string[]) => string;
}

function denySearched(search: Search, result: SearchResult, { auditAnnotations, format }: DenialOptions): SccDecision {
  const { budgetError, rejections } = result;
  if (budgetError) return deny(`${UNABLE_TO_VALIDATE}: ${formatFieldError(budgetError)}`);
  const messages = [...rejections.flatMap((rejection) => rejection.messages), ...findHint(search, rejections)];
  const warnings = mayWarn(search) ? denialWarnings(search, result) : [];
  return deny(`${UNABLE_TO_VALIDATE}: ${format(messages)}`, { auditAnnotations, warnings });
}

/**
 * Returns false if there should be no warnings. OpenShift does not return them, and some cost much more than the
 * decision.
 */
function mayWarn({ input, pod, candidates }: Search): boolean {
  return input.compatibility !== 'openshift' && isWithinSuggestionBudget(pod, candidates);
}

function admit(options: Partial<Omit<SccDecision & Allowed, 'allowed'>>): SccDecision {
  return { allowed: true, warnings: [], auditAnnotations: {}, ...options };
}

type DenyOptions = Partial<Omit<SccDecision & Denied, 'allowed' | 'status'>>;

function deny(message: string, options?: DenyOptions): SccDecision {
  return denyWith(createStatus(403, 'Forbidden', message), options);
}

function denyWith(status: Status, options: DenyOptions = {}): SccDecision {
  return { allowed: false, status, warnings: [], auditAnnotations: {}, ...options };
}

const HINT = formatFieldError(
  forbiddenField(
    'no access to scc/restricted',
    'the pod fails to validate against the `restricted-v2` security context constraint, but would validate successfully against the `restricted` security context constraint',
  ),
);

/**
 * Returns a hint if the `restricted` SCC would allow the pod. All users could use this SCC before `restricted-v2`
 * existed.
 */
function findHint(search: Search, rejections: readonly Rejection[]): readonly string[] {
  const restricted = rejections.find(({ scc, reason }) => reason === 'denied' && scc.name === 'restricted');
  const isSuperseded = rejections.some(({ scc }) => scc.name === 'restricted-v2');
  return restricted && isSuperseded && allowsPod(restricted.scc, search) ? [HINT] : [];
}

type Annotations = Readonly<Record<string, string>>;

/** Returns the audit annotations for a created pod, with the rejected SCCs and the reason for the choice. */
function auditCreate(search: Search, { rejections, admission }: SearchResult): Annotations {
  const denied = rejections.filter(({ reason }) => reason === 'denied').map(({ scc }) => scc.name);
  const rejected = rejections.filter(({ reason }) => reason !== 'denied').map(auditRejection);
  const reason = rejected.length === 0 ? 'all denied' : 'all too restrictive or denied';
  return {
    ...Object.fromEntries(rejected),
    denied: denied.join(','),
    reason: admission ? explainChoice(search, admission) : reason,
  };
}

/**
 * Returns the audit annotations for a pod that must not change. `recordedScc` is the SCC from the mutating pass, or an
 * empty string if there is none.
 */
function auditUnchanged({ rejections, admission }: SearchResult, recordedScc: string): Annotations {
  const chosen: Annotations = admission ? { chosen: admission.scc.name } : {};
  if (recordedScc === '' || admission?.scc.name === recordedScc) return chosen;
  const rejection = rejections.find(({ scc, reason }) => reason !== 'denied' && scc.name === recordedScc);
  const original = `originally chosen ${quote(recordedScc)}`;
  const denied = `${original} got denied in final validation after mutating admission`;
  const passed = `${original} did not pass final validation after mutating admission, but`;
  return {
    ...(rejection ? Object.fromEntries([auditRejection(rejection)]) : { 'denied-validation': denied }),
    ...(admission
      ? { 'reason-validation': `${passed} ${quote(admission.scc.name)} did instead` }
      : { 'denied-validation': `${denied}, and no other matched` }),
    ...chosen,
  };
}

function auditRejection({ scc, reason, messages }: Rejection): readonly [key: string, value: string] {
  const value = reason === 'changes' ? 'failures final validation after mutating admission' : aggregate(messages);
  return [auditKey(scc.name), value];
}

function explainChoice(search: Search, { scc }: SccAdmission): string {
  const name = quote(scc.name);
  const next = findNextAdmitting(search, scc);
  if (next === 'unknown') {
    return `${name} is most restrictive and not denied; the pod is too large to evaluate the remaining SCCs`;
  }
  if (next === undefined) return `${name} is the only one not too restrictive and not denied`;
  const reason = explainOrder(scc, next);
  return `${name} is most restrictive, not denied, and chosen over ${quote(next.name)} because ${name} ${reason}`;
}

const REPORT_PREFIX = 'would be denied if security context constraints were enforced: ';

/**
 * Converts a decision for report mode. The pod is admitted unchanged, and a denial becomes a warning. The `mode` audit
 * annotation does not exist in OpenShift.
 */
export function reportScc(decision: SccDecision, compatibility: Compatibility): Allowed {
  const { facts, warnings } = decision;
  const auditAnnotations = {
    ...decision.auditAnnotations,
    ...(compatibility === 'openshift' ? {} : { mode: 'report' }),
  };
  if (decision.allowed) return { allowed: true, auditAnnotations, warnings, facts: { ...facts, mode: 'report' } };
  return {
    allowed: true,
    auditAnnotations,
    warnings: prefixedWarnings(REPORT_PREFIX, decision),
    facts: { mode: 'report', verdict: 'deny', reason: decision.status.message },
  };
}

/** Returns the warnings about a template whose pods SCC admission will deny, or would deny in report mode. */
export function templateWarnings(denial: SccDecision & Denied, mode: SccMode): readonly string[] {
  return prefixedWarnings(`pods of this template ${mode === 'enforce' ? 'will be denied: ' : REPORT_PREFIX}`, denial);
}

function prefixedWarnings(prefix: string, denial: SccDecision & Denied): readonly string[] {
  const text = prefix + shortenCause(denial, MAX_WARNING_LENGTH - prefix.length);
  const warning = text.length <= MAX_WARNING_LENGTH ? text : `${text.slice(0, MAX_WARNING_LENGTH - 1).trimEnd()}…`;
  return [warning, ...denial.warnings];
}

/**
 * Shortens the message of a denial. Omits the SCC errors if other warnings summarize them. If the errors are too long,
 * keeps only the errors of one SCC.
 */
function shortenCause({ status, warnings, auditAnnotations }: Denied & SccDecision, maxLength: number): string {
  const { message } = status;
  const start = message.indexOf(`${UNABLE_TO_VALIDATE}: `);
  const isList = message.startsWith(`${UNABLE_TO_VALIDATE}: [`, start);
  const isTooLong = message.length > maxLength;
  if (start < 0 || (!isTooLong && !isList)) return message;
  if (warnings.length > 0) return message.slice(0, start + UNABLE_TO_VALIDATE.length);
  if (!isTooLong) return message;
  const first = Object.keys(auditAnnotations).find((key) => key.startsWith(auditKey('')));
  return (first === undefined ? undefined : auditAnnotations[first]) ?? message;
}
