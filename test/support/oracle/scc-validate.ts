/**
 * The fields of a pod that an SCC does not allow.
 * @see https://github.com/openshift/apiserver-library-go/tree/master/pkg/securitycontextconstraints
 */
import { at, isObject, type JsonObject, listAt, mapAt, textAt, textsAt } from './json.ts';
import { matchesType, PROJECTED, VOLUME_SOURCES } from './object-schema.ts';
import { CONTAINER_LISTS, getAnnotation } from './scc-fill.ts';
import type { Provider, Range } from './scc-ranges.ts';

export function findProblems(pod: JsonObject, provider: Provider): readonly string[] {
  const spec = at(pod, 'spec');
  const problems = podProblems(pod, provider);
  for (const list of CONTAINER_LISTS) {
    for (const [index, container] of listAt(spec, list).entries()) {
      const found = containerProblems(container, pod, provider);
      problems.push(...found.map((problem) => `${list}[${index}]: ${problem}`));
    }
  }
  return problems;
}

function podProblems(pod: JsonObject, provider: Provider): string[] {
  const { scc } = provider;
  const context = at(pod, 'spec', 'securityContext');
  const fsGroup = at(context, 'fsGroup');
  const seccomp =
    mapAt(pod, 'metadata', 'annotations').get('seccomp.security.alpha.kubernetes.io/pod') ||
    getAnnotation(at(context, 'seccompProfile'));
  return [
    ...(areGroupsIn(fsGroup === undefined ? [] : [fsGroup], provider.fsGroup) ? [] : ['fsGroup']),
    ...(areGroupsIn(listAt(context, 'supplementalGroups'), provider.supplementalGroups) ? [] : ['supplementalGroups']),
    ...(isSeccompAllowed(seccomp, scc) ? [] : [`seccomp ${seccomp}`]),
    ...(isSeLinuxAllowed(at(context, 'seLinuxOptions'), provider) ? [] : ['seLinuxOptions']),
    ...hostProblems(pod, scc),
    ...(at(scc, 'userNamespaceLevel') === 'RequirePodLevel' && at(pod, 'spec', 'hostUsers') !== false
      ? ['hostUsers']
      : []),
    ...sysctlProblems(pod, scc),
    ...volumeProblems(pod, scc),
  ];
}

function containerProblems(container: unknown, pod: JsonObject, provider: Provider): string[] {
  const { scc } = provider;
  const own = at(container, 'securityContext');
  const effective = (field: string): unknown => at(own, field) ?? at(pod, 'spec', 'securityContext', field);
  return [
    ...runAsUserProblems(effective('runAsUser'), effective('runAsNonRoot'), provider),
    ...(isSeLinuxAllowed(effective('seLinuxOptions'), provider) ? [] : ['seLinuxOptions']),
    ...(isSeccompAllowed(getSeccomp(container, pod), scc) ? [] : ['seccomp']),
    ...(at(own, 'privileged') === true && at(scc, 'allowPrivilegedContainer') !== true ? ['privileged'] : []),
    ...capabilityProblems(own, scc),
    ...(at(scc, 'readOnlyRootFilesystem') === true && at(own, 'readOnlyRootFilesystem') !== true
      ? ['readOnlyRootFilesystem']
      : []),
    ...(at(scc, 'allowPrivilegeEscalation') === false && at(own, 'allowPrivilegeEscalation') !== false
      ? ['allowPrivilegeEscalation']
      : []),
  ];
}

function runAsUserProblems(uid: unknown, runAsNonRoot: unknown, { runAsUser }: Provider): string[] {
  switch (runAsUser.type) {
    case 'MustRunAs':
      return uid === runAsUser.uid ? [] : ['runAsUser'];
    case 'MustRunAsRange':
      return uid !== undefined && runAsUser.range && isIn(uid as number, [runAsUser.range]) ? [] : ['runAsUser'];
    case 'MustRunAsNonRoot':
      if (uid === undefined && runAsNonRoot === undefined) return ['runAsNonRoot is not set'];
      if (runAsNonRoot === false) return ['runAsNonRoot'];
      return uid === 0 ? ['runAsUser'] : [];
    default:
      return [];
  }
}

