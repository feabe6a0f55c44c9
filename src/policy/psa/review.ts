import { compareBytes, quote } from '../../kube/text.ts';
import type { Pod, Namespace, PodLike } from '../../kube/types.ts';
import { evaluatePod, type Evaluation } from '../pss/evaluate.ts';
import type { Policy, Version } from '../pss/policy.ts';
import { printPolicy, areEquivalent, isFullyPrivileged, isSamePolicy, isStricter, MODES, type Mode } from './policy.ts';
import { allow, deny } from '../../kube/admission.ts';
import { formatFieldError, type FieldError, formatFieldErrors } from '../../kube/field-error.ts';
import { invalid, type Status, forbidden, internalError } from '../../kube/status.ts';
import { ALLOWED, refuseObject, exempt, lookupFailure, refuse, unevaluated } from './answers.ts';
import { decodeObject, isCore, printKind, type Decoded } from './decode.ts';
import { resolvePolicies, setsMode, type NamespacePolicy } from './namespace-policy.ts';
import type { PodSecurityInput, PodSecurityReview, PodSecurityCount } from './types.ts';
import { exemptionOf } from './exemptions.ts';
import type { NamespaceRules } from './pod-security.ts';
import { isSignificantUpdate } from './significant-update.ts';
import { getPodTemplate, podTemplatePath } from '../../kube/pod.ts';

/** A policy tried on the pods that exist. */
interface PodsReview {
  readonly namespace: string;
  readonly policy: Policy;
  readonly emulationVersion?: Version;
  isExempt(pod: Pod): boolean;
  readonly maxPods: number;
  /** True once the time is used up; asked after each pod. */
  isOver(): boolean;
}

/** Pods with the same violations: the first name in byte order stands for all. */
interface Group {
  name: string;
  pods: number;
}

/**
 * Warns of the pods that violate a policy, those with equal violations in one line; empty if there are none.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
function evaluatePods(pods: readonly Pod[], review: PodsReview): string[] {
  const candidates = onePerControllerFirst(pods.filter((pod) => !review.isExempt(pod)));
  const { checked, groups } = groupByViolations(candidates.slice(0, review.maxPods), review);
  const warnings: string[] = [];
  if (checked < candidates.length) {
    warnings.push(
      `new PodSecurity enforce level only checked against the first ${checked} of ${candidates.length} existing pods`,
    );
  }
  if (groups.size > 0) {
    const policy = quote(printPolicy(review.policy));
    warnings.push(
      `existing pods in namespace ${quote(review.namespace)} violate the new PodSecurity enforce level ${policy}`,
    );
  }
  return [...warnings, ...[...groups].map(printGroup).sort(compareBytes)];
}

/** Siblings are alike: the first of each controller stays in its place, the others move to the end. */
function onePerControllerFirst(pods: readonly Pod[]): readonly Pod[] {
  const seen = new Set<string>();
  const siblings: Pod[] = [];
  const firsts = pods.filter((pod) => {
    const owner = pod.metadata?.ownerReferences?.find((reference) => reference.controller === true);
    if (!owner) return true;
    if (!seen.has(owner.uid)) return seen.add(owner.uid);
    siblings.push(pod);
    return false;
  });
  return siblings.length === 0 ? firsts : [...firsts, ...siblings];
}

function groupByViolations(pods: readonly Pod[], { policy, emulationVersion, isOver }: PodsReview) {
  const options = emulationVersion === undefined ? policy : { ...policy, emulationVersion };
  const groups = new Map<string, Group>();
  let checked = 0;
  for (const pod of pods) {
    const { allowed, reason } = evaluatePod(pod, options);
    if (!allowed) addTo(groups, reason, pod.metadata?.name ?? '');
    checked++;
    if (isOver()) break;
  }
  return { checked, groups };
}

function addTo(groups: Map<string, Group>, violations: string, name: string): void {
  const group = groups.get(violations);
  if (!group) groups.set(violations, { name, pods: 1 });
  else {
    group.pods++;
    if (compareBytes(name, group.name) < 0) group.name = name;
  }
}

function printGroup([violations, { name, pods }]: readonly [string, Group]): string {
  if (pods === 1) return `${name}: ${violations}`;
  return `${name} (and ${pods - 1} other ${pods === 2 ? 'pod' : 'pods'}): ${violations}`;
}

/**
 * Answers a request about a namespace: refuses labels that are wrong, and warns of pods that violate a policy newly
 * enforced. Nothing of this is counted, and users are not exempt.
 */
