/**
 * The table of objects with which a tenant attacks replicas. Each row is one attack, with the largest objects that an
 * API server accepts.
 */
import { GRANT_EXPIRY_ANNOTATION, TEMPORARY_GRANT_PREFIX } from '../../src/api/names.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { getApiVersion } from '../../src/kube/resources.ts';
import type { JsonObject } from '../../src/kube/types.ts';

/** Namespaces of the tenants. Their policies are in `tenant-stage.ts`. */
export const ENFORCED = 'tenant-enforced';
export const UNENFORCED = 'tenant-unenforced';

export interface TenantAttack {
  readonly name: string;
  /** ClusterRole of the tenant in its namespaces. */
  readonly role: 'edit' | 'admin';
  readonly namespace: typeof ENFORCED | typeof UNENFORCED;
  /** The kinds of the objects, which alternate. */
  readonly kinds: readonly Kind[];
  /** Maximum number of objects. */
  readonly count: number;
  /**
   * Builds the fields of an object. The size is proportional to `bytes`, which decreases until the API server accepts
   * the object. The caller adds the name and the type.
   */
  build(bytes: number, index: number, kind: Kind): JsonObject;
  /**
   * The requests that follow the creation. `patch` sends small patches of the objects, and `churn` deletes and creates
   * them. Default: `patch`.
   */
  readonly then?: 'patch' | 'churn' | 'ephemeral containers';
}

/** Label on all objects of an attack. */
export const ATTACK_LABEL = 'attack';

/** Size of the first object of an attack in JSON. An API server stores objects of at most 1.5 MiB. */
export const LARGEST_BYTES = 1.4 * 1024 * 1024;

/** Returns as many items as fit into the given number of bytes of JSON. */
function fill<T>(bytes: number, item: (index: number) => T): T[] {
  const length = JSON.stringify(item(100_000)).length + 1;
  return Array.from({ length: Math.max(1, Math.floor(bytes / length)) }, (_, index) => item(index));
}

function fillMap(bytes: number, key: (index: number) => string, value: (index: number) => string): JsonObject {
  return Object.fromEntries(fill(bytes, (index) => [key(index), value(index)]));
}

const SECURITY = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
const CONTAINER = { name: 'web', image: 'web:1', securityContext: SECURITY };

/** Returns a pod spec that satisfies `restricted`, with additional fields. */
function podSpec(spec: JsonObject = {}, container: JsonObject = {}): JsonObject {
  return {
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [{ ...CONTAINER, ...container }],
    ...spec,
  };
}

/** Creates pod specs in which one kind of field fills the given number of bytes. */
const POD_SPECS = {
  volumes: (bytes: number) => podSpec({ volumes: fill(bytes, (index) => ({ name: `v${index}`, emptyDir: {} })) }),
  'one long variable': (bytes: number) => podSpec({}, { env: [{ name: 'A', value: 'x'.repeat(bytes) }] }),
  'escaped characters': (bytes: number) => podSpec({}, { env: [{ name: 'A', value: '<'.repeat(bytes) }] }),
  'empty arguments': (bytes: number) => podSpec({}, { args: fill(bytes, () => '') }),
  tolerations: (bytes: number) =>
    podSpec({ tolerations: fill(bytes, (index) => ({ key: `k${index}`, operator: 'Exists' })) }),
  containers: (bytes: number) =>
    podSpec({ containers: fill(bytes, (index) => ({ ...CONTAINER, name: `c${index}`, image: 'w' })) }),
  'supplemental groups': (bytes: number) =>
    podSpec({
      securityContext: {
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
        supplementalGroups: fill(bytes, (index) => index),
      },
    }),
  'dropped capabilities': (bytes: number) =>
    podSpec(
      {},
      { securityContext: { ...SECURITY, capabilities: { drop: ['ALL', ...fill(bytes, (index) => `C${index}`)] } } },
    ),
  ports: (bytes: number) =>
    podSpec({}, { ports: fill(bytes, (index) => ({ containerPort: 1 + (index % 65_535), name: `p${index}` })) }),
  'long names': (bytes: number) =>
    podSpec({
      volumes: fill(bytes, (index) => ({ name: `${index}`.padStart(63, 'v'), emptyDir: { sizeLimit: '1Mi' } })),
    }),
} as const satisfies Readonly<Record<string, (bytes: number) => JsonObject>>;

