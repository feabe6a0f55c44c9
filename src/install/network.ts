import type { V1NetworkPolicy, V1Service } from '@kubernetes/client-node';
import { INSTALLATION } from '../kube/well-known.ts';
import { metadataIn, SELECTOR_LABELS } from './metadata.ts';
import type { ManifestSettings } from './settings.ts';
import type { ManifestOf } from './types.ts';

/** The ports of a replica: reviews over TLS; probes and metrics without. */
export const PORTS = { reviews: { name: 'reviews', port: 8443 }, probes: { name: 'probes', port: 8081 } } as const;

/** Where API servers ask, and where metrics are read. */
export function service({ namespace }: ManifestSettings): ManifestOf<V1Service> {
  const { reviews, probes } = PORTS;
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadataIn(namespace, INSTALLATION.name),
    spec: {
      selector: SELECTOR_LABELS,
      ports: [
        { name: 'https', protocol: 'TCP', port: 443, targetPort: reviews.name },
        { name: 'metrics', protocol: 'TCP', port: probes.port, targetPort: probes.name },
      ],
    },
  };
}

/**
 * API servers and kubelets are on the network of nodes, which no selector names: the two ports are open to all, no
 * other is.
 */
export function networkPolicy({ namespace }: ManifestSettings): ManifestOf<V1NetworkPolicy> {
  const ports = [PORTS.reviews, PORTS.probes].map(({ name }) => ({ protocol: 'TCP', port: name }));
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadataIn(namespace, INSTALLATION.name),
    spec: { podSelector: { matchLabels: SELECTOR_LABELS }, policyTypes: ['Ingress'], ingress: [{ ports }] },
  };
}
