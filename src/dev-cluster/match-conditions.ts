import { Environment } from '@marcbachmann/cel-js';
import type { JsonObject } from '../kube/types.ts';
import { objectAt, textAt } from './types.ts';

/** The value of a CEL expression; `error` if the expression cannot be evaluated. */
export type Outcome = boolean | { readonly error: string };

/** A compiled expression, or the reason why it cannot be compiled. */
type Program =
  | { readonly ok: true; run(variables: Readonly<Record<string, unknown>>): Outcome }
  | { readonly ok: false; readonly error: string };

const programs = new Map<string, Program>();

/**
 * Compiles a CEL expression of type bool. The functions that Kubernetes adds to CEL are not available, so expressions
 * that use them are rejected when they are written.
 */
export function compileExpression(expression: string, variables: readonly string[]): Program {
  const key = `${variables.join()} ${expression}`;
  const program = programs.get(key) ?? createProgram(expression, variables);
  programs.set(key, program);
  return program;
}

function createProgram(expression: string, variables: readonly string[]): Program {
  const environment = new Environment({ enableOptionalTypes: true, homogeneousAggregateLiterals: false });
  for (const name of variables) environment.registerVariable(name, 'dyn');
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

/** The other lines of the interpreter's messages show the position in the expression. */
function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split('\n', 1)[0] ?? '';
}

/** Converts JSON to CEL values: whole numbers become integers, objects become maps. */
export function toCelValue(value: unknown): unknown {
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(toCelValue);
  if (typeof value !== 'object' || value === null) return value ?? null;
  return new Map(Object.entries(value).map(([key, item]) => [key, toCelValue(item)]));
}

const VARIABLES = ['object', 'oldObject', 'request'];

/** The reason why a match condition cannot be evaluated; `undefined` if it can. */
export function conditionError(expression: string): string | undefined {
  const program = compileExpression(expression, VARIABLES);
  return program.ok ? undefined : program.error;
}

/**
 * True if all conditions hold for the request of an AdmissionReview. A condition that is false decides even if another
 * one fails.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/matchconditions/matcher.go
 */
export function matchesConditions(conditions: readonly JsonObject[], request: JsonObject): Outcome {
  const { object, oldObject, ...rest } = request;
  // Absent strings of the request are empty in CEL.
  const defaults = { subResource: '', requestSubResource: '', name: '', namespace: '' };
  const userInfo = { username: '', uid: '', groups: [], extra: {}, ...objectAt(request, 'userInfo') };
  const values = {
    object: toCelValue(object),
    oldObject: toCelValue(oldObject),
    request: toCelValue({ ...defaults, ...rest, userInfo }),
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
