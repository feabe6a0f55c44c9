/**
 * The types of pod and namespace fields that decisions read.
 * @see https://github.com/kubernetes/api/blob/v0.36.0/core/v1/types.go
 */
import { at, isObject, memoize, textAt } from './json.ts';

export type Type =
  | 'text'
  | 'boolean'
  /** An integer of any size. */
  | 'integer'
  | 'int32'
  | 'int64'
  /** An int64 that JSON.parse reads exactly. */
  | 'time'
  | 'quantity'
  /** A string or an int32. */
  | 'port'
  /** A string or a number. */
  | 'scalar'
  | { readonly list: Type }
  | { readonly map: Type }
  | { readonly fields: Readonly<Record<string, Type>> };

/** Returns true if all known fields have the right type. Ignores unknown fields and null. */
export function matchesType(value: unknown, type: Type): boolean {
  if (value == null) return true;
  if (typeof type !== 'string') {
    if ('list' in type) return Array.isArray(value) && value.every((item) => matchesType(item, type.list));
    if (!isObject(value)) return false;
    if ('map' in type) return Object.values(value).every((item) => matchesType(item, type.map));
    return Object.entries(type.fields).every(
      ([name, field]) => !Object.hasOwn(value, name) || matchesType(value[name], field),
    );
  }
  switch (type) {
    case 'text':
      return typeof value === 'string';
    case 'boolean':
      return typeof value === 'boolean';
    case 'integer':
      return Number.isInteger(value);
    case 'int32':
      return Number.isInteger(value) && Math.abs(value as number) < 2 ** 31;
    case 'int64':
      // JSON.parse returns 2^63 for the maximum, 2^63 - 1.
      return Number.isInteger(value) && Math.abs(value as number) <= 2 ** 63;
    case 'time':
      return typeof value === 'string' && !Number.isNaN(Date.parse(value));
    case 'quantity':
      return (
        typeof value === 'number' || (typeof value === 'string' && /^[+-]?\d+(\.\d+)?([kKMGTPEmun]?i?)$/.test(value))
      );
    case 'port':
      return typeof value === 'string' || matchesType(value, 'int32');
    case 'scalar':
      return typeof value === 'string' || typeof value === 'number';
  }
}

/** True if a list contains null, which the schema of no kind allows. */
export function hasNullItem(value: unknown): boolean {
  if (Array.isArray(value)) return value.some((item) => item == null || hasNullItem(item));
  return isObject(value) && Object.values(value).some(hasNullItem);
}

const texts: Type = { list: 'text' };
const textMap: Type = { map: 'text' };
const object = <Fields extends Readonly<Record<string, Type>>>(fields: Fields): { readonly fields: Fields } => ({
  fields,
});
const getList = (fields: Readonly<Record<string, Type>>): Type => ({ list: { fields } });

const some: Type = object({});

const NAMED_TYPES: Readonly<Record<string, Type>> = {
  object: some,
  map: { map: 'scalar' },
  texts,
  integers: { list: 'int64' },
  objects: getList({}),
};

const keyToPath = getList({ key: 'text', path: 'text', mode: 'int32' });
const fieldRef = object({ apiVersion: 'text', fieldPath: 'text' });
const files = object({ name: 'text', optional: 'boolean', items: keyToPath });

/** A projected volume. */
export const PROJECTED: Type = object({
  sources: getList({
    serviceAccountToken: object({ audience: 'text', expirationSeconds: 'int64', path: 'text' }),
    configMap: files,
    secret: files,
    downwardAPI: object({ items: getList({ path: 'text', fieldRef }) }),
  }),
});

/** The volume sources in their order of precedence. */
export const VOLUME_SOURCES: readonly string[] = [
  ...['hostPath', 'emptyDir', 'gcePersistentDisk', 'awsElasticBlockStore', 'gitRepo', 'secret', 'nfs', 'iscsi'],
  ...['glusterfs', 'persistentVolumeClaim', 'rbd', 'flexVolume', 'cinder', 'cephfs', 'flocker', 'downwardAPI', 'fc'],
  ...['azureFile', 'configMap', 'vsphereVolume', 'quobyte', 'azureDisk', 'photonPersistentDisk', 'projected'],
  ...['portworxVolume', 'scaleIO', 'storageos', 'csi', 'ephemeral', 'image'],
];

const sources: Readonly<Record<string, Type>> = Object.fromEntries(VOLUME_SOURCES.map((source) => [source, some]));

/** The fields that checks (section 3 of pod-security.md), exemptions and the rule for significant updates read. */
const handler = object({ httpGet: object({ host: 'text' }), tcpSocket: object({ host: 'text' }) });

const judgedContext = {
  seLinuxOptions: object({ user: 'text', role: 'text', type: 'text' }),
  windowsOptions: object({ hostProcess: 'boolean' }),
  runAsUser: 'int64',
  runAsNonRoot: 'boolean',
  seccompProfile: object({ type: 'text' }),
  appArmorProfile: object({ type: 'text' }),
} as const;

const judgedContainers: Type = getList({
  name: 'text',
  image: 'text',
  ports: getList({ hostPort: 'int32' }),
  livenessProbe: handler,
  readinessProbe: handler,
  startupProbe: handler,
  lifecycle: object({ postStart: handler, preStop: handler }),
  securityContext: object({
    ...judgedContext,
    capabilities: object({ add: texts, drop: texts }),
    privileged: 'boolean',
    allowPrivilegeEscalation: 'boolean',
    procMount: 'text',
  }),
});

