import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { heldSpec, getHolder, microTime, releasedSpec } from '../../src/controllers/leadership.ts';
import type { Lease } from '../../src/kube/types.ts';

const DATE = new Date('2026-11-21T12:00:00.5Z');
const NOW = '2026-11-21T12:00:00.500000Z';
const EARLIER = '2026-11-21T11:00:00.123456Z';
const US = { identity: 'us', durationMs: 15_000, date: DATE };

type Spec = NonNullable<Lease['spec']>;

suite('what a lease says', () => {
  const held: readonly (readonly [name: string, before: Spec | undefined, expected: Spec])[] = [
    ['no lease', undefined, { acquireTime: NOW, renewTime: NOW, leaseTransitions: 0 }],
    ['an empty one', {}, { acquireTime: NOW, renewTime: NOW, leaseTransitions: 1 }],
    [
      'another’s',
      { holderIdentity: 'other', acquireTime: EARLIER, renewTime: EARLIER, leaseTransitions: 4 },
      { acquireTime: NOW, renewTime: NOW, leaseTransitions: 5 },
    ],
    [
      'one that was given back',
      { holderIdentity: '', leaseDurationSeconds: 1, leaseTransitions: 4 },
      { acquireTime: NOW, renewTime: NOW, leaseTransitions: 5 },
    ],
    [
      'one that has changed hands as often as can be counted',
      { holderIdentity: 'other', leaseTransitions: 2147483647 },
      { acquireTime: NOW, renewTime: NOW, leaseTransitions: 2147483647 },
    ],
    [
      'our own',
      { holderIdentity: 'us', acquireTime: EARLIER, renewTime: EARLIER, leaseTransitions: 4 },
      { acquireTime: EARLIER, renewTime: NOW, leaseTransitions: 4 },
    ],
    [
      'our own, which says nothing else',
      { holderIdentity: 'us' },
      { acquireTime: NOW, renewTime: NOW, leaseTransitions: 0 },
    ],
    [
      'our own, renewed in the same millisecond',
      { holderIdentity: 'us', acquireTime: EARLIER, renewTime: NOW, leaseTransitions: 0 },
      { acquireTime: EARLIER, renewTime: '2026-11-21T12:00:00.500001Z', leaseTransitions: 0 },
    ],
    [
      'our own, renewed a thousand times in that millisecond',
      { holderIdentity: 'us', acquireTime: EARLIER, renewTime: '2026-11-21T12:00:00.500999Z', leaseTransitions: 0 },
      { acquireTime: EARLIER, renewTime: NOW, leaseTransitions: 0 },
    ],
    [
      'our own, with what others have put there',
      { holderIdentity: 'us', acquireTime: EARLIER, leaseTransitions: 0, strategy: 'OldestEmulationVersion' },
      { acquireTime: EARLIER, renewTime: NOW, leaseTransitions: 0, strategy: 'OldestEmulationVersion' },
    ],
  ];
  for (const [name, before, expected] of held) {
    test(`taken or renewed: ${name}`, () => {
      const spec = heldSpec(before && { spec: before }, US);
      assert.deepEqual(spec, { holderIdentity: 'us', leaseDurationSeconds: 15, ...expected });
    });
  }

  test('a duration that is no whole number of seconds is made longer', () => {
    assert.equal(heldSpec(undefined, { ...US, durationMs: 1_001 }).leaseDurationSeconds, 2);
  });

  test('given back: held by nobody, for a second', () => {
    const spec = releasedSpec({ spec: heldSpec(undefined, US) }, DATE);
    const times = { acquireTime: NOW, renewTime: NOW };
    assert.deepEqual(spec, { holderIdentity: '', leaseDurationSeconds: 1, leaseTransitions: 0, ...times });
  });

  test('nobody holds a lease that does not say who', () => {
    const leases = [{}, { spec: {} }, { spec: { holderIdentity: null } }, { spec: { holderIdentity: '' } }];
    assert.deepEqual(
      leases.map((lease) => getHolder(lease as Lease)),
      ['', '', '', ''],
    );
  });

  test('times have six digits behind the second', () => {
    assert.equal(microTime(new Date(0)), '1970-01-01T00:00:00.000000Z');
  });
});
