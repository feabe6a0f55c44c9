import { runAsNonRoot } from '../../../../src/policy/pss/checks/run-as-non-root.ts';
import { testCheck } from '../cases.ts';

testCheck(runAsNonRoot, [
  {
    name: 'true in the pod',
    given:
      '{ spec: { securityContext: { runAsNonRoot: true }, containers: [{ name: a }, { name: b, securityContext: {} }] } }',
    expected: '',
  },
  {
    name: 'true in each container',
    given: `
      spec:
        initContainers: [{ name: i, securityContext: { runAsNonRoot: true } }]
        containers: [{ name: c, securityContext: { runAsNonRoot: true } }]`,
    expected: '',
  },
  { name: 'no containers, nothing set', given: '{ spec: {} }', expected: '' },
  {
    name: 'not set in the pod',
    given: `
      spec:
        securityContext: {}
        containers:
          - { name: a, securityContext: { runAsNonRoot: true } }
          - { name: b, securityContext: { runAsNonRoot: null } }
          - { name: c }`,
    expected: 'runAsNonRoot != true (pod or containers "b", "c" must set securityContext.runAsNonRoot=true)',
    fields: [
      'FieldValueRequired spec.containers[1].securityContext.runAsNonRoot undefined',
      'FieldValueRequired spec.containers[2].securityContext.runAsNonRoot undefined',
    ],
  },
  {
    name: 'false in the pod, true in every container',
    given: `
      spec:
        securityContext: { runAsNonRoot: false }
        containers: [{ name: a, securityContext: { runAsNonRoot: true } }]`,
    expected: 'runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)',
    fields: ['FieldValueForbidden spec.securityContext.runAsNonRoot false'],
  },
  {
    name: 'explicit offenders are reported alone',
    given: `
      spec:
        securityContext: { runAsNonRoot: false }
        containers: [{ name: a, securityContext: { runAsNonRoot: false } }, { name: b }]`,
    expected: 'runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)',
  },
  {
    name: 'false in one container, true in the pod',
    given: `
      spec:
        securityContext: { runAsNonRoot: true }
        containers: [{ name: a, securityContext: { runAsNonRoot: false } }, { name: b }]`,
    expected: 'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)',
  },
  { name: 'user namespace', given: '{ spec: { hostUsers: false, containers: [{ name: a }] } }', expected: '' },
  {
    name: 'user namespace, before its relaxation',
    version: 'v1.34',
    given: '{ spec: { hostUsers: false, containers: [{ name: a }] } }',
    expected: 'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
  },
  {
    name: 'windows makes no difference',
    given: '{ spec: { os: { name: windows }, containers: [{ name: a }] } }',
    expected: 'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
  },
]);
