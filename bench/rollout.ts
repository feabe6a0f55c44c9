/**
 * Measures the CPU time of the readiness evaluation in a large cluster. Can be run directly with `node
 * bench/rollout.ts`.
 */
import type { Cluster } from '../src/cluster/cluster.ts';
import type { WritableStore } from '../src/cluster/store.ts';
import type { ReconcileContext } from '../src/controllers/controller.ts';
import { evaluateNamespaces, namespaceNames } from '../src/controllers/namespace-evaluator.ts';
import type { Kinds } from '../src/kube/kinds.ts';
import { finishSteps } from '../src/kube/steps.ts';
import type { Namespace, PodSpec } from '../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../src/policy/psa/index.ts';
import { createSccLevels, planLabels } from '../src/policy/rollout/index.ts';
import { sccAccess } from '../src/views/access.ts';
import type { EvaluationSettings } from '../src/views/evaluation.ts';
import { namespacePolicies } from '../src/views/rollout.ts';
import { fill, objectsOf, type Size } from './cluster.ts';
import { formatTable, type Row } from './row.ts';

const WARM_UP: Size = { namespaces: 100, sccs: 13, bindings: 100 };
const SIZE: Size = { namespaces: 10_000, sccs: 13, bindings: 5_000 };
const DEPLOYMENTS = 3;
const PODS = 10;
/** One out of this many templates violates the level of its namespace. */
const VIOLATING = 50;

const ACCOUNTS = ['default', 'builder', 'deployer', 'app'];
const MANAGEMENT = {
  exemptNamespaces: new Set<string>(),
  scc: { mode: 'enforce', exemptNamespaces: [], compatibility: 'portcullis', preferUserNamespaces: false },
} as const;

/** Evaluates all namespaces twice, then plans their labels. */
export async function benchRollout(): Promise<Row[]> {
  const store = filled(SIZE);
  sccAccess(store);
  // Warms up the code, because admission also uses it before the first evaluation.
  await evaluate(filled(WARM_UP));
  const first = await measured(() => evaluate(store));
  const again = await measured(() => evaluate(store));
  const planned = await measured(() => {
    planAll(store);
    return Promise.resolve();
  });
  return [
    { name: 'all namespaces, first evaluation: CPU', value: first.cpuMs, unit: 'ms', target: { atMost: 2000 } },
    { name: 'longest turn of the event loop', value: first.longestMs, unit: 'ms', target: { atMost: 10 } },
    { name: 'all namespaces, second evaluation: CPU', value: again.cpuMs, unit: 'ms', target: { atMost: 2000 } },
    { name: 'longest turn of the event loop', value: again.longestMs, unit: 'ms', target: { atMost: 10 } },
    { name: 'labels of all namespaces planned: CPU', value: planned.cpuMs, unit: 'ms', target: { atMost: 1000 } },
  ];
}

const POD_SECURITY = createPodSecurity(DEFAULT_CONFIGURATION);
const OPTIONS: EvaluationSettings = {
  podSecurity: () => POD_SECURITY,
  management: MANAGEMENT,
  policies: (namespace, store) =>
    namespacePolicies(namespace, store, { podSecurity: POD_SECURITY, management: MANAGEMENT }),
};

function filled(size: Size): WritableStore {
  const store = fill(objectsOf(size));
  store.list('Namespace').forEach((namespace, index) => fillNamespace(store, namespace, index));
  return store;
}

const SECURE = {
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
};

/**
 * Adds the objects of a namespace. All templates differ, but the pods of a Deployment share one spec, as in the store
 * of a live cluster.
 */
function fillNamespace(store: WritableStore, { metadata }: Namespace, index: number): void {
  const namespace = metadata?.name ?? '';
  for (const name of ACCOUNTS) store.put('ServiceAccount', { metadata: { name, namespace } });
  for (let deployment = 0; deployment < DEPLOYMENTS; deployment++) {
    const count = index * DEPLOYMENTS + deployment;
    const name = `web-${deployment}`;
    const container = { name: 'app', image: `registry.example.com/app:${count}`, ports: [{ containerPort: 8080 }] };
    const sidecar = { name: 'sidecar', image: 'registry.example.com/sidecar' };
    const violation = count % VIOLATING === 0 ? { hostNetwork: true } : {};
    const template = {
      metadata: { labels: { app: name } },
      spec: { containers: [container, sidecar], volumes: [{ name: 'tmp', emptyDir: {} }], ...violation },
    };
    const object = { metadata: { name, namespace }, spec: { selector: {}, template } } as Kinds['Deployment'];
    store.put('Deployment', object);
    const containers = [container, sidecar].map((fields) => ({ ...fields, securityContext: SECURE }));
    const spec = { ...template.spec, serviceAccountName: 'default', containers } as PodSpec;
    for (let pod = deployment; pod < PODS; pod += DEPLOYMENTS) {
      const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: `${name}-6f9`, uid: name, controller: true };
      const annotations = { 'openshift.io/scc': 'restricted-v2' };
      store.put('Pod', {
        metadata: { name: `${name}-6f9-${pod}`, namespace, annotations, ownerReferences: [owner] },
        spec,
        status: { phase: 'Running' },
      });
    }
  }
}

async function evaluate(store: WritableStore): Promise<void> {
  const context = {
    cluster: { store } as Pick<Cluster, 'store'>,
    now: () => performance.now(),
    signal: new AbortController().signal,
  } as ReconcileContext;
  const verdicts = { clean: 0, restart: 0, deniedNow: 0, violating: 0, inconclusive: 0 };
  await evaluateNamespaces(OPTIONS, namespaceNames(store), context, (_name, evaluation) => {
    if (evaluation) verdicts[evaluation.verdict]++;
  });
  const expected = (store.list('Namespace').length * DEPLOYMENTS) / VIOLATING;
  if (verdicts.violating !== expected) throw new Error(`found ${JSON.stringify(verdicts)}, expected ${expected}`);
}

function planAll(store: WritableStore): void {
  const sccLevels = createSccLevels(store.list('SecurityContextConstraints'), { profile: 'accurate' });
  for (const namespace of store.list('Namespace')) {
    const accounts = store.list('ServiceAccount', namespace.metadata?.name ?? '');
    const serviceAccounts = accounts.flatMap(({ metadata }) => metadata?.name ?? []);
    finishSteps(
      planLabels({
        namespace,
        serviceAccounts,
        sccLevels,
        access: sccAccess(store),
        mode: 'Enforce',
        settings: MANAGEMENT,
      }),
    );
  }
}

interface Measured {
  readonly cpuMs: number;
  /** Measures the longest turn of the event loop in CPU time of the thread. */
  readonly longestMs: number;
}

async function measured(run: () => Promise<void>): Promise<Measured> {
  globalThis.gc?.();
  let longestMs = 0;
  let isOver = false;
  let lastMs = threadMs();
  const sample = (): void => {
    const nowMs = threadMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
    if (!isOver) setImmediate(sample);
  };
  setImmediate(sample);
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  isOver = true;
  return { cpuMs: (user + system) / 1000, longestMs };
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

if (import.meta.main) process.stdout.write(`${formatTable(await benchRollout())}\n`);
