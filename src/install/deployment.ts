import type {
  V1Container,
  V1Deployment,
  V1Namespace,
  V1NetworkPolicy,
  V1PodDisruptionBudget,
  V1PodSpec,
  V1Probe,
  V1ResourceQuota,
  V1Service,
  V1WeightedPodAffinityTerm,
} from '@kubernetes/client-node';
import { FEATURES, INSTALLATION } from '../api/names.ts';
import type { JsonObject, Wire } from '../kube/types.ts';
import {
  type CustomManifest,
  INSTALLATION_LABELS,
  type Manifest,
  type ManifestOf,
  type ManifestSettings,
  namespacedMetadata,
  SELECTOR_LABELS,
} from './settings.ts';

const RESTRICTED = {
  'pod-security.kubernetes.io/enforce': 'restricted',
  'pod-security.kubernetes.io/audit': 'restricted',
  'pod-security.kubernetes.io/warn': 'restricted',
} as const;

const PRIORITY_CLASS = 'system-cluster-critical';

/**
 * Returns the installation namespace, and a quota, without which some clusters reject the priority class of the
 * replicas.
 */
export function namespaceObjects({
  namespace: name,
}: ManifestSettings): readonly [ManifestOf<V1Namespace>, ManifestOf<V1ResourceQuota>] {
  const scope = { scopeName: 'PriorityClass', operator: 'In', values: [PRIORITY_CLASS] };
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { ...INSTALLATION_LABELS, ...RESTRICTED } } },
    {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: namespacedMetadata(name, 'portcullis'),
      spec: { hard: { pods: '20' }, scopeSelector: { matchExpressions: [scope] } },
    },
  ];
}

/** Returns the replicas, and the objects that configure, expose and protect them. */
export function replicaObjects(settings: ManifestSettings): readonly Manifest[] {
  return [
    ...(settings.certificates === 'cert-manager' ? certManagerObjects(settings) : []),
    ...(settings.hasPods
      ? [service(settings), networkPolicy(settings), podDisruptionBudget(settings), deployment(settings)]
      : []),
  ];
}

/** Ports of a replica for reviews over TLS, and for probes and metrics over HTTP. */
export const PORTS = { reviews: { name: 'reviews', port: 8443 }, probes: { name: 'probes', port: 8081 } } as const;

/** Returns the Service for reviews and metrics. */
function service({ namespace }: ManifestSettings): ManifestOf<V1Service> {
  const { reviews, probes } = PORTS;
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: namespacedMetadata(namespace, INSTALLATION.name),
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
 * Returns the NetworkPolicy, which closes all ports except those for reviews and probes. These two ports are open to
 * all sources, because API servers and kubelets use the node network, which no selector matches.
 */
function networkPolicy({ namespace }: ManifestSettings): ManifestOf<V1NetworkPolicy> {
  const ports = [PORTS.reviews, PORTS.probes].map(({ name }) => ({ protocol: 'TCP', port: name }));
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: namespacedMetadata(namespace, INSTALLATION.name),
    spec: { podSelector: { matchLabels: SELECTOR_LABELS }, policyTypes: ['Ingress'], ingress: [{ ports }] },
  };
}

/**
 * Returns the PodDisruptionBudget, which allows only one replica at a time to be evicted. Replicas that are not ready
 * do not block a drain.
 */
function podDisruptionBudget({ namespace, minAvailable }: ManifestSettings): ManifestOf<V1PodDisruptionBudget> {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: namespacedMetadata(namespace, INSTALLATION.name),
    spec: {
      ...(minAvailable === undefined ? { maxUnavailable: 1 } : { minAvailable }),
      selector: { matchLabels: SELECTOR_LABELS },
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  };
}

/**
 * Name of the cert-manager Certificate and its Secret. It differs from the Secret that the replicas manage, because a
 * Secret's type is immutable.
 */
export const CERTIFICATE = 'portcullis-tls';

const FOLDER = '/etc/portcullis/serving-certificate';
const VOLUME = 'serving-certificate';
const SELF_SIGNED = 'portcullis-self-signed';
const AUTHORITY = 'portcullis-authority';
const CERT_MANAGER = { apiVersion: 'cert-manager.io/v1' } as const;

/** Returns the volume, mount and arguments for a certificate from cert-manager. */
function certificateFiles({ certificates, namespace }: ManifestSettings) {
  if (certificates !== 'cert-manager') return { volumes: [], volumeMounts: [], args: [] };
  return {
    volumes: [{ name: VOLUME, secret: { secretName: CERTIFICATE } }],
    volumeMounts: [{ name: VOLUME, mountPath: FOLDER, readOnly: true }],
    args: [
      `--tls-cert-file=${FOLDER}/tls.crt`,
      `--tls-private-key-file=${FOLDER}/tls.key`,
      `--webhook-annotations=cert-manager.io/inject-ca-from=${namespace}/${CERTIFICATE}`,
    ],
  };
}

