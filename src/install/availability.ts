import type { V1PodDisruptionBudget } from '@kubernetes/client-node';
import { INSTALLATION } from '../kube/well-known.ts';
import { metadataIn, SELECTOR_LABELS } from './metadata.ts';
import type { ManifestSettings } from './settings.ts';
import type { ManifestOf } from './types.ts';

/** Nodes are emptied one after the other; replicas that are not ready anyway hold nobody up. */
export function podDisruptionBudget({ namespace }: ManifestSettings): ManifestOf<V1PodDisruptionBudget> {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: metadataIn(namespace, INSTALLATION.name),
    spec: {
      maxUnavailable: 1,
      selector: { matchLabels: SELECTOR_LABELS },
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  };
}
