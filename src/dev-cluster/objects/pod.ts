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
import { dnsLabelErrors, dnsSubdomainErrors } from '../../kube/names.ts';
import { CONTAINER_LISTS, podTemplatePath } from '../../kube/pod.ts';
import { quote } from '../../kube/text.ts';
import type { JsonObject } from '../../kube/types.ts';
import { parseQuantity } from '../../kube/units.ts';
import type { ApiObject } from '../types.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt, textsAt } from './read.ts';
import { annotationErrors, labelErrors, restore, type KindRules } from './strategy.ts';

/** The rules of pods. */
export const podRules: KindRules = {
  namespaced: true,
  generation: 'counted',
  initialStatus: (pod) => ({ phase: 'Pending', qosClass: qosClass(objectAt(pod, 'spec')) }),
  prepareForUpdate(pod, old, subresource) {
    if (subresource === 'ephemeralcontainers') restoreExcept(pod, old, ['ephemeralContainers']);
    if (subresource === 'resize') restoreExcept(pod, old, ['containers', 'initContainers']);
    if (subresource === 'status') restoreStatus(pod, old);
  },
  validate: (pod) => podSpecErrors(objectAt(pod, 'spec'), 'spec'),
  validateCreate: (pod) =>
    objectsAt(objectAt(pod, 'spec'), 'ephemeralContainers').length > 0
      ? [forbiddenField('spec.ephemeralContainers', 'cannot be set on create')]
      : [],
  validateUpdate(pod, old, subresource) {
    const [spec, before] = [objectAt(pod, 'spec'), objectAt(old, 'spec')];
    if (subresource === '') return updateErrors(spec, before);
    if (subresource === 'ephemeralcontainers') {
      return [...podSpecErrors(spec, 'spec'), ...ephemeralUpdateErrors(spec, before)];
    }
    return subresource === 'resize' ? [...podSpecErrors(spec, 'spec'), ...resizeErrors(spec, before)] : [];
  },
  warnings(pod) {
    const errors = dnsLabelErrors(textAt(pod.metadata, 'name'));
    const hostname = `metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [${errors.join(' ')}]`;
    return [...(errors.length > 0 ? [hostname] : []), ...podWarnings(pod.metadata, objectAt(pod, 'spec'), '')];
  },
};

function restoreExcept(pod: ApiObject, old: ApiObject, fields: readonly string[]): void {
  const spec = objectAt(pod, 'spec');
  const changed = fields.filter((field) => spec[field] != null).map((field) => [field, spec[field]] as const);
  pod['spec'] = { ...structuredClone(objectAt(old, 'spec')), ...Object.fromEntries(changed) };
  const kept = ['labels', 'annotations', 'finalizers', 'ownerReferences', 'deletionTimestamp'];
  restore((pod.metadata ??= {}), old.metadata ?? {}, (field) => kept.includes(field));
}

/** Kubelets can omit the QoS class, and cannot change owner references. */
function restoreStatus(pod: ApiObject, old: ApiObject): void {
  restore((pod.metadata ??= {}), old.metadata ?? {}, (field) => field === 'ownerReferences');
  const { qosClass: former } = objectAt(old, 'status');
  pod['status'] = { ...(former == null ? {} : { qosClass: former }), ...objectAt(pod, 'status') };
}

/** Validates the pod template of a workload. */
export function templateErrors(template: JsonObject, path: string): FieldError[] {
  const metadata = objectAt(template, 'metadata');
  const spec = objectAt(template, 'spec');
  const hasEphemeral = objectsAt(spec, 'ephemeralContainers').length > 0;
  const detail = 'ephemeral containers not allowed in pod template';
  return [
    ...labelErrors(metadata['labels'], `${path}.labels`),
    ...annotationErrors(metadata['annotations'], `${path}.annotations`),
    ...podSpecErrors(spec, `${path}.spec`),
    ...(hasEphemeral ? [forbiddenField(`${path}.spec.ephemeralContainers`, detail)] : []),
  ];
}

