import { procMountRestricted } from '../../../../src/policy/pss/checks/proc-mount-restricted.ts';
import { testCheck } from '../cases.ts';

testCheck(procMountRestricted, [
  {
    name: 'Default',
    given: '{ spec: { containers: [{ name: a, securityContext: { procMount: Default } }] } }',
    expected: '',
  },
  {
    name: 'another value, in a user namespace too',
    given: '{ spec: { hostUsers: false, containers: [{ name: a, securityContext: { procMount: Unmasked } }] } }',
    expected: 'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    fields: ['FieldValueForbidden spec.containers[0].securityContext.procMount "Unmasked"'],
  },
  {
    name: 'before its first version',
    version: 'v1.34',
    given: '{ spec: { containers: [{ name: a, securityContext: { procMount: Unmasked } }] } }',
    expected: '',
  },
]);
