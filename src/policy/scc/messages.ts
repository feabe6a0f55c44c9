/** The messages of SCC decisions: denials in OpenShift's words, and the format of warnings. */
import { formatFieldError, type FieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';

/** The beginning of the denial of a pod that no SCC admits. The errors of the SCCs follow. */
export const UNABLE_TO_VALIDATE = 'unable to validate against any security context constraint';

/** The key of the audit annotation with the errors of an SCC that does not allow the pod. */
export function auditKey(sccName: string): string {
  return `too-restrictive-${sccName}`;
}

export function notUsableMessage(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: not usable by user or serviceaccount`;
}

/** The message of an SCC that does not allow the pod, after the budget of errors is used up. */
export function omittedErrorsMessage(sccName: string): string {
  return `provider ${quote(sccName)}: Forbidden: does not allow the pod (errors omitted)`;
}

/** Limits the length of the messages of one SCC in bytes: some repeat values of the pod, which have any length. */
const MAX_MESSAGES_LENGTH = 256 * 1024;

/** The errors of one SCC as messages. Paths that begin with a dot are relative to the SCC and get its name as prefix. */
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

/** Joins the distinct messages as Kubernetes aggregates errors: in brackets if there are several. */
export function aggregate(messages: readonly string[]): string {
  const distinct = [...new Set(messages)];
  if (distinct.length === 0) return '<nil>';
  return distinct.length === 1 ? (distinct[0] ?? '') : `[${distinct.join(', ')}]`;
}

/**
 * The longest warning that API servers pass on whole.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response
 */
export const MAX_WARNING_LENGTH = 256;
const MAX_NAME_LENGTH = 63;
const MAX_VALUE_LENGTH = 40;

/** Limits a warning to its maximum length and replaces control characters: API servers drop warnings that have some. */
export function formatWarning(text: string): string {
  return clip(text, MAX_WARNING_LENGTH).replaceAll(/\p{Cc}/gu, ' ');
}

/** A warning with at least one of the items, as many as fit, and the number of the others. */
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

/** A name in quotes, shortened if it is long. */
export function quoteName(name: string): string {
  return quote(clip(name, MAX_NAME_LENGTH));
}

const PLAIN = /^[\w./:+-]+$/;

/** Values of fields, each shortened if it is long: `NET_ADMIN,SYS_TIME`. */
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
