import { setApiDefaults } from '../../kube/defaults.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { type FieldError, forbiddenField, invalidValue, requiredField, tooLong } from '../../kube/field-error.ts';
import { LIMITS } from '../../kube/limits.ts';
import { dnsLabelErrors, dnsSubdomainErrors, labelKeyErrors, labelValueErrors } from '../../kube/names.ts';
import type { JsonObject } from '../../kube/types.ts';
import { type ApiObject, getMetadata, itemsAt, nestedObject } from '../types.ts';

/** Validates a name. Returns the API server's error messages. */
export type NameRule = (name: string) => readonly string[];

/** Properties of a kind. Omitted properties default to the values that most kinds have. */
export interface KindRules {
  /** Validates names. By default, names must be DNS subdomains. */
  readonly nameErrors?: NameRule;
  /** True if `metadata.generation` counts the changes to all fields except metadata and the status subresource. */
  readonly generation?: 'counted';
  /** Returns the status of a new object. Absent if the kind has no status. */
  readonly initialStatus?: (object: ApiObject) => unknown;
  /** Removes unknown fields and returns their paths. Absent for built-in kinds, which keep unknown fields. */
  readonly prune?: (object: ApiObject) => readonly string[];
  /** Sets defaults. Runs after decoding, and again after each webhook's patch. */
  readonly defaults?: (object: ApiObject) => void;
  readonly prepareForCreate?: (object: ApiObject) => void;
  /** Runs once the fields that the request cannot change have been restored. */
  readonly prepareForUpdate?: (object: ApiObject, old: ApiObject, subresource: string) => void;
  readonly validate?: (object: ApiObject) => readonly FieldError[];
  /** Returns additional errors for a new object. */
  readonly validateCreate?: (object: ApiObject) => readonly FieldError[];
  /** Returns additional errors for a changed object. For subresources, only this function runs, and not `validate`. */
  readonly validateUpdate?: (object: ApiObject, old: ApiObject, subresource: string) => readonly FieldError[];
  readonly warnings?: (object: ApiObject) => readonly string[];
}

/** The rules of a kind, combined with the rules for all kinds. */
export type Strategy = ReturnType<typeof createStrategy>;

/** Creates the strategy for a kind. Its functions modify the given object in place and never throw. */
export function createStrategy(rules: KindRules, namespaced: boolean) {
  const validate = (object: ApiObject): readonly FieldError[] => rules.validate?.(object) ?? [];
  return {
    prune: rules.prune ?? (() => []),
    defaults(object: ApiObject): void {
      rules.prune?.(object);
      (rules.defaults ?? setApiDefaults)(object);
      // Go always serializes the status of a built-in kind that has one.
      if (rules.initialStatus && !rules.defaults) object['status'] ??= {};
    },
    prepareForCreate(object: ApiObject): void {
      if (rules.initialStatus) put(object, 'status', rules.initialStatus(object));
      rules.prepareForCreate?.(object);
      setGeneration(object, rules.generation === 'counted' ? 1 : undefined);
    },
    /**
     * Restores the fields that a request to this subresource cannot change. An empty string means the main resource.
     */
    prepareForUpdate(object: ApiObject, old: ApiObject, subresource: string): void {
      if (subresource === 'status') restore(object, old, (field) => field !== 'metadata' && field !== 'status');
      else if (rules.initialStatus) put(object, 'status', structuredClone(old['status']));
      rules.prepareForUpdate?.(object, old, subresource);
      setGeneration(object, rules.generation === 'counted' ? nextGeneration(rules, object, old) : undefined);
    },
    validateCreate: (object: ApiObject): FieldError[] => [
      ...validateMetadata(object, rules, namespaced),
      ...validate(object),
      ...(rules.validateCreate?.(object) ?? []),
    ],
    validateUpdate: (object: ApiObject, old: ApiObject, subresource: string): FieldError[] => [
      ...validateMetadataUpdate(object, old),
      ...(subresource === '' ? validate(object) : []),
      ...(rules.validateUpdate?.(object, old, subresource) ?? []),
    ],
    warnings: rules.warnings ?? (() => []),
  };
}

type Part = Record<string, unknown>;

