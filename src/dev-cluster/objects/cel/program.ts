import { Environment } from '@marcbachmann/cel-js';

/** An expression that can be evaluated, or why it cannot. */
export type Program =
  | { readonly ok: true; run(variables: Readonly<Record<string, unknown>>): Outcome }
  | { readonly ok: false; readonly error: string };

/** What an expression says; `error` where it cannot be told. */
export type Outcome = boolean | { readonly error: string };

const programs = new Map<string, Program>();
const MAX_PROGRAMS = 1000;

/**
 * Compiles an expression that must say true or false. What the interpreter does not know (Kubernetes' own functions, the
 * authorizer) is an error here, so that it can be refused when it is written.
 */
export function compile(expression: string, variables: readonly string[]): Program {
  const key = `${variables.join()} ${expression}`;
  const known = programs.get(key);
  if (known) return known;
  const program = make(expression, variables);
  if (programs.size >= MAX_PROGRAMS) programs.clear();
  programs.set(key, program);
  return program;
}

function make(expression: string, variables: readonly string[]): Program {
  const environment = new Environment({ enableOptionalTypes: true, homogeneousAggregateLiterals: false });
  for (const name of variables) environment.registerVariable(name, 'dyn');
  const checked = environment.check(expression);
  if (!checked.valid) return { ok: false, error: `compilation failed: ${firstLine(checked.error)}` };
  if (checked.type !== 'bool' && checked.type !== 'dyn') {
    return { ok: false, error: 'must evaluate to bool' };
  }
  const evaluate = environment.parse(expression);
  return {
    ok: true,
    run(values) {
      try {
        const result: unknown = evaluate(values);
        return typeof result === 'boolean' ? result : { error: 'must evaluate to bool' };
      } catch (error) {
        return { error: firstLine(error) };
      }
    },
  };
}

/** The interpreter adds a picture of the place to its messages. */
function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split('\n', 1)[0] ?? '';
}
