/** Pods with thousands of containers and other elements are denied above a limit, and evaluated in linear time below it. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { decodeError, evaluatePod } from '../../../src/policy/pss/index.ts';

const RESTRICTED = { level: 'restricted', version: 'latest' } as const;

function times<T>(count: number, item: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => item(index));
}

suite('more elements than the limit', () => {
  const cases: readonly (readonly [name: string, spec: object, path: string, count: number, max: number])[] = [
    ['containers', { containers: times(5001, () => ({})) }, 'spec.containers', 5001, 5000],
    [
      'containers of all three lists',
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
      'ports and capabilities, together',
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

test('the maximal number of containers is evaluated', () => {
  const containers = times(5000, (index) => ({ name: `c${index}`, image: 'i' }));
  const { violations } = evaluatePod({ spec: { containers } }, RESTRICTED);
  assert.deepEqual(
    violations.map(({ check }) => check),
    ['allowPrivilegeEscalation', 'capabilities_restricted', 'runAsNonRoot', 'seccompProfile_restricted'],
  );
  assert.equal(evaluatePod({ spec: { containers: [] } }, RESTRICTED).allowed, true);
});
