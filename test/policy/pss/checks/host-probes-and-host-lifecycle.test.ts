import { hostProbesAndHostLifecycle } from '../../../../src/policy/pss/checks/host-probes-and-host-lifecycle.ts';
import { testCheck } from '../cases.ts';

testCheck(hostProbesAndHostLifecycle, [
  {
    name: 'no host, an empty one, and handlers that have none',
    given: `
      spec:
        containers:
          - name: a
            livenessProbe: { httpGet: { port: 80, httpHeaders: [{ name: Host, value: example.org }] } }
            readinessProbe: { tcpSocket: { port: 80, host: '' } }
            startupProbe: { grpc: { port: 80 } }
            lifecycle: { postStart: { exec: { command: [x] } }, preStop: { httpGet: null } }`,
    expected: '',
  },
  {
    name: 'every place, loopback too',
    given: `
      spec:
        containers:
          - name: a
            livenessProbe: { httpGet: { host: h1 } }
            readinessProbe: { tcpSocket: { host: h2 } }
            startupProbe: { httpGet: { host: h1 }, tcpSocket: { host: localhost } }
            lifecycle: { postStart: { httpGet: { host: 127.0.0.1 } }, preStop: { tcpSocket: { host: h1 } } }`,
    expected:
      'probe or lifecycle host (container "a" uses probe or lifecycle hosts "127.0.0.1", "h1", "h2", "localhost")',
    fields: [
      'FieldValueForbidden spec.containers[0].livenessProbe.httpGet.host "h1"',
      'FieldValueForbidden spec.containers[0].readinessProbe.tcpSocket.host "h2"',
      'FieldValueForbidden spec.containers[0].startupProbe.httpGet.host "h1"',
      'FieldValueForbidden spec.containers[0].startupProbe.tcpSocket.host "localhost"',
      'FieldValueForbidden spec.containers[0].lifecycle.postStart.httpGet.host "127.0.0.1"',
      'FieldValueForbidden spec.containers[0].lifecycle.preStop.tcpSocket.host "h1"',
    ],
  },
  {
    name: 'names are sorted, and said once',
    given: `
      spec:
        initContainers: [{ name: z, startupProbe: { httpGet: { host: h } } }]
        containers: [{ name: a, livenessProbe: { httpGet: { host: h } } }, { name: z, livenessProbe: { httpGet: { host: h } } }]`,
    expected: 'probe or lifecycle host (containers "a", "z" use probe or lifecycle host "h")',
  },
  {
    name: 'two containers of one name count as one',
    given: `
      spec:
        containers: [{ name: a, livenessProbe: { httpGet: { host: h } } }, { name: a, livenessProbe: { httpGet: { host: i } } }]`,
    expected: 'probe or lifecycle host (container "a" uses probe or lifecycle hosts "h", "i")',
  },
  {
    name: 'before its first version',
    version: 'v1.33',
    given: '{ spec: { containers: [{ name: a, livenessProbe: { httpGet: { host: h } } }] } }',
    expected: '',
  },
]);
