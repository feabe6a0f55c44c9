/** Replicas and certificates are replaced under load. Only reviews pending on a killed replica fail. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { INSTALLATION, ROTATE_ANNOTATION } from '../../src/kube/well-known.ts';
import { eventually } from '../support/eventually.ts';
import type { Replica } from '../support/control-plane/index.ts';
import { assertNoFailures, formatReport, setUpStage, type Stage } from './stage.ts';

const SECRET = `/api/v1/namespaces/${INSTALLATION.namespace}/secrets/${INSTALLATION.certificateSecret}`;
const CLOCK_SKEW = fileURLToPath(new URL('../support/clock-skew.ts', import.meta.url));

suite('three replicas under load', () => {
  let stage: Stage;
  before(async () => {
    // The default lease duration, and a realistic drain.
    stage = await setUpStage({ args: [], drainSeconds: 10 });
    await stage.start(3);
    await stage.settled(3);
  });
  after(() => stage.stop());

  test('control plane', (t) => t.diagnostic(`ran against: ${stage.plane.title}`));

  test('a rolling restart: no review fails', async (t) => {
    const report = await stage.underLoad(async () => {
      for (const old of [...stage.system.replicas]) {
        await stage.start(1);
        await stage.settled(4);
        await stage.system.retire(old);
      }
    });
    t.diagnostic(formatReport(report));
    assertNoFailures(report);
  });

  test('a killed replica: only its pending reviews fail, and retries succeed', async (t) => {
    const [victim] = stage.system.replicas;
    let killedMs = 0;
    const report = await stage.underLoad(async () => {
      const startMs = performance.now();
      await pause(3000);
      killedMs = performance.now() - startMs;
      await victim?.stop('SIGKILL');
      await pause(5000);
    });
    t.diagnostic(formatReport(report));
    const { failures, failedRetries, wrong } = report;
    assert.deepEqual({ failedRetries, wrong }, { failedRetries: 0, wrong: 0 });
    const late = failures.filter(({ atMs }) => atMs > killedMs + 2000);
    const early = failures.filter(({ atMs }) => atMs < killedMs - 2000);
    assert.deepEqual([...early, ...late], []);
    if (victim) await stage.system.retire(victim);
    await stage.start(1);
    await stage.settled(3);
  });

  for (const [rotation, timeoutMs] of [
    ['serving', 60_000],
    ['ca', 240_000],
  ] as const) {
    test(`rotation of the certificate (${rotation}): no review fails`, { timeout: 300_000 }, async (t) => {
      const before = await stage.certificates();
      const report = await stage.underLoad(async () => {
        await stage.plane.admin.send(
          'PATCH',
          SECRET,
          { metadata: { annotations: { [ROTATE_ANNOTATION]: rotation } } },
          { 'content-type': 'application/merge-patch+json' },
        );
        await eventually(async () => {
          const { served, trusted } = await stage.certificates();
          assert.equal(served.size, 1, 'replicas serve different certificates');
          assert.notDeepEqual(served, before.served);
          assert.equal(trusted.length, 1, 'the previous authority is still trusted');
          if (rotation === 'ca') assert.notDeepEqual(trusted, before.trusted);
        }, timeoutMs);
        await pause(3000);
      });
      t.diagnostic(formatReport(report));
      assertNoFailures(report);
    });
  }

  test('clock skew of an hour: one leader, no review fails', { timeout: 240_000 }, async (t) => {
    const HOUR_MS = 3_600_000;
    const report = await stage.underLoad(async () => {
      const skewed: Replica[] = [];
      for (const skewMs of [-HOUR_MS, HOUR_MS]) {
        const env = { NODE_OPTIONS: `--import=${CLOCK_SKEW}`, CLOCK_SKEW_MS: String(skewMs) };
        skewed.push(...(await stage.start(1, { env })));
      }
      await stage.settled(5);
      for (const old of stage.system.replicas.filter((replica) => !skewed.includes(replica)).slice(0, 2)) {
        await stage.system.retire(old);
      }
      await stage.waitForLeader(60_000);
      await stage.changeLevel();
      await stage.waitForChange(30_000);
      const { holder, transitions } = await stage.lease();
      await pause(15_000);
      assert.deepEqual(await stage.lease(), { holder, transitions });
    });
    t.diagnostic(formatReport(report));
    assertNoFailures(report);
  });
});
