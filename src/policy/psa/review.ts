/**
 * Reviews requests as Pod Security Admission does. Reviews are pure functions whose input includes the clock and the
 * cluster state.
 */
import { type AdmissionRequest, allow, type Allowed, type Decision, deny } from '../../kube/admission.ts';
import { formatFieldErrors } from '../../kube/field-error.ts';
import { podTemplatePath } from '../../kube/pod.ts';
import { forbidden, internalError, type Status } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import type { PodFields } from '../pod/index.ts';
import {
  evaluateDecoded,
  evaluateExcepted,
  type Evaluation,
  type ExceptedEvaluation,
  type Policy,
  type Version,
} from '../pss/index.ts';
import {
  type Exemption,
  findExemption,
  isLevelEnforced,
  type NamespaceRules,
  type PodSecurity,
} from './configuration.ts';
import type { PodSecurityCount, PodSecurityReview } from './decision.ts';
import {
  type Decoded,
  decodeObject,
  decodeWorkload,
  denyUndecodable,
  denyWithError,
  isCore,
  isSignificantUpdate,
  printKind,
  type DecodedWorkload,
} from './decode.ts';
import type { PodSecurityInput } from './input.ts';
import { reviewNamespace } from './namespace-review.ts';
import { isFullyPrivileged, type Mode, type NamespacePolicy, printPolicy } from './policy.ts';

/** Reviews an admission request. Resources other than namespaces and pods are reviewed as workloads. */
export function reviewPodSecurity(input: PodSecurityInput): PodSecurityReview {
  const { group, resource } = input.request.resource;
  // An absent or empty group means the core group.
  if (!group && resource === 'namespaces') return { decision: complete(reviewNamespace(input)), counts: [] };
  return !group && resource === 'pods' ? reviewPod(input) : reviewWorkload(input);
}

/**
 * Returns true if a review may deny the request. Reviews deny pods only if a level other than privileged is enforced,
 * and deny invalid levels on every namespace.
 */
export function mayDeny(
  request: AdmissionRequest,
  podSecurity: PodSecurity,
  findNamespace: PodSecurityInput['findNamespace'],
): boolean {
  const { group, resource } = request.resource;
  if (!group && resource === 'namespaces') return true;
  if (group || resource !== 'pods') return false;
  const namespace = findNamespace(request.namespace ?? '');
  if (namespace) return isLevelEnforced(request, namespace, podSecurity);
  return findExemption(request, podSecurity.exemptions) === undefined;
}

function complete<T>(review: Generator<void, T, boolean>): T {
  let step = review.next();
  while (!step.done) step = review.next(true);
  return step.value;
}

/** Subresources that do not change the pod spec. Unknown subresources are reviewed and must contain a pod. */
const IGNORED_SUBRESOURCES: ReadonlySet<string | undefined> = new Set([
  'exec',
  'attach',
  'binding',
  'eviction',
  'log',
  'portforward',
  'proxy',
  'status',
]);

const PODS = { group: '', resource: 'pods' };

/**
 * Reviews a pod request against the three policies of its namespace.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
function reviewPod(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  if (IGNORED_SUBRESOURCES.has(request.requestSubResource)) return ALLOWED;
  const exemption = findExemption(request, podSecurity.exemptions);
  if (exemption) return exempt(exemption);
  const name = request.namespace ?? '';
  const namespace = input.findNamespace(name);
  if (!namespace) {
    const { message, cause } = namespaceNotFound(name);
    return notEvaluated(denyWithError(internalError(message), cause));
  }
  const rules = podSecurity.namespaceRules(namespace);
  // If every mode is privileged, objects that cannot be decoded are also allowed.
  if (rules.errors.length === 0 && isFullyPrivileged(rules)) return rules.passed;
  return reviewPodObject(input, rules);
}

function reviewPodObject(input: PodSecurityInput, rules: NamespaceRules): PodSecurityReview {
  const { request, podSecurity } = input;
  const decoded = decodeObject(request.object, request.kind);
  if (!isCore(decoded, 'Pod') || !decoded.pod) return notEvaluated(denyUndecodable(decoded, 'pod'));
  const { pod } = decoded;
  if (request.operation === 'UPDATE') {
    const old = decodeObject(request.oldObject, request.kind);
    if (!isCore(old, 'Pod') || !old.pod) return notEvaluated(denyUndecodable(old, 'old pod'));
    if (!isSignificantUpdate(pod, old.pod)) return ALLOWED;
  }
  const exemption = findExemption(request, podSecurity.exemptions, pod);
  if (exemption) return exempt(exemption);
  return evaluatePolicies(pod, rules, input);
}

/**
 * Evaluates a pod against all policies, equal ones only once. Equal policies are the same object. Exceptions apply only
 * to the enforced policy, so audit annotations and warnings still report the violations that an exception allows.
 */
