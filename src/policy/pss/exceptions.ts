/**
 * Evaluates pods with exceptions from Pod Security checks. An exception covers findings in the pods of one service
 * account. Findings are matched by check, container, image and values. A check passes if each of its findings is
 * covered by a single exception entry.
 */
import type { FieldError } from '../../kube/field-error.ts';
import { type ExceptionEntry, MAX_EXCEPTION_ITEMS } from '../../kube/pod-security-exception.ts';
import { compareBytes, sortedSet } from '../../kube/text.ts';
import { type ContainerFields, DEFAULT_CAPABILITIES, type PodFields, VOLUME_SOURCES } from '../pod/index.ts';
import type { Finding } from './check.ts';
import { checks } from './checks/index.ts';
import { evaluateDecoded, type EvaluateOptions, type Evaluation, isBaselineCheck } from './evaluate.ts';

/** An approved exception in the pod's namespace. */
export interface ExceptionRule {
  readonly name: string;
  readonly serviceAccountName: string;
  readonly allow: readonly ExceptionEntry[];
  /** Unix time in milliseconds. */
  readonly expiresAtMs: number;
}

/** Checks whose findings have no values. */
export const CHECKS_WITHOUT_VALUES: readonly string[] = [
  'allowPrivilegeEscalation',
  'privileged',
  'runAsNonRoot',
  'runAsUser',
  'windowsHostProcess',
];

/** Represents a missing value that is required, such as a seccomp profile or a dropped capability. */
const UNSET = 'nil';

/** Checks of fields that only pods have, followed by checks of fields that only containers have. */
const POD_CHECKS = ['hostNamespaces', 'hostPathVolumes', 'restrictedVolumes', 'sysctls'];
const CONTAINER_CHECKS = [
  'allowPrivilegeEscalation',
  'capabilities_baseline',
  'capabilities_restricted',
  'hostPorts',
  'hostProbesAndHostLifecycle',
  'privileged',
  'procMount',
  'procMount_restricted',
];

/** The set of values that the findings of a check can have. */
interface Values {
  readonly description: string;
  test(value: string): boolean;
}

const PROC_MOUNTS = oneOf('Unmasked');
const VOLUMES: Values = {
  description: 'absolute host paths and types of volumes, such as nfs',
  test: (value) => value.startsWith('/') || value === 'unknown' || VOLUME_SOURCES.includes(value),
};
const SECCOMP = profileTypes('Unconfined', UNSET);

/** The possible values of findings, for each check whose findings cannot have arbitrary values. */
const VALUES: Readonly<Record<string, Values>> = {
  appArmorProfile: profileTypes('Unconfined'),
  hostNamespaces: oneOf('hostNetwork', 'hostPID', 'hostIPC'),
  hostPathVolumes: VOLUMES,
  hostPorts: {
    description: 'port numbers from 1 to 65535',
    test: (value) => /^[1-9]\d{0,4}$/.test(value) && Number(value) <= 65_535,
  },
  procMount: PROC_MOUNTS,
  procMount_restricted: PROC_MOUNTS,
  restrictedVolumes: VOLUMES,
  seccompProfile_baseline: SECCOMP,
  seccompProfile_restricted: SECCOMP,
};

function oneOf(...values: readonly string[]): Values {
  return { description: values.join(', '), test: (value) => values.includes(value) };
}

function profileTypes(...types: readonly string[]): Values {
  const { description, test } = oneOf(...types);
  return {
    description: `${description} and annotations as key=value`,
    test: (value) => test(value) || value.includes('='),
  };
}

/** Returns the parts of the entries that cannot match any field of any pod. */
export function findUnusable(allow: readonly ExceptionEntry[]): readonly UnusablePart[] {
  return allow.flatMap(({ check, container, values = [] }, index) => {
    const path = ['spec', 'allow', index];
    if (container === undefined && CONTAINER_CHECKS.includes(check)) {
      return [{ path, reason: `${check} checks only fields of containers: set container and image` }];
    }
    if (container !== undefined && POD_CHECKS.includes(check)) {
      return [{ path, reason: `${check} checks only fields of the pod: remove container and image` }];
    }
    const known = VALUES[check];
    return values.flatMap((value, position) =>
      known === undefined || known.test(value)
        ? []
        : [{ path: [...path, 'values', position], reason: `the values of ${check} are ${known.description}` }],
    );
  });
}

