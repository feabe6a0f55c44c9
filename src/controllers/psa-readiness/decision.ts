import type { RolloutView } from '../../cluster/rollout.ts';
import type { Store } from '../../cluster/store.ts';
import { withTimes, type Condition, type ConditionState } from '../../kube/condition.ts';
import { deepEqual } from '../../kube/equal.ts';
import type { PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { timestampOf } from '../../kube/timestamp.ts';
import {
  enforcementConditions,
  evaluationOf,
  planEnforcement,
  readEnforcement,
  type EnforcementInput,
  type EnforcementPlan,
} from '../../policy/rollout/enforcement.ts';
import {
  evaluationStatus,
  mergeReadinessConditions,
  readinessConditions,
  summaryOf,
  type EvaluationStatus,
} from '../../policy/rollout/readiness.ts';
import type { RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import type { CompletedSweep } from './sweep.ts';

/** What a decision hangs on. */
export interface DecisionInput {
  readonly object: PSAEnforcementConfig;
  readonly settings: RolloutSettings;
  readonly view: RolloutView;
  /** The newest one of this process. */
  readonly sweep: CompletedSweep | undefined;
  readonly store: Store;
  /** In milliseconds since 1970. */
  readonly nowMs: number;
  /** True if the API server has said that the field is somebody else's. */
  readonly isSpecRefused: boolean;
}

type Status = NonNullable<PSAEnforcementConfig['status']>;

/** What is asked for and decided from now on. */
export interface Decision {
  readonly spec: string;
  /** What the status is to be, but for the conditions of others and the generation. */
  readonly status: Status & { readonly conditions: readonly Condition[] };
  /** All namespaces that violate, however many the status holds. */
  readonly violating: readonly string[];
}

const OUR_CONDITIONS: ReadonlySet<string> = new Set([
  'Evaluated',
  'ViolationsDetected',
  'LegacyProposed',
  'SpecInvalid',
]);
const MERGED = 'EvaluationConditionsDetected';

/** Decides by what was evaluated last; what was decided is decided again until something else changes. */
export function decide(input: DecisionInput): Decision {
  const { object, settings, sweep, nowMs } = input;
  const evaluated = evaluatedBy(input);
  const { lastEvaluationTime = null, violatingNamespaces } = evaluated;
  const status: Status = { ...object.status, lastEvaluationTime, violatingNamespaces };
  const asked = readEnforcement(object);
  const given: EnforcementInput = {
    ...asked,
    ...(input.isSpecRefused ? { specOwner: 'others' as const } : {}),
    phase: settings.phase,
    gate: input.view.gate,
    evaluation: evaluationOf({
      status,
      newest: sweep && summaryOf(sweepOf(sweep, input.store), sweep.endMs),
      nowMs,
      maxAgeMs: settings.maxEvaluationAgeMs,
      inconclusivePolicy: settings.inconclusivePolicy,
    }),
    isSettled: false,
    currentEnforce: input.view.published,
    acceptEvaluations: settings.recheckBeforeEnforce ? 'fresh' : 'any age',
  };
  const plan = planEnforcement(given);
  const violating = sweep
    ? sweep.evaluations.filter(({ verdict }) => verdict === 'violating').map(({ name }) => name)
    : violatingNamespaces.filter(({ state }) => state !== 'Previous').map(({ name }) => name);
  return {
    spec: plan.spec,
    violating,
    status: {
      enforcementMode: plan.status,
      violatingNamespaces,
      ...(lastEvaluationTime === null ? {} : { lastEvaluationTime }),
      conditions: conditionsOf(input, { given, plan, violating, lastEvaluationTime: lastEvaluationTime ?? undefined }),
    },
  };
}

/** True if the object says all that already, and for its present generation. */
export function isSaid({ metadata, status: before }: PSAEnforcementConfig, { status }: Decision): boolean {
  const types = new Set(status.conditions.map(({ type }) => type));
  const said = before?.conditions?.filter(({ type }) => types.has(type) || OUR_CONDITIONS.has(type)) ?? [];
  return (
    (before?.enforcementMode ?? '') === status.enforcementMode &&
    before?.observedGeneration === metadata?.generation &&
    (before?.lastEvaluationTime ?? undefined) === status.lastEvaluationTime &&
    deepEqual(before?.violatingNamespaces ?? [], status.violatingNamespaces) &&
    deepEqual(byType(said), byType(status.conditions))
  );
}

function byType(conditions: readonly Condition[]): Readonly<Record<string, Condition>> {
  return Object.fromEntries(conditions.map((condition) => [condition.type, condition]));
}

/** Where this process has evaluated nothing yet, what an earlier one found stands. */
function evaluatedBy({ object: { status }, settings, sweep, store }: DecisionInput): EvaluationStatus {
  if (!sweep) {
    const { violatingNamespaces, lastEvaluationTime } = status ?? {};
    return { violatingNamespaces: violatingNamespaces ?? [], lastEvaluationTime: lastEvaluationTime ?? undefined };
  }
  const { inconclusivePolicy } = settings;
  return evaluationStatus({
    before: status,
    sweep: sweepOf(sweep, store),
    endMs: sweep.endMs,
    inconclusivePolicy,
  });
}

function sweepOf({ evaluations }: CompletedSweep, store: Store): Parameters<typeof summaryOf>[0] {
  return { evaluations, findNamespace: (name) => store.get('Namespace', name) };
}

interface Outcome {
  readonly given: EnforcementInput;
  readonly plan: EnforcementPlan;
  readonly violating: readonly string[];
  readonly lastEvaluationTime: string | undefined;
}

function conditionsOf({ object, sweep, nowMs }: DecisionInput, outcome: Outcome): readonly Condition[] {
  const { given: input, plan, violating, lastEvaluationTime } = outcome;
  const now = timestampOf(nowMs);
  const before = object.status?.conditions;
  const ours: readonly ConditionState[] = enforcementConditions({ input, plan, violating, lastEvaluationTime }).filter(
    ({ type }) => OUR_CONDITIONS.has(type),
  );
  const operator = sweep
    ? withTimes(readinessConditions(sweep.evaluations), before, now)
    : (before?.filter(({ type }) => type.endsWith(MERGED) && type !== MERGED) ?? []);
  const merged = mergeReadinessConditions(operator, {
    isManaged: true,
    before: before?.find(({ type }) => type === MERGED),
    now,
  });
  return [...withTimes(ours, before, now), ...operator, merged];
}
