/** Finds labels and annotations that look like Pod Security labels but have no effect. */
import { findSimilar, quote } from '../../kube/text.ts';
import { objectMember } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';

const PREFIX = 'pod-security.kubernetes.io/';
const KNOWN: readonly string[] = Object.values(POD_SECURITY_LABELS);
const SUFFIXES = KNOWN.map((label) => label.slice(PREFIX.length));

/** A label or annotation without effect. */
interface UnusedKey {
  readonly field: 'labels' | 'annotations';
  readonly key: string;
  /** One sentence that describes how to give the key an effect. */
  readonly fix: string;
}

/**
 * Returns the labels and annotations of an object that begin with the prefix of Pod Security labels, or are similar to
 * these labels, but have no effect. API servers read only the six labels, and only in namespaces.
 */
export function findUnusedKeys(metadata: unknown, kind: string): readonly UnusedKey[] {
  return (['labels', 'annotations'] as const).flatMap((field) =>
    Object.keys(objectMember(metadata, field)).flatMap((key) => {
      const label = KNOWN.includes(key) ? key : findSimilar(key, KNOWN);
      if (label === undefined && !key.startsWith(PREFIX)) return [];
      if (kind === 'Namespace' && field === 'labels' && label === key) return [];
      return [{ field, key, fix: describeFix(label, { field, key, kind }) }];
    }),
  );
}

function describeFix(
  label: string | undefined,
  { field, key, kind }: Pick<UnusedKey, 'field' | 'key'> & { readonly kind: string },
): string {
  if (label === undefined) return `Use ${SUFFIXES.join(', ')} after ${PREFIX}, or remove the key.`;
  if (kind !== 'Namespace')
    return `Set the label ${quote(label)} of the namespace, because ${kind} objects have no Pod Security level.`;
  return field === 'labels' && label !== key
    ? `Write ${quote(label)}.`
    : `Set it as the label ${quote(label)}, because API servers do not read annotations.`;
}
