import { X509Certificate } from 'node:crypto';
import { dnsSubdomainErrors, labelKeyErrors } from '../../kube/names.ts';
import { duplicateValue, invalidValue, notSupported, requiredField, type FieldError } from '../../kube/field-error.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { conditionError } from './cel/match-conditions.ts';
import { oneOf, portNumber } from './errors.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt, textsAt } from './read.ts';
import { selectorErrors } from './selector.ts';
import type { KindRules } from './strategy.ts';

const GROUP = 'admissionregistration.k8s.io';

const rules: KindRules = { namespaced: false, generation: 'counted', validate: validateConfiguration };

/**
 * Webhook configurations.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/admissionregistration/validation/validation.go
 */
export const webhookConfigurationRules: Readonly<Record<string, KindRules>> = {
  [`${GROUP}/MutatingWebhookConfiguration`]: rules,
  [`${GROUP}/ValidatingWebhookConfiguration`]: rules,
};

function validateConfiguration(configuration: ApiObject): FieldError[] {
  const names = new Set<string>();
  return objectsAt(configuration, 'webhooks').flatMap((webhook, index) => {
    const path = `webhooks[${index}]`;
    const name = textAt(webhook, 'name');
    const isTaken = names.has(name);
    if (name !== '') names.add(name);
    return [
      ...webhookErrors(webhook, path),
      ...versionErrors(webhook, `${path}.admissionReviewVersions`),
      ...(isTaken ? [duplicateValue(`${path}.name`, name)] : []),
    ];
  });
}

function webhookErrors(webhook: JsonObject, path: string): FieldError[] {
  const seconds = numberAt(webhook, 'timeoutSeconds') ?? 10;
  return [
    ...nameErrors(textAt(webhook, 'name'), `${path}.name`),
    ...objectsAt(webhook, 'rules').flatMap((rule, index) => ruleErrors(rule, `${path}.rules[${index}]`)),
    ...oneOf(`${path}.failurePolicy`, webhook['failurePolicy'], ['Fail', 'Ignore']),
    ...oneOf(`${path}.matchPolicy`, webhook['matchPolicy'], ['Equivalent', 'Exact']),
    ...(hasField(webhook, 'sideEffects')
      ? oneOf(`${path}.sideEffects`, webhook['sideEffects'], ['None', 'NoneOnDryRun'])
      : [requiredField(`${path}.sideEffects`, 'must specify one of None, NoneOnDryRun')]),
    ...(seconds < 1 || seconds > 30
      ? [invalidValue(`${path}.timeoutSeconds`, seconds, 'the timeout value must be between 1 and 30 seconds')]
      : []),
    ...['namespaceSelector', 'objectSelector'].flatMap((field) => selectorErrors(webhook, field, `${path}.${field}`)),
    ...oneOf(`${path}.reinvocationPolicy`, webhook['reinvocationPolicy'], ['IfNeeded', 'Never']),
    ...clientErrors(objectAt(webhook, 'clientConfig'), `${path}.clientConfig`),
    ...conditionErrors(webhook, `${path}.matchConditions`),
  ];
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
  const operations = textsAt(rule, 'operations');
  return [
    ...listErrors(operations, `${path}.operations`, 'other operations'),
    ...operations.flatMap((operation, index) =>
      OPERATIONS.includes(operation) ? [] : [notSupported(`${path}.operations[${index}]`, operation, OPERATIONS)],
    ),
    ...listErrors(textsAt(rule, 'apiGroups'), `${path}.apiGroups`, 'other API groups'),
    ...listErrors(textsAt(rule, 'apiVersions'), `${path}.apiVersions`, 'other API versions'),
    ...emptyItems(textsAt(rule, 'apiVersions'), `${path}.apiVersions`),
    ...resourceErrors(textsAt(rule, 'resources'), `${path}.resources`),
    ...oneOf(`${path}.scope`, rule['scope'], ['*', 'Cluster', 'Namespaced']),
  ];
}

function listErrors(items: readonly string[], path: string, others: string): FieldError[] {
  if (items.length === 0) return [requiredField(path, '')];
  return items.length > 1 && items.includes('*')
    ? [invalidValue(path, items, `if '*' is present, must not specify ${others}`)]
    : [];
}

function emptyItems(items: readonly string[], path: string): FieldError[] {
  return items.flatMap((item, index) => (item === '' ? [requiredField(`${path}[${index}]`, '')] : []));
}

function resourceErrors(resources: readonly string[], path: string): FieldError[] {
  if (resources.length === 0) return [requiredField(path, '')];
  const whole = resources.filter((resource) => resource !== '*' && !resource.includes('/'));
  return [
    ...emptyItems(resources, path),
    ...(resources.length > 1 && resources.includes('*/*')
      ? [invalidValue(path, resources, "if '*/*' is present, must not specify other resources")]
      : []),
    ...(resources.includes('*') && whole.length > 0
      ? [invalidValue(path, resources, "if '*' is present, must not specify other resources without subresources")]
      : []),
  ];
}

