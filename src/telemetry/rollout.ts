import { Gauge, type Registry } from 'prom-client';
import { createTally, type Tally } from './hot.ts';

/** What the rollout of enforcement is up to. */
export interface RolloutMetrics {
  readonly syncer: {
    /** By the level that they need. */
    readonly namespaces: Gauge<'level'>;
    readonly unlabeledManaged: Gauge;
    readonly errors: Tally<never>;
    readonly conflicts: Tally<never>;
  };
}

export function createRolloutMetrics(registers: readonly Registry[]): RolloutMetrics {
  return {
    syncer: {
      namespaces: new Gauge({
        name: 'psa_syncer_namespaces',
        help: 'Managed namespaces by the level that the SCCs of their service accounts need.',
        labelNames: ['level'],
        registers: [...registers],
      }),
      unlabeledManaged: new Gauge({
        name: 'psa_syncer_unlabeled_managed',
        help: 'Managed namespaces that have no enforce label from anybody.',
        registers: [...registers],
      }),
      errors: createTally({
        name: 'psa_syncer_sync_errors_total',
        help: 'Labels that could not be written, conflicts not counted.',
        labelNames: [],
        registers,
      }),
      conflicts: createTally({
        name: 'psa_syncer_conflicts_total',
        help: 'Labels that were written by somebody else at the same moment; they are looked at anew.',
        labelNames: [],
        registers,
      }),
    },
  };
}
