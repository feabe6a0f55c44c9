import { procMount } from '../../../../src/policy/pss/checks/proc-mount.ts';
import { testCheck } from '../cases.ts';

testCheck(procMount, [
  {
    name: 'absent and Default',
    given:
      '{ spec: { containers: [{ name: a, securityContext: { procMount: Default } }, { name: b, securityContext: { procMount: null } }] } }',
    expected: '',
  },
  {
    name: 'other values, distinct and sorted',
    given: `
      spec:
        containers:
          - { name: a, securityContext: { procMount: Unmasked } }
          - { name: b, securityContext: { procMount: '' } }
          - { name: c, securityContext: { procMount: Default } }
          - { name: d, securityContext: { procMount: Unmasked } }`,
    expected: 'procMount (containers "a", "b", "d" must not set securityContext.procMount to "", "Unmasked")',
    fields: [
      'FieldValueForbidden spec.containers[0].securityContext.procMount "Unmasked"',
      'FieldValueForbidden spec.containers[1].securityContext.procMount ""',
      'FieldValueForbidden spec.containers[3].securityContext.procMount "Unmasked"',
    ],
  },
  {
    name: 'user namespace',
    given: '{ spec: { hostUsers: false, containers: [{ name: a, securityContext: { procMount: Unmasked } }] } }',
    expected: '',
  },
  {
    name: 'user namespace of the host',
    given: '{ spec: { hostUsers: true, containers: [{ name: a, securityContext: { procMount: Unmasked } }] } }',
    expected: 'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
  },
  {
    name: 'user namespace, before that counted',
    version: 'v1.34',
    given: '{ spec: { hostUsers: false, containers: [{ name: a, securityContext: { procMount: Unmasked } }] } }',
    expected: 'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
  },
]);
