/**
 * Sets the defaults that the API server sets before admission.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/apps/v1/defaults.go
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/batch/v1/defaults.go
 */
import { draft, isObject } from './types.ts';

export type MutableObject = Record<string, unknown>;

/** Sets a field that is absent, null or an empty string. */
export function setDefault(part: MutableObject, field: string, value: unknown): void {
  if (part[field] == null || part[field] === '') part[field] = value;
}

function getObject(part: MutableObject, field: string): MutableObject | undefined {
  const value = part[field];
  return isObject(value) ? value : undefined;
}

/** Returns the objects in a list. Ignores other items. */
export function getObjects(part: MutableObject | undefined, field: string): MutableObject[] {
  const value = part?.[field];
  return Array.isArray(value) ? value.filter((item): item is MutableObject => isObject(item)) : [];
}

type Defaulter = (object: MutableObject) => void;

/**
 * Defaults by field, in the order in which they are set. A function computes the default from the object, and returns
 * `undefined` if there is none. A field named `name|0` treats the value 0 as absent. A field that contains a nested
 * table is named `name?` for an object that must exist, `name!` for an object that is created if necessary, and
 * `name[]` for list items.
 */
interface Table {
  readonly [field: string]: unknown;
}

type Compute = (object: MutableObject) => unknown;

function compile(table: Table, ...others: readonly Defaulter[]): Defaulter {
  const steps = [...Object.entries(table).map(([field, value]) => compileField(field, value)), ...others];
  return (object) => {
    for (const step of steps) step(object);
  };
}

function compileField(field: string, value: unknown): Defaulter {
  const [, name = '', kind] = /^(.*?)(\?|!|\[\]|\|0)?$/.exec(field) ?? [];
  const isZeroAbsent = kind === '|0';
  if (kind === undefined || isZeroAbsent) {
    return (object) => {
      const computed: unknown = typeof value === 'function' ? (value as Compute)(object) : value;
      if (computed === undefined) return;
      if (isZeroAbsent && object[name] === 0) object[name] = computed;
      setDefault(object, name, isObject(computed) ? {} : computed);
    };
  }
  const nested = typeof value === 'function' ? (value as Defaulter) : compile(value as Table);
  return (object) => {
    if (kind === '!') setDefault(object, name, {});
    const parts = kind === '[]' ? getObjects(object, name) : [getObject(object, name)];
    for (const part of parts) if (part) nested(part);
  };
}

const HTTP_GET: Table = { 'httpGet?': { path: '/', scheme: 'HTTP' } };

const PROBE: Table = {
  'timeoutSeconds|0': 1,
  'periodSeconds|0': 10,
  'successThreshold|0': 1,
  'failureThreshold|0': 3,
  'grpc?': { service: '' },
  ...HTTP_GET,
};

const FIELD_REF: Table = { 'fieldRef?': { apiVersion: 'v1' } };

const CONTAINER = compile({
  resources: {},
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
  imagePullPolicy: ({ image }: MutableObject) => pullPolicy(image),
  'ports[]': { protocol: 'TCP' },
  'env[]': { 'valueFrom?': FIELD_REF },
  'livenessProbe?': PROBE,
  'readinessProbe?': PROBE,
  'startupProbe?': PROBE,
  'lifecycle?': { 'postStart?': HTTP_GET, 'preStop?': HTTP_GET },
});

function pullPolicy(image: unknown): string {
  return typeof image === 'string' && imageTag(image) === 'latest' ? 'Always' : 'IfNotPresent';
}

const IMAGE_PATH = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$/;

/**
 * Returns the tag of an image. Returns `latest` if the image has neither a tag nor a digest, and `''` if its name is
 * invalid.
 */
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

/** File mode 0644. */
const FILES: Table = { defaultMode: 420 };
const DOWNWARD: Table = { 'items[]': FIELD_REF };
const CLAIM: Table = { 'spec!': { volumeMode: 'Filesystem' } };

