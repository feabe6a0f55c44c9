/** The texts that all formats have in common. */
import { quote } from '../../kube/text.ts';
import type { Finding, Judgement, Place, Remark, Report } from './types.ts';
import { UNKNOWN_FIELD } from './unknown-field.ts';

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

/** Of checks that have nothing to do with a policy. */
const VERDICTS: ReadonlyMap<string, string> = new Map([
  ['labels', 'has invalid labels'],
  ['scc-label', 'names no mode of security context constraints'],
  [UNKNOWN_FIELD, 'has unknown fields'],
  ['unusable', 'can be used by no pod (warn)'],
  ['mistyped', 'has values that match nothing (warn)'],
]);

/** What the object does: `violates PodSecurity "restricted:latest"`, in words of the mode. */
export function printVerdict({ mode, policy, check }: Finding): string {
  if (policy === undefined) return VERDICTS.get(check) ?? 'is invalid';
  return mode === 'enforce'
    ? `violates PodSecurity ${quote(policy)}`
    : `would violate PodSecurity ${quote(policy)} (${mode})`;
}

/** All that could not be judged: what cannot be read, and what no API server would take. */
export function problemsOf({ errors, unjudged }: Report): readonly Remark[] {
  return [...errors, ...unjudged];
}

/** Control characters, those beyond ASCII too, and what turns the direction of writing or ends a line. */
const STEERING = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** The text with such characters escaped: names come from files, and must neither steer the terminal nor deceive. */
export function printable(text: string): string {
  return text.replace(STEERING, (character) => {
    const short = JSON.stringify(character).slice(1, -1);
    return short === character ? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}` : short;
  });
}
