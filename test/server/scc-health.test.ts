import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/standard.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { watchSccHealth } from '../../src/server/scc-health.ts';
import { createLogLines } from '../support/scc-webhooks.ts';
import { laxScc } from '../support/scc.ts';

const BROKEN = laxScc({ name: 'broken', runAsUser: { type: 'MustRunAs' } });

function fill(store: WritableStore): void {
  for (const { scc } of STANDARD_SCCS) store.put('SecurityContextConstraints', scc);
}

/** A line without what every line has. */
function factsOf(line: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(line).filter(([key]) => !['level', 'time', 'logger'].includes(key)));
}

test('reports each problem once in the log, and all in metrics and the summary', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const store = createStore();
  const { log, logger } = createLogLines();
  const metrics = createMetrics({ version: '0.0.0' });
  const health = watchSccHealth({
    store,
    settings: { compatibility: { requiredSccs: ['fine'] } },
    logger,
    metrics: metrics.scc,
  });
  const told = (): unknown[] => log.splice(0).map(factsOf);
  const series = async (): Promise<string[]> =>
    (await metrics.expose()).split('\n').filter((line) => /^portcullis_scc_(broken|missing)\{/.test(line));

  t.mock.timers.tick(5000);
  assert.deepEqual([told(), health.summary()], [[], undefined], 'reports nothing before the store is synced');

  fill(store);
  store.put('SecurityContextConstraints', BROKEN);
  store.remove('SecurityContextConstraints', 'nonroot');
  store.markSynced();
  assert.equal(
    health.summary(),
    'no pod is admitted because required SCC fine is missing; SCC broken is invalid (MustRunAs requires a UID); standard SCC nonroot is missing',
  );
  t.mock.timers.tick(1000);
  assert.deepEqual(told(), [
    { scc: 'broken', reason: 'MustRunAs requires a UID', msg: 'broken SCC; decisions skip it' },
    { sccs: ['nonroot'], msg: 'standard SCCs are missing' },
    { sccs: ['fine'], msg: 'required SCCs are missing; no pod is admitted' },
  ]);
  assert.deepEqual(await series(), [
    'portcullis_scc_broken{scc="broken"} 1',
    'portcullis_scc_missing{scc="fine"} 1',
    'portcullis_scc_missing{scc="nonroot"} 1',
  ]);

  store.put('SecurityContextConstraints', laxScc({ name: 'fine' }));
  t.mock.timers.tick(1000);
  assert.deepEqual(told(), [], 'reports nothing again');

  store.put('SecurityContextConstraints', { ...BROKEN, runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1 } });
  t.mock.timers.tick(1000);
  assert.deepEqual(told(), [
    { scc: 'broken', reason: 'MustRunAsRange requires a UIDRangeMax', msg: 'broken SCC; decisions skip it' },
  ]);

  fill(store);
  store.remove('SecurityContextConstraints', 'broken');
  t.mock.timers.tick(1000);
  assert.deepEqual([told(), health.summary(), await series()], [[], undefined, []]);

  health.stop();
  store.put('SecurityContextConstraints', BROKEN);
  t.mock.timers.tick(5000);
  assert.deepEqual(told(), []);
});
