/**
 * Pods and pod templates. Only the rules that users of a trial cluster meet are checked.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go
 */
import { semanticEqual } from '../../kube/equality.ts';
import {
  duplicateValue,
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../kube/field-error.ts';
import { dnsLabelErrors } from '../../kube/names.ts';
import { quote } from '../../kube/text.ts';
import type { JsonObject } from '../../kube/types.ts';
import { parseQuantity } from '../../kube/units.ts';
import { at, hasField, itemsAt, numberAt, objectAt, textAt, textsAt, type ApiObject } from '../types.ts';
import { labelErrors, restore, type KindRules } from './strategy.ts';

/** The rules of pods. */
export const podRules: KindRules = {
  generation: 'counted',
  initialStatus: (pod) => ({ phase: 'Pending', qosClass: qosClass(objectAt(pod, 'spec')) }),
  prepareForUpdate(pod, old, subresource) {
    const [spec, before] = [objectAt(pod, 'spec'), objectAt(old, 'spec')];
    const { ephemeralContainers } = spec;
    if (subresource === 'ephemeralcontainers') restoreSpec(pod, old, { ...before, ephemeralContainers });
    if (subresource === 'resize') restoreSpec(pod, old, resized(spec, before));
    if (subresource === 'status') restoreStatus(pod, old);
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
  warnings(pod) {
    const key = 'seccomp.security.alpha.kubernetes.io/pod';
    const isIgnored =
      hasField(pod, 'metadata', 'annotations', key) && !hasField(pod, 'spec', 'securityContext', 'seccompProfile');
    return isIgnored
      ? [`metadata.annotations[${key}]: non-functional in v1.27+; use the "seccompProfile" field instead`]
      : [];
  },
};

/** Sets the spec, and restores the metadata that a subresource cannot change. */
function restoreSpec(pod: ApiObject, old: ApiObject, spec: JsonObject): void {
  pod['spec'] = structuredClone(spec);
  const kept = ['labels', 'annotations', 'finalizers', 'ownerReferences', 'deletionTimestamp'];
  restore((pod.metadata ??= {}), old.metadata ?? {}, (field) => kept.includes(field));
}

/** Returns the old spec with the new resources of its containers. */
function resized(spec: JsonObject, before: JsonObject): JsonObject {
  const containers = itemsAt(before, 'containers').map((container, index) => {
    const { resources } = itemsAt(spec, 'containers')[index] ?? container;
    return { ...container, ...(resources === undefined ? {} : { resources }) };
  });
  return { ...before, containers };
}

/** Kubelets can omit the QoS class, and cannot change owner references. */
function restoreStatus(pod: ApiObject, old: ApiObject): void {
  restore((pod.metadata ??= {}), old.metadata ?? {}, (field) => field === 'ownerReferences');
  const qosClass = at(old, 'status', 'qosClass');
  pod['status'] = { ...(qosClass === undefined ? {} : { qosClass }), ...objectAt(pod, 'status') };
}

/** Validates the pod template of a workload. */
export function templateErrors(template: JsonObject, path: string): FieldError[] {
  return [
    ...labelErrors(at(template, 'metadata', 'labels'), `${path}.labels`),
    ...podSpecErrors(objectAt(template, 'spec'), `${path}.spec`),
  ];
}

function podSpecErrors(spec: JsonObject, path: string): FieldError[] {
  const volumes = itemsAt(spec, 'volumes');
  const names = new Set(volumes.map(({ name }) => name));
  const seen = new Set<unknown>();
  return [
    ...volumes.flatMap((volume, index) => volumeErrors(volume, `${path}.volumes[${index}]`)),
    ...(itemsAt(spec, 'containers').length === 0 ? [requiredField(`${path}.containers`, '')] : []),
    ...['containers', 'initContainers', 'ephemeralContainers'].flatMap((list) =>
      itemsAt(spec, list).flatMap((container, index) => {
        const isTaken = seen.has(container['name']);
        seen.add(container['name']);
        const containerPath = `${path}.${list}[${index}]`;
        return [
          ...containerErrors(container, containerPath, spec, names),
          ...(isTaken ? [duplicateValue(`${containerPath}.name`, container['name'])] : []),
        ];
      }),
    ),
    ...supported(spec, 'restartPolicy', path, ['Always', 'OnFailure', 'Never']),
    ...labelErrors(spec['nodeSelector'], `${path}.nodeSelector`),
    ...seccompErrors(spec, path),
    ...hostUserErrors(spec, path),
  ];
}

function volumeErrors(volume: JsonObject, path: string): FieldError[] {
  const hasSource = Object.keys(volume).some((field) => field !== 'name' && hasField(volume, field));
  return [
    ...(hasSource ? [] : [requiredField(path, 'must specify a volume type')]),
    ...requiredLabel(`${path}.name`, textAt(volume, 'name')),
  ];
}

function requiredLabel(path: string, value: string): FieldError[] {
  if (value === '') return [requiredField(path, '')];
  return dnsLabelErrors(value).map((error) => invalidValue(path, value, error));
}

/** Validates a required field with one of several values. */
function supported(part: JsonObject, field: string, path: string, values: readonly string[]): FieldError[] {
  const value = textAt(part, field);
  if (value === '') return [requiredField(`${path}.${field}`, '')];
  return values.includes(value) ? [] : [notSupported(`${path}.${field}`, value, values)];
}

function containerErrors(
  container: JsonObject,
  path: string,
  spec: JsonObject,
  volumes: ReadonlySet<unknown>,
): FieldError[] {
  const mounts = itemsAt(container, 'volumeMounts').flatMap(({ name }, index): FieldError[] => {
    if (volumes.has(name)) return [];
    return [{ type: 'FieldValueNotFound', path: `${path}.volumeMounts[${index}].name`, value: name, detail: '' }];
  });
  return [
    ...requiredLabel(`${path}.name`, textAt(container, 'name')),
    ...(textAt(container, 'image') === '' ? [requiredField(`${path}.image`, '')] : []),
    ...itemsAt(container, 'ports').flatMap((port, index) => portErrors(port, `${path}.ports[${index}]`, spec)),
    ...mounts,
    ...supported(container, 'imagePullPolicy', path, ['Always', 'IfNotPresent', 'Never']),
    ...securityErrors(container, path, spec),
  ];
}

function portErrors(port: JsonObject, path: string, spec: JsonObject): FieldError[] {
  const [containerPort, hostPort] = [numberAt(port, 'containerPort'), numberAt(port, 'hostPort')];
  const isMismatch = spec['hostNetwork'] === true && hostPort !== 0 && hostPort !== containerPort;
  const detail = 'must match `containerPort` when `hostNetwork` is true';
  return isMismatch ? [invalidValue(`${path}.hostPort`, hostPort, detail)] : [];
}

function securityErrors(container: JsonObject, path: string, spec: JsonObject): FieldError[] {
  const context = objectAt(container, 'securityContext');
  const contextPath = `${path}.securityContext`;
  const { procMount, privileged, allowPrivilegeEscalation } = context;
  const contradict = (cause: string): FieldError =>
    invalidValue(contextPath, context, `cannot set \`allowPrivilegeEscalation\` to false and ${cause}`);
  const addsAdmin = textsAt(context, 'capabilities', 'add').includes('CAP_SYS_ADMIN');
  return [
    ...(procMount === 'Unmasked' && spec['hostUsers'] !== false
      ? [invalidValue(`${contextPath}.procMount`, procMount, '`hostUsers` must be false to use `Unmasked`')]
      : []),
    ...seccompErrors(container, path),
    ...(allowPrivilegeEscalation === false && privileged === true ? [contradict('`privileged` to true')] : []),
    ...(allowPrivilegeEscalation === false && addsAdmin ? [contradict('`capabilities.Add` CAP_SYS_ADMIN')] : []),
  ];
}

function seccompErrors(holder: JsonObject, path: string): FieldError[] {
  const profile = objectAt(holder, 'securityContext', 'seccompProfile');
  const profilePath = `${path}.securityContext.seccompProfile`;
  const isLocal = profile['type'] === 'Localhost';
  if (!hasField(holder, 'securityContext', 'seccompProfile')) return [];
  return [
    ...supported(profile, 'type', profilePath, ['Localhost', 'RuntimeDefault', 'Unconfined']),
    ...(isLocal && !hasField(profile, 'localhostProfile')
      ? [requiredField(`${profilePath}.localhostProfile`, 'must be set when seccomp type is Localhost')]
      : []),
  ];
}

function hostUserErrors(spec: JsonObject, path: string): FieldError[] {
  if (spec['hostUsers'] !== false) return [];
  const flags = { hostNetwork: 'hostNetwork', hostPID: 'HostPID', hostIPC: 'HostIPC' };
  return Object.entries(flags)
    .filter(([flag]) => spec[flag] === true)
    .map(([, field]) => forbiddenField(`${path}.${field}`, 'when `hostUsers` is false'));
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

/**
 * Returns the quality of service class of a pod.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/helper/qos/qos.go
 */
function qosClass(spec: JsonObject): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const resources = [...itemsAt(spec, 'containers'), ...itemsAt(spec, 'initContainers')].map((container) =>
    objectAt(container, 'resources'),
  );
  const amounts = resources.flatMap((one) =>
    ['cpu', 'memory'].map((name) => {
      const [request, limit] = ['requests', 'limits'].map((field) => parseQuantity(objectAt(one, field)[name]) ?? 0n);
      return { request, limit };
    }),
  );
  if (amounts.every(({ request, limit }) => request === 0n && limit === 0n)) return 'BestEffort';
  return amounts.every(({ request, limit }) => limit !== 0n && request === limit) ? 'Guaranteed' : 'Burstable';
}
