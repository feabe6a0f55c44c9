/** Generates the objects of a large cluster from their indexes, defaulted and with managed fields. */
import type { JsonObject } from '../../../src/kube/types.ts';

export interface Sizes {
  readonly namespaces: number;
  /** Role bindings, evenly distributed over the namespaces. */
  readonly bindings: number;
  /** Pods in pairs of replicas, evenly distributed over the namespaces. */
  readonly pods: number;
}

/** Builds an object after a number of changes. */
type Build = (index: number, changes: number, resourceVersion: string) => JsonObject;

/** The size of a large collection and the builder of its objects. */
export interface Collection {
  readonly count: number;
  readonly build: Build;
}

/** Returns the large collections by their list paths. */
export function createCollections({ namespaces, bindings, pods }: Sizes): ReadonlyMap<string, Collection> {
  const namespaceAt = (index: number): string => namespaceName(index % namespaces);
  return new Map<string, Collection>([
    ['/api/v1/namespaces', { count: namespaces, build: namespace }],
    [
      '/api/v1/serviceaccounts',
      { count: namespaces, build: (index, ...rest) => account(namespaceAt(index), index, ...rest) },
    ],
    ['/api/v1/pods', { count: pods, build: (index, ...rest) => pod(namespaceAt(index >> 1), index, ...rest) }],
    [
      '/apis/apps/v1/deployments',
      { count: pods >> 1, build: (index, ...rest) => deployment(namespaceAt(index), index, ...rest) },
    ],
    [
      '/apis/apps/v1/replicasets',
      { count: pods >> 1, build: (index, ...rest) => replicaSet(namespaceAt(index), index, ...rest) },
    ],
    [
      '/apis/rbac.authorization.k8s.io/v1/roles',
      { count: namespaces, build: (index, ...rest) => role(namespaceAt(index), index, ...rest) },
    ],
    [
      '/apis/rbac.authorization.k8s.io/v1/rolebindings',
      { count: bindings, build: (index, ...rest) => binding(namespaceAt(index), index, ...rest) },
    ],
  ]);
}

export function namespaceName(index: number): string {
  return `team-${index}`;
}

/** Returns the enforced level of a namespace, which alternates with each change. */
export function enforcedLevel(index: number, changes: number): 'restricted' | 'baseline' {
  return (index + changes) % 2 === 0 ? 'restricted' : 'baseline';
}

const CREATED = '2026-01-02T03:04:05Z';
const RANGE = 10_000;

function namespace(index: number, changes: number, resourceVersion: string): JsonObject {
  const name = namespaceName(index);
  const range = `${1_000_000_000 + index * RANGE}/${RANGE}`;
  return {
    metadata: {
      name,
      uid: uid(1, index),
      resourceVersion,
      creationTimestamp: CREATED,
      labels: {
        'kubernetes.io/metadata.name': name,
        'pod-security.kubernetes.io/enforce': enforcedLevel(index, changes),
        'example.com/change': String(changes),
      },
      annotations: {
        'openshift.io/sa.scc.uid-range': range,
        'openshift.io/sa.scc.supplemental-groups': range,
        'openshift.io/sa.scc.mcs': mcsLabel(index),
      },
      managedFields: [
        managed('kubectl-create', { 'f:metadata': { 'f:labels': { '.': {}, 'f:kubernetes.io/metadata.name': {} } } }),
        managed('kubectl-label', {
          'f:metadata': { 'f:labels': { 'f:pod-security.kubernetes.io/enforce': {}, 'f:example.com/change': {} } },
        }),
      ],
    },
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  };
}

/** Returns the MCS label of a block index, as the range allocator formats it. */
function mcsLabel(index: number): string {
  let first = 1;
  let rest = index;
  while (rest >= first) rest -= first++;
  return `s0:c${first},c${rest}`;
}

function account(namespace: string, index: number, changes: number, resourceVersion: string): JsonObject {
  return {
    metadata: {
      ...identity(namespace, 'default', 2, index, resourceVersion),
      annotations: { 'example.com/change': String(changes) },
    },
  };
}