function reviewNamespace(input: PodSecurityInput): PodSecurityReview {
  const { request } = input;
  if (request.requestSubResource) return ALLOWED;
  if (request.operation === 'CREATE') return reviewCreate(input);
  return request.operation === 'UPDATE' ? reviewUpdate(input) : ALLOWED;
}

function reviewCreate(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  const decoded = decodeObject(request.object, request.kind);
  if (!isCore(decoded, 'Namespace')) return uncounted(refuseObject(decoded, 'namespace'));
  const namespace: Namespace = decoded.object;
  const policy = resolvePolicies(namespace.metadata?.labels, podSecurity.defaults);
  if (policy.errors.length > 0) return refuseLabels(input, policy);
  return podSecurity.exemptions.namespace(request.namespace) ? warnOfExemption(namespace, policy, input) : ALLOWED;
}

function reviewUpdate(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  const decoded = decodeObject(request.object, request.kind);
  if (!isCore(decoded, 'Namespace')) return uncounted(refuseObject(decoded, 'namespace'));
  const old = decodeObject(request.oldObject, request.kind);
  // Two spaces, as upstream.
  if (!isCore(old, 'Namespace')) return uncounted(refuseObject(old, ' old namespace'));
  const namespace: Namespace = decoded.object;
  const policy = resolvePolicies(namespace.metadata?.labels, podSecurity.defaults);
  const before = resolvePolicies(old.object.metadata?.labels, podSecurity.defaults);
  if (policy.errors.length > 0 && !areEqual(policy.errors, before.errors)) return refuseLabels(input, policy);
  if (!isTightened(policy, before)) return ALLOWED;
  if (podSecurity.exemptions.namespace(request.namespace)) return warnOfExemption(namespace, policy, input);
  return warn(warnOfPods(namespace.metadata?.name ?? '', policy, input));
}

/** Errors that were there before do not keep anybody from changing something else. */
function areEqual(errors: readonly FieldError[], before: readonly FieldError[]): boolean {
  return (
    errors.length === before.length &&
    errors.every((error, index) => formatFieldError(error) === formatFieldError(before[index] ?? error))
  );
}

/** False if no pod that was let in before can violate the new policy; with another version that is not known. */
function isTightened({ enforce }: NamespacePolicy, { enforce: before }: NamespacePolicy): boolean {
  if (isSamePolicy(enforce, before) || enforce.level === 'privileged') return false;
  return enforce.version !== before.version || isStricter(enforce.level, before.level);
}

function warnOfPods(name: string, policy: NamespacePolicy, input: PodSecurityInput): readonly string[] {
  const { podSecurity, limits, now, deadlineMs, emulationVersion } = input;
  const startMs = now();
  const patienceMs = deadlineMs === undefined ? Infinity : (deadlineMs - startMs) / 2;
  const endMs = startMs + Math.min(limits.timeoutMs, patienceMs);
  const pods = input.listPods(name);
  if (!pods) return ['failed to list pods while checking new PodSecurity enforce level'];
  return evaluatePods(pods, {
    namespace: name,
    policy: policy.enforce,
    ...(emulationVersion === undefined ? {} : { emulationVersion }),
    isExempt: (pod) => podSecurity.exemptions.runtimeClass(pod.spec?.runtimeClassName),
    maxPods: limits.maxPods,
    isOver: () => now() >= endMs,
  });
}

/** Only modes that the namespace sets are named, so the list may be empty, as upstream. */
function warnOfExemption(namespace: Namespace, policy: NamespacePolicy, input: PodSecurityInput): PodSecurityReview {
  if (isFullyPrivileged(policy) || areEquivalent(policy, input.podSecurity.defaults)) return ALLOWED;
  const list = MODES.filter((mode) => policy[mode].level !== 'privileged' && setsMode(namespace.metadata?.labels, mode))
    .map((mode) => `${mode}=${printPolicy(policy[mode])}`)
    .join(', ');
  const name = quote(namespace.metadata?.name ?? '');
  return warn([`namespace ${name} is exempt from Pod Security, and the policy (${list}) will be ignored`]);
}

function refuseLabels({ request }: PodSecurityInput, { errors }: NamespacePolicy): PodSecurityReview {
  return uncounted(deny(invalid({ group: '', kind: 'Namespace' }, request.name ?? '', errors)));
}

function warn(warnings: readonly string[]): PodSecurityReview {
  return warnings.length === 0 ? ALLOWED : uncounted(allow({ warnings }));
}

function uncounted(decision: PodSecurityReview['decision']): PodSecurityReview {
  return { decision, counts: [] };
}

