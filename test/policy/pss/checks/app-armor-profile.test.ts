import { appArmorProfile } from '../../../../src/policy/pss/checks/app-armor-profile.ts';
import { testCheck } from '../cases.ts';

const PREFIX = 'container.apparmor.security.beta.kubernetes.io/';

testCheck(appArmorProfile, [
  { name: 'nothing set', given: '{ spec: { containers: [{ name: a }] } }', expected: '' },
  {
    name: 'allowed types and annotations',
    given: `
      metadata:
        annotations:
          ${PREFIX}a: runtime/default
          ${PREFIX}b: localhost/x
          ${PREFIX}c: ''
          ${PREFIX}d: null
          other: unconfined
      spec:
        securityContext: { appArmorProfile: { type: Localhost } }
        containers: [{ name: a, securityContext: { appArmorProfile: { type: RuntimeDefault } } }]`,
    expected: '',
  },
  {
    name: 'pod, containers and annotations at once',
    given: `
      metadata: { annotations: { ${PREFIX}z: unconfined, ${PREFIX}: 'x"y' } }
      spec:
        securityContext: { appArmorProfile: { type: Unconfined } }
        containers:
          - { name: a, securityContext: { appArmorProfile: {} } }
          - { name: b, securityContext: { appArmorProfile: { type: Unconfined } } }`,
    expected: `forbidden AppArmor profiles (pod and containers "a", "b" and annotations must not set AppArmor profile type to "", "Unconfined", "${PREFIX}="x\\"y"", "${PREFIX}z="unconfined"")`,
    fields: [
      'FieldValueForbidden spec.securityContext.appArmorProfile.type "Unconfined"',
      'FieldValueForbidden spec.containers[0].securityContext.appArmorProfile.type ""',
      'FieldValueForbidden spec.containers[1].securityContext.appArmorProfile.type "Unconfined"',
      `FieldValueForbidden metadata.annotations[${PREFIX}z] "unconfined"`,
      `FieldValueForbidden metadata.annotations[${PREFIX}] "x\\"y"`,
    ],
  },
  {
    name: 'one annotation, of a container that does not exist',
    given: `{ metadata: { annotations: { ${PREFIX}gone: unconfined } }, spec: { containers: [{ name: a }] } }`,
    expected: `forbidden AppArmor profile (annotation must not set AppArmor profile type to "${PREFIX}gone="unconfined"")`,
  },
  {
    name: 'two containers, one type',
    given: `
      spec:
        containers:
          - { name: a, securityContext: { appArmorProfile: { type: Unconfined } } }
          - { name: b, securityContext: { appArmorProfile: { type: Unconfined } } }`,
    expected: 'forbidden AppArmor profile (containers "a", "b" must not set AppArmor profile type to "Unconfined")',
  },
]);