/** Returns a CA for the installation, and a serving certificate that it signs. */
function certManagerObjects({ namespace }: ManifestSettings): readonly CustomManifest[] {
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
  return { ...CERT_MANAGER, kind: 'Issuer', metadata: namespacedMetadata(namespace, name), spec };
}

function certificate(namespace: string, name: string, spec: JsonObject): CustomManifest {
  return {
    ...CERT_MANAGER,
    kind: 'Certificate',
    metadata: namespacedMetadata(namespace, name),
    spec: { secretName: name, ...spec },
  };
}

/** Returns the command line of a replica. Omits options that have their default value. */
function serveArguments(settings: ManifestSettings): readonly string[] {
  return [
    'serve',
    '--in-cluster',
    '--bind-address=0.0.0.0',
    `--secure-port=${PORTS.reviews.port}`,
    `--health-probe-bind-address=0.0.0.0:${PORTS.probes.port}`,
    // This flag is always set, because no other object records the features.
    `--features=${FEATURES.filter((name) => settings.features[name]).join()}`,
    ...certificateFiles(settings).args,
    ...(settings.webhooks === 'service' ? [] : [`--webhook-url=${settings.webhooks.url}`]),
  ];
}

/** Termination grace period, which is longer than the shutdown of a replica takes (see `--shutdown-delay-duration`). */
const GRACE_SECONDS = 60;

/** Returns the Deployment. A rolling update starts a new replica before it stops an old one. */
export function deployment(settings: ManifestSettings): ManifestOf<V1Deployment> {
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: namespacedMetadata(settings.namespace, INSTALLATION.name),
    spec: {
      replicas: settings.replicas,
      revisionHistoryLimit: 3,
      selector: { matchLabels: SELECTOR_LABELS },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } },
      template: {
        metadata: {
          labels: { ...INSTALLATION_LABELS, 'app.kubernetes.io/version': settings.version },
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
    affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [OTHER_NODES] } },
    topologySpreadConstraints: [
      { ...SAME_VERSION, topologyKey: ZONE, maxSkew: 1, whenUnsatisfiable: 'ScheduleAnyway' },
      ...(settings.spread === 'required'
        ? [{ ...SAME_VERSION, topologyKey: HOSTNAME, maxSkew: 1, whenUnsatisfiable: 'DoNotSchedule' }]
        : []),
    ],
    containers: [container(settings)],
    volumes: certificateFiles(settings).volumes,
  };
}

/** Selects the replicas of the same version, because replicas of the previous version stop during an update. */
const SAME_VERSION = { labelSelector: { matchLabels: SELECTOR_LABELS }, matchLabelKeys: ['pod-template-hash'] };
const HOSTNAME = 'kubernetes.io/hostname';
const ZONE = 'topology.kubernetes.io/zone';

/**
 * Prefers nodes with fewer replicas. A spread constraint with `ScheduleAnyway` is not sufficient, because the scheduler
 * ignores all such constraints on a node that lacks any of their topology keys, such as the zone label.
 */
const OTHER_NODES: Wire<V1WeightedPodAffinityTerm> = {
  weight: 100,
  podAffinityTerm: { ...SAME_VERSION, topologyKey: HOSTNAME },
};

/**
 * Returns the container. The image sets the user, which OpenShift overrides. The container does not write to its root
 * filesystem.
 */
function container(settings: ManifestSettings): Wire<V1Container> {
  const { reviews, probes } = PORTS;
  return {
    name: INSTALLATION.name,
    image: settings.image,
    imagePullPolicy: 'IfNotPresent',
    args: serveArguments(settings),
    env: [
      { name: 'PORTCULLIS_NAMESPACE', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } } },
      { name: INITIAL_SETTINGS, value: JSON.stringify(settings.initial ?? settings.policy) },
    ],
    ports: [reviews, probes].map(({ name, port }) => ({ name, containerPort: port, protocol: 'TCP' })),
    startupProbe: probe('/livez', { periodSeconds: 2, failureThreshold: 30 }),
    livenessProbe: probe('/livez', { periodSeconds: 10, failureThreshold: 3 }),
    readinessProbe: probe('/readyz', { periodSeconds: 5, failureThreshold: 2 }),
    // There is no CPU limit, because a throttled webhook would delay the API server. A flag in the image limits the
    // heap to half of the memory limit.
    resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
    },
    volumeMounts: certificateFiles(settings).volumeMounts,
  };
}

/** Environment variable with the settings from which the leader creates the PortcullisConfiguration. */
export const INITIAL_SETTINGS = 'PORTCULLIS_INITIAL_SETTINGS';

function probe(path: string, timing: Pick<V1Probe, 'periodSeconds' | 'failureThreshold'>): Wire<V1Probe> {
  return { httpGet: { path, port: PORTS.probes.name, scheme: 'HTTP' }, timeoutSeconds: 5, ...timing };
}
