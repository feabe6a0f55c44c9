/** Messages of SCC denials, in OpenShift's wording. */
import { type FieldError, formatFieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';

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