function evaluatePolicies(pod: PodFields, rules: NamespaceRules, input: PodSecurityInput): PodSecurityReview {
  const { enforce, audit, warn } = rules;
  const { request, emulationVersion } = input;
  const plain = evaluate(pod, enforce, emulationVersion);
  const audited = audit === enforce ? plain : evaluate(pod, audit, emulationVersion);
  const { evaluation: enforced, exceptions } = applyExceptions(pod, enforce, input, plain);
  if (!enforced.allowed) {
    const findings = startFindings(rules);
    recordEnforcement(findings, rules, 'deny');
    recordAudit(findings, rules, audited);
    const cause = `violates ${formatViolation(rules, 'enforce', enforced)}`;
    return conclude(findings, forbidden(PODS, request.name ?? '', cause));
  }
  const warned = warn === enforce ? plain : warn === audit ? audited : evaluate(pod, warn, emulationVersion);
  const isPassed = audited.allowed && warned.allowed && rules.errors.length === 0;
  if (isPassed && exceptions.length === 0) return rules.passed;
  const findings = startFindings(rules);
  recordEnforcement(findings, rules, 'allow');
  recordAudit(findings, rules, audited);
  recordWarning(findings, rules, warned);
  if (exceptions.length === 0) return conclude(findings);
  const exception = exceptions.join(', ');
  findings.auditAnnotations['exception'] = exception;
  const { decision, counts } = conclude(findings);
  return { decision: { ...decision, facts: { exception } }, counts };
}

/**
 * Evaluates a pod against the enforced policy. If the pod violates the policy and its namespace has exceptions,
 * evaluates it again with these exceptions.
 */
function applyExceptions(
  pod: PodFields,
  { level, version }: Policy,
  { request, emulationVersion, findExceptions }: PodSecurityInput,
  plain: Evaluation,
): ExceptedEvaluation {
  const exceptions = plain.allowed ? undefined : findExceptions?.(request.namespace ?? '');
  if (!exceptions?.rules.length) return { evaluation: plain, exceptions: [] };
  return evaluateExcepted(pod, { level, version, emulationVersion }, exceptions);
}

function evaluate(pod: PodFields, policy: Policy, emulationVersion: Version | undefined): Evaluation {
  const { level, version } = policy;
  return evaluateDecoded({ pod }, { level, version, emulationVersion });
}

/**
 * Reviews an object with a pod template. Always allows the request, because pods are reviewed when they are created.
 * The response contains only audit annotations and warnings.
 */
function reviewWorkload(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  if (request.requestSubResource) return ALLOWED;
  const exemption = findExemption(request, podSecurity.exemptions);
  if (exemption) return exempt(exemption);
  const name = request.namespace ?? '';
  const namespace = input.findNamespace(name);
  if (!namespace) {
    const { message, cause } = namespaceNotFound(name);
    return allowWithError(`${message}: ${cause}`);
  }
  const rules = podSecurity.namespaceRules(namespace);
  const isPrivileged = rules.audit.level === 'privileged' && rules.warn.level === 'privileged';
  if (rules.errors.length === 0 && isPrivileged) return ALLOWED;
  const workload = input.workload ?? decodeWorkload(request, input.workloadResources ?? []);
  return workload.outcome === 'templates'
    ? reviewTemplates(workload, input, rules)
    : reviewTemplate(workload, input, rules);
}

function reviewTemplate(decoded: Decoded, input: PodSecurityInput, policies: NamespacePolicy): PodSecurityReview {
  const { podSecurity } = input;
  if (decoded.outcome === 'failed') {
    const { error, limit } = decoded;
    return allowWithError(`failed to decode object: ${error}`, limit && { limit, warnings: [error] });
  }
  if (decoded.outcome === 'absent') return unexpectedType('<nil>');
  const { kind, pod } = decoded;
  if (!pod) return podTemplatePath(kind.group, kind.kind) ? ALLOWED : unexpectedType(printKind(kind));
  const exemption = findExemption(input.request, podSecurity.exemptions, pod);
  if (exemption) return exempt(exemption);
  const findings = startFindings(policies);
  recordAuditAndWarning(findings, pod, '', { input, policies });
  return conclude(findings);
}

/** Reviews the templates of an object whose kind is not built in. */
function reviewTemplates(
  { templates, unknown }: Extract<DecodedWorkload, { outcome: 'templates' }>,
  input: PodSecurityInput,
  policies: NamespacePolicy,
): PodSecurityReview {
  const findings = startFindings(policies);
  for (const { location, decoded } of templates) {
    const { pod, error } = decoded;
    if (error) recordError(findings, `failed to decode pod template: ${location}${error.message}`);
    else recordTemplate(findings, pod, location, { input, policies });
  }
  for (const path of unknown) recordError(findings, `failed to extract pod template: ${path}`);
  return conclude(findings);
}

function recordTemplate(
  findings: Findings,
  pod: PodFields,
  location: string,
  { input, policies }: { readonly input: PodSecurityInput; readonly policies: NamespacePolicy },
): void {
  if (input.podSecurity.exemptions.runtimeClass(pod.runtimeClassName)) {
    annotate(findings, 'exempt', 'runtimeClass');
    findings.counts.push({ metric: 'exemptions' });
    return;
  }
  recordAuditAndWarning(findings, pod, location, { input, policies });
}

