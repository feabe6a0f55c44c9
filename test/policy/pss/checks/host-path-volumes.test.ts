import { hostPathVolumes } from '../../../../src/policy/pss/checks/host-path-volumes.ts';
import { testCheck } from '../cases.ts';

testCheck(hostPathVolumes, [
  { name: 'no volumes', given: '{ spec: { volumes: null } }', expected: '' },
  {
    name: 'other sources',
    given: '{ spec: { volumes: [{ name: a, emptyDir: {} }, { name: b, nfs: {} }] } }',
    expected: '',
  },
  { name: 'null is absent', given: '{ spec: { volumes: [{ name: a, hostPath: null }, null] } }', expected: '' },
  {
    name: 'one volume',
    given: '{ spec: { volumes: [{ name: a, emptyDir: {} }, { name: b, hostPath: { path: /var } }] } }',
    expected: 'hostPath volumes (volume "b")',
    fields: ['FieldValueForbidden spec.volumes[1].hostPath "/var"'],
  },
  {
    name: 'two volumes, one of them with a second source, one without a path',
    given: '{ spec: { volumes: [{ name: z, hostPath: {}, emptyDir: {} }, { name: a, hostPath: { path: / } }] } }',
    expected: 'hostPath volumes (volumes "z", "a")',
    fields: ['FieldValueForbidden spec.volumes[0].hostPath ""', 'FieldValueForbidden spec.volumes[1].hostPath "/"'],
  },
]);
