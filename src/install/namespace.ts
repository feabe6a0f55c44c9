import type { V1Namespace, V1ResourceQuota } from '@kubernetes/client-node';
import { LABELS, metadataIn } from './metadata.ts';
import type { ManifestSettings } from './settings.ts';
import type { ManifestOf } from './types.ts';

/** What Portcullis asks of others holds for itself. */
const RESTRICTED = {
  'pod-security.kubernetes.io/enforce': 'restricted',
  'pod-security.kubernetes.io/audit': 'restricted',
  'pod-security.kubernetes.io/warn': 'restricted',
} as const;

export const PRIORITY_CLASS = 'system-cluster-critical';

/** The namespace of the installation. */
export function namespace({ namespace: name }: ManifestSettings): ManifestOf<V1Namespace> {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { ...LABELS, ...RESTRICTED } },
  };
}

/** Some clusters allow critical priority classes outside `kube-system` only where a quota names them. */
export function resourceQuota({ namespace }: ManifestSettings): ManifestOf<V1ResourceQuota> {
  const scope = { scopeName: 'PriorityClass', operator: 'In', values: [PRIORITY_CLASS] };
  return {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: metadataIn(namespace, 'portcullis'),
    spec: { hard: { pods: '20' }, scopeSelector: { matchExpressions: [scope] } },
  };
}