function podSpecErrors(spec: JsonObject, path: string): FieldError[] {
  const context = objectAt(spec, 'securityContext');
  const containers = CONTAINER_LISTS.flatMap((list) =>
    objectsAt(spec, list).map((container, index) => ({ list, container, at: `${path}.${list}[${index}]` })),
  );
  const { errors: volumes, names } = volumeErrors(spec, `${path}.volumes`);
  const [regular, others] = [
    containers.filter(({ list }) => list === 'containers'),
    containers.filter(({ list }) => list !== 'containers'),
  ];
  const seen = new Set<string>();
  return [
    ...volumes,
    ...(regular.length === 0 ? [requiredField(`${path}.containers`, '')] : []),
    ...[...regular, ...others].flatMap(({ list, container, at }) => [
      ...containerErrors(container, at, spec, names),
      ...duplicateName(container, seen, at),
      ...(list === 'ephemeralContainers' ? ephemeralErrors(container, at, seen) : []),
    ]),
    ...supported(spec, 'restartPolicy', path, ['Always', 'OnFailure', 'Never']),
    ...supported(spec, 'dnsPolicy', path, ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None']),
    ...labelErrors(spec['nodeSelector'], `${path}.nodeSelector`),
    ...idErrors(context, ['fsGroup', 'runAsUser', 'runAsGroup'], `${path}.securityContext`),
    ...seccompErrors(context, `${path}.securityContext.seccompProfile`),
    ...hostUserErrors(spec, path),
    ...['serviceAccountName', 'nodeName', 'priorityClassName', 'runtimeClassName'].flatMap((field) => {
      const name = textAt(spec, field);
      return name === '' ? [] : dnsSubdomainErrors(name).map((error) => invalidValue(`${path}.${field}`, name, error));
    }),
  ];
}

function volumeErrors(spec: JsonObject, path: string): { errors: FieldError[]; names: ReadonlySet<string> } {
  const names = new Set<string>();
  const errors = objectsAt(spec, 'volumes').flatMap((volume, index) => {
    const at = `${path}[${index}]`;
    const name = textAt(volume, 'name');
    const [first, second] = Object.keys(volume).filter((field) => field !== 'name' && hasField(volume, field));
    const found = [
      ...(first === undefined ? [requiredField(at, 'must specify a volume type')] : []),
      ...(second === undefined ? [] : [forbiddenField(`${at}.${second}`, 'may not specify more than 1 volume type')]),
      ...requiredLabel(`${at}.name`, name),
      ...(names.has(name) ? [duplicateValue(`${at}.name`, name)] : []),
    ];
    names.add(name);
    return found;
  });
  return { errors, names };
}

function requiredLabel(path: string, value: string): FieldError[] {
  if (value === '') return [requiredField(path, '')];
  return dnsLabelErrors(value).map((error) => invalidValue(path, value, error));
}

function duplicateName(container: JsonObject, seen: Set<string>, path: string): FieldError[] {
  const name = textAt(container, 'name');
  const isTaken = seen.has(name);
  if (name !== '') seen.add(name);
  return isTaken ? [duplicateValue(`${path}.name`, name)] : [];
}

/** A required field with one of several values. */
function supported(part: JsonObject, field: string, path: string, values: readonly string[]): FieldError[] {
  const value = textAt(part, field);
  if (value === '') return [requiredField(`${path}.${field}`, '')];
  return values.includes(value) ? [] : [notSupported(`${path}.${field}`, value, values)];
}

function containerErrors(
  container: JsonObject,
  path: string,
  spec: JsonObject,
  volumes: ReadonlySet<string>,
): FieldError[] {
  return [
    ...requiredLabel(`${path}.name`, textAt(container, 'name')),
    ...(textAt(container, 'image') === '' ? [requiredField(`${path}.image`, '')] : []),
    ...objectsAt(container, 'ports').flatMap((port, index) => portErrors(port, `${path}.ports[${index}]`, spec)),
    ...objectsAt(container, 'env').flatMap((variable, index) =>
      textAt(variable, 'name') === '' ? [requiredField(`${path}.env[${index}].name`, '')] : [],
    ),
    ...mountErrors(container, `${path}.volumeMounts`, volumes),
    ...supported(container, 'imagePullPolicy', path, ['Always', 'IfNotPresent', 'Never']),
    ...resourceErrors(objectAt(container, 'resources'), `${path}.resources`),
    ...securityErrors(container, path, spec),
  ];
}

function portErrors(port: JsonObject, path: string, spec: JsonObject): FieldError[] {
  const [containerPort, hostPort] = [numberAt(port, 'containerPort') ?? 0, numberAt(port, 'hostPort') ?? 0];
  const mismatch = invalidValue(`${path}.hostPort`, hostPort, 'must match `containerPort` when `hostNetwork` is true');
  const isMismatch = spec['hostNetwork'] === true && hostPort !== 0 && hostPort !== containerPort;
  return [
    ...(containerPort === 0
      ? [requiredField(`${path}.containerPort`, '')]
      : portNumberErrors(`${path}.containerPort`, containerPort)),
    ...(hostPort === 0 ? [] : portNumberErrors(`${path}.hostPort`, hostPort)),
    ...supported(port, 'protocol', path, ['SCTP', 'TCP', 'UDP']),
    ...(isMismatch ? [mismatch] : []),
  ];
}

/** Validates a port number. */
export function portNumberErrors(path: string, port: number): FieldError[] {
  return port >= 1 && port <= 65535 ? [] : [invalidValue(path, port, 'must be between 1 and 65535, inclusive')];
}

function mountErrors(container: JsonObject, path: string, volumes: ReadonlySet<string>): FieldError[] {
  const mountPaths = new Set<string>();
  return objectsAt(container, 'volumeMounts').flatMap((mount, index) => {
    const [name, mountPath] = [textAt(mount, 'name'), textAt(mount, 'mountPath')];
    const isTaken = mountPaths.has(mountPath);
    mountPaths.add(mountPath);
    const missing: FieldError = { type: 'FieldValueNotFound', path: `${path}[${index}].name`, value: name, detail: '' };
    return [
      ...(name === '' ? [requiredField(`${path}[${index}].name`, '')] : []),
      ...(volumes.has(name) ? [] : [missing]),
      ...(mountPath === '' ? [requiredField(`${path}[${index}].mountPath`, '')] : []),
      ...(isTaken ? [invalidValue(`${path}[${index}].mountPath`, mountPath, 'must be unique')] : []),
    ];
  });
}

function resourceErrors(resources: JsonObject, path: string): FieldError[] {
  const limits = objectAt(resources, 'limits');
  return Object.entries(objectAt(resources, 'requests')).flatMap(([name, request]) => {
    const limit = Object.hasOwn(limits, name) ? limits[name] : undefined;
    if (typeof limit !== 'string' || (parseQuantity(request) ?? 0n) <= (parseQuantity(limit) ?? 0n)) return [];
    return [invalidValue(`${path}.requests`, request, `must be less than or equal to ${name} limit of ${limit}`)];
  });
}

function securityErrors(container: JsonObject, path: string, spec: JsonObject): FieldError[] {
  const context = objectAt(container, 'securityContext');
  const at = `${path}.securityContext`;
  const { procMount, privileged, allowPrivilegeEscalation } = context;
  const isContradiction = (flag: boolean): boolean => allowPrivilegeEscalation === false && flag;
  const prefix = 'cannot set `allowPrivilegeEscalation` to false and';
  const added = textsAt(objectAt(context, 'capabilities'), 'add');
  return [
    ...idErrors(context, ['runAsUser', 'runAsGroup'], at),
    ...(hasField(context, 'procMount') ? supported(context, 'procMount', at, ['Default', 'Unmasked']) : []),
    ...(procMount === 'Unmasked' && spec['hostUsers'] !== false
      ? [invalidValue(`${at}.procMount`, procMount, '`hostUsers` must be false to use `Unmasked`')]
      : []),
    ...seccompErrors(context, `${at}.seccompProfile`),
    ...(isContradiction(privileged === true) ? [invalidValue(at, context, `${prefix} \`privileged\` to true`)] : []),
    ...(isContradiction(added.includes('CAP_SYS_ADMIN'))
      ? [invalidValue(at, context, `${prefix} \`capabilities.Add\` CAP_SYS_ADMIN`)]
      : []),
  ];
}

/** The largest user or group ID of Linux. */
const MAX_ID = 2147483647;

function idErrors(context: JsonObject, fields: readonly string[], path: string): FieldError[] {
  return fields.flatMap((field) => {
    const value = numberAt(context, field) ?? 0;
    const detail = `must be between 0 and ${MAX_ID}, inclusive`;
    return value >= 0 && value <= MAX_ID ? [] : [invalidValue(`${path}.${field}`, value, detail)];
  });
}

function seccompErrors(context: JsonObject, path: string): FieldError[] {
  if (!hasField(context, 'seccompProfile')) return [];
  const profile = objectAt(context, 'seccompProfile');
  const file = `${path}.localhostProfile`;
  const isLocal = profile['type'] === 'Localhost';
  const hasFile = hasField(profile, 'localhostProfile');
  return [
    ...supported(profile, 'type', path, ['Localhost', 'RuntimeDefault', 'Unconfined']),
    ...(isLocal && !hasFile ? [requiredField(file, 'must be set when seccomp type is Localhost')] : []),
    ...(!isLocal && hasFile ? [invalidValue(file, profile, 'can only be set when seccomp type is Localhost')] : []),
  ];
}

function hostUserErrors(spec: JsonObject, path: string): FieldError[] {
  if (spec['hostUsers'] !== false) return [];
  const flags = { hostNetwork: 'hostNetwork', hostPID: 'HostPID', hostIPC: 'HostIPC' };
  return Object.entries(flags)
    .filter(([flag]) => spec[flag] === true)
    .map(([, field]) => forbiddenField(`${path}.${field}`, 'when `hostUsers` is false'));
}

/** `names` contains the names of all containers so far. */
function ephemeralErrors(container: JsonObject, path: string, names: ReadonlySet<string>): FieldError[] {
  const target = textAt(container, 'targetContainerName');
  const forbidden = ['ports', 'livenessProbe', 'readinessProbe', 'startupProbe', 'lifecycle'];
  const missing: FieldError = {
    type: 'FieldValueNotFound',
    path: `${path}.targetContainerName`,
    value: target,
    detail: '',
  };
  return [
    ...(target === '' || names.has(target) ? [] : [missing]),
    ...[...forbidden, ...(Object.keys(objectAt(container, 'resources')).length > 0 ? ['resources'] : [])]
      .filter((field) => hasField(container, field))
      .map((field) => forbiddenField(`${path}.${field}`, 'cannot be set for an Ephemeral Container')),
  ];
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
  const resized = lists.find((list) => objectsAt(spec, list).length !== objectsAt(before, list).length);
  if (resized !== undefined) {
    return [forbiddenField(`spec.${resized}`, 'pod updates may not add or remove containers')];
  }
  const kept = objectsAt(spec, 'tolerations').map((one) => ({ ...one, tolerationSeconds: null }));
  const isKept = (old: JsonObject): boolean =>
    kept.some((one) => semanticEqual(one, { ...old, tolerationSeconds: null }));
  const tolerations = 'existing toleration can not be modified except its tolerationSeconds';
  return [
    ...(objectsAt(before, 'tolerations').every(isKept) ? [] : [forbiddenField('spec.tolerations', tolerations)]),
    ...(semanticEqual(withMutableFieldsOf(spec, before), before)
      ? []
      : [forbiddenField('spec', `pod updates may not change fields other than ${MUTABLE.join(',')}`)]),
  ];
}

/** The new spec with the old values of the fields that can be changed. */
function withMutableFieldsOf(spec: JsonObject, before: JsonObject): JsonObject {
  const withOldImages = (list: string): JsonObject[] =>
    objectsAt(spec, list).map((container, index) => ({
      ...container,
      image: objectsAt(before, list)[index]?.['image'],
    }));
  const { activeDeadlineSeconds, schedulingGates, tolerations } = before;
  return {
    ...spec,
    containers: withOldImages('containers'),
    ...(hasField(spec, 'initContainers') ? { initContainers: withOldImages('initContainers') } : {}),
    ...{ activeDeadlineSeconds, schedulingGates, tolerations },
  };
}

function ephemeralUpdateErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const current = objectsAt(spec, 'ephemeralContainers');
  return objectsAt(before, 'ephemeralContainers').flatMap((container) => {
    const name = textAt(container, 'name');
    const same = current.find((one) => textAt(one, 'name') === name);
    if (semanticEqual(same, container)) return [];
    const detail = `existing ephemeral containers ${quote(name)} may not be ${same ? 'changed' : 'removed'}\n`;
    return [forbiddenField('spec.ephemeralContainers', detail)];
  });
}

function resizeErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const current = qosClass(spec);
  const withoutResources = (one: JsonObject): unknown[] =>
    ['containers', 'initContainers'].flatMap((list) =>
      objectsAt(one, list).map((container) => ({ ...container, resources: null, resizePolicy: null })),
    );
  return [
    ...(current === qosClass(before)
      ? []
      : [invalidValue('spec', current, 'Pod QOS Class may not change as a result of resizing')]),
    ...(semanticEqual(withoutResources(spec), withoutResources(before))
      ? []
      : [forbiddenField('spec', 'only cpu and memory resources are mutable')]),
  ];
}

/**
 * The quality of service class of a pod.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/helper/qos/qos.go
 */
function qosClass(spec: JsonObject): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const resources = [...objectsAt(spec, 'containers'), ...objectsAt(spec, 'initContainers')].map((container) =>
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

/** The warnings about the pod template of a workload. */
export function templateWarnings(group: string, kind: string, object: ApiObject): string[] {
  const path = podTemplatePath(group, kind) ?? [];
  const template = path.reduce<JsonObject>((part, field) => objectAt(part, field), object);
  return podWarnings(objectAt(template, 'metadata'), objectAt(template, 'spec'), `${path.join('.')}.`);
}

const SECCOMP = 'seccomp.security.alpha.kubernetes.io/pod';
const SECCOMP_CONTAINER = 'container.seccomp.security.alpha.kubernetes.io/';
const APP_ARMOR = 'container.apparmor.security.beta.kubernetes.io/';

/**
 * Warnings about annotations without effect. `path` leads to the pod.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/api/pod/warnings.go
 */
function podWarnings(metadata: JsonObject | undefined, spec: JsonObject, path: string): string[] {
  const annotations = objectAt(metadata, 'annotations');
  const warn = (key: string, holder: JsonObject, field: string, text: string): string[] =>
    hasField(annotations, key) && !hasField(objectAt(holder, 'securityContext'), field)
      ? [`${path}metadata.annotations[${key}]: ${text}; use the "${field}" field instead`]
      : [];
  const seccomp = (key: string, holder: JsonObject): string[] =>
    warn(key, holder, 'seccompProfile', 'non-functional in v1.27+');
  return [
    ...seccomp(SECCOMP, spec),
    ...CONTAINER_LISTS.flatMap((list) =>
      objectsAt(spec, list).flatMap((container) => {
        const name = textAt(container, 'name');
        return [
          ...seccomp(`${SECCOMP_CONTAINER}${name}`, container),
          ...warn(`${APP_ARMOR}${name}`, container, 'appArmorProfile', 'deprecated since v1.30'),
        ];
      }),
    ),
  ];
}
