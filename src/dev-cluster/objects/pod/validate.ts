import { dnsSubdomainErrors, labelKeyErrors, labelValueErrors } from '../../../kube/names.ts';
import {
  forbiddenField,
  invalidValue,
  notSupported,
  requiredField,
  type FieldError,
} from '../../../kube/field-error.ts';
import type { JsonObject } from '../../../kube/types.ts';
import { inRange, label } from '../errors.ts';
import { labelErrors } from '../metadata.ts';
import { hasField, numberAt, objectAt, objectsAt, textAt } from '../read.ts';
import { validateContainers } from './containers.ts';
import { validateWindows } from './os.ts';
import { validatePodSecurity } from './security-context.ts';
import { validateVolumes } from './volumes.ts';

/** Whether the spec is that of a pod, or stands in a template, where less is checked. */
export type Owner = 'pod' | 'template';

/**
 * Field errors of the spec of a pod, in the order of the API server.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/validation/validation.go
 */
export function validatePodSpec(spec: JsonObject, path: string, owner: Owner): FieldError[] {
  const volumes = validateVolumes(spec, path);
  return [
    ...(hasField(spec, 'terminationGracePeriodSeconds')
      ? []
      : [requiredField(`${path}.terminationGracePeriodSeconds`, '')]),
    ...volumes.errors,
    ...validateContainers({ spec, volumes: volumes.names }, path),
    ...hostNetworkPorts(spec, path, owner),
    ...chosen(spec, 'restartPolicy', path, ['Always', 'OnFailure', 'Never']),
    ...chosen(spec, 'dnsPolicy', path, ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None']),
    ...labelErrors(spec['nodeSelector'], `${path}.nodeSelector`),
    ...validatePodSecurity(spec, path),
    ...dnsConfigErrors(spec, path),
    ...userNamespaceErrors(spec, path),
    ...nameErrors(spec, path),
    ...inRange(`${path}.activeDeadlineSeconds`, spec['activeDeadlineSeconds'], 1, 2147483647),
    ...tolerationErrors(spec, `${path}.tolerations`),
    ...(hasField(spec, 'preemptionPolicy')
      ? chosen(spec, 'preemptionPolicy', path, ['PreemptLowerPriority', 'Never'])
      : []),
    ...validateWindows(spec, path),
  ];
}

function chosen(spec: JsonObject, field: string, path: string, supported: readonly string[]): FieldError[] {
  const value = textAt(spec, field);
  if (value === '') return [requiredField(`${path}.${field}`, '')];
  return supported.includes(value) ? [] : [notSupported(`${path}.${field}`, value, supported)];
}

/** In a template the host port may be left out: the pod gets it when it is made. */
function hostNetworkPorts(spec: JsonObject, path: string, owner: Owner): FieldError[] {
  if (spec['hostNetwork'] !== true) return [];
  return objectsAt(spec, 'containers').flatMap((container, index) =>
    objectsAt(container, 'ports').flatMap((port, number) => {
      const hostPort = numberAt(port, 'hostPort') ?? 0;
      const isLeftOut = owner === 'template' && hostPort === 0;
      if (isLeftOut || hostPort === (numberAt(port, 'containerPort') ?? 0)) return [];
      const at = `${path}.containers[${index}].ports[${number}].hostPort`;
      return [invalidValue(at, hostPort, 'must match `containerPort` when `hostNetwork` is true')];
    }),
  );
}

function dnsConfigErrors(spec: JsonObject, path: string): FieldError[] {
  if (spec['dnsPolicy'] !== 'None') return [];
  const at = `${path}.dnsConfig`;
  if (!hasField(spec, 'dnsConfig')) return [requiredField(at, 'must provide `dnsConfig` when `dnsPolicy` is None')];
  const { nameservers } = objectAt(spec, 'dnsConfig');
  return Array.isArray(nameservers) && nameservers.length > 0
    ? []
    : [requiredField(`${at}.nameservers`, 'must provide at least one DNS nameserver when `dnsPolicy` is None')];
}

function userNamespaceErrors(spec: JsonObject, path: string): FieldError[] {
  if (spec['hostUsers'] !== false) return [];
  const detail = 'when `hostUsers` is false';
  return [
    ...(spec['hostNetwork'] === true ? [forbiddenField(`${path}.hostNetwork`, detail)] : []),
    ...(spec['hostPID'] === true ? [forbiddenField(`${path}.HostPID`, detail)] : []),
    ...(spec['hostIPC'] === true ? [forbiddenField(`${path}.HostIPC`, detail)] : []),
  ];
}

function nameErrors(spec: JsonObject, path: string): FieldError[] {
  const subdomains = ['serviceAccountName', 'nodeName', 'priorityClassName', 'runtimeClassName'];
  return [
    ...subdomains.flatMap((field) => {
      const name = textAt(spec, field);
      if (name === '' && !(field === 'runtimeClassName' && hasField(spec, field))) return [];
      return dnsSubdomainErrors(name).map((error) => invalidValue(`${path}.${field}`, name, error));
    }),
    ...['hostname', 'subdomain'].flatMap((field) => {
      const name = textAt(spec, field);
      return name === '' ? [] : label(`${path}.${field}`, name);
    }),
  ];
}

const EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

function tolerationErrors(spec: JsonObject, path: string): FieldError[] {
  return objectsAt(spec, 'tolerations').flatMap((toleration, index) => {
    const at = `${path}[${index}]`;
    const [key, operator, value, effect] = ['key', 'operator', 'value', 'effect'].map((field) =>
      textAt(toleration, field),
    ) as [string, string, string, string];
    return [
      ...(key === '' ? [] : labelKeyErrors(key).map((error) => invalidValue(`${at}.key`, key, error))),
      ...(key === '' && operator !== 'Exists' ? [invalidValue(`${at}.operator`, operator, KEYLESS)] : []),
      ...(hasField(toleration, 'tolerationSeconds') && effect !== 'NoExecute'
        ? [invalidValue(`${at}.effect`, effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")]
        : []),
      ...operatorErrors(operator, value, `${at}.operator`),
      ...(effect === '' || EFFECTS.includes(effect) ? [] : [notSupported(`${at}.effect`, effect, EFFECTS)]),
    ];
  });
}

const KEYLESS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"';

function operatorErrors(operator: string, value: string, path: string): FieldError[] {
  if (operator === 'Exists') {
    return value === '' ? [] : [invalidValue(path, value, "value must be empty when `operator` is 'Exists'")];
  }
  if (operator !== '' && operator !== 'Equal') return [notSupported(path, operator, ['Equal', 'Exists'])];
  const errors = labelValueErrors(value);
  return errors.length === 0 ? [] : [invalidValue(path, value, errors.join(';'))];
}
