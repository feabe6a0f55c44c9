import { SUFFICIENT_LEVEL_ANNOTATION } from '../../../kube/label-sync.ts';
import type { FieldOwner } from '../../../kube/managed-fields.ts';
import type { Namespace } from '../../../kube/types.ts';
import type { Level } from '../../pss/types.ts';
import type { SyncerMode } from '../enforcement/types.ts';
import { ENFORCE_LABELS, isValidLabel, labelFor, PSA_LABELS } from './labels.ts';
import { isOptedIn } from './managed.ts';
import { isForeign, isFormer, isUnowned, ownFieldsOf } from './ownership.ts';

/** Everything that the syncer is to own; what is left out it gives up. */
export interface IntendedFields {
  readonly labels: ReadonlyMap<string, string>;
  readonly annotations: ReadonlyMap<string, string>;
}

/** What decides about the fields of one namespace. */
export interface FieldsInput {
  readonly namespace: Namespace;
  readonly owners: readonly FieldOwner[];
  readonly mode: SyncerMode;
  readonly isManaged: boolean;
  /** Absent where there is no telling, and in namespaces that are not managed. */
  readonly level?: Level | undefined;
}

/**
 * The fields for a namespace. Without a level labels stay as they are: to take one away would silently change what is
 * enforced. Only where nothing is to be enforced the labels go that do.
 */
export function intendedFields(input: FieldsInput): IntendedFields {
  const labels = PSA_LABELS.flatMap((key) => {
    const value = intendedLabel(key, input);
    return value === undefined ? [] : [[key, value] as const];
  });
  return { labels: new Map(labels), annotations: intendedAnnotations(input) };
}

/** True if the label stays as others left it, although the level asks for it. */
export function isLeftAlone(key: string, { namespace, owners, level }: FieldsInput): boolean {
  if (level === undefined || isOptedIn(namespace)) return false;
  if (isForeign(key, namespace, owners)) return true;
  const value = valueOf(key, namespace) ?? '';
  return isUnowned(key, namespace, owners) && isValidLabel(key, value) && value !== labelFor(key, level);
}

function intendedLabel(key: string, input: FieldsInput): string | undefined {
  const { namespace, owners, mode, level, isManaged } = input;
  const isKept = mode === 'Enforce' || !ENFORCE_LABELS.has(key);
  if (isKept && level !== undefined) return isLeftAlone(key, input) ? undefined : labelFor(key, level);
  // What is still listed as early releases wrote it has to be owned first: only then it can be given up.
  const isPast = isManaged && isFormer(key, namespace, owners);
  const isOwn = ownFieldsOf(owners).labels.has(key) && (isKept || mode === 'Hold');
  return isPast || isOwn ? valueOf(key, namespace) : undefined;
}

function intendedAnnotations({ namespace, owners, isManaged, level }: FieldsInput): IntendedFields['annotations'] {
  const isOwn = isManaged && ownFieldsOf(owners).annotations.has(SUFFICIENT_LEVEL_ANNOTATION);
  const value = level ?? (isOwn ? namespace.metadata?.annotations?.[SUFFICIENT_LEVEL_ANNOTATION] : undefined);
  return new Map(value === undefined ? [] : [[SUFFICIENT_LEVEL_ANNOTATION, value]]);
}

function valueOf(key: string, { metadata }: Namespace): string | undefined {
  return metadata?.labels?.[key];
}
