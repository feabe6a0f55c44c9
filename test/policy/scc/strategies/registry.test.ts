import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { CONTAINER_STRATEGIES, POD_STRATEGIES } from '../../../../src/policy/scc/strategies/index.ts';

const folder = new URL('../../../../src/policy/scc/strategies/', import.meta.url);

test('every strategy is registered once', async () => {
  const registered: readonly unknown[] = [...POD_STRATEGIES, ...CONTAINER_STRATEGIES];
  const strategies: unknown[] = [];
  for (const file of readdirSync(folder)) {
    if (file === 'index.ts') continue;
    const exported = Object.values((await import(new URL(file, folder).href)) as Record<string, unknown>);
    strategies.push(...exported.filter((value) => isStrategy(value)));
  }
  assert.equal(new Set(registered).size, registered.length);
  assert.deepEqual(new Set(strategies), new Set(registered));
});

function isStrategy(value: unknown): boolean {
  return typeof value === 'object' && value !== null && ('validate' in value || 'generate' in value);
}
