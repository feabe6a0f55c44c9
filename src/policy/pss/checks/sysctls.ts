import type { FieldError } from '../../../kube/field-error.ts';
import type { PodFields, SysctlFields } from '../fields.ts';
import { forbidden } from '../offenders.ts';
import type { Check, Rule } from '../types.ts';

const SAFE_V1_0 = [
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.ping_group_range',
  'net.ipv4.ip_unprivileged_port_start',
];
const SAFE_V1_27 = [...SAFE_V1_0, 'net.ipv4.ip_local_reserved_ports'];
const SAFE_V1_29 = [
  ...SAFE_V1_27,
  'net.ipv4.tcp_keepalive_time',
  'net.ipv4.tcp_fin_timeout',
  'net.ipv4.tcp_keepalive_intvl',
  'net.ipv4.tcp_keepalive_probes',
];
const SAFE_V1_32 = [...SAFE_V1_29, 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem'];
const SAFE_V1_37 = [...SAFE_V1_32, 'net.ipv4.tcp_slow_start_after_idle', 'net.ipv4.tcp_notsent_lowat'];

/**
 * Only safe, namespaced sysctls may be set.
 *
 * Fields   spec.securityContext.sysctls[*].name
 * Allowed  the list of the version in force
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const sysctls: Check = {
  id: 'sysctls',
  level: 'baseline',
  remedy: 'Remove unsafe sysctls from spec.securityContext.sysctls.',
  passesUnlessSet: ['sysctls'],
  versions: [
    { since: 'v1.0', check: onlySysctls(SAFE_V1_0) },
    { since: 'v1.27', check: onlySysctls(SAFE_V1_27) },
    { since: 'v1.29', check: onlySysctls(SAFE_V1_29) },
    { since: 'v1.32', check: onlySysctls(SAFE_V1_32) },
    { since: 'v1.37', check: onlySysctls(SAFE_V1_37) },
  ],
};

/** Names are compared as they stand: a name in the slash form is not the same. */
function onlySysctls(names: readonly string[]): Rule {
  const safe = new Set(names);
  const isUnsafe = ({ name }: SysctlFields): boolean => !safe.has(name);
  const fields = (pod: PodFields): readonly FieldError[] =>
    pod.sysctls
      .filter(isUnsafe)
      .map(({ index, name }) => forbidden(pod, `securityContext.sysctls[${index}].name`, name));
  return ({ sysctls }) => {
    if (!sysctls.some(isUnsafe)) return undefined;
    const unsafe = sysctls.filter(isUnsafe).map(({ name }) => name);
    return { reason: 'forbidden sysctls', detail: unsafe.join(', '), fields };
  };
}
