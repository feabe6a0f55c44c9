import type { FieldError } from '../../../kube/field-error.ts';
import type { ContainerFields, PodFields, Repair } from '../../pod/index.ts';
import type { SccFields } from '../scc-fields.ts';

/** The options of the strategies that may need namespace ranges, with these ranges filled in. */
export type BoundStrategies = Pick<SccFields, 'runAsUser' | 'seLinuxContext' | 'fsGroup' | 'supplementalGroups'>;

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** A pod's values under an SCC, including generated values. */
export type PodValues = Mutable<
  Pick<PodFields, 'fsGroup' | 'supplementalGroups' | 'seLinuxOptions' | 'seccompAnnotation' | 'seccompProfile'>
>;

/** A container's values under an SCC, including generated but not inherited values. */
export type ContainerValues = Mutable<
  Pick<
    ContainerFields,
    | 'runAsUser'
    | 'runAsNonRoot'
    | 'seLinuxOptions'
    | 'seccompProfile'
    | 'capabilities'
    | 'readOnlyRootFilesystem'
    | 'allowPrivilegeEscalation'
  >
>;

export interface PodContext {
  readonly scc: SccFields;
  readonly bound: BoundStrategies;
  readonly pod: PodFields;
  readonly podValues: PodValues;
  /** Maximum number of errors, after which strategies that report an error for each list element stop. */
  readonly maxErrors: number;
}

/** `podValues` already contains the generated values. */
export interface ContainerContext extends PodContext {
  readonly container: ContainerFields;
  readonly values: ContainerValues;
}

interface Strategy {
  /** Repairs for the fields that the strategy does not allow. Each repair selects its fields by path. */
  readonly repairs?: readonly Repair[];
}

/** `generate` sets the values that the pod lacks, and `validate` reports the values that the SCC does not allow. */
export interface PodStrategy extends Strategy {
  readonly generate?: (context: PodContext) => void;
  readonly validate?: (context: PodContext, errors: FieldError[]) => void;
}

export interface ContainerStrategy extends Strategy {
  readonly generate?: (context: ContainerContext) => void;
  readonly validate?: (context: ContainerContext, errors: FieldError[]) => void;
}

/**
 * Maximum length of lists that are always searched linearly. Longer lists are indexed if there are more than a few
 * lookups.
 */
const MAX_SEARCHED = 16;
const MAX_SEARCHES = 4;

/** Creates a function that returns true if a list contains a name. `calls` is the approximate number of calls. */
export function createLookup(list: readonly string[], calls: number): (name: string) => boolean {
  if (list.length <= MAX_SEARCHED || calls <= MAX_SEARCHES) return (name) => list.includes(name);
  const names = new Set(list);
  return (name) => names.has(name);
}
