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
  readonly readiness: ReadinessMetrics;
}

/** What enforcement would break, and whether it is in force. */
export interface ReadinessMetrics {
  readonly lastEvaluation: Gauge;
  readonly evaluationDuration: Gauge;
  readonly evaluationErrors: Tally<never>;
  readonly namespaces: Gauge<'category'>;
  /** Of a bounded number of namespaces. */
  readonly violatingWorkloads: Gauge<'namespace'>;
  readonly enforcementMode: Gauge<'mode'>;
  readonly enforcing: Gauge;
  /** By the reason of the condition Progressing. */
  readonly progressing: Gauge<'reason'>;
  /** @see https://github.com/openshift/cluster-version-operator/blob/main/pkg/cvo/metrics.go */
  readonly operatorConditions: Gauge<'name' | 'condition' | 'reason'>;
}

export function createRolloutMetrics(registers: readonly Registry[]): RolloutMetrics {
  return {
    readiness: createReadinessMetrics(registers),
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

function createReadinessMetrics(registers: readonly Registry[]): ReadinessMetrics {
  const gauge = <L extends string>(name: string, help: string, ...labelNames: L[]): Gauge<L> =>
    new Gauge({ name, help, labelNames, registers: [...registers] });
  return {
    lastEvaluation: gauge(
      'psa_rollout_last_evaluation_timestamp_seconds',
      'When the last evaluation ended that judged all namespaces, in Unix seconds; 0: there was none.',
    ),
    evaluationDuration: gauge(
      'psa_rollout_evaluation_duration_seconds',
      'How long the last evaluation of all namespaces took, breaks included.',
    ),
    evaluationErrors: createTally({
      name: 'psa_rollout_evaluation_errors_total',
      help: 'Evaluations of all namespaces that could not judge some of them.',
      labelNames: [],
      registers,
    }),
    namespaces: gauge(
      'psa_rollout_namespaces',
      'Namespaces with workloads that enforcement would refuse, by category; one may be in userSCC and unknown.',
      'category',
    ),
    violatingWorkloads: gauge(
      'psa_rollout_violating_workloads',
      'Workloads that enforcement would refuse; of the namespaces with the most of them, one hundred at most.',
      'namespace',
    ),
    enforcementMode: gauge(
      'psa_rollout_enforcement_mode',
      '1 for the mode that was decided, 0 for the others.',
      'mode',
    ),
    enforcing: gauge('psa_rollout_enforcing', '1 while namespaces without a label are held to restricted.'),
    progressing: gauge(
      'psa_rollout_progressing',
      '1 for what is under way, by the reason of the condition Progressing; absent: nothing.',
      'reason',
    ),
    operatorConditions: gauge(
      'cluster_operator_conditions',
      'Conditions that tell what enforcement would break; 1 is true, 0 is not.',
      'name',
      'condition',
      'reason',
    ),
  };
}
