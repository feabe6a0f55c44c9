import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { strategyOf } from '../../../src/dev-cluster/objects/index.ts';
import type { ApiObject } from '../../../src/dev-cluster/types.ts';
import { printFieldError } from '../../../src/kube/field-error.ts';

const strategy = strategyOf('networking.k8s.io', 'NetworkPolicy');

function make(spec: object): ApiObject {
  const object: ApiObject = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'x', namespace: 'a' },
    spec: { podSelector: {}, ...spec },
  };
  strategy.defaults(object);
  return object;
}

describe('network policies', () => {
  const defaults: readonly [what: string, spec: object, filled: object][] = [
    ['only ingress is meant unless egress is said', {}, { policyTypes: ['Ingress'] }],
    [
      'egress is meant where there are rules for it, and ports are of TCP',
      { egress: [{ ports: [{ port: 443 }, { port: 53, protocol: 'UDP' }] }] },
      {
        egress: [
          {
            ports: [
              { port: 443, protocol: 'TCP' },
              { port: 53, protocol: 'UDP' },
            ],
          },
        ],
        policyTypes: ['Ingress', 'Egress'],
      },
    ],
    ['what is said stays', { policyTypes: ['Egress'] }, { policyTypes: ['Egress'] }],
  ];
  for (const [what, spec, filled] of defaults) {
    test(what, () => assert.deepEqual(make(spec)['spec'], { podSelector: {}, ...filled }));
  }

  const cases: readonly [what: string, spec: object, errors: readonly string[]][] = [
    ['a sound one', { ingress: [{ ports: [{ port: 'https' }], from: [{ namespaceSelector: {} }] }] }, []],
    [
      'ports that are none',
      { ingress: [{ ports: [{ port: 0, protocol: 'ICMP' }] }] },
      [
        'spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
        'spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive',
      ],
    ],
    [
      'peers that say nothing or too much',
      { egress: [{ to: [{}, { podSelector: {}, ipBlock: { cidr: '10.0.0.0/8' } }] }] },
      [
        'spec.egress[0].to[0]: Required value: must specify a peer',
        'spec.egress[0].to[1]: Forbidden: may not specify both ipBlock and another peer',
      ],
    ],
    [
      'a type that does not exist',
      { policyTypes: ['Both'] },
      ['spec.policyTypes[0]: Unsupported value: "Both": supported values: "Egress", "Ingress"'],
    ],
  ];
  for (const [what, spec, errors] of cases) {
    test(what, () => assert.deepEqual(strategy.validateCreate(make(spec)).map(printFieldError), errors));
  }
});
