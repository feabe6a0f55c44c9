import { isEnforcementMode, type EnforcementMode } from '../../../kube/psa-enforcement-config.ts';
import type { EnforcementInput } from './types.ts';

/** What is asked for and what is decided, after one look at the evaluation. */
export interface EnforcementDecision {
  readonly spec: string;
  readonly status: EnforcementMode;
}

/**
 * Decides whether the cluster is to enforce. What somebody asked for is never overwritten, only the absence of a wish; what
 * cannot be understood changes nothing. Whether the feature is on plays no part here, so that it can be switched off and on
 * again without another evaluation.
 */
export function decideEnforcement(input: EnforcementInput): EnforcementDecision {
  const { phase, spec, status } = input;
  if (phase === 'Disabled') return { spec, status };
  if (phase === 'Evaluate') return { spec: hasViolations(input) ? proposeLegacy(input) : spec, status: '' };
  if (!isEnforcementMode(spec)) return { spec, status };
  if (spec !== '') return { spec, status: spec };
  if (status === 'Restricted') return { spec, status };
  return decideUnasked(input);
}

/** Nobody asked for anything: only what was evaluated decides, and without that nothing does. */
function decideUnasked(input: EnforcementInput): EnforcementDecision {
  const { spec, status, evaluation, acceptEvaluations = 'fresh' } = input;
  const isAnyAge = acceptEvaluations === 'any age';
  const isClean = evaluation === 'clean' || (isAnyAge && (evaluation === 'stale' || evaluation === 'violations'));
  if (isClean) return { spec, status: 'Restricted' };
  return evaluation === 'violations' ? { spec: proposeLegacy(input), status: 'Legacy' } : { spec, status };
}

function hasViolations({ evaluation }: EnforcementInput): boolean {
  return evaluation === 'violations';
}

/** An empty value that somebody else keeps empty stays. */
function proposeLegacy({ spec, specOwner }: EnforcementInput): string {
  return spec === '' && specOwner !== 'others' ? 'Legacy' : spec;
}