function isSeLinuxAllowed(options: unknown, { seLinuxOptions }: Provider): boolean {
  if (seLinuxOptions === undefined) return true;
  if (options === undefined) return false;
  return ['level', 'role', 'type', 'user'].every((member) => {
    const [given, wanted] = [textAt(options, member), seLinuxOptions.get(member) ?? ''];
    return member === 'level' ? areLevelsEqual(given, wanted) : given === wanted;
  });
}

function areLevelsEqual(a: string, b: string): boolean {
  if (a === b) return true;
  if (!a.includes(':') || !b.includes(':')) return false;
  const parts = (level: string): readonly string[] => {
    const colon = level.indexOf(':');
    return [
      level.slice(0, colon),
      ...level
        .slice(colon + 1)
        .split(',')
        .sort(),
    ];
  };
  return JSON.stringify(parts(a)) === JSON.stringify(parts(b));
}

function areGroupsIn(groups: readonly unknown[], ranges: readonly Range[] | undefined): boolean {
  if (ranges === undefined) return true;
  return groups.length > 0 && groups.every((group) => isIn((group ?? 0) as number, ranges));
}

function isIn(id: number, ranges: readonly Range[]): boolean {
  return ranges.some(({ min, max }) => id >= min && id <= max);
}

function capabilityProblems(context: unknown, scc: JsonObject): string[] {
  const byDefault = textsAt(scc, 'defaultAddCapabilities');
  const required = textsAt(scc, 'requiredDropCapabilities');
  const allowed = textsAt(scc, 'allowedCapabilities');
  if (at(context, 'capabilities') === undefined) {
    return byDefault.length === 0 && required.length === 0 ? [] : ['capabilities are not set'];
  }
  if (allowed.includes('*')) return [];
  const added = textsAt(context, 'capabilities', 'add');
  const dropped = textsAt(context, 'capabilities', 'drop');
  return [
    ...added
      .filter((name) => !byDefault.includes(name) && !allowed.includes(name))
      .map((name) => `capabilities.add ${name}`),
    ...required.filter((name) => !dropped.includes(name)).map((name) => `capabilities.drop ${name}`),
  ];
}

function isSeccompAllowed(value: string, scc: JsonObject): boolean {
  const list = textsAt(scc, 'seccompProfiles');
  const named = list.filter((profile) => profile !== '*');
  if (list.length === 0 && value !== '') return false;
  if (named.length === 0 && value === '') return true;
  if (list.includes('*') || named.includes(value)) return true;
  const defaults = ['runtime/default', 'docker/default'];
  return defaults.includes(value) && defaults.some((profile) => named.includes(profile));
}

function getSeccomp(container: unknown, pod: JsonObject): string {
  const annotations = mapAt(pod, 'metadata', 'annotations');
  const own = at(container, 'securityContext', 'seccompProfile');
  if (own !== undefined) return getAnnotation(own);
  const annotation = annotations.get(`container.seccomp.security.alpha.kubernetes.io/${textAt(container, 'name')}`);
  if (annotation !== undefined) return annotation;
  const ofPod = at(pod, 'spec', 'securityContext', 'seccompProfile');
  if (ofPod !== undefined) return getAnnotation(ofPod);
  return annotations.get('seccomp.security.alpha.kubernetes.io/pod') ?? '';
}

function hostProblems(pod: JsonObject, scc: JsonObject): string[] {
  const problems: string[] = [];
  for (const [field, permission] of [
    ['hostNetwork', 'allowHostNetwork'],
    ['hostPID', 'allowHostPID'],
    ['hostIPC', 'allowHostIPC'],
  ] as const) {
    if (at(pod, 'spec', field) === true && at(scc, permission) !== true) problems.push(field);
  }
  if (at(scc, 'allowHostPorts') === true) return problems;
  for (const list of CONTAINER_LISTS) {
    for (const container of listAt(pod, 'spec', list)) {
      if (listAt(container, 'ports').some((port) => Number(at(port, 'hostPort') ?? 0) > 0)) problems.push('hostPort');
    }
  }
  return problems;
}

