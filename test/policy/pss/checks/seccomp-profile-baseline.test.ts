import { seccompProfileBaseline } from '../../../../src/policy/pss/checks/seccomp-profile-baseline.ts';
import { testCheck } from '../cases.ts';

const POD = 'seccomp.security.alpha.kubernetes.io/pod';
const PREFIX = 'container.seccomp.security.alpha.kubernetes.io/';

testCheck(seccompProfileBaseline, [
  { name: 'nothing set', given: '{ spec: { containers: [{ name: a }] } }', expected: '' },
  {
    name: 'allowed types',
    given: `
      spec:
        securityContext: { seccompProfile: { type: RuntimeDefault } }
        containers: [{ name: a, securityContext: { seccompProfile: { type: Localhost } } }, { name: b }]`,
    expected: '',
  },
  {
    name: 'pod and containers, other types and none',
    given: `
      spec:
        securityContext: { seccompProfile: { type: Unconfined } }
        containers:
          - { name: a, securityContext: { seccompProfile: {} } }
          - { name: b, securityContext: { seccompProfile: { type: Unconfined } } }
          - { name: c, securityContext: { seccompProfile: { type: Localhost } } }`,
    expected:
      'seccompProfile (pod and containers "a", "b" must not set securityContext.seccompProfile.type to "", "Unconfined")',
    fields: [
      'FieldValueForbidden spec.securityContext.seccompProfile.type "Unconfined"',
      'FieldValueForbidden spec.containers[0].securityContext.seccompProfile.type ""',
      'FieldValueForbidden spec.containers[1].securityContext.seccompProfile.type "Unconfined"',
    ],
  },
  {
    name: 'annotations no longer count',
    version: 'v1.19',
    given: `{ metadata: { annotations: { ${POD}: unconfined } }, spec: { containers: [{ name: a }] } }`,
    expected: '',
  },
  {
    name: 'fields do not count yet',
    version: 'v1.18',
    given: '{ spec: { securityContext: { seccompProfile: { type: Unconfined } } } }',
    expected: '',
  },
  {
    name: 'allowed annotations, and one of a container that does not exist',
    version: 'v1.18',
    given: `
      metadata:
        annotations: { ${POD}: docker/default, ${PREFIX}a: runtime/default, ${PREFIX}b: localhost/x, ${PREFIX}gone: unconfined }
      spec: { containers: [{ name: a }, { name: b }] }`,
    expected: '',
  },
  {
    name: 'one annotation; the empty one offends',
    version: 'v1.18',
    given: `{ metadata: { annotations: { ${POD}: '' } }, spec: { containers: [{ name: a }] } }`,
    expected: `seccompProfile (forbidden annotation ${POD}="")`,
    fields: [`FieldValueForbidden metadata.annotations[${POD}] ""`],
  },
  {
    name: 'several annotations, sorted, quoted as in Go',
    version: 'v1.0',
    given: String.raw`
      metadata: { annotations: { ${POD}: "a\tb", ${PREFIX}i: unconfined, ${PREFIX}e: null } }
      spec: { initContainers: [{ name: i }], ephemeralContainers: [{ name: e }, { name: i }] }`,
    expected: String.raw`seccompProfile (forbidden annotations ${PREFIX}e="", ${PREFIX}i="unconfined", ${POD}="a\tb")`,
  },
]);
