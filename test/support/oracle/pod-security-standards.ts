/** The Pod Security Standards, with the checks of each version and the rule of each check. */
import { at, isObject, listAt, mapAt, memoize, textAt, textsAt } from './json.ts';

/** Returns the reasons why a pod does not satisfy a level at a version (`latest` or `v1.N`), in order. */
export function findReasons(pod: unknown, level: string, version: string): readonly string[] {
  if (!isObject(pod)) return computeReasons(pod, level, version);
  const known = reasonsByPolicy(pod);
  const key = `${level} ${version}`;
  const reasons = known.get(key) ?? computeReasons(pod, level, version);
  known.set(key, reasons);
  return reasons;
}

const reasonsByPolicy = memoize(() => new Map<string, readonly string[]>());

function computeReasons(pod: unknown, level: string, version: string): readonly string[] {
  if (level === 'privileged') return [];
  const minor = version === 'latest' ? Infinity : Number(version.slice('v1.'.length));
  return CHECKS.flatMap(({ rule, baseline, restricted = [] }) => {
    const [since, end] = level === 'baseline' ? [baseline] : restricted;
    const runs = since !== undefined && minor >= since && (end === undefined || minor < end);
    return (runs ? rule(pod, minor) : undefined) ?? [];
  });
}

/** Returns the reason for the violation if the pod violates the check. */
type Rule = (pod: unknown, minor: number) => string | undefined;

interface Check {
  readonly rule: Rule;
  /** The minor version that introduces the check at the baseline level. */
  readonly baseline?: number;
  /** The minor versions that introduce the check at the restricted level, and that replace it with another check. */
  readonly restricted?: readonly [since: number, end?: number];
}

/**
 * The checks in the order of their reasons.
 * @see https://github.com/kubernetes/pod-security-admission/tree/v0.37.0/policy
 */
const CHECKS: readonly Check[] = [
  { rule: appArmorProfile, baseline: 0, restricted: [0] },
  { rule: capabilitiesBaseline, baseline: 0, restricted: [0, 22] },
  { rule: hostNamespaces, baseline: 0, restricted: [0] },
  { rule: hostPathVolumes, baseline: 0 },
  { rule: hostPorts, baseline: 0, restricted: [0] },
  { rule: hostProbes, baseline: 34, restricted: [34] },
  { rule: privileged, baseline: 0, restricted: [0] },
  { rule: procMountBaseline, baseline: 0, restricted: [0, 35] },
  { rule: seLinuxOptions, baseline: 0, restricted: [0] },
  { rule: seccompBaseline, baseline: 0, restricted: [0, 19] },
  { rule: sysctls, baseline: 0, restricted: [0] },
  { rule: windowsHostProcess, baseline: 0, restricted: [0] },
  { rule: allowPrivilegeEscalation, restricted: [8] },
  { rule: capabilitiesRestricted, restricted: [22] },
  { rule: procMountRestricted, restricted: [35] },
  { rule: restrictedVolumes, restricted: [0] },
  { rule: runAsNonRoot, restricted: [0] },
  { rule: runAsUser, restricted: [23] },
  { rule: seccompRestricted, restricted: [19] },
];

function containers(pod: unknown): readonly unknown[] {
  return [
    ...listAt(pod, 'spec', 'initContainers'),
    ...listAt(pod, 'spec', 'containers'),
    ...listAt(pod, 'spec', 'ephemeralContainers'),
  ];
}

function isWindows(pod: unknown): boolean {
  return at(pod, 'spec', 'os', 'name') === 'windows';
}

function isUserNamespacePod(pod: unknown): boolean {
  return at(pod, 'spec', 'hostUsers') === false;
}

/** The security contexts of the pod and of its containers. */
function securityContexts(pod: unknown): readonly unknown[] {
  return [at(pod, 'spec', 'securityContext'), ...containers(pod).map((one) => at(one, 'securityContext'))];
}

function appArmorProfile(pod: unknown): string | undefined {
  const values = new Set<string>();
  for (const context of securityContexts(pod)) {
    if (at(context, 'appArmorProfile') === undefined) continue;
    const type = textAt(context, 'appArmorProfile', 'type');
    if (type !== 'RuntimeDefault' && type !== 'Localhost') values.add(type);
  }
  let annotations = 0;
  for (const [key, value] of mapAt(pod, 'metadata', 'annotations')) {
    if (!key.startsWith('container.apparmor.security.beta.kubernetes.io/')) continue;
    if (value !== '' && value !== 'runtime/default' && !value.startsWith('localhost/')) annotations++;
  }
  const count = values.size + annotations;
  if (count === 0) return undefined;
  return count === 1 ? 'forbidden AppArmor profile' : 'forbidden AppArmor profiles';
}

