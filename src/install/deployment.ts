import type {
  V1Namespace,
  V1ResourceQuota,
  V1NetworkPolicy,
  V1Service,
  V1PodDisruptionBudget,
  V1Volume,
  V1VolumeMount,
  V1ConfigMap,
  V1Container,
  V1Deployment,
  V1PodSpec,
  V1Probe,
  V1TopologySpreadConstraint,
} from '@kubernetes/client-node';
import {
  LABELS,
  metadataIn,
  type ManifestSettings,
  type ManifestOf,
  SELECTOR_LABELS,
  type CustomManifest,
  exemptNamespacesOf,
} from './settings.ts';
import { INSTALLATION } from '../kube/well-known.ts';
import type { JsonObject, Wire } from '../kube/types.ts';
import { printYaml } from '../config/yaml.ts';

/** What Portcullis asks of others holds for itself. */
const RESTRICTED = {
  'pod-security.kubernetes.io/enforce': 'restricted',
  'pod-security.kubernetes.io/audit': 'restricted',
  'pod-security.kubernetes.io/warn': 'restricted',
} as const;

const PRIORITY_CLASS = 'system-cluster-critical';

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

/**
 * The Secret with a serving certificate that others make, and the Certificate by which cert-manager does. The Secret
 * of the program itself is called otherwise: of neither the type could be changed.
 */
export const CERTIFICATE = 'portcullis-tls';

const FOLDER = '/etc/portcullis/serving-certificate';
const VOLUME = 'serving-certificate';
const SELF_SIGNED = 'portcullis-self-signed';
const AUTHORITY = 'portcullis-authority';
const CERT_MANAGER = { apiVersion: 'cert-manager.io/v1' } as const;

/** Where a certificate that others have made is found; one that the replicas make themselves is read from the API. */
export function certificateVolumes({ certificates }: ManifestSettings): readonly Wire<V1Volume>[] {
  return certificates === 'self-managed' ? [] : [{ name: VOLUME, secret: { secretName: CERTIFICATE } }];
}

export function certificateMounts({ certificates }: ManifestSettings): readonly Wire<V1VolumeMount>[] {
  return certificates === 'self-managed' ? [] : [{ name: VOLUME, mountPath: FOLDER, readOnly: true }];
}

export function certificateArguments({ certificates }: ManifestSettings): readonly string[] {
  if (certificates === 'self-managed') return [];
  return [`--tls-cert-file=${FOLDER}/tls.crt`, `--tls-private-key-file=${FOLDER}/tls.key`];
}

/** What cert-manager needs: an authority of our own, which signs the serving certificate. */
export function certManagerObjects({ namespace }: ManifestSettings): readonly CustomManifest[] {
  const service = `${INSTALLATION.name}.${namespace}`;
  return [
    issuer(namespace, SELF_SIGNED, { selfSigned: {} }),
    certificate(namespace, AUTHORITY, {
      isCA: true,
      commonName: AUTHORITY,
      duration: '43800h',
      privateKey: { algorithm: 'ECDSA', size: 256 },
      issuerRef: { kind: 'Issuer', name: SELF_SIGNED },
    }),
    issuer(namespace, AUTHORITY, { ca: { secretName: AUTHORITY } }),
    certificate(namespace, CERTIFICATE, {
      dnsNames: [service, `${service}.svc`, `${service}.svc.cluster.local`],
      duration: '2160h',
      renewBefore: '720h',
      usages: ['digital signature', 'key encipherment', 'server auth'],
      privateKey: { algorithm: 'ECDSA', size: 256, rotationPolicy: 'Always' },
      issuerRef: { kind: 'Issuer', name: AUTHORITY },
    }),
  ];
}

function issuer(namespace: string, name: string, spec: JsonObject): CustomManifest {
  return { ...CERT_MANAGER, kind: 'Issuer', metadata: metadataIn(namespace, name), spec };
}

function certificate(namespace: string, name: string, spec: JsonObject): CustomManifest {
  return {
    ...CERT_MANAGER,
    kind: 'Certificate',
    metadata: metadataIn(namespace, name),
    spec: { secretName: name, ...spec },
  };
}

const NAME = 'portcullis-configuration';
const CONFIGURATION_FOLDER = '/etc/portcullis/configuration';
const FILE = 'configuration.yaml';

/**
 * What counts where namespaces have no labels, but for the rollout: nothing, as in a cluster without a configuration.
 */
export const CONFIGURATION = {
  apiVersion: 'config.portcullis.dev/v1alpha1',
  kind: 'PortcullisConfiguration',
  podSecurity: { exemptions: { usernames: [], runtimeClasses: [], namespaces: [] } },
} as const;

/** The part of it that says how far enforcement is rolled out. */
export function rolloutSection({ rollout: phase, evaluator }: Pick<ManifestSettings, 'rollout' | 'evaluator'>) {
  return { phase, evaluator } as const;
}

/** The configuration file; replicas follow its changes. */
export function configuration(settings: ManifestSettings): ManifestOf<V1ConfigMap> {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: metadataIn(settings.namespace, NAME),
    data: { [FILE]: printYaml([{ ...CONFIGURATION, rollout: rolloutSection(settings) }]) },
  };
}

const CONFIGURATION_ARGUMENT = `--config=${CONFIGURATION_FOLDER}/${FILE}`;
const CONFIGURATION_VOLUME: Wire<V1Volume> = { name: 'configuration', configMap: { name: NAME } };
const CONFIGURATION_MOUNT: Wire<V1VolumeMount> = {
  name: 'configuration',
  mountPath: CONFIGURATION_FOLDER,
  readOnly: true,
};

/** The command line of a replica; what has its default is left out. */
function argumentsOf(settings: ManifestSettings): readonly string[] {
  const { namespace, sccMode, authorization, withoutControllers } = settings;
  return [
    'serve',
    '--in-cluster',
    CONFIGURATION_ARGUMENT,
    '--bind-address=0.0.0.0',
    `--secure-port=${PORTS.reviews.port}`,
    `--health-probe-bind-address=0.0.0.0:${PORTS.probes.port}`,
    ...(namespace === INSTALLATION.namespace
      ? []
      : [`--scc-exempt-namespaces=${exemptNamespacesOf(settings).join(',')}`]),
    ...(sccMode === 'report' ? [] : [`--scc-mode=${sccMode}`]),
    ...(authorization === 'rbac' ? [] : [`--authorization=${authorization}`]),
    ...(withoutControllers.length === 0
      ? []
      : [`--controllers=*${withoutControllers.map((name) => `,-${name}`).join('')}`]),
    ...certificateArguments(settings),
  ];
}

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