type PodSpecName = keyof typeof POD_SPECS;

/** Returns an object of a kind that contains the pod spec. */
function withPodSpec(kind: Kind, spec: JsonObject, index: number): JsonObject {
  const labels = { app: `a${index}` };
  const template = { metadata: { labels }, spec };
  const selector = { matchLabels: labels };
  const restartPolicy = 'Never';
  switch (kind) {
    case 'Pod':
      return { spec: { ...spec, schedulingGates: [{ name: 'example.com/never' }] } };
    case 'PodTemplate':
      return { template };
    case 'CronJob':
      return {
        spec: {
          schedule: '0 0 1 1 *',
          suspend: true,
          jobTemplate: { spec: { template: { ...template, spec: { ...spec, restartPolicy } } } },
        },
      };
    case 'Job':
      return { spec: { suspend: true, template: { ...template, spec: { ...spec, restartPolicy } } } };
    case 'ReplicationController':
      return { spec: { replicas: 0, selector: labels, template } };
    case 'StatefulSet':
      return { spec: { replicas: 0, serviceName: 'web', selector, template } };
    case 'DaemonSet':
      return { spec: { selector, template: { ...template, spec: { ...spec, nodeSelector: { never: 'true' } } } } };
    default:
      return { spec: { replicas: 0, selector, template } };
  }
}

const WORKLOADS = [
  'PodTemplate',
  'ReplicationController',
  'Deployment',
  'StatefulSet',
  'DaemonSet',
  'ReplicaSet',
  'Job',
  'CronJob',
] as const satisfies readonly Kind[];

function podAttack(spec: PodSpecName, options: Partial<TenantAttack> = {}): TenantAttack {
  return {
    name: `Pod: ${spec}`,
    role: 'edit',
    namespace: ENFORCED,
    kinds: ['Pod'],
    count: 60,
    build: (bytes, index, kind) => withPodSpec(kind, POD_SPECS[spec](bytes), index),
    ...options,
  };
}

/** Creates large metadata. API servers limit only the size of annotations. */
const METADATA = [
  (bytes: number) => ({
    labels: fillMap(
      bytes,
      (index) => `l${index}`,
      () => '',
    ),
  }),
  (bytes: number) => ({ finalizers: fill(bytes, (index) => `example.com/f${index}`) }),
  (bytes: number) => ({
    ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'x', uid: 'u'.repeat(bytes) }],
  }),
  (bytes: number) => ({
    ownerReferences: fill(bytes, (index) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      name: `x${index}`,
      uid: `${index}`,
    })),
  }),
  (bytes: number) => ({ annotations: { 'portcullis.dev/x': '<'.repeat(Math.min(bytes, 250_000)) } }),
  (bytes: number) => ({
    annotations: fillMap(
      Math.min(bytes / 2, 200_000),
      (index) => `a${index}`,
      () => '',
    ),
  }),
] as const;

const SUBJECT_GROUP = 'rbac.authorization.k8s.io';

/** Returns the minimal valid object of a kind. */
function minimal(kind: Kind, index: number): JsonObject {
  switch (kind) {
    case 'ServiceAccount':
      return {};
    case 'Role':
      return { rules: [] };
    case 'RoleBinding':
      return { roleRef: { apiGroup: SUBJECT_GROUP, kind: 'ClusterRole', name: 'view' }, subjects: [] };
    case 'PodSecurityException':
      return {
        spec: {
          serviceAccountName: 'default',
          allow: [{ check: 'hostNamespaces' }],
          expiresAt: new Date(Date.now() + 24 * 3_600_000).toISOString().replace(/\.\d+/, ''),
          reason: 'x',
        },
      };
    default:
      return withPodSpec(kind, podSpec(), index);
  }
}

