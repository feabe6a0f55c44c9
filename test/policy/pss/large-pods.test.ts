/** Pods of many megabytes: refused where no cluster could store them, and judged in linear time where one could. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { isSignificantUpdate } from '../../../src/policy/psa/significant-update.ts';
import { decodeError, evaluatePod } from '../../../src/policy/pss/index.ts';

const RESTRICTED = { level: 'restricted', version: 'latest' } as const;

function times<T>(count: number, item: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => item(index));
}

suite('more than a stored object can hold', () => {
  const cases: readonly (readonly [name: string, spec: object, path: string, count: number, max: number])[] = [
    ['containers', { containers: times(39_322, () => ({})) }, 'spec.containers', 39_322, 39_321],
    [
      'containers of all three lists',
      {
        initContainers: times(20_000, () => ({})),
        containers: times(20_000, () => ({})),
        ephemeralContainers: [{}],
      },
      'spec.containers',
      40_001,
      39_321,
    ],
    ['volumes', { containers: [], volumes: times(131_073, () => ({})) }, 'spec.volumes', 131_073, 131_072],
    [
      'sysctls',
      { securityContext: { sysctls: times(131_073, () => ({})) } },
      'spec.securityContext.sysctls',
      131_073,
      131_072,
    ],
    [
      'ports and capabilities, together',
      {
        containers: [
          {
            ports: times(100_000, () => ({ hostPort: 1 })),
            securityContext: { capabilities: { add: times(50_000, String) } },
          },
        ],
      },
      'spec.containers[0].securityContext.capabilities.add',
      150_001,
      131_072,
    ],
  ];
  for (const [name, spec, path, count, max] of cases) {
    test(name, () => {
      const message = `${path}: Too many: ${count}: must have at most ${max} items`;
      assert.equal(decodeError({ spec }), message);
      const { allowed, violations } = evaluatePod({ spec } as never, { ...RESTRICTED, fields: true });
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

test('as many containers as can be stored are judged', () => {
  const containers = times(39_321, (index) => ({ name: `c${index}`, image: 'i' }));
  const { violations } = evaluatePod({ spec: { containers } }, RESTRICTED);
  assert.deepEqual(
    violations.map(({ check }) => check),
    ['allowPrivilegeEscalation', 'capabilities_restricted', 'runAsNonRoot', 'seccompProfile_restricted'],
  );
  assert.equal(evaluatePod({ spec: { containers: [] } }, RESTRICTED).allowed, true);
});

test('ephemeral containers are compared in linear time', { timeout: 10_000 }, () => {
  const ephemeralContainers = times(300_000, (index) => ({ name: `c${index}`, image: 'i' }));
  const pod = { spec: { containers: [], ephemeralContainers } } as never;
  assert.equal(isSignificantUpdate(pod, pod), false);
});
