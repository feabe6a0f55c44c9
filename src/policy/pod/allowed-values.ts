/** Values that the Pod Security Standards allow. Pod checks and the levels of SCCs are based on them. */

/**
 * Sysctls that are namespaced and isolated, so any pod may set them. `since` is the first Pod Security Standards
 * version that allows the sysctl. `kernel` is the oldest Linux kernel that isolates it. SCC admission allows the
 * sysctls in OpenShift's list. Portcullis does not read kernel versions, because every supported kernel is newer.
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 * @see
 * https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sysctl/mustmatchpatterns.go
 */
export const SAFE_SYSCTLS: readonly SafeSysctl[] = [
  { name: 'kernel.shm_rmid_forced', since: 'v1.0', inOpenShift: true },
  { name: 'net.ipv4.ip_local_port_range', since: 'v1.0', inOpenShift: true },
  { name: 'net.ipv4.tcp_syncookies', since: 'v1.0', inOpenShift: true },
  { name: 'net.ipv4.ping_group_range', since: 'v1.0', inOpenShift: true },
  { name: 'net.ipv4.ip_unprivileged_port_start', since: 'v1.0', inOpenShift: true },
  { name: 'net.ipv4.tcp_keepalive_time', since: 'v1.29', inOpenShift: true },
  { name: 'net.ipv4.tcp_fin_timeout', since: 'v1.29', inOpenShift: true },
  { name: 'net.ipv4.tcp_keepalive_intvl', since: 'v1.29', inOpenShift: true },
  { name: 'net.ipv4.tcp_keepalive_probes', since: 'v1.29', inOpenShift: true },
  { name: 'net.ipv4.ip_local_reserved_ports', since: 'v1.27', inOpenShift: true, kernel: '3.16' },
  { name: 'net.ipv4.tcp_rmem', since: 'v1.32', inOpenShift: true, kernel: '4.15' },
  { name: 'net.ipv4.tcp_wmem', since: 'v1.32', inOpenShift: true, kernel: '4.15' },
  { name: 'net.ipv4.tcp_slow_start_after_idle', since: 'v1.37', inOpenShift: false },
  { name: 'net.ipv4.tcp_notsent_lowat', since: 'v1.37', inOpenShift: false },
];

interface SafeSysctl {
  readonly name: string;
  readonly since: `v1.${number}`;
  readonly inOpenShift: boolean;
  readonly kernel?: string;
}

function words(text: string): ReadonlySet<string> {
  return new Set(text.split(' '));
}

/** Capabilities that container runtimes grant by default. */
export const DEFAULT_CAPABILITIES = words(
  'AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT',
);

const SE_LINUX_TYPES_V1_0 = ['', 'container_t', 'container_init_t', 'container_kvm_t'];

/** SELinux types that the baseline level allows, by the version from which the list applies. */
export const SE_LINUX_TYPES = { 'v1.0': SE_LINUX_TYPES_V1_0, 'v1.31': [...SE_LINUX_TYPES_V1_0, 'container_engine_t'] };

/** Volume sources that the restricted level allows. */
export const RESTRICTED_SOURCES = words(
  'configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret',
);

/**
 * Returns the name of a sysctl with dots as separators. The kubelet also accepts slashes.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-helpers/node/util/sysctl/sysctl.go
 */
export function sysctlName(name: string): string {
  const separator = /[./]/.exec(name)?.[0];
  return separator === '/' ? name.replaceAll(/[./]/g, (character) => (character === '/' ? '.' : '/')) : name;
}
