import { checkStrategies } from './check.ts';

checkStrategies([
  {
    name: 'defaults are added and drops dropped',
    scc: { defaultAddCapabilities: ['KILL'], requiredDropCapabilities: ['MKNOD', 'CHOWN'] },
    expected: { container: { capabilities: { add: ['KILL'], drop: ['CHOWN', 'MKNOD'] } } },
  },
  {
    name: 'what the container drops is not added',
    scc: { defaultAddCapabilities: ['KILL'] },
    container: { capabilities: { drop: ['KILL'] } },
    expected: {},
  },
  {
    name: 'lists that lack nothing stay as they are, repetitions and all',
    scc: { requiredDropCapabilities: ['MKNOD'] },
    container: { capabilities: { add: [], drop: ['MKNOD', 'ALL', 'MKNOD'] } },
    expected: {},
  },
  {
    name: 'ALL does not stand for the others',
    scc: { requiredDropCapabilities: ['KILL', 'MKNOD'] },
    container: { capabilities: { drop: ['ALL'] } },
    expected: { container: { capabilities: { drop: ['ALL', 'KILL', 'MKNOD'] } } },
  },
  {
    name: 'case counts',
    scc: { requiredDropCapabilities: ['ALL'] },
    container: { capabilities: { drop: ['all'] } },
    expected: { container: { capabilities: { drop: ['ALL', 'all'] } } },
  },
  {
    name: 'added without permission',
    scc: { allowedCapabilities: ['ALL'] },
    container: { capabilities: { add: ['NET_RAW', 'ALL'] } },
    expected: {
      errors: ['provider some: .containers[0].capabilities.add: Invalid value: "NET_RAW": capability may not be added'],
    },
  },
  {
    name: 'a wildcard allows all',
    scc: { allowedCapabilities: ['*'] },
    container: { capabilities: { add: ['NET_RAW'] } },
    expected: {},
  },
]);
