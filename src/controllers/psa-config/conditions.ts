import type { RolloutView } from '../../cluster/rollout.ts';
import { withTimes, type ConditionState } from '../../kube/condition.ts';
import { deepEqual } from '../../kube/equal.ts';
import { PSA_ENFORCEMENT_CONFIG } from '../../kube/psa-enforcement-config.ts';
import { timestampOf } from '../../kube/timestamp.ts';
import type { Lease } from '../../kube/types.ts';
import {
  enforcementConditions,
  evaluationOf,
  readEnforcement,
  type DefaultLevel,
  type EnforcementInput,
  type EnforcementPlan,
} from '../../policy/rollout/enforcement.ts';
import type { RolloutSettings } from '../../policy/rollout/rollout-settings.ts';
import type { ReconcileContext } from '../controller.ts';
import type { NamespaceLabels } from './namespace-labels.ts';
import { areAllRaised } from './replicas.ts';

/** What the conditions tell. */
export interface ConditionFacts {
  readonly fieldManager: string;
  readonly settings: RolloutSettings;
  readonly view: RolloutView;
  readonly effect: Pick<EnforcementPlan, 'enforce' | 'syncer'>;
  readonly labels: NamespaceLabels;
  readonly leases: readonly Lease[];
  readonly currentEnforce: DefaultLevel;
  readonly date: Date;
}

const OUR_CONDITIONS: ReadonlySet<string> = new Set(['Enforcing', 'Progressing']);

/** Says in the object what is in force and what is under way. */
export async function tellConditions(facts: ConditionFacts, { cluster }: ReconcileContext): Promise<void> {
  const object = cluster.store.get('PSAEnforcementConfig', PSA_ENFORCEMENT_CONFIG);
  if (!object) return;
  const states = conditionsOf(facts, readEnforcement(object), object.status).filter(({ type }) =>
    OUR_CONDITIONS.has(type),
  );
  const before = object.status?.conditions?.filter(({ type }) => OUR_CONDITIONS.has(type));
  const conditions = withTimes(states, before, timestampOf(facts.date.getTime()));
  if (deepEqual(conditions, before)) return;
  const metadata = { name: PSA_ENFORCEMENT_CONFIG };
  await cluster.applyStatus(
    'PSAEnforcementConfig',
    { metadata, status: { conditions } },
    { fieldManager: facts.fieldManager, force: true },
  );
}

function conditionsOf(
  { settings, view, effect, labels, leases, currentEnforce, date }: ConditionFacts,
  asked: ReturnType<typeof readEnforcement>,
  status: Parameters<typeof evaluationOf>[0]['status'],
): readonly ConditionState[] {
  const evaluation = evaluationOf({
    status,
    nowMs: date.getTime(),
    maxAgeMs: settings.maxEvaluationAgeMs,
    inconclusivePolicy: settings.inconclusivePolicy,
  });
  const isRollingOut = effect.enforce === 'restricted' && !areAllRaised({ ...view, published: effect.enforce }, leases);
  const input: EnforcementInput = {
    ...asked,
    phase: settings.phase,
    gate: view.gate,
    evaluation,
    isSettled: labels.unlabelled.length === 0,
    currentEnforce: isRollingOut ? 'privileged' : currentEnforce,
  };
  const plan: EnforcementPlan = { spec: asked.spec, status: asked.status, want: view.want, ...effect };
  const unreleased = view.want ? [] : labels.unreleased;
  const states = enforcementConditions({ input, plan, unlabelled: labels.unlabelled, unreleased });
  return states.map((state) => (isRollingOut && state.type === 'Enforcing' ? { ...state, ...ROLLING_OUT } : state));
}

/** It is in force when every replica says so. */
const ROLLING_OUT = {
  status: 'False',
  reason: 'RollingOutConfiguration',
  message: 'replicas go over to the default restricted',
} as const;