/** A part of an exception that cannot match any field of any pod. */
interface UnusablePart {
  readonly path: readonly (string | number)[];
  /** The reason why the part has no effect. */
  readonly reason: string;
}

const PAIRS: readonly (readonly [check: string, other: string])[] = checks.flatMap(({ id, versions }) => [
  [id, id] as const,
  ...versions.flatMap(({ overrides = [] }) =>
    overrides.flatMap((overridden) => [[id, overridden] as const, [overridden, id] as const]),
  ),
]);

/**
 * Maps each check to a set of checks that report the same fields. The set contains the check itself, the checks that it
 * overrides, and the checks that override it.
 */
const RELATED: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  [...Map.groupBy(PAIRS, ([check]) => check)].map(([check, pairs]) => [
    check,
    new Set(pairs.map(([, other]) => other)),
  ]),
);

/** Returns true if an entry for one check also covers the findings of the other. */
export function isSameControl(check: string, other: string): boolean {
  return RELATED.get(check)?.has(other) === true;
}

/**
 * Returns true if an entry can cover a violation that the baseline level also denies. The baseline level allows some of
 * the values that only checks of the restricted level report.
 */
export function coversBaseline({ check, values = [] }: ExceptionEntry): boolean {
  const isRestrictedOnly = (value: string): boolean =>
    value === UNSET || value === 'unknown' || DEFAULT_CAPABILITIES.has(value) || VOLUME_SOURCES.includes(value);
  return isBaselineCheck(check) || !values.every(isRestrictedOnly);
}

/** Returns the unexpired exceptions. */
export function unexpired(exceptions: readonly ExceptionRule[], nowMs: number): readonly ExceptionRule[] {
  return exceptions.filter(({ expiresAtMs }) => nowMs < expiresAtMs);
}

/** The exceptions in a namespace, indexed for lookup by reviews. */
export interface ExceptionIndex {
  readonly rules: readonly ExceptionRule[];
  /** Entries by service account and then by check, container and value. Lists are sorted by exception name. */
  readonly entries: ReadonlyMap<string, ReadonlyMap<string, readonly IndexedEntry[]>>;
}

interface IndexedEntry {
  readonly exception: string;
  readonly container: string | undefined;
  readonly image: ImageReference | undefined;
  readonly values: ReadonlySet<string> | undefined;
}

/** Indexes exceptions, so a review reads only the entries that might cover a finding. */
export function indexExceptions(rules: readonly ExceptionRule[]): ExceptionIndex {
  const index = new Map<string, Map<string, IndexedEntry[]>>();
  const sorted = rules.toSorted((a, b) => compareBytes(a.name, b.name));
  for (const { name: exception, serviceAccountName, allow } of sorted) {
    const byKey = index.get(serviceAccountName) ?? new Map<string, IndexedEntry[]>();
    index.set(serviceAccountName, byKey);
    for (const { check, container, image: text, values: list } of allow) {
      const image = text === undefined ? undefined : readImage(text);
      const entry = { exception, container, image, values: list && new Set(list) };
      for (const related of RELATED.get(check) ?? []) {
        for (const value of entry.values ?? [undefined]) {
          const key = entryKey(related, container, value);
          const entries = byKey.get(key);
          if (entries) entries.push(entry);
          else byKey.set(key, [entry]);
        }
      }
    }
  }
  return { rules, entries: index };
}

function entryKey(check: string, container: string | undefined, value: string | undefined): string {
  return JSON.stringify([check, container, value]);
}

export const NO_EXCEPTIONS = indexExceptions([]);

/** An evaluation and the sorted names of the exceptions on which it depends. */
export interface ExceptedEvaluation {
  readonly evaluation: Evaluation;
  readonly exceptions: readonly string[];
}

/**
 * Evaluates a pod with exceptions. The result does not depend on the order of the exceptions. If several exceptions
 * cover a finding, returns only the first one by name.
 */