const VOLUME: Table = {
  emptyDir: (volume: MutableObject) =>
    Object.keys(volume).some((key) => key !== 'name' && volume[key] != null) ? undefined : {},
  'secret?': FILES,
  'configMap?': FILES,
  'downwardAPI?': { ...FILES, ...DOWNWARD },
  'projected?': {
    ...FILES,
    'sources[]': { 'downwardAPI?': DOWNWARD, 'serviceAccountToken?': { expirationSeconds: 3600 } },
  },
  'hostPath?': { type: '' },
  'image?': { pullPolicy: ({ reference }: MutableObject) => pullPolicy(reference) },
  'ephemeral?': { 'volumeClaimTemplate?': CLAIM },
  'azureDisk?': { cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' },
  'iscsi?': { iscsiInterface: 'default' },
  'rbd?': { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' },
  'scaleIO?': { storageMode: 'ThinProvisioned', fsType: 'xfs' },
};

/** Defaults that pods and pod templates share. */
const POD_SPEC = compile(
  {
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    securityContext: {},
    terminationGracePeriodSeconds: 30,
    schedulerName: 'default-scheduler',
    'volumes[]': VOLUME,
    'initContainers[]': CONTAINER,
    'containers[]': CONTAINER,
    'ephemeralContainers[]': CONTAINER,
    serviceAccountName: ({ serviceAccount }: MutableObject) => serviceAccount ?? undefined,
  },
  (spec) => {
    // The deprecated `serviceAccount` field mirrors `serviceAccountName`.
    const name = spec['serviceAccountName'];
    if (name != null && name !== '') spec['serviceAccount'] = name;
  },
);

const HOST_PORTS = compile({ 'ports[]': { 'hostPort|0': ({ containerPort }: MutableObject) => containerPort } });

const POD = compile({
  'spec!': compile({ enableServiceLinks: true }, POD_SPEC, (spec) => {
    for (const container of [...getObjects(spec, 'initContainers'), ...getObjects(spec, 'containers')]) {
      defaultRequests(container);
      if (spec['hostNetwork'] === true) HOST_PORTS(container);
    }
  }),
});

function defaultRequests(container: MutableObject): void {
  const resources = getObject(container, 'resources');
  const limits = resources && getObject(resources, 'limits');
  if (!limits) return;
  setDefault(resources, 'requests', {});
  const requests = getObject(resources, 'requests') ?? {};
  for (const [name, value] of Object.entries(limits)) {
    // Assigning to `__proto__` would not define a member, so use defineProperty.
    if (!Object.hasOwn(requests, name))
      Object.defineProperty(requests, name, { value, enumerable: true, configurable: true, writable: true });
  }
}

const TEMPLATE_BODY: Table = { metadata: {}, 'spec!': POD_SPEC };
const TEMPLATE: Table = { 'template!': TEMPLATE_BODY };

/**
 * Defaults the labels of a Job or ReplicationController, and the selector of a ReplicationController, to the labels of
 * the pod template.
 */
function adoptTemplateLabels(object: MutableObject): void {
  const spec = getObject(object, 'spec');
  const template = spec && getObject(spec, 'template');
  const labels = getObject(getObject(template ?? {}, 'metadata') ?? {}, 'labels');
  if (!spec || !labels) return;
  if (object['kind'] === 'ReplicationController' && isEmpty(spec['selector'])) spec['selector'] = { ...labels };
  setDefault(object, 'metadata', {});
  const metadata = getObject(object, 'metadata');
  if (metadata && isEmpty(metadata['labels'])) metadata['labels'] = { ...labels };
}

function isEmpty(value: unknown): boolean {
  return value == null || (typeof value === 'object' && Object.keys(value).length === 0);
}

function rollingUpdate(strategy: string, fields: Table): Table {
  const ifRolling = ({ type }: MutableObject): object | undefined => (type === 'RollingUpdate' ? {} : undefined);
  return { [`${strategy}!`]: { type: 'RollingUpdate', rollingUpdate: ifRolling, 'rollingUpdate?': fields } };
}

const JOB_SPEC: Table = {
  completions: ({ parallelism }: MutableObject) => (parallelism == null ? 1 : undefined),
  parallelism: 1,
  backoffLimit: ({ backoffLimitPerIndex }: MutableObject) => (backoffLimitPerIndex == null ? 6 : 0x7fffffff),
  completionMode: 'NonIndexed',
  suspend: false,
  podReplacementPolicy: ({ podFailurePolicy }: MutableObject) =>
    podFailurePolicy == null ? 'TerminatingOrFailed' : 'Failed',
  manualSelector: false,
  ...TEMPLATE,
};

const WEBHOOK: Table = {
  failurePolicy: 'Fail',
  matchPolicy: 'Equivalent',
  namespaceSelector: {},
  objectSelector: {},
  timeoutSeconds: 10,
  'rules[]': { scope: '*' },
  'clientConfig?': { 'service?': { port: 443 } },
};

const MATCH_RESOURCES: Table = {
  matchPolicy: 'Equivalent',
  namespaceSelector: {},
  objectSelector: {},
  'resourceRules[]': { scope: '*' },
  'excludeResourceRules[]': { scope: '*' },
};

const RBAC_GROUP = 'rbac.authorization.k8s.io';

const BINDING = compile({
  'roleRef!': { apiGroup: RBAC_GROUP },
  'subjects[]': {
    apiGroup: ({ kind }: MutableObject) => (kind === 'User' || kind === 'Group' ? RBAC_GROUP : undefined),
  },
});

const TCP_PORTS: Table = { 'ports[]': { protocol: 'TCP' } };
const PENDING: Table = { 'status!': { phase: 'Pending' } };

/** Defaults by API group and kind. */
const DEFAULTS: Readonly<Record<string, Defaulter>> = {
  '/Pod': POD,
  '/PodTemplate': compile(TEMPLATE),
  '/ReplicationController': compile({ 'spec!': { replicas: 1, 'template?': TEMPLATE_BODY } }, adoptTemplateLabels),
  'apps/DaemonSet': compile({
    'spec!': {
      ...TEMPLATE,
      ...rollingUpdate('updateStrategy', { maxUnavailable: 1, maxSurge: 0 }),
      revisionHistoryLimit: 10,
    },
  }),
  'apps/Deployment': compile({
    'spec!': {
      replicas: 1,
      ...TEMPLATE,
      ...rollingUpdate('strategy', { maxUnavailable: '25%', maxSurge: '25%' }),
      revisionHistoryLimit: 10,
      progressDeadlineSeconds: 600,
    },
  }),
  'apps/ReplicaSet': compile({ 'spec!': { replicas: 1, ...TEMPLATE } }),
  'apps/StatefulSet': compile({
    'spec!': {
      podManagementPolicy: 'OrderedReady',
      'updateStrategy!': {
        rollingUpdate: ({ type }: MutableObject) => (type == null || type === '' ? {} : undefined),
        type: 'RollingUpdate',
        'rollingUpdate?': { partition: 0 },
      },
      'persistentVolumeClaimRetentionPolicy!': { whenDeleted: 'Retain', whenScaled: 'Retain' },
      replicas: 1,
      revisionHistoryLimit: 10,
      ...TEMPLATE,
      'volumeClaimTemplates[]': CLAIM,
    },
  }),
  'batch/CronJob': compile({
    'spec!': {
      concurrencyPolicy: 'Allow',
      suspend: false,
      successfulJobsHistoryLimit: 3,
      failedJobsHistoryLimit: 1,
      'jobTemplate!': { metadata: {}, 'spec!': TEMPLATE },
    },
  }),
  'batch/Job': compile({ 'spec!': JOB_SPEC }, adoptTemplateLabels),
  '/Namespace': compile({
    // The name is absent until the API server generates it from `generateName`.
    'metadata!': (metadata: MutableObject) => {
      const { name } = metadata;
      if (typeof name !== 'string' || name === '') return;
      setDefault(metadata, 'labels', {});
      const labels = getObject(metadata, 'labels');
      if (labels) labels['kubernetes.io/metadata.name'] = name;
    },
    'status!': { phase: 'Active' },
  }),
  '/Secret': compile({ type: 'Opaque' }),
  '/Service': compile({
    'spec!': {
      sessionAffinity: 'None',
      type: 'ClusterIP',
      'ports[]': { protocol: 'TCP', 'targetPort|0': ({ port }: MutableObject) => port },
      externalTrafficPolicy: ({ type }: MutableObject) =>
        type === 'NodePort' || type === 'LoadBalancer' ? 'Cluster' : undefined,
      allocateLoadBalancerNodePorts: ({ type }: MutableObject) => (type === 'LoadBalancer' ? true : undefined),
      internalTrafficPolicy: ({ type }: MutableObject) => (type === 'ExternalName' ? undefined : 'Cluster'),
    },
  }),
  '/PersistentVolumeClaim': compile({ ...CLAIM, ...PENDING }),
  '/PersistentVolume': compile({
    'spec!': { persistentVolumeReclaimPolicy: 'Retain', volumeMode: 'Filesystem' },
    ...PENDING,
  }),
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': compile({
    'webhooks[]': { ...WEBHOOK, reinvocationPolicy: 'Never' },
  }),
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': compile({ 'webhooks[]': WEBHOOK }),
  'admissionregistration.k8s.io/ValidatingAdmissionPolicy': compile({
    'spec!': { failurePolicy: 'Fail', 'matchConstraints?': MATCH_RESOURCES },
  }),
  'admissionregistration.k8s.io/MutatingAdmissionPolicy': compile({
    'spec!': { failurePolicy: 'Fail', 'matchConstraints?': MATCH_RESOURCES },
  }),
  'admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding': compile({
    'spec?': { 'matchResources?': MATCH_RESOURCES },
  }),
  'apiextensions.k8s.io/CustomResourceDefinition': compile({
    'spec!': {
      'names!': {
        singular: ({ kind }: MutableObject) => (typeof kind === 'string' ? kind.toLowerCase() : ''),
        listKind: ({ kind }: MutableObject) => (typeof kind === 'string' && kind !== '' ? `${kind}List` : undefined),
      },
      'conversion!': { strategy: 'None' },
    },
  }),
  'networking.k8s.io/NetworkPolicy': compile({
    'spec!': {
      'ingress[]': TCP_PORTS,
      'egress[]': TCP_PORTS,
      policyTypes: (spec: MutableObject) =>
        getObjects(spec, 'egress').length > 0 ? ['Ingress', 'Egress'] : ['Ingress'],
    },
  }),
  'rbac.authorization.k8s.io/ClusterRoleBinding': BINDING,
  'rbac.authorization.k8s.io/RoleBinding': BINDING,
  'scheduling.k8s.io/PriorityClass': compile({ preemptionPolicy: 'PreemptLowerPriority' }),
};

/**
 * Sets the defaults that the API server sets before admission. Mutates the object. Ignores fields that have the wrong
 * type and objects of unknown kinds. Idempotent.
 */
export function setApiDefaults(object: Record<string, unknown>): void {
  const apiVersion = typeof object['apiVersion'] === 'string' ? object['apiVersion'] : '';
  const kind = typeof object['kind'] === 'string' ? object['kind'] : '';
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const key = `${group}/${kind}`;
  if (Object.hasOwn(DEFAULTS, key)) DEFAULTS[key]?.(object);
}

/** Returns a copy of the object with the API server's defaults. */
export function withApiDefaults<T extends object>(object: T): T {
  const complete = draft(object);
  setApiDefaults(complete as MutableObject);
  return complete as T;
}
