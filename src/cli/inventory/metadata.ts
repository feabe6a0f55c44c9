import type { Path } from '../../config/manifests.ts';
import { metadataProblem } from '../../kube/metadata-problem.ts';
import { isObject, type JsonObject, type ObjectMeta } from '../../kube/types.ts';

/** The metadata of an object, or what is wrong with them and where. */
export type ReadMetadata = { readonly metadata: ObjectMeta } | { readonly path: Path; readonly message: string };

const NAMELESS = 'metadata.name: Required value: name or generateName is required';

/**
 * Reads the metadata as they are stored: without nulls, with a namespace or, where `defaultNamespace` is `undefined`,
 * without. What has no name yet goes by the beginning of it.
 */
export function readMetadata(value: JsonObject, defaultNamespace: string | undefined): ReadMetadata {
  const given = value['metadata'] ?? {};
  if (!isObject(given)) return { path: ['metadata'], message: 'metadata must be an object' };
  const metadata = Object.fromEntries(Object.entries(given).filter(([, field]) => field !== null));
  const problem = metadataProblem(metadata);
  if (problem) return { path: ['metadata', problem.field], message: problem.message };
  const { namespace, ...others }: ObjectMeta = metadata;
  const name = others.name || others.generateName;
  if (!name) return { path: ['metadata'], message: NAMELESS };
  const place = defaultNamespace === undefined ? {} : { namespace: namespace || defaultNamespace };
  return { metadata: { ...others, name, ...place } };
}
