import type { ConditionState } from '../../../kube/condition.ts';
import { ENFORCEMENT_MODES, isEnforcementMode } from '../../../kube/psa-enforcement-config.ts';
import { quote } from '../../../kube/quote.ts';
import { printSome } from '../../psa/some.ts';
import type { EnforcementInput, EnforcementPlan, EvaluationResult } from './types.ts';

/** What conditions tell beside the plan. */
export interface EnforcementFacts {
  readonly input: EnforcementInput;
  readonly plan: EnforcementPlan;
  /** RFC 3339. */
  readonly lastEvaluationTime?: string | undefined;
  /** Why the newest evaluation came to nothing. */
  readonly failure?: string | undefined;
  /** All namespaces with violations. */
  readonly violating?: readonly string[];
  /** Managed namespaces that have no label yet. */
  readonly unlabelled?: readonly string[];
  /** Namespaces whose labels are still to be given up. */
  readonly unreleased?: readonly string[];
}

type State = Omit<ConditionState, 'type'>;

/** The conditions of the enforcement configuration; those that do not apply are left out. */
export function enforcementConditions(facts: EnforcementFacts): readonly ConditionState[] {
  const states: Readonly<Record<string, State | undefined>> = {
    Evaluated: evaluated(facts),
    ViolationsDetected: violationsDetected(facts),
    Enforcing: enforcing(facts),
    Progressing: progressing(facts),
    LegacyProposed: legacyProposed(facts),
    SpecInvalid: specInvalid(facts),
  };
  return Object.entries(states).flatMap(([type, state]) => (state ? [{ type, ...state }] : []));
}

const INCOMPLETE: Readonly<
  Record<EvaluationResult, { readonly reason: string; readonly message: string } | undefined>
> = {
  never: { reason: 'NeverRan', message: 'no evaluation has been completed yet' },
  stale: { reason: 'Stale', message: 'the last evaluation is too old to act on' },
  inconclusive: { reason: 'Inconclusive', message: 'some namespaces could not be judged' },
  clean: undefined,
  violations: undefined,
};

function evaluated({ input, failure, lastEvaluationTime }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (!incomplete) return yes('Completed', lastEvaluationTime && `all namespaces were judged by ${lastEvaluationTime}`);
  return failure === undefined ? no(incomplete.reason, incomplete.message) : no('Failed', failure);
}

function violationsDetected({ input, violating = [] }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  const incomplete = INCOMPLETE[input.evaluation];
  if (incomplete) return { status: 'Unknown', ...incomplete };
  if (input.evaluation === 'clean') return no('NoViolations', 'no workload would be refused');
  const count = `${violating.length} ${violating.length === 1 ? 'namespace' : 'namespaces'}`;
  return yes('ViolatingNamespaces', `workloads in ${count} would be refused: ${printSome(violating)}`);
}

function enforcing({ input, plan, unlabelled }: EnforcementFacts): State {
  const { phase, gate } = input;
  const { spec, status, enforce } = plan;
  if (phase === 'Evaluate') return no('PhaseNotEnforcing', 'phase Evaluate enforces nothing');
  if (phase === 'Enforce' && status !== 'Restricted') {
    return spec === 'Legacy' || (status === 'Legacy' && !isWaiting(input, plan))
      ? no('LegacyMode', 'mode Legacy enforces nothing')
      : no('AwaitingEvaluation', 'nothing is enforced before all namespaces have been judged');
  }
  if (gate === false) return no('FeatureGateDisabled', 'the feature gate is off');
  if (enforce === 'restricted') return yes('Restricted', 'namespaces without a label are held to restricted');
  if (gate === undefined) {
    return { status: 'Unknown', reason: 'FeatureGateNotObserved', message: 'the feature gate is not known yet' };
  }
  return no('LabelingNamespaces', `labels come first${missing(unlabelled)}`);
}

function progressing(facts: EnforcementFacts): State {
  const { input, plan, unlabelled, unreleased = [] } = facts;
  const { want, enforce } = plan;
  if (enforce === 'privileged' && input.currentEnforce === 'restricted') {
    return yes('RevertingConfiguration', 'replicas go back to the default privileged');
  }
  if (enforce === 'restricted' && input.currentEnforce === 'privileged') {
    return yes('RollingOutConfiguration', 'replicas go over to the default restricted');
  }
  if (want === true && enforce === 'privileged') {
    return yes('LabelingNamespaces', `namespaces get their labels${missing(unlabelled)}`);
  }
  if (want === false && unreleased.length > 0) {
    return yes('ReleasingLabels', `labels are given up in ${printSome(unreleased)}`);
  }
  if (isWaiting(input, plan)) return yes('EvaluationPending', 'an evaluation of all namespaces is to decide');
  return no('AsExpected');
}

/** Nobody asked for anything, and what is known decides nothing. */
function isWaiting({ phase, evaluation }: EnforcementInput, { spec, status }: EnforcementPlan): boolean {
  return phase === 'Enforce' && spec === '' && status !== 'Restricted' && evaluation !== 'violations';
}

function legacyProposed({ input, plan }: EnforcementFacts): State | undefined {
  if (input.phase === 'Disabled') return undefined;
  if (plan.spec === 'Legacy' && (input.spec === '' || input.specOwner === 'rollout')) {
    return yes('WrittenByController', 'workloads would be refused: clear spec.enforcementMode once they are in order');
  }
  if (plan.spec !== '' || input.specOwner !== 'others' || input.evaluation !== 'violations') return undefined;
  return yes(
    'SpecConflict',
    'workloads would be refused, and spec.enforcementMode "" belongs to another field manager',
  );
}

function specInvalid({ input: { phase, spec } }: EnforcementFacts): State | undefined {
  if (phase === 'Disabled' || isEnforcementMode(spec)) return undefined;
  const valid = ENFORCEMENT_MODES.map(quote).join(', ');
  return yes('UnknownEnforcementMode', `spec.enforcementMode: ${quote(spec)} is none of ${valid}; nothing changes`);
}

function missing(unlabelled: readonly string[] = []): string {
  return unlabelled.length === 0 ? '' : `; still without: ${printSome(unlabelled)}`;
}

function yes(reason: string, message = ''): State {
  return { status: 'True', reason, message };
}

function no(reason: string, message = ''): State {
  return { status: 'False', reason, message };
}
