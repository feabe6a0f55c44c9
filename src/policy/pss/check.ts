/** The type of a check, and helpers that checks share. The helpers find violating owners and format messages. */
import { type FieldError, forbiddenField, requiredField } from '../../kube/field-error.ts';
import { plural, sortedSet } from '../../kube/text.ts';
import { type ContainerFields, fieldPath, type PodFields, type Repair } from '../pod/index.ts';
import {
  bind,
  type BuildCel,
  type CelInputs,
  celNames,
  celOwners,
  celQuotedList,
  celSortedSet,
  violatingNames,
} from './cel.ts';
import type { Level, Version } from './policy.ts';

/** A Pod Security Standards check and its descriptions. */
export interface Check {
  readonly id: string;
  readonly level: Exclude<Level, 'privileged'>;
  /** One or two sentences that explain what a violating pod can do. */
  readonly why: string;
  /** One sentence that explains how to fix a violation. */
  readonly fix: string;
  /** A field that violates the check in an otherwise compliant pod. */
  readonly violation: FieldExample;
  /** The corrected field. Set if `check --fix` cannot correct it. */
  readonly correction?: FieldExample;
  /** Recommendations of the CIS Kubernetes Benchmark. */
  readonly cis?: string;
  /** The recommended setting in the NSA/CISA Kubernetes Hardening Guide. */
  readonly nsa?: string;
  /** The repairs with which `check --fix` changes the violating fields. */
  readonly repairs?: readonly Repair[];
  /** Revisions, in ascending order of version. */
  readonly versions: readonly Revision[];
}

export type FieldExample = readonly [path: string, value: unknown];

/** A rule in TypeScript and in CEL. */
export interface Rule {
  /** Evaluates a pod. Returns `undefined` if the pod passes. */
  readonly check: (pod: PodFields) => Finding | undefined;
  /** Builds the same rule in CEL, for admission policies in the API server. */
  readonly cel: BuildCel;
}

/** The rule of a check from one version until the next revision. */
export interface Revision extends Rule {
  readonly since: Version;
  /** Pods that pass without evaluation. */
  readonly unless?: Exception;
  /** IDs of the baseline checks that this revision overrides at the restricted level. */
  readonly overrides?: readonly string[];
}

/**
 * `windows` excepts pods with `spec.os.name: windows`, regardless of their node selectors. `userNamespace` excepts pods
 * with `spec.hostUsers: false`.
 */
export type Exception = 'windows' | 'userNamespace';

export function isExcepted({ osName, hostUsers }: PodFields, exception: Exception): boolean {
  return exception === 'windows' ? osName === 'windows' : hostUsers === false;
}

/** A violation of one check. A check returns at most one finding for all containers. */
export interface Finding {
  /** A short reason without names or values. */
  readonly reason: string;
  /** The violating containers and values. Empty where upstream's detail is empty. */
  readonly detail: string;
  /** Returns the violating fields. Called only if the fields are needed. */
  fields(): readonly FieldError[];
  /**
   * Returns the violating fields that upstream reports only once the other fields are fixed. Absent if there are none.
   */
  omitted?(): readonly FieldError[];
}

/** Note on repairs after which the kubelet rejects images that run as root. */
export const IMAGE_USER =
  'the kubelet rejects an image whose USER is missing, root or a name, so use an image with a numeric USER other than 0, or set runAsUser to the UID of a user in the image';

/** Note on repairs of a container or pod that explicitly runs as root. */
export const EXPLICIT_ROOT =
  'ran as root. The image must work as another user, either its own numeric USER or the one in runAsUser. Operations that need root or a dropped capability, such as chown, fail. To change the group of volumes, set fsGroup in the pod instead';

const NONE: readonly never[] = [];

export function findContainers(
  { containers }: PodFields,
  violates: (container: ContainerFields) => boolean | undefined,
): readonly ContainerFields[] {
  let found: ContainerFields[] | undefined;
  for (const container of containers) {
    if (violates(container)) (found ??= []).push(container);
  }
  return found ?? NONE;
}

export type SecurityContextOwner = PodFields | ContainerFields;

/** Returns the pod if its own security context violates the rule, followed by the violating containers. */
export function findOwners(
  pod: PodFields,
  violates: (owner: SecurityContextOwner) => boolean,
): readonly SecurityContextOwner[] {
  const containers = findContainers(pod, violates);
  return violates(pod) ? [pod, ...containers] : containers;
}

interface Annotation {
  readonly key: string;
  readonly value: string;
}

export function findAnnotations(
  { annotations }: PodFields,
  violates: (key: string, value: string) => boolean,
): readonly Annotation[] {
  let found: Annotation[] | undefined;
  for (const key in annotations) {
    const value = annotations[key] ?? '';
    if (violates(key, value)) (found ??= []).push({ key, value });
  }
  return found ?? NONE;
}

/**
 * Formats owners as `pod`, `container "a"` or `pod and containers "a", "b"`. Returns an empty string if there are
 * none.
 */
export function formatOwners(owners: readonly SecurityContextOwner[]): string {
  const [first] = owners;
  if (first === undefined) return '';
  if (isContainer(first)) return formatNames('container', owners.filter(isContainer));
  return owners.length === 1 ? 'pod' : `pod and ${formatNames('container', owners.filter(isContainer))}`;
}

