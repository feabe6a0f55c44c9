import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, suite, test } from 'node:test';
import { parse } from 'yaml';
import type { PodLike } from '../../../src/kube/types.ts';
import { decodeError, evaluatePod } from '../../../src/policy/pss/library.ts';

const POLICY = { level: 'baseline', version: 'latest' } as const;

/** The pod, the path of the field with the wrong type, and the error. */
interface WrongType {
  readonly pod: PodLike;
  readonly path: string;
  readonly error: string;
}

const FILE = join(import.meta.dirname, '../../fixtures/pss-wrong-types.yaml');
const WRONG = parse(readFileSync(FILE, 'utf8')) as readonly WrongType[];

describe('pods with fields of the wrong type are denied at every level except privileged:', () => {
  for (const { pod, path, error: detail } of WRONG) {
    test(`${path}: ${detail}`, () => {
      assert.equal(decodeError(pod), detail);
      const denial = {
        allowed: false,
        violations: [{ check: 'decode', reason: 'undecodable field', detail }],
        reason: 'undecodable field',
        detail: `undecodable field (${detail})`,
      };
      assert.deepEqual(evaluatePod(pod, POLICY), denial);
      assert.deepEqual(evaluatePod(pod, { level: 'restricted', version: 'v1.0' }), denial);
      assert.equal(evaluatePod(pod, { level: 'privileged', version: 'latest' }).allowed, true);
      const [violation] = evaluatePod(pod, { ...POLICY, fields: true }).violations;
      assert.deepEqual(
        violation?.fields?.map((field) => [field.type, field.path]),
        [['FieldValueTypeInvalid', path]],
      );
    });
  }
});

test('decodePod rejects an absent pod', () => {
  for (const nothing of [null, undefined]) {
    assert.equal(decodeError(nothing), 'there is no pod');
    const { detail } = evaluatePod(nothing, POLICY);
    assert.equal(detail, 'undecodable field (there is no pod)');
  }
});

/** Values that have the right type, and fields that are not read. */
const RIGHT: readonly string[] = [
  '{}',
  'spec: null',
  'metadata: null',
  'metadata: { annotations: null, labels: 5 }',
  'metadata: { annotations: { a: null } }',
  'spec: { containers: null, initContainers: [null], hostNetwork: null, hostUsers: null, os: null }',
  'spec: { os: { name: null }, volumes: [null, { name: null, hostPath: null }] }',
  'spec: { securityContext: { sysctls: [], runAsUser: null, seccompProfile: null, windowsOptions: {} } }',
  'spec: { securityContext: { runAsUser: 9223372036854775807 } }',
  'spec: { securityContext: { runAsUser: -0 } }',
  'spec: { containers: [{ ports: [null, { hostPort: null }], securityContext: { capabilities: { add: null } } }] }',
  'spec: { containers: [{ env: 5, command: {}, __proto__: { securityContext: 5 }, constructor: [] }] }',
  'spec: { tolerations: x, hostNetworK: 1, toString: 1 }',
];

for (const given of RIGHT) {
  test(`decodePod accepts ${given}`, () => assert.equal(decodeError(parse(given)), undefined));
}

test('decodePod ignores a JSON key named __proto__', () => {
  const pod = JSON.parse('{"spec":{"__proto__":{"hostNetwork":true,"volumes":5},"containers":[]}}') as PodLike;
  assert.equal(evaluatePod(pod, POLICY).allowed, true);
});

test('decodePod accepts an object without a prototype', () => {
  const pod = Object.assign(Object.create(null) as PodLike, { spec: { hostPID: true } });
  assert.equal(evaluatePod(pod, POLICY).detail, 'host namespaces (hostPID=true)');
});