const SCC_RULE = {
  apiGroups: ['security.openshift.io'],
  resources: ['securitycontextconstraints'],
  verbs: ['use'],
} as const;

const usersOf = (bytes: number): JsonObject[] =>
  fill(bytes, (index) => ({ apiGroup: SUBJECT_GROUP, kind: 'User', name: `u${index}` }));

const SCC_ROLE = { apiGroup: SUBJECT_GROUP, kind: 'ClusterRole', name: 'system:openshift:scc:restricted-v2' };

/** All attacks of tenants. */
export const TENANT_ATTACKS: readonly TenantAttack[] = [
  {
    name: 'Role: rules about pods',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['Role'],
    count: 60,
    build: (bytes) => ({
      rules: fill(bytes, (index) => ({
        apiGroups: [''],
        resources: ['pods'],
        verbs: ['get'],
        resourceNames: [`p${index}`],
      })),
    }),
  },
  {
    name: 'Role: rules about SCCs',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['Role'],
    count: 60,
    build: (bytes) => ({ rules: fill(bytes, () => ({ ...SCC_RULE, resourceNames: ['restricted-v2'] })) }),
  },
  {
    name: 'Role: names and verbs of a rule about SCCs',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['Role'],
    count: 60,
    build: (bytes, index) => ({
      rules: [
        { ...SCC_RULE, resourceNames: [...fill(bytes, () => 'restricted-v2'), ...fill(index, () => 'restricted-v2')] },
      ],
    }),
  },
  {
    name: 'RoleBinding: subjects of an unrelated role',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['RoleBinding'],
    count: 60,
    build: (bytes) => ({ roleRef: { ...SCC_ROLE, name: 'view' }, subjects: usersOf(bytes) }),
  },
  {
    name: 'RoleBinding: subjects of an SCC role',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['RoleBinding'],
    count: 60,
    build: (bytes) => ({ roleRef: SCC_ROLE, subjects: usersOf(bytes) }),
  },
  {
    name: 'RoleBinding: one long subject of an SCC role',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['RoleBinding'],
    count: 60,
    build: (bytes, index) => ({
      roleRef: SCC_ROLE,
      subjects: [{ apiGroup: SUBJECT_GROUP, kind: 'User', name: `${index}`.padEnd(bytes, 'u') }],
    }),
  },
  {
    name: 'RoleBinding: many small ones',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['RoleBinding', 'Role'],
    count: 6000,
    build: (_bytes, index, kind) =>
      kind === 'Role'
        ? { rules: [{ ...SCC_RULE, resourceNames: ['restricted-v2'] }] }
        : { roleRef: SCC_ROLE, subjects: [{ kind: 'ServiceAccount', name: `a${index}`, namespace: ENFORCED }] },
    then: 'churn',
  },
  {
    name: 'RoleBinding: temporary grants that expire soon',
    role: 'admin',
    namespace: ENFORCED,
    kinds: ['RoleBinding'],
    count: 6000,
    build: (_bytes, index) => ({
      metadata: {
        name: `${TEMPORARY_GRANT_PREFIX}${index}`,
        annotations: { [GRANT_EXPIRY_ANNOTATION]: new Date(Date.now() + 24 * 3_600_000).toISOString() },
      },
      roleRef: SCC_ROLE,
      subjects: [{ kind: 'ServiceAccount', name: `a${index}`, namespace: ENFORCED }],
    }),
    then: 'churn',
  },
  {
    name: 'ServiceAccount: many small ones',
    role: 'edit',
    namespace: ENFORCED,
    kinds: ['ServiceAccount'],
    count: 6000,
    build: () => ({}),
    then: 'churn',
  },
  {
    name: 'ServiceAccount: references to Secrets',
    role: 'edit',
    namespace: ENFORCED,
    kinds: ['ServiceAccount'],
    count: 60,
    build: (bytes, index) => ({
      [index % 2 === 0 ? 'secrets' : 'imagePullSecrets']: fill(bytes, (number) => ({ name: `s${number}` })),
    }),
  },
  podAttack('volumes'),
  podAttack('one long variable', { count: 100 }),
  podAttack('escaped characters', { count: 100 }),
  podAttack('empty arguments'),
  podAttack('tolerations'),
  podAttack('containers', { namespace: UNENFORCED }),
  podAttack('supplemental groups', { namespace: UNENFORCED }),
  podAttack('dropped capabilities', { namespace: UNENFORCED }),
  podAttack('ports'),
  podAttack('long names', { namespace: UNENFORCED }),
  podAttack('one long variable', {
    name: 'Pod: many small ones',
    count: 3000,
    build: (_bytes, index, kind) => minimal(kind, index),
    then: 'churn',
  }),
  podAttack('one long variable', {
    name: 'Pod: ephemeral containers',
    count: 4,
    build: (_bytes, index, kind) => minimal(kind, index),
    then: 'ephemeral containers',
  }),
  {
    name: 'workloads: volumes',
    role: 'edit',
    namespace: ENFORCED,
    kinds: WORKLOADS,
    count: 96,
    build: (bytes, index, kind) => withPodSpec(kind, POD_SPECS.volumes(bytes), index),
  },
  {
    name: 'workloads: one long variable',
    role: 'edit',
    namespace: ENFORCED,
    kinds: WORKLOADS,
    count: 160,
    build: (bytes, index, kind) => withPodSpec(kind, POD_SPECS['one long variable'](bytes), index),
  },
  {
    name: 'workloads: containers',
    role: 'edit',
    namespace: UNENFORCED,
    kinds: WORKLOADS,
    count: 96,
    build: (bytes, index, kind) => withPodSpec(kind, POD_SPECS.containers(bytes), index),
  },
  {
    name: 'workloads: metadata of pod templates',
    role: 'edit',
    namespace: UNENFORCED,
    kinds: WORKLOADS,
    count: 96,
    build(bytes, index, kind) {
      const object = JSON.stringify(withPodSpec(kind, podSpec(), index));
      const labels = JSON.stringify({
        app: `a${index}`,
        ...fillMap(
          bytes,
          (number) => `l${number}`,
          () => '',
        ),
      });
      return JSON.parse(
        object.replace(`{"metadata":{"labels":{"app":"a${index}"}}`, `{"metadata":{"labels":${labels}}`),
      ) as JsonObject;
    },
  },
  {
    name: 'PodSecurityException: many entries',
    role: 'edit',
    namespace: ENFORCED,
    kinds: ['PodSecurityException'],
    count: 1000,
    build(_bytes, index, kind) {
      const { spec } = minimal(kind, index) as { readonly spec: JsonObject };
      const values = Array.from({ length: 32 }, (_, number) => `/${'x'.repeat(10)}${number}`);
      return { spec: { ...spec, allow: Array.from({ length: 18 }, () => ({ check: 'hostPathVolumes', values })) } };
    },
    then: 'churn',
  },
  {
    name: 'every kind: metadata',
    role: 'admin',
    namespace: UNENFORCED,
    kinds: ['Pod', 'ServiceAccount', 'Role', 'RoleBinding', 'PodSecurityException', ...WORKLOADS],
    count: 156,
    build: (bytes, index, kind) => ({
      ...minimal(kind, index),
      metadata: METADATA[Math.floor(index / 13) % METADATA.length]?.(bytes) ?? {},
    }),
  },
];

/** Returns the complete object of an attack. */
export function buildAttack(
  { namespace, kinds, build }: TenantAttack,
  bytes: number,
  index: number,
): JsonObject & { readonly kind: Kind } {
  const kind = kinds[index % kinds.length] ?? 'Pod';
  const { metadata, ...object } = build(bytes, index, kind);
  const { labels, ...more } = (metadata ?? {}) as { readonly labels?: JsonObject };
  return {
    apiVersion: getApiVersion(kind),
    kind,
    metadata: { name: `attack-${index}`, ...more, namespace, labels: { ...labels, [ATTACK_LABEL]: 'true' } },
    ...object,
  };
}
