/** Labels of the namespaces that SCC admission skips. */
import { getMetadataOwners } from '../../kube/managed-fields.ts';
import type { Namespace } from '../../kube/types.ts';
import { LABEL_SYNC_LABEL, RUN_LEVEL_ZERO_MANAGER } from '../../kube/well-known.ts';
import { LEVEL_LABELS, namespaceDocument } from './label-owners.ts';

/**
 * Namespaces that SCC admission skips because their pods may need all permissions. Unlike on OpenShift, SCC admission
 * applies to `default`.
 */
export const RUN_LEVEL_ZERO_NAMESPACES = ['kube-system', 'kube-public'] as const;

/**
 * Returns the document to apply as `RUN_LEVEL_ZERO_MANAGER`, which makes one of these namespaces privileged in every
 * mode. Returns `undefined` for all other namespaces and if nothing changes. Unlike OpenShift, it keeps labels that
 * another manager set. It also keeps version labels.
 * @see
 * https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/privileged_namespaces_controller.go
 */
export function planRunLevelZero(namespace: Namespace): Namespace | undefined {
  const { name, labels } = namespace.metadata ?? {};
  const owners = getMetadataOwners(namespace.metadata);
  const isRunLevelZero = RUN_LEVEL_ZERO_NAMESPACES.some((other) => other === name);
  if (!isRunLevelZero || owners === undefined || labels?.[LABEL_SYNC_LABEL] === 'false') return undefined;
  const free = LEVEL_LABELS.filter((key) => {
    if (labels?.[key] === undefined) return true;
    const managers = owners.filter((owner) => owner.labels.has(key)).map(({ manager }) => manager);
    return managers.length > 0 && managers.every((manager) => manager === RUN_LEVEL_ZERO_MANAGER);
  });
  if (free.every((key) => labels?.[key] === 'privileged')) return undefined;
  return namespaceDocument(namespace, { labels: Object.fromEntries(free.map((key) => [key, 'privileged'])) });
}
