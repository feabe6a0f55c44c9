import { windowsHostProcess } from '../../../../src/policy/pss/checks/windows-host-process.ts';
import { testCheck } from '../cases.ts';

testCheck(windowsHostProcess, [
  {
    name: 'absent and false',
    given: `
      spec:
        securityContext: { windowsOptions: { hostProcess: false } }
        containers: [{ name: a, securityContext: { windowsOptions: { hostProcess: null, runAsUserName: x } } }]`,
    expected: '',
  },
  {
    name: 'the pod, whatever its OS',
    given: '{ spec: { os: { name: linux }, securityContext: { windowsOptions: { hostProcess: true } } } }',
    expected: 'hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)',
    fields: ['FieldValueForbidden spec.securityContext.windowsOptions.hostProcess true'],
  },
  {
    name: 'pod and containers',
    given: `
      spec:
        securityContext: { windowsOptions: { hostProcess: true } }
        initContainers: [{ name: i, securityContext: { windowsOptions: { hostProcess: true } } }]
        containers: [{ name: c, securityContext: { windowsOptions: { hostProcess: true } } }]`,
    expected: 'hostProcess (pod and containers "i", "c" must not set securityContext.windowsOptions.hostProcess=true)',
    fields: [
      'FieldValueForbidden spec.securityContext.windowsOptions.hostProcess true',
      'FieldValueForbidden spec.initContainers[0].securityContext.windowsOptions.hostProcess true',
      'FieldValueForbidden spec.containers[0].securityContext.windowsOptions.hostProcess true',
    ],
  },
]);
