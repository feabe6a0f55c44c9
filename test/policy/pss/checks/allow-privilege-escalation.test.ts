import { allowPrivilegeEscalation } from '../../../../src/policy/pss/checks/allow-privilege-escalation.ts';
import { testCheck } from '../cases.ts';

const REFUSAL =
  'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)';

testCheck(allowPrivilegeEscalation, [
  {
    name: 'false in each container',
    given: `
      spec:
        initContainers: [{ name: i, securityContext: { allowPrivilegeEscalation: false } }]
        containers: [{ name: c, securityContext: { allowPrivilegeEscalation: false } }]`,
    expected: '',
  },
  {
    name: 'absent, empty, true and false',
    given: `
      spec:
        containers:
          - { name: a }
          - { name: b, securityContext: {} }
          - { name: c, securityContext: { allowPrivilegeEscalation: true } }
          - { name: d, securityContext: { allowPrivilegeEscalation: false } }`,
    expected:
      'allowPrivilegeEscalation != false (containers "a", "b", "c" must set securityContext.allowPrivilegeEscalation=false)',
    fields: [
      'FieldValueRequired spec.containers[0].securityContext.allowPrivilegeEscalation "nil"',
      'FieldValueForbidden spec.containers[1].securityContext.allowPrivilegeEscalation "nil"',
      'FieldValueForbidden spec.containers[2].securityContext.allowPrivilegeEscalation true',
    ],
  },
  { name: 'windows', given: '{ spec: { os: { name: windows }, containers: [{ name: a }] } }', expected: '' },
  { name: 'linux', given: '{ spec: { os: { name: linux }, containers: [{ name: a }] } }', expected: REFUSAL },
  {
    name: 'windows by its node selector only',
    given: '{ spec: { nodeSelector: { kubernetes.io/os: windows }, containers: [{ name: a }] } }',
    expected: REFUSAL,
  },
  {
    name: 'windows, before that counted',
    version: 'v1.24',
    given: '{ spec: { os: { name: windows }, containers: [{ name: a }] } }',
    expected: REFUSAL,
  },
  { name: 'before its first version', version: 'v1.7', given: '{ spec: { containers: [{ name: a }] } }', expected: '' },
  { name: 'no containers', given: '{ spec: {} }', expected: '' },
]);