export function evaluateExcepted(
  pod: PodFields,
  options: EvaluateOptions,
  { entries }: ExceptionIndex,
): ExceptedEvaluation {
  const own = entries.get(pod.serviceAccountName || 'default');
  const used: string[] = [];
  const isCovered = (check: string, finding: Finding): boolean => {
    if (own === undefined) return false;
    const names: string[] = [];
    for (const located of listFindings(pod, check, finding)) {
      const key = entryKey(check, located.container?.name, located.values?.[0]);
      const covering = own.get(key)?.find((entry) => covers(entry, located));
      if (covering === undefined) return false;
      names.push(covering.exception);
    }
    used.push(...names);
    return true;
  };
  const evaluation = evaluateDecoded({ pod }, own === undefined ? options : { ...options, isCovered });
  return { evaluation, exceptions: sortedSet(used) };
}

/** Maximum length of a value in a suggested entry. */
const MAX_VALUE = 512;

/** Returns the narrowest entries that cover all findings in a pod. Each entry is valid. */
export function suggestEntries(
  pod: PodFields,
  options: EvaluateOptions,
): {
  readonly entries: readonly ExceptionEntry[];
  /** Paths of findings that no entry can cover. */
  readonly uncovered: readonly string[];
} {
  const lists = new Map<string, ValueList>();
  const uncovered: string[] = [];
  const isCovered = (check: string, finding: Finding): boolean => {
    for (const { path, values, container, image } of listFindings(pod, check, finding)) {
      if (!isListable(values) || (container && image === undefined) || container?.list === 'ephemeralContainers') {
        uncovered.push(path);
        continue;
      }
      const owner = container && image ? { container: container.name, image: image.repository } : {};
      const key = JSON.stringify([check, owner]);
      const list = lists.get(key) ?? { entry: { check, ...owner }, sets: [] };
      lists.set(key, list);
      addValues(list, values);
    }
    return true;
  };
  evaluateDecoded({ pod }, { ...options, isCovered });
  const entries = [...lists.values()].flatMap(({ entry, sets }) =>
    CHECKS_WITHOUT_VALUES.includes(entry.check) ? [entry] : sets.map((set) => ({ ...entry, values: sortedSet(set) })),
  );
  return { entries, uncovered };
}

/** The values of the findings of one check in one container or in the fields of the pod. */
interface ValueList {
  readonly entry: ExceptionEntry;
  /** A set for each entry that the values need. */
  readonly sets: Set<string>[];
}

function isListable(values: readonly string[] | undefined): values is readonly string[] {
  if (values === undefined || new Set(values).size > MAX_EXCEPTION_ITEMS) return false;
  return values.every((value) => value !== '' && value.length <= MAX_VALUE);
}

/** Adds the values of a finding to one of the sets, because a single entry must cover the finding. */
function addValues({ sets }: ValueList, values: readonly string[]): void {
  const added = new Set(values);
  const last = sets.at(-1);
  if (sets.some((set) => added.isSubsetOf(set))) return;
  const merged = last?.union(added) ?? added;
  if (last === undefined || merged.size > MAX_EXCEPTION_ITEMS) sets.push(added);
  else sets.splice(-1, 1, merged);
}

/** Splits entries into lists that a single exception can have. Exceptions with these lists cover the same findings. */
export function splitEntries(entries: readonly ExceptionEntry[]): readonly (readonly ExceptionEntry[])[] {
  return Array.from({ length: Math.ceil(entries.length / MAX_EXCEPTION_ITEMS) }, (_, index) =>
    entries.slice(index * MAX_EXCEPTION_ITEMS, (index + 1) * MAX_EXCEPTION_ITEMS),
  );
}

interface Located {
  readonly path: string;
  /** The container to which the field belongs. Absent for pod-level fields. */
  readonly container: ContainerFields | undefined;
  /** Image of the container, or `undefined` if the image reference is invalid. */
  readonly image: ImageReference | undefined;
  /** The violating values, or `undefined` if no entry can list them. */
  readonly values: readonly string[] | undefined;
}

function listFindings(pod: PodFields, check: string, { fields, omitted }: Finding): readonly Located[] {
  const errors = [...fields(), ...(omitted?.() ?? [])];
  // No exception can cover a finding that has no fields.
  if (errors.length === 0) return [{ path: '', container: undefined, image: undefined, values: undefined }];
  // Use maps, because a pod can have thousands of containers and volumes.
  const containers = new Map(pod.containers.map((container) => [container.location, container]));
  const hostPaths = new Map(pod.volumes.map(({ index, hostPath }) => [index, hostPath]));
  return errors.map((error) => {
    const [, location = ''] = LOCATION.exec(error.path) ?? [];
    const container = containers.get(location);
    const image = container && readImage(container.image);
    return { path: error.path, container, image, values: readValues(hostPaths, check, error) };
  });
}

