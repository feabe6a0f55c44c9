/** The API server fails in every way: decisions go on, replicas stay ready, and what has changed is known soon afterwards. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Fault } from '../support/fault-proxy.ts';
import { usageOf } from '../support/process-usage.ts';
import { assertFlawless, setStage, summaryOf, type Stage } from './stage.ts';

interface Case {
  readonly name: string;
  readonly fault: Fault;
  readonly holdMs: number;
  /** How long replicas may take to know what has changed, once the fault is over. */
  readonly knownMs: number;
}

/** Reflectors wait up to 30 s after many failures. */
const BACKOFF_MS = 45_000;
/** A watch that says nothing is given up after 90 s, a request after 30 s. */
const SILENCE_MS = 90_000 + BACKOFF_MS;

const CASES: readonly Case[] = [
  { name: 'it is gone for two minutes', fault: 'away', holdMs: 120_000, knownMs: BACKOFF_MS },
  { name: 'connections are open and dead', fault: 'half-open', holdMs: 20_000, knownMs: SILENCE_MS },
  { name: 'answers break off', fault: 'resets', holdMs: 20_000, knownMs: BACKOFF_MS },
  { name: 'what has happened is forgotten', fault: 'expired', holdMs: 20_000, knownMs: BACKOFF_MS },
  { name: 'it is slow', fault: { slowMs: 3000 }, holdMs: 20_000, knownMs: 15_000 },
  {
    name: 'it is busy and says when to come back',
    fault: { code: 429, retryAfterSeconds: 2 },
    holdMs: 20_000,
    knownMs: BACKOFF_MS,
  },
  { name: 'it fails', fault: { code: 500 }, holdMs: 20_000, knownMs: BACKOFF_MS },
  { name: 'permission is lost, and comes back', fault: { code: 403 }, holdMs: 20_000, knownMs: BACKOFF_MS },
  {
    name: 'its certificate is that of somebody else',
    fault: { certificate: 'untrusted' },
    holdMs: 15_000,
    knownMs: BACKOFF_MS,
  },
  { name: 'its certificate has expired', fault: { certificate: 'expired' }, holdMs: 15_000, knownMs: BACKOFF_MS },
  {
    name: 'its certificate has another name',
    fault: { certificate: 'for another name' },
    holdMs: 15_000,
    knownMs: BACKOFF_MS,
  },
];

/** What the memory of a replica may grow by, all faults together, in MiB. */
const GROWTH_MIB = 60;

suite('the API server', () => {
  let stage: Stage;
  let atFirst: readonly number[] = [];
  const memory = (): Promise<readonly number[]> =>
    Promise.all(stage.system.replicas.map(async ({ pid }) => (await usageOf(pid)).rssMiB));
  before(async () => {
    stage = await setStage();
    await stage.start(3);
    await stage.settled(3);
    // What the first reviews bring into memory stays.
    await stage.underLoad(() => pause(20_000));
    atFirst = await memory();
  });
  after(() => stage.stop());

  test('where', (t) => t.diagnostic(`ran against: ${stage.plane.title}`));

  for (const { name, fault, holdMs, knownMs } of CASES) {
    test(name, { timeout: holdMs + knownMs + 120_000 }, async (t) => {
      const requests = stage.proxy.requests();
      const report = await stage.underLoad(async () => {
        const unready = await stage.unreadyWhile(async () => {
          await stage.proxy.set(fault);
          await stage.change();
          await pause(holdMs);
          await stage.proxy.set('none');
          const tookMs = await stage.known(knownMs);
          await stage.led(BACKOFF_MS);
          t.diagnostic(`known ${tookMs} ms after it was over, ${stage.proxy.requests() - requests} requests`);
        });
        assert.deepEqual(unready, []);
      });
      t.diagnostic(summaryOf(report));
      assertFlawless(report);
    });
  }

  test('memory has stayed flat', async (t) => {
    const now = await memory();
    t.diagnostic(`RSS before ${atFirst.join(', ')} MiB, after ${now.join(', ')} MiB`);
    for (const [index, rssMiB] of now.entries()) {
      const grown = rssMiB - (atFirst[index] ?? 0);
      assert.ok(grown <= GROWTH_MIB, `${grown} MiB more than before`);
    }
  });
});
