/**
 * Validates written pods. Checks only the rules that users of a development cluster are likely to violate.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go
 */
import { defined } from '../../kube/defined.ts';
import { semanticEqual } from '../../kube/equality.ts';
import { type FieldError, forbiddenField } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import type { JsonObject } from '../../kube/types.ts';
import { podErrors } from '../../kube/validation.ts';
import { type ApiObject, at, hasField, itemsAt, nestedObject, textAt } from '../types.ts';
import { type KindRules, restore } from './strategy.ts';

export const podRules: KindRules = {
  generation: 'counted',
  initialStatus: (pod) => ({ phase: 'Pending', qosClass: qosClass(nestedObject(pod, 'spec')) }),
  prepareForUpdate(pod, old, subresource) {
    const [spec, before] = [nestedObject(pod, 'spec'), nestedObject(old, 'spec')];
    const { ephemeralContainers } = spec;
    if (subresource === 'ephemeralcontainers') restoreSpec(pod, old, { ...before, ephemeralContainers });
    if (subresource === 'resize') restoreSpec(pod, old, withResources(before, spec));
    if (subresource === 'status') restoreStatus(pod, old);
  },
  validateCreate: (pod) =>
    itemsAt(pod, 'spec', 'ephemeralContainers').length > 0
      ? [forbiddenField('spec.ephemeralContainers', 'cannot be set on create')]
      : [],
  validateUpdate(pod, old, subresource) {
    const [spec, before] = [nestedObject(pod, 'spec'), nestedObject(old, 'spec')];
    if (subresource === '') return updateErrors(spec, before);
    if (subresource !== 'ephemeralcontainers') return [];
    return [...podErrors(pod), ...ephemeralUpdateErrors(spec, before)];
  },
  warnings(pod) {
    const key = 'seccomp.security.alpha.kubernetes.io/pod';
    const isIgnored =
      hasField(pod, 'metadata', 'annotations', key) && !hasField(pod, 'spec', 'securityContext', 'seccompProfile');
    return isIgnored
      ? [`metadata.annotations[${key}]: non-functional in v1.27+; use the "seccompProfile" field instead`]
      : [];
  },
};

/** Sets the spec, and restores the metadata, which a request to a subresource cannot change. */
function restoreSpec(pod: ApiObject, old: ApiObject, spec: JsonObject): void {
  pod['spec'] = structuredClone(spec);
  const mutableMetadata = ['labels', 'annotations', 'finalizers', 'ownerReferences', 'deletionTimestamp'];
  restore((pod.metadata ??= {}), old.metadata ?? {}, (field) => mutableMetadata.includes(field));
}

/** Returns the spec with the container resources of another spec. */
function withResources(spec: JsonObject, other: JsonObject): JsonObject {
  const containers = itemsAt(spec, 'containers').map((container, index) => {
    const { resources } = itemsAt(other, 'containers')[index] ?? container;
    return { ...container, ...defined({ resources }) };
  });
  return { ...spec, containers };
}

/** Keeps the QoS class, which kubelets may omit, and the owner references, which they cannot change. */
function restoreStatus(pod: ApiObject, old: ApiObject): void {
  restore((pod.metadata ??= {}), old.metadata ?? {}, (field) => field === 'ownerReferences');
  const oldClass = at(old, 'status', 'qosClass');
  pod['status'] = { ...defined({ qosClass: oldClass }), ...nestedObject(pod, 'status') };
}

const MUTABLE = [
  '`spec.containers[*].image`',
  '`spec.initContainers[*].image`',
  '`spec.activeDeadlineSeconds`',
  '`spec.tolerations` (only additions to existing tolerations)',
  '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
];

/** Returns errors for changes to immutable fields. The upstream message also contains a diff, which is omitted here. */
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

/** Returns the new spec, with the old values of the mutable fields. */
function withImmutableFields(spec: JsonObject, before: JsonObject): JsonObject {
  const withOldImages = (list: string): JsonObject[] =>
    itemsAt(spec, list).map((container, index) => ({ ...container, image: itemsAt(before, list)[index]?.['image'] }));
  const { activeDeadlineSeconds, schedulingGates, tolerations } = before;
  return {
    ...spec,
    containers: withOldImages('containers'),
    ...(hasField(spec, 'initContainers') ? { initContainers: withOldImages('initContainers') } : {}),
    activeDeadlineSeconds,
    schedulingGates,
    tolerations,
  };
}

function ephemeralUpdateErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const current = itemsAt(spec, 'ephemeralContainers');
  return itemsAt(before, 'ephemeralContainers').flatMap((container) => {
    const name = textAt(container, 'name');
    const same = current.find((existing) => textAt(existing, 'name') === name);
    if (semanticEqual(same, container)) return [];
    const detail = `existing ephemeral containers ${quote(name)} may not be ${same ? 'changed' : 'removed'}\n`;
    return [forbiddenField('spec.ephemeralContainers', detail)];
  });
}

/**
 * Returns a pod's quality of service class. Compares quantities as text.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/helper/qos/qos.go
 */
function qosClass(spec: JsonObject): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const containers = [...itemsAt(spec, 'containers'), ...itemsAt(spec, 'initContainers')];
  const amounts = containers.flatMap((container) =>
    ['cpu', 'memory'].map((name) => {
      const amount = (field: string): string => {
        const value = textAt(container, 'resources', field, name);
        return Number.parseFloat(value || '0') === 0 ? '0' : value;
      };
      return { request: amount('requests'), limit: amount('limits') };
    }),
  );
  if (amounts.every(({ request, limit }) => request === '0' && limit === '0')) return 'BestEffort';
  return amounts.every(({ request, limit }) => limit !== '0' && request === limit) ? 'Guaranteed' : 'Burstable';
}
