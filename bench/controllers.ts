/**
 * Measures how long each controller occupies the thread at a time, in a namespace in which a tenant has created as many
 * objects as possible. Can be run directly with `node bench/controllers.ts`.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { systemClock } from '../src/cluster/clock.ts';
import type { Cluster } from '../src/cluster/cluster.ts';
import type { WritableStore } from '../src/cluster/store.ts';
import { createObservable, type Settings } from '../src/config/settings.ts';
import type { ControllerDefinition } from '../src/controllers/controller.ts';
import { CONTROLLERS } from '../src/controllers/index.ts';
import { startController } from '../src/controllers/runtime.ts';
import type { Kind, Kinds } from '../src/kube/kinds.ts';
import { RESOURCES, typeMeta } from '../src/kube/resources.ts';
import { ApiError, notFound } from '../src/kube/status.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { sccAccess } from '../src/views/access.ts';
import { hashSpec } from '../src/views/exceptions.ts';
import { createController, createTestSettings } from '../test/support/controllers.ts';
import { createRecorder } from '../test/support/recorder.ts';
import { fill, NAMESPACE, objectsOf, SMALL } from './cluster.ts';
import { formatTable, type Row } from './row.ts';

/** Objects of each kind in the namespace. */
const COUNT = 25_000;
/** The largest number of nodes that Kubernetes supports. */
const NODES = 5000;
/** Exceptions that are approved. The others are proposals, which their authors can create without an approval. */
const APPROVED = 20;
/** Number of times that an object of each kind is created, updated and deleted. */
const CHANGES = 10;
/** Time that the controllers have to process the changes to a kind. */
const SETTLE_MS = 1500;

/** The kinds that tenants can create. */
const KINDS = [
  'ServiceAccount',
  'Role',
  'RoleBinding',
  'Pod',
  'Deployment',
  'PodSecurityException',
  'ClusterServiceVersion',
  'Node',
] as const satisfies readonly Kind[];
/** The namespace of the operators, which the auto-labeler labels. */
const OPERATORS = 'openshift-operators';

/** Returns the longest turn of the event loop for each named controller. Without names, measures all controllers. */
export async function benchControllers(names: readonly string[] = []): Promise<Row[]> {
  const rows: Row[] = [];
  for (const definition of CONTROLLERS) {
    if (names.length === 0 || names.includes(definition.name)) rows.push(...(await measureController(definition)));
  }
  return rows;
}

async function measureController(definition: ControllerDefinition): Promise<readonly Row[]> {
  const store = fillStore();
  const { longest, stop } = startSampler();
  const settings = createSettings();
  const controller = createController(definition, {
    settings,
    metrics: createMetrics({ version: '0.0.0' }),
  });
  const options = { ...createRecorder('fatal'), cluster: createCluster(store), clock: systemClock };
  const found: (readonly [cause: string, ms: number])[] = [];
  const settle = async (cause: string): Promise<void> => {
    const endMs = performance.now() + SETTLE_MS;
    while (performance.now() < endMs) await nextTurn();
    found.push([cause, longest()]);
  };
  globalThis.gc?.();
  await nextTurn();
  await nextTurn();
  longest();
  const running = startController(controller, { ...options, metrics: createMetrics({ version: '0.0.0' }) });
  await settle('start');
  for (const kind of KINDS) {
    for (let index = 0; index < CHANGES; index++) {
      for (const object of [createObject(kind, COUNT), createObject(kind, COUNT, 'changed'), undefined]) {
        if (object) store.put(kind, object);
        else {
          const { name = '', namespace } = createObject(kind, COUNT).metadata ?? {};
          store.remove(kind, name, namespace);
        }
        await nextTurn();
      }
    }
    await settle(kind);
  }
  await running.stop();
  stop();
  const [start, ...changes] = found;
  const worst = changes.reduce((most, next) => (next[1] > most[1] ? next : most));
  return [start ?? worst, worst].map(([cause, value]) => ({
    name: `${definition.name} (${cause})`,
    value,
    unit: 'ms',
    target: { atMost: 20 },
  }));
}

function createSettings() {
  const { value } = createTestSettings({ phase: 'Enforce' });
  const kubelet = { ...value.kubelet, isOn: true, minimumVersion: '1.34.0', taint: true };
  return createObservable<Settings>({ ...value, kubelet, exceptions: { ...value.exceptions, mode: 'approved' } });
}

