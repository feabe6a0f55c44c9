import type {
  V1Container,
  V1Deployment,
  V1PodSpec,
  V1Probe,
  V1TopologySpreadConstraint,
} from '@kubernetes/client-node';
import { INSTALLATION } from '../kube/well-known.ts';
import type { Wire } from '../kube/types.ts';
import { argumentsOf } from './arguments.ts';
import { certificateMounts, certificateVolumes } from './certificate.ts';
import { CONFIGURATION_MOUNT, CONFIGURATION_VOLUME } from './configuration.ts';
import { LABELS, metadataIn, SELECTOR_LABELS } from './metadata.ts';
import { PRIORITY_CLASS } from './namespace.ts';
import { PORTS } from './network.ts';
import type { ManifestSettings } from './settings.ts';
import type { ManifestOf } from './types.ts';

/** More than a replica takes to stop: see --shutdown-delay-duration. */
const GRACE_SECONDS = 60;

/** The replicas. One more is started before one is ended. */
export function deployment(settings: ManifestSettings): ManifestOf<V1Deployment> {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadataIn(settings.namespace, INSTALLATION.name),
    spec: {
      replicas: settings.replicas,
      revisionHistoryLimit: 3,
      selector: { matchLabels: SELECTOR_LABELS },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      template: {
        metadata: {
          labels: { ...LABELS, 'app.kubernetes.io/version': settings.version },
          annotations: { 'kubectl.kubernetes.io/default-container': INSTALLATION.name },
        },
        spec: podSpec(settings),
      },
    },
  };
}

function podSpec(settings: ManifestSettings): Wire<V1PodSpec> {
  return {
    serviceAccountName: INSTALLATION.name,
    automountServiceAccountToken: true,
    priorityClassName: PRIORITY_CLASS,
    terminationGracePeriodSeconds: GRACE_SECONDS,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    nodeSelector: { 'kubernetes.io/os': 'linux' },
    topologySpreadConstraints: [
      spreadOver('kubernetes.io/hostname', settings.spread === 'required' ? 'DoNotSchedule' : 'ScheduleAnyway'),
      spreadOver('topology.kubernetes.io/zone', 'ScheduleAnyway'),
    ],
    containers: [container(settings)],
    volumes: [CONFIGURATION_VOLUME, ...certificateVolumes(settings)],
  };
}

/** Of the replicas of one version: those that are about to end do not count. */
function spreadOver(
  topologyKey: string,
  whenUnsatisfiable: 'DoNotSchedule' | 'ScheduleAnyway',
): Wire<V1TopologySpreadConstraint> {
  const labelSelector = { matchLabels: SELECTOR_LABELS };
  return { maxSkew: 1, topologyKey, whenUnsatisfiable, labelSelector, matchLabelKeys: ['pod-template-hash'] };
}

/** The image names its user; OpenShift gives another. Nothing is written to the file system. */
function container(settings: ManifestSettings): Wire<V1Container> {
  const { reviews, probes } = PORTS;
  return {
    name: INSTALLATION.name,
    image: settings.image,
    imagePullPolicy: 'IfNotPresent',
    args: argumentsOf(settings),
    ports: [reviews, probes].map(({ name, port }) => ({ name, containerPort: port, protocol: 'TCP' })),
    startupProbe: probe('/livez', { periodSeconds: 2, failureThreshold: 30 }),
    livenessProbe: probe('/livez', { periodSeconds: 10, failureThreshold: 3 }),
    readinessProbe: probe('/readyz', { periodSeconds: 5, failureThreshold: 2 }),
    // Without a limit of CPU: being throttled, a webhook holds up the API server.
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
    },
    volumeMounts: [CONFIGURATION_MOUNT, ...certificateMounts(settings)],
  };
}

function probe(path: string, timing: Pick<V1Probe, 'periodSeconds' | 'failureThreshold'>): Wire<V1Probe> {
  return { httpGet: { path, port: PORTS.probes.name, scheme: 'HTTP' }, timeoutSeconds: 5, ...timing };
}