/** Returns the SCC volume type of a volume source. */
export function volumeType(source: string): string {
  return { cephfs: 'cephFS', vsphereVolume: 'vsphere', storageos: 'storageOS' }[source] ?? source;
}

function volumeProblems(pod: JsonObject, scc: JsonObject): string[] {
  const allowed = textsAt(scc, 'volumes');
  const drivers = listAt(scc, 'allowedFlexVolumes').map((flex) => textAt(flex, 'driver'));
  const problems: string[] = [];
  for (const [index, volume] of listAt(pod, 'spec', 'volumes').entries()) {
    const source = VOLUME_SOURCES.find((name) => at(volume, name) !== undefined);
    const type = source === undefined ? undefined : volumeType(source);
    const isServiceAccount = type === 'projected' && allowed.includes('secret') && isServiceAccountVolume(volume);
    const isListed = type !== undefined && allowed.includes(type);
    if (!allowed.includes('*') && !isListed && !isServiceAccount) problems.push(`volumes[${index}] ${type}`);
    if (at(volume, 'flexVolume') === undefined || drivers.length === 0) continue;
    if (!allowed.includes('*') && !allowed.includes('flexVolume')) continue;
    if (!drivers.includes(textAt(volume, 'flexVolume', 'driver'))) problems.push(`volumes[${index}] driver`);
  }
  return problems;
}

/** Returns true for the volume that the API server adds for service account tokens. */
function isServiceAccountVolume(volume: unknown): boolean {
  if (!matchesType(at(volume, 'projected'), PROJECTED)) return false;
  return listAt(volume, 'projected', 'sources').every((source) => {
    if (!isObject(source)) return false;
    const kinds = ['serviceAccountToken', 'configMap', 'downwardAPI', 'secret', 'clusterTrustBundle', 'podCertificate'];
    const present = kinds.filter((kind) => at(source, kind) !== undefined);
    if (present.length !== 1) return false;
    if (present[0] === 'serviceAccountToken') {
      const token = at(source, 'serviceAccountToken');
      return textAt(token, 'path') === 'token' && textAt(token, 'audience') === '';
    }
    if (present[0] === 'configMap') return isInjectedConfigMap(at(source, 'configMap'));
    return present[0] === 'downwardAPI' && listAt(source, 'downwardAPI', 'items').every(isNamespaceItem);
  });
}

function isInjectedConfigMap(configMap: unknown): boolean {
  const files = new Map([
    ['kube-root-ca.crt', 'ca.crt'],
    ['openshift-service-ca.crt', 'service-ca.crt'],
  ]);
  const file = files.get(textAt(configMap, 'name'));
  const [item, ...others] = listAt(configMap, 'items');
  return file !== undefined && others.length === 0 && textAt(item, 'key') === file && textAt(item, 'path') === file;
}

function isNamespaceItem(item: unknown): boolean {
  return (
    textAt(item, 'path') === 'namespace' &&
    textAt(item, 'fieldRef', 'apiVersion') === 'v1' &&
    textAt(item, 'fieldRef', 'fieldPath') === 'metadata.namespace'
  );
}

const SAFE_SYSCTLS = [
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.ping_group_range',
  'net.ipv4.ip_unprivileged_port_start',
  'net.ipv4.tcp_keepalive_time',
  'net.ipv4.tcp_fin_timeout',
  'net.ipv4.tcp_keepalive_intvl',
  'net.ipv4.tcp_keepalive_probes',
  'net.ipv4.ip_local_reserved_ports',
  'net.ipv4.tcp_rmem',
  'net.ipv4.tcp_wmem',
];

function sysctlProblems(pod: JsonObject, scc: JsonObject): string[] {
  const matches = (name: string, patterns: readonly string[]): boolean =>
    patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name));
  return listAt(pod, 'spec', 'securityContext', 'sysctls')
    .map((sysctl) => textAt(sysctl, 'name'))
    .filter((name) => {
      if (matches(name, textsAt(scc, 'forbiddenSysctls'))) return true;
      return !SAFE_SYSCTLS.includes(name) && !matches(name, textsAt(scc, 'allowedUnsafeSysctls'));
    })
    .map((name) => `sysctl ${name}`);
}
