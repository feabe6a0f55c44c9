/** Tests the log lines, the metrics and the summary about missing and broken SCCs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { createObservable } from '../../src/config/settings.ts';
import { watchSccHealth } from '../../src/controllers/scc-health.ts';
import { createRecorder } from '../support/recorder.ts';
import { putStandardSccs } from '../support/scc-webhooks.ts';
import { laxScc } from '../support/scc.ts';

const COMMON_FIELDS = new Set(['level', 'time', 'logger']);
const BROKEN = laxScc({ name: 'broken', runAsUser: { type: 'MustRunAs' } });

test('a broken SCC denies every pod in OpenShift compatibility mode', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const store = createStore();
  const { log, logger, metrics } = createRecorder();
  const health = watchSccHealth({
    store,
    settings: createObservable({ scc: { mode: 'enforce', compatibility: 'openshift' } }),
    logger,
    metrics: metrics.scc,
  });
  putStandardSccs(store);
  store.put('SecurityContextConstraints', BROKEN);
  store.markSynced();
  t.mock.timers.tick(1000);
  health.stop();
  const [line] = log;
  const { level, scc, reason, msg } = line ?? {};
  assert.deepEqual(
    [level, scc, reason, msg],
    [50, 'broken', 'MustRunAs requires a UID', 'broken SCC, so no pod is admitted'],
  );
});

test('each SCC problem is logged once, and the metrics and the summary contain all problems', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const store = createStore();
  const { log, logger, metrics } = createRecorder();
  const scc = { mode: 'enforce', compatibility: 'portcullis' } as const;
  const settings = createObservable<Parameters<typeof watchSccHealth>[0]['settings']['value']>({ scc });
  const health = watchSccHealth({
    store,
    settings,
    logger,
    metrics: metrics.scc,
  });
  /** Returns the new log lines without the fields that all lines have. */
  const logged = (): unknown[] =>
    log.splice(0).map((line) => Object.fromEntries(Object.entries(line).filter(([key]) => !COMMON_FIELDS.has(key))));
  const series = async (): Promise<string[]> =>
    (await metrics.expose()).split('\n').filter((line) => /^portcullis_scc_(broken|missing)\{/.test(line));

  t.mock.timers.tick(5000);
  assert.deepEqual([logged(), health.summary()], [[], undefined], 'reports nothing before the store is synced');

  putStandardSccs(store);
  store.put('SecurityContextConstraints', BROKEN);
  store.remove('SecurityContextConstraints', 'nonroot');
  store.markSynced();
  assert.equal(health.summary(), 'SCC broken is invalid (MustRunAs requires a UID); standard SCC nonroot is missing');
  t.mock.timers.tick(1000);
  assert.deepEqual(logged(), [
    { scc: 'broken', reason: 'MustRunAs requires a UID', msg: 'broken SCC, which decisions skip' },
    { sccs: ['nonroot'], msg: 'standard SCCs are missing' },
  ]);
  assert.deepEqual(await series(), [
    'portcullis_scc_broken{scc="broken"} 1',
    'portcullis_scc_missing{scc="nonroot"} 1',
  ]);

  settings.set({ scc: { ...scc, mode: 'off' } });
  t.mock.timers.tick(1000);
  assert.deepEqual([logged(), await series()], [[], []], 'SCCs are off');
  settings.set({ scc });
  t.mock.timers.tick(1000);
  assert.deepEqual([logged().length, (await series()).length], [2, 2], 'SCCs are on again');

  store.put('SecurityContextConstraints', { ...BROKEN, runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1 } });
  t.mock.timers.tick(1000);
  assert.deepEqual(logged(), [
    { scc: 'broken', reason: 'MustRunAsRange requires a UIDRangeMax', msg: 'broken SCC, which decisions skip' },
  ]);

  putStandardSccs(store);
  store.remove('SecurityContextConstraints', 'broken');
  t.mock.timers.tick(1000);
  assert.deepEqual([logged(), health.summary(), await series()], [[], undefined, []]);

  health.stop();
  store.put('SecurityContextConstraints', BROKEN);
  t.mock.timers.tick(5000);
  assert.deepEqual(logged(), []);
});
