import { matchesLabelSelector } from '../../kube/label-selector.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError, createStatus, forbidden, type Status } from '../../kube/status.ts';
import type { JsonObject } from '../../kube/types.ts';
import { matchesRule } from '../../kube/webhook-rules.ts';
import type { CelVariable } from '../../policy/pss/index.ts';
import type { Access } from '../../views/access.ts';
import type { Attributes, RequestContext } from '../attributes.ts';
import { asStored, CelAuthorizer, compileVariables, firstLine } from '../cel.ts';
import { completeRequest } from '../match-conditions.ts';
import {
  type ApiObject,
  getMetadata,
  hasField,
  itemsAt,
  nestedObject,
  type ObjectReader,
  textAt,
  textsAt,
} from '../types.ts';
import { matchesObject, namespaceLabels, reviewRequest } from './webhooks.ts';

export interface PolicyOptions {
  readonly reader: ObjectReader;
  readonly access: Access;
}

/** A policy violation, or an error that counts as a violation because of the failure policy. */
interface Violation {
  readonly message: string;
  readonly reason: string;
}

/** Status codes by validation reason. */
const CODES: Readonly<Record<string, number>> = {
  Unauthorized: 401,
  Forbidden: 403,
  RequestEntityTooLarge: 413,
  Invalid: 422,
};

/** Maximum length of a `messageExpression` result. */
const MAX_MESSAGE = 5 * 1024;

/**
 * Evaluates ValidatingAdmissionPolicies. Adds warnings to the response, but does not evaluate audit annotations. Throws
 * an ApiError for the first violation whose binding denies.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/policy/validating/dispatcher.go
 */
export function validateWithPolicies(options: PolicyOptions, attributes: Attributes, context: RequestContext): void {
  if (isExempt(attributes)) return;
  const policies = options.reader.list(RESOURCES.ValidatingAdmissionPolicy);
  const bindings = policies.length === 0 ? [] : options.reader.list(RESOURCES.ValidatingAdmissionPolicyBinding);
  let denial: Status | undefined;
  for (const policy of policies) {
    const name = getMetadata(policy).name ?? '';
    const own = bindings.filter((binding) => textAt(binding, 'spec', 'policyName') === name);
    if (own.length === 0 || !isSelected(nestedObject(policy, 'spec', 'matchConstraints'), attributes, options))
      continue;
    for (const binding of own) {
      const resources = nestedObject(binding, 'spec', 'matchResources');
      if (!isSelected({ resourceRules: ANY_RULE, ...resources }, attributes, options)) continue;
      const bound = `ValidatingAdmissionPolicy '${name}' with binding '${getMetadata(binding).name}'`;
      const actions = textsAt(nestedObject(binding, 'spec'), 'validationActions');
      for (const { message, reason } of findViolations(policy, attributes, options)) {
        if (actions.includes('Warn')) context.warn(`Validation failed for ${bound}: ${message}`);
        if (actions.includes('Deny')) denial ??= deny(attributes, `${bound} denied request: ${message}`, reason);
      }
    }
  }
  if (denial) throw new ApiError(denial);
}

/** Returns true for policies and bindings, which are exempt so that users can repair a broken policy. */
function isExempt({ resource: { group, resource } }: Attributes): boolean {
  return group === 'admissionregistration.k8s.io' && /policies|policybindings/.test(resource);
}

function deny({ resource, name, object }: Attributes, message: string, reason: string): Status {
  const { name: own = '', generateName = '' } = getMetadata(object);
  const status = forbidden(resource, name || own || generateName || 'Unknown', message);
  return createStatus(CODES[reason] ?? 422, reason, status.message ?? '', { ...status.details, causes: [{ message }] });
}

const ANY_RULE = [{ operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'] }];

/** Returns true if a policy's or binding's constraints match the request. */
function isSelected(constraints: JsonObject, attributes: Attributes, { reader }: PolicyOptions): boolean {
  const matches = (rule: JsonObject): boolean => {
    const names = textsAt(rule, 'resourceNames');
    return (
      (names.length === 0 || names.includes(attributes.name)) && matchesRule(rule, attributes, attributes.resource)
    );
  };
  if (!itemsAt(constraints, 'resourceRules').some(matches)) return false;
  if (itemsAt(constraints, 'excludeResourceRules').some(matches)) return false;
  const labels = namespaceLabels(constraints, attributes, reader);
  if (typeof labels === 'object' && !matchesLabelSelector(constraints['namespaceSelector'], labels)) return false;
  return matchesObject(constraints, attributes);
}

function isNamespace({ resource }: Attributes): boolean {
  return resource.group === '' && resource.resource === 'namespaces';
}

/** @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/policy/validating/validator.go */
function findViolations(policy: ApiObject, attributes: Attributes, options: PolicyOptions): readonly Violation[] {
  const spec = nestedObject(policy, 'spec');
  const failed = (message: string): readonly Violation[] =>
    spec['failurePolicy'] === 'Ignore' ? [] : [{ message, reason: 'Invalid' }];
  if (hasField(spec, 'paramKind')) return failed('the development cluster does not support policy parameters');
  let run: ReturnType<typeof evaluatorFor>;
  try {
    run = evaluatorFor(spec, attributes, options);
  } catch (error) {
    return failed(firstLine(error));
  }
  const conditions = itemsAt(spec, 'matchConditions').map((condition) => run(textAt(condition, 'expression')));
  if (conditions.some(({ value }) => value === false)) return [];
  const broken = conditions.find(({ error }) => error !== undefined);
  if (broken) return failed(broken.error ?? '');
  return itemsAt(spec, 'validations').flatMap((validation) => {
    const { value, error } = run(textAt(validation, 'expression'));
    if (error !== undefined) return failed(error);
    const reason = textAt(validation, 'reason') || 'Invalid';
    return value === true ? [] : [{ message: failureMessage(validation, run), reason }];
  });
}

/** Result of an expression, which is its value or the evaluation error. */
interface Result {
  readonly value?: unknown;
  readonly error?: string;
}

/** Returns the evaluator of a policy. Throws an Error if a policy variable cannot be compiled. */
function evaluatorFor(
  spec: JsonObject,
  attributes: Attributes,
  { reader, access }: PolicyOptions,
): (expression: string) => Result {
  const { namespace, user } = attributes;
  const stored = isNamespace(attributes) ? undefined : reader.get(RESOURCES.Namespace, '', namespace);
  const evaluate = compileVariables(itemsAt(spec, 'variables') as unknown as readonly CelVariable[])({
    object: asStored(attributes.object),
    oldObject: asStored(attributes.oldObject),
    request: completeRequest(reviewRequest('', attributes)),
    namespaceObject: stored,
    authorizer: new CelAuthorizer(access, user),
  });
  return (expression) => {
    try {
      return { value: evaluate(expression) };
    } catch (cause) {
      return { error: `expression '${expression}' resulted in error: ${firstLine(cause)}` };
    }
  };
}

function failureMessage(validation: JsonObject, run: (expression: string) => Result): string {
  const expression = textAt(validation, 'messageExpression');
  const { value } = expression === '' ? {} : run(expression);
  const text = typeof value === 'string' ? value.trim() : '';
  const message = Buffer.byteLength(text) > MAX_MESSAGE || text.includes('\n') ? '' : text;
  return (
    message || textAt(validation, 'message').trim() || `failed expression: ${textAt(validation, 'expression').trim()}`
  );
}
