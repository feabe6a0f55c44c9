/** Finds labels and annotations in manifests that are invalid or have no effect. */
import { manifestLabels, type ManifestObject } from '../../config/objects.ts';
import { parsePath, type Path } from '../../config/yaml.ts';
import { formatFieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import { valueAt } from '../../kube/types.ts';
import { findUnusedKeys, type NamespacePolicy } from '../../policy/psa/index.ts';
import { SCC_MODE_LABEL, SCC_MODES, sccMode } from '../../policy/scc/index.ts';
import type { ViolatedCheck } from '../output/findings.ts';
import { createFinding } from './fields.ts';

/** Returns the invalid Pod Security labels of a Namespace, which the API server rejects. */
export function labelFindings(object: ManifestObject, { errors }: NamespacePolicy): ViolatedCheck[] {
  return errors.map((error) =>
    createFinding(object, parsePath(error.path), {
      check: 'labels',
      reason: 'invalid label',
      detail: formatFieldError(error),
      fix: 'Use a level (privileged, baseline, restricted) or a version (latest, v1.N), in lower case.',
    }),
  );
}

/**
 * Returns a finding for an invalid SCC mode of a Namespace. The API server accepts any string, and Portcullis treats
 * invalid values as enforce.
 */
export function sccModeFindings(object: ManifestObject): ViolatedCheck[] {
  const path = ['metadata', 'labels', SCC_MODE_LABEL];
  const label = manifestLabels(object.value)[SCC_MODE_LABEL];
  const fix = `Use one of ${SCC_MODES.join(', ')}, in lower case.`;
  if (typeof label !== 'string') return [];
  const namespace = { metadata: { labels: { [SCC_MODE_LABEL]: label } } };
  const { problem: detail } = sccMode(namespace, { mode: 'report', exemptNamespaces: [] });
  return detail === undefined
    ? []
    : [createFinding(object, path, { mode: 'warn', check: 'scc-label', reason: 'invalid label', detail, fix })];
}

/** Returns the Pod Security labels and annotations without effect of an object or of a pod template in it. */
export function unusedKeyFindings(object: ManifestObject, path: Path = []): ViolatedCheck[] {
  const metadata = [...path, 'metadata'];
  return findUnusedKeys(valueAt(object.value, metadata), object.kind).map(({ field, key, fix }) =>
    createFinding(object, [...metadata, field, key], {
      mode: 'warn',
      check: 'labels',
      reason: `${field === 'labels' ? 'label' : 'annotation'} without effect`,
      detail: quote(key),
      fix,
    }),
  );
}
