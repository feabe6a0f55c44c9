import { Gauge, type Registry } from 'prom-client';
import { createTally, type Tally } from './hot.ts';

/** What is known of the way to the API server. */
export interface ClusterMetrics {
  /** @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-base/metrics/prometheus/restclient/metrics.go */
  readonly requests: Tally<'code' | 'method' | 'host'>;
  /** Reads how old each kind is, in milliseconds, whenever metrics are scraped, until the returned function is called. */
  follow(agesMs: () => ReadonlyMap<string, number>): () => void;
}

export function createClusterMetrics(registers: readonly Registry[]): ClusterMetrics {
  const followed = new Set<() => ReadonlyMap<string, number>>();
  new Gauge({
    name: 'portcullis_cluster_last_event_age_seconds',
    help: 'Time since the API server was last heard of each kind that is watched; it speaks at least once a minute.',
    labelNames: ['kind'],
    registers: [...registers],
    collect() {
      this.reset();
      for (const agesMs of followed) for (const [kind, ageMs] of agesMs()) this.set({ kind }, ageMs / 1000);
    },
  });
  return {
    requests: createTally({
      name: 'rest_client_requests_total',
      help: 'Requests to the API server, by HTTP status code, method and host.',
      labelNames: ['code', 'method', 'host'],
      registers,
    }),
    follow(agesMs) {
      followed.add(agesMs);
      return () => void followed.delete(agesMs);
    },
  };
}
