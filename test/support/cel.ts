/** Evaluates generated admission policies without an API server. */
import { applyPatch, type Operation } from 'rfc6902';
import type { DefaultsKind } from '../../src/api/admission-policies.ts';
import { asStored, compileVariables, toCelValue } from '../../src/dev-cluster/cel.ts';
import { matchesLabelSelector } from '../../src/kube/label-selector.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { NAMESPACE_NAME_LABEL } from '../../src/kube/well-known.ts';
import type { PolicyObject } from '../../src/policy/psa/index.ts';
import type { CelVariable } from '../../src/policy/pss/index.ts';

/** A request for a policy. By default, alice creates a pod. */
export interface PolicyRequest {
  readonly object: unknown;
  readonly oldObject?: unknown;
  /** The labels of the namespace. */
  readonly labels?: Readonly<Record<string, unknown>>;
  readonly request?: JsonObject;
}

/** The effects of a policy on a request. */
export interface PolicyAnswer {
  /** False if a match condition skips the request. */
  readonly isEvaluated: boolean;
  readonly message?: string;
  readonly annotations: Readonly<Record<string, string>>;
}

interface PolicySpec {
  readonly matchConstraints: Matching;
  readonly variables: readonly CelVariable[];
  readonly matchConditions?: readonly { readonly expression: string }[];
  readonly validations?: readonly {
    readonly expression: string;
    readonly message?: string;
    readonly messageExpression?: string;
  }[];
  readonly auditAnnotations?: readonly { readonly key: string; readonly valueExpression: string }[];
}

interface Matching {
  readonly namespaceSelector?: unknown;
  readonly resourceRules?: readonly Readonly<Record<'apiGroups' | 'operations' | 'resources', readonly string[]>>[];
}

interface BindingSpec {
  readonly policyName: string;
  readonly validationActions: readonly string[];
  readonly matchResources?: Matching;
}

const CREATION = {
  operation: 'CREATE',
  namespace: 'ns',
  subResource: '',
  userInfo: { username: 'alice' },
  resource: { group: '', version: 'v1', resource: 'pods' },
};

/** Returns the values that expressions can read. */
function celInput(given: PolicyRequest): Readonly<Record<string, unknown>> {
  const { object, oldObject = null, labels = {} } = given;
  const request = { ...CREATION, ...given.request };
  const input = {
    object: asStored(object),
    oldObject: asStored(oldObject),
    namespaceObject: { metadata: { name: 'ns', labels } },
    request,
  };
  return Object.fromEntries(Object.entries(input).map(([name, value]) => [name, toCelValue(value)]));
}

/** Compiles a policy. The compiled policy ignores the match constraints of the policy and its bindings. */
export function compilePolicy({ spec }: Pick<PolicyObject, 'spec'>) {
  const { variables, matchConditions = [], validations = [], auditAnnotations = [] } = spec as unknown as PolicySpec;
  const evaluate = compileVariables(variables);
  return (request: PolicyRequest): PolicyAnswer => {
    const run = evaluate(celInput(request));
    if (!matchConditions.every(({ expression }) => run(expression) === true)) {
      return { isEvaluated: false, annotations: {} };
    }
    const published = auditAnnotations.map(({ key, valueExpression }) => [key, String(run(valueExpression))] as const);
    const failed = validations.find(({ expression }) => run(expression) !== true);
    return {
      isEvaluated: true,
      ...(failed && {
        message: failed.messageExpression === undefined ? failed.message : String(run(failed.messageExpression)),
      }),
      annotations: Object.fromEntries(published.filter(([, value]) => value !== '')),
    };
  };
}

interface MutationSpec {
  readonly variables: readonly CelVariable[];
  readonly matchConditions: readonly { readonly expression: string }[];
  readonly mutations: readonly { readonly jsonPatch: { readonly expression: string } }[];
}