function capabilitiesBaseline(pod: unknown): string | undefined {
  const allowed = [
    'AUDIT_WRITE',
    'CHOWN',
    'DAC_OVERRIDE',
    'FOWNER',
    'FSETID',
    'KILL',
    'MKNOD',
    'NET_BIND_SERVICE',
    'SETFCAP',
    'SETGID',
    'SETPCAP',
    'SETUID',
    'SYS_CHROOT',
  ];
  const offends = containers(pod).some((one) =>
    textsAt(one, 'securityContext', 'capabilities', 'add').some((name) => !allowed.includes(name)),
  );
  return offends ? 'non-default capabilities' : undefined;
}

function capabilitiesRestricted(pod: unknown, minor: number): string | undefined {
  if (minor >= 25 && isWindows(pod)) return undefined;
  const offends = containers(pod).some(
    (one) =>
      !textsAt(one, 'securityContext', 'capabilities', 'drop').includes('ALL') ||
      textsAt(one, 'securityContext', 'capabilities', 'add').some((name) => name !== 'NET_BIND_SERVICE'),
  );
  return offends ? 'unrestricted capabilities' : undefined;
}

function hostNamespaces(pod: unknown): string | undefined {
  const offends = ['hostNetwork', 'hostPID', 'hostIPC'].some((field) => at(pod, 'spec', field) === true);
  return offends ? 'host namespaces' : undefined;
}

function hostPathVolumes(pod: unknown): string | undefined {
  const offends = listAt(pod, 'spec', 'volumes').some((volume) => at(volume, 'hostPath') !== undefined);
  return offends ? 'hostPath volumes' : undefined;
}

function restrictedVolumes(pod: unknown): string | undefined {
  const allowed = [
    'configMap',
    'csi',
    'downwardAPI',
    'emptyDir',
    'ephemeral',
    'image',
    'persistentVolumeClaim',
    'projected',
    'secret',
  ];
  const offends = listAt(pod, 'spec', 'volumes').some(
    (volume) => !allowed.some((source) => at(volume, source) !== undefined),
  );
  return offends ? 'restricted volume types' : undefined;
}

function hostPorts(pod: unknown): string | undefined {
  const offends = containers(pod).some((one) => listAt(one, 'ports').some((port) => (at(port, 'hostPort') ?? 0) !== 0));
  return offends ? 'hostPort' : undefined;
}

function hostProbes(pod: unknown): string | undefined {
  const places = [
    ['livenessProbe'],
    ['readinessProbe'],
    ['startupProbe'],
    ['lifecycle', 'postStart'],
    ['lifecycle', 'preStop'],
  ];
  const offends = containers(pod).some((one) =>
    places.some(
      (place) => textAt(one, ...place, 'httpGet', 'host') !== '' || textAt(one, ...place, 'tcpSocket', 'host') !== '',
    ),
  );
  return offends ? 'probe or lifecycle host' : undefined;
}

function privileged(pod: unknown): string | undefined {
  const offends = containers(pod).some((one) => at(one, 'securityContext', 'privileged') === true);
  return offends ? 'privileged' : undefined;
}

function setsProcMount(pod: unknown): boolean {
  return containers(pod).some((one) => (at(one, 'securityContext', 'procMount') ?? 'Default') !== 'Default');
}

function procMountBaseline(pod: unknown, minor: number): string | undefined {
  if (minor >= 35 && isUserNamespacePod(pod)) return undefined;
  return setsProcMount(pod) ? 'procMount' : undefined;
}

function procMountRestricted(pod: unknown): string | undefined {
  return setsProcMount(pod) ? 'procMount' : undefined;
}

function runAsNonRoot(pod: unknown, minor: number): string | undefined {
  if (minor >= 35 && isUserNamespacePod(pod)) return undefined;
  const ofPod = at(pod, 'spec', 'securityContext', 'runAsNonRoot');
  const ofContainers = containers(pod).map((one) => at(one, 'securityContext', 'runAsNonRoot'));
  const isExplicit = ofPod === false || ofContainers.includes(false);
  const isImplicit = ofPod !== true && ofContainers.includes(undefined);
  return isExplicit || isImplicit ? 'runAsNonRoot != true' : undefined;
}

