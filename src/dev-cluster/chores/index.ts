/**
 * What controllers do in a real cluster and without which kubectl and the decisions stumble: what every cluster has, what
 * every namespace has, and cleaning up. It runs nothing: a Deployment makes no pods here.
 */
import type { Registry } from '../registry.ts';
import type { Storage } from '../storage.ts';
import type { Writer } from '../types.ts';
import { bootstrap } from './bootstrap.ts';
import type { Tools } from './chore.ts';
import { createDefinitionChore } from './definitions.ts';
import { createGarbageCollection } from './garbage-collection.ts';
import { createNamespaceContents } from './namespace-contents.ts';
import { createNamespaceDeletion } from './namespace-deletion.ts';
import { createRoleAggregation } from './role-aggregation.ts';
import { createWorker } from './worker.ts';

/** The parts of the development cluster that chores need. */
export interface ChoresCluster {
  readonly storage: Storage;
  readonly registry: Registry;
  readonly writer: Writer;
}

export interface ChoresOptions {
  /** In PEM; put into every namespace, where pods look for it. */
  readonly rootCertificate?: string;
  /** Told of each failure; what has failed is tried again. */
  readonly onError?: (error: unknown, chore: string, key: string) => void;
}

export interface Chores {
  /** Resolves once nothing waits to be done. */
  idle(): Promise<void>;
  stop(): void;
}

/** Fills a new cluster with what every cluster has, and looks after it from then on. */
export async function startChores(cluster: ChoresCluster, options: ChoresOptions = {}): Promise<Chores> {
  const tools: Tools = { reader: cluster.storage, registry: cluster.registry, writer: cluster.writer };
  const chores = [
    createNamespaceContents(tools, options.rootCertificate),
    createNamespaceDeletion(tools),
    createGarbageCollection(tools),
    createRoleAggregation(tools),
    createDefinitionChore(tools),
  ];
  const worker = createWorker(chores, options.onError ?? (() => undefined));
  const unsubscribe = cluster.storage.subscribe((change) => worker.notice(change));
  await bootstrap(tools);
  await worker.idle();
  return {
    idle: () => worker.idle(),
    stop() {
      unsubscribe();
      worker.stop();
    },
  };
}
