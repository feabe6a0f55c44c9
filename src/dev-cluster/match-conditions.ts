import type { JsonObject } from '../kube/types.ts';
import { type Authorize, CelAuthorizer, compile, firstLine, toCelValue } from './cel.ts';
import { nestedObject, textAt } from './types.ts';

/** Value of a CEL expression, or `error` if the expression cannot be evaluated. */
type ConditionResult = boolean | { readonly error: string };

/** Evaluates a boolean expression with the given CEL values. */
export function evaluate(expression: string, values: Readonly<Record<string, unknown>>): ConditionResult {
  try {
    const result = compile(expression, Object.keys(values))(values);
    return typeof result === 'boolean' ? result : { error: 'must evaluate to bool' };
  } catch (cause) {
    return { error: firstLine(cause) };
  }
}

/** Variables in match conditions. */
const INPUTS = ['object', 'oldObject', 'request', 'authorizer'];

/** Returns the reason why a match condition cannot be compiled, or `undefined` if it can be compiled. */
export function conditionError(expression: string): string | undefined {
  try {
    compile(expression, INPUTS);
    return undefined;
  } catch (cause) {
    return firstLine(cause);
  }
}

/** Returns the `request` variable for an AdmissionReview. Absent strings are empty in CEL. */
export function completeRequest(request: JsonObject): JsonObject {
  const members = Object.entries(request).filter(([name]) => name !== 'object' && name !== 'oldObject');
  const defaults = { subResource: '', requestSubResource: '', name: '', namespace: '' };
  const userInfo = { username: '', uid: '', groups: [], extra: {}, ...nestedObject(request, 'userInfo') };
  return { ...defaults, ...Object.fromEntries(members), userInfo };
}

/**
 * Returns true if an AdmissionReview's request meets all conditions. If a condition is false, the result is false even
 * if another condition cannot be evaluated.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/matchconditions/matcher.go
 */
export function matchesConditions(
  conditions: readonly JsonObject[],
  request: JsonObject,
  access: Authorize = () => false,
): ConditionResult {
  const { object, oldObject } = request;
  const values = {
    object: toCelValue(object),
    oldObject: toCelValue(oldObject),
    request: toCelValue(completeRequest(request)),
    authorizer: new CelAuthorizer(access, nestedObject(request, 'userInfo')),
  };
  const errors: string[] = [];
  for (const condition of conditions) {
    const outcome = evaluate(textAt(condition, 'expression').trim(), values);
    if (outcome === false) return false;
    if (outcome !== true) {
      errors.push(`expression '${textAt(condition, 'expression')}' resulted in error: ${outcome.error}`);
    }
  }
  const [error = ''] = errors;
  if (errors.length === 0) return true;
  return { error: errors.length === 1 ? error : `[${errors.join(', ')}]` };
}
