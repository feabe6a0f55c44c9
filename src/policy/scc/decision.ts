/** Defines the decision about a pod, and formats its messages. */
import type { AdmissionRequest, Allowed, Decision, Denied } from '../../kube/admission.ts';
import { type FieldError, formatFieldError } from '../../kube/field-error.ts';
import { createStatus } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import { objectMember } from '../../kube/types.ts';

interface Details {
  readonly warnings: readonly string[];
  /** The keys do not contain the webhook name, because the API server adds it as a prefix. */
  readonly auditAnnotations: Readonly<Record<string, string>>;
}

/**
 * Name of the SCC that admits the pod, and type of the subject that may use it. Absent if SCCs do not apply to the pod,
 * such as a Windows pod.
 */
type SccFacts = Readonly<Record<'scc' | 'subjectType', string>>;

/**
 * The decision for a request. `object` is the pod that the mutating pass admits. It shares unchanged parts with the
 * input. `status.message` does not contain the prefix `pods "…" is forbidden: `.
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

/**
 * Replaces the message and warnings of a denial if the namespace does not exist, because they result from its absence.
 */
export function namespaceNotFound(decision: SccDecision, name: string): SccDecision {
  if (decision.allowed) return decision;
  const message = `error fetching namespace ${quote(name)}: namespace ${quote(name)} not found`;
  return { ...decision, warnings: [], status: createStatus(403, 'Forbidden', message) };
}

// Messages of denials, in OpenShift's wording

/** Beginning of the denial message for a pod that no SCC admits. The errors of the SCCs follow it. */
export const UNABLE_TO_VALIDATE = 'unable to validate against any security context constraint';

/** Returns the audit annotation key for the errors of an SCC that does not allow the pod. */
export function auditKey(sccName: string): string {
  return `too-restrictive-${sccName}`;
}

export function notUsableMessage(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: not usable by user or serviceaccount`;
}

/** Returns the message for an SCC that does not allow the pod if the error budget is exhausted. */
export function omittedErrorsMessage(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: does not allow the pod (errors omitted)`;
}

/** Maximum total length of one SCC's messages. Some messages quote pod values, which can be arbitrarily long. */
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

/** Joins distinct messages in the format of a Kubernetes aggregate error, with brackets if there are several. */
export function aggregate(messages: readonly string[]): string {
  const distinct = [...new Set(messages)];
  if (distinct.length === 0) return '<nil>';
  return distinct.length === 1 ? (distinct[0] ?? '') : `[${distinct.join(', ')}]`;
}