/** Restores the selected fields of the old object. */
export function restore(object: Part, old: Part, isRestored: (field: string) => boolean): void {
  for (const field of new Set([...Object.keys(object), ...Object.keys(old)])) {
    if (isRestored(field)) put(object, field, structuredClone(old[field]));
  }
}

function put(object: Part, field: string, value: unknown): void {
  if (value === undefined) Reflect.deleteProperty(object, field);
  else Object.defineProperty(object, field, { value, enumerable: true, configurable: true, writable: true });
}

function nextGeneration(rules: KindRules, object: ApiObject, old: ApiObject): number {
  const ignored = ['apiVersion', 'kind', 'metadata', ...(rules.initialStatus ? ['status'] : [])];
  const desired = (version: ApiObject): unknown =>
    Object.fromEntries(Object.entries(version).filter(([field]) => !ignored.includes(field)));
  const before = Number(old.metadata?.['generation'] ?? 0);
  return semanticEqual(desired(object), desired(old)) ? before : before + 1;
}

function setGeneration(object: ApiObject, generation: number | undefined): void {
  put((object.metadata ??= {}), 'generation', generation);
}

/**
 * Validates the metadata of a new object.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/validation/objectmeta.go
 */
function validateMetadata(
  object: ApiObject,
  { nameErrors = dnsSubdomainErrors }: KindRules,
  namespaced: boolean,
): FieldError[] {
  const { name = '', namespace = '', generateName = '' } = getMetadata(object);
  // A prefix may end with a dash, because the generated suffix follows.
  const prefix = generateName.replace(/-$/, 'a');
  return [
    ...(prefix === ''
      ? []
      : nameErrors(prefix).map((error) => invalidValue('metadata.generateName', generateName, error))),
    ...(name === ''
      ? [requiredField('metadata.name', 'name or generateName is required')]
      : nameErrors(name).map((error) => invalidValue('metadata.name', name, error))),
    ...namespaceErrors(namespace, namespaced),
    ...commonErrors(object.metadata ?? {}),
  ];
}

/** Validates the metadata of a changed object. */
function validateMetadataUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const [after, before] = [object.metadata ?? {}, old.metadata ?? {}];
  return [
    ...['name', 'namespace', 'uid']
      .filter((field) => (before[field] ?? '') !== (after[field] ?? ''))
      .map((field) => invalidValue(`metadata.${field}`, after[field] ?? '', 'field is immutable')),
    ...commonErrors(after),
  ];
}

function namespaceErrors(namespace: string, namespaced: boolean): FieldError[] {
  if (!namespaced) return namespace === '' ? [] : [forbiddenField('metadata.namespace', 'not allowed on this type')];
  if (namespace === '') return [requiredField('metadata.namespace', '')];
  return dnsLabelErrors(namespace).map((error) => invalidValue('metadata.namespace', namespace, error));
}

function commonErrors(metadata: JsonObject): FieldError[] {
  return [
    ...labelErrors(metadata['labels'], 'metadata.labels'),
    ...annotationErrors(metadata['annotations'], 'metadata.annotations'),
  ];
}

/** Validates a map of labels. */
export function labelErrors(labels: unknown, path: string): FieldError[] {
  return Object.entries(nestedObject({ labels }, 'labels')).flatMap(([key, value]) => [
    ...labelKeyErrors(key).map((error) => invalidValue(path, key, error)),
    ...labelValueErrors(String(value)).map((error) => invalidValue(path, String(value), error)),
  ]);
}

/** Validates a map of annotations, whose keys are case-insensitive. */
function annotationErrors(annotations: unknown, path: string): FieldError[] {
  const entries = Object.entries(nestedObject({ annotations }, 'annotations'));
  const bytes = entries.reduce((sum, [key, value]) => sum + Buffer.byteLength(key + String(value)), 0);
  return [
    ...entries.flatMap(([key]) => labelKeyErrors(key.toLowerCase()).map((error) => invalidValue(path, key, error))),
    ...(bytes <= LIMITS.annotationBytes ? [] : [tooLong(path, LIMITS.annotationBytes)]),
  ];
}

/** Returns true if the selector matches everything. */
export function isEmptySelector(selector: JsonObject): boolean {
  const labels = Object.keys(nestedObject(selector, 'matchLabels'));
  return labels.length === 0 && itemsAt(selector, 'matchExpressions').length === 0;
}
