import { isObject } from './types.ts';

/** A mutable JSON object. */
export type MutableObject = Record<string, unknown>;

/** Sets a field that is absent, null or an empty string. */
export function setDefault(part: MutableObject, field: string, value: unknown): void {
  if (part[field] == null || part[field] === '') part[field] = value;
}

function getObject(part: MutableObject, field: string): MutableObject | undefined {
  const value = part[field];
  return isObject(value) ? value : undefined;
}

/** Returns the object in a field; creates it if the field is empty. */
function ensureObject(part: MutableObject, field: string): MutableObject {
  setDefault(part, field, {});
  return getObject(part, field) ?? {};
}

/** Returns the objects in a list; other items are ignored. */
export function getObjects(part: MutableObject | undefined, field: string): MutableObject[] {
  const value = part?.[field];
  return Array.isArray(value) ? value.filter((item): item is MutableObject => isObject(item)) : [];
}

/**
 * Sets the defaults of a pod.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
 */
function defaultPod(pod: MutableObject): void {
  const spec = ensureObject(pod, 'spec');
  defaultPodSpec(spec);
  setDefault(spec, 'enableServiceLinks', true);
  for (const container of [...getObjects(spec, 'initContainers'), ...getObjects(spec, 'containers')]) {
    defaultRequests(container);
    if (spec['hostNetwork'] === true) defaultHostPorts(container);
  }
}

/** Sets the defaults that pods and pod templates have in common. */
function defaultPodSpec(spec: MutableObject): void {
  setDefault(spec, 'dnsPolicy', 'ClusterFirst');
  setDefault(spec, 'restartPolicy', 'Always');
  setDefault(spec, 'securityContext', {});
  setDefault(spec, 'terminationGracePeriodSeconds', 30);
  setDefault(spec, 'schedulerName', 'default-scheduler');
  defaultServiceAccount(spec);
  for (const volume of getObjects(spec, 'volumes')) defaultVolume(volume);
  for (const list of ['initContainers', 'containers', 'ephemeralContainers']) {
    for (const container of getObjects(spec, list)) defaultContainer(container);
  }
}

/** The deprecated field serviceAccount has the same value as serviceAccountName. */
function defaultServiceAccount(spec: MutableObject): void {
  if (spec['serviceAccount'] != null) setDefault(spec, 'serviceAccountName', spec['serviceAccount']);
  const name = spec['serviceAccountName'];
  if (name != null && name !== '') spec['serviceAccount'] = name;
}

function defaultContainer(container: MutableObject): void {
  setDefault(container, 'resources', {});
  setDefault(container, 'terminationMessagePath', '/dev/termination-log');
  setDefault(container, 'terminationMessagePolicy', 'File');
  setDefault(container, 'imagePullPolicy', pullPolicy(container['image']));
  for (const port of getObjects(container, 'ports')) setDefault(port, 'protocol', 'TCP');
  for (const variable of getObjects(container, 'env')) defaultFieldRef(getObject(variable, 'valueFrom'));
  for (const probe of ['livenessProbe', 'readinessProbe', 'startupProbe']) defaultProbe(getObject(container, probe));
  const lifecycle = getObject(container, 'lifecycle');
  if (!lifecycle) return;
  for (const hook of ['postStart', 'preStop']) defaultHttpGet(getObject(lifecycle, hook));
}

function pullPolicy(image: unknown): string {
  return typeof image === 'string' && imageTag(image) === 'latest' ? 'Always' : 'IfNotPresent';
}

const IMAGE_PATH = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$/;

