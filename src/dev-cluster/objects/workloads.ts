import { semanticEqual } from '../../kube/equality.ts';
import { forbiddenField, invalidValue, notSupported, requiredField, type FieldError } from '../../kube/field-error.ts';
import { matchesLabelSelector } from '../../kube/webhooks.ts';
import { isObject, type JsonObject } from '../../kube/types.ts';
import type { ApiObject } from '../types.ts';
import { nonNegative } from './errors.ts';
import { hasField, objectAt, textAt } from './read.ts';
import { isEmptySelector, selectorErrors } from './selector.ts';
import { batchRules } from './jobs.ts';
import type { KindRules } from './strategy.ts';
import { templateErrors, warningsOf } from './template.ts';

/**
 * Kinds that make pods from a template.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/apps/validation/validation.go
 */
export const workloadRules: Readonly<Record<string, KindRules>> = {
  '/PodTemplate': {
    namespaced: true,
    generation: 'counted',
    validate: (object) => templateErrors(objectAt(object, 'template'), 'template'),
    warnings: (object) => warningsOf('', 'PodTemplate', object),
  },
  '/ReplicationController': {
    namespaced: true,
    generation: 'counted',
    initialStatus: () => ({ replicas: 0 }),
    validate: controllerErrors,
    warnings: (object) => warningsOf('', 'ReplicationController', object),
  },
  'apps/DaemonSet': replicated('DaemonSet', 'daemonset', () => ({
    currentNumberScheduled: 0,
    numberMisscheduled: 0,
    desiredNumberScheduled: 0,
    numberReady: 0,
  })),
  'apps/Deployment': replicated('Deployment', 'deployment', () => ({})),
  'apps/ReplicaSet': replicated('ReplicaSet', 'deployment', () => ({ replicas: 0 })),
  'apps/StatefulSet': {
    ...replicated('StatefulSet', 'statefulset', () => ({ replicas: 0, availableReplicas: 0 })),
    validateUpdate: (object, old, subresource) => (subresource === '' ? statefulSetChange(object, old) : []),
  },
  ...batchRules,
};

function replicated(kind: string, noun: string, initialStatus: () => unknown): KindRules {
  return {
    namespaced: true,
    generation: 'counted',
    initialStatus,
    validate(object) {
      const spec = objectAt(object, 'spec');
      return [
        ...nonNegative('spec.replicas', spec['replicas']),
        ...selectorProblems(spec, noun),
        ...templateErrors(objectAt(spec, 'template'), 'spec.template'),
        ...mismatch(spec['selector'], objectAt(spec, 'template')),
        ...onlyAlways(objectAt(objectAt(spec, 'template'), 'spec'), kind),
      ];
    },
    validateUpdate: (object, old, subresource) => (subresource === '' ? selectorChange(object, old) : []),
    warnings: (object) => warningsOf('apps', kind, object),
  };
}

function selectorProblems(spec: JsonObject, noun: string): FieldError[] {
  if (!hasField(spec, 'selector')) return [requiredField('spec.selector', '')];
  const selector = objectAt(spec, 'selector');
  const empty = isEmptySelector(selector)
    ? [invalidValue('spec.selector', selector, `empty selector is invalid for ${noun}`)]
    : [];
  return [...selectorErrors(spec, 'selector', 'spec.selector'), ...empty];
}

function mismatch(selector: unknown, template: JsonObject): FieldError[] {
  if (!isObject(selector) || isEmptySelector(selector)) return [];
  const labels = objectAt(objectAt(template, 'metadata'), 'labels');
  if (matchesLabelSelector(selector, labels as Record<string, string>)) return [];
  return [invalidValue('spec.template.metadata.labels', labels, '`selector` does not match template `labels`')];
}

function onlyAlways(spec: JsonObject, kind: string): FieldError[] {
  const policy = textAt(spec, 'restartPolicy');
  const path = 'spec.template.spec';
  return [
    ...(policy === 'Always' ? [] : [notSupported(`${path}.restartPolicy`, policy, ['Always'])]),
    ...(hasField(spec, 'activeDeadlineSeconds')
      ? [forbiddenField(`${path}.activeDeadlineSeconds`, `activeDeadlineSeconds in ${kind} is not Supported`)]
      : []),
  ];
}

function selectorChange(object: ApiObject, old: ApiObject): FieldError[] {
  const { selector } = objectAt(object, 'spec');
  return semanticEqual(selector, objectAt(old, 'spec')['selector'])
    ? []
    : [invalidValue('spec.selector', selector, 'field is immutable')];
}

const STATEFUL_SET_MUTABLE = [
  'replicas',
  'ordinals',
  'template',
  'updateStrategy',
  'revisionHistoryLimit',
  'persistentVolumeClaimRetentionPolicy',
  'minReadySeconds',
];

function statefulSetChange(object: ApiObject, old: ApiObject): FieldError[] {
  const fixed = (spec: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(spec).filter(([field]) => !STATEFUL_SET_MUTABLE.includes(field)));
  if (semanticEqual(fixed(objectAt(object, 'spec')), fixed(objectAt(old, 'spec')))) return [];
  const fields = STATEFUL_SET_MUTABLE.map((field) => `'${field}'`);
  const list = `${fields.slice(0, -1).join(', ')} and ${fields.at(-1) ?? ''}`;
  return [forbiddenField('spec', `updates to statefulset spec for fields other than ${list} are forbidden`)];
}

function controllerErrors(object: ApiObject): FieldError[] {
  const spec = objectAt(object, 'spec');
  const selector = objectAt(spec, 'selector');
  const isEmpty = Object.keys(selector).length === 0;
  return [
    ...(isEmpty ? [requiredField('spec.selector', '')] : []),
    ...nonNegative('spec.replicas', spec['replicas']),
    ...(hasField(spec, 'template') ? [] : [requiredField('spec.template', '')]),
    ...(hasField(spec, 'template') ? templateErrors(objectAt(spec, 'template'), 'spec.template') : []),
    ...mismatch({ matchLabels: selector }, objectAt(spec, 'template')),
  ];
}
