/** Whatever happens to requests and processes: never do two lead, and when all is well again, one does. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import { createElection, type Candidate, type Travel } from '../support/candidates.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createFakeClock } from '../support/fake-clock.ts';

const NAMESPACE = 'portcullis';
const RUNS = 30;
/** The lease runs out, and somebody tries: 15 s and 4.4 s; twice that, for a request that was still on its way. */
const RECOVERY_MS = 40_000;

/** What happens, after so long, to one of the candidates. */
interface Incident {
  readonly afterMs: number;
  readonly victim: number;
  readonly what: 'pause' | 'resume' | 'stop' | 'join' | 'cut' | 'mend';
}

/** How well the network of a candidate works: requests meet these fates in turn. */
type Weather = readonly Travel[];

const travel: fc.Arbitrary<Travel> = fc.record({
  outcome: fc.oneof(
    { weight: 6, arbitrary: fc.constant('fine' as const) },
    { weight: 1, arbitrary: fc.constantFrom('refused' as const, 'lost' as const, 'hangs' as const) },
  ),
  thereMs: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(9_000) }),
  backMs: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(9_000) }),
});
const weather: fc.Arbitrary<Weather> = fc.array(travel, { minLength: 1, maxLength: 30 });
const incident: fc.Arbitrary<Incident> = fc.record({
  afterMs: fc.oneof(fc.nat(3_000), fc.nat(20_000)),
  victim: fc.nat(2),
  what: fc.constantFrom('pause', 'pause', 'resume', 'resume', 'stop', 'join', 'cut', 'mend'),
});

suite('candidates in bad weather', () => {
  let started: TestCluster;
  let count = 0;
  const seen = { steps: 0, led: 0, handovers: 0, incidents: 0 };

  before(async () => {
    started = await startCluster();
    await started.cluster.create('Namespace', { metadata: { name: NAMESPACE } }, { fieldManager: 'test' });
  });
  after(() => started.stop());

  const play = async (weathers: readonly Weather[], incidents: readonly Incident[], jitter: readonly number[]) => {
    const lease = { name: `races-${++count}`, namespace: NAMESPACE };
    const clock = createFakeClock();
    const watch = (): void => {
      const leaders = election.candidates.filter((candidate) => candidate.acts());
      assert.ok(leaders.length <= 1, `${leaders.map(({ identity }) => identity).join(' and ')} at ${clock.now()} ms`);
      seen.steps++;
      seen.led += leaders.length;
    };
    const election = createElection(clock, started.cluster, lease, watch);
    const alive: (Candidate | undefined)[] = [];
    const stopping: Promise<void>[] = [];
    let tries = 0;
    const join = (place: number): void => {
      const identity = `${place}-${election.candidates.length}`;
      const candidate = election.candidate(identity, { random: () => jitter[tries++ % jitter.length] ?? 0 });
      const fates = weathers[place] ?? [];
      let requests = 0;
      candidate.machine.network(() => fates[requests++ % fates.length] ?? { outcome: 'fine' });
      alive[place] = candidate;
    };
    const suffer = async ({ victim, what }: Incident): Promise<void> => {
      const candidate = alive[victim];
      if (what === 'join' && !candidate) join(victim);
      if (!candidate) return;
      if (what === 'pause') candidate.machine.pause();
      if (what === 'resume') await candidate.machine.resume();
      if (what === 'cut') candidate.machine.network(() => ({ outcome: 'hangs' }));
      if (what === 'mend') candidate.machine.network(() => ({ outcome: 'fine' }));
      if (what !== 'stop') return;
      stopping.push(candidate.stop());
      alive[victim] = undefined;
    };

    weathers.forEach((_fates, place) => join(place));
    for (const one of incidents) {
      await election.pass(one.afterMs);
      await suffer(one);
      watch();
      seen.incidents++;
    }
    if (!alive.some((candidate) => candidate)) join(0);
    for (const { machine } of election.candidates) {
      machine.network(() => ({ outcome: 'fine' }));
      await machine.resume();
    }
    await election.pass(RECOVERY_MS);
    assert.equal(election.candidates.filter((candidate) => candidate.acts()).length, 1, 'nobody leads');
    seen.handovers += started.cluster.store.get('Lease', lease.name, NAMESPACE)?.spec?.leaseTransitions ?? 0;
    for (const candidate of election.candidates) stopping.push(candidate.stop());
    await election.pass(20_000);
    await Promise.all(stopping);
    for (const { identity, told } of election.candidates) {
      const expected = told.map((_one, index) => (index % 2 === 0 ? 'started' : 'stopped'));
      assert.deepEqual(told, expected, identity);
      assert.equal(told.length % 2, 0, identity);
    }
    assert.equal(clock.pending(), 0);
  };

  test(`at most one leads (${RUNS} runs)`, async (t) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(weather, { minLength: 3, maxLength: 3 }),
        fc.array(incident, { minLength: 4, maxLength: 16 }),
        fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 20 }),
        play,
      ),
      { numRuns: RUNS },
    );
    assert.deepEqual(started.errors, []);
    // Neither is it safe because nobody ever leads.
    assert.ok(seen.led > seen.steps / 4, JSON.stringify(seen));
    assert.ok(seen.handovers > RUNS / 10, JSON.stringify(seen));
    t.diagnostic(JSON.stringify(seen));
  });
});
