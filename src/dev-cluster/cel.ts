/**
 * Evaluates CEL as API servers do in admission policies.
 * @see https://kubernetes.io/docs/reference/using-api/cel/
 */
import { Environment } from '@marcbachmann/cel-js';
import { compareBytes, quote } from '../kube/text.ts';
import { isObject, type JsonObject, type UserInfo } from '../kube/types.ts';
import type { CelVariable } from '../policy/pss/index.ts';
import type { Action } from '../policy/rbac/index.ts';

/** A compiled expression. Throws if evaluation fails. */
type Program = (values: Readonly<Record<string, unknown>>) => unknown;

/** Returns true if a user may perform an action. */
export type Authorize = (user: UserInfo, action: Action) => boolean;

/** The `authorizer` variable. Each method call adds one part of the action to check, such as the verb. */
export class CelAuthorizer {
  readonly #authorize: Authorize;
  readonly #user: UserInfo;
  readonly #action: Action;
  constructor(authorize: Authorize, user: UserInfo, action: Action = { verb: '' }) {
    this.#authorize = authorize;
    this.#user = user;
    this.#action = action;
  }
  with(change: Partial<Action>): CelAuthorizer {
    return new CelAuthorizer(this.#authorize, this.#user, { ...this.#action, ...change });
  }
  /** As in API servers, the `system:authenticated` group is not added. */
  serviceAccount(namespace: string, name: string): CelAuthorizer {
    if (!/^[a-z0-9]/.test(name)) throw new Error('Invalid service account name');
    const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];
    return new CelAuthorizer(this.#authorize, { username: `system:serviceaccount:${namespace}:${name}`, groups });
  }
  allowed(): boolean {
    return this.#authorize(this.#user, this.#action);
  }
}

class Strings {
  readonly quote = quote;
}

class Lists {
  readonly range = (size: bigint): bigint[] => Array.from({ length: Number(size) }, (_, index) => BigInt(index));
}

/** Methods of the authorizer that set a field of the action. */
const ACTION_FIELDS = {
  group: 'apiGroup',
  resource: 'resource',
  subresource: 'subresource',
  namespace: 'namespace',
  name: 'name',
  check: 'verb',
} as const;

/** Creates a CEL environment with the functions that API servers add. */
function createEnvironment(variables: readonly string[]): Environment {
  const environment = new Environment({ enableOptionalTypes: true, homogeneousAggregateLiterals: false });
  environment.registerType('Strings', Strings);
  environment.registerConstant('strings', 'Strings', new Strings());
  environment.registerFunction('Strings.quote(string): string', (strings: Strings, text: string) =>
    strings.quote(text),
  );
  environment.registerFunction('string.find(string): string', (text: string, pattern: string) => {
    return new RegExp(pattern).exec(text)?.[0] ?? '';
  });
  environment.registerType('Authorizer', CelAuthorizer);
  for (const [step, field] of Object.entries(ACTION_FIELDS)) {
    const signature = `Authorizer.${step}(string): Authorizer`;
    environment.registerFunction(signature, (authorizer: CelAuthorizer, value: string) =>
      authorizer.with({ [field]: value }),
    );
  }
  environment.registerFunction(
    'Authorizer.serviceAccount(string, string): Authorizer',
    (authorizer: CelAuthorizer, namespace: string, name: string) => authorizer.serviceAccount(namespace, name),
  );
  environment.registerFunction('Authorizer.allowed(): bool', (authorizer: CelAuthorizer) => authorizer.allowed());
  environment.registerFunction('list.sum(): int', (items: bigint[]) => items.reduce((sum, item) => sum + item, 0n));
  environment.registerType('Lists', Lists);
  environment.registerConstant('lists', 'Lists', new Lists());
  environment.registerFunction('Lists.range(int): list', (lists: Lists, size: bigint) => lists.range(size));
  environment.registerFunction('list.flatten(): list', (items: unknown[]) => items.flat());
  environment.registerFunction('list.distinct(): list', (items: unknown[]) => [...new Set(items)]);
  environment.registerFunction('list.sort(): list', (items: string[]) => items.toSorted(compareBytes));
  for (const name of variables) environment.registerVariable(name, name === 'authorizer' ? 'Authorizer' : 'dyn');
  return environment;
}

/** Variables in the expressions of a policy. */
const INPUTS = ['object', 'oldObject', 'request', 'namespaceObject', 'variables', 'authorizer'];
const environments = new Map<string, Environment>();
const programs = new Map<string, Program>();

/**
 * Compiles an expression with the given variables.
 * @throws {Error} if it is invalid
 */
export function compile(expression: string, variables: readonly string[] = INPUTS): Program {
  const scope = variables.join();
  const known = programs.get(`${scope} ${expression}`);
  if (known) return known;
  const environment = environments.get(scope) ?? createEnvironment(variables);
  environments.set(scope, environment);
  const { valid, error } = environment.check(expression);
  if (!valid) throw new Error(`compilation failed: ${firstLine(error)}`);
  const program = environment.parse(expression) as Program;
  programs.set(`${scope} ${expression}`, program);
  return program;
}

/** Returns the first line of the interpreter's message. The other lines show the position in the expression. */
export function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split('\n', 1)[0] ?? '';
}

