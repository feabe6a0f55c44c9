import { sysctls } from '../../../../src/policy/pss/checks/sysctls.ts';
import type { Version } from '../../../../src/policy/pss/index.ts';
import { testCheck, type CheckCase } from '../cases.ts';

/** Each addition with the version from which on it may be set, and the one before. */
const ADDITIONS: readonly [Version, Version, readonly string[]][] = [
  ['v1.27', 'v1.26', ['net.ipv4.ip_local_reserved_ports']],
  [
    'v1.29',
    'v1.28',
    [
      'net.ipv4.tcp_keepalive_time',
      'net.ipv4.tcp_fin_timeout',
      'net.ipv4.tcp_keepalive_intvl',
      'net.ipv4.tcp_keepalive_probes',
    ],
  ],
  ['v1.32', 'v1.31', ['net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem']],
  ['v1.37', 'v1.36', ['net.ipv4.tcp_slow_start_after_idle', 'net.ipv4.tcp_notsent_lowat']],
];

testCheck(sysctls, [
  { name: 'none', given: '{ spec: { securityContext: { sysctls: null } } }', expected: '' },
  {
    name: 'those that were always safe',
    version: 'v1.0',
    given: pod([
      'kernel.shm_rmid_forced',
      'net.ipv4.ip_local_port_range',
      'net.ipv4.tcp_syncookies',
      'net.ipv4.ping_group_range',
      'net.ipv4.ip_unprivileged_port_start',
    ]),
    expected: '',
  },
  ...ADDITIONS.flatMap(([since, before, names]): CheckCase[] => [
    { name: names.join(', '), version: since, given: pod(names), expected: '' },
    { name: names.join(', '), version: before, given: pod(names), expected: `forbidden sysctls (${names.join(', ')})` },
  ]),
  {
    name: 'in list order, repeated ones too, the slash form as another name',
    given: pod(['kernel.msgmax', 'net/ipv4/tcp_syncookies', 'net.ipv4.tcp_syncookies', 'a', 'kernel.msgmax']),
    expected: 'forbidden sysctls (kernel.msgmax, net/ipv4/tcp_syncookies, a, kernel.msgmax)',
    fields: [
      'FieldValueForbidden spec.securityContext.sysctls[0].name "kernel.msgmax"',
      'FieldValueForbidden spec.securityContext.sysctls[1].name "net/ipv4/tcp_syncookies"',
      'FieldValueForbidden spec.securityContext.sysctls[3].name "a"',
      'FieldValueForbidden spec.securityContext.sysctls[4].name "kernel.msgmax"',
    ],
  },
  {
    name: 'no name, no detail',
    given: '{ spec: { securityContext: { sysctls: [{ value: "1" }] } } }',
    expected: 'forbidden sysctls',
  },
]);

function pod(names: readonly string[]): string {
  return JSON.stringify({ spec: { securityContext: { sysctls: names.map((name) => ({ name, value: '1' })) } } });
}
