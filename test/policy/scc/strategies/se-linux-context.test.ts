import { checkStrategies } from './check.ts';

const LABEL = { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0:c26,c5', type: 'svirt_t' } } };
const OPTIONS = { level: 's0:c26,c5', type: 'svirt_t' };

checkStrategies([
  { name: 'the pod gets all members', scc: LABEL, expected: { pod: { seLinuxOptions: OPTIONS } } },
  {
    name: 'categories in another order are the same',
    scc: LABEL,
    pod: { seLinuxOptions: { level: 's0:c5,c26', type: 'svirt_t' } },
    expected: {},
  },
  {
    name: 'ranges are not expanded',
    scc: { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level: 's0:c1.c3' } } },
    pod: { seLinuxOptions: { level: 's0:c1,c2,c3' } },
    expected: {
      errors: [
        'provider some: .spec.securityContext.seLinuxOptions.level: Invalid value: "s0:c1,c2,c3": must be s0:c1.c3',
        'provider some: .containers[0].seLinuxOptions.level: Invalid value: "s0:c1,c2,c3": must be s0:c1.c3',
      ],
    },
  },
  {
    name: 'options of a container stand alone: what they lack is empty',
    scc: LABEL,
    container: { seLinuxOptions: { user: 'u' } },
    expected: {
      errors: [
        'provider some: .containers[0].seLinuxOptions.level: Invalid value: "": must be s0:c26,c5',
        'provider some: .containers[0].seLinuxOptions.type: Invalid value: "": must be svirt_t',
        'provider some: .containers[0].seLinuxOptions.user: Invalid value: "u": must be ',
      ],
    },
  },
  {
    name: 'any context: options of the SCC mean nothing',
    scc: { seLinuxContext: { type: 'RunAsAny', seLinuxOptions: OPTIONS } },
    expected: {},
  },
]);
