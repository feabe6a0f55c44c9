/**
 * Defaults and validation of SCC objects.
 * @see https://github.com/openshift/kubernetes/tree/master/openshift-kube-apiserver/admission/customresourcevalidation/securitycontextconstraints
 */
import { at, isObject, type JsonObject, listAt, textAt, textsAt } from './json.ts';
import { matchesType, type Type, VOLUME_SOURCES } from './object-schema.ts';
import { volumeType } from './scc-validate.ts';

const texts: Type = { list: 'text' };
const ranges: Type = {
  fields: { type: 'text', ranges: { list: { fields: { min: 'int64', max: 'int64' } } } },
};

const SCC: Type = {
  fields: {
    metadata: { fields: { name: 'text', labels: { map: 'text' }, annotations: { map: 'text' } } },
    priority: 'int32',
    allowPrivilegedContainer: 'boolean',
    defaultAddCapabilities: texts,
    requiredDropCapabilities: texts,
    allowedCapabilities: texts,
    allowHostDirVolumePlugin: 'boolean',
    volumes: texts,
    allowedFlexVolumes: { list: { fields: { driver: 'text' } } },
    allowHostNetwork: 'boolean',
    allowHostPorts: 'boolean',
    allowHostPID: 'boolean',
    allowHostIPC: 'boolean',
    userNamespaceLevel: 'text',
    defaultAllowPrivilegeEscalation: 'boolean',
    allowPrivilegeEscalation: 'boolean',
    seLinuxContext: {
      fields: {
        type: 'text',
        seLinuxOptions: { fields: { user: 'text', role: 'text', type: 'text', level: 'text' } },
      },
    },
    runAsUser: { fields: { type: 'text', uid: 'int64', uidRangeMin: 'int64', uidRangeMax: 'int64' } },
    supplementalGroups: ranges,
    fsGroup: ranges,
    readOnlyRootFilesystem: 'boolean',
    users: texts,
    groups: texts,
    seccompProfiles: texts,
    allowedUnsafeSysctls: texts,
    forbiddenSysctls: texts,
  },
};

export function decodesAsScc(object: unknown): object is JsonObject {
  return isObject(object) && matchesType(object, SCC);
}

/**
 * The optional fields of each struct and their empty values. Go's encoder omits empty and null fields.
 * @see https://github.com/openshift/api/blob/master/security/v1/types.go
 */
const OPTIONAL = {
  scc: {
    allowedFlexVolumes: [],
    userNamespaceLevel: '',
    defaultAllowPrivilegeEscalation: null,
    seccompProfiles: [],
    allowedUnsafeSysctls: [],
    forbiddenSysctls: [],
  },
  runAsUser: { type: '', uid: null, uidRangeMin: null, uidRangeMax: null },
  seLinuxContext: { type: '', seLinuxOptions: null },
  seLinuxOptions: { user: '', role: '', type: '', level: '' },
  groups: { type: '', ranges: [] },
  range: { min: 0, max: 0 },
};
const REQUIRED_BOOLEANS = [
  ...['allowPrivilegedContainer', 'allowHostDirVolumePlugin', 'allowHostNetwork', 'allowHostPorts'],
  ...['allowHostPID', 'allowHostIPC', 'readOnlyRootFilesystem'],
];
const NULLABLE = ['priority', 'defaultAddCapabilities', 'requiredDropCapabilities', 'allowedCapabilities'];

function encode(value: unknown, optional: JsonObject): JsonObject {
  const members = Object.entries(isObject(value) ? value : {}).filter(([name, member]) => {
    const isEmpty = member == null || JSON.stringify(member) === JSON.stringify(optional[name]);
    return !(Object.hasOwn(optional, name) && isEmpty);
  });
  return Object.fromEntries(members);
}

/** Returns the stored object. Unknown fields are kept. */
export function computeDefaults(scc: JsonObject): JsonObject {
  const isHostDirAllowed = at(scc, 'allowHostDirVolumePlugin') === true;
  const given = at(scc, 'volumes') === undefined ? undefined : textsAt(scc, 'volumes');
  const volumes = new Set(given ?? ['*']);
  if (given?.length === 0) volumes.add(isHostDirAllowed ? 'hostPath' : 'none');
  if (isHostDirAllowed) {
    if (!volumes.has('*')) volumes.add('hostPath');
  } else {
    const hadAll = volumes.delete('*');
    volumes.delete('hostPath');
    if (hadAll) for (const name of VOLUME_SOURCES.map(volumeType)) if (name !== 'hostPath') volumes.add(name);
  }
  const encodeGroups = (field: string): JsonObject => {
    const groups = encode(at(scc, field), OPTIONAL.groups);
    const ranges = listAt(groups, 'ranges').map((range) => encode(range, OPTIONAL.range));
    return { type: 'RunAsAny', ...groups, ...(ranges.length > 0 && { ranges }) };
  };
  const seLinuxContext = encode(at(scc, 'seLinuxContext'), OPTIONAL.seLinuxContext);
  const seLinuxOptions = at(seLinuxContext, 'seLinuxOptions');
  return {
    ...encode(scc, OPTIONAL.scc),
    ...Object.fromEntries(REQUIRED_BOOLEANS.map((field) => [field, at(scc, field) ?? false])),
    ...Object.fromEntries(NULLABLE.map((field) => [field, at(scc, field) ?? null])),
    runAsUser: encode(at(scc, 'runAsUser'), OPTIONAL.runAsUser),
    seLinuxContext: {
      ...seLinuxContext,
      ...(isObject(seLinuxOptions) && { seLinuxOptions: encode(seLinuxOptions, OPTIONAL.seLinuxOptions) }),
    },
    fsGroup: encodeGroups('fsGroup'),
    supplementalGroups: encodeGroups('supplementalGroups'),
    users: textsAt(scc, 'users'),
    groups: textsAt(scc, 'groups'),
    volumes: [...volumes].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
    allowPrivilegeEscalation: at(scc, 'allowPrivilegeEscalation') ?? true,
  };
}

