/** Sentences for warnings: short enough for API servers to pass them on whole, whatever names and values are in them. */
import { quote } from '../../kube/text.ts';

/** @see https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#response */
const MAX_LENGTH = 256;
const MAX_NAME = 63;
const MAX_VALUE = 40;

interface Enumeration {
  readonly head: string;
  readonly items: readonly string[];
  readonly tail: string;
}

/** As many items as there is room for, and how many there are besides; at least one. */
export function enumerate({ head, items, tail }: Enumeration): string {
  let text = '';
  for (const [index, item] of items.entries()) {
    const longer = index === 0 ? item : `${text}, ${item}`;
    const rest = items.length - index - 1;
    const isTooLong = head.length + longer.length + moreText(rest).length + tail.length > MAX_LENGTH;
    if (index > 0 && isTooLong) return fit(head + text + moreText(items.length - index) + tail);
    text = longer;
  }
  return fit(head + text + tail);
}

function moreText(count: number): string {
  return count === 0 ? '' : ` and ${count} more`;
}

/** A name in quotes. */
export function named(name: string): string {
  return quote(clip(name, MAX_NAME));
}

const PLAIN = /^[\w./:+-]+$/;

/** Values of fields, as short as they can be told: `NET_ADMIN,SYS_TIME`. */
export function printValues(values: readonly unknown[]): string {
  return values.map(printValue).join(',');
}

function printValue(value: unknown): string {
  const text = clip(typeof value === 'string' ? value : JSON.stringify(value), MAX_VALUE);
  return typeof value !== 'string' || PLAIN.test(text) ? text : quote(text);
}

/** A sentence that is not too long and has no control characters: API servers drop warnings that have some. */
export function fit(text: string): string {
  return clip(text, MAX_LENGTH).replaceAll(/\p{Cc}/gu, ' ');
}

/** The text, or as much of it as goes with three dots behind. */
export function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3).toWellFormed()}...`;
}
