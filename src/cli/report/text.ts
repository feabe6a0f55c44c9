/** The texts that all formats have in common. */
import { quote } from '../../kube/quote.ts';
import type { Finding, Judgement, Place, Remark, Report } from './types.ts';

/** `web.yaml:12:7` */
export function printPlace({ file, line, column }: Place): string {
  return `${file}:${line}:${column}`;
}

/** `Deployment shop/web` */
export function printObject({ kind, namespace, name }: Judgement): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name === '' ? '(no name)' : name}`;
}

/** What is wrong, as upstream words it in denials. */
export function printWhy({ reason, detail }: Finding): string {
  return detail === '' ? reason : `${reason} (${detail})`;
}

/** What the object does: `violates PodSecurity "restricted:latest"`, in words of the mode. */
export function printVerdict({ mode, policy }: Finding): string {
  if (policy === undefined) return 'has invalid labels';
  return mode === 'enforce'
    ? `violates PodSecurity ${quote(policy)}`
    : `would violate PodSecurity ${quote(policy)} (${mode})`;
}

/** All that does not count for the verdict, but should be known. */
export function remarksOf({ warnings, unjudged }: Report): readonly Remark[] {
  return [...warnings, ...unjudged];
}

/** The text with control characters escaped: names come from files, and must not steer the terminal. */
export function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, (character) => JSON.stringify(character).slice(1, -1));
}
