import { formatFieldError } from '../../kube/field-error.ts';
import { quote } from '../../kube/text.ts';
import type { SecurityContextConstraints } from '../../kube/scc.ts';
import type { Namespace } from '../../kube/types.ts';
import type { Level } from '../pss/policy.ts';
import { decodeScc, type SccFields } from '../scc/scc.ts';
import { readNamespaceRanges, type NamespaceRanges } from '../scc/namespace.ts';

/**
 * `upstream`: as OpenShift converts SCCs, with its standards frozen at v1.0. `accurate`: by the newest standards, with
 * the capabilities that SCCs add by default, and with what these standards leave to user namespaces.
 */
export type SccLevelProfile = 'upstream' | 'accurate';

export interface SccLevelOptions {
  readonly profile: SccLevelProfile;
  /**
   * `aware`: the pods of an SCC that requires user namespaces may run as anybody and as `container_engine_t`, as the
   * standards let them from v1.35 on; right only where no kubelet is older than 1.30, for older ones give pods no user
   * namespace. Left open: `aware` for the profile `accurate`, `ignore` for `upstream`.
   */
  readonly userNamespaces?: 'aware' | 'ignore';
}

export interface SccLevel {
  /** The strictest level that all pods satisfy which the SCC admits, as far as SCCs govern pods. */
  readonly level?: Level;
  /** Why there is no judging the SCC; the level is then the most permissive one. */
  readonly error?: string;
}

/**
 * The level of the Pod Security Standards that pods under an SCC keep in a namespace.
 * @see https://github.com/openshift/cluster-policy-controller/blob/master/pkg/psalabelsyncer/scctopsamapping.go
 */
export function psaLevelOf(
  scc: SecurityContextConstraints,
  namespace: Namespace,
  { profile, userNamespaces = profile === 'accurate' ? 'aware' : 'ignore' }: SccLevelOptions,
): SccLevel {
  const { fields, error } = decodeScc(scc);
  if (error !== undefined) return { level: 'privileged', error: formatFieldError(error) };
  const hasUserNamespaces = userNamespaces === 'aware' && fields.userNamespaceLevel === 'RequirePodLevel';
  const subject: Subject = { scc: fields, namespace: readNamespaceRanges(namespace), profile, hasUserNamespaces };
  const levels = JUDGEMENTS.map((judge) => judge(subject));
  const failure = levels.find((level) => typeof level !== 'string');
  if (typeof failure === 'object') return { level: 'privileged', error: failure.error };
  return {
    level: levels.reduce<Level>((a, b) => (typeof b === 'string' && RANKS[b] < RANKS[a] ? b : a), 'restricted'),
  };
}

interface Subject {
  readonly scc: SccFields;
  readonly namespace: NamespaceRanges;
  readonly profile: SccLevelProfile;
  /** Its pods have user namespaces, and these count. */
  readonly hasUserNamespaces: boolean;
}

/** What one part of an SCC amounts to. */
type Judgement = (subject: Subject) => Level | { readonly error: string };

const RANKS: Readonly<Record<Level, number>> = { privileged: 0, baseline: 1, restricted: 2 };

const BASELINE_CAPABILITIES: ReadonlySet<string> = new Set(
  (
    'AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID ' +
    'SYS_CHROOT'
  ).split(' '),
);

const OLD_SAFE_SYSCTLS = [
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.ping_group_range',
  'net.ipv4.ip_unprivileged_port_start',
] as const;

/** Safe by the standards from v1.27, v1.29, v1.32 and v1.37 on. */
const NEW_SAFE_SYSCTLS = [
  'net.ipv4.ip_local_reserved_ports',
  'net.ipv4.tcp_keepalive_time',
  'net.ipv4.tcp_fin_timeout',
  'net.ipv4.tcp_keepalive_intvl',
  'net.ipv4.tcp_keepalive_probes',
  'net.ipv4.tcp_rmem',
  'net.ipv4.tcp_wmem',
  'net.ipv4.tcp_slow_start_after_idle',
  'net.ipv4.tcp_notsent_lowat',
] as const;

const SAFE_SYSCTLS: Readonly<Record<SccLevelProfile, ReadonlySet<string>>> = {
  upstream: new Set(OLD_SAFE_SYSCTLS),
  accurate: new Set([...OLD_SAFE_SYSCTLS, ...NEW_SAFE_SYSCTLS]),
};

const SE_LINUX_TYPES: Readonly<Record<SccLevelProfile, ReadonlySet<string>>> = {
  upstream: new Set(['', 'container_t', 'container_init_t', 'container_kvm_t']),
  accurate: new Set(['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t']),
};

const RESTRICTED_VOLUMES: ReadonlySet<string> = new Set(
  (
    'configMap downwardAPI emptyDir projected secret csi persistentVolumeClaim ephemeral none image ' +
    'serviceAccountToken'
  ).split(' '),
);