/**
 * Records audit and warn violations. If an exception allows the pods of a template, there is no warning unless the warn
 * policy differs from the enforced policy.
 */
function recordAuditAndWarning(
  findings: Findings,
  pod: PodFields,
  location: string,
  { input, policies }: { readonly input: PodSecurityInput; readonly policies: NamespacePolicy },
): void {
  const { enforce, audit, warn } = policies;
  const audited = evaluate(pod, audit, input.emulationVersion);
  const plain = warn === audit ? audited : evaluate(pod, warn, input.emulationVersion);
  const warned = warn === enforce ? applyExceptions(pod, warn, input, plain).evaluation : plain;
  recordAudit(findings, policies, audited, location);
  recordWarning(findings, policies, warned, location);
}

function recordError(findings: Findings, error: string): void {
  annotate(findings, 'error', error);
  findings.counts.push({ metric: 'errors', fatal: true });
}

/** Adds a text to an audit annotation, because all templates of an object share one annotation. */
function annotate({ auditAnnotations }: Findings, key: string, text: string): void {
  const before = auditAnnotations[key];
  auditAnnotations[key] = before === undefined ? text : `${before}; ${text}`;
}

function unexpectedType(type: string): PodSecurityReview {
  return allowWithError(`failed to extract pod template: unexpected object type: ${type}`);
}

const ALLOWED: PodSecurityReview = { decision: allow(), counts: [] };

function exempt(exemption: Exemption): PodSecurityReview {
  return { decision: allow({ auditAnnotations: { exempt: exemption } }), counts: [{ metric: 'exemptions' }] };
}

function notEvaluated(decision: Decision): PodSecurityReview {
  return { decision, counts: [{ metric: 'errors', fatal: true }] };
}

function allowWithError(error: string, details?: Pick<Allowed, 'limit' | 'warnings'>): PodSecurityReview {
  return notEvaluated(allow({ auditAnnotations: { error }, ...details }));
}

function namespaceNotFound(namespace: string): { readonly message: string; readonly cause: string } {
  const name = quote(namespace);
  return { message: `failed to lookup namespace ${name}`, cause: `namespaces ${name} not found` };
}

/** The parts of the response that the modes contribute. */
interface Findings {
  readonly auditAnnotations: Record<string, string>;
  readonly warnings: string[];
  readonly counts: PodSecurityCount[];
}

/** Creates findings that contain the errors in the namespace's labels. */
function startFindings({ errors }: NamespacePolicy): Findings {
  if (errors.length === 0) return { auditAnnotations: {}, warnings: [], counts: [] };
  return {
    auditAnnotations: { error: `Failed to parse policy: ${formatFieldErrors(errors)}` },
    warnings: [],
    counts: [{ metric: 'errors', fatal: false }],
  };
}

function recordEnforcement(findings: Findings, policies: NamespacePolicy, decision: 'allow' | 'deny'): void {
  findings.auditAnnotations['enforce-policy'] = printPolicy(policies.enforce);
  findings.counts.push({ metric: 'evaluations', decision, mode: 'enforce', policy: policies.enforce });
}

/**
 * Records a violation of the audit policy. `location` is the prefix for a template whose path the kind does not
 * determine.
 */
function recordAudit(findings: Findings, policies: NamespacePolicy, evaluation: Evaluation, location = ''): void {
  if (evaluation.allowed) return;
  const violations = `${location}would violate ${formatViolation(policies, 'audit', evaluation)}`;
  annotate(findings, 'audit-violations', violations);
  findings.counts.push({ metric: 'evaluations', decision: 'deny', mode: 'audit', policy: policies.audit });
}

function recordWarning(findings: Findings, policies: NamespacePolicy, evaluation: Evaluation, location = ''): void {
  if (evaluation.allowed) return;
  findings.warnings.push(`${location}would violate ${formatViolation(policies, 'warn', evaluation)}`);
  findings.counts.push({ metric: 'evaluations', decision: 'deny', mode: 'warn', policy: policies.warn });
}

/**
 * Formats the violations for a denial or a warning without the verb, such as `PodSecurity "baseline:latest": privileged
 * (…)`.
 */
function formatViolation(policies: NamespacePolicy, mode: Mode, evaluation: Evaluation): string {
  return `PodSecurity ${quote(printPolicy(policies[mode]))}: ${evaluation.detail}`;
}

/** Returns the review. Denies the request if `status` is set. */
function conclude({ auditAnnotations, warnings, counts }: Findings, status?: Status): PodSecurityReview {
  const notes = {
    ...(Object.keys(auditAnnotations).length === 0 ? {} : { auditAnnotations }),
    ...(warnings.length === 0 ? {} : { warnings }),
  };
  return { decision: status ? deny(status, notes) : allow(notes), counts };
}
