/**
 * Sets the server-side fields of built-in kinds and validates them. Checks only the rules that users of a development
 * cluster are likely to violate. The functions do not depend on storage or requests.
 */
import { X509Certificate } from 'node:crypto';
import { setApiDefaults } from '../../kube/defaults.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { type FieldError, invalidValue, requiredField } from '../../kube/field-error.ts';
import { dnsLabelErrors } from '../../kube/names.ts';
import type { JsonObject } from '../../kube/types.ts';
import type { NameRule } from '../../kube/validation.ts';
import { conditionError } from '../match-conditions.ts';
import { type ApiObject, at, hasField, itemsAt, nestedObject, textAt, textsAt } from '../types.ts';
import { definitionRules } from './custom-resources.ts';
import { podRules } from './pod.ts';
import { createStrategy, type KindRules, type Strategy } from './strategy.ts';

/**
 * Validates webhook configurations. Checks only for mistakes that prevent API servers from calling a webhook.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/admissionregistration/validation/validation.go
 */
const webhookConfigurationRules: KindRules = {
  generation: 'counted',
  validate: (configuration) =>
    itemsAt(configuration, 'webhooks').flatMap((webhook, index) => webhookErrors(webhook, `webhooks[${index}]`)),
};

function webhookErrors(webhook: JsonObject, path: string): FieldError[] {
  const isOne = hasField(webhook, 'clientConfig', 'url') !== hasField(webhook, 'clientConfig', 'service');
  const versions = textsAt(webhook, 'admissionReviewVersions');
  return [
    ...(hasField(webhook, 'sideEffects')
      ? []
      : [requiredField(`${path}.sideEffects`, 'must specify one of None, NoneOnDryRun')]),
    ...(isOne ? [] : [requiredField(`${path}.clientConfig`, 'exactly one of url or service is required')]),
    ...bundleErrors(textAt(webhook, 'clientConfig', 'caBundle'), `${path}.clientConfig.caBundle`),
    ...itemsAt(webhook, 'matchConditions').flatMap(({ expression }, index) => {
      const error = conditionError(String(expression).trim());
      return error === undefined
        ? []
        : [invalidValue(`${path}.matchConditions[${index}].expression`, expression, error)];
    }),
    // v1 is required, because the development cluster sends only v1 reviews.
    ...(versions.includes('v1')
      ? []
      : [invalidValue(`${path}.admissionReviewVersions`, versions, 'must include at least one of v1')]),
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

const RBAC = 'rbac.authorization.k8s.io';

/** Accepts any name, because RBAC names may contain colons and uppercase letters. */
const anyName: NameRule = () => [];

/** Rules for workloads in the `apps` group. */
const WORKLOAD: KindRules = {
  generation: 'counted',
  initialStatus: () => ({}),
  validateUpdate(object, old, subresource) {
    const [selector, before] = [object, old].map((version) => at(version, 'spec', 'selector'));
    const isChanged = subresource === '' && !semanticEqual(selector, before);
    return isChanged ? [invalidValue('spec.selector', selector ?? null, 'field is immutable')] : [];
  },
};

const KINDS: Readonly<Record<string, KindRules>> = {
  '/Namespace': {
    nameErrors: dnsLabelErrors,
    initialStatus: () => ({ phase: 'Active' }),
    prepareForCreate(namespace) {
      // Defaults are set again when the object is created, because only then is a generated name known.
      setApiDefaults(namespace);
      const finalizers = textsAt(nestedObject(namespace, 'spec'), 'finalizers');
      namespace['spec'] = { finalizers: [...new Set([...finalizers, 'kubernetes'])] };
    },
    prepareForUpdate(namespace, old, subresource) {
      if (subresource !== 'finalize') namespace['spec'] = structuredClone(nestedObject(old, 'spec'));
    },
  },
  '/Node': { initialStatus: (node) => node['status'] ?? {} },
  '/PersistentVolume': { initialStatus: () => ({ phase: 'Pending' }) },
  '/PersistentVolumeClaim': { initialStatus: () => ({ phase: 'Pending' }) },
  '/Pod': podRules,
  '/PodTemplate': { generation: 'counted' },
  '/ReplicationController': { generation: 'counted', initialStatus: () => ({ replicas: 0 }) },
  '/ResourceQuota': { initialStatus: () => ({}) },
  '/Secret': {
    prepareForCreate: encodeStringData,
    prepareForUpdate: encodeStringData,
  },
  '/Service': {
    nameErrors: dnsLabelErrors,
    initialStatus: () => ({ loadBalancer: {} }),
  },
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': webhookConfigurationRules,
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': webhookConfigurationRules,
  'admissionregistration.k8s.io/ValidatingAdmissionPolicy': { generation: 'counted', initialStatus: () => ({}) },
  'admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding': { generation: 'counted' },
  'apiextensions.k8s.io/CustomResourceDefinition': definitionRules,
  'apps/DaemonSet': WORKLOAD,
  'apps/Deployment': WORKLOAD,
  'apps/ReplicaSet': WORKLOAD,
  'apps/StatefulSet': WORKLOAD,
  'batch/CronJob': { generation: 'counted', initialStatus: () => ({}) },
  'batch/Job': { generation: 'counted', initialStatus: () => ({}) },
  // The spec is always present, because Go always serializes it.
  'coordination.k8s.io/Lease': { defaults: (lease) => void (lease['spec'] ??= {}) },
  'policy/PodDisruptionBudget': { generation: 'counted', initialStatus: () => ({}) },
  [`${RBAC}/ClusterRole`]: { nameErrors: anyName },
  [`${RBAC}/ClusterRoleBinding`]: { nameErrors: anyName, validateUpdate: roleRefErrors },
  [`${RBAC}/Role`]: { nameErrors: anyName },
  [`${RBAC}/RoleBinding`]: { nameErrors: anyName, validateUpdate: roleRefErrors },
  'scheduling.k8s.io/PriorityClass': { generation: 'counted' },
};

/** Returns the strategy for a built-in kind. If there is no rule for the kind, only its metadata is validated. */
export function kindStrategy(group: string, kind: string, namespaced: boolean): Strategy {
  return createStrategy(KINDS[`${group}/${kind}`] ?? {}, namespaced);
}

function encodeStringData(secret: ApiObject): void {
  if (!hasField(secret, 'stringData')) return;
  const entries = Object.entries(nestedObject(secret, 'stringData'));
  const encoded = entries.map(([key, value]) => [key, Buffer.from(String(value)).toString('base64')] as const);
  secret['data'] = { ...nestedObject(secret, 'data'), ...Object.fromEntries(encoded) };
  delete secret['stringData'];
}

function roleRefErrors(binding: ApiObject, old: ApiObject): FieldError[] {
  if (semanticEqual(binding['roleRef'], old['roleRef'])) return [];
  return [invalidValue('roleRef', binding['roleRef'], 'cannot change roleRef')];
}