const judgedSpec: Type = object({
  volumes: getList(sources),
  initContainers: judgedContainers,
  containers: judgedContainers,
  ephemeralContainers: judgedContainers,
  hostNetwork: 'boolean',
  hostPID: 'boolean',
  hostIPC: 'boolean',
  hostUsers: 'boolean',
  os: object({ name: 'text' }),
  runtimeClassName: 'text',
  securityContext: object({ ...judgedContext, sysctls: getList({ name: 'text' }) }),
});

/** The pod and template fields that Pod Security reads. Other fields do not affect its decisions. */
export const POD_SECURITY_SCHEMA: Type = object({ metadata: object({ annotations: textMap }), spec: judgedSpec });

const admittedContext = {
  seLinuxOptions: object({ user: 'text', role: 'text', type: 'text', level: 'text' }),
  runAsUser: 'integer',
  runAsNonRoot: 'boolean',
  seccompProfile: object({ type: 'text', localhostProfile: 'text' }),
} as const;

const admittedContainers: Type = getList({
  name: 'text',
  ports: getList({ hostPort: 'integer' }),
  securityContext: object({
    ...admittedContext,
    capabilities: object({ add: texts, drop: texts }),
    privileged: 'boolean',
    readOnlyRootFilesystem: 'boolean',
    allowPrivilegeEscalation: 'boolean',
  }),
});

/** The pod fields that SCC admission reads (section 3 of scc.md). An `os` with the wrong type is treated as absent. */
export const SCC_POD_SCHEMA: Type = object({
  metadata: object({ annotations: textMap }),
  spec: object({
    volumes: getList({
      ...sources,
      // SCC admission reads the sources only if the SCC does not allow projected volumes.
      projected: some,
      flexVolume: object({ driver: 'text' }),
    }),
    initContainers: admittedContainers,
    containers: admittedContainers,
    ephemeralContainers: admittedContainers,
    serviceAccountName: 'text',
    hostNetwork: 'boolean',
    hostPID: 'boolean',
    hostIPC: 'boolean',
    hostUsers: 'boolean',
    securityContext: object({
      ...admittedContext,
      supplementalGroups: { list: 'integer' },
      fsGroup: 'integer',
      sysctls: getList({ name: 'text' }),
    }),
  }),
});

/** The namespace fields that set its pods' policies. */
export const NAMESPACE_SCHEMA: Type = object({ metadata: object({ labels: textMap }) });

/** Kinds that have a pod template, and the path of the template. */
export const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  'v1 PodTemplate': ['template'],
  'v1 ReplicationController': ['spec', 'template'],
  'apps/v1 ReplicaSet': ['spec', 'template'],
  'apps/v1 Deployment': ['spec', 'template'],
  'apps/v1 StatefulSet': ['spec', 'template'],
  'apps/v1 DaemonSet': ['spec', 'template'],
  'batch/v1 Job': ['spec', 'template'],
  'batch/v1 CronJob': ['spec', 'jobTemplate', 'spec', 'template'],
};

/** The types of fields that decisions do not read, by name. Each name has the same type in all objects. */
const OTHER_FIELDS: ReadonlyMap<string, Type> = new Map(
  Object.entries({
    text: `name generateName namespace uid resourceVersion apiVersion kind imagePullPolicy workingDir restartPolicy value key path
      scheme protocol hostIP fieldPath mountPath terminationMessagePath terminationMessagePolicy gmsaCredentialSpecName
      runAsUserName localhostProfile level medium secretName claimName audience fsType dnsPolicy nodeName serviceAccountName
      serviceAccount hostname schedulerName operator effect priorityClassName fsGroupChangePolicy seLinuxChangePolicy
      supplementalGroupsPolicy targetContainerName phase schedule`,
    boolean: `tty stdin readOnly optional controller automountServiceAccountToken shareProcessNamespace enableServiceLinks
      readOnlyRootFilesystem`,
    int32: 'mode containerPort periodSeconds timeoutSeconds priority replicas',
    int64: `generation runAsUser runAsGroup fsGroup expirationSeconds terminationGracePeriodSeconds activeDeadlineSeconds
      tolerationSeconds`,
    object: 'metadata spec status template jobTemplate resources exec fieldRef',
    map: 'labels annotations nodeSelector limits requests',
    texts: 'finalizers command args',
    integers: 'supplementalGroups',
    objects: 'ownerReferences env items volumeMounts tolerations schedulingGates sources',
    time: 'creationTimestamp deletionTimestamp',
    quantity: 'sizeLimit cpu memory',
    port: 'port',
  }).flatMap(([type, names]) => names.split(/\s+/).map((name) => [name, NAMED_TYPES[type] ?? (type as Type)] as const)),
);

/**
 * True if no API server would send the objects in the request, because a field has the wrong type or a list contains
 * null.
 */
export function isUndecodable(request: unknown): boolean {
  return ['object', 'oldObject'].some((key) => {
    const object = at(request, key);
    return object !== undefined && (typeof object !== 'object' || object === null || isUndecodableObject(object));
  });
}

const isUndecodableObject = memoize((object): boolean => {
  const kind = `${textAt(object, 'apiVersion')} ${textAt(object, 'kind')}`;
  if (hasNullItem(object) || hasWrongField(object)) return true;
  if (kind === 'v1 Namespace') return false;
  const path = kind === 'v1 Pod' ? [] : TEMPLATES[kind];
  return (
    path === undefined || ![POD_SECURITY_SCHEMA, SCC_POD_SCHEMA].every((type) => matchesType(at(object, ...path), type))
  );
});

function hasWrongField(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(hasWrongField);
  if (!isObject(value)) return false;
  return Object.entries(value).some(([name, member]) => {
    const type = OTHER_FIELDS.get(name);
    return (type !== undefined && !matchesType(member, type)) || hasWrongField(member);
  });
}
