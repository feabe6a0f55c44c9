import { runAsUser } from '../../../../src/policy/pss/checks/run-as-user.ts';
import { testCheck } from '../cases.ts';

testCheck(runAsUser, [
  {
    name: 'absent, null, and other numbers',
    given: `
      spec:
        securityContext: { runAsUser: 1000 }
        containers: [{ name: a, securityContext: { runAsUser: null, runAsGroup: 0 } }, { name: b, securityContext: { runAsUser: -1 } }]`,
    expected: '',
  },
  {
    name: 'the pod, though its containers set others',
    given:
      '{ spec: { securityContext: { runAsUser: 0 }, containers: [{ name: a, securityContext: { runAsUser: 1 } }] } }',
    expected: 'runAsUser=0 (pod must not set runAsUser=0)',
    fields: ['FieldValueForbidden spec.securityContext.runAsUser 0'],
  },
  {
    name: 'pod and containers',
    given: `
      spec:
        securityContext: { runAsUser: 0 }
        containers: [{ name: a, securityContext: { runAsUser: 0 } }, { name: b }, { name: c, securityContext: { runAsUser: 0 } }]`,
    expected: 'runAsUser=0 (pod and containers "a", "c" must not set runAsUser=0)',
    fields: [
      'FieldValueForbidden spec.securityContext.runAsUser 0',
      'FieldValueForbidden spec.containers[0].securityContext.runAsUser 0',
      'FieldValueForbidden spec.containers[2].securityContext.runAsUser 0',
    ],
  },
  {
    name: 'user namespace',
    given: '{ spec: { hostUsers: false, containers: [{ name: a, securityContext: { runAsUser: 0 } }] } }',
    expected: '',
  },
  {
    name: 'user namespace, before that counted',
    version: 'v1.34',
    given: '{ spec: { hostUsers: false, containers: [{ name: a, securityContext: { runAsUser: 0 } }] } }',
    expected: 'runAsUser=0 (container "a" must not set runAsUser=0)',
  },
  {
    name: 'before its first version',
    version: 'v1.22',
    given: '{ spec: { securityContext: { runAsUser: 0 } } }',
    expected: '',
  },
]);
