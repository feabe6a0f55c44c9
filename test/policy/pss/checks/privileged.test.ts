import { privileged } from '../../../../src/policy/pss/checks/privileged.ts';
import { testCheck } from '../cases.ts';

testCheck(privileged, [
  { name: 'nothing set', given: '{ spec: { containers: [{ name: a }] } }', expected: '' },
  {
    name: 'false, null and an empty security context',
    given: `
      spec:
        containers:
          - { name: a, securityContext: { privileged: false } }
          - { name: b, securityContext: { privileged: null } }
          - { name: c, securityContext: {} }
          - { name: d, securityContext: null }`,
    expected: '',
  },
  {
    name: 'one container',
    given: '{ spec: { containers: [{ name: a }, { name: b, securityContext: { privileged: true } }] } }',
    expected: 'privileged (container "b" must not set securityContext.privileged=true)',
    fields: ['FieldValueForbidden spec.containers[1].securityContext.privileged true'],
  },
  {
    name: 'all lists of containers, in visiting order',
    given: `
      spec:
        ephemeralContainers: [{ name: e, securityContext: { privileged: true } }]
        containers: [{ name: c, securityContext: { privileged: true } }]
        initContainers: [{ name: i }, { name: j, securityContext: { privileged: true } }]`,
    expected: 'privileged (containers "j", "c", "e" must not set securityContext.privileged=true)',
    fields: [
      'FieldValueForbidden spec.initContainers[1].securityContext.privileged true',
      'FieldValueForbidden spec.containers[0].securityContext.privileged true',
      'FieldValueForbidden spec.ephemeralContainers[0].securityContext.privileged true',
    ],
  },
  {
    name: 'repeated and unusual names are printed unchanged',
    given: String.raw`
      spec:
        containers:
          - { name: a, securityContext: { privileged: true } }
          - { name: a, securityContext: { privileged: true } }
          - { securityContext: { privileged: true } }
          - { name: "q\"\n", securityContext: { privileged: true } }`,
    expected: 'privileged (containers "a", "a", "", "q"\n" must not set securityContext.privileged=true)',
  },
  {
    name: 'a field in another case is another field',
    given: '{ spec: { containers: [{ name: a, securityContext: { Privileged: true } }] } }',
    expected: '',
  },
]);
