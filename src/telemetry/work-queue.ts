import { Gauge, type Registry } from 'prom-client';
import { createTally, createTimings, type Tally, type Timing } from './hot.ts';

/** A work queue at the moment. */
export interface WorkQueueState {
  /** Keys that wait to be taken. */
  readonly depth: number;
  /** For each key that is being worked on: for how long, in seconds. */
  readonly runningSeconds: readonly number[];
}

/**
 * Metrics of work queues, as every Kubernetes controller has them.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go
 */
export interface WorkQueueMetrics {
  readonly adds: Tally<'name'>;
  readonly retries: Tally<'name'>;
  readonly queueDuration: (name: string) => Timing;
  readonly workDuration: (name: string) => Timing;
  /** Reads the state of a queue whenever metrics are scraped, until the returned function is called. */
  follow(name: string, state: () => WorkQueueState): () => void;
}

/** Seconds: from 10 nanoseconds on, each ten times the one before. */
const BUCKETS = Array.from({ length: 12 }, (_, index) => Number(`1e${index - 8}`));

export function createWorkQueueMetrics(registers: readonly Registry[]): WorkQueueMetrics {
  const labelNames = ['name'] as const;
  const followed = new Map<string, () => WorkQueueState>();
  const gauge = (name: string, help: string, valueOf: (state: WorkQueueState) => number): void => {
    new Gauge({
      name: `workqueue_${name}`,
      help,
      labelNames: [...labelNames],
      registers: [...registers],
      collect() {
        this.reset();
        for (const [queue, state] of followed) this.set({ name: queue }, valueOf(state()));
      },
    });
  };
  gauge('depth', '[ALPHA] Current depth of workqueue', ({ depth }) => depth);
  gauge(
    'unfinished_work_seconds',
    "[ALPHA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
    ({ runningSeconds }) => runningSeconds.reduce((sum, seconds) => sum + seconds, 0),
  );
  gauge(
    'longest_running_processor_seconds',
    '[ALPHA] How many seconds has the longest running processor for workqueue been running.',
    ({ runningSeconds }) => runningSeconds.reduce((longest, seconds) => Math.max(longest, seconds), 0),
  );
  return {
    adds: createTally({
      name: 'workqueue_adds_total',
      help: '[ALPHA] Total number of adds handled by workqueue',
      labelNames,
      registers,
    }),
    retries: createTally({
      name: 'workqueue_retries_total',
      help: '[ALPHA] Total number of retries handled by workqueue',
      labelNames,
      registers,
    }),
    queueDuration: createTimings(
      {
        name: 'workqueue_queue_duration_seconds',
        help: '[ALPHA] How long in seconds an item stays in workqueue before being requested.',
        labelNames,
        registers,
      },
      BUCKETS,
    ),
    workDuration: createTimings(
      {
        name: 'workqueue_work_duration_seconds',
        help: '[ALPHA] How long in seconds processing an item from workqueue takes.',
        labelNames,
        registers,
      },
      BUCKETS,
    ),
    follow(name, state) {
      followed.set(name, state);
      return () => {
        if (followed.get(name) === state) followed.delete(name);
      };
    },
  };
}
