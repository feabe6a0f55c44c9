/**
 * Observes a cluster during changes to enforcement, and checks that no write causes a running pod to be denied when it
 * is recreated.
 */
import { INSTALLATION, POD_SECURITY_CONFIG_MAP } from '../../src/api/names.ts';
import { systemClock } from '../../src/cluster/clock.ts';
import { connect } from '../../src/cluster/connection.ts';
import { createLiveCluster } from '../../src/cluster/live-cluster.ts';
import type { Change } from '../../src/cluster/store.ts';
import type { PodLike } from '../../src/kube/types.ts';
import { POD_SECURITY_LABELS } from '../../src/kube/well-known.ts';
import { evaluatePod, type Level } from '../../src/policy/pss/index.ts';
import { publishedDefault } from '../../src/views/rollout.ts';
import type { ControlPlane } from './control-plane/index.ts';

/** A running pod with the defaults of admission. */
export interface RunningPod {
  readonly namespace: string;
  readonly pod: PodLike;
}

/** Observations since the previous call of `evaluate`. */
export interface Observations {
  /** Denials of running pods, with the preceding write. */
  readonly refusals: readonly string[];
  /** The number of writes to namespaces, the published default and the Leases of replicas. */
  readonly writes: number;
  /** Changes to the published default and to labels, such as `default restricted` and `label plain restricted`. */
  readonly steps: readonly string[];
}

export interface SafetyWatch {
  /** Replaces the running pods. */
  expect(pods: readonly RunningPod[]): void;
  /** Evaluates the running pods after each write since the previous call. */
  evaluate(): Observations;
  stop(): Promise<void>;
}

/** Watches namespaces, the published default and replicas' Leases. */
export async function watchSafety(plane: ControlPlane): Promise<SafetyWatch> {
  const kubeconfig = await plane.kubeconfigFor('observer', ['system:masters']);
  const connection = await connect({
    kubeconfig,
    context: undefined,
    inCluster: false,
    env: {},
    userAgent: 'observer',
  });
  const { namespace } = INSTALLATION;
  const cluster = createLiveCluster({
    connection,
    clock: systemClock,
    random: Math.random,
    now: () => new Date(),
  });
  const changes: Change[] = [];
  const unsubscribe = cluster.store.subscribe((change) => void changes.push(change));
  await cluster.follow([
    'Namespace',
    { kind: 'Lease', namespace },
    { kind: 'ConfigMap', namespace, name: POD_SECURITY_CONFIG_MAP },
  ]);
  const replay = createReplay();
  let pods: readonly RunningPod[] = [];
  return {
    expect(running) {
      replay.run(changes.splice(0), pods);
      pods = running;
    },
    evaluate: () => replay.run(changes.splice(0), pods),
    async stop() {
      unsubscribe();
      await cluster.stop();
      connection.close();
    },
  };
}

/** Replays writes in the order of their resource versions, which all kinds share. */
function createReplay() {
  const labels = new Map<string, string | undefined>();
  const replicas = new Map<string, string>();
  let published = 'privileged';
  const take = ({ kind, type, object }: Change): string | undefined => {
    const { name = '', labels: own = {} } = object.metadata ?? {};
    if (kind === 'Lease') {
      if (type === 'remove') replicas.delete(name);
      else replicas.set(name, publishedDefault(object));
      return undefined;
    }
    if (kind === 'ConfigMap') {
      const before = published;
      published = type === 'remove' ? 'privileged' : publishedDefault(object);
      return published === before ? undefined : `default ${published}`;
    }
    const enforce = type === 'remove' ? undefined : own[POD_SECURITY_LABELS.enforce];
    const before = labels.get(name);
    labels.set(name, enforce);
    return enforce === before ? undefined : `label ${name} ${enforce ?? 'none'}`;
  };
  /** Returns the strictest level that any replica may enforce in a namespace. */
  const getLevel = (namespace: string): string =>
    labels.get(namespace) ?? ([published, ...replicas.values()].includes('restricted') ? 'restricted' : 'privileged');
  return {
    run(changes: readonly Change[], pods: readonly RunningPod[]): Observations {
      const refusals: string[] = [];
      const steps: string[] = [];
      for (const change of inOrder(changes)) {
        const step = take(change);
        if (step !== undefined) steps.push(step);
        const { kind, object } = change;
        for (const { namespace, pod } of pods) {
          const level = getLevel(namespace) as Level;
          const { violations } = evaluatePod(pod, { level, version: 'latest' });
          if (violations.length > 0) {
            refusals.push(`after ${kind} ${object.metadata?.name ?? ''} (${step ?? 'same'}): ${namespace} is ${level}`);
          }
        }
      }
      return { refusals, writes: changes.length, steps };
    },
  };
}

/** Sorts by resource version. A removal directly follows the preceding change. */
function inOrder(changes: readonly Change[]): readonly Change[] {
  let last = 0;
  const numbered = changes.map((change) => {
    const own = Number(change.object.metadata?.resourceVersion ?? 0);
    last = change.type === 'remove' ? Math.max(last, own) : own;
    return { change, last };
  });
  return numbered.toSorted((a, b) => a.last - b.last).map(({ change }) => change);
}
