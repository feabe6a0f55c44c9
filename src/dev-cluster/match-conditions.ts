import type { JsonObject } from '../kube/types.ts';
import { createEnvironment, firstLine, toCelValue } from './cel.ts';
import { objectAt, textAt } from './types.ts';

/** The value of a CEL expression; `error` if the expression cannot be evaluated. */
export type Outcome = boolean | { readonly error: string };

/** A compiled expression, or the reason why it cannot be compiled. */
type Program =
  | { readonly ok: true; run(variables: Readonly<Record<string, unknown>>): Outcome }
  | { readonly ok: false; readonly error: string };

const programs = new Map<string, Program>();

/** Compiles a CEL expression of type bool. */
export function compileExpression(expression: string, variables: readonly string[]): Program {
  const key = `${variables.join()} ${expression}`;
  const program = programs.get(key) ?? createProgram(expression, variables);
  programs.set(key, program);
  return program;
}

function createProgram(expression: string, variables: readonly string[]): Program {
  const environment = createEnvironment(variables);
  const { valid, type, error } = environment.check(expression);
  if (!valid) return { ok: false, error: `compilation failed: ${firstLine(error)}` };
  if (type !== 'bool' && type !== 'dyn') return { ok: false, error: 'must evaluate to bool' };
  const evaluate = environment.parse(expression);
  return {
    ok: true,
    run(values) {
      try {
        const result: unknown = evaluate(values);
        return typeof result === 'boolean' ? result : { error: 'must evaluate to bool' };
      } catch (cause) {
        return { error: firstLine(cause) };
      }
    },
  };
}

const VARIABLES = ['object', 'oldObject', 'request'];

/** The reason why a match condition cannot be evaluated; `undefined` if it can. */
export function conditionError(expression: string): string | undefined {
  const program = compileExpression(expression, VARIABLES);
  return program.ok ? undefined : program.error;
}

/** The variable `request` of a request of an AdmissionReview: absent strings are empty in CEL. */
export function completeRequest(request: JsonObject): JsonObject {
  const members = Object.entries(request).filter(([name]) => name !== 'object' && name !== 'oldObject');
  const defaults = { subResource: '', requestSubResource: '', name: '', namespace: '' };
  const userInfo = { username: '', uid: '', groups: [], extra: {}, ...objectAt(request, 'userInfo') };
  return { ...defaults, ...Object.fromEntries(members), userInfo };
}

/**
 * True if all conditions hold for the request of an AdmissionReview. A condition that is false decides even if another
 * one fails.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/matchconditions/matcher.go
 */
export function matchesConditions(conditions: readonly JsonObject[], request: JsonObject): Outcome {
  const { object, oldObject } = request;
  const values = {
    object: toCelValue(object),
    oldObject: toCelValue(oldObject),
    request: toCelValue(completeRequest(request)),
  };
  const errors: string[] = [];
  for (const condition of conditions) {
    const program = compileExpression(textAt(condition, 'expression').trim(), VARIABLES);
    const outcome = program.ok ? program.run(values) : { error: program.error };
    if (outcome === false) return false;
    if (outcome !== true) {
      errors.push(`expression '${textAt(condition, 'expression')}' resulted in error: ${outcome.error}`);
    }
  }
  const [error = ''] = errors;
  if (errors.length === 0) return true;
  return { error: errors.length === 1 ? error : `[${errors.join(', ')}]` };
}
