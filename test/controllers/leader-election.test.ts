/** Candidates on one cluster, with time that stands still until it is told to go on. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/cluster/clock.ts';
import { createLeaderElection, type LeaseTimes } from '../../src/controllers/leadership.ts';
import { allow, deny, type AdmissionRequest, type Decision } from '../../src/kube/admission.ts';
import { createStatus } from '../../src/kube/status.ts';
import type { Lease } from '../../src/kube/types.ts';
import { createElection, type Candidate, type Election, type Travel } from '../support/candidates.ts';
import { createRecorder } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { startVerdictWebhook, type VerdictWebhook } from '../support/verdict-webhook.ts';

const NAMESPACE = 'portcullis';
const BY_TEST = { fieldManager: 'test' };
const MICRO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const HANGS: Travel = { outcome: 'hangs' };
const REFUSED: Travel = { outcome: 'refused' };

interface EventObject {
  readonly message?: string;
  readonly reason?: string;
  readonly involvedObject?: { readonly name?: string };
}

suite('leader election', () => {
  let started: TestCluster;
  let election: Election;
  let name = '';
  let count = 0;
  let webhook: VerdictWebhook | undefined;

  before(async () => {
    started = await startCluster();
    await started.cluster.create('Namespace', { metadata: { name: NAMESPACE } }, BY_TEST);
  });
  after(() => started.stop());
  beforeEach(() => {
    name = `lease-${++count}`;
    election = createElection(createFakeClock(), started.cluster, { name, namespace: NAMESPACE });
  });
  afterEach(async () => {
    await webhook?.stop();
    webhook = undefined;
    for (const { machine } of election.candidates) {
      machine.network(() => ({ outcome: 'fine' }));
      await machine.resume();
    }
    const stopping = Promise.all(election.candidates.map((candidate) => candidate.stop()));
    // What hangs is given up.
    await election.pass(11_000);
    await stopping;
    assert.equal(election.clock.pending(), 0);
    assert.deepEqual(started.errors, []);
  });

  const lease = (): Lease | undefined => started.cluster.store.get('Lease', name, NAMESPACE);
  const spec = (): NonNullable<Lease['spec']> => lease()?.spec ?? {};
  const leaders = (): string[] => election.candidates.filter((one) => one.acts()).map(({ identity }) => identity);
  const overNetwork = (candidate: Candidate, travel: Travel): void => candidate.machine.network(() => travel);
  const messages = ({ log }: Candidate): string[] =>
    log
      .filter(({ level }) => Number(level) >= 30)
      .map(({ msg, leader, reason }) => [msg, leader ?? reason].join(' ').trim());
  const masterStatus = async ({ metrics }: Candidate): Promise<string | undefined> =>
    (await metrics.expose()).split('\n').find((line) => line.startsWith('leader_election_master_status'));
  /** Starts one that leads, and another that does not. */
  const pair = async (): Promise<readonly [Candidate, Candidate]> => {
    const first = election.candidate('a');
    await election.settle();
    const second = election.candidate('b');
    await election.pass(5_000);
    assert.deepEqual(leaders(), ['a']);
    return [first, second];
  };
  /** How long it takes until the candidate leads. */
  const takeoverMs = async (candidate: Candidate, limitMs = 60_000): Promise<number> => {
    const startMs = election.clock.now();
    while (!candidate.acts()) {
      assert.ok(election.clock.now() - startMs < limitMs, `${candidate.identity} does not lead`);
      await election.pass(100);
    }
    return election.clock.now() - startMs;
  };

  test('the first makes the lease and leads', async () => {
    const candidate = election.candidate('a');
    assert.match((await masterStatus(candidate)) ?? '', /\{name="lease-\d+"\} 0$/);
    await election.settle();
    assert.deepEqual(leaders(), ['a']);
    assert.deepEqual(candidate.told, ['started']);
    const { acquireTime, renewTime, ...rest } = spec();
    assert.deepEqual(rest, { holderIdentity: 'a', leaseDurationSeconds: 15, leaseTransitions: 0 });
    assert.match(acquireTime ?? '', MICRO_TIME);
    assert.equal(renewTime, acquireTime);
    assert.match((await masterStatus(candidate)) ?? '', /\{name="lease-\d+"\} 1$/);
    assert.deepEqual(messages(candidate), ['leadership begins', 'the leader has changed a']);
  });

  test('renews every two seconds, without reading', async () => {
    const candidate = election.candidate('a');
    await election.settle();
    const { acquireTime } = spec();
    const renewals = new Set<string>();
    const calls: string[] = [];
    const stop = started.cluster.store.subscribe(({ kind, object }) => {
      if (kind === 'Lease') renewals.add((object as Lease).spec?.renewTime ?? '');
    });
    candidate.machine.network(() => {
      calls.push('request');
      return { outcome: 'fine' };
    });
    await election.pass(20_000);
    stop();
    assert.equal(renewals.size, 10);
    assert.equal(calls.length, 10);
    assert.equal(spec().acquireTime, acquireTime);
    assert.equal(spec().leaseTransitions, 0);
    assert.deepEqual(candidate.told, ['started']);
  });

  test('two that write at the same moment: one leads', async () => {
    for (const identity of ['a', 'b', 'c', 'd']) election.candidate(identity);
    await election.settle();
    assert.equal(leaders().length, 1);
    await election.pass(30_000);
    assert.deepEqual(leaders(), [spec().holderIdentity]);
    assert.equal(spec().leaseTransitions, 0);
    const told = election.candidates.flatMap((candidate) => candidate.told);
    assert.deepEqual(told, ['started']);
  });

  test('two that take a lease over at the same moment: one leads', async () => {
    const [first, second] = await pair();
    const third = election.candidate('c', { random: () => 0 });
    first.machine.pause();
    await election.pass(13_000);
    // Both have read the lease when both write.
    for (const { machine } of [second, third]) machine.network(() => ({ outcome: 'fine', thereMs: 100 }));
    await election.pass(20_000);
    assert.equal(leaders().length, 1);
    assert.equal(spec().leaseTransitions, 1);
    assert.equal([...second.told, ...third.told].length, 1);
  });

  test('after a crash another leads, but not before the lease has run out', async () => {
    const [first, second] = await pair();
    const renewedMs = election.clock.now();
    first.machine.pause();
    await election.pass(14_000);
    assert.deepEqual(leaders(), []);
    const tookMs = (await takeoverMs(second)) + election.clock.now() - renewedMs;
    assert.ok(tookMs >= 14_000, `${tookMs} ms`);
    assert.ok(election.clock.now() - renewedMs <= 15_000 + 2 * 4_400, `${election.clock.now() - renewedMs} ms`);
    assert.equal(spec().leaseTransitions, 1);
    assert.deepEqual(messages(second).slice(-2), ['leadership begins', 'the leader has changed b']);
  });

  test('who stops gives the lease back, and another takes it at its next attempt', async () => {
    const [first, second] = await pair();
    await first.stop();
    assert.deepEqual(first.told, ['started', 'stopped']);
    assert.equal(spec().holderIdentity, '');
    assert.equal(spec().leaseDurationSeconds, 1);
    assert.equal(spec().leaseTransitions, 0);
    assert.match((await masterStatus(first)) ?? '', / 0$/);
    assert.deepEqual(messages(first).slice(-2), ['leadership ended this replica stops', 'lease released']);
    assert.ok((await takeoverMs(second)) <= 4_400);
    assert.equal(spec().leaseTransitions, 1);
    assert.equal(spec().leaseDurationSeconds, 15);
  });

  test('the lease is given back when all work has ended, and not before', async () => {
    let end = (): void => undefined;
    const first = election.candidate('a', { onStopped: () => new Promise((resolve) => (end = resolve)) });
    await election.settle();
    const second = election.candidate('b');
    const stopping = first.stop();
    assert.equal(first.acts(), false);
    await election.pass(5_000);
    assert.equal(spec().holderIdentity, 'a');
    assert.deepEqual(second.told, []);
    end();
    await stopping;
    assert.equal(spec().holderIdentity, '');
  });

  test('work that does not end keeps the lease for nobody: it runs out', async () => {
    let end = (): void => undefined;
    const first = election.candidate('a', { onStopped: () => new Promise((resolve) => (end = resolve)) });
    await election.settle();
    const second = election.candidate('b');
    await election.settle();
    const stopping = first.stop();
    const tookMs = await takeoverMs(second);
    assert.ok(tookMs >= 15_000, `${tookMs} ms`);
    end();
    await stopping;
    assert.equal(spec().holderIdentity, 'b');
  });

  test('work that ends badly is told, and the lease is given back', async () => {
    const first = election.candidate('a', { onStopped: () => Promise.reject(new Error('boom')) });
    await election.settle();
    await first.stop();
    assert.equal(spec().holderIdentity, '');
    assert.ok(messages(first).includes('the controllers of the leader failed to stop'));
  });

  test('work that does not begin ends leadership', async () => {
    const first = election.candidate('a', {
      onStarted() {
        throw new Error('boom');
      },
    });
    await election.settle();
    assert.equal(first.acts(), false);
    assert.deepEqual(first.told, ['stopped']);
    assert.ok(messages(first).includes('the controllers of the leader failed to start'));
  });

  test('one that never led leaves the lease alone', async () => {
    const [, second] = await pair();
    const { resourceVersion } = lease()?.metadata ?? {};
    await second.stop();
    assert.equal(lease()?.metadata?.resourceVersion, resourceVersion);
    assert.deepEqual(leaders(), ['a']);
  });

  test('who stops while it takes the lease gives it back, and begins nothing', async () => {
    const first = election.candidate('a');
    overNetwork(first, { outcome: 'fine', thereMs: 100 });
    await election.settle();
    const stopping = first.stop();
    overNetwork(first, { outcome: 'fine' });
    await election.pass(200);
    await stopping;
    assert.deepEqual(first.told, []);
    assert.equal(spec().leaseTransitions, 0);
    assert.equal(spec().holderIdentity, '');
    await first.stop();
  });

  const cuts: readonly (readonly [name: string, travel: Travel])[] = [
    ['requests hang', HANGS],
    ['connections are refused', REFUSED],
    ['answers are lost', { outcome: 'lost' }],
    ['answers take longer than six seconds', { outcome: 'fine', backMs: 6_000 }],
  ];
  for (const [what, travel] of cuts) {
    test(`stops to lead within the renew deadline when ${what}`, async () => {
      const [first, second] = await pair();
      await election.pass(1_000 - (election.clock.now() % 1_000));
      overNetwork(first, travel);
      overNetwork(second, REFUSED);
      const startMs = election.clock.now();
      while (first.acts()) await election.pass(100);
      const tookMs = election.clock.now() - startMs;
      assert.ok(tookMs >= 8_000 && tookMs <= 10_000, `${tookMs} ms`);
      assert.deepEqual(first.told, ['started', 'stopped']);
      assert.match((await masterStatus(first)) ?? '', / 0$/);
      assert.ok(messages(first).includes('leadership ended the lease was not renewed in time'));
      // As soon as it is reached again, somebody leads.
      for (const one of [first, second]) overNetwork(one, { outcome: 'fine' });
      await election.pass(30_000);
      assert.equal(leaders().length, 1);
    });
  }

  test('nobody need ask: leadership ends by itself at the renew deadline while a request hangs', async () => {
    const first = election.candidate('a');
    await election.settle();
    overNetwork(first, HANGS);
    await election.pass(9_900);
    assert.deepEqual(first.told, ['started']);
    await election.pass(100);
    assert.deepEqual(first.told, ['started', 'stopped']);
  });

  test('the renew deadline begins when a renewal is asked for, not when it is answered', async () => {
    const [first, second] = await pair();
    overNetwork(first, { outcome: 'fine', backMs: 4_000 });
    overNetwork(second, REFUSED);
    const { renewTime } = spec();
    while (spec().renewTime === renewTime) await election.pass(100);
    const askedMs = election.clock.now();
    overNetwork(first, HANGS);
    while (first.acts()) await election.pass(100);
    const tookMs = election.clock.now() - askedMs;
    assert.ok(tookMs >= 9_900 && tookMs <= 10_000, `${tookMs} ms`);
  });

  test('a renewal that is granted after leadership has ended begins it anew, when the old work has ended', async () => {
    let end = (): void => undefined;
    const told: string[] = [];
    const first = election.candidate('a', {
      onStarted: () => void told.push('started'),
      onStopped: () => {
        told.push('stopping');
        return new Promise((resolve) => {
          end = () => {
            told.push('stopped');
            resolve();
          };
        });
      },
    });
    await election.settle();
    overNetwork(first, REFUSED);
    await election.pass(7_000);
    overNetwork(first, { outcome: 'fine', backMs: 4_000 });
    await election.pass(6_500);
    assert.deepEqual(told, ['started', 'stopping']);
    assert.equal(first.acts(), false);
    end();
    await election.settle();
    assert.deepEqual(told, ['started', 'stopping', 'stopped', 'started']);
    const stopping = first.stop();
    end();
    await election.pass(11_000);
    await stopping;
  });

  test('says once why the lease cannot be had, while the reason stays', async () => {
    const [first] = await pair();
    overNetwork(first, REFUSED);
    await election.pass(30_000);
    const warnings = first.log.filter(({ level }) => level === 40);
    assert.deepEqual(
      warnings.map(({ msg, err }) => [msg, (err as Error).message]),
      [['lease neither acquired nor renewed, it is retried', 'connection refused']],
    );
  });

  test('a short outage changes nothing', async () => {
    const [first, second] = await pair();
    for (const one of [first, second]) overNetwork(one, HANGS);
    await election.pass(6_000);
    for (const one of [first, second]) overNetwork(one, { outcome: 'fine' });
    await election.pass(30_000);
    assert.deepEqual([first.told, second.told], [['started'], []]);
    assert.equal(spec().leaseTransitions, 0);
  });

  for (const pausedMs of [9_000, 12_000, 14_900, 40_000]) {
    test(`a process that stood still for ${pausedMs} ms knows it as it wakes`, async () => {
      const [first, second] = await pair();
      overNetwork(second, pausedMs < 15_000 ? HANGS : { outcome: 'fine' });
      first.machine.pause();
      const renewedMs = Math.floor(election.clock.now() / 2_000) * 2_000;
      await election.pass(pausedMs);
      const waking = first.machine.resume();
      assert.equal(first.acts(), election.clock.now() < renewedMs + 10_000);
      await waking;
      await election.settle();
      assert.equal(leaders().length, 1);
      assert.equal(leaders()[0], pausedMs < 15_000 ? 'a' : 'b');
      await election.pass(10_000);
      assert.equal(leaders().length, 1);
    });
  }

  test('clocks on the wall may say what they like', async () => {
    const dates = ['2001-01-01T00:00:00Z', '2099-12-31T23:59:59.999Z', '2026-11-21T12:00:00Z'].map(
      (text) => new Date(text),
    );
    for (const [index, date] of dates.entries()) {
      election.candidate(`clock-${index}`, { date: () => date });
      await election.settle();
    }
    await election.pass(60_000);
    assert.deepEqual(leaders(), ['clock-0']);
    // Even one that stands still is renewed: something changes each time.
    assert.equal(spec().renewTime, '2001-01-01T00:00:00.000030Z');
    assert.equal(spec().leaseTransitions, 0);
  });

  test('a clock on the wall that jumps back and forth', async () => {
    let nowMs = Date.parse('2026-11-21T12:00:00Z');
    election.candidate('a', { date: () => new Date((nowMs += nowMs % 2 === 0 ? 86_400_001 : -172_800_001)) });
    await election.settle();
    election.candidate('b');
    await election.pass(60_000);
    assert.deepEqual(leaders(), ['a']);
    assert.equal(spec().leaseTransitions, 0);
  });

  test('who sees that another holds the lease stops at once', async () => {
    const [first] = await pair();
    const held = lease();
    assert.ok(held);
    await started.cluster.update('Lease', { ...held, spec: { ...held.spec, holderIdentity: 'intruder' } }, BY_TEST);
    await election.pass(2_000);
    assert.deepEqual(first.told, ['started', 'stopped']);
    assert.ok(messages(first).includes('leadership ended another candidate acquired the lease'));
    assert.ok(messages(first).includes('the leader has changed intruder'));
  });

  test('a lease that is deleted is made again', async () => {
    const [first, second] = await pair();
    second.machine.pause();
    await started.cluster.remove('Lease', name, NAMESPACE);
    await election.pass(2_000);
    assert.deepEqual(first.told, ['started']);
    assert.equal(spec().holderIdentity, 'a');
  });

  test('a lease somebody else has changed is renewed all the same, and what it says beside stays', async () => {
    const [first] = await pair();
    const held = lease();
    assert.ok(held);
    const metadata = { ...held.metadata, labels: { team: 'red' } };
    await started.cluster.update('Lease', { ...held, metadata }, BY_TEST);
    await election.pass(10_000);
    assert.deepEqual(first.told, ['started']);
    assert.deepEqual(lease()?.metadata?.labels, { team: 'red' });
  });

  test('changes of the lease that are no renewals do not keep it', async () => {
    const [first, second] = await pair();
    first.machine.pause();
    for (let round = 0; round < 20; round++) {
      const held = lease();
      assert.ok(held);
      const metadata = { ...held.metadata, labels: { round: String(round) } };
      await started.cluster.update('Lease', { ...held, metadata }, BY_TEST);
      await election.pass(1_000);
    }
    await takeoverMs(second, 5_000);
  });

  test('a lease that says nothing is free; one without a duration lasts as long as our own', async () => {
    const metadata = { name, namespace: NAMESPACE };
    await started.cluster.create('Lease', { metadata }, BY_TEST);
    const first = election.candidate('a');
    await election.settle();
    assert.equal(spec().leaseTransitions, 1);
    await first.stop();
    const held = lease();
    assert.ok(held);
    await started.cluster.update('Lease', { ...held, spec: { holderIdentity: 'gone' } }, BY_TEST);
    const second = election.candidate('b');
    await election.settle();
    assert.ok((await takeoverMs(second)) >= 15_000);
  });

  const refuse = (): Decision => deny(createStatus(403, 'Forbidden', 'not now'));
  const errors: readonly (readonly [name: string, verdict: () => Decision, message: string])[] = [
    ['refused', refuse, 'admission webhook "verdict.example.com" denied the request: not now'],
    [
      'broken',
      () => {
        throw new Error('boom');
      },
      'Internal error occurred: failed calling webhook "verdict.example.com"',
    ],
  ];
  for (const [what, verdict, message] of errors) {
    test(`writes that are ${what} by a webhook: none leads, until they are allowed`, async () => {
      let isAllowed = false;
      webhook = await startVerdictWebhook(started.cluster, ['leases'], () => (isAllowed ? allow() : verdict()));
      const first = election.candidate('a');
      await election.pass(10_000);
      assert.deepEqual(leaders(), []);
      const [warning] = first.log.filter(({ level }) => level === 40);
      assert.ok((warning?.['err'] as Error).message.startsWith(message), (warning?.['err'] as Error).message);
      isAllowed = true;
      await takeoverMs(first, 5_000);
      isAllowed = false;
      await election.pass(10_000);
      assert.deepEqual(first.told, ['started', 'stopped']);
      isAllowed = true;
      await takeoverMs(first, 5_000);
      // It was its own lease all the time.
      assert.equal(spec().leaseTransitions, 0);
    });
  }

  test('writes of the leader that a webhook refuses: another takes over', async () => {
    const [first, second] = await pair();
    const holderIn = ({ object }: AdmissionRequest): string => (object as Lease).spec?.holderIdentity ?? '';
    webhook = await startVerdictWebhook(started.cluster, ['leases'], (request) =>
      holderIn(request) === 'a' ? refuse() : allow(),
    );
    await takeoverMs(second);
    assert.deepEqual(first.told, ['started', 'stopped']);
    assert.equal(spec().leaseTransitions, 1);
  });

  test('a release that cannot be had is told, and others wait', async () => {
    const [first, second] = await pair();
    overNetwork(first, REFUSED);
    await first.stop();
    assert.ok(messages(first).includes('lease not released, it expires'));
    assert.equal(spec().holderIdentity, 'a');
    assert.ok((await takeoverMs(second)) >= 12_000);
  });

  test('a release that hangs does not hold up the end', async () => {
    const [first] = await pair();
    overNetwork(first, HANGS);
    const stopping = first.stop();
    await election.pass(5_200);
    await stopping;
    assert.deepEqual(first.told, ['started', 'stopped']);
  });

  test('a release that meets a renewal on its way is tried again', async () => {
    const [first] = await pair();
    const held = lease();
    assert.ok(held);
    let reads = 0;
    first.machine.network(() => {
      // Between the read and the write of the release, what was thought lost comes through.
      if (++reads === 3)
        void started.cluster.update(
          'Lease',
          { ...held, metadata: { ...held.metadata, labels: { late: 'yes' } } },
          BY_TEST,
        );
      return { outcome: 'fine' };
    });
    await first.stop();
    assert.equal(spec().holderIdentity, '');
    assert.deepEqual(lease()?.metadata?.labels, { late: 'yes' });
  });

  test('who leads is told as events of the lease', async () => {
    const first = election.candidate('a');
    await election.settle();
    await first.stop();
    await election.settle();
    const events = started.cluster.storage.list({ group: '', resource: 'events' }, NAMESPACE);
    const ours = events
      .map((event) => event as EventObject)
      .filter(({ involvedObject }) => involvedObject?.name === name);
    assert.deepEqual(
      new Set(ours.map(({ message, reason }) => `${reason}: ${message}`)),
      new Set(['LeaderElection: a became leader', 'LeaderElection: a stopped leading']),
    );
  });

  test('by the clock of the machine: a thread that was busy for too long knows it at once', async () => {
    const told: string[] = [];
    const wall = createElection(createFakeClock(), started.cluster, { name, namespace: NAMESPACE });
    const candidate = wall.candidate('a', {
      clock: systemClock,
      leaseDurationMs: 1_000,
      renewDeadlineMs: 500,
      retryPeriodMs: 50,
      onStarted: () => void told.push('started'),
      onStopped: () => {
        told.push('stopped');
        return Promise.resolve();
      },
    });
    while (!candidate.isLeading()) await sleep(5);
    await sleep(700);
    assert.deepEqual(told, ['started']);
    const endMs = performance.now() + 600;
    while (performance.now() < endMs);
    assert.equal(candidate.isLeading(), false);
    assert.deepEqual(told, ['started', 'stopped']);
    while (!candidate.isLeading()) await sleep(5);
    await candidate.stop();
    assert.deepEqual(told, ['started', 'stopped', 'started', 'stopped']);
    assert.equal(spec().holderIdentity, '');
    assert.equal(spec().leaseTransitions, 0);
  });

  const times: readonly (readonly [given: LeaseTimes, message: string])[] = [
    [{ retryPeriodMs: 0 }, 'the retry period must be greater than zero'],
    [{ retryPeriodMs: NaN }, 'the retry period must be greater than zero'],
    [{ retryPeriodMs: 9_000 }, 'the renew deadline must be greater than 1.2 times the retry period'],
    [{ renewDeadlineMs: 15_000 }, 'the lease duration must be greater than the renew deadline'],
    [{ leaseDurationMs: 10_000 }, 'the lease duration must be greater than the renew deadline'],
  ];
  for (const [given, message] of times) {
    test(`times that do not go together: ${JSON.stringify(given)}`, () => {
      const make = (): unknown =>
        createLeaderElection({
          ...createRecorder(),
          ...given,
          cluster: started.cluster,
          name,
          namespace: NAMESPACE,
          identity: 'a',
          clock: election.clock,
          onStarted: () => undefined,
          onStopped: () => Promise.resolve(),
        });
      assert.throws(make, { name: 'UserError', message });
    });
  }
});
