import { checkStrategies } from './check.ts';

const NO_ESCALATION = { allowPrivilegeEscalation: false };

checkStrategies([
  {
    name: 'privileged',
    scc: {},
    container: { privileged: true },
    expected: {
      errors: ['provider some: .containers[0].privileged: Invalid value: true: Privileged containers are not allowed'],
    },
  },
  {
    name: 'privileged where it is allowed',
    scc: { allowPrivilegedContainer: true },
    container: { privileged: true },
    expected: {},
  },
  {
    name: 'no escalation is the default where it is forbidden',
    scc: NO_ESCALATION,
    expected: { container: { allowPrivilegeEscalation: false } },
  },
  {
    name: 'also of privileged containers',
    scc: { ...NO_ESCALATION, allowPrivilegedContainer: true, defaultAllowPrivilegeEscalation: true },
    container: { privileged: true },
    expected: { container: { privileged: true, allowPrivilegeEscalation: false } },
  },
  {
    name: 'escalation',
    scc: NO_ESCALATION,
    container: { allowPrivilegeEscalation: true },
    expected: {
      errors: [
        'provider some: .containers[0].allowPrivilegeEscalation: Invalid value: true: Allowing privilege escalation for containers is not allowed',
      ],
    },
  },
  {
    name: 'the default of the SCC',
    scc: { defaultAllowPrivilegeEscalation: false },
    expected: { container: { allowPrivilegeEscalation: false } },
  },
  {
    name: 'the default is not for CAP_SYS_ADMIN',
    scc: { defaultAllowPrivilegeEscalation: false, allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['CAP_SYS_ADMIN'] } },
    expected: {},
  },
  {
    name: 'but for SYS_ADMIN',
    scc: { defaultAllowPrivilegeEscalation: false, allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['SYS_ADMIN'] } },
    expected: { container: { capabilities: { add: ['SYS_ADMIN'] }, allowPrivilegeEscalation: false } },
  },
  {
    name: 'a root file system for reading',
    scc: { readOnlyRootFilesystem: true },
    expected: { container: { readOnlyRootFilesystem: true } },
  },
  {
    name: 'a root file system for writing',
    scc: { readOnlyRootFilesystem: true },
    container: { readOnlyRootFilesystem: false },
    expected: {
      errors: [
        'provider some: .containers[0].readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true',
      ],
    },
  },
]);