function isContainer(owner: SecurityContextOwner): owner is ContainerFields {
  return owner.location !== '';
}

/** Formats names as `volume "v"` or `volumes "v", "w"`. */
export function formatNames(noun: string, items: readonly { readonly name: string }[]): string {
  // String concatenation is several times faster than map and join.
  let names = '';
  for (const { name } of items) names += (names === '' ? '"' : '", "') + name;
  return `${plural(items.length, noun)} ${names}"`;
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

/** Joins two strings with a separator. If one of them is empty, returns the other one. */
export function joinTexts(first: string, separator: string, other: string): string {
  return first === '' || other === '' ? first + other : first + separator + other;
}

/** Returns a field error for a forbidden value. `field` is a path below the pod spec or the container. */
export function forbiddenValue(owner: SecurityContextOwner, field: string, value?: unknown): FieldError {
  return withValue(forbiddenField(fieldPath(owner, field), ''), value);
}

/** Returns a field error for a field that must be set. */
export function missing(owner: SecurityContextOwner, field: string, value?: unknown): FieldError {
  return withValue(requiredField(fieldPath(owner, field), ''), value);
}

export function forbiddenAnnotation({ key, value }: Annotation): FieldError {
  return withValue(forbiddenField(`metadata.annotations[${key}]`, ''), value);
}

function withValue(error: FieldError, value: unknown): FieldError {
  return value === undefined ? error : { ...error, value };
}

/** A rule for a security context field. */
interface ContextRule<Owner extends SecurityContextOwner> {
  /** Prefix of the names of CEL values. */
  readonly name: string;
  readonly reason: string;
  /** Path below the pod spec or the container. */
  readonly field: string;
  violates(owner: Owner): boolean;
  /** Returns a CEL bool that is true if the owner passes. An owner is the spec or a container. */
  passes(owner: string): string;
  /** Returns the requirement as a verb phrase. `values` are the quoted values of the violating owners. */
  must(values: string): string;
  /** Returns the violating value. */
  value(owner: Owner): unknown;
  /** Returns a CEL expression for the violating value. Set if `must` contains the values. */
  celValue?(owner: string): string;
  /** Returns the field error for a violating owner. By default, the error is a forbidden value. */
  error?(owner: Owner): FieldError;
}

/** Creates a rule for the security contexts of containers. */
export function containerRule(rule: ContextRule<ContainerFields>): Rule {
  const { name, celValue } = rule;
  const passes = rule.passes('c');
  return createRule(rule, {
    find: (pod) => findContainers(pod, (container) => rule.violates(container)),
    format: (containers) => formatNames('container', containers),
    cel: ({ containers }) => ({
      passes: `${containers}.all(c, ${passes})`,
      values: { [`${name}Containers`]: violatingNames({ containers }, passes) },
      owners: celNames(`${name}Containers`),
      read: celValue && celSortedSet(`[${containers}.filter(c, !(${passes})).map(c, ${celValue('c')})]`),
    }),
  });
}

/** Creates a rule for the security contexts of the pod and its containers. */
export function securityContextRule(rule: ContextRule<SecurityContextOwner>): Rule {
  return createRule(rule, {
    find: (pod) => findOwners(pod, (owner) => rule.violates(owner)),
    format: formatOwners,
    cel(inputs) {
      const { passes, values, owners, read } = celOwners(rule.name, inputs, rule.passes);
      return { passes, values, owners: `${owners}.join(" and ")`, read: rule.celValue && read(rule.celValue) };
    },
  });
}

interface ViolatingOwners<Owner extends SecurityContextOwner> {
  find(pod: PodFields): readonly Owner[];
  format(owners: readonly Owner[]): string;
  cel(inputs: CelInputs): {
    readonly passes: string;
    /** Values that `owners` reads. */
    readonly values: Readonly<Record<string, string>>;
    /** CEL string with the violating owners. */
    readonly owners: string;
    /** CEL list of the violating values. */
    readonly read: string | undefined;
  };
}

function createRule<Owner extends SecurityContextOwner>(
  rule: ContextRule<Owner>,
  { find, format, cel }: ViolatingOwners<Owner>,
): Rule {
  const { name, reason, field } = rule;
  const types = `${name}Types`;
  const error = (owner: Owner): FieldError => rule.error?.(owner) ?? forbiddenValue(owner, field, rule.value(owner));
  return {
    check(pod) {
      const violating = find(pod);
      if (violating.length === 0) return undefined;
      const texts = rule.celValue ? quotedList(distinct(violating.map((owner) => String(rule.value(owner))))) : '';
      return {
        reason,
        detail: `${format(violating)} ${rule.must(texts)}`,
        fields: () => violating.map(error),
      };
    },
    cel(inputs) {
      const { passes, values, owners, read } = cel(inputs);
      const text = `"${reason} (" + ${owners} + " ${rule.must(`" + ${celQuotedList(types)} + "`)})"`;
      return { passes, text: bind({ ...values, ...(read === undefined ? {} : { [types]: read }) }, text) };
    },
  };
}