/** Input for expressions, as CEL values. */
type Values = Readonly<Record<string, unknown>>;

/**
 * Creates variables that, as in API servers, are evaluated once when they are first read. The result is not a subclass
 * of Map, because the interpreter does not accept one.
 */
function createVariables(expressions: ReadonlyMap<string, Program>, values: Values): Map<string, unknown> {
  const results = new Map<string, unknown>();
  const variables = new Map<string, unknown>();
  variables.get = (name) => {
    if (!results.has(name)) {
      const program = expressions.get(name);
      if (!program) throw new Error(`no variable ${name}`);
      results.set(name, program({ ...values, variables }));
    }
    return results.get(name);
  };
  return variables;
}

/** Compiles variables. Returns a function that evaluates the expressions that use them. */
export function compileVariables(variables: readonly CelVariable[]) {
  const compiled = new Map(variables.map(({ name, expression }) => [name, compile(expression)] as const));
  return (input: Readonly<Record<string, unknown>>) => {
    const values = Object.fromEntries(Object.entries(input).map(([name, value]) => [name, toCelValue(value)]));
    const all = { ...values, variables: createVariables(compiled, values) };
    return (expression: string): unknown => compile(expression)(all);
  };
}

/** Converts JSON to CEL values. Whole numbers become integers, and objects become maps. */
export function toCelValue(value: unknown): unknown {
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(toCelValue);
  if (value instanceof CelAuthorizer || value instanceof Map || !isObject(value)) return value ?? null;
  return new Map(Object.entries(value).map(([key, item]) => [key, toCelValue(item)]));
}

/** Types whose members the API server serializes even if they are absent. */
const SERIALIZED: Readonly<Record<string, JsonObject>> = {
  seccompProfile: { type: '' },
  appArmorProfile: { type: '' },
  sysctls: { name: '' },
  containers: { name: '' },
  initContainers: { name: '' },
  ephemeralContainers: { name: '' },
  volumes: { name: '' },
  flexVolume: { driver: '' },
};

/** Fields whose items or members are strings, so null is treated as the empty string. */
const STRINGS = ['add', 'drop', 'annotations'];

/**
 * Returns the object as policies receive it, without nulls but with the members that the API server always serializes.
 */
export function asStored(value: unknown, field = ''): unknown {
  const isText = STRINGS.includes(field);
  if (Array.isArray(value)) return value.map((item) => (item === null && isText ? '' : asStored(item ?? {}, field)));
  if (!isObject(value)) return value;
  const members = Object.entries({ ...SERIALIZED[field], ...value })
    .filter(([, member]) => member !== null || isText)
    .map(([name, member]) => [name, asStored(member ?? '', name)] as const);
  return Object.fromEntries(members);
}
