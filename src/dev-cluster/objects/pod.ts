/**
 * Pods and pod templates. Checks only the rules that users of an evaluation cluster are likely to violate.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go
 */
import { semanticEqual } from '../../kube/equality.ts';
import {
  duplicateValue,
  forbiddenField,
  invalidValue,
  requiredField,
  type FieldError,
} from '../../kube/field-error.ts';
import { dnsLabelErrors } from '../../kube/names.ts';
import { quote } from '../../kube/text.ts';
import type { JsonObject } from '../../kube/types.ts';
import { at, hasField, itemsAt, objectAt, textAt, type ApiObject } from '../types.ts';
import { labelErrors, restore, type KindRules } from './strategy.ts';

/** Rules for pods. */
export const podRules: KindRules = {
  generation: 'counted',
  initialStatus: () => ({ phase: 'Pending' }),
  prepareForUpdate(pod, old, subresource) {
    if (subresource === 'ephemeralcontainers') restoreOtherFields(pod, old);
  },
  validate: (pod) => podSpecErrors(objectAt(pod, 'spec'), 'spec'),
  validateCreate: (pod) =>
    itemsAt(pod, 'spec', 'ephemeralContainers').length > 0
      ? [forbiddenField('spec.ephemeralContainers', 'cannot be set on create')]
      : [],
  validateUpdate(pod, old, subresource) {
    const [spec, before] = [objectAt(pod, 'spec'), objectAt(old, 'spec')];
    if (subresource === '') return updateErrors(spec, before);
    if (subresource !== 'ephemeralcontainers') return [];
    return [...podSpecErrors(spec, 'spec'), ...ephemeralUpdateErrors(spec, before)];
  },
};

/** Restores the fields that an update of ephemeral containers cannot change. */
function restoreOtherFields(pod: ApiObject, old: ApiObject): void {
  const ephemeralContainers = at(pod, 'spec', 'ephemeralContainers');
  pod['spec'] = structuredClone({ ...objectAt(old, 'spec'), ephemeralContainers });
  const kept = ['labels', 'annotations', 'finalizers', 'ownerReferences', 'deletionTimestamp'];
  restore((pod.metadata ??= {}), old.metadata ?? {}, (field) => kept.includes(field));
}

/** Validates the pod template of a workload. */
export function templateErrors(template: JsonObject, path: string): FieldError[] {
  return [
    ...labelErrors(at(template, 'metadata', 'labels'), `${path}.labels`),
    ...podSpecErrors(objectAt(template, 'spec'), `${path}.spec`),
  ];
}

function podSpecErrors(spec: JsonObject, path: string): FieldError[] {
  const seen = new Set<unknown>();
  return [
    ...(itemsAt(spec, 'containers').length === 0 ? [requiredField(`${path}.containers`, '')] : []),
    ...['containers', 'initContainers', 'ephemeralContainers'].flatMap((list) =>
      itemsAt(spec, list).flatMap((container, index) => {
        const isTaken = seen.has(container['name']);
        seen.add(container['name']);
        const containerPath = `${path}.${list}[${index}]`;
        return [
          ...nameErrors(textAt(container, 'name'), `${containerPath}.name`),
          ...(textAt(container, 'image') === '' ? [requiredField(`${containerPath}.image`, '')] : []),
          ...(isTaken ? [duplicateValue(`${containerPath}.name`, container['name'])] : []),
        ];
      }),
    ),
  ];
}

function nameErrors(name: string, path: string): FieldError[] {
  if (name === '') return [requiredField(path, '')];
  return dnsLabelErrors(name).map((error) => invalidValue(path, name, error));
}

const MUTABLE = [
  '`spec.containers[*].image`',
  '`spec.initContainers[*].image`',
  '`spec.activeDeadlineSeconds`',
  '`spec.tolerations` (only additions to existing tolerations)',
  '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
];

/** The upstream message also contains a diff, which is omitted. */
function updateErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const lists = ['containers', 'initContainers'];
  const changed = lists.find((list) => itemsAt(spec, list).length !== itemsAt(before, list).length);
  if (changed !== undefined) {
    return [forbiddenField(`spec.${changed}`, 'pod updates may not add or remove containers')];
  }
  return semanticEqual(withImmutableFields(spec, before), before)
    ? []
    : [forbiddenField('spec', `pod updates may not change fields other than ${MUTABLE.join(',')}`)];
}

/** Returns the new spec with the old values of the fields that can be changed. */
function withImmutableFields(spec: JsonObject, before: JsonObject): JsonObject {
  const withOldImages = (list: string): JsonObject[] =>
    itemsAt(spec, list).map((container, index) => ({ ...container, image: itemsAt(before, list)[index]?.['image'] }));
  const { activeDeadlineSeconds, schedulingGates, tolerations } = before;
  return {
    ...spec,
    containers: withOldImages('containers'),
    ...(hasField(spec, 'initContainers') ? { initContainers: withOldImages('initContainers') } : {}),
    ...{ activeDeadlineSeconds, schedulingGates, tolerations },
  };
}

function ephemeralUpdateErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const current = itemsAt(spec, 'ephemeralContainers');
  return itemsAt(before, 'ephemeralContainers').flatMap((container) => {
    const name = textAt(container, 'name');
    const same = current.find((one) => textAt(one, 'name') === name);
    if (semanticEqual(same, container)) return [];
    const detail = `existing ephemeral containers ${quote(name)} may not be ${same ? 'changed' : 'removed'}\n`;
    return [forbiddenField('spec.ephemeralContainers', detail)];
  });
}
