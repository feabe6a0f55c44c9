import { capabilitiesBaseline } from '../../../../src/policy/pss/checks/capabilities-baseline.ts';
import { testCheck } from '../cases.ts';

testCheck(capabilitiesBaseline, [
  {
    name: 'nothing added',
    given: '{ spec: { containers: [{ name: a, securityContext: { capabilities: { drop: [SYS_ADMIN] } } }] } }',
    expected: '',
  },
  {
    name: 'the default set',
    given: `
      spec:
        containers:
          - name: a
            securityContext:
              capabilities:
                add: [AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, MKNOD, NET_BIND_SERVICE, SETFCAP, SETGID, SETPCAP, SETUID, SYS_CHROOT]`,
    expected: '',
  },
  {
    name: 'values are distinct and sorted by bytes',
    given: `
      spec:
        containers:
          - { name: a, securityContext: { capabilities: { add: [bar, FOO, KILL, '😀'] } } }
          - { name: b, securityContext: { capabilities: { add: [CHOWN] } } }
          - { name: c, securityContext: { capabilities: { add: [ALL, FOO, '～', ALL] } } }`,
    expected:
      'non-default capabilities (containers "a", "c" must not include "ALL", "FOO", "bar", "～", "😀" in securityContext.capabilities.add)',
    fields: [
      'FieldValueForbidden spec.containers[0].securityContext.capabilities.add ["FOO","bar","😀"]',
      'FieldValueForbidden spec.containers[2].securityContext.capabilities.add ["ALL","FOO","～"]',
    ],
  },
  {
    name: 'more values than are sorted by hand',
    given:
      '{ spec: { containers: [{ name: a, securityContext: { capabilities: { add: [J, I, H, G, F, E, D, C, B, A, J] } } }] } }',
    expected:
      'non-default capabilities (container "a" must not include "A", "B", "C", "D", "E", "F", "G", "H", "I", "J" in securityContext.capabilities.add)',
  },
  {
    name: 'prefix, lower case and null do not count as the default ones',
    given:
      '{ spec: { containers: [{ name: a, securityContext: { capabilities: { add: [CAP_CHOWN, chown, null] } } }] } }',
    expected:
      'non-default capabilities (container "a" must not include "", "CAP_CHOWN", "chown" in securityContext.capabilities.add)',
  },
]);
