import { allow } from '../../kube/admission.ts';
import { podTemplateOf, podTemplatePath } from '../../kube/pod.ts';
import type { PodLike } from '../../kube/types.ts';
import { ALLOWED, exempt, lookupFailure, unevaluated } from './answers.ts';
import { decodeObject, printKind, type Decoded } from './decode.ts';
import { evaluate } from './evaluate.ts';
import { exemptionOf } from './exemptions.ts';
import { conclude, noteAudit, noteWarning, startFindings } from './findings.ts';
import type { NamespaceRules } from './pod-security.ts';
import type { PodSecurityInput, PodSecurityReview } from './types.ts';

/**
 * Answers a request about a kind with a pod template: audits and warns by the policies of its namespace, and never
 * refuses, since the pods themselves will be judged.
 */
export function reviewWorkload(input: PodSecurityInput): PodSecurityReview {
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
  const template = podTemplateOf(object, path);
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
