/** The decision about a pod, and its messages. */
import type { AdmissionRequest, Allowed, Decision, Denied } from '../../kube/admission.ts';
import { type FieldError, formatFieldError } from '../../kube/field-error.ts';
import { createStatus } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { objectMember } from '../../kube/types.ts';

interface Details {
  readonly warnings: readonly string[];
  /** Keys lack the webhook name, because the API server adds it as a prefix. */
  readonly auditAnnotations: Readonly<Record<string, string>>;
}

/**
 * Name of the SCC that admits the pod, and the type of the subject that may use it. Absent if SCCs do not apply to the
 * pod, for example to a Windows pod.
 */
type SccFacts = Readonly<Record<'scc' | 'subjectType', string>>;

/**
 * The decision for a request. `object` is the pod that the mutating pass admits, which shares unchanged parts with the
 * input. `status.message` lacks the prefix `pods "…" is forbidden: `.
 */
export type SccDecision =
  | (Allowed & Details & { readonly facts?: SccFacts })
  | (Denied & Details & { readonly facts?: never });

/**
 * Adds the name of the pod to a denial, or its name prefix if the API server has not generated the name yet.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/errors.go
 */
export function withPodName(decision: SccDecision, { name, object }: AdmissionRequest): Decision {
  if (decision.allowed || decision.status.details !== undefined) return decision;
  const metadata = objectMember(object, 'metadata');
  const names: readonly unknown[] = [name, metadata['name'], metadata['generateName'], 'Unknown'];
  const details = {
    name: names.filter((value) => typeof value === 'string').find((value) => value !== '') ?? '',
    kind: 'pods',
  };
  return { ...decision, status: { ...decision.status, details } };
}

/** Replaces the reasons of a denial, because they result from a namespace that does not exist. */
export function namespaceNotFound(decision: SccDecision, name: string): SccDecision {
  if (decision.allowed) return decision;
  const message = `error fetching namespace ${quote(name)}: namespace ${quote(name)} not found`;
  return { ...decision, warnings: [], status: createStatus(403, 'Forbidden', message) };
}

// Messages of denials, in OpenShift's wording

/** Start of the denial message for a pod that no SCC admits. The SCC errors follow. */
export const UNABLE_TO_VALIDATE = 'unable to validate against any security context constraint';

/** Returns the audit annotation key for the errors of an SCC that does not allow the pod. */
export function auditKey(sccName: string): string {
  return `too-restrictive-${sccName}`;
}

export function notUsableMessage(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: not usable by user or serviceaccount`;
}

/** Returns the message for an SCC that does not allow the pod after the error budget is exhausted. */
export function omittedErrorsMessage(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: does not allow the pod (errors omitted)`;
}

/** Maximum length of one SCC's messages, in bytes. Some messages quote pod values, which can be arbitrarily long. */
const MAX_MESSAGES_LENGTH = 256 * 1024;

/**
 * Formats the errors of one SCC. A path that begins with a dot is relative to the SCC and is prefixed with its name.
 */
export function formatErrors(sccName: string, errors: readonly FieldError[]): readonly string[] {
  const messages: string[] = [];
  let length = 0;
  for (const error of errors) {
    const text = formatFieldError(error);
    const message = error.path.startsWith('.') ? `provider ${sccName}: ${text}` : text;
    messages.push(message);
    length += message.length;
    if (length > MAX_MESSAGES_LENGTH) break;
  }
  return messages;
}

/** Joins distinct messages as Kubernetes aggregates errors, in brackets if there are several. */
export function aggregate(messages: readonly string[]): string {
  const distinct = [...new Set(messages)];
  if (distinct.length === 0) return '<nil>';
  return distinct.length === 1 ? (distinct[0] ?? '') : `[${distinct.join(', ')}]`;
}
