import { forbiddenField, type FieldError } from '../../../kube/field-error.ts';
import { restore, type KindRules } from '../strategy.ts';
import { objectAt, objectsAt, textAt } from '../read.ts';
import type { ApiObject } from '../../types.ts';
import { paddedImage } from './containers.ts';
import { qosClassOf } from './qos.ts';
import { validateEphemeralUpdate, validatePodUpdate, validateResize } from './update.ts';
import { validatePodSpec } from './validate.ts';
import { podWarnings } from './warnings.ts';

/**
 * Pods.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/pod/strategy.go
 */
export const podRules: KindRules = {
  namespaced: true,
  generation: 'counted',
  initialStatus: (pod) => ({ phase: 'Pending', ...gated(pod), qosClass: qosClassOf(objectAt(pod, 'spec')) }),
  prepareForUpdate(pod, old, subresource) {
    if (subresource === 'ephemeralcontainers') keepBut(pod, old, ['ephemeralContainers']);
    if (subresource === 'resize') keepBut(pod, old, ['containers', 'initContainers']);
    if (subresource === 'status') keepIdentity(pod, old);
  },
  validate: (pod) => [...validatePodSpec(objectAt(pod, 'spec'), 'spec', 'pod'), ...podOnlyErrors(pod)],
  validateCreate: (pod) => {
    const spec = objectAt(pod, 'spec');
    return [
      ...(objectsAt(spec, 'ephemeralContainers').length > 0
        ? [forbiddenField('spec.ephemeralContainers', 'cannot be set on create')]
        : []),
      ...(textAt(spec, 'nodeName') !== '' && objectsAt(spec, 'schedulingGates').length > 0
        ? [forbiddenField('spec.nodeName', 'cannot be set until all schedulingGates have been cleared')]
        : []),
    ];
  },
  validateUpdate(pod, old, subresource) {
    if (subresource === '') return validatePodUpdate(pod, old);
    if (subresource === 'ephemeralcontainers') {
      return [...validatePodSpec(objectAt(pod, 'spec'), 'spec', 'pod'), ...validateEphemeralUpdate(pod, old)];
    }
    return subresource === 'resize'
      ? [...validatePodSpec(objectAt(pod, 'spec'), 'spec', 'pod'), ...validateResize(pod, old)]
      : [];
  },
  warnings: podWarnings,
};

function podOnlyErrors(pod: ApiObject): FieldError[] {
  const spec = objectAt(pod, 'spec');
  return ['containers', 'initContainers'].flatMap((list) =>
    objectsAt(spec, list).flatMap((container, index) => paddedImage(container, `spec.${list}[${index}]`)),
  );
}

/** A pod with scheduling gates says so from the start. */
function gated(pod: ApiObject): object {
  if (objectsAt(objectAt(pod, 'spec'), 'schedulingGates').length === 0) return {};
  const message = 'Scheduling is blocked due to non-empty scheduling gates';
  return { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'SchedulingGated', message }] };
}

/** Of metadata, a request for a part of the spec changes nothing but what the server keeps. */
const META = ['labels', 'annotations', 'finalizers', 'ownerReferences', 'deletionTimestamp'];

function keepBut(pod: ApiObject, old: ApiObject, fields: readonly string[]): void {
  const spec = objectAt(pod, 'spec');
  const changed = Object.fromEntries(
    fields.map((field) => [field, spec[field]] as const).filter(([, value]) => value != null),
  );
  pod['spec'] = { ...structuredClone(objectAt(old, 'spec')), ...changed };
  restoreMetadata(pod, old, META);
}

/** Old kubelets corrupt owner references, and leave out the QoS class. */
function keepIdentity(pod: ApiObject, old: ApiObject): void {
  restoreMetadata(pod, old, ['ownerReferences']);
  const { qosClass } = objectAt(old, 'status');
  pod['status'] = { ...(qosClass == null ? {} : { qosClass }), ...objectAt(pod, 'status') };
}

function restoreMetadata(pod: ApiObject, old: ApiObject, fields: readonly string[]): void {
  pod.metadata ??= {};
  restore(pod.metadata, old.metadata ?? {}, (field) => fields.includes(field));
}