function role(namespace: string, index: number, _changes: number, resourceVersion: string): JsonObject {
  return {
    metadata: identity(namespace, 'deployer', 3, index, resourceVersion),
    rules: [
      { apiGroups: ['apps'], resources: ['deployments', 'statefulsets'], verbs: ['get', 'list', 'watch', 'update'] },
      { apiGroups: [''], resources: ['pods', 'pods/log'], verbs: ['get', 'list', 'watch'] },
    ],
  };
}

function binding(namespace: string, index: number, changes: number, resourceVersion: string): JsonObject {
  const group = 'rbac.authorization.k8s.io';
  return {
    metadata: {
      ...identity(namespace, `binding-${index}`, 4, index, resourceVersion),
      labels: { 'app.kubernetes.io/managed-by': 'Helm', 'example.com/change': String(changes) },
      managedFields: [managed('helm', { 'f:roleRef': {}, 'f:subjects': {}, 'f:metadata': { 'f:labels': {} } })],
    },
    roleRef: { apiGroup: group, kind: 'Role', name: 'deployer' },
    subjects: [
      { kind: 'ServiceAccount', name: `deployer-${index % 7}`, namespace },
      { kind: 'User', apiGroup: group, name: `user-${index % 5000}@example.com` },
    ],
  };
}

const appName = (index: number): string => `app-${index}`;
const templateHash = (index: number): string => (index * 2654435761).toString(36).slice(-10);

function pod(namespace: string, index: number, changes: number, resourceVersion: string): JsonObject {
  const pair = index >> 1;
  const app = appName(pair);
  const set = `${app}-${templateHash(pair)}`;
  const token = `kube-api-access-${index.toString(36).padStart(5, 'x')}`;
  return {
    metadata: {
      ...identity(namespace, `${set}-${index.toString(36).padStart(5, 'x')}`, 5, index, resourceVersion),
      generateName: `${set}-`,
      labels: { app, 'app.kubernetes.io/name': app, 'pod-template-hash': templateHash(pair) },
      annotations: {
        'prometheus.io/scrape': 'true',
        'prometheus.io/port': '8080',
        'cni.example.com/address': address(index),
      },
      ownerReferences: [owner('ReplicaSet', set, uid(7, pair))],
      managedFields: [
        managed('kube-controller-manager', { 'f:metadata': { 'f:labels': { '.': {}, 'f:app': {} } }, 'f:spec': SPEC }),
        managed('kubelet', { 'f:status': { 'f:conditions': {}, 'f:containerStatuses': {}, 'f:podIPs': {} } }),
      ],
    },
    spec: {
      ...template(app).spec,
      volumes: [tokenVolume(token)],
      containers: template(app).spec.containers.map((container) => ({
        ...container,
        volumeMounts: [{ name: token, readOnly: true, mountPath: '/var/run/secrets/kubernetes.io/serviceaccount' }],
      })),
      nodeName: `node-${index % 1000}`,
      tolerations: ['not-ready', 'unreachable'].map((taint) => ({
        key: `node.kubernetes.io/${taint}`,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: 300,
      })),
      priority: 0,
      enableServiceLinks: true,
      preemptionPolicy: 'PreemptLowerPriority',
    },
    status: {
      phase: changes % 2 === 0 ? 'Running' : 'Succeeded',
      conditions: ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(
        (type) => ({ type, status: 'True', lastProbeTime: null, lastTransitionTime: CREATED }),
      ),
      hostIP: address(index % 1000),
      podIP: address(index),
      podIPs: [{ ip: address(index) }],
      startTime: CREATED,
      containerStatuses: [
        {
          name: 'web',
          ready: true,
          started: true,
          restartCount: changes,
          image: `registry.example.com/${app}:1.2.3`,
          imageID: `registry.example.com/${app}@sha256:${'0123456789abcdef'.repeat(4)}`,
          containerID: `containerd://${'fedcba9876543210'.repeat(4)}`,
          state: { running: { startedAt: CREATED } },
          lastState: {},
        },
      ],
      qosClass: 'Burstable',
    },
  };
}

