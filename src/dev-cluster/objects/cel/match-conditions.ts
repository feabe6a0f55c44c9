import type { JsonObject } from '../../../kube/types.ts';
import { objectAt, textAt } from '../read.ts';
import { compile, type Outcome } from './program.ts';
import { withinTime } from './time-limit.ts';
import { celValue } from './values.ts';

const VARIABLES = ['object', 'oldObject', 'request'];

/** Why a match condition cannot be evaluated here; `undefined` if it can. */
export function conditionError(expression: string): string | undefined {
  const program = compile(expression, VARIABLES);
  return program.ok ? undefined : program.error;
}

/**
 * True if all conditions hold for the request of a review. One that fails decides against the call even where another
 * cannot be evaluated; else what cannot be evaluated is an error.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/matchconditions/matcher.go
 */
export function matchesConditions(conditions: readonly JsonObject[], request: JsonObject): Outcome {
  const outcome = withinTime(() => evaluateConditions(conditions, request));
  return outcome ? outcome.result : { error: 'running out of cost budget, no further conditions will be run' };
}

function evaluateConditions(conditions: readonly JsonObject[], request: JsonObject): Outcome {
  const values = {
    object: celValue(request['object']),
    oldObject: celValue(request['oldObject']),
    request: celValue(withoutObjects(request)),
  };
  const outcomes = conditions.map((condition): Outcome => {
    const program = compile(textAt(condition, 'expression').trim(), VARIABLES);
    return program.ok ? program.run(values) : { error: program.error };
  });
  if (outcomes.includes(false)) return false;
  const errors = outcomes.flatMap((outcome, index) =>
    typeof outcome === 'object' ? [message(conditions[index], outcome.error)] : [],
  );
  return errors.length === 0 ? true : { error: errors.length === 1 ? (errors[0] ?? '') : `[${errors.join(', ')}]` };
}

function message(condition: JsonObject | undefined, error: string): string {
  return `expression '${textAt(condition, 'expression')}' resulted in error: ${error}`;
}

/** The objects are variables of their own; the request tells the rest, absent texts being empty. */
function withoutObjects(request: JsonObject): JsonObject {
  const rest = Object.entries(request).filter(([field]) => field !== 'object' && field !== 'oldObject');
  return {
    subResource: '',
    requestSubResource: '',
    name: '',
    namespace: '',
    ...Object.fromEntries(rest),
    userInfo: { username: '', uid: '', groups: [], extra: {}, ...objectAt(request, 'userInfo') },
  };
}
