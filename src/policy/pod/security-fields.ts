/** Recognizes fields of custom resources that probably configure the security of pods, by their names and values. */
import { isObject, type JsonObject } from '../../kube/types.ts';

/** True for `true`, and for text that may become `true`. */
function isOn(value: unknown): boolean {
  if (isObject(value)) return value['enabled'] === true;
  return value === true || (typeof value === 'string' && /^(?:true|yes|on)$|[$%]|\{\{/i.test(value));
}

function isOff(value: unknown): boolean {
  return value === false || (typeof value === 'string' && /^(?:false|no|off)$|[$%]|\{\{/i.test(value));
}

function isSet(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.values(value).some((member) => member != null);
  return typeof value === 'string' && value !== '';
}

function isNumber(value: unknown, test: (number: number) => boolean): boolean {
  return (typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value))) && test(Number(value));
}

/** Names such as `SYS_ADMIN` and `CAP_CHOWN`. Other lists of capabilities have other words. */
const CAPABILITY =
  /^(?:CAP_\w+|ALL|[A-Z]+_[A-Z_]+|CHOWN|FOWNER|FSETID|KILL|MKNOD|SETGID|SETUID|SETFCAP|SETPCAP|LEASE)$/;

function isCapabilities(value: unknown): boolean {
  const isName = (item: unknown): boolean => typeof item === 'string' && CAPABILITY.test(item);
  const lists = isObject(value) ? [value['add'], value['drop']] : [value];
  return lists.some((list) => Array.isArray(list) && list.some(isName));
}

function isUnconfined(value: unknown): boolean {
  const type = isObject(value) ? value['type'] : value;
  return typeof type === 'string' && /^unconfined$/i.test(type);
}

function isSysctls(value: unknown): boolean {
  return Array.isArray(value) && value.some((item) => isObject(item) && typeof item['name'] === 'string');
}

/** A patch of the pod spec as text. */
function isSecurityPatch(value: unknown): boolean {
  const names = /host(?:IPC|Network|PID|Path|Port|Users)|privileged|securityContext|PrivilegeEscalation/;
  return typeof value === 'string' && names.test(value);
}

/** A value that cannot weaken a pod, such as `hostNetwork: false`, is not reported. */
const TESTS: Readonly<Record<string, (value: unknown) => boolean>> = {
  allowPrivilegeEscalation: isOn,
  appArmorProfile: isUnconfined,
  capabilities: isCapabilities,
  hostIPC: isOn,
  hostNetwork: isOn,
  hostPID: isOn,
  hostPath: isSet,
  hostPort: (value) => isNumber(value, (port) => port > 0),
  hostProcess: isOn,
  podSpecPatch: isSecurityPatch,
  privileged: isOn,
  procMount: (value) => value === 'Unmasked',
  runAsNonRoot: isOff,
  runAsUser: (value) => isNumber(value, (user) => user === 0),
  seLinuxOptions: isSet,
  seccompProfile: isUnconfined,
  sysctls: isSysctls,
};

/** True for a field of an object that probably configures the security of a pod. */
export function isSecurityField(owner: JsonObject, name: string): boolean {
  const value = owner[name];
  // A mount of a node that runs in a container, such as a node of kind.
  if (name === 'hostPath' && owner['containerPath'] !== undefined) return false;
  if (/securityContext$/i.test(name)) return isSet(value);
  return Object.hasOwn(TESTS, name) && (TESTS[name]?.(value) ?? false);
}
