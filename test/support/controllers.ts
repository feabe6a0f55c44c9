/** What tests of controllers share: a cluster that serves SCCs and ranges, what is logged, and waiting without polling. */
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pino, type Logger } from 'pino';
import type { Store } from '../../src/cluster/store.ts';
import { until } from '../../src/cluster/until.ts';
import { createAll, readSeed } from '../../src/cli/serve/seed.ts';
import type { EmbeddedCluster } from '../../src/cluster/embedded/cluster.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';

const CRDS = join(import.meta.dirname, '../../webhook-config/crds');

/** Lets the cluster serve SCCs and ranges. */
export async function installCrds(cluster: EmbeddedCluster): Promise<void> {
  await createAll(cluster, await readSeed(CRDS));
}

export interface Recorder {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** What was logged, line by line. */
  readonly log: Record<string, unknown>[];
}

export function createRecorder(): Recorder {
  const log: Record<string, unknown>[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  return { logger: pino({ base: null, level: 'debug' }, sink), metrics: createMetrics({ version: '0.0.0' }), log };
}

/** Waits until the store holds what is looked for; rejects after a while. */
export async function eventually<T>(store: Store, look: () => T | undefined, timeoutMs = 10_000): Promise<T> {
  const found = await until(store, look, { timeoutMs });
  if (found === undefined) throw new Error(`not within ${timeoutMs} ms: ${look.toString()}`);
  return found;
}
