import { applyDefaults } from '../../kube/defaults.ts';
import { semanticEqual } from '../../kube/equality.ts';
import type { FieldError } from '../../kube/field-error.ts';
import type { ApiObject, Strategy } from '../types.ts';
import { SUBDOMAIN, validateMetadata, validateMetadataUpdate, type NameRule } from './metadata.ts';

/** What sets a kind apart from others; what is left out is as with most kinds. */
export interface KindRules {
  readonly namespaced: boolean;
  readonly nameErrors?: NameRule;
  /** `metadata.generation` counts the changes of all but metadata and, where it is the server's, status. */
  readonly generation?: 'counted';
  /** The status of a new object; absent, the kind has none. */
  readonly initialStatus?: (object: ApiObject) => unknown;
  readonly defaults?: (object: ApiObject) => void;
  readonly prepareForCreate?: (object: ApiObject) => void;
  /** Runs after what the status subresource means has been seen to. */
  readonly prepareForUpdate?: (object: ApiObject, old: ApiObject, subresource: string) => void;
  readonly validate?: (object: ApiObject) => readonly FieldError[];
  /** Beside what `validate` finds, on a new object. */
  readonly validateCreate?: (object: ApiObject) => readonly FieldError[];
  /** Beside what `validate` finds, on a change of the object itself; alone, on a change through a subresource. */
  readonly validateUpdate?: (object: ApiObject, old: ApiObject, subresource: string) => readonly FieldError[];
  readonly warnings?: (object: ApiObject) => readonly string[];
}

/** Makes the strategy of a kind from its rules. */
export function createStrategy(rules: KindRules): Strategy {
  const naming = { namespaced: rules.namespaced, nameErrors: rules.nameErrors ?? SUBDOMAIN };
  const validate = (object: ApiObject): readonly FieldError[] => rules.validate?.(object) ?? [];
  return {
    defaults(object) {
      (rules.defaults ?? applyDefaults)(object);
      // Go always writes the status of a built-in kind that has one.
      if (rules.initialStatus && !rules.defaults) object['status'] ??= {};
    },
    prepareForCreate(object) {
      if (rules.initialStatus) put(object, 'status', rules.initialStatus(object));
      rules.prepareForCreate?.(object);
      setGeneration(object, rules.generation === 'counted' ? 1 : undefined);
    },
    prepareForUpdate(object, old, subresource) {
      if (subresource === 'status') restore(object, old, (field) => field !== 'metadata' && field !== 'status');
      else if (rules.initialStatus) put(object, 'status', structuredClone(old['status']));
      rules.prepareForUpdate?.(object, old, subresource);
      setGeneration(object, rules.generation === 'counted' ? nextGeneration(rules, object, old) : undefined);
    },
    validateCreate: (object) => [
      ...validateMetadata(object, naming),
      ...validate(object),
      ...(rules.validateCreate?.(object) ?? []),
    ],
    validateUpdate: (object, old, subresource) => [
      ...validateMetadataUpdate(object, old),
      ...(subresource === '' || subresource === 'scale' ? validate(object) : []),
      ...(rules.validateUpdate?.(object, old, subresource) ?? []),
    ],
    warnings: rules.warnings ?? (() => []),
  };
}

/** Puts the fields of the old object back that this request may not change. */
export function restore(object: Part, old: Part, isKept: (field: string) => boolean): void {
  for (const field of new Set([...Object.keys(object), ...Object.keys(old)])) {
    if (isKept(field)) put(object, field, structuredClone(old[field]));
  }
}

type Part = Record<string, unknown>;

function put(object: Part, field: string, value: unknown): void {
  if (value === undefined) Reflect.deleteProperty(object, field);
  else Object.defineProperty(object, field, { value, enumerable: true, configurable: true, writable: true });
}

function nextGeneration(rules: KindRules, object: ApiObject, old: ApiObject): number {
  const counts = (field: string): boolean =>
    !COUNTS_NOT.has(field) && !(field === 'status' && rules.initialStatus !== undefined);
  const desired = (one: ApiObject): unknown =>
    Object.fromEntries(Object.entries(one).filter(([field]) => counts(field)));
  const before = Number(old.metadata?.['generation'] ?? 0);
  return semanticEqual(desired(object), desired(old)) ? before : before + 1;
}

const COUNTS_NOT = new Set(['apiVersion', 'kind', 'metadata']);

function setGeneration(object: ApiObject, generation: number | undefined): void {
  object.metadata ??= {};
  put(object.metadata, 'generation', generation);
}
