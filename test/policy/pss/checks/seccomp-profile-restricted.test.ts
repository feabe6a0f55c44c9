import { seccompProfileRestricted } from '../../../../src/policy/pss/checks/seccomp-profile-restricted.ts';
import { testCheck } from '../cases.ts';

testCheck(seccompProfileRestricted, [
  {
    name: 'the pod has one for all',
    given: '{ spec: { securityContext: { seccompProfile: { type: RuntimeDefault } }, containers: [{ name: a }] } }',
    expected: '',
  },
  {
    name: 'each container has its own',
    given: '{ spec: { containers: [{ name: a, securityContext: { seccompProfile: { type: Localhost } } }] } }',
    expected: '',
  },
  {
    name: 'no profile',
    given: `
      metadata: { annotations: { seccomp.security.alpha.kubernetes.io/pod: runtime/default } }
      spec:
        containers:
          - { name: a, securityContext: { seccompProfile: { type: RuntimeDefault } } }
          - { name: b, securityContext: { seccompProfile: null } }
          - { name: c }`,
    expected:
      'seccompProfile (pod or containers "b", "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    fields: [
      'FieldValueRequired spec.containers[1].securityContext.seccompProfile.type undefined',
      'FieldValueRequired spec.containers[2].securityContext.seccompProfile.type undefined',
    ],
  },
  {
    name: 'explicit offenders are reported alone',
    given: `
      spec:
        securityContext: { seccompProfile: { type: Unconfined } }
        containers: [{ name: a }, { name: b, securityContext: { seccompProfile: { type: RuntimeDefault } } }]`,
    expected: 'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    fields: ['FieldValueForbidden spec.securityContext.seccompProfile.type "Unconfined"'],
  },
  { name: 'windows', given: '{ spec: { os: { name: windows }, containers: [{ name: a }] } }', expected: '' },
  {
    name: 'windows, before that counted',
    version: 'v1.24',
    given: '{ spec: { os: { name: windows }, containers: [{ name: a }] } }',
    expected:
      'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
  },
  { name: 'no containers', given: '{ spec: {} }', expected: '' },
]);