const LOCATION = /^spec\.(\w+\[\d+\])\./;
const VOLUME = /^spec\.volumes\[(\d+)\](?:\.(\w+))?$/;
const ANNOTATION = /^metadata\.annotations\[(.*)\]$/s;

function readValues(
  hostPaths: ReadonlyMap<number, string | undefined>,
  check: string,
  { type, path, value }: FieldError,
): readonly string[] | undefined {
  if (CHECKS_WITHOUT_VALUES.includes(check)) return [];
  const [, annotation] = ANNOTATION.exec(path) ?? [];
  if (annotation !== undefined) return [`${annotation}=${String(value)}`];
  const [, index, source = 'unknown'] = VOLUME.exec(path) ?? [];
  if (index !== undefined) return source === 'hostPath' ? hostPathValues(hostPaths.get(Number(index))) : [source];
  const field = path.slice(path.lastIndexOf('.') + 1);
  if (field === 'drop' || type === 'FieldValueRequired') return [UNSET];
  if (Array.isArray(value)) return value.map(String);
  // The value is represented by the field name, because other fields of the check may have the same value.
  if (value === true) return [field];
  return [field === 'user' || field === 'role' ? `${field}=${String(value)}` : String(value)];
}

/** Returns the value for an absolute path. A relative path has none, because it could equal a volume type's name. */
function hostPathValues(path: string | undefined): readonly string[] | undefined {
  return path?.startsWith('/') === true ? [path] : undefined;
}

function covers({ container, image, values }: IndexedEntry, finding: Located): boolean {
  return coversOwner(container, image, finding) && coversValues(values, finding);
}

function coversValues(allowed: ReadonlySet<string> | undefined, { values }: Located): boolean {
  if (values === undefined) return false;
  return values.length === 0 ? allowed === undefined : values.every((value) => allowed?.has(value) === true);
}

/** Returns true if an entry covers the field's owner. Ephemeral containers are never covered: users add them later. */
function coversOwner(
  name: string | undefined,
  allowed: ImageReference | undefined,
  { container, image }: Located,
): boolean {
  if (container === undefined) return name === undefined;
  if (container.list === 'ephemeralContainers' || container.name !== name) return false;
  if (allowed === undefined || image === undefined || allowed.tag !== undefined) return false;
  return allowed.repository === image.repository && (allowed.digest === undefined || allowed.digest === image.digest);
}

interface ImageReference {
  /** The repository with its registry, such as `docker.io/library/nginx`. */
  readonly repository: string;
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

const COMPONENT = '[a-z0-9]+(?:(?:\\.|__?|-+)[a-z0-9]+)*';
const DOMAIN_COMPONENT = '[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?';
const IMAGE = new RegExp(
  `^(?:(?<registry>${DOMAIN_COMPONENT}(?:\\.${DOMAIN_COMPONENT})*(?::\\d+)?)/)?(?<path>${COMPONENT}(?:/${COMPONENT})*)(?::(?<tag>\\w[\\w.-]{0,127}))?(?:@(?<digest>sha256:[0-9a-f]{64}))?$`,
);
const MAX_IMAGE = 1024;

/**
 * Parses an image reference. The registry defaults to docker.io. Returns `undefined` for an invalid reference.
 * @see https://github.com/distribution/reference/blob/v0.6.0/normalize.go
 */
export function readImage(text: string): ImageReference | undefined {
  const groups = text.length > MAX_IMAGE ? undefined : IMAGE.exec(text)?.groups;
  if (groups?.['path'] === undefined) return undefined;
  const { registry, path, tag, digest } = groups;
  const isRegistry = registry !== undefined && /[.:A-Z]|^localhost$/.test(registry);
  const host = !isRegistry || registry === 'index.docker.io' ? 'docker.io' : registry;
  const name = isRegistry || registry === undefined ? path : `${registry}/${path}`;
  const prefix = host === 'docker.io' && !name.includes('/') ? 'library/' : '';
  return { repository: `${host}/${prefix}${name}`, tag, digest };
}