function clientErrors(config: JsonObject, path: string): FieldError[] {
  const hasUrl = hasField(config, 'url');
  if (hasUrl === hasField(config, 'service')) return [requiredField(path, 'exactly one of url or service is required')];
  return [
    ...(hasUrl
      ? urlErrors(textAt(config, 'url'), `${path}.url`)
      : serviceErrors(objectAt(config, 'service'), `${path}.service`)),
    ...bundleErrors(textAt(config, 'caBundle'), `${path}.caBundle`),
  ];
}

const FORM = '; desired format: https://host[/path]';

function urlErrors(text: string, path: string): FieldError[] {
  if (!URL.canParse(text)) {
    return text.startsWith('https://')
      ? [invalidValue(path, '', `host must be specified${FORM}`)]
      : [invalidValue(path, '', `'https' is the only allowed URL scheme${FORM}`)];
  }
  const url = new URL(text);
  const scheme = url.protocol.slice(0, -1);
  return [
    ...(scheme === 'https' ? [] : [invalidValue(path, scheme, `'https' is the only allowed URL scheme${FORM}`)]),
    ...(url.host === '' ? [invalidValue(path, '', `host must be specified${FORM}`)] : []),
    ...(url.username === '' ? [] : [invalidValue(path, url.username, 'user information is not permitted in the URL')]),
    ...(url.hash === '' ? [] : [invalidValue(path, url.hash.slice(1), 'fragments are not permitted in the URL')]),
    ...(url.search === ''
      ? []
      : [invalidValue(path, url.search.slice(1), 'query parameters are not permitted in the URL')]),
  ];
}

function serviceErrors(service: JsonObject, path: string): FieldError[] {
  const port = numberAt(service, 'port') ?? 443;
  const wrong = portNumber(path, port).map((error) => error.detail);
  return [
    ...['name', 'namespace']
      .filter((field) => textAt(service, field) === '')
      .map((field) => requiredField(`${path}.${field}`, '')),
    ...(wrong.length > 0 ? [invalidValue(`${path}.port`, port, `port is not valid: ${wrong.join(', ')}`)] : []),
    ...pathErrors(textAt(service, 'path'), `${path}.path`),
  ];
}

function pathErrors(value: string, path: string): FieldError[] {
  if (value === '' || value === '/') return [];
  const steps = value.slice(1).replace(/\/$/, '').split('/');
  return [
    ...(value.startsWith('/') ? [] : [invalidValue(path, value, "must start with a '/'")]),
    ...steps.flatMap((step, index) => {
      if (step === '') return [invalidValue(path, value, `segment[${index}] may not be empty`)];
      return dnsSubdomainErrors(step).map((error) => invalidValue(path, value, `segment[${index}]: ${error}`));
    }),
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

const VERSIONS = 'v1, v1beta1';

/** Reviews are only made in v1, so a webhook that does not take those is refused. */
function versionErrors(webhook: JsonObject, path: string): FieldError[] {
  const versions = textsAt(webhook, 'admissionReviewVersions');
  if (versions.length === 0) return [requiredField(path, `must specify one of ${VERSIONS}`)];
  const seen = new Set<string>();
  const repeated = versions.flatMap((version, index) => {
    if (seen.has(version)) return [invalidValue(`${path}[${index}]`, version, 'duplicate version')];
    seen.add(version);
    return [];
  });
  if (seen.has('v1')) return repeated;
  const detail = seen.has('v1beta1')
    ? 'the development cluster sends v1 only'
    : `must include at least one of ${VERSIONS}`;
  return [...repeated, invalidValue(path, versions, detail)];
}

function conditionErrors(webhook: JsonObject, path: string): FieldError[] {
  const names = new Set<string>();
  return objectsAt(webhook, 'matchConditions').flatMap((condition, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(condition, 'name');
    const expression = textAt(condition, 'expression').trim();
    const error = expression === '' ? undefined : conditionError(expression);
    const isTaken = names.has(name);
    names.add(name);
    return [
      ...(expression === '' ? [requiredField(`${at}.expression`, '')] : []),
      ...(error === undefined ? [] : [invalidValue(`${at}.expression`, expression, error)]),
      ...(name === ''
        ? [requiredField(`${at}.name`, '')]
        : labelKeyErrors(name).map((wrong) => invalidValue(`${at}.name`, name, wrong))),
      ...(isTaken && name !== '' ? [duplicateValue(`${at}.name`, name)] : []),
    ];
  });
}