/** Returns the tag of an image: `latest` without tag and digest, and `''` for an invalid name. */
function imageTag(image: string): string {
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

function defaultProbe(probe: MutableObject | undefined): void {
  if (!probe) return;
  for (const [field, value] of [
    ['timeoutSeconds', 1],
    ['periodSeconds', 10],
    ['successThreshold', 1],
    ['failureThreshold', 3],
  ] as const) {
    if (probe[field] === 0) probe[field] = value;
    setDefault(probe, field, value);
  }
  const grpc = getObject(probe, 'grpc');
  if (grpc) grpc['service'] ??= '';
  defaultHttpGet(probe);
}

function defaultHttpGet(handler: MutableObject | undefined): void {
  const httpGet = handler && getObject(handler, 'httpGet');
  if (!httpGet) return;
  setDefault(httpGet, 'path', '/');
  setDefault(httpGet, 'scheme', 'HTTP');
}

function defaultFieldRef(source: MutableObject | undefined): void {
  const fieldRef = source && getObject(source, 'fieldRef');
  if (fieldRef) setDefault(fieldRef, 'apiVersion', 'v1');
}

const NO_SOURCE = new Set(['name']);
/** Mode 0644. */
const FILE_MODE = 420;

function defaultVolume(volume: MutableObject): void {
  if (!Object.keys(volume).some((key) => !NO_SOURCE.has(key) && volume[key] != null)) volume['emptyDir'] = {};
  for (const source of ['secret', 'configMap', 'downwardAPI', 'projected']) {
    const files = getObject(volume, source);
    if (files) files['defaultMode'] ??= FILE_MODE;
  }
  const hostPath = getObject(volume, 'hostPath');
  if (hostPath) hostPath['type'] ??= '';
  const image = getObject(volume, 'image');
  if (image) setDefault(image, 'pullPolicy', pullPolicy(image['reference']));
  const claim = getObject(getObject(volume, 'ephemeral') ?? {}, 'volumeClaimTemplate');
  if (claim) setDefault(ensureObject(claim, 'spec'), 'volumeMode', 'Filesystem');
  for (const item of getObjects(getObject(volume, 'downwardAPI'), 'items')) defaultFieldRef(item);
  for (const source of getObjects(getObject(volume, 'projected'), 'sources')) defaultProjection(source);
  for (const [source, fields] of Object.entries(DRIVERS)) {
    const driver = getObject(volume, source);
    if (driver) for (const [field, value] of Object.entries(fields)) setDefault(driver, field, value);
  }
}

const DRIVERS: Readonly<Record<string, MutableObject>> = {
  azureDisk: { cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' },
  iscsi: { iscsiInterface: 'default' },
  rbd: { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' },
  scaleIO: { storageMode: 'ThinProvisioned', fsType: 'xfs' },
};

function defaultProjection(source: MutableObject): void {
  for (const item of getObjects(getObject(source, 'downwardAPI'), 'items')) defaultFieldRef(item);
  const token = getObject(source, 'serviceAccountToken');
  if (token) token['expirationSeconds'] ??= 3600;
}

function defaultRequests(container: MutableObject): void {
  const resources = getObject(container, 'resources');
  const limits = resources && getObject(resources, 'limits');
  if (!limits) return;
  const requests = ensureObject(resources, 'requests');
  for (const [name, limit] of Object.entries(limits)) {
    if (!Object.hasOwn(requests, name)) Object.defineProperty(requests, name, { value: limit, ...ORDINARY });
  }
}

/** Defines a member of any name, also `__proto__`. */
const ORDINARY = { enumerable: true, configurable: true, writable: true };

function defaultHostPorts(container: MutableObject): void {
  for (const port of getObjects(container, 'ports')) {
    if (port['hostPort'] === 0) delete port['hostPort'];
    setDefault(port, 'hostPort', port['containerPort']);
  }
}

/** Sets the defaults of an object of one kind. */
type Defaulter = (object: MutableObject) => void;

const RBAC_GROUP = 'rbac.authorization.k8s.io';

/** The defaults of kinds without pods, by API group and kind. */
const otherDefaults: Readonly<Record<string, Defaulter>> = {
  '/Namespace': (object) => {
    const metadata = ensureObject(object, 'metadata');
    const name = metadata['name'];
    // The name is absent while generateName has not been resolved.
    if (typeof name === 'string' && name !== '') ensureObject(metadata, 'labels')['kubernetes.io/metadata.name'] = name;
    setDefault(ensureObject(object, 'status'), 'phase', 'Active');
  },
  '/Secret': (object) => setDefault(object, 'type', 'Opaque'),
  '/Service': defaultService,
  '/PersistentVolumeClaim': (object) => {
    setDefault(ensureObject(object, 'spec'), 'volumeMode', 'Filesystem');
    setDefault(ensureObject(object, 'status'), 'phase', 'Pending');
  },
  '/PersistentVolume': (object) => {
    const spec = ensureObject(object, 'spec');
    setDefault(spec, 'persistentVolumeReclaimPolicy', 'Retain');
    setDefault(spec, 'volumeMode', 'Filesystem');
    setDefault(ensureObject(object, 'status'), 'phase', 'Pending');
  },
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': (object) =>
    defaultWebhooks(object, { reinvocationPolicy: 'Never' }),
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': (object) => defaultWebhooks(object, {}),
  'apiextensions.k8s.io/CustomResourceDefinition': defaultDefinition,
  'networking.k8s.io/NetworkPolicy': defaultNetworkPolicy,
  'rbac.authorization.k8s.io/ClusterRoleBinding': defaultBinding,
  'rbac.authorization.k8s.io/RoleBinding': defaultBinding,
  'scheduling.k8s.io/PriorityClass': (object) => setDefault(object, 'preemptionPolicy', 'PreemptLowerPriority'),
};

function defaultService(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  setDefault(spec, 'sessionAffinity', 'None');
  setDefault(spec, 'type', 'ClusterIP');
  for (const port of getObjects(spec, 'ports')) {
    setDefault(port, 'protocol', 'TCP');
    if (port['targetPort'] === 0) delete port['targetPort'];
    setDefault(port, 'targetPort', port['port']);
  }
  if (spec['type'] === 'NodePort' || spec['type'] === 'LoadBalancer')
    setDefault(spec, 'externalTrafficPolicy', 'Cluster');
  if (spec['type'] === 'LoadBalancer') setDefault(spec, 'allocateLoadBalancerNodePorts', true);
  if (spec['type'] !== 'ExternalName') setDefault(spec, 'internalTrafficPolicy', 'Cluster');
}

function defaultWebhooks(object: MutableObject, more: MutableObject): void {
  for (const webhook of getObjects(object, 'webhooks')) {
    setDefault(webhook, 'failurePolicy', 'Fail');
    setDefault(webhook, 'matchPolicy', 'Equivalent');
    setDefault(webhook, 'namespaceSelector', {});
    setDefault(webhook, 'objectSelector', {});
    setDefault(webhook, 'timeoutSeconds', 10);
    for (const [field, value] of Object.entries(more)) setDefault(webhook, field, value);
    for (const rule of getObjects(webhook, 'rules')) setDefault(rule, 'scope', '*');
    const service = getObject(getObject(webhook, 'clientConfig') ?? {}, 'service');
    if (service) setDefault(service, 'port', 443);
  }
}

function defaultDefinition(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  const names = ensureObject(spec, 'names');
  const kind = typeof names['kind'] === 'string' ? names['kind'] : '';
  setDefault(names, 'singular', kind.toLowerCase());
  if (kind !== '') setDefault(names, 'listKind', `${kind}List`);
  setDefault(spec, 'conversion', { strategy: 'None' });
}

function defaultBinding(object: MutableObject): void {
  setDefault(ensureObject(object, 'roleRef'), 'apiGroup', RBAC_GROUP);
  for (const subject of getObjects(object, 'subjects')) {
    if (subject['kind'] === 'User' || subject['kind'] === 'Group') setDefault(subject, 'apiGroup', RBAC_GROUP);
  }
}

function defaultNetworkPolicy(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  const egress = getObjects(spec, 'egress');
  for (const rule of [...getObjects(spec, 'ingress'), ...egress]) {
    for (const port of getObjects(rule, 'ports')) setDefault(port, 'protocol', 'TCP');
  }
  setDefault(spec, 'policyTypes', egress.length > 0 ? ['Ingress', 'Egress'] : ['Ingress']);
}

/**
 * The defaults of workloads, by API group and kind.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/apps/v1/defaults.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/batch/v1/defaults.go
 */
const workloadDefaults: Readonly<Record<string, Defaulter>> = {
  '/PodTemplate': (object) => defaultTemplate(object),
  '/ReplicationController': (object) => {
    const spec = ensureObject(object, 'spec');
    setDefault(spec, 'replicas', 1);
    adoptTemplateLabels(object, spec);
    if (getObject(spec, 'template')) defaultTemplate(spec);
  },
  'apps/DaemonSet': defaultDaemonSet,
  'apps/Deployment': defaultDeployment,
  'apps/ReplicaSet': (object) => {
    const spec = ensureObject(object, 'spec');
    setDefault(spec, 'replicas', 1);
    defaultTemplate(spec);
  },
  'apps/StatefulSet': defaultStatefulSet,
  'batch/CronJob': defaultCronJob,
  'batch/Job': defaultJob,
};

function defaultTemplate(owner: MutableObject): void {
  const template = ensureObject(owner, 'template');
  setDefault(template, 'metadata', {});
  defaultPodSpec(ensureObject(template, 'spec'));
}

function adoptTemplateLabels(object: MutableObject, spec: MutableObject): void {
  const labels = getObject(getObject(getObject(spec, 'template') ?? {}, 'metadata') ?? {}, 'labels');
  if (!labels) return;
  if (isEmpty(spec['selector'])) spec['selector'] = structuredClone(labels);
  const metadata = ensureObject(object, 'metadata');
  if (isEmpty(metadata['labels'])) metadata['labels'] = structuredClone(labels);
}

function isEmpty(value: unknown): boolean {
  return value == null || (typeof value === 'object' && Object.keys(value).length === 0);
}

function defaultDeployment(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  setDefault(spec, 'replicas', 1);
  defaultTemplate(spec);
  const strategy = ensureObject(spec, 'strategy');
  setDefault(strategy, 'type', 'RollingUpdate');
  if (strategy['type'] === 'RollingUpdate') {
    const rollingUpdate = ensureObject(strategy, 'rollingUpdate');
    setDefault(rollingUpdate, 'maxUnavailable', '25%');
    setDefault(rollingUpdate, 'maxSurge', '25%');
  }
  setDefault(spec, 'revisionHistoryLimit', 10);
  setDefault(spec, 'progressDeadlineSeconds', 600);
}

function defaultDaemonSet(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  defaultTemplate(spec);
  const strategy = ensureObject(spec, 'updateStrategy');
  setDefault(strategy, 'type', 'RollingUpdate');
  if (strategy['type'] === 'RollingUpdate') {
    const rollingUpdate = ensureObject(strategy, 'rollingUpdate');
    setDefault(rollingUpdate, 'maxUnavailable', 1);
    setDefault(rollingUpdate, 'maxSurge', 0);
  }
  setDefault(spec, 'revisionHistoryLimit', 10);
}

function defaultStatefulSet(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  setDefault(spec, 'podManagementPolicy', 'OrderedReady');
  const strategy = ensureObject(spec, 'updateStrategy');
  if (isEmpty(strategy['type']) || strategy['type'] === '') {
    strategy['type'] = 'RollingUpdate';
    setDefault(strategy, 'rollingUpdate', {});
  }
  const rollingUpdate = strategy['type'] === 'RollingUpdate' ? getObject(strategy, 'rollingUpdate') : undefined;
  if (rollingUpdate) setDefault(rollingUpdate, 'partition', 0);
  const retention = ensureObject(spec, 'persistentVolumeClaimRetentionPolicy');
  setDefault(retention, 'whenDeleted', 'Retain');
  setDefault(retention, 'whenScaled', 'Retain');
  setDefault(spec, 'replicas', 1);
  setDefault(spec, 'revisionHistoryLimit', 10);
  defaultTemplate(spec);
  for (const claim of getObjects(spec, 'volumeClaimTemplates'))
    setDefault(ensureObject(claim, 'spec'), 'volumeMode', 'Filesystem');
}

function defaultJob(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  if (spec['completions'] == null && spec['parallelism'] == null) setDefault(spec, 'completions', 1);
  setDefault(spec, 'parallelism', 1);
  setDefault(spec, 'backoffLimit', spec['backoffLimitPerIndex'] == null ? 6 : 0x7fffffff);
  const labels = getObject(getObject(getObject(spec, 'template') ?? {}, 'metadata') ?? {}, 'labels');
  const metadata = ensureObject(object, 'metadata');
  if (labels && isEmpty(metadata['labels'])) metadata['labels'] = structuredClone(labels);
  setDefault(spec, 'completionMode', 'NonIndexed');
  setDefault(spec, 'suspend', false);
  setDefault(spec, 'podReplacementPolicy', spec['podFailurePolicy'] == null ? 'TerminatingOrFailed' : 'Failed');
  setDefault(spec, 'manualSelector', false);
  defaultTemplate(spec);
}

function defaultCronJob(object: MutableObject): void {
  const spec = ensureObject(object, 'spec');
  setDefault(spec, 'concurrencyPolicy', 'Allow');
  setDefault(spec, 'suspend', false);
  setDefault(spec, 'successfulJobsHistoryLimit', 3);
  setDefault(spec, 'failedJobsHistoryLimit', 1);
  const jobTemplate = ensureObject(spec, 'jobTemplate');
  setDefault(jobTemplate, 'metadata', {});
  defaultTemplate(ensureObject(jobTemplate, 'spec'));
}

const defaults: Readonly<Record<string, (object: MutableObject) => void>> = {
  '/Pod': defaultPod,
  ...workloadDefaults,
  ...otherDefaults,
};

/**
 * Sets the defaults that the API server sets before admission. Mutates the object. Fields of wrong types and objects of
 * unknown kinds do not change. Idempotent.
 */
export function applyDefaults(object: Record<string, unknown>): void {
  const apiVersion = typeof object['apiVersion'] === 'string' ? object['apiVersion'] : '';
  const kind = typeof object['kind'] === 'string' ? object['kind'] : '';
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const key = `${group}/${kind}`;
  if (Object.hasOwn(defaults, key)) defaults[key]?.(object);
}
