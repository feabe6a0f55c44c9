/** Messages for SCC decisions: denials in OpenShift's wording, and warning formatting. */
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

/**
 * Length of the longest warning that API servers do not truncate.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response
 */
export const MAX_WARNING_LENGTH = 256;
const MAX_NAME_LENGTH = 63;
const MAX_VALUE_LENGTH = 40;

/**
 * Truncates a warning to its maximum length and replaces control characters, because API servers drop warnings that
 * contain them.
 */
export function formatWarning(text: string): string {
  return clip(text, MAX_WARNING_LENGTH).replaceAll(/\p{Cc}/gu, ' ');
}

/** Formats a warning that lists as many items as fit, but at least one, and the number of omitted items. */
export function formatListWarning(head: string, items: readonly string[], tail: string): string {
  let text = '';
  for (const [index, item] of items.entries()) {
    const longer = index === 0 ? item : `${text}, ${item}`;
    const length = head.length + longer.length + formatRest(items.length - index - 1).length + tail.length;
    if (index > 0 && length > MAX_WARNING_LENGTH) {
      return formatWarning(head + text + formatRest(items.length - index) + tail);
    }
    text = longer;
  }
  return formatWarning(head + text + tail);
}

function formatRest(count: number): string {
  return count === 0 ? '' : ` and ${count} more`;
}

/** Quotes a name. Truncates long names. */
export function quoteName(name: string): string {
  return quote(clip(name, MAX_NAME_LENGTH));
}

const PLAIN = /^[\w./:+-]+$/;

/** Formats field values such as `NET_ADMIN,SYS_TIME`. Long values are truncated. */
export function formatValues(values: readonly unknown[]): string {
  return values.map(formatValue).join(',');
}

function formatValue(value: unknown): string {
  const text = clip(typeof value === 'string' ? value : JSON.stringify(value), MAX_VALUE_LENGTH);
  return typeof value !== 'string' || PLAIN.test(text) ? text : quote(text);
}

function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3).toWellFormed()}...`;
}
