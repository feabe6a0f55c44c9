import { semanticEqual } from '../../../kube/equality.ts';
import { forbiddenField, invalidValue, type FieldError } from '../../../kube/field-error.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt } from '../read.ts';
import { lineDiff } from '../line-diff.ts';
import type { ApiObject } from '../../types.ts';
import { qosClassOf } from './qos.ts';
import { inRange } from '../errors.ts';

const MUTABLE = [
  '`spec.containers[*].image`',
  '`spec.initContainers[*].image`',
  '`spec.activeDeadlineSeconds`',
  '`spec.tolerations` (only additions to existing tolerations)',
  '`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
];

/**
 * Field errors of a change of a pod: nearly nothing may change.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go
 */
export function validatePodUpdate(pod: ApiObject, old: ApiObject): FieldError[] {
  const spec = objectAt(pod, 'spec');
  const before = objectAt(old, 'spec');
  for (const list of ['containers', 'initContainers']) {
    if (objectsAt(spec, list).length === objectsAt(before, list).length) continue;
    return [forbiddenField(`spec.${list}`, 'pod updates may not add or remove containers')];
  }
  const errors = [...deadlineErrors(spec, before), ...tolerationErrors(spec, before), ...gateErrors(spec, before)];
  const rest = withMutableFieldsOf(spec, before);
  if (semanticEqual(rest, before)) return errors;
  const detail = `pod updates may not change fields other than ${MUTABLE.join(',')}\n${lineDiff(before, rest)}`;
  return [...errors, forbiddenField('spec', detail)];
}

function deadlineErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const path = 'spec.activeDeadlineSeconds';
  const now = numberAt(spec, 'activeDeadlineSeconds');
  const then = numberAt(before, 'activeDeadlineSeconds');
  if (now === undefined) {
    return then === undefined ? [] : [invalidValue(path, null, 'must not update from a positive integer to nil value')];
  }
  const range = inRange(path, now, 0, 2147483647);
  if (range.length > 0 || then === undefined || then >= now) return range;
  return [invalidValue(path, now, 'must be less than or equal to previous value')];
}

function tolerationErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const kept = objectsAt(spec, 'tolerations');
  const isKept = (old: JsonObject): boolean =>
    kept.some((one) => semanticEqual(withoutSeconds(one), withoutSeconds(old)));
  return objectsAt(before, 'tolerations').every(isKept)
    ? []
    : [forbiddenField('spec.tolerations', 'existing toleration can not be modified except its tolerationSeconds')];
}

function withoutSeconds(toleration: JsonObject): JsonObject {
  return { ...toleration, tolerationSeconds: null };
}

function gateErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const old = new Set(objectsAt(before, 'schedulingGates').map((gate) => textAt(gate, 'name')));
  return objectsAt(spec, 'schedulingGates').flatMap((gate, index) =>
    old.has(textAt(gate, 'name'))
      ? []
      : [
          forbiddenField(
            `spec.schedulingGates[${index}].name`,
            'only deletion is allowed, but found new scheduling gate',
          ),
        ],
  );
}

/** The new spec, with the fields that may change as they were. */
function withMutableFieldsOf(spec: JsonObject, before: JsonObject): JsonObject {
  const images = (list: string): JsonObject[] =>
    objectsAt(spec, list).map((container, index) => ({
      ...container,
      image: objectsAt(before, list)[index]?.['image'],
    }));
  const graceSeconds = numberAt(before, 'terminationGracePeriodSeconds') ?? 0;
  const isMended = graceSeconds < 0 && numberAt(spec, 'terminationGracePeriodSeconds') === 1;
  return {
    ...spec,
    containers: images('containers'),
    ...(hasField(spec, 'initContainers') ? { initContainers: images('initContainers') } : {}),
    activeDeadlineSeconds: before['activeDeadlineSeconds'],
    schedulingGates: before['schedulingGates'],
    tolerations: before['tolerations'],
    ...(isMended ? { terminationGracePeriodSeconds: graceSeconds } : {}),
  };
}

/** Field errors of adding ephemeral containers: those that exist stay as they are. */
export function validateEphemeralUpdate(pod: ApiObject, old: ApiObject): FieldError[] {
  const path = 'spec.ephemeralContainers';
  const now = objectsAt(objectAt(pod, 'spec'), 'ephemeralContainers');
  return objectsAt(objectAt(old, 'spec'), 'ephemeralContainers').flatMap((container) => {
    const name = textAt(container, 'name');
    const same = now.find((one) => textAt(one, 'name') === name);
    if (!same) return [forbiddenField(path, `existing ephemeral containers "${name}" may not be removed\n`)];
    if (semanticEqual(same, container)) return [];
    const detail = `existing ephemeral containers "${name}" may not be changed\n${lineDiff(container, same)}`;
    return [forbiddenField(path, detail)];
  });
}

const RESIZABLE = new Set(['cpu', 'memory']);

/** Field errors of a change of resources in place. */
export function validateResize(pod: ApiObject, old: ApiObject): FieldError[] {
  const spec = objectAt(pod, 'spec');
  const before = objectAt(old, 'spec');
  const qosClass = qosClassOf(spec);
  const containers = objectsAt(spec, 'containers');
  const olds = objectsAt(before, 'containers');
  if (containers.length !== olds.length) {
    return [forbiddenField('spec.containers', 'containers may not be added or removed on resize')];
  }
  return [
    ...(qosClass === qosClassOf(before)
      ? []
      : [invalidValue('spec', qosClass, 'Pod QOS Class may not change as a result of resizing')]),
    ...containers.flatMap((container, index) => removedErrors(container, olds[index], `spec.containers[${index}]`)),
    ...(containers.every((container, index) => onlyResized(container, olds[index]))
      ? []
      : [forbiddenField('spec', 'only cpu and memory resources are mutable')]),
  ];
}

function removedErrors(container: JsonObject, old: JsonObject | undefined, path: string): FieldError[] {
  return ['requests', 'limits'].flatMap((field) => {
    const before = Object.keys(objectAt(objectAt(old, 'resources'), field));
    const now = objectAt(objectAt(container, 'resources'), field);
    return before.some((name) => !Object.hasOwn(now, name))
      ? [forbiddenField(`${path}.resources.${field}`, `resource ${field} cannot be removed`)]
      : [];
  });
}

function onlyResized(container: JsonObject, old: JsonObject | undefined): boolean {
  return semanticEqual(withoutResizable(container), withoutResizable(old ?? {}));
}

function withoutResizable(container: JsonObject): JsonObject {
  const resources = objectAt(container, 'resources');
  const others = (field: string): JsonObject =>
    Object.fromEntries(Object.entries(objectAt(resources, field)).filter(([name]) => !RESIZABLE.has(name)));
  return { ...container, resources: { ...resources, requests: others('requests'), limits: others('limits') } };
}
