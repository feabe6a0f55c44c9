import { capabilitiesRestricted } from '../../../../src/policy/pss/checks/capabilities-restricted.ts';
import { testCheck } from '../cases.ts';

const DROP = 'must set securityContext.capabilities.drop=["ALL"]';

testCheck(capabilitiesRestricted, [
  {
    name: 'ALL dropped, alone or with others, and the one added that may be',
    given: `
      spec:
        containers:
          - { name: a, securityContext: { capabilities: { drop: [ALL] } } }
          - { name: b, securityContext: { capabilities: { drop: [KILL, ALL], add: [NET_BIND_SERVICE] } } }`,
    expected: '',
  },
  {
    name: 'nothing dropped, in every form of nothing',
    given: `
      spec:
        containers:
          - { name: a }
          - { name: b, securityContext: {} }
          - { name: c, securityContext: { capabilities: {} } }
          - { name: d, securityContext: { capabilities: { drop: [] } } }
          - { name: e, securityContext: { capabilities: { drop: [all, CAP_ALL] } } }`,
    expected: `unrestricted capabilities (containers "a", "b", "c", "d", "e" ${DROP})`,
    fields: [
      'FieldValueRequired spec.containers[0].securityContext.capabilities.drop undefined',
      'FieldValueRequired spec.containers[1].securityContext.capabilities.drop undefined',
      'FieldValueRequired spec.containers[2].securityContext.capabilities.drop undefined',
      'FieldValueRequired spec.containers[3].securityContext.capabilities.drop undefined',
      'FieldValueForbidden spec.containers[4].securityContext.capabilities.drop ["CAP_ALL","all"]',
    ],
  },
  {
    name: 'added in one, dropped in none',
    given: `
      spec:
        initContainers: [{ name: i, securityContext: { capabilities: { add: [SYS_ADMIN, NET_BIND_SERVICE, CHOWN] } } }]
        containers: [{ name: c, securityContext: { capabilities: { drop: [ALL], add: [CHOWN] } } }]`,
    expected: `unrestricted capabilities (container "i" ${DROP}; containers "i", "c" must not include "CHOWN", "SYS_ADMIN" in securityContext.capabilities.add)`,
    fields: [
      'FieldValueRequired spec.initContainers[0].securityContext.capabilities.drop undefined',
      'FieldValueForbidden spec.initContainers[0].securityContext.capabilities.add ["CHOWN","SYS_ADMIN"]',
      'FieldValueForbidden spec.containers[0].securityContext.capabilities.add ["CHOWN"]',
    ],
  },
  {
    name: 'only added',
    given: '{ spec: { containers: [{ name: a, securityContext: { capabilities: { drop: [ALL], add: [ALL] } } }] } }',
    expected: 'unrestricted capabilities (container "a" must not include "ALL" in securityContext.capabilities.add)',
  },
  { name: 'windows', given: '{ spec: { os: { name: windows }, containers: [{ name: a }] } }', expected: '' },
  {
    name: 'windows, before that counted',
    version: 'v1.24',
    given: '{ spec: { os: { name: windows }, containers: [{ name: a }] } }',
    expected: `unrestricted capabilities (container "a" ${DROP})`,
  },
]);
