import { forbiddenField } from '../../../kube/field-error.ts';
import { quote, shortened } from '../../../kube/text.ts';
import type { PodStrategy } from './types.ts';

/**
 * The sysctls that need no permission, some of them from a version of the kernel on. A node's kernel is not known here:
 * every supported one is newer.
 * @see https://github.com/openshift/apiserver-library-go/blob/master/pkg/securitycontextconstraints/sysctl/mustmatchpatterns.go
 */
export const SAFE_SYSCTLS: readonly { readonly name: string; readonly kernel?: string }[] = [
  { name: 'kernel.shm_rmid_forced' },
  { name: 'net.ipv4.ip_local_port_range' },
  { name: 'net.ipv4.tcp_syncookies' },
  { name: 'net.ipv4.ping_group_range' },
  { name: 'net.ipv4.ip_unprivileged_port_start' },
  { name: 'net.ipv4.tcp_keepalive_time' },
  { name: 'net.ipv4.tcp_fin_timeout' },
  { name: 'net.ipv4.tcp_keepalive_intvl' },
  { name: 'net.ipv4.tcp_keepalive_probes' },
  { name: 'net.ipv4.ip_local_reserved_ports', kernel: '3.16' },
  { name: 'net.ipv4.tcp_rmem', kernel: '4.15' },
  { name: 'net.ipv4.tcp_wmem', kernel: '4.15' },
];

const SAFE = new Set(SAFE_SYSCTLS.map(({ name }) => name));

/** The pod sets no sysctl that is forbidden, and of those that are not safe only the allowed ones. */
export const sysctls: PodStrategy = {
  validate({ scc, pod, maxErrors }, errors) {
    for (let index = 0; index < pod.sysctls.length && errors.length < maxErrors; index++) {
      const name = pod.sysctls[index] ?? '';
      const isForbidden = matchesAny(scc.forbiddenSysctls, name);
      if (!isForbidden && (SAFE.has(name) || matchesAny(scc.allowedUnsafeSysctls, name))) continue;
      const what = isForbidden ? 'sysctl' : 'unsafe sysctl';
      const detail = `${what} ${quote(shortened(name))} is not allowed`;
      errors.push(forbiddenField(`spec.securityContext.sysctls[${index}]`, detail));
    }
  },
};

/** A pattern that ends in `*` stands for all that begin with the rest. */
function matchesAny(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
