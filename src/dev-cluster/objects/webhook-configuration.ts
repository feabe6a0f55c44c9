import { X509Certificate } from 'node:crypto';
import { duplicateValue, invalidValue, notSupported, requiredField, type FieldError } from '../../kube/field-error.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import type { JsonObject } from '../../kube/types.ts';
import { conditionError } from '../match-conditions.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt, textsAt } from './read.ts';
import { selectorErrors, type KindRules } from './strategy.ts';

/**
 * Configurations of validating and mutating webhooks.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/admissionregistration/validation/validation.go
 */
export const webhookConfigurationRules: KindRules = {
  namespaced: false,
  generation: 'counted',
  validate(configuration) {
    const names = new Set<string>();
    return objectsAt(configuration, 'webhooks').flatMap((webhook, index) => {
      const name = textAt(webhook, 'name');
      const isTaken = name !== '' && names.has(name);
      names.add(name);
      return [
        ...webhookErrors(webhook, `webhooks[${index}]`),
        ...(isTaken ? [duplicateValue(`webhooks[${index}].name`, name)] : []),
      ];
    });
  },
};

function webhookErrors(webhook: JsonObject, path: string): FieldError[] {
  const seconds = numberAt(webhook, 'timeoutSeconds') ?? 10;
  return [
    ...nameErrors(textAt(webhook, 'name'), `${path}.name`),
    ...objectsAt(webhook, 'rules').flatMap((rule, index) => ruleErrors(rule, `${path}.rules[${index}]`)),
    ...oneOf(webhook, 'failurePolicy', path, ['Fail', 'Ignore']),
    ...oneOf(webhook, 'matchPolicy', path, ['Equivalent', 'Exact']),
    ...(hasField(webhook, 'sideEffects')
      ? oneOf(webhook, 'sideEffects', path, ['None', 'NoneOnDryRun'])
      : [requiredField(`${path}.sideEffects`, 'must specify one of None, NoneOnDryRun')]),
    ...(seconds < 1 || seconds > 30
      ? [invalidValue(`${path}.timeoutSeconds`, seconds, 'the timeout value must be between 1 and 30 seconds')]
      : []),
    ...['namespaceSelector', 'objectSelector'].flatMap((field) =>
      selectorErrors(objectAt(webhook, field), `${path}.${field}`),
    ),
    ...oneOf(webhook, 'reinvocationPolicy', path, ['IfNeeded', 'Never']),
    ...clientErrors(objectAt(webhook, 'clientConfig'), `${path}.clientConfig`),
    ...objectsAt(webhook, 'matchConditions').flatMap((condition, index) =>
      conditionErrors(condition, `${path}.matchConditions[${index}]`),
    ),
    ...versionErrors(textsAt(webhook, 'admissionReviewVersions'), `${path}.admissionReviewVersions`),
  ];
}

/** An optional field with one of several values. */
function oneOf(part: JsonObject, field: string, path: string, values: readonly string[]): FieldError[] {
  const value = part[field];
  return value == null || (typeof value === 'string' && values.includes(value))
    ? []
    : [notSupported(`${path}.${field}`, value, values)];
}

function nameErrors(name: string, path: string): FieldError[] {
  if (name === '') return [requiredField(path, '')];
  const errors = dnsSubdomainErrors(name);
  if (errors.length > 0) return [invalidValue(path, name, errors.join(','))];
  return name.split('.').length < 3
    ? [invalidValue(path, name, 'should be a domain with at least three segments separated by dots')]
    : [];
}

const OPERATIONS = ['*', 'CONNECT', 'CREATE', 'DELETE', 'UPDATE'];

function ruleErrors(rule: JsonObject, path: string): FieldError[] {
  const lists = { operations: 'operations', apiGroups: 'API groups', apiVersions: 'API versions' };
  return [
    ...Object.entries(lists).flatMap(([field, noun]) => {
      const items = textsAt(rule, field);
      if (items.length === 0) return [requiredField(`${path}.${field}`, '')];
      return items.length > 1 && items.includes('*')
        ? [invalidValue(`${path}.${field}`, items, `if '*' is present, must not specify other ${noun}`)]
        : [];
    }),
    ...textsAt(rule, 'operations').flatMap((operation, index) =>
      OPERATIONS.includes(operation) ? [] : [notSupported(`${path}.operations[${index}]`, operation, OPERATIONS)],
    ),
    ...(textsAt(rule, 'resources').length === 0 ? [requiredField(`${path}.resources`, '')] : []),
    ...oneOf(rule, 'scope', path, ['*', 'Cluster', 'Namespaced']),
  ];
}

function clientErrors(config: JsonObject, path: string): FieldError[] {
  const service = objectAt(config, 'service');
  const url = textAt(config, 'url');
  if (hasField(config, 'url') === hasField(config, 'service')) {
    return [requiredField(path, 'exactly one of url or service is required')];
  }
  const scheme = URL.canParse(url) ? new URL(url).protocol.slice(0, -1) : '';
  const detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
  return [
    ...(hasField(config, 'url') && scheme !== 'https' ? [invalidValue(`${path}.url`, scheme, detail)] : []),
    ...(hasField(config, 'service') ? ['name', 'namespace'] : [])
      .filter((field) => textAt(service, field) === '')
      .map((field) => requiredField(`${path}.service.${field}`, '')),
    ...bundleErrors(textAt(config, 'caBundle'), `${path}.caBundle`),
  ];
}

function bundleErrors(bundle: string, path: string): FieldError[] {
  if (bundle === '') return [];
  try {
    new X509Certificate(Buffer.from(bundle, 'base64'));
    return [];
  } catch {
    const detail = 'unable to load root certificates: unable to parse bytes as PEM block';
    return [invalidValue(path, bundle, detail)];
  }
}

/** The development cluster sends reviews of version v1 only. */
function versionErrors(versions: readonly string[], path: string): FieldError[] {
  if (versions.length === 0) return [requiredField(path, 'must specify one of v1, v1beta1')];
  return versions.includes('v1') ? [] : [invalidValue(path, versions, 'must include at least one of v1')];
}

function conditionErrors(condition: JsonObject, path: string): FieldError[] {
  const expression = textAt(condition, 'expression').trim();
  const error = expression === '' ? undefined : conditionError(expression);
  return [
    ...(expression === '' ? [requiredField(`${path}.expression`, '')] : []),
    ...(error === undefined ? [] : [invalidValue(`${path}.expression`, expression, error)]),
    ...(textAt(condition, 'name') === '' ? [requiredField(`${path}.name`, '')] : []),
  ];
}
