import { isObject } from './types.ts';

/** A part of an object that may be changed, nothing known about its members. */
export type Part = Record<string, unknown>;

/** Sets a field that is absent, null or empty. */
export function fill(part: Part, field: string, value: unknown): void {
  if (part[field] == null || part[field] === '') part[field] = value;
}

/** The object in a field; `undefined` if there is none. */
function partAt(part: Part, field: string): Part | undefined {
  const value = part[field];
  return isObject(value) ? value : undefined;
}

/** The object in a field, made if there is none. */
function partIn(part: Part, field: string): Part {
  fill(part, field, {});
  return partAt(part, field) ?? {};
}

/** The objects in a list. */
export function partsAt(part: Part | undefined, field: string): Part[] {
  const value = part?.[field];
  return Array.isArray(value) ? value.filter((item): item is Part => isObject(item)) : [];
}

/**
 * Fills in what the API server fills in of a pod.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
 */
function defaultPod(pod: Part): void {
  const spec = partIn(pod, 'spec');
  defaultPodSpec(spec);
  fill(spec, 'enableServiceLinks', true);
  for (const container of [...partsAt(spec, 'initContainers'), ...partsAt(spec, 'containers')]) {
    defaultRequests(container);
    if (spec['hostNetwork'] === true) defaultHostPorts(container);
  }
}

/** Fills in what both pods and pod templates get. */
function defaultPodSpec(spec: Part): void {
  fill(spec, 'dnsPolicy', 'ClusterFirst');
  fill(spec, 'restartPolicy', 'Always');
  fill(spec, 'securityContext', {});
  fill(spec, 'terminationGracePeriodSeconds', 30);
  fill(spec, 'schedulerName', 'default-scheduler');
  defaultServiceAccount(spec);
  for (const volume of partsAt(spec, 'volumes')) defaultVolume(volume);
  for (const list of ['initContainers', 'containers', 'ephemeralContainers']) {
    for (const container of partsAt(spec, list)) defaultContainer(container);
  }
}

/** The name under which older clients know the service account is kept beside the current one. */
function defaultServiceAccount(spec: Part): void {
  if (spec['serviceAccount'] != null) fill(spec, 'serviceAccountName', spec['serviceAccount']);
  const name = spec['serviceAccountName'];
  if (name != null && name !== '') spec['serviceAccount'] = name;
}

function defaultContainer(container: Part): void {
  fill(container, 'resources', {});
  fill(container, 'terminationMessagePath', '/dev/termination-log');
  fill(container, 'terminationMessagePolicy', 'File');
  fill(container, 'imagePullPolicy', pullPolicy(container['image']));
  for (const port of partsAt(container, 'ports')) fill(port, 'protocol', 'TCP');
  for (const variable of partsAt(container, 'env')) defaultFieldRef(partAt(variable, 'valueFrom'));
  for (const probe of ['livenessProbe', 'readinessProbe', 'startupProbe']) defaultProbe(partAt(container, probe));
  const lifecycle = partAt(container, 'lifecycle');
  if (!lifecycle) return;
  for (const hook of ['postStart', 'preStop']) defaultHttpGet(partAt(lifecycle, hook));
}

function pullPolicy(image: unknown): string {
  return typeof image === 'string' && tagOf(image) === 'latest' ? 'Always' : 'IfNotPresent';
}

const IMAGE_PATH = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$/;

/** The tag of an image, `latest` if it names neither tag nor digest; empty for what is no image name. */
function tagOf(image: string): string {
  const [reference = '', digest] = image.split('@', 2);
  const colon = reference.indexOf(':', reference.lastIndexOf('/') + 1);
  const name = colon < 0 ? reference : reference.slice(0, colon);
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(slash, 0));
  const hasHost = /[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  if (!IMAGE_PATH.test(hasHost ? name.slice(slash + 1) : name)) return '';
  if (colon >= 0) return reference.slice(colon + 1);
  return digest === undefined ? 'latest' : '';
}

function defaultProbe(probe: Part | undefined): void {
  if (!probe) return;
  for (const [field, value] of [
    ['timeoutSeconds', 1],
    ['periodSeconds', 10],
    ['successThreshold', 1],
    ['failureThreshold', 3],
  ] as const) {
    if (probe[field] === 0) probe[field] = value;
    fill(probe, field, value);
  }
  const grpc = partAt(probe, 'grpc');
  if (grpc) grpc['service'] ??= '';
  defaultHttpGet(probe);
}

