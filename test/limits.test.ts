/** Compares the table of limits in the documentation with the code, and sends one byte or item more than each limit. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, suite, test } from 'node:test';
import { LIMITS } from '../src/kube/limits.ts';
import { PROBES, stopProbes } from './support/limit-probes.ts';

const PAGE = new URL('../docs/explanation/security-model.md', import.meta.url);
const UNITS: Readonly<Record<string, number>> = { KiB: 1024, MiB: 1024 * 1024 };

/** Rows of the table: input with its name, senders, limit, and what happens above it. */
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
    test(name, async () => {
      const probe = PROBES[name];
      assert.ok(probe, 'the limit has no probe in test/support/limit-probes.ts');
      assert.notDeepEqual(probe.within, probe.beyond);
      assert.deepEqual(await probe.send(limit), probe.within);
      assert.deepEqual(await probe.send(limit + (probe.step ?? 1)), probe.beyond);
    });
  }
});
