import { INSTALLATION } from '../../kube/installation.ts';
import { metadataIn, SELECTOR_LABELS } from '../metadata.ts';
import type { ManifestSettings } from '../settings.ts';
import type { CustomManifest } from '../types.ts';

/** Has the Prometheus operator read the metrics of every replica. */
export function serviceMonitor({ namespace }: ManifestSettings): CustomManifest {
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'ServiceMonitor',
    metadata: metadataIn(namespace, INSTALLATION.name),
    spec: {
      selector: { matchLabels: SELECTOR_LABELS },
      endpoints: [{ port: 'metrics', path: '/metrics', interval: '30s' }],
    },
  };
}
