import { hostNamespaces } from '../../../../src/policy/pss/checks/host-namespaces.ts';
import { testCheck } from '../cases.ts';

testCheck(hostNamespaces, [
  { name: 'nothing set', given: '{ spec: { containers: [] } }', expected: '' },
  { name: 'false and null', given: '{ spec: { hostNetwork: false, hostPID: null, hostIPC: false } }', expected: '' },
  { name: 'the user namespace of the host is the default', given: '{ spec: { hostUsers: true } }', expected: '' },
  {
    name: 'all, in a fixed order',
    given: '{ spec: { hostIPC: true, hostPID: true, hostNetwork: true } }',
    expected: 'host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)',
    fields: [
      'FieldValueForbidden spec.hostNetwork true',
      'FieldValueForbidden spec.hostPID true',
      'FieldValueForbidden spec.hostIPC true',
    ],
  },
  { name: 'network', given: '{ spec: { hostNetwork: true } }', expected: 'host namespaces (hostNetwork=true)' },
  {
    name: 'processes',
    given: '{ spec: { hostPID: true, hostNetwork: false } }',
    expected: 'host namespaces (hostPID=true)',
    fields: ['FieldValueForbidden spec.hostPID true'],
  },
  {
    name: 'network and IPC',
    given: '{ spec: { hostNetwork: true, hostIPC: true } }',
    expected: 'host namespaces (hostNetwork=true, hostIPC=true)',
  },
]);
