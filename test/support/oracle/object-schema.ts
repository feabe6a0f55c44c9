/** The types of the fields of pods, workloads and namespaces. An API server decodes objects of these types (6.6). */
import { at, isObject, textAt } from './json.ts';

export type Type =
  | 'text'
  | 'boolean'
  /** Of any size. */
  | 'integer'
  | 'int32'
  | 'int64'
  | 'time'
  | 'quantity'
  | 'text or number'
  | 'anything'
  | { readonly list: Type }
  | { readonly map: Type }
  | { readonly fields: Readonly<Record<string, Type>> };

/** True if all known fields have the right type. Unknown fields are ignored, and null is absent. */
export function fits(value: unknown, type: Type): boolean {
  if (value == null) return true;
  if (typeof type !== 'string') {
    if ('list' in type) return Array.isArray(value) && value.every((item) => fits(item, type.list));
    if (!isObject(value)) return false;
    if ('map' in type) return Object.values(value).every((item) => fits(item, type.map));
    return Object.entries(type.fields).every(
      ([name, field]) => !Object.hasOwn(value, name) || fits(value[name], field),
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
      // JSON.parse reads the maximum, 2^63 - 1, as 2^63.
      return Number.isInteger(value) && Math.abs(value as number) <= 2 ** 63;
    case 'time':
      return typeof value === 'string' && !Number.isNaN(Date.parse(value));
    case 'quantity':
      return (
        typeof value === 'number' || (typeof value === 'string' && /^[+-]?\d+(\.\d+)?([kKMGTPEmun]?i?)$/.test(value))
      );
    case 'text or number':
      return typeof value === 'string' || (Number.isInteger(value) && Math.abs(value as number) < 2 ** 31);
    case 'anything':
      return true;
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
const listOf = (fields: Readonly<Record<string, Type>>): Type => ({ list: { fields } });

const metadata = object({
  name: 'text',
  generateName: 'text',
  namespace: 'text',
  uid: 'text',
  resourceVersion: 'text',
  generation: 'int64',
  creationTimestamp: 'time',
  deletionTimestamp: 'time',
  labels: textMap,
  annotations: textMap,
  finalizers: texts,
  ownerReferences: listOf({ apiVersion: 'text', kind: 'text', name: 'text', uid: 'text', controller: 'boolean' }),
});

const shared = {
  seLinuxOptions: object({ user: 'text', role: 'text', type: 'text', level: 'text' }),
  windowsOptions: object({ gmsaCredentialSpecName: 'text', runAsUserName: 'text', hostProcess: 'boolean' }),
  runAsUser: 'int64',
  runAsGroup: 'int64',
  runAsNonRoot: 'boolean',
  seccompProfile: object({ type: 'text', localhostProfile: 'text' }),
  appArmorProfile: object({ type: 'text', localhostProfile: 'text' }),
} as const;

const keyToPath = listOf({ key: 'text', path: 'text', mode: 'int32' });
const fieldRef = object({ apiVersion: 'text', fieldPath: 'text' });
const handler = {
  httpGet: object({ path: 'text', port: 'text or number', host: 'text', scheme: 'text' }),
  tcpSocket: object({ port: 'text or number', host: 'text' }),
  exec: object({ command: texts }),
} as const;
const probe = object({ ...handler, periodSeconds: 'int32', timeoutSeconds: 'int32' });

const container = {
  name: 'text',
  image: 'text',
  imagePullPolicy: 'text',
  command: texts,
  args: texts,
  workingDir: 'text',
  restartPolicy: 'text',
  tty: 'boolean',
  stdin: 'boolean',
  env: listOf({ name: 'text', value: 'text' }),
  ports: listOf({ name: 'text', hostPort: 'int32', containerPort: 'int32', protocol: 'text', hostIP: 'text' }),
  resources: object({ limits: { map: 'quantity' }, requests: { map: 'quantity' } }),
  volumeMounts: listOf({ name: 'text', mountPath: 'text', readOnly: 'boolean' }),
  livenessProbe: probe,
  readinessProbe: probe,
  startupProbe: probe,
  lifecycle: object({ postStart: object(handler), preStop: object(handler) }),
  terminationMessagePath: 'text',
  terminationMessagePolicy: 'text',
  securityContext: object({
    ...shared,
    capabilities: object({ add: texts, drop: texts }),
    privileged: 'boolean',
    readOnlyRootFilesystem: 'boolean',
    allowPrivilegeEscalation: 'boolean',
    procMount: 'text',
  }),
} as const;

const some: Type = object({});
export const VOLUME = object({
  name: 'text',
  hostPath: object({ path: 'text', type: 'text' }),
  emptyDir: object({ medium: 'text', sizeLimit: 'quantity' }),
  secret: object({ secretName: 'text', optional: 'boolean', items: keyToPath }),
  configMap: object({ name: 'text', optional: 'boolean', items: keyToPath }),
  persistentVolumeClaim: object({ claimName: 'text', readOnly: 'boolean' }),
  downwardAPI: object({ items: listOf({ path: 'text', fieldRef }) }),
  projected: object({
    sources: listOf({
      serviceAccountToken: object({ audience: 'text', expirationSeconds: 'int64', path: 'text' }),
      configMap: object({ name: 'text', optional: 'boolean', items: keyToPath }),
      secret: object({ name: 'text', optional: 'boolean', items: keyToPath }),
      downwardAPI: object({ items: listOf({ path: 'text', fieldRef }) }),
    }),
  }),
  flexVolume: object({ driver: 'text', fsType: 'text', readOnly: 'boolean' }),
  ...Object.fromEntries(
    [
      ...['gcePersistentDisk', 'awsElasticBlockStore', 'gitRepo', 'nfs', 'iscsi', 'glusterfs', 'rbd', 'cinder'],
      ...['cephfs', 'flocker', 'fc', 'azureFile', 'vsphereVolume', 'quobyte', 'azureDisk', 'photonPersistentDisk'],
      ...['portworxVolume', 'scaleIO', 'storageos', 'csi', 'ephemeral', 'image'],
    ].map((source) => [source, some]),
  ),
});

const podSpec = object({
  volumes: { list: VOLUME },
  initContainers: { list: object(container) },
  containers: { list: object(container) },
  ephemeralContainers: { list: object({ ...container, targetContainerName: 'text' }) },
  restartPolicy: 'text',
  terminationGracePeriodSeconds: 'int64',
  activeDeadlineSeconds: 'int64',
  dnsPolicy: 'text',
  nodeSelector: textMap,
  nodeName: 'text',
  serviceAccountName: 'text',
  serviceAccount: 'text',
  automountServiceAccountToken: 'boolean',
  hostNetwork: 'boolean',
  hostPID: 'boolean',
  hostIPC: 'boolean',
  hostUsers: 'boolean',
  shareProcessNamespace: 'boolean',
  hostname: 'text',
  schedulerName: 'text',
  tolerations: listOf({ key: 'text', operator: 'text', value: 'text', effect: 'text', tolerationSeconds: 'int64' }),
  priority: 'int32',
  priorityClassName: 'text',
  runtimeClassName: 'text',
  enableServiceLinks: 'boolean',
  os: object({ name: 'text' }),
  schedulingGates: listOf({ name: 'text' }),
  securityContext: object({
    ...shared,
    supplementalGroups: { list: 'int64' },
    supplementalGroupsPolicy: 'text',
    fsGroup: 'int64',
    fsGroupChangePolicy: 'text',
    seLinuxChangePolicy: 'text',
    sysctls: listOf({ name: 'text', value: 'text' }),
  }),
});

const head = { apiVersion: 'text', kind: 'text', metadata } as const;
const template = object({ metadata, spec: podSpec });

const sources: Readonly<Record<string, Type>> = Object.fromEntries(
  Object.keys(VOLUME.fields)
    .filter((field) => field !== 'name')
    .map((field) => [field, some]),
);

/** The fields that checks (section 3 of pod-security.md), exemptions and the rule of significant updates read. */
const judgedContainer = {
  name: 'text',
  image: 'text',
  ports: listOf({ hostPort: 'int32' }),
  livenessProbe: object({ httpGet: object({ host: 'text' }), tcpSocket: object({ host: 'text' }) }),
  readinessProbe: object({ httpGet: object({ host: 'text' }), tcpSocket: object({ host: 'text' }) }),
  startupProbe: object({ httpGet: object({ host: 'text' }), tcpSocket: object({ host: 'text' }) }),
  lifecycle: object({
    postStart: object({ httpGet: object({ host: 'text' }), tcpSocket: object({ host: 'text' }) }),
    preStop: object({ httpGet: object({ host: 'text' }), tcpSocket: object({ host: 'text' }) }),
  }),
} as const;

const judgedContext = {
  seLinuxOptions: object({ user: 'text', role: 'text', type: 'text' }),
  windowsOptions: object({ hostProcess: 'boolean' }),
  runAsUser: 'int64',
  runAsNonRoot: 'boolean',
  seccompProfile: object({ type: 'text' }),
  appArmorProfile: object({ type: 'text' }),
} as const;

const judgedContainers: Type = listOf({
  ...judgedContainer,
  securityContext: object({
    ...judgedContext,
    capabilities: object({ add: texts, drop: texts }),
    privileged: 'boolean',
    allowPrivilegeEscalation: 'boolean',
    procMount: 'text',
  }),
});

const judgedSpec: Type = object({
  volumes: listOf(sources),
  initContainers: judgedContainers,
  containers: judgedContainers,
  ephemeralContainers: judgedContainers,
  hostNetwork: 'boolean',
  hostPID: 'boolean',
  hostIPC: 'boolean',
  hostUsers: 'boolean',
  os: object({ name: 'text' }),
  runtimeClassName: 'text',
  securityContext: object({ ...judgedContext, sysctls: listOf({ name: 'text' }) }),
});

/** The fields of a pod or template that Pod Security reads. Other fields do not affect its decisions. */
export const JUDGED_BY_STANDARDS: Type = object({ metadata: object({ annotations: textMap }), spec: judgedSpec });

const admittedContext = {
  seLinuxOptions: object({ user: 'text', role: 'text', type: 'text', level: 'text' }),
  runAsUser: 'integer',
  runAsNonRoot: 'boolean',
  seccompProfile: object({ type: 'text', localhostProfile: 'text' }),
} as const;

const admittedContainers: Type = listOf({
  name: 'text',
  ports: listOf({ hostPort: 'integer' }),
  securityContext: object({
    ...admittedContext,
    capabilities: object({ add: texts, drop: texts }),
    privileged: 'boolean',
    readOnlyRootFilesystem: 'boolean',
    allowPrivilegeEscalation: 'boolean',
  }),
});

/** The fields of a pod that SCC admission reads (section 3 of scc.md). An `os` of a wrong type counts as absent. */
export const JUDGED_BY_SCCS: Type = object({
  metadata: object({ annotations: textMap }),
  spec: object({
    volumes: listOf({
      ...sources,
      // Admission reads its sources only if the SCC does not allow projected volumes.
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
      sysctls: listOf({ name: 'text' }),
    }),
  }),
});

export const POD: Type = object({ ...head, spec: podSpec, status: object({ phase: 'text' }) });

/** The fields of a namespace that set the policies of its pods. */
export const JUDGED_OF_NAMESPACE: Type = object({ metadata: object({ labels: textMap }) });

export const NAMESPACE: Type = object({
  ...head,
  spec: object({ finalizers: texts }),
  status: object({ phase: 'text' }),
});

/** Kinds with a pod template (6.1): the path of the template, and the type of the object. */
export const WORKLOADS: Readonly<Record<string, { readonly path: readonly string[]; readonly type: Type }>> = {
  'v1 PodTemplate': { path: ['template'], type: object({ ...head, template }) },
  ...Object.fromEntries(
    [
      'v1 ReplicationController',
      'apps/v1 ReplicaSet',
      'apps/v1 Deployment',
      'apps/v1 StatefulSet',
      'apps/v1 DaemonSet',
      'batch/v1 Job',
    ].map((kind) => [
      kind,
      { path: ['spec', 'template'], type: object({ ...head, spec: object({ replicas: 'int32', template }) }) },
    ]),
  ),
  'batch/v1 CronJob': {
    path: ['spec', 'jobTemplate', 'spec', 'template'],
    type: object({
      ...head,
      spec: object({ schedule: 'text', jobTemplate: object({ metadata, spec: object({ template }) }) }),
    }),
  },
};

/** True if no API server sends the objects of the request: a field has a wrong type, or a list contains null. */
export function isUndecodable(request: unknown): boolean {
  return ['object', 'oldObject'].some((key) => {
    const object = at(request, key);
    const kind = `${textAt(object, 'apiVersion')} ${textAt(object, 'kind')}`;
    const type = kind === 'v1 Pod' ? POD : kind === 'v1 Namespace' ? NAMESPACE : WORKLOADS[kind]?.type;
    return type === undefined ? object !== undefined : !fits(object, type) || hasNullItem(object);
  });
}
