import { checkStrategies } from './check.ts';

function sysctls(...names: string[]) {
  return { pod: { sysctls: names.map((name) => ({ name, value: '1' })) } };
}

checkStrategies([
  { name: 'safe ones', scc: {}, ...sysctls('kernel.shm_rmid_forced', 'net.ipv4.tcp_wmem'), expected: {} },
  {
    name: 'unsafe ones, each with its place; another spelling is another name',
    scc: {},
    ...sysctls('kernel.msgmax', 'net.ipv4.tcp_rmem', 'net/ipv4/tcp_rmem'),
    expected: {
      errors: [
        'spec.securityContext.sysctls[0]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed',
        'spec.securityContext.sysctls[2]: Forbidden: unsafe sysctl "net/ipv4/tcp_rmem" is not allowed',
      ],
    },
  },
  {
    name: 'allowed by name and by prefix',
    scc: { allowedUnsafeSysctls: ['kernel.msg*', 'vm.swappiness'] },
    ...sysctls('kernel.msgmax', 'vm.swappiness'),
    expected: {},
  },
  {
    name: 'forbidden goes before safe and allowed',
    scc: { allowedUnsafeSysctls: ['*'], forbiddenSysctls: ['kernel.*'] },
    ...sysctls('kernel.shm_rmid_forced'),
    expected: {
      errors: ['spec.securityContext.sysctls[0]: Forbidden: sysctl "kernel.shm_rmid_forced" is not allowed'],
    },
  },
]);