const BASELINE_VOLUMES: ReadonlySet<string> = new Set(
  (
    'azureFile azureDisk flocker flexVolume gcePersistentDisk awsElasticBlockStore gitRepo nfs iscsi glusterfs rbd ' +
    'cinder cephFS fc vsphere quobyte photonPersistentDisk portworxVolume scaleIO storageOS'
  ).split(' '),
);

const JUDGEMENTS: readonly Judgement[] = [
  ({ scc }) => privilegedIf(scc.allowHostDirVolumePlugin),
  ({ scc }) => privilegedIf(scc.allowHostIPC || scc.allowHostNetwork || scc.allowHostPID),
  ({ scc }) => privilegedIf(scc.allowHostPorts),
  ({ scc }) => (scc.allowPrivilegeEscalation === false ? 'restricted' : 'baseline'),
  ({ scc }) => privilegedIf(scc.allowPrivilegedContainer),
  judgeCapabilities,
  ({ scc, profile }) => privilegedIf(scc.allowedUnsafeSysctls.some((name) => !SAFE_SYSCTLS[profile].has(name))),
  judgeVolumes,
  judgeSeLinux,
  judgeSeccomp,
  judgeUser,
];

function privilegedIf(isPrivileged: boolean): Level {
  return isPrivileged ? 'privileged' : 'restricted';
}

function judgeCapabilities({ scc, profile }: Subject): Level {
  const added = profile === 'accurate' ? scc.defaultAddCapabilities : [];
  const allowed = [...scc.allowedCapabilities, ...added];
  if (allowed.some((name) => !BASELINE_CAPABILITIES.has(name))) return 'privileged';
  const isNetBindAtMost = allowed.every((name) => name === 'NET_BIND_SERVICE');
  return isNetBindAtMost && scc.requiredDropCapabilities.includes('ALL') ? 'restricted' : 'baseline';
}

function judgeVolumes({ scc: { volumes }, profile }: Subject): Level | { readonly error: string } {
  if (volumes.includes('*') || volumes.includes('hostPath')) return 'privileged';
  if (volumes.every((type) => RESTRICTED_VOLUMES.has(type))) return 'restricted';
  const unknown = volumes.find((type) => !RESTRICTED_VOLUMES.has(type) && !BASELINE_VOLUMES.has(type));
  if (unknown === undefined || profile === 'accurate') return 'baseline';
  return { error: `unknown volume type ${quote(unknown)}` };
}

function judgeSeLinux({ scc: { seLinuxContext }, profile, hasUserNamespaces }: Subject): Level {
  if (seLinuxContext.type !== 'MustRunAs') return 'privileged';
  const { type = '', user = '', role = '' } = seLinuxContext.seLinuxOptions ?? {};
  const isKnown = SE_LINUX_TYPES[hasUserNamespaces ? 'accurate' : profile].has(type);
  return privilegedIf(!isKnown || user !== '' || role !== '');
}

function judgeSeccomp({ scc: { seccompProfiles, allowsAnySeccompProfile } }: Subject): Level {
  if (allowsAnySeccompProfile || !seccompProfiles.every(isConfined)) return 'privileged';
  return seccompProfiles.length === 0 ? 'baseline' : 'restricted';
}

function isConfined(profile: string): boolean {
  return profile === 'runtime/default' || profile === 'docker/default' || profile.startsWith('localhost/');
}

/** From v1.35 on the standards do not ask who runs in a pod with a user namespace. */
function judgeUser({ scc, namespace, profile, hasUserNamespaces }: Subject): Level | { readonly error: string } {
  if (hasUserNamespaces) return 'restricted';
  const { type, uid, uidRangeMin, uidRangeMax } = scc.runAsUser;
  switch (type) {
    case 'MustRunAsNonRoot':
      return 'restricted';
    case 'MustRunAs':
      return ofLowestUser(uid ?? 0);
    case 'MustRunAsRange':
      if (uidRangeMin !== undefined && uidRangeMax !== undefined) return ofLowestUser(uidRangeMin);
      return ofNamespace(namespace, profile);
    case 'RunAsAny':
      return 'baseline';
    default:
      return profile === 'accurate' ? 'baseline' : { error: `unknown strategy ${quote(type)} for runAsUser` };
  }
}

function ofNamespace(namespace: NamespaceRanges, profile: SccLevelProfile): Level | { readonly error: string } {
  const range = namespace.uidRange;
  if ('value' in range) return ofLowestUser(range.value.min);
  return profile === 'accurate' ? 'baseline' : { error: `namespace ${quote(namespace.name)}: ${range.error}` };
}

function ofLowestUser(uid: number): Level {
  return uid > 0 ? 'restricted' : 'baseline';
}