/**
 * Compiles a MutatingAdmissionPolicy with JSON patches. The compiled policy returns the changed object, and ignores the
 * match constraints of the policy. Patches are maps, because the interpreter has no message types.
 */
export function compileMutation({ spec }: PolicyObject<DefaultsKind>) {
  const { variables, matchConditions, mutations } = spec as unknown as MutationSpec;
  const evaluate = compileVariables(variables);
  const patches = mutations.map(({ jsonPatch: { expression } }) =>
    expression
      .replaceAll('JSONPatch{op: ', '{"op": ')
      .replaceAll(', path: ', ', "path": ')
      .replaceAll(', value: ', ', "value": '),
  );
  return (object: unknown, labels: Readonly<Record<string, string>> = {}): unknown => {
    const namespaceObject = { metadata: { name: 'ns', labels: { ...labels, [NAMESPACE_NAME_LABEL]: 'ns' } } };
    const run = evaluate({ object, request: CREATION, namespaceObject });
    if (!matchConditions.every(({ expression }) => run(expression) === true)) return object;
    const changed = structuredClone(object);
    for (const patch of patches) {
      const errors = applyPatch(changed, fromCelValue(run(patch)) as Operation[]).filter((error) => error !== null);
      if (errors.length > 0) throw new Error(errors.map(String).join());
    }
    return changed;
  };
}

/** The messages of all policies for a request by action, and their audit annotations. */
export interface Admission {
  readonly messages: Readonly<Record<'Deny' | 'Warn' | 'Audit', readonly string[]>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Names of the policies whose match conditions select the request. */
  readonly evaluated: readonly string[];
}

/** Admits requests as an API server does with policies and bindings. */
export function createPolicyAdmission(objects: readonly PolicyObject[]) {
  const bindings = objects
    .filter(({ kind }) => kind.endsWith('Binding'))
    .map(({ spec }) => spec as unknown as BindingSpec);
  const policies = objects
    .filter(({ kind }) => !kind.endsWith('Binding'))
    .map((policy) => ({
      name: policy.metadata.name,
      constraints: (policy.spec as unknown as PolicySpec).matchConstraints,
      bindings: bindings.filter(({ policyName }) => policyName === policy.metadata.name),
      evaluate: compilePolicy(policy),
    }));
  return (given: PolicyRequest): Admission => {
    const request = { ...CREATION, ...given.request };
    const { group, resource } = request.resource;
    const name = request.subResource === '' ? resource : `${resource}/${request.subResource}`;
    const labels = { ...given.labels, [NAMESPACE_NAME_LABEL]: request.namespace };
    const selects = ({ namespaceSelector = {}, resourceRules }: Matching = {}): boolean =>
      matchesLabelSelector(namespaceSelector, labels) &&
      (resourceRules?.some(
        ({ apiGroups, operations, resources }) =>
          apiGroups.includes(group) && operations.includes(request.operation) && resources.includes(name),
      ) ??
        true);
    const messages = { Deny: [] as string[], Warn: [] as string[], Audit: [] as string[] };
    const evaluated = new Set<string>();
    let annotations = {};
    for (const { name: policy, constraints, bindings: own, evaluate } of policies) {
      const active = own.filter(({ matchResources }) => selects(constraints) && selects(matchResources));
      if (active.length === 0) continue;
      for (const { validationActions } of active) {
        const answer = evaluate({ ...given, labels });
        annotations = { ...annotations, ...answer.annotations };
        if (answer.isEvaluated) evaluated.add(policy);
        if (answer.message !== undefined) messages[validationActions[0] as 'Deny' | 'Warn'].push(answer.message);
      }
    }
    return { messages, annotations, evaluated: [...evaluated] };
  };
}

function fromCelValue(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(fromCelValue);
  const entries = value instanceof Map ? [...value] : isObject(value) ? Object.entries(value) : undefined;
  return entries
    ? Object.fromEntries(entries.map(([key, item]: [string, unknown]) => [key, fromCelValue(item)]))
    : value;
}
