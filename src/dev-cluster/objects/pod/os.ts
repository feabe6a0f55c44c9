import {
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import { CONTAINER_LISTS } from '../../../kube/pod.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { hasField, objectAt, objectsAt, textAt } from '../read.ts';

/** Checks what depends on the operating system: the fields of the other one may not be set. */
export function validateWindows(spec: JsonObject, path: string): FieldError[] {
  return [...hostProcessErrors(spec, path), ...(hasField(spec, 'os') ? osErrors(spec, path) : [])];
}

function osErrors(spec: JsonObject, path: string): FieldError[] {
  const name = textAt(objectAt(spec, 'os'), 'name');
  if (name === '') return [requiredField(`${path}.os.name`, '')];
  if (name === 'linux') return forbid(spec, path, ['windowsOptions'], ['windowsOptions'], 'linux');
  if (name !== 'windows') return [notSupported(`${path}.os`, name, ['linux', 'windows'])];
  return [
    ...forbid(spec, path, NOT_IN_WINDOWS_PODS, NOT_IN_WINDOWS_CONTAINERS, 'windows'),
    ...['hostPID', 'hostIPC', 'shareProcessNamespace']
      .filter((field) => spec[field] === true)
      .map((field) => forbiddenField(`${path}.${field}`, 'cannot be set for a windows pod')),
    ...(hasField(spec, 'hostUsers') ? [forbiddenField(`${path}.hostUsers`, 'cannot be set for a windows pod')] : []),
  ];
}

const NOT_IN_WINDOWS_PODS = [
  'appArmorProfile',
  'seLinuxOptions',
  'seccompProfile',
  'fsGroup',
  'fsGroupChangePolicy',
  'sysctls',
  'runAsUser',
  'runAsGroup',
  'supplementalGroups',
  'supplementalGroupsPolicy',
];

const NOT_IN_WINDOWS_CONTAINERS = [
  'appArmorProfile',
  'seLinuxOptions',
  'seccompProfile',
  'capabilities',
  'readOnlyRootFilesystem',
  'privileged',
  'allowPrivilegeEscalation',
  'procMount',
  'runAsUser',
  'runAsGroup',
];

function forbid(
  spec: JsonObject,
  path: string,
  ofPod: readonly string[],
  ofContainer: readonly string[],
  os: 'linux' | 'windows',
): FieldError[] {
  const detail = os === 'linux' ? 'windows options cannot be set for a linux pod' : 'cannot be set for a windows pod';
  const found = (context: JsonObject, fields: readonly string[], at: string): FieldError[] =>
    fields.filter((field) => isSet(context[field])).map((field) => forbiddenField(`${at}.${field}`, detail));
  return [
    ...found(objectAt(spec, 'securityContext'), ofPod, `${path}.securityContext`),
    ...containersWithPath(spec, path).flatMap(([container, at]) =>
      found(objectAt(container, 'securityContext'), ofContainer, `${at}.securityContext`),
    ),
  ];
}

function isSet(value: unknown): boolean {
  return value != null && !(Array.isArray(value) && value.length === 0);
}

/** All containers of a pod are processes of the host, or none is; then the pod uses the host's network. */
function hostProcessErrors(spec: JsonObject, path: string): FieldError[] {
  const ofPod = hostProcess(spec);
  const containers = containersWithPath(spec, path);
  const effective = containers.map(([container]) => hostProcess(container) ?? ofPod ?? false);
  const conflicts = containers.flatMap(([container, at]) => {
    const own = hostProcess(container);
    if (own === undefined || ofPod === undefined || own === ofPod) return [];
    const detail = `pod hostProcess value must be identical if both are specified, was ${ofPod}`;
    return [invalidValue(`${at}.securityContext.windowsOptions.hostProcess`, own, detail)];
  });
  if (!effective.includes(true)) return conflicts;
  return [
    ...conflicts,
    ...(effective.includes(false) ? [invalidValue(path, '', ALL_OR_NONE)] : []),
    ...(spec['hostNetwork'] === true ? [] : [invalidValue(`${path}.hostNetwork`, false, NEEDS_HOST_NETWORK)]),
  ];
}

const ALL_OR_NONE = 'If pod contains any hostProcess containers then all containers must be HostProcess containers';
const NEEDS_HOST_NETWORK = 'hostNetwork must be true if pod contains any hostProcess containers';

function containersWithPath(spec: JsonObject, path: string): (readonly [JsonObject, string])[] {
  return CONTAINER_LISTS.flatMap((list) =>
    objectsAt(spec, list).map((container, index) => [container, `${path}.${list}[${index}]`] as const),
  );
}

function hostProcess(holder: JsonObject): boolean | undefined {
  const value = objectAt(objectAt(holder, 'securityContext'), 'windowsOptions')['hostProcess'];
  return typeof value === 'boolean' ? value : undefined;
}
