/** Compares the table of limits in the documentation with the code, and sends one byte or item more than each limit. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, suite, test } from 'node:test';
import { createStore } from '../src/cluster/store.ts';
import { type AdmissionRequest, allow } from '../src/kube/admission.ts';
import { type LimitName, LIMITS } from '../src/kube/limits.ts';
import type { JsonObject } from '../src/kube/types.ts';
import { decodeObject, denyUndecodable } from '../src/policy/psa/index.ts';
import { evaluateScc } from '../src/policy/scc/index.ts';
import { applyLimits } from '../src/server/limits.ts';
import { exceededCounts } from '../src/telemetry/limits.ts';
import { PROBES, stopProbes } from './support/limit-probes.ts';

const PAGE = new URL('../docs/explanation/security-model.md', import.meta.url);
const UNITS: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1024 * 1024 };

/** Rows of the table with the input and its name, the senders, the limit, and the behavior above the limit. */
const rows = [
  ...readFileSync(PAGE, 'utf8').matchAll(
    /^\| [^|]*\(`(\w+)`\) \| ([^|]+) \| ([\d,]+)(?: (\w+))?[^|]* \| ([^|]+) \|$/gm,
  ),
].map(([, name = '', senders = '', amount = '', unit = '', outcome = '']) => ({
  name,
  senders,
  limit: Number(amount.replaceAll(',', '')) * (UNITS[unit] ?? 1),
  outcome,
}));

suite('the limits of inputs', () => {
  after(stopProbes);

  test('are documented, and have a probe', () => {
    assert.deepEqual(Object.fromEntries(rows.map(({ name, limit }) => [name, limit])), LIMITS);
    assert.equal(rows.length, Object.keys(LIMITS).length, 'a limit occurs twice');
    assert.deepEqual(Object.keys(PROBES).sort(), Object.keys(LIMITS).sort());
  });

  for (const [name, limit] of Object.entries(LIMITS)) {
    test(`include ${name}, and an input that exceeds it is denied and counted`, async () => {
      const probe = PROBES[name];
      assert.ok(probe, 'the limit has no probe in test/support/limit-probes.ts');
      assert.notDeepEqual(probe.within, probe.beyond);
      const { counted = name as LimitName } = probe;
      const counts = () => (counted && exceededCounts().get(counted)) || 0;
      const before = counts();
      assert.deepEqual(await probe.send(limit), probe.within);
      assert.equal(counts() > before, false, 'an input within the limit is counted');
      assert.deepEqual(await probe.send(limit + (probe.step ?? 1)), probe.beyond);
      assert.equal(counts() > before, counted !== false, 'the input beyond the limit is not counted');
    });
  }

  test('are counted when reviews of pods are denied', () => {
    const many = (count: number) => Array.from({ length: count }, () => ({ name: 'a' }));
    const kind = { group: '', version: 'v1', kind: 'Pod' };
    const namespace = { metadata: { name: 'shop' } };
    const input = { operation: 'CREATE', namespace, userInfo: {}, sccs: [], access: { canUse: () => false } } as const;
    const objects: readonly (readonly [limit: LimitName, object: JsonObject])[] = [
      ['containers', { spec: { containers: many(LIMITS.containers + 1) } }],
      ['podItems', { spec: { containers: [], volumes: many(LIMITS.podItems + 1) } }],
      [
        'annotationBytes',
        { metadata: { annotations: { a: 'x'.repeat(LIMITS.annotationBytes) } }, spec: { containers: [] } },
      ],
    ];
    const webhook = { path: '/', decide: () => allow() };
    const scope = { request: {} as AdmissionRequest, store: createStore() };
    for (const [limit, object] of objects) {
      // Pod Security has no limit for annotations.
      const decisions = [
        evaluateScc({ ...input, object }, 'validate').decision,
        ...(limit === 'annotationBytes' ? [] : [denyUndecodable(decodeObject(object, kind), 'pod')]),
      ];
      for (const decision of decisions) {
        const before = exceededCounts().get(limit) ?? 0;
        assert.equal(decision.allowed, false);
        applyLimits(webhook, scope, decision);
        assert.equal(exceededCounts().get(limit), before + 1, limit);
      }
    }
  });
});
