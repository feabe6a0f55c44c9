/** Formats warnings, names and values in a way that prevents API servers from truncating or dropping the warnings. */
import { quote } from '../../../kube/text.ts';

/**
 * Length of the longest warning that API servers do not truncate.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response
 */
export const MAX_WARNING_LENGTH = 256;
const MAX_NAME_LENGTH = 63;
const MAX_VALUE_LENGTH = 40;

/**
 * Truncates a warning to the maximum length, and replaces control characters, because API servers drop warnings that
 * contain control characters.
 */
export function formatWarning(text: string): string {
  return clip(text, MAX_WARNING_LENGTH).replaceAll(/\p{Cc}/gu, ' ');
}

/** Formats a warning that lists as many items as fit (but at least one) and the number of omitted items. */
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
