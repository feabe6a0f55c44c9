/**
 * Runs controllers: sources → queue → reconcile → retry. Controllers write to the cluster and never answer a request;
 * none calls another.
 */
import type { Cluster } from '../cluster/port.ts';
import type { Kind, Kinds } from '../kube/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Clock } from '../cluster/clock.ts';
import type { Controller, Happened, Source } from './controller.ts';
import { createWorkers, type Workers } from './workers.ts';

export interface RuntimeOptions {
  /** Its store has been read completely. */
  readonly cluster: Cluster;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'workQueue' | 'reconcileErrors'>;
  readonly clock: Clock;
}

export type RunningController = Pick<Workers, 'idle' | 'stop'>;

/** Starts controllers; they end together. */
export function startControllers(controllers: readonly Controller[], options: RuntimeOptions): RunningController {
  const running = controllers.map((controller) => startController(controller, options));
  return {
    async idle() {
      await Promise.all(running.map((one) => one.idle()));
    },
    async stop() {
      await Promise.all(running.map((one) => one.stop()));
    },
  };
}

const AGAIN: Happened<Kind> = { type: 'again' };

/** Starts a controller, which may be started again after it was stopped. */
export function startController(controller: Controller, options: RuntimeOptions): RunningController {
  const { clock } = options;
  const { store } = options.cluster;
  const { name, sources, resyncMs } = controller;
  const logger = options.logger.child({ logger: 'controller', controller: name });
  const workers = createWorkers(controller, { ...options, logger });

  const addKeysOf = (source: Source, object: Kinds[Kind], happened: Happened<Kind>): void => {
    try {
      for (const key of source.keysOf(object, store, happened)) workers.add(key);
    } catch (err) {
      // Whoever has changed the store is not to blame.
      logger.error({ err, kind: source.kind, name: object.metadata?.name }, 'object not looked at');
    }
  };
  const unsubscribe = store.subscribe((change) => {
    const { kind, object } = change;
    for (const source of sources) if (source.kind === kind) addKeysOf(source, object, change);
  });
  const addAll = (): void => {
    for (const source of sources) {
      if (source.isNewsOnly === true) continue;
      for (const object of store.list(source.kind)) addKeysOf(source, object, AGAIN);
    }
  };
  let cancelResync: (() => void) | undefined;
  const resync = (everyMs: number): void => {
    cancelResync = clock.after(everyMs, () => {
      addAll();
      resync(everyMs);
    });
  };

  for (const key of controller.keys ?? []) workers.add(key);
  addAll();
  if (resyncMs !== undefined) resync(resyncMs);
  logger.info('controller started');
  return {
    idle: () => workers.idle(),
    async stop() {
      unsubscribe();
      cancelResync?.();
      await workers.stop();
      logger.info('controller stopped');
    },
  };
}
