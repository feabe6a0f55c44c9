/** Who watches a cluster while enforcement goes up and down: after no write may a pod that runs be refused if it was created again. */
import { systemClock } from '../../src/cluster/clock.ts';
import { createLiveCluster } from '../../src/cluster/live-cluster.ts';
import { connect } from '../../src/cluster/connection.ts';
import { publishedDefault } from '../../src/cluster/rollout.ts';
import type { Change } from '../../src/cluster/store.ts';
import { INSTALLATION, POD_SECURITY_CONFIG_MAP, POD_SECURITY_LABELS } from '../../src/kube/well-known.ts';
import type { PodLike } from '../../src/kube/types.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import type { Level } from '../../src/policy/pss/policy.ts';
import type { ControlPlane } from './control-plane/index.ts';

/** A pod that runs, as admission has made it. */
export interface RunningPod {
  readonly namespace: string;
  readonly pod: PodLike;
}

/** What was seen since the last look. */
export interface Seen {
  /** After which write which pod would have been refused. */
  readonly refusals: readonly string[];
  /** Writes of namespaces, of what is published, and of what replicas say that they run. */
  readonly writes: number;
  /** What was published and labelled, each time that changed: `default restricted`, `label plain restricted`. */
  readonly steps: readonly string[];
}

export interface SafetyWatch {
  /** From now on these pods run. */
  expect(pods: readonly RunningPod[]): void;
  /** All that has been written since the last look, one write after the other. */
  look(): Seen;
  stop(): Promise<void>;
}

/** Follows the namespaces, what is published, and what each replica says that it runs. */
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
    kinds: ['Namespace', { kind: 'Lease', namespace }, { kind: 'ConfigMap', namespace, name: POD_SECURITY_CONFIG_MAP }],
    clock: systemClock,
    random: Math.random,
    now: () => new Date(),
  });
  const changes: Change[] = [];
  const unsubscribe = cluster.store.subscribe((change) => void changes.push(change));
  await cluster.start();
  const replay = createReplay();
  let pods: readonly RunningPod[] = [];
  return {
    expect(running) {
      replay.run(changes.splice(0), pods);
      pods = running;
    },
    look: () => replay.run(changes.splice(0), pods),
    async stop() {
      unsubscribe();
      await cluster.stop();
      connection.close();
    },
  };
}

/** Plays writes again in their order, which the API server numbers over all kinds. */
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
  /** The strictest that any replica may hold a namespace to: where one is raised, requests may reach that one. */
  const levelOf = (namespace: string): string =>
    labels.get(namespace) ?? ([published, ...replicas.values()].includes('restricted') ? 'restricted' : 'privileged');
  return {
    run(changes: readonly Change[], pods: readonly RunningPod[]): Seen {
      const refusals: string[] = [];
      const steps: string[] = [];
      for (const change of inOrder(changes)) {
        const step = take(change);
        if (step !== undefined) steps.push(step);
        const { kind, object } = change;
        for (const { namespace, pod } of pods) {
          const level = levelOf(namespace) as Level;
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

/** What is removed comes after what came before it. */
function inOrder(changes: readonly Change[]): readonly Change[] {
  let last = 0;
  const numbered = changes.map((change) => {
    const own = Number(change.object.metadata?.resourceVersion ?? 0);
    last = change.type === 'remove' ? Math.max(last, own) : own;
    return { change, last };
  });
  return numbered.toSorted((a, b) => a.last - b.last).map(({ change }) => change);
}