function deployment(namespace: string, index: number, changes: number, resourceVersion: string): JsonObject {
  const app = appName(index);
  return {
    metadata: {
      ...identity(namespace, app, 6, index, resourceVersion),
      generation: 1 + changes,
      labels: { app },
      annotations: { 'deployment.kubernetes.io/revision': '1' },
      managedFields: [managed('kubectl', { 'f:spec': { 'f:template': { 'f:spec': SPEC } } })],
    },
    spec: { replicas: 2, selector: { matchLabels: { app } }, template: template(app) },
    status: { observedGeneration: 1, replicas: 2, readyReplicas: 2, availableReplicas: 2, updatedReplicas: 2 },
  };
}

function replicaSet(namespace: string, index: number, _changes: number, resourceVersion: string): JsonObject {
  const app = appName(index);
  return {
    metadata: {
      ...identity(namespace, `${app}-${templateHash(index)}`, 7, index, resourceVersion),
      labels: { app, 'pod-template-hash': templateHash(index) },
      ownerReferences: [owner('Deployment', app, uid(6, index))],
    },
    spec: { replicas: 2, selector: { matchLabels: { app } }, template: template(app) },
    status: { replicas: 2, readyReplicas: 2 },
  };
}

function template(app: string) {
  return {
    metadata: { labels: { app, 'app.kubernetes.io/name': app } },
    spec: {
      containers: [
        {
          name: 'web',
          image: `registry.example.com/${app}:1.2.3`,
          ports: [{ name: 'http', containerPort: 8080, protocol: 'TCP' }],
          env: [
            { name: 'LOG_LEVEL', value: 'info' },
            { name: 'POD_NAME', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } },
          ],
          resources: { limits: { memory: '256Mi' }, requests: { cpu: '100m', memory: '128Mi' } },
          livenessProbe: { httpGet: { path: '/livez', port: 'http', scheme: 'HTTP' }, periodSeconds: 10 },
          readinessProbe: { httpGet: { path: '/readyz', port: 'http', scheme: 'HTTP' }, periodSeconds: 10 },
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
          imagePullPolicy: 'IfNotPresent',
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      serviceAccountName: 'default',
      serviceAccount: 'default',
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      schedulerName: 'default-scheduler',
    },
  };
}

/** The managed fields of a pod spec. */
const SPEC = {
  'f:containers': {
    'k:{"name":"web"}': {
      '.': {},
      'f:env': { '.': {}, 'k:{"name":"LOG_LEVEL"}': { '.': {}, 'f:name': {}, 'f:value': {} } },
      'f:image': {},
      'f:imagePullPolicy': {},
      'f:livenessProbe': { '.': {}, 'f:httpGet': { '.': {}, 'f:path': {}, 'f:port': {} }, 'f:periodSeconds': {} },
      'f:name': {},
      'f:ports': { '.': {}, 'k:{"containerPort":8080,"protocol":"TCP"}': { '.': {}, 'f:containerPort': {} } },
      'f:resources': { '.': {}, 'f:limits': { '.': {}, 'f:memory': {} } },
      'f:securityContext': { '.': {}, 'f:allowPrivilegeEscalation': {}, 'f:capabilities': { '.': {}, 'f:drop': {} } },
    },
  },
  'f:dnsPolicy': {},
  'f:restartPolicy': {},
  'f:securityContext': { '.': {}, 'f:runAsNonRoot': {}, 'f:seccompProfile': { '.': {}, 'f:type': {} } },
};

function tokenVolume(name: string): JsonObject {
  return {
    name,
    projected: {
      sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        {
          downwardAPI: {
            items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
          },
        },
      ],
      defaultMode: 420,
    },
  };
}

function identity(namespace: string, name: string, kind: number, index: number, resourceVersion: string) {
  return { name, namespace, uid: uid(kind, index), resourceVersion, creationTimestamp: CREATED };
}

function owner(kind: string, name: string, uid: string): JsonObject {
  return { apiVersion: 'apps/v1', kind, name, uid, controller: true, blockOwnerDeletion: true };
}

function managed(manager: string, fieldsV1: JsonObject): JsonObject {
  return { manager, operation: 'Update', apiVersion: 'v1', time: CREATED, fieldsType: 'FieldsV1', fieldsV1 };
}

function uid(kind: number, index: number): string {
  return `${kind.toString(16).padStart(8, '0')}-9974-414d-af65-${index.toString(16).padStart(12, '0')}`;
}

function address(index: number): string {
  return `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`;
}