function runAsUser(pod: unknown, minor: number): string | undefined {
  if (minor >= 35 && isUserNamespacePod(pod)) return undefined;
  return securityContexts(pod).some((context) => at(context, 'runAsUser') === 0) ? 'runAsUser=0' : undefined;
}

function seLinuxOptions(pod: unknown, minor: number): string | undefined {
  const types = ['', 'container_t', 'container_init_t', 'container_kvm_t'];
  if (minor >= 31) types.push('container_engine_t');
  const offends = securityContexts(pod).some(
    (context) =>
      !types.includes(textAt(context, 'seLinuxOptions', 'type')) ||
      textAt(context, 'seLinuxOptions', 'user') !== '' ||
      textAt(context, 'seLinuxOptions', 'role') !== '',
  );
  return offends ? 'seLinuxOptions' : undefined;
}

function seccompBaseline(pod: unknown, minor: number): string | undefined {
  const offends = minor < 19 ? hasForbiddenSeccompAnnotation(pod) : hasForbiddenSeccompField(pod);
  return offends ? 'seccompProfile' : undefined;
}

function hasForbiddenSeccompAnnotation(pod: unknown): boolean {
  const keys = [
    'seccomp.security.alpha.kubernetes.io/pod',
    ...containers(pod).map((one) => `container.seccomp.security.alpha.kubernetes.io/${textAt(one, 'name')}`),
  ];
  const annotations = mapAt(pod, 'metadata', 'annotations');
  return keys.some((key) => {
    const value = annotations.get(key);
    if (value === undefined) return false;
    return value !== 'runtime/default' && value !== 'docker/default' && !value.startsWith('localhost/');
  });
}

function hasForbiddenSeccompField(pod: unknown): boolean {
  return securityContexts(pod).some(
    (context) => at(context, 'seccompProfile') !== undefined && !hasRightSeccompField(context),
  );
}

function hasRightSeccompField(context: unknown): boolean {
  return ['RuntimeDefault', 'Localhost'].includes(textAt(context, 'seccompProfile', 'type'));
}

function seccompRestricted(pod: unknown, minor: number): string | undefined {
  if (minor >= 25 && isWindows(pod)) return undefined;
  const isImplicit =
    !hasRightSeccompField(at(pod, 'spec', 'securityContext')) &&
    containers(pod).some((one) => at(one, 'securityContext', 'seccompProfile') === undefined);
  return isImplicit || hasForbiddenSeccompField(pod) ? 'seccompProfile' : undefined;
}

const SYSCTLS: readonly { readonly since: number; readonly names: readonly string[] }[] = [
  {
    since: 0,
    names: [
      'kernel.shm_rmid_forced',
      'net.ipv4.ip_local_port_range',
      'net.ipv4.tcp_syncookies',
      'net.ipv4.ping_group_range',
      'net.ipv4.ip_unprivileged_port_start',
    ],
  },
  { since: 27, names: ['net.ipv4.ip_local_reserved_ports'] },
  {
    since: 29,
    names: [
      'net.ipv4.tcp_keepalive_time',
      'net.ipv4.tcp_fin_timeout',
      'net.ipv4.tcp_keepalive_intvl',
      'net.ipv4.tcp_keepalive_probes',
    ],
  },
  { since: 32, names: ['net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem'] },
  { since: 37, names: ['net.ipv4.tcp_slow_start_after_idle', 'net.ipv4.tcp_notsent_lowat'] },
];

function sysctls(pod: unknown, minor: number): string | undefined {
  const allowed = SYSCTLS.filter(({ since }) => since <= minor).flatMap(({ names }) => names);
  const offends = listAt(pod, 'spec', 'securityContext', 'sysctls').some(
    (one) => !allowed.includes(textAt(one, 'name')),
  );
  return offends ? 'forbidden sysctls' : undefined;
}

function windowsHostProcess(pod: unknown): string | undefined {
  const offends = securityContexts(pod).some((context) => at(context, 'windowsOptions', 'hostProcess') === true);
  return offends ? 'hostProcess' : undefined;
}

function allowPrivilegeEscalation(pod: unknown, minor: number): string | undefined {
  if (minor >= 25 && isWindows(pod)) return undefined;
  const offends = containers(pod).some((one) => at(one, 'securityContext', 'allowPrivilegeEscalation') !== false);
  return offends ? 'allowPrivilegeEscalation != false' : undefined;
}