function defaultHttpGet(handler: Part | undefined): void {
  const httpGet = handler && partAt(handler, 'httpGet');
  if (!httpGet) return;
  fill(httpGet, 'path', '/');
  fill(httpGet, 'scheme', 'HTTP');
}

function defaultFieldRef(source: Part | undefined): void {
  const fieldRef = source && partAt(source, 'fieldRef');
  if (fieldRef) fill(fieldRef, 'apiVersion', 'v1');
}

const NO_SOURCE = new Set(['name']);
/** 0644, as JSON has no octal numbers. */
const FILE_MODE = 420;

function defaultVolume(volume: Part): void {
  if (!Object.keys(volume).some((key) => !NO_SOURCE.has(key) && volume[key] != null)) volume['emptyDir'] = {};
  for (const source of ['secret', 'configMap', 'downwardAPI', 'projected']) {
    const files = partAt(volume, source);
    if (files) files['defaultMode'] ??= FILE_MODE;
  }
  const hostPath = partAt(volume, 'hostPath');
  if (hostPath) hostPath['type'] ??= '';
  const image = partAt(volume, 'image');
  if (image) fill(image, 'pullPolicy', pullPolicy(image['reference']));
  const claim = partAt(partAt(volume, 'ephemeral') ?? {}, 'volumeClaimTemplate');
  if (claim) fill(partIn(claim, 'spec'), 'volumeMode', 'Filesystem');
  for (const item of partsAt(partAt(volume, 'downwardAPI'), 'items')) defaultFieldRef(item);
  for (const source of partsAt(partAt(volume, 'projected'), 'sources')) defaultProjection(source);
  for (const [source, fields] of Object.entries(DRIVERS)) {
    const driver = partAt(volume, source);
    if (driver) for (const [field, value] of Object.entries(fields)) fill(driver, field, value);
  }
}

