import { Writable } from 'node:stream';
import { type LevelWithSilent, type Logger, pino } from 'pino';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';

export interface Recorder {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The parsed log lines. */
  readonly log: Record<string, unknown>[];
}

/** Creates metrics, and a logger that collects its lines. */
export function createRecorder(level: LevelWithSilent = 'debug'): Recorder {
  const log: Record<string, unknown>[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  return { logger: pino({ base: null, level }, sink), metrics: createMetrics({ version: '0.0.0' }), log };
}
