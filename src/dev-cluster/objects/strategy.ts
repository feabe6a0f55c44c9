import { setApiDefaults } from '../../kube/defaults.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { type FieldError, forbiddenField, invalidValue, requiredField } from '../../kube/field-error.ts';
import { dnsLabelErrors, dnsSubdomainErrors } from '../../kube/names.ts';
import { metadataMapErrors, nameErrors, type NameRule, podErrors } from '../../kube/validation.ts';
import { type ApiObject, getMetadata } from '../types.ts';

/** Rules for a kind. Omitted properties default to the values that apply to most kinds. */
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
  /** Prepares the object for an update. Runs after the fields that the request cannot change have been restored. */
  readonly prepareForUpdate?: (object: ApiObject, old: ApiObject, subresource: string) => void;
  /** Validates the object. By default, validates the pods of built-in kinds. */
  readonly validate?: (object: ApiObject) => readonly FieldError[];
  /** Returns additional errors for a new object. */
  readonly validateCreate?: (object: ApiObject) => readonly FieldError[];
  /** Returns additional errors for a changed object. For subresources, only this function runs, and not `validate`. */
  readonly validateUpdate?: (object: ApiObject, old: ApiObject, subresource: string) => readonly FieldError[];
  readonly warnings?: (object: ApiObject) => readonly string[];
}

/** Rules for a kind, combined with the rules that apply to all kinds. */
export type Strategy = ReturnType<typeof createStrategy>;

/** Creates the strategy for a kind. Its functions modify the given object in place and never throw. */
export function createStrategy(rules: KindRules, namespaced: boolean) {
  const validate = (object: ApiObject): readonly FieldError[] => (rules.validate ?? podErrors)(object);
  return {
    prune: rules.prune ?? (() => []),
    defaults(object: ApiObject): void {
      rules.prune?.(object);
      (rules.defaults ?? setApiDefaults)(object);
      // Sets an empty status, because Go always serializes the status of a built-in kind that has one.
      if (rules.initialStatus && !rules.defaults) object['status'] ??= {};
    },
    prepareForCreate(object: ApiObject): void {
      if (rules.initialStatus) put(object, 'status', rules.initialStatus(object));
      rules.prepareForCreate?.(object);
      setGeneration(object, rules.generation === 'counted' ? 1 : undefined);
    },
    /**
     * Restores the fields that a request to this subresource cannot change. An empty string represents the main
     * resource.
     */
    prepareForUpdate(object: ApiObject, old: ApiObject, subresource: string): void {
      if (subresource === 'status') restore(object, old, (field) => field !== 'metadata' && field !== 'status');
      else if (rules.initialStatus) put(object, 'status', structuredClone(old['status']));
      rules.prepareForUpdate?.(object, old, subresource);
      setGeneration(object, rules.generation === 'counted' ? nextGeneration(rules, object, old) : undefined);
    },
    validateCreate: (object: ApiObject): FieldError[] => [
      ...nameErrors(object.metadata ?? {}, rules.nameErrors ?? dnsSubdomainErrors),
      ...namespaceErrors(getMetadata(object).namespace ?? '', namespaced),
      ...metadataMapErrors(object.metadata ?? {}),
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

/** Validates the metadata of a changed object. */
function validateMetadataUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const [after, before] = [object.metadata ?? {}, old.metadata ?? {}];
  return [
    ...['name', 'namespace', 'uid']
      .filter((field) => (before[field] ?? '') !== (after[field] ?? ''))
      .map((field) => invalidValue(`metadata.${field}`, after[field] ?? '', 'field is immutable')),
    ...metadataMapErrors(after),
  ];
}

function namespaceErrors(namespace: string, namespaced: boolean): FieldError[] {
  if (!namespaced) return namespace === '' ? [] : [forbiddenField('metadata.namespace', 'not allowed on this type')];
  if (namespace === '') return [requiredField('metadata.namespace', '')];
  return dnsLabelErrors(namespace).map((error) => invalidValue('metadata.namespace', namespace, error));
}
