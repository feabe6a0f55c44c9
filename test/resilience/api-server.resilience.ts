/**
 * Tests that replicas continue to decide during API server faults, stay ready, and apply changes soon after a fault.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Fault } from '../support/fault-proxy.ts';
import { readUsage } from '../support/process-usage.ts';
import { assertNoFailures, recordFault, setUpStage, type Stage } from './stage.ts';

interface Case {
  readonly name: string;
  readonly fault: Fault;
  readonly holdMs: number;
  /** The replicas apply the change during the fault. */
  readonly isTolerated?: boolean;
  /** Maximum time from the end of the fault until all replicas apply a change. */
  readonly appliedMs: number;
}

/** A delay that exceeds the backoff of 30 s, which reflectors reach after many failures. */
const BACKOFF_MS = 45_000;
/** A watch without events times out after 90 s, and a request after 30 s. */
const TIMEOUT_MS = 90_000 + BACKOFF_MS;
/** The client library reads a token file every minute. */
const TOKEN_MS = 70_000 + BACKOFF_MS;

const CASES: readonly Case[] = [
  {
    name: 'an API server that is unreachable for two minutes',
    fault: 'unreachable',
    holdMs: 120_000,
    appliedMs: BACKOFF_MS,
  },
  { name: 'watches that receive nothing', fault: 'silent watches', holdMs: 20_000, appliedMs: TIMEOUT_MS },
  { name: 'watches without bookmarks', fault: 'no bookmarks', holdMs: 100_000, appliedMs: 5000, isTolerated: true },
  { name: 'invalid responses', fault: 'garbage', holdMs: 20_000, appliedMs: BACKOFF_MS },
  {
    name: 'lists that take 35 s',
    fault: { slowListMs: 35_000 },
    holdMs: 0,
    appliedMs: TIMEOUT_MS,
    isTolerated: true,
  },
  { name: 'an expired token', fault: { replaced: 'token' }, holdMs: 15_000, appliedMs: TOKEN_MS },
  { name: 'a certificate from another CA', fault: { replaced: 'authority' }, holdMs: 15_000, appliedMs: BACKOFF_MS },
  { name: 'half-open connections', fault: 'half-open', holdMs: 20_000, appliedMs: TIMEOUT_MS },
  { name: 'interrupted responses', fault: 'resets', holdMs: 20_000, appliedMs: BACKOFF_MS },
  { name: 'expired resource versions', fault: 'expired', holdMs: 20_000, appliedMs: BACKOFF_MS },
  { name: 'slow responses', fault: { slowMs: 3000 }, holdMs: 20_000, appliedMs: 15_000 },
  {
    name: 'status 429 with Retry-After',
    fault: { code: 429, retryAfterSeconds: 2 },
    holdMs: 20_000,
    appliedMs: BACKOFF_MS,
  },
  { name: '500', fault: { code: 500 }, holdMs: 20_000, appliedMs: BACKOFF_MS },
  { name: '403', fault: { code: 403 }, holdMs: 20_000, appliedMs: BACKOFF_MS },
  {
    name: 'an untrusted certificate',
    fault: { certificate: 'untrusted' },
    holdMs: 15_000,
    appliedMs: BACKOFF_MS,
  },
  { name: 'an expired certificate', fault: { certificate: 'expired' }, holdMs: 15_000, appliedMs: BACKOFF_MS },
  {
    name: 'a certificate for another name',
    fault: { certificate: 'for another name' },
    holdMs: 15_000,
    appliedMs: BACKOFF_MS,
  },
];

/** Maximum memory growth of a replica across all faults. */
const GROWTH_MIB = 60;

suite('replicas tolerate faults of the API server:', () => {
  let stage: Stage;
  let initialMiB: readonly number[] = [];
  const memory = (): Promise<readonly number[]> =>
    Promise.all(stage.system.replicas.map(async ({ pid }) => (await readUsage(pid)).rssMiB));
  before(async () => {
    stage = await setUpStage({ perSecond: 60 });
    await stage.start(3);
    await stage.settled(3);
    // The first reviews allocate memory that stays in use.
    await stage.underLoad(() => pause(20_000));
    initialMiB = await memory();
  });
  after(() => stage.stop());

  for (const { name, fault, holdMs, appliedMs, isTolerated = false } of CASES) {
    test(name, { timeout: holdMs + appliedMs + 120_000 }, async (t) => {
      t.diagnostic(`ran against: ${stage.plane.title}`);
      const requests = stage.proxy.requests();
      let tookMs = 0;
      const report = await stage.underLoad(async () => {
        const unready = await stage.collectUnready(async () => {
          await stage.proxy.set(fault);
          if (isTolerated) await pause(holdMs);
          await stage.changeLevel();
          if (!isTolerated) {
            await pause(holdMs);
            await stage.proxy.set('none');
          }
          tookMs = await stage.waitForChange(appliedMs);
          await stage.proxy.set('none');
          await stage.waitForLeader(BACKOFF_MS);
          t.diagnostic(`${stage.proxy.requests() - requests} requests`);
        });
        assert.deepEqual(unready, []);
      });
      recordFault(t, report, tookMs);
      assertNoFailures(report);
    });
  }

  test('and their memory does not grow', async (t) => {
    const now = await memory();
    t.diagnostic(`RSS before ${initialMiB.join(', ')} MiB, after ${now.join(', ')} MiB`);
    for (const [index, rssMiB] of now.entries()) {
      const growth = rssMiB - (initialMiB[index] ?? 0);
      assert.ok(growth <= GROWTH_MIB, `grew by ${growth} MiB`);
    }
  });
});