test('long lists are evaluated completely', () => {
  const containers = Array.from({ length: 500 }, (_, index) => ({
    name: `c${index}`,
    securityContext: { privileged: index === 499 },
    ports: Array.from({ length: 30 }, () => ({ containerPort: 80 })),
  }));
  const sysctls = Array.from({ length: 500 }, (_, index) => ({
    name: index === 499 ? 'x' : 'kernel.shm_rmid_forced',
    value: '1',
  }));
  const volumes = Array.from({ length: 500 }, (_, index) => ({
    name: `v${index}`,
    [index === 499 ? 'hostPath' : 'emptyDir']: {},
  }));
  const pod = { spec: { containers, volumes, securityContext: { sysctls } } } as unknown as PodLike;
  assert.equal(
    evaluatePod(pod, POLICY).detail,
    'hostPath volumes (volume "v499"), privileged (container "c499" must not set securityContext.privileged=true), forbidden sysctls (x)',
  );
  assert.equal(evaluatePod({ spec: { containers: [] } }, POLICY).allowed, true);
});

test('a huge pod is evaluated within 5 seconds of CPU time', () => {
  const add = Array.from({ length: 9_000 }, (_, index) => `CAP_${index}`);
  const ports = Array.from({ length: 9_000 }, (_, index) => ({ hostPort: index + 1 }));
  const pod = {
    spec: { containers: [{ name: 'c', ports, securityContext: { capabilities: { add } } }] },
  } as unknown as PodLike;
  const start = process.cpuUsage();
  assert.equal(evaluatePod(pod, { ...POLICY, fields: true }).reason, 'non-default capabilities, hostPort');
  assert.ok(process.cpuUsage(start).user < 5_000_000);
});

/** Pods above a limit are denied. Pods below the limit are evaluated in linear time. */
const RESTRICTED = { level: 'restricted', version: 'latest' } as const;

function times<T>(count: number, item: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => item(index));
}

suite('lists with more elements than the limit cannot be decoded:', () => {
  const cases: readonly (readonly [name: string, spec: object, path: string, count: number, max: number])[] = [
    ['containers', { containers: times(5001, () => ({})) }, 'spec.containers', 5001, 5000],
    [
      'containers in all three lists together',
      {
        initContainers: times(2500, () => ({})),
        containers: times(2500, () => ({})),
        ephemeralContainers: [{}],
      },
      'spec.containers',
      5001,
      5000,
    ],
    ['volumes', { containers: [], volumes: times(20_001, () => ({})) }, 'spec.volumes', 20_001, 20_000],
    [
      'sysctls',
      { securityContext: { sysctls: times(20_001, () => ({})) } },
      'spec.securityContext.sysctls',
      20_001,
      20_000,
    ],
    [
      'ports and capabilities together',
      {
        containers: [
          {
            ports: times(15_000, () => ({ hostPort: 1 })),
            securityContext: { capabilities: { add: times(6000, String) } },
          },
        ],
      },
      'spec.containers[0].securityContext.capabilities.add',
      21_001,
      20_000,
    ],
  ];
  for (const [name, spec, path, count, max] of cases) {
    test(name, () => {
      const message = `${path}: Too many: ${count}: must have at most ${max} items`;
      assert.equal(decodeError({ spec }), message);
      const { allowed, violations } = evaluatePod({ spec }, { ...RESTRICTED, fields: true });
      assert.equal(allowed, false);
      assert.deepEqual(violations, [
        {
          check: 'decode',
          reason: 'undecodable field',
          detail: message,
          fields: [{ type: 'FieldValueTypeInvalid', path, value: count, detail: message }],
        },
      ]);
    });
  }
});

test('a pod with the maximum number of containers is evaluated', () => {
  const containers = times(5000, (index) => ({ name: `c${index}`, image: 'i' }));
  const { violations } = evaluatePod({ spec: { containers } }, RESTRICTED);
  assert.deepEqual(
    violations.map(({ check }) => check),
    ['allowPrivilegeEscalation', 'capabilities_restricted', 'runAsNonRoot', 'seccompProfile_restricted'],
  );
  assert.equal(evaluatePod({ spec: { containers: [] } }, RESTRICTED).allowed, true);
});