/** Judges the pod of a request by one policy, as the emulated version of Kubernetes would if there is one. */
function evaluate(pod: PodLike, policy: Policy, emulationVersion: Version | undefined): Evaluation {
  return evaluatePod(pod, emulationVersion === undefined ? policy : { ...policy, emulationVersion });
}

/** What there is to say about one pod or template; collected mode by mode. */
interface Findings {
  readonly auditAnnotations: Record<string, string>;
  readonly warnings: string[];
  readonly counts: PodSecurityCount[];
}

/** Findings that begin with what is wrong with the labels of the namespace. */
function startFindings({ errors }: NamespacePolicy): Findings {
  if (errors.length === 0) return { auditAnnotations: {}, warnings: [], counts: [] };
  return {
    auditAnnotations: { error: `Failed to parse policy: ${formatFieldErrors(errors)}` },
    warnings: [],
    counts: [{ metric: 'errors', fatal: false }],
  };
}

/** Notes by which policy the pod was let in or refused. */
function noteEnforcement(findings: Findings, policies: NamespacePolicy, decision: 'allow' | 'deny'): void {
  findings.auditAnnotations['enforce-policy'] = printPolicy(policies.enforce);
  findings.counts.push({ metric: 'evaluations', decision, mode: 'enforce', policy: policies.enforce });
}

/** Notes, for the audit log, a violation of the audit policy. */
function noteAudit(findings: Findings, policies: NamespacePolicy, evaluation: Evaluation): void {
  if (evaluation.allowed) return;
  findings.auditAnnotations['audit-violations'] = `would violate ${describe(policies, 'audit', evaluation)}`;
  findings.counts.push({ metric: 'evaluations', decision: 'deny', mode: 'audit', policy: policies.audit });
}

/** Warns the requester of a violation of the warn policy. */
function noteWarning(findings: Findings, policies: NamespacePolicy, evaluation: Evaluation): void {
  if (evaluation.allowed) return;
  findings.warnings.push(`would violate ${describe(policies, 'warn', evaluation)}`);
  findings.counts.push({ metric: 'evaluations', decision: 'deny', mode: 'warn', policy: policies.warn });
}

/** `PodSecurity "restricted:latest": ` and what is wrong. */
function describe(policies: NamespacePolicy, mode: Mode, evaluation: Evaluation): string {
  return `PodSecurity ${quote(printPolicy(policies[mode]))}: ${evaluation.detail}`;
}

/** The answer with these findings: a refusal if there is a status for it. */
function conclude({ auditAnnotations, warnings, counts }: Findings, refusal?: Status): PodSecurityReview {
  const remarks = {
    ...(Object.keys(auditAnnotations).length === 0 ? {} : { auditAnnotations }),
    ...(warnings.length === 0 ? {} : { warnings }),
  };
  return { decision: refusal ? deny(refusal, remarks) : allow(remarks), counts };
}

/** These cannot change what a pod may do; any other, one of the future too, must carry a pod and is judged. */
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
 * Answers a request about a pod: enforces, audits and warns by the three policies of its namespace.
 * @see https://github.com/kubernetes/pod-security-admission/blob/v0.37.0/admission/admission.go
 */
function reviewPod(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  if (IGNORED_SUBRESOURCES.has(request.requestSubResource)) return ALLOWED;
  const exemption = exemptionOf(request, podSecurity.exemptions);
  if (exemption) return exempt(exemption);
  const name = request.namespace ?? '';
  const namespace = input.findNamespace(name);
  if (!namespace) return withoutNamespace(name);
  const rules = podSecurity.rulesOf(namespace);
  // Who asks for nothing is not troubled with an object that cannot be decoded.
  if (rules.errors.length === 0 && isFullyPrivileged(rules)) return rules.passed;
  return reviewObject(input, rules);
}

function withoutNamespace(name: string): PodSecurityReview {
  const { message, cause } = lookupFailure(name);
  return unevaluated(refuse(internalError(message), cause));
}

function reviewObject(input: PodSecurityInput, rules: NamespaceRules): PodSecurityReview {
  const { request, podSecurity } = input;
  const pod = decodeObject(request.object, request.kind);
  if (!isCore(pod, 'Pod')) return unevaluated(refuseObject(pod, 'pod'));
  if (request.operation === 'UPDATE') {
    const old = decodeObject(request.oldObject, request.kind);
    if (!isCore(old, 'Pod')) return unevaluated(refuseObject(old, 'old pod'));
    if (!isSignificantUpdate(pod.object, old.object)) return ALLOWED;
  }
  const subject: PodLike = pod.object;
  if (podSecurity.exemptions.runtimeClass(subject.spec?.runtimeClassName)) return exempt('runtimeClass');
  return judge(subject, rules, input);
}

