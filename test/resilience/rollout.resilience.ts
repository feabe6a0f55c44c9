/** Tests that only reviews pending on a killed replica fail when replicas and certificates are replaced under load. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { INSTALLATION, ROTATE_ANNOTATION } from '../../src/api/names.ts';
import type { Replica } from '../support/control-plane/index.ts';
import { eventually } from '../support/eventually.ts';
import { assertNoFailures, recordFault, setUpStage, type Stage } from './stage.ts';

const SECRET = `/api/v1/namespaces/${INSTALLATION.namespace}/secrets/${INSTALLATION.certificateSecret}`;
const HOUR_MS = 3_600_000;
const CLOCK_SKEW = fileURLToPath(new URL('../support/clock-skew.ts', import.meta.url));

suite('three replicas under load', () => {
  let stage: Stage;
  const skewed: Replica[] = [];
  before(async () => {
    // The default lease duration and a realistic drain time.
    stage = await setUpStage({ args: [], drainSeconds: 10, perSecond: 300 });
    await stage.start(3);
    await stage.settled(3);
  });
  after(() => stage.stop());

  test('lose no review in a rolling restart', { timeout: 300_000 }, async (t) => {
    t.diagnostic(`ran against: ${stage.plane.title}`);
    const startMs = performance.now();
    const report = await stage.underLoad(async () => {
      for (const old of [...stage.system.replicas]) {
        await stage.start(1);
        await stage.settled(4);
        await stage.system.retire(old);
      }
    });
    recordFault(t, report, performance.now() - startMs);
    assertNoFailures(report);
  });

  for (const role of ['leader', 'follower'] as const) {
    // Only pending reviews of the killed replica fail, and their retries succeed.
    test(
      `lose only pending reviews, whose retries succeed, after kill -9 of the ${role}`,
      { timeout: 120_000 },
      async (t) => {
        const leader = await stage.leader();
        const victim = stage.system.replicas.find((replica) => (replica === leader) === (role === 'leader'));
        assert.ok(victim);
        let [killedMs, tookMs] = [0, 0];
        const report = await stage.underLoad(async () => {
          const startMs = performance.now();
          await pause(3000);
          killedMs = performance.now() - startMs;
          await victim.stop('SIGKILL');
          await stage.waitForLeader(60_000);
          tookMs = performance.now() - startMs - killedMs;
          await stage.system.retire(victim);
          await eventually(async () => assert.notEqual(await stage.leader(), victim));
          await pause(5000);
        });
        recordFault(t, report, tookMs);
        const { failures, failedRetries, wrong } = report;
        assert.deepEqual({ failedRetries, wrong }, { failedRetries: 0, wrong: 0 });
        const late = failures.filter(({ atMs }) => atMs > killedMs + 2000);
        const early = failures.filter(({ atMs }) => atMs < killedMs - 2000);
        assert.deepEqual([...early, ...late], []);
        await stage.start(1);
        await stage.settled(3);
      },
    );
  }

  for (const [rotation, timeoutMs] of [
    ['serving', 60_000],
    ['ca', 240_000],
  ] as const) {
    test(`lose no review in a certificate rotation (${rotation})`, { timeout: 300_000 }, async (t) => {
      const startMs = performance.now();
      let tookMs = 0;
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
        tookMs = performance.now() - startMs;
        await pause(3000);
      });
      recordFault(t, report, tookMs);
      assertNoFailures(report);
    });
  }

  /**
   * Waits for a change by the leader, and checks that the leader keeps the Lease afterwards. Returns the time of the
   * change.
   */
  const changeUnderOneLeader = async (): Promise<number> => {
    await stage.waitForLeader(60_000);
    await stage.changeLevel();
    const tookMs = await stage.waitForChange(30_000);
    const { holder, transitions } = await stage.lease();
    await pause(15_000);
    assert.deepEqual(await stage.lease(), { holder, transitions });
    return tookMs;
  };

  test('lose no review while their clocks differ by two hours', { timeout: 240_000 }, async (t) => {
    let tookMs = 0;
    const report = await stage.underLoad(async () => {
      for (const skewMs of [-HOUR_MS, HOUR_MS]) {
        const env = {
          NODE_OPTIONS: `--import=${CLOCK_SKEW}`,
          CLOCK_SKEW_MS: String(skewMs),
          CLOCK_JUMP_MS: String(-skewMs),
        };
        skewed.push(...(await stage.start(1, { env })));
      }
      await stage.settled(5);
      for (const old of stage.system.replicas.filter((replica) => !skewed.includes(replica)).slice(0, 2)) {
        await stage.system.retire(old);
      }
      tookMs = await changeUnderOneLeader();
    });
    recordFault(t, report, tookMs);
    assertNoFailures(report);
  });

  test('lose no review while their clocks jump by an hour, forward and backward', { timeout: 240_000 }, async (t) => {
    let tookMs = 0;
    const report = await stage.underLoad(async () => {
      for (const { pid } of skewed) process.kill(pid, 'SIGUSR2');
      tookMs = await changeUnderOneLeader();
    });
    recordFault(t, report, tookMs);
    assertNoFailures(report);
  });
});
