import { seLinuxOptions } from '../../../../src/policy/pss/checks/se-linux-options.ts';
import { testCheck } from '../cases.ts';

testCheck(seLinuxOptions, [
  {
    name: 'allowed types; the level is free',
    given: `
      spec:
        securityContext: { seLinuxOptions: { type: container_t, level: 's0:c1,c2', user: '', role: null } }
        containers:
          - { name: a, securityContext: { seLinuxOptions: {} } }
          - { name: b, securityContext: { seLinuxOptions: { type: container_init_t } } }
          - { name: c, securityContext: { seLinuxOptions: { type: container_kvm_t } } }
          - { name: d, securityContext: { seLinuxOptions: { type: container_engine_t } } }`,
    expected: '',
  },
  {
    name: 'container_engine_t, before it was allowed',
    version: 'v1.30',
    given: '{ spec: { containers: [{ name: a, securityContext: { seLinuxOptions: { type: container_engine_t } } }] } }',
    expected: 'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "container_engine_t")',
  },
  {
    name: 'everything at once',
    given: `
      spec:
        securityContext: { seLinuxOptions: { type: foo } }
        containers:
          - { name: a, securityContext: { seLinuxOptions: { type: bar, user: u } } }
          - { name: b, securityContext: { seLinuxOptions: { type: container_t, role: r } } }
          - { name: c }
          - { name: d, securityContext: { seLinuxOptions: { type: foo, role: r } } }`,
    expected:
      'seLinuxOptions (pod and containers "a", "b", "d" set forbidden securityContext.seLinuxOptions: types "bar", "foo"; user may not be set; role may not be set)',
    fields: [
      'FieldValueForbidden spec.securityContext.seLinuxOptions.type "foo"',
      'FieldValueForbidden spec.containers[0].securityContext.seLinuxOptions.type "bar"',
      'FieldValueForbidden spec.containers[0].securityContext.seLinuxOptions.user "u"',
      'FieldValueForbidden spec.containers[1].securityContext.seLinuxOptions.role "r"',
      'FieldValueForbidden spec.containers[3].securityContext.seLinuxOptions.type "foo"',
      'FieldValueForbidden spec.containers[3].securityContext.seLinuxOptions.role "r"',
    ],
  },
  {
    name: 'role alone',
    given: '{ spec: { securityContext: { seLinuxOptions: { role: r } } } }',
    expected: 'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: role may not be set)',
  },
  {
    name: 'user and role without a type',
    given: '{ spec: { containers: [{ name: a, securityContext: { seLinuxOptions: { user: u, role: r } } }] } }',
    expected:
      'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: user may not be set; role may not be set)',
  },
]);
