import { SUFFICIENT_LEVEL_ANNOTATION } from '../../../kube/label-sync.ts';
import { apiVersionOf } from '../../../kube/resources.ts';
import type { Namespace } from '../../../kube/types.ts';
import { PSA_LABELS } from './labels.ts';
import type { FieldsInput, IntendedFields } from './intended.ts';
import { ownFieldsOf } from './ownership.ts';

/**
 * The document to apply, by force, for the syncer to own these fields and no others; `undefined` if it does and all values
 * are right.
 */
export function documentFor({ namespace, owners }: FieldsInput, fields: IntendedFields): Namespace | undefined {
  const { labels, annotations } = namespace.metadata ?? {};
  const own = ownFieldsOf(owners);
  const isUpToDate =
    isSame(fields.labels, labels, own.labels) && isSame(fields.annotations, annotations, own.annotations);
  if (isUpToDate) return undefined;
  return {
    apiVersion: apiVersionOf('Namespace'),
    kind: 'Namespace',
    metadata: {
      ...identityOf(namespace),
      ...(fields.labels.size === 0 ? {} : { labels: Object.fromEntries(fields.labels) }),
      ...(fields.annotations.size === 0 ? {} : { annotations: Object.fromEntries(fields.annotations) }),
    },
  };
}

/**
 * What ties an application to the object that was read: without its uid one that is gone would be created anew, without the
 * version somebody who was faster would be overwritten.
 */
export function identityOf({ metadata }: Namespace): NonNullable<Namespace['metadata']> {
  const { name = '', uid, resourceVersion } = metadata ?? {};
  return {
    name,
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

/** True if the values are there, and these keys and no others are owned. */
function isSame(
  intended: ReadonlyMap<string, string>,
  values: Readonly<Record<string, string>> | null | undefined,
  own: ReadonlySet<string>,
): boolean {
  const keys = [...own].filter((key) => key !== '.');
  return (
    keys.length === intended.size && [...intended].every(([key, value]) => own.has(key) && values?.[key] === value)
  );
}

/** Every field that the syncer may ever own. */
export const SYNCED_FIELDS = { labels: PSA_LABELS, annotations: [SUFFICIENT_LEVEL_ANNOTATION] } as const;