const DRIVERS: Readonly<Record<string, Part>> = {
  azureDisk: { cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' },
  iscsi: { iscsiInterface: 'default' },
  rbd: { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' },
  scaleIO: { storageMode: 'ThinProvisioned', fsType: 'xfs' },
};

function defaultProjection(source: Part): void {
  for (const item of partsAt(partAt(source, 'downwardAPI'), 'items')) defaultFieldRef(item);
  const token = partAt(source, 'serviceAccountToken');
  if (token) token['expirationSeconds'] ??= 3600;
}

function defaultRequests(container: Part): void {
  const resources = partAt(container, 'resources');
  const limits = resources && partAt(resources, 'limits');
  if (!limits) return;
  const requests = partIn(resources, 'requests');
  for (const [name, limit] of Object.entries(limits)) {
    if (!Object.hasOwn(requests, name)) Object.defineProperty(requests, name, { value: limit, ...ORDINARY });
  }
}

/** A resource may have any name, `__proto__` too. */
const ORDINARY = { enumerable: true, configurable: true, writable: true };

function defaultHostPorts(container: Part): void {
  for (const port of partsAt(container, 'ports')) {
    if (port['hostPort'] === 0) delete port['hostPort'];
    fill(port, 'hostPort', port['containerPort']);
  }
}

/** Fills in the fields of an object of one kind. */
type Defaulter = (object: Part) => void;

const RBAC_GROUP = 'rbac.authorization.k8s.io';

/** What the API server fills in of kinds that have nothing to do with pods, by API group and kind. */
const otherDefaults: Readonly<Record<string, Defaulter>> = {
  '/Namespace': (object) => {
    const metadata = partIn(object, 'metadata');
    const name = metadata['name'];
    // A generated name is not known yet.
    if (typeof name === 'string' && name !== '') partIn(metadata, 'labels')['kubernetes.io/metadata.name'] = name;
    fill(partIn(object, 'status'), 'phase', 'Active');
  },
  '/Secret': (object) => fill(object, 'type', 'Opaque'),
  '/Service': defaultService,
  '/PersistentVolumeClaim': (object) => {
    fill(partIn(object, 'spec'), 'volumeMode', 'Filesystem');
    fill(partIn(object, 'status'), 'phase', 'Pending');
  },
  '/PersistentVolume': (object) => {
    const spec = partIn(object, 'spec');
    fill(spec, 'persistentVolumeReclaimPolicy', 'Retain');
    fill(spec, 'volumeMode', 'Filesystem');
    fill(partIn(object, 'status'), 'phase', 'Pending');
  },
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': (object) =>
    defaultWebhooks(object, { reinvocationPolicy: 'Never' }),
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': (object) => defaultWebhooks(object, {}),
  'apiextensions.k8s.io/CustomResourceDefinition': defaultDefinition,
  'networking.k8s.io/NetworkPolicy': defaultNetworkPolicy,
  'rbac.authorization.k8s.io/ClusterRoleBinding': defaultBinding,
  'rbac.authorization.k8s.io/RoleBinding': defaultBinding,
  'scheduling.k8s.io/PriorityClass': (object) => fill(object, 'preemptionPolicy', 'PreemptLowerPriority'),
};

function defaultService(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'sessionAffinity', 'None');
  fill(spec, 'type', 'ClusterIP');
  for (const port of partsAt(spec, 'ports')) {
    fill(port, 'protocol', 'TCP');
    if (port['targetPort'] === 0) delete port['targetPort'];
    fill(port, 'targetPort', port['port']);
  }
  if (spec['type'] === 'NodePort' || spec['type'] === 'LoadBalancer') fill(spec, 'externalTrafficPolicy', 'Cluster');
  if (spec['type'] === 'LoadBalancer') fill(spec, 'allocateLoadBalancerNodePorts', true);
  if (spec['type'] !== 'ExternalName') fill(spec, 'internalTrafficPolicy', 'Cluster');
}

function defaultWebhooks(object: Part, more: Part): void {
  for (const webhook of partsAt(object, 'webhooks')) {
    fill(webhook, 'failurePolicy', 'Fail');
    fill(webhook, 'matchPolicy', 'Equivalent');
    fill(webhook, 'namespaceSelector', {});
    fill(webhook, 'objectSelector', {});
    fill(webhook, 'timeoutSeconds', 10);
    for (const [field, value] of Object.entries(more)) fill(webhook, field, value);
    for (const rule of partsAt(webhook, 'rules')) fill(rule, 'scope', '*');
    const service = partAt(partAt(webhook, 'clientConfig') ?? {}, 'service');
    if (service) fill(service, 'port', 443);
  }
}

function defaultDefinition(object: Part): void {
  const spec = partIn(object, 'spec');
  const names = partIn(spec, 'names');
  const kind = typeof names['kind'] === 'string' ? names['kind'] : '';
  fill(names, 'singular', kind.toLowerCase());
  if (kind !== '') fill(names, 'listKind', `${kind}List`);
  fill(spec, 'conversion', { strategy: 'None' });
}

function defaultBinding(object: Part): void {
  fill(partIn(object, 'roleRef'), 'apiGroup', RBAC_GROUP);
  for (const subject of partsAt(object, 'subjects')) {
    if (subject['kind'] === 'User' || subject['kind'] === 'Group') fill(subject, 'apiGroup', RBAC_GROUP);
  }
}

function defaultNetworkPolicy(object: Part): void {
  const spec = partIn(object, 'spec');
  const egress = partsAt(spec, 'egress');
  for (const rule of [...partsAt(spec, 'ingress'), ...egress]) {
    for (const port of partsAt(rule, 'ports')) fill(port, 'protocol', 'TCP');
  }
  fill(spec, 'policyTypes', egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress']);
}

/** Fills in the fields of a workload of one kind. */
type DefaulterDefaultWorkload = (workload: Part) => void;

/**
 * What the API server fills in of workloads, by API group and kind.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/apps/v1/defaults.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/batch/v1/defaults.go
 */
const workloadDefaults: Readonly<Record<string, DefaulterDefaultWorkload>> = {
  '/PodTemplate': (object) => defaultTemplate(object),
  '/ReplicationController': (object) => {
    const spec = partIn(object, 'spec');
    fill(spec, 'replicas', 1);
    adoptTemplateLabels(object, spec);
    if (partAt(spec, 'template')) defaultTemplate(spec);
  },
  'apps/DaemonSet': defaultDaemonSet,
  'apps/Deployment': defaultDeployment,
  'apps/ReplicaSet': (object) => {
    const spec = partIn(object, 'spec');
    fill(spec, 'replicas', 1);
    defaultTemplate(spec);
  },
  'apps/StatefulSet': defaultStatefulSet,
  'batch/CronJob': defaultCronJob,
  'batch/Job': defaultJob,
};

function defaultTemplate(owner: Part): void {
  const template = partIn(owner, 'template');
  fill(template, 'metadata', {});
  defaultPodSpec(partIn(template, 'spec'));
}

function adoptTemplateLabels(object: Part, spec: Part): void {
  const labels = partAt(partAt(partAt(spec, 'template') ?? {}, 'metadata') ?? {}, 'labels');
  if (!labels) return;
  if (isEmpty(spec['selector'])) spec['selector'] = structuredClone(labels);
  const metadata = partIn(object, 'metadata');
  if (isEmpty(metadata['labels'])) metadata['labels'] = structuredClone(labels);
}

function isEmpty(value: unknown): boolean {
  return value == null || (typeof value === 'object' && Object.keys(value).length === 0);
}

function defaultDeployment(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'replicas', 1);
  defaultTemplate(spec);
  const strategy = partIn(spec, 'strategy');
  fill(strategy, 'type', 'RollingUpdate');
  if (strategy['type'] === 'RollingUpdate') {
    const rollingUpdate = partIn(strategy, 'rollingUpdate');
    fill(rollingUpdate, 'maxUnavailable', '25%');
    fill(rollingUpdate, 'maxSurge', '25%');
  }
  fill(spec, 'revisionHistoryLimit', 10);
  fill(spec, 'progressDeadlineSeconds', 600);
}

function defaultDaemonSet(object: Part): void {
  const spec = partIn(object, 'spec');
  defaultTemplate(spec);
  const strategy = partIn(spec, 'updateStrategy');
  fill(strategy, 'type', 'RollingUpdate');
  if (strategy['type'] === 'RollingUpdate') {
    const rollingUpdate = partIn(strategy, 'rollingUpdate');
    fill(rollingUpdate, 'maxUnavailable', 1);
    fill(rollingUpdate, 'maxSurge', 0);
  }
  fill(spec, 'revisionHistoryLimit', 10);
}

function defaultStatefulSet(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'podManagementPolicy', 'OrderedReady');
  const strategy = partIn(spec, 'updateStrategy');
  if (isEmpty(strategy['type']) || strategy['type'] === '') {
    strategy['type'] = 'RollingUpdate';
    fill(strategy, 'rollingUpdate', {});
  }
  const rollingUpdate = strategy['type'] === 'RollingUpdate' ? partAt(strategy, 'rollingUpdate') : undefined;
  if (rollingUpdate) fill(rollingUpdate, 'partition', 0);
  const retention = partIn(spec, 'persistentVolumeClaimRetentionPolicy');
  fill(retention, 'whenDeleted', 'Retain');
  fill(retention, 'whenScaled', 'Retain');
  fill(spec, 'replicas', 1);
  fill(spec, 'revisionHistoryLimit', 10);
  defaultTemplate(spec);
  for (const claim of partsAt(spec, 'volumeClaimTemplates')) fill(partIn(claim, 'spec'), 'volumeMode', 'Filesystem');
}

