/** Replicas and certificates come and go under load; no review fails but those that a killed replica was answering. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { INSTALLATION, ROTATE_ANNOTATION } from '../../src/kube/well-known.ts';
import { eventually } from '../support/eventually.ts';
import type { Replica } from '../support/control-plane/index.ts';
import { assertFlawless, setStage, summaryOf, type Stage } from './stage.ts';

const SECRET = `/api/v1/namespaces/${INSTALLATION.namespace}/secrets/${INSTALLATION.certificateSecret}`;
const CLOCK_SKEW = fileURLToPath(new URL('../support/clock-skew.ts', import.meta.url));

suite('three replicas under load', () => {
  let stage: Stage;
  before(async () => {
    // The drain and the lease that an installation has.
    stage = await setStage({ args: [], drainSeconds: 10 });
    await stage.start(3);
    await stage.settled(3);
  });
  after(() => stage.stop());

  test('where', (t) => t.diagnostic(`ran against: ${stage.plane.title}`));

  test('are restarted one after another: no review fails', async (t) => {
    const report = await stage.underLoad(async () => {
      for (const old of [...stage.system.replicas]) {
        await stage.start(1);
        await stage.settled(4);
        await stage.system.retire(old);
      }
    });
    t.diagnostic(summaryOf(report));
    assertFlawless(report);
  });

  test('one of them is killed: only what it was asked fails, and a second try succeeds', async (t) => {
    const [victim] = stage.system.replicas;
    let killedMs = 0;
    const report = await stage.underLoad(async () => {
      const startMs = performance.now();
      await pause(3000);
      killedMs = performance.now() - startMs;
      await victim?.stop('SIGKILL');
      await pause(5000);
    });
    t.diagnostic(summaryOf(report));
    const { failures, failedAgain, wrong } = report;
    assert.deepEqual({ failedAgain, wrong }, { failedAgain: 0, wrong: 0 });
    const late = failures.filter(({ atMs }) => atMs > killedMs + 2000);
    const early = failures.filter(({ atMs }) => atMs < killedMs - 2000);
    assert.deepEqual([...early, ...late], []);
    if (victim) await stage.system.retire(victim);
    await stage.start(1);
    await stage.settled(3);
  });

  for (const [asked, patienceMs] of [
    ['serving', 60_000],
    ['ca', 240_000],
  ] as const) {
    test(`the certificate is renewed (${asked}): no review fails`, { timeout: 300_000 }, async (t) => {
      const before = await stage.certificates();
      const report = await stage.underLoad(async () => {
        await stage.plane.admin.send(
          'PATCH',
          SECRET,
          { metadata: { annotations: { [ROTATE_ANNOTATION]: asked } } },
          { 'content-type': 'application/merge-patch+json' },
        );
        await eventually(async () => {
          const { served, trusted } = await stage.certificates();
          assert.equal(served.size, 1, 'replicas serve different certificates');
          assert.notDeepEqual(served, before.served);
          assert.equal(trusted.length, 1, 'the authority before is still trusted');
          if (asked === 'ca') assert.notDeepEqual(trusted, before.trusted);
        }, patienceMs);
        await pause(3000);
      });
      t.diagnostic(summaryOf(report));
      assertFlawless(report);
    });
  }

  test('clocks that differ by an hour: one leads, and no review fails', { timeout: 240_000 }, async (t) => {
    const HOUR_MS = 3_600_000;
    const report = await stage.underLoad(async () => {
      const skewed: Replica[] = [];
      for (const skewMs of [-HOUR_MS, HOUR_MS]) {
        const env = { NODE_OPTIONS: `--import=${CLOCK_SKEW}`, CLOCK_SKEW_MS: String(skewMs) };
        skewed.push(...(await stage.start(1, { env })));
      }
      await stage.settled(5);
      for (const old of stage.system.replicas.filter((one) => !skewed.includes(one)).slice(0, 2)) {
        await stage.system.retire(old);
      }
      await stage.led(60_000);
      await stage.change();
      await stage.known(30_000);
      const { holder, transitions } = await stage.lease();
      await pause(15_000);
      assert.deepEqual(await stage.lease(), { holder, transitions });
    });
    t.diagnostic(summaryOf(report));
    assertFlawless(report);
  });
});
