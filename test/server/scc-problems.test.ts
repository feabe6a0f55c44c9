import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/standard.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { watchSccProblems } from '../../src/server/scc-problems.ts';
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

test('problems are told once each, in log, metrics and note', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const store = createStore();
  const { log, logger } = createLogLines();
  const metrics = createMetrics({ version: '0.0.0' });
  const watch = watchSccProblems({
    store,
    settings: { compatibility: { requiredSccs: ['fine'] } },
    logger,
    metrics: metrics.scc,
  });
  const told = (): unknown[] => log.splice(0).map(factsOf);
  const series = async (): Promise<string[]> =>
    (await metrics.expose()).split('\n').filter((line) => /^portcullis_scc_(broken|missing)\{/.test(line));

  t.mock.timers.tick(5000);
  assert.deepEqual([told(), watch.note()], [[], undefined], 'nothing is known of a cluster that has not been read');

  fill(store);
  store.put('SecurityContextConstraints', BROKEN);
  store.remove('SecurityContextConstraints', 'nonroot');
  store.markSynced();
  assert.equal(
    watch.note(),
    'no pod is admitted, since fine is required and missing; broken is broken (MustRunAs requires a UID); nonroot is missing',
  );
  t.mock.timers.tick(1000);
  assert.deepEqual(told(), [
    { scc: 'broken', reason: 'MustRunAs requires a UID', msg: 'broken SCC, decisions do without it' },
    { sccs: ['nonroot'], msg: 'standard SCCs are missing' },
    { sccs: ['fine'], msg: 'required SCCs are missing, no pod is admitted' },
  ]);
  assert.deepEqual(await series(), [
    'portcullis_scc_broken{scc="broken"} 1',
    'portcullis_scc_missing{scc="fine"} 1',
    'portcullis_scc_missing{scc="nonroot"} 1',
  ]);

  store.put('SecurityContextConstraints', laxScc({ name: 'fine' }));
  t.mock.timers.tick(1000);
  assert.deepEqual(told(), [], 'nothing new');

  store.put('SecurityContextConstraints', { ...BROKEN, runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1 } });
  t.mock.timers.tick(1000);
  assert.deepEqual(told(), [
    { scc: 'broken', reason: 'MustRunAsRange requires a UIDRangeMax', msg: 'broken SCC, decisions do without it' },
  ]);

  fill(store);
  store.remove('SecurityContextConstraints', 'broken');
  t.mock.timers.tick(1000);
  assert.deepEqual([told(), watch.note(), await series()], [[], undefined, []]);

  watch.stop();
  store.put('SecurityContextConstraints', BROKEN);
  t.mock.timers.tick(5000);
  assert.deepEqual(told(), []);
});