/** Returns the numbers of the rules that the object violates. */
export function findViolations(scc: JsonObject): readonly number[] {
  const mistakes: number[] = [];
  const check = (number: number, isRight: boolean): void => {
    if (!isRight) mistakes.push(number);
  };
  const number = (...path: string[]): number => (at(scc, ...path) ?? 0) as number;
  const name = textAt(scc, 'metadata', 'name');
  check(1, name.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name));
  check(2, number('priority') >= 0);
  const userTypes = ['MustRunAs', 'MustRunAsNonRoot', 'MustRunAsRange', 'RunAsAny'];
  check(3, userTypes.includes(textAt(scc, 'runAsUser', 'type')));
  check(4, number('runAsUser', 'uid') >= 0);
  const types = ['MustRunAs', 'RunAsAny'];
  check(5, types.includes(textAt(scc, 'seLinuxContext', 'type')));
  check(6, types.includes(textAt(scc, 'fsGroup', 'type')));
  check(7, areRangesRight(scc, 'fsGroup'));
  check(8, types.includes(textAt(scc, 'supplementalGroups', 'type')));
  check(9, areRangesRight(scc, 'supplementalGroups'));
  const dropped = textsAt(scc, 'requiredDropCapabilities');
  const allowed = textsAt(scc, 'allowedCapabilities');
  check(10, !textsAt(scc, 'defaultAddCapabilities').some((capability) => dropped.includes(capability)));
  check(11, !allowed.some((capability) => dropped.includes(capability)));
  check(12, !allowed.includes('*') || dropped.length === 0);
  const [escalates, mayEscalate] = [at(scc, 'defaultAllowPrivilegeEscalation'), at(scc, 'allowPrivilegeEscalation')];
  check(13, escalates !== true || mayEscalate !== false);
  const volumes = textsAt(scc, 'volumes');
  check(14, !volumes.includes('none') || volumes.length === 1);
  const drivers = listAt(scc, 'allowedFlexVolumes').map((flex) => textAt(flex, 'driver'));
  const isFlexAllowed = volumes.includes('flexVolume') || volumes.includes('*');
  check(15, !isFlexAllowed || !drivers.includes(''));
  check(16, isFlexAllowed || drivers.length === 0);
  const [unsafe, forbidden] = [textsAt(scc, 'allowedUnsafeSysctls'), textsAt(scc, 'forbiddenSysctls')];
  for (const list of [unsafe, forbidden]) {
    check(17, !list.includes(''));
    check(
      18,
      list.every((sysctl) => sysctl === '' || isSysctlPattern(sysctl)),
    );
    check(19, list.length < 2 || !list.some((sysctl) => sysctl.startsWith('*')));
  }
  check(20, !unsafe.some((one) => forbidden.some((other) => doOverlap(one, other))));
  return mistakes;
}

function areRangesRight(scc: JsonObject, field: string): boolean {
  return listAt(scc, field, 'ranges').every((range) => {
    const [min, max] = [at(range, 'min') ?? 0, at(range, 'max') ?? 0] as [number, number];
    return min >= 0 && max >= 0 && min <= max;
  });
}

function isSysctlPattern(sysctl: string): boolean {
  if (sysctl.length > 253) return false;
  const last = sysctl.slice(-1);
  if (!/[a-z0-9*]/.test(last)) return false;
  const parts = sysctl.slice(0, -1).split('.');
  const final = parts.pop() ?? '';
  return (
    parts.every((part) => /^[a-z0-9]([-_a-z0-9]*[a-z0-9])?$/.test(part)) &&
    (final === '' || /^[a-z0-9][-_a-z0-9]*$/.test(final))
  );
}

function doOverlap(allowed: string, forbidden: string): boolean {
  const [a, f] = [allowed, forbidden].map((pattern) => (pattern.endsWith('*') ? pattern.slice(0, -1) : pattern));
  if (a === undefined || f === undefined) return false;
  if (allowed.endsWith('*') && forbidden.endsWith('*')) return a.startsWith(f) || f.startsWith(a);
  if (allowed.endsWith('*')) return f.startsWith(a);
  return forbidden.endsWith('*') ? a.startsWith(f) : a === f;
}
