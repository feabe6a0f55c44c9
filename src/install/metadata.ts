import { COMPONENT_LABEL, INSTALLATION, PART_OF, PART_OF_LABEL } from '../kube/well-known.ts';
import type { Manifest } from './types.ts';

const NAME_LABEL = 'app.kubernetes.io/name';

/** What selects the replicas; it can never change. */
export const SELECTOR_LABELS = { [NAME_LABEL]: INSTALLATION.name, [COMPONENT_LABEL]: 'admission' } as const;

/** On everything: by the last of them all that belongs to this program is found. */
export const LABELS = { ...SELECTOR_LABELS, [PART_OF_LABEL]: PART_OF } as const;

/** By these webhooks can be applied after, and removed before, all the rest. */
export const WEBHOOK_LABELS = { ...LABELS, [COMPONENT_LABEL]: 'webhooks' } as const;

/** The metadata of what belongs to no namespace. */
export function clusterMetadata(name: string): Manifest['metadata'] {
  return { name, labels: LABELS };
}

/** The metadata of what lies in the namespace of the installation. */
export function metadataIn(namespace: string, name: string): Manifest['metadata'] {
  return { name, namespace, labels: LABELS };
}