function defaultJob(object: Part): void {
  const spec = partIn(object, 'spec');
  if (spec['completions'] == null && spec['parallelism'] == null) fill(spec, 'completions', 1);
  fill(spec, 'parallelism', 1);
  fill(spec, 'backoffLimit', spec['backoffLimitPerIndex'] == null ? 6 : 0x7fffffff);
  const labels = partAt(partAt(partAt(spec, 'template') ?? {}, 'metadata') ?? {}, 'labels');
  const metadata = partIn(object, 'metadata');
  if (labels && isEmpty(metadata['labels'])) metadata['labels'] = structuredClone(labels);
  fill(spec, 'completionMode', 'NonIndexed');
  fill(spec, 'suspend', false);
  fill(spec, 'podReplacementPolicy', spec['podFailurePolicy'] == null ? 'TerminatingOrFailed' : 'Failed');
  fill(spec, 'manualSelector', false);
  defaultTemplate(spec);
}

function defaultCronJob(object: Part): void {
  const spec = partIn(object, 'spec');
  fill(spec, 'concurrencyPolicy', 'Allow');
  fill(spec, 'suspend', false);
  fill(spec, 'successfulJobsHistoryLimit', 3);
  fill(spec, 'failedJobsHistoryLimit', 1);
  const jobTemplate = partIn(spec, 'jobTemplate');
  fill(jobTemplate, 'metadata', {});
  defaultTemplate(partIn(jobTemplate, 'spec'));
}

const defaults: Readonly<Record<string, (object: Part) => void>> = {
  '/Pod': defaultPod,
  ...workloadDefaults,
  ...otherDefaults,
};

/**
 * Fills in, in place, what the API server fills in before admission; objects of unknown kinds stay as they are. Parts of a
 * wrong type are left alone. May be repeated.
 */
export function applyDefaults(object: Record<string, unknown>): void {
  const apiVersion = typeof object['apiVersion'] === 'string' ? object['apiVersion'] : '';
  const kind = typeof object['kind'] === 'string' ? object['kind'] : '';
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const key = `${group}/${kind}`;
  if (Object.hasOwn(defaults, key)) defaults[key]?.(object);
}
