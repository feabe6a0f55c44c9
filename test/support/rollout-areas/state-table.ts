import assert from 'node:assert/strict';
import {
  enforcementConditions,
  planEnforcement,
  type EnforcementInput,
  type EnforcementPlan,
} from '../../../src/policy/rollout/enforcement.ts';
import type { StateRow } from './area.ts';

/** What is planned, and that it is planned again when it has come true. */
export function checkState({ input: { allManagedLabeled: isSettled, ...row }, expect }: StateRow): void {
  const input: EnforcementInput = { ...row, isSettled };
  const plan = planEnforcement(input);
  const conditions = new Map(
    enforcementConditions({ input, plan }).map(({ type, status, reason }) => [type, `${status}/${reason}`]),
  );
  const found = {
    spec: plan.spec,
    status: plan.status,
    'defaults.enforce': plan.enforce,
    syncer: plan.syncer,
    Enforcing: conditions.get('Enforcing'),
    Progressing: conditions.get('Progressing'),
    ...(conditions.has('Evaluated') ? { Evaluated: conditions.get('Evaluated') } : {}),
    writers: writersOf(input, plan),
  };
  assert.deepEqual(found, expect, JSON.stringify(row));
  const next = planEnforcement({ ...input, spec: plan.spec, status: plan.status, currentEnforce: plan.enforce });
  assert.deepEqual(
    [next.spec, next.status, next.enforce],
    [plan.spec, plan.status, plan.enforce],
    `again: ${JSON.stringify(row)}`,
  );
}

/** The components that have to write for a plan to take effect. */
function writersOf(input: EnforcementInput, plan: EnforcementPlan): readonly string[] {
  return [
    ...(plan.spec === input.spec ? [] : ['readiness:spec']),
    ...(plan.status === input.status ? [] : ['readiness:status']),
    ...(plan.enforce === input.currentEnforce ? [] : ['observer:config']),
  ];
}
