import { hostPorts } from '../../../../src/policy/pss/checks/host-ports.ts';
import { testCheck } from '../cases.ts';

testCheck(hostPorts, [
  {
    name: 'none, 0, null and an address alone',
    given: `
      spec:
        containers:
          - { name: a }
          - { name: b, ports: [{ containerPort: 80 }, { hostPort: 0 }, { hostPort: null, hostIP: 10.0.0.1 }, null] }`,
    expected: '',
  },
  {
    name: 'one container, one port',
    given: '{ spec: { containers: [{ name: a, ports: [{ containerPort: 1 }, { hostPort: 80 }] }, { name: b }] } }',
    expected: 'hostPort (container "a" uses hostPort 80)',
    fields: ['FieldValueForbidden spec.containers[0].ports[1].hostPort 80'],
  },
  {
    name: 'one container, several ports, sorted as texts',
    given: '{ spec: { containers: [{ name: a, ports: [{ hostPort: 9 }, { hostPort: 80 }, { hostPort: 10 }] }] } }',
    expected: 'hostPort (container "a" uses hostPorts 10, 80, 9)',
  },
  {
    name: 'two containers, one port',
    given:
      '{ spec: { initContainers: [{ name: i, ports: [{ hostPort: 80 }] }], containers: [{ name: c, ports: [{ hostPort: 80 }] }] } }',
    expected: 'hostPort (containers "i", "c" use hostPort 80)',
    fields: [
      'FieldValueForbidden spec.initContainers[0].ports[0].hostPort 80',
      'FieldValueForbidden spec.containers[0].ports[0].hostPort 80',
    ],
  },
  {
    name: 'two containers, two ports, one of them negative',
    given:
      '{ spec: { containers: [{ name: a, ports: [{ hostPort: 8080 }] }, { name: b, ports: [{ hostPort: -1 }] }] } }',
    expected: 'hostPort (containers "a", "b" use hostPorts -1, 8080)',
  },
]);