/** Equal policies are one object and are evaluated once. */
function judge(pod: PodLike, rules: NamespaceRules, input: PodSecurityInput): PodSecurityReview {
  const { enforce, audit, warn } = rules;
  const { request, emulationVersion } = input;
  const enforced = evaluate(pod, enforce, emulationVersion);
  const audited = audit === enforce ? enforced : evaluate(pod, audit, emulationVersion);
  if (!enforced.allowed) {
    const findings = startFindings(rules);
    noteEnforcement(findings, rules, 'deny');
    noteAudit(findings, rules, audited);
    const cause = `violates ${describe(rules, 'enforce', enforced)}`;
    return conclude(findings, forbidden(PODS, request.name ?? '', cause));
  }
  const warned = warn === enforce ? enforced : warn === audit ? audited : evaluate(pod, warn, emulationVersion);
  if (audited.allowed && warned.allowed && rules.errors.length === 0) return rules.passed;
  const findings = startFindings(rules);
  noteEnforcement(findings, rules, 'allow');
  noteAudit(findings, rules, audited);
  noteWarning(findings, rules, warned);
  return conclude(findings);
}

/**
 * Answers a request about a kind with a pod template: audits and warns by the policies of its namespace, and never
 * refuses, since the pods themselves will be judged.
 */
function reviewWorkload(input: PodSecurityInput): PodSecurityReview {
  const { request, podSecurity } = input;
  if (request.requestSubResource) return ALLOWED;
  const exemption = exemptionOf(request, podSecurity.exemptions);
  if (exemption) return exempt(exemption);
  const name = request.namespace ?? '';
  const namespace = input.findNamespace(name);
  if (!namespace) {
    const { message, cause } = lookupFailure(name);
    return letThrough(`${message}: ${cause}`);
  }
  const rules = podSecurity.rulesOf(namespace);
  const isPrivileged = rules.audit.level === 'privileged' && rules.warn.level === 'privileged';
  if (rules.errors.length === 0 && isPrivileged) return ALLOWED;
  return reviewTemplate(input, rules);
}

function reviewTemplate(input: PodSecurityInput, rules: NamespaceRules): PodSecurityReview {
  const { request, podSecurity, emulationVersion } = input;
  const template = templateOf(decodeObject(request.object, request.kind));
  if (template.error !== undefined) return letThrough(template.error);
  if (!template.pod) return ALLOWED;
  const { spec } = template.pod;
  if (podSecurity.exemptions.runtimeClass(spec?.runtimeClassName)) return exempt('runtimeClass');
  const audited = evaluate(template.pod, rules.audit, emulationVersion);
  const warned = rules.warn === rules.audit ? audited : evaluate(template.pod, rules.warn, emulationVersion);
  const findings = startFindings(rules);
  noteAudit(findings, rules, audited);
  noteWarning(findings, rules, warned);
  return conclude(findings);
}

/** The template; neither template nor error where the kind may do without and does. */
interface Template {
  readonly pod?: PodLike;
  readonly error?: string;
}

function templateOf(decoded: Decoded): Template {
  if (decoded.outcome === 'failed') return { error: `failed to decode object: ${decoded.error}` };
  if (decoded.outcome === 'absent') return unexpected('<nil>');
  const { kind, object } = decoded;
  if (kind.group === '' && kind.kind === 'Pod') return { pod: object };
  const path = podTemplatePath(kind.group, kind.kind);
  if (!path) return unexpected(printKind(kind));
  const template = getPodTemplate(object, path);
  if (template) return { pod: template };
  // Only there the template is optional; elsewhere what is absent counts as empty.
  return kind.kind === 'ReplicationController' ? {} : { pod: {} };
}

function unexpected(type: string): Template {
  return { error: `failed to extract pod template: unexpected object type: ${type}` };
}

function letThrough(error: string): PodSecurityReview {
  return unevaluated(allow({ auditAnnotations: { error } }));
}

/** Answers an admission request as Pod Security Admission does; what is neither a namespace nor a pod is a workload. */
export function reviewPodSecurity(input: PodSecurityInput): PodSecurityReview {
  const { group, resource } = input.request.resource;
  // Not only `''`: an absent group is the core group as well.
  if (!group && resource === 'namespaces') return reviewNamespace(input);
  return !group && resource === 'pods' ? reviewPod(input) : reviewWorkload(input);
}
