/** The type of a check, and the parts that checks share, such as relaxations, offenders and message parts. */
import { forbiddenField, requiredField, type FieldError } from '../../kube/field-error.ts';
import { sortedSet } from '../../kube/text.ts';
import { fieldPath, type ContainerFields, type PodFields, type SecurityContextFields } from '../pod/pod.ts';
import type { CelRule } from './cel.ts';
import type { Repair } from '../pod/repair.ts';
import type { Level, Version } from './policy.ts';

/** A named rule of the Pod Security Standards. */
export interface Check {
  readonly id: string;
  readonly level: Exclude<Level, 'privileged'>;
  /** One sentence that describes how to fix a violation. */
  readonly fix?: string;
  /** How `check --fix` changes the offending fields. */
  readonly repairs?: readonly Repair[];
  /** In ascending order. */
  readonly versions: readonly Revision[];
}

/** The form of a check from its first version until the next revision. */
export interface Revision {
  readonly since: Version;
  readonly check: Rule;
  /** The same rule as CEL, for admission policies in the API server. */
  readonly cel: CelRule;
  /** IDs of the baseline checks that this revision replaces at the restricted level. */
  readonly overrides?: readonly string[];
}

/** Evaluates a pod. Returns `undefined` if the pod passes. */
export type Rule = (pod: PodFields) => Finding | undefined;

/** A violation of one check. A check returns at most one finding for all offending containers. */
export interface Finding {
  /** A short reason without names or values. */
  readonly reason: string;
  /** The offending containers and values. It is empty in rare cases. */
  readonly detail: string;
  /** Returns the offending fields. Only evaluations that need the fields call it. */
  fields(): readonly FieldError[];
}

/** Returns a rule that passes all pods with `spec.os.name: windows`. It does not read node selectors. */
export function unlessWindows(rule: Rule): Rule {
  return (pod) => (pod.osName === 'windows' ? undefined : rule(pod));
}

/** Returns a rule that passes all pods with a user namespace (`spec.hostUsers: false`). */
export function unlessUserNamespace(rule: Rule): Rule {
  return (pod) => (pod.hostUsers === false ? undefined : rule(pod));
}

/** Note for repairs that make the kubelet reject images that run as root. */
export const IMAGE_USER =
  'the kubelet rejects an image whose USER is missing, root or a name, so use an image with a numeric USER other than 0, or set runAsUser to the UID of a user in the image';

/** Note for repairs of a container or pod that runs as root explicitly. */
export const EXPLICIT_ROOT =
  'ran as root. The image must work as another user, either its own numeric USER or the one in runAsUser. Operations that need root or a dropped capability, such as chown, fail. To change the group of volumes, set fsGroup in the pod instead';

const NONE: readonly never[] = [];

/** Returns the offending containers. */
export function findContainers(
  { containers }: PodFields,
  offends: (container: ContainerFields) => boolean | undefined,
): readonly ContainerFields[] {
  let found: ContainerFields[] | undefined;
  for (const container of containers) {
    if (offends(container)) (found ??= []).push(container);
  }
  return found ?? NONE;
}

/** The owner of a security context. */
export type Setter = PodFields | ContainerFields;

/** Returns the pod if its own security context violates the rule, followed by the offending containers. */
export function findSetters(pod: PodFields, offends: (setter: SecurityContextFields) => boolean): readonly Setter[] {
  const containers = findContainers(pod, offends);
  return offends(pod) ? [pod, ...containers] : containers;
}

export interface Annotation {
  readonly key: string;
  readonly value: string;
}

export function findAnnotations(
  { annotations }: PodFields,
  offends: (key: string, value: string) => boolean,
): readonly Annotation[] {
  let found: Annotation[] | undefined;
  for (const key in annotations) {
    const value = annotations[key] ?? '';
    if (offends(key, value)) (found ??= []).push({ key, value });
  }
  return found ?? NONE;
}

/**
 * Formats setters as `pod`, `container "a"` or `pod and containers "a", "b"`. Returns an empty string if there are
 * none.
 */
export function formatSetters(setters: readonly Setter[]): string {
  const [first] = setters;
  if (first === undefined) return '';
  if (isContainer(first)) return formatNames('container', setters.filter(isContainer));
  return setters.length === 1 ? 'pod' : `pod and ${formatNames('container', setters.filter(isContainer))}`;
}

function isContainer(setter: Setter): setter is ContainerFields {
  return setter.location !== '';
}

/** Formats names as `volume "v"` or `volumes "v", "w"`. */
export function formatNames(noun: string, items: readonly { readonly name: string }[]): string {
  // String concatenation, here and below, is several times faster than map and join.
  let names = '';
  for (const { name } of items) names += (names === '' ? '"' : '", "') + name;
  return `${noun}${items.length === 1 ? '' : 's'} ${names}"`;
}

/** Returns the items in double quotes, joined with commas. Quotes inside an item are not escaped. */
export function quotedList(items: readonly string[]): string {
  let text = '';
  for (const item of items) text += (text === '' ? '"' : '", "') + item;
  return text === '' ? '' : `${text}"`;
}

/** Returns the distinct items, sorted by bytes. */
export function distinct(items: readonly string[]): readonly string[] {
  return items.length < 2 ? items : sortedSet(items);
}

/** Joins two strings with a separator, unless one of them is empty. */
export function joinTexts(one: string, separator: string, other: string): string {
  return one === '' || other === '' ? one + other : one + separator + other;
}

export function plural(count: number, one: string, many: string): string {
  return count === 1 ? one : many;
}

/** Returns a field error for a forbidden value. `field` is a path below the pod spec or the container. */
export function forbidden(setter: Setter, field: string, value?: unknown): FieldError {
  return withValue(forbiddenField(fieldPath(setter, field), ''), value);
}

/** Returns a field error for a field that must be set. */
export function missing(setter: Setter, field: string, value?: unknown): FieldError {
  return withValue(requiredField(fieldPath(setter, field), ''), value);
}

export function forbiddenAnnotation({ key, value }: Annotation): FieldError {
  return withValue(forbiddenField(`metadata.annotations[${key}]`, ''), value);
}

function withValue(error: FieldError, value: unknown): FieldError {
  return value === undefined ? error : { ...error, value };
}