/** Creates a cluster whose API server accepts all writes, and whose watches deliver none of them. */
function createCluster(store: WritableStore): Cluster {
  const accept = (_kind: Kind, object: unknown): Promise<never> => Promise.resolve(object as never);
  return {
    store,
    serves: () => true,
    get(kind, name, namespace) {
      const object = store.get(kind, name, namespace);
      return object ? Promise.resolve(object) : Promise.reject(new ApiError(notFound(RESOURCES[kind], name)));
    },
    create: accept,
    update: accept,
    patch: (kind, { name, namespace }) => accept(kind, store.get(kind, name, namespace)),
    apply: accept,
    applyStatus: accept,
    remove: () => Promise.resolve(),
    recordEvent: () => Promise.resolve(),
    reviewAccess: () => Promise.resolve({ allowed: true }),
  };
}

function fillStore(): WritableStore {
  const store = fill(objectsOf(SMALL));
  const namespace = store.get('Namespace', NAMESPACE);
  if (namespace) {
    const labels = { 'portcullis.dev/scc': 'enforce' };
    store.put('Namespace', { ...namespace, metadata: { ...namespace.metadata, labels, managedFields: [] } });
  }
  store.put('Namespace', { metadata: { name: OPERATORS, managedFields: [] } });
  const configuration = { metadata: { name: 'cluster' }, spec: {} };
  store.put('PortcullisConfiguration', configuration);
  sccAccess(store);
  for (const kind of KINDS) {
    for (let index = 0; index < (kind === 'Node' ? NODES : COUNT); index++) store.put(kind, createObject(kind, index));
    store.markSynced(kind);
  }
  return store;
}

const CONTAINER = { name: 'app', image: 'registry.example.com/app', ports: [{ containerPort: 8080 }] };
const GROUP = 'rbac.authorization.k8s.io';
const DAY_MS = 86_400_000;

/** Creates an object as a tenant would. Pods and templates violate levels, and each binding grants an SCC. */
function createObject<K extends (typeof KINDS)[number]>(kind: K, index: number, variant = ''): Kinds[K] {
  const name = `${kind.toLowerCase()}-${index}`;
  const namespace = kind === 'Node' ? undefined : kind === 'ClusterServiceVersion' ? OPERATORS : NAMESPACE;
  const metadata = { name, namespace, uid: `${name}-uid`, labels: { variant }, managedFields: [] };
  const spec = { serviceAccountName: `serviceaccount-${index}`, hostNetwork: true, containers: [CONTAINER] };
  const exception = {
    serviceAccountName: index < APPROVED ? 'serviceaccount-1' : `serviceaccount-${index}`,
    allow: [{ check: 'hostNamespaces', values: ['hostNetwork'] }],
    expiresAt: new Date(Date.now() + DAY_MS).toISOString(),
    reason: `because of ${variant}`,
  };
  const owner = {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    name: `deployment-${index}-6f9`,
    uid: 'u',
    controller: true,
  };
  const fields: Record<(typeof KINDS)[number], object> = {
    ServiceAccount: {},
    Role: {
      rules: [
        {
          apiGroups: ['security.openshift.io'],
          resources: ['securitycontextconstraints'],
          resourceNames: ['restricted-v2'],
          verbs: ['use'],
        },
      ],
    },
    RoleBinding: {
      roleRef: { apiGroup: GROUP, kind: 'Role', name: `role-${index}` },
      subjects: [
        { kind: 'ServiceAccount', name: `serviceaccount-${index}`, namespace: NAMESPACE },
        { apiGroup: GROUP, kind: 'Group', name: `system:serviceaccounts:${NAMESPACE}` },
      ],
    },
    Pod: {
      metadata: { ...metadata, ownerReferences: [owner], creationTimestamp: new Date().toISOString() },
      spec,
      status: { phase: 'Running' },
    },
    Deployment: { spec: { selector: {}, template: { metadata: { labels: { app: name, variant } }, spec } } },
    ClusterServiceVersion: { spec: {}, status: { phase: 'Succeeded' } },
    Node: { status: { nodeInfo: { kubeletVersion: 'v1.33.1', bootID: name }, conditions: [] } },
    PodSecurityException: {
      spec: exception,
      ...(index < APPROVED
        ? { status: { approval: { by: 'admin', at: new Date().toISOString(), specHash: hashSpec(exception) } } }
        : {}),
    },
  };
  return { ...typeMeta(kind), metadata, ...fields[kind] } as unknown as Kinds[K];
}

/** Measures the longest turn of the event loop in CPU time of the thread. */
function startSampler() {
  let longestMs = 0;
  let isStopped = false;
  let lastMs = threadMs();
  const sample = (): void => {
    const nowMs = threadMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
    if (!isStopped) setImmediate(sample);
  };
  sample();
  return {
    /** Returns the longest turn since the last call. */
    longest(): number {
      const ms = longestMs;
      longestMs = 0;
      return ms;
    },
    stop(): void {
      isStopped = true;
    },
  };
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

if (import.meta.main) process.stdout.write(`${formatTable(await benchControllers(process.argv.slice(2)))}\n`);
