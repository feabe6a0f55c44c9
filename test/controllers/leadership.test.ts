import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, suite, test } from 'node:test';
import fc from 'fast-check';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type Controller, type ReconcileContext, watch } from '../../src/controllers/controller.ts';
import {
  createLeaderElection,
  type Leadership,
  type LeaseTimes,
  runWithLeadership,
} from '../../src/controllers/leadership.ts';
import { allow, type Decision, deny } from '../../src/kube/admission.ts';
import { createStatus } from '../../src/kube/status.ts';
import type { Lease } from '../../src/kube/types.ts';
import {
  type Candidate,
  createElection,
  createMachine,
  type Election,
  type Load,
  type Machine,
  type RequestFault,
} from '../support/candidates.ts';
import { createRecorder, type Recorder } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { startVerdictWebhook, type VerdictWebhook } from '../support/verdict-webhook.ts';

// Leader election on one cluster with a fake clock.

const NAMESPACE = 'portcullis';
const BY_TEST = { fieldManager: 'test' };
const MICRO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const HANGS: RequestFault = { outcome: 'hangs' };
const REFUSED: RequestFault = { outcome: 'refused' };

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
    // Pending requests are rejected.
    await election.pass(11_000);
    await stopping;
    assert.equal(election.clock.pending(), 0);
    assert.deepEqual(started.errors, []);
  });

  const lease = (): Lease | undefined => started.cluster.store.get('Lease', name, NAMESPACE);
  const spec = (): NonNullable<Lease['spec']> => lease()?.spec ?? {};
  const leaders = (): string[] => election.candidates.filter((one) => one.acts()).map(({ identity }) => identity);
  const overNetwork = (candidate: Candidate, travel: RequestFault): void => candidate.machine.network(() => travel);
  const messages = ({ log }: Candidate): string[] =>
    log
      .filter(({ level }) => Number(level) >= 30)
      .map(({ msg, leader, reason }) => [msg, leader ?? reason].join(' ').trim());
  const masterStatus = async ({ metrics }: Candidate): Promise<string | undefined> =>
    (await metrics.expose()).split('\n').find((line) => line.startsWith('leader_election_master_status'));
  /** Starts a leader and a second candidate. */
  const pair = async (): Promise<readonly [Candidate, Candidate]> => {
    const first = election.candidate('a');
    await election.settle();
    const second = election.candidate('b');
    await election.pass(5_000);
    assert.deepEqual(leaders(), ['a']);
    return [first, second];
  };
  /** Returns the time until the candidate leads. */
  const takeoverMs = async (candidate: Candidate, limitMs = 60_000): Promise<number> => {
    const startMs = election.clock.now();
    while (!candidate.acts()) {
      assert.ok(election.clock.now() - startMs < limitMs, `${candidate.identity} does not lead`);
      await election.pass(100);
    }
    return election.clock.now() - startMs;
  };

  test('the first candidate creates the Lease and becomes the leader', async () => {
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

  test('the leader renews every two seconds without reading the Lease', async () => {
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

  test('exactly one of several candidates that create the Lease at the same time becomes the leader', async () => {
    for (const identity of ['a', 'b', 'c', 'd']) election.candidate(identity);
    await election.settle();
    assert.equal(leaders().length, 1);
    await election.pass(30_000);
    assert.deepEqual(leaders(), [spec().holderIdentity]);
    assert.equal(spec().leaseTransitions, 0);
    const told = election.candidates.flatMap((candidate) => candidate.told);
    assert.deepEqual(told, ['started']);
  });

  test('exactly one of several candidates that take over the Lease at the same time becomes the leader', async () => {
    const [first, second] = await pair();
    const third = election.candidate('c', { random: () => 0 });
    first.machine.pause();
    await election.pass(13_000);
    // Both candidates have read the Lease before either writes.
    for (const { machine } of [second, third]) machine.network(() => ({ outcome: 'fine', thereMs: 100 }));
    await election.pass(20_000);
    assert.equal(leaders().length, 1);
    assert.equal(spec().leaseTransitions, 1);
    assert.equal([...second.told, ...third.told].length, 1);
  });

  test('after a crash of the leader, another candidate becomes the leader once the Lease has expired', async () => {
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

  test('a leader that stops releases the Lease, and another candidate acquires it at its next attempt', async () => {
    const [first, second] = await pair();
    await first.stop();
    assert.deepEqual(first.told, ['started', 'stopped']);
    assert.equal(spec().holderIdentity, '');
    assert.equal(spec().leaseDurationSeconds, 1);
    assert.equal(spec().leaseTransitions, 0);
    assert.match(spec().renewTime ?? '', MICRO_TIME);
    assert.equal(spec().acquireTime, spec().renewTime);
    assert.match((await masterStatus(first)) ?? '', / 0$/);
    assert.deepEqual(messages(first).slice(-2), ['leadership ended this replica stops', 'lease released']);
    assert.ok((await takeoverMs(second)) <= 4_400);
    assert.equal(spec().leaseTransitions, 1);
    assert.equal(spec().leaseDurationSeconds, 15);
  });

  test('if the controllers do not stop, the Lease expires without being released', async () => {
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

  test('an error in onStopped is logged, and the Lease is released', async () => {
    const first = election.candidate('a', { onStopped: () => Promise.reject(new Error('boom')) });
    await election.settle();
    await first.stop();
    assert.equal(spec().holderIdentity, '');
    assert.ok(messages(first).includes('the leader controllers failed to stop'));
  });

  test('an error in onStarted ends leadership', async () => {
    const first = election.candidate('a', {
      onStarted() {
        throw new Error('boom');
      },
    });
    await election.settle();
    assert.equal(first.acts(), false);
    assert.deepEqual(first.told, ['stopped']);
    assert.ok(messages(first).includes('the leader controllers failed to start'));
  });

  test('a candidate that never led does not change the Lease', async () => {
    const [, second] = await pair();
    const { resourceVersion } = lease()?.metadata ?? {};
    await second.stop();
    assert.equal(lease()?.metadata?.resourceVersion, resourceVersion);
    assert.deepEqual(leaders(), ['a']);
  });

  test('a candidate that stops while it acquires the Lease releases the Lease without starting controllers', async () => {
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

  const cuts: readonly (readonly [name: string, travel: RequestFault])[] = [
    ['requests hang', HANGS],
    ['connections are refused', REFUSED],
    ['responses are lost', { outcome: 'lost' }],
    ['responses take longer than six seconds', { outcome: 'fine', backMs: 6_000 }],
  ];
  for (const [what, travel] of cuts) {
    test(`leadership ends within the renew deadline when ${what}`, async () => {
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
      // Exactly one candidate leads once the API server is reachable again.
      for (const one of [first, second]) overNetwork(one, { outcome: 'fine' });
      await election.pass(30_000);
      assert.equal(leaders().length, 1);
    });
  }

  test('the renew deadline is measured from the request, not from the response', async () => {
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

  test('after a renewal that succeeds too late, the candidate leads again only once its old controllers have stopped', async () => {
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

  test('the reason for failed renewals is logged once', async () => {
    const [first] = await pair();
    overNetwork(first, REFUSED);
    await election.pass(30_000);
    const warnings = first.log.filter(({ level }) => level === 40);
    assert.deepEqual(
      warnings.map(({ msg, err }) => [msg, (err as Error).message]),
      [['failed to acquire or renew the lease, retrying', 'connection refused']],
    );
  });

  test('a short outage does not end leadership', async () => {
    const [first, second] = await pair();
    for (const one of [first, second]) overNetwork(one, HANGS);
    await election.pass(6_000);
    for (const one of [first, second]) overNetwork(one, { outcome: 'fine' });
    await election.pass(30_000);
    assert.deepEqual([first.told, second.told], [['started'], []]);
    assert.equal(spec().leaseTransitions, 0);
  });

  for (const pausedMs of [9_000, 12_000, 14_900, 40_000]) {
    test(`a process that was suspended for ${pausedMs} ms detects a lost lease when it resumes`, async () => {
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

  test('candidates with different wall clocks elect a single leader', async () => {
    const dates = ['2001-01-01T00:00:00Z', '2099-12-31T23:59:59.999Z', '2026-11-21T12:00:00Z'].map(
      (text) => new Date(text),
    );
    for (const [index, date] of dates.entries()) {
      election.candidate(`clock-${index}`, { date: () => date });
      await election.settle();
    }
    await election.pass(60_000);
    assert.deepEqual(leaders(), ['clock-0']);
    // A renewal advances renewTime even if the wall clock does not advance.
    assert.equal(spec().renewTime, '2001-01-01T00:00:00.000030Z');
    assert.equal(spec().leaseTransitions, 0);
  });

  test('a jump in the wall clock does not end leadership', async () => {
    let nowMs = Date.parse('2026-11-21T12:00:00Z');
    election.candidate('a', { date: () => new Date((nowMs += nowMs % 2 === 0 ? 86_400_001 : -172_800_001)) });
    await election.settle();
    election.candidate('b');
    await election.pass(60_000);
    assert.deepEqual(leaders(), ['a']);
    assert.equal(spec().leaseTransitions, 0);
  });

  test('a leader stops as soon as another candidate holds the Lease', async () => {
    const [first] = await pair();
    const held = lease();
    assert.ok(held);
    await started.cluster.update('Lease', { ...held, spec: { ...held.spec, holderIdentity: 'intruder' } }, BY_TEST);
    await election.pass(2_000);
    assert.deepEqual(first.told, ['started', 'stopped']);
    assert.ok(messages(first).includes('leadership ended another candidate acquired the lease'));
    assert.ok(messages(first).includes('the leader has changed intruder'));
  });

  test('the leader creates a deleted Lease again', async () => {
    const [first, second] = await pair();
    second.machine.pause();
    await started.cluster.remove('Lease', name, NAMESPACE);
    await election.pass(2_000);
    assert.deepEqual(first.told, ['started']);
    assert.equal(spec().holderIdentity, 'a');
  });

  test('the leader renews a Lease that other managers have changed, and keeps their changes', async () => {
    const [first] = await pair();
    const held = lease();
    assert.ok(held);
    const metadata = { ...held.metadata, labels: { team: 'red' } };
    await started.cluster.update('Lease', { ...held, metadata }, BY_TEST);
    await election.pass(10_000);
    assert.deepEqual(first.told, ['started']);
    assert.deepEqual(lease()?.metadata?.labels, { team: 'red' });
  });

  test('changes other than renewals do not extend the Lease', async () => {
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

  test('an empty Lease can be acquired, and a Lease without a duration expires after the configured duration', async () => {
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
    ['denies', refuse, 'admission webhook "verdict.example.com" denied the request: not now'],
    [
      'fails on',
      () => {
        throw new Error('boom');
      },
      'Internal error occurred: failed calling webhook "verdict.example.com"',
    ],
  ];
  for (const [what, verdict, message] of errors) {
    test(`no candidate leads while a webhook ${what} writes of the Lease`, async () => {
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
      // The candidate held the Lease during the whole test.
      assert.equal(spec().leaseTransitions, 0);
    });
  }

  test('a failed release is logged, and the Lease expires', async () => {
    const [first, second] = await pair();
    overNetwork(first, REFUSED);
    await first.stop();
    assert.ok(messages(first).includes('failed to release the lease, which will expire'));
    assert.equal(spec().holderIdentity, 'a');
    assert.ok((await takeoverMs(second)) >= 12_000);
  });

  test('a release to which the API server does not respond does not delay shutdown', async () => {
    const [first] = await pair();
    overNetwork(first, HANGS);
    const stopping = first.stop();
    await election.pass(5_200);
    await stopping;
    assert.deepEqual(first.told, ['started', 'stopped']);
  });

  test('a release that conflicts with a pending renewal is retried', async () => {
    const [first] = await pair();
    const held = lease();
    assert.ok(held);
    let reads = 0;
    first.machine.network(() => {
      // A delayed renewal arrives between the read and the write of the release.
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

  test('changes of the leader are recorded as events on the Lease', async () => {
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

  const times: readonly (readonly [given: LeaseTimes, message: string])[] = [
    [{ retryPeriodMs: 0 }, 'the retry period must be greater than zero'],
    [{ retryPeriodMs: NaN }, 'the retry period must be greater than zero'],
    [{ retryPeriodMs: 9_000 }, 'the renew deadline must be greater than 1.2 times the retry period'],
    [{ renewDeadlineMs: 15_000 }, 'the lease duration must be greater than the renew deadline'],
    [{ leaseDurationMs: 10_000 }, 'the lease duration must be greater than the renew deadline'],
  ];
  for (const [given, message] of times) {
    test(`invalid lease times are rejected: ${JSON.stringify(given)}`, () => {
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

// Replicas that share a Lease. Each runs its own controllers, and the leader also runs the leader controllers.

interface Replica extends Recorder, Leadership {
  readonly machine: Machine;
}

suite('replicas that share a leader Lease', () => {
  let started: TestCluster;
  let clock: FakeClock;
  let load: Load;
  let replicas: Replica[];
  /** The reconciled keys, as `replica controller key`. */
  let seen: string[];
  let name = '';
  let count = 0;

  before(async () => {
    started = await startCluster();
    await started.cluster.create('Namespace', { metadata: { name: NAMESPACE } }, BY_TEST);
  });
  after(() => started.stop());
  beforeEach(() => {
    name = `shared-${++count}`;
    clock = createFakeClock();
    load = { count: 0 };
    replicas = [];
    seen = [];
  });
  afterEach(async () => {
    for (const { machine } of replicas) {
      machine.network(() => ({ outcome: 'fine' }));
      await machine.resume();
    }
    const stopping = Promise.all(replicas.map((replica) => replica.stop()));
    await pass(11_000);
    await stopping;
    assert.equal(clock.pending(), 0);
    assert.deepEqual(started.errors, []);
  });

  const settle = async (): Promise<void> => {
    do for (let turn = 0; turn < 6; turn++) await new Promise((resolve) => setImmediate(resolve));
    while (load.count > 0);
  };
  const pass = async (ms: number): Promise<void> => {
    for (const endMs = clock.now() + ms; clock.now() < endMs;) {
      clock.advance(Math.min(100, endMs - clock.now()));
      await settle();
    }
  };
  const account = (key: string) => ({ metadata: { name: `${name}-${key}`, namespace: NAMESPACE } });
  const replica = (
    identity: string,
    controllers: readonly Controller[],
    others: { readonly isEnded?: (holder: string) => boolean } = {},
  ): Replica => {
    const machine = createMachine(clock, started.cluster, load);
    const recorder = createRecorder();
    const options = {
      ...recorder,
      name,
      namespace: NAMESPACE,
      identity,
      cluster: machine.cluster,
      clock: machine.clock,
      ...others,
    };
    const made = { ...recorder, ...runWithLeadership(controllers, options), machine };
    replicas.push(made);
    return made;
  };
  /** Creates a controller that watches service accounts. */
  const watcher = (identity: string, runsOn: Controller['runsOn']): Controller => ({
    name: `${runsOn}-demo`,
    runsOn,
    create: () => ({
      initialKeys: ['start'],
      sources: [
        watch('ServiceAccount', ({ metadata }) => [metadata?.labels?.['demo'] ?? ''].filter((key) => key === name)),
      ],
      reconcile(key) {
        seen.push(`${identity} ${runsOn} ${key}`);
        return Promise.resolve(undefined);
      },
    }),
  });
  /** Creates a leader controller that reconciles one key. */
  const leader = (reconcile: (context: ReconcileContext) => Promise<void>): Controller => ({
    name: 'leader-demo',
    runsOn: 'leader',
    create: () => ({
      initialKeys: ['start'],
      sources: [],
      reconcile: (_key, context) => reconcile(context).then(() => undefined),
    }),
  });
  const both = (identity: string) => [watcher(identity, 'leader'), watcher(identity, 'replica')];
  const wakeAll = async (key: string): Promise<readonly string[]> => {
    seen = [];
    const { metadata } = account(key);
    await started.cluster.create('ServiceAccount', { metadata: { ...metadata, labels: { demo: name } } }, BY_TEST);
    await settle();
    return seen.toSorted();
  };
  const holder = () => started.cluster.store.get('Lease', name, NAMESPACE)?.spec?.holderIdentity;
  const messages = ({ log }: Replica) =>
    log.filter(({ level }) => Number(level) >= 30).map(({ msg, controller }) => [controller, msg].join(' ').trim());

  test('run their own controllers, and only one runs the leader controllers', async () => {
    const first = replica('a', both('a'));
    await settle();
    const second = replica('b', both('b'));
    await settle();
    assert.deepEqual(seen, ['a replica start', 'a leader start', 'b replica start']);
    assert.deepEqual([first.isLeading(), second.isLeading()], [true, false]);
    assert.deepEqual(await wakeAll('one'), [`a leader ${name}`, `a replica ${name}`, `b replica ${name}`]);
  });

  test('replace their controllers if they lead, and before they lead', async () => {
    const [leader, own] = [watcher('a', 'leader'), watcher('a', 'replica')];
    const first = replica('a', [own]);
    await settle();
    assert.deepEqual([seen, first.isLeading()], [['a replica start'], true]);
    first.update([leader]);
    const second = replica('b', [watcher('b', 'replica')]);
    second.update(both('c'));
    await settle();
    const replaced = ['leader-demo controller started', 'replica-demo controller stopped'];
    assert.deepEqual(messages(first).slice(-2).toSorted(), replaced);
    assert.deepEqual(await wakeAll('one'), [`a leader ${name}`, `c replica ${name}`]);
    await first.stop();
    await pass(10_000);
    assert.deepEqual(await wakeAll('two'), [`c leader ${name}`, `c replica ${name}`]);
  });

  test('acquire a Lease with the maximum number of transitions', async () => {
    const spec = { holderIdentity: 'gone', leaseDurationSeconds: 1, leaseTransitions: 2 ** 31 - 1 };
    await started.cluster.create('Lease', { metadata: { name, namespace: NAMESPACE }, spec }, BY_TEST);
    const first = replica('a', both('a'));
    await pass(10_000);
    assert.deepEqual([first.isLeading(), holder()], [true, 'a']);
  });

  test('do not wait for the Lease of their previous process after a restart', async () => {
    const renewTime = '2026-01-01T00:00:00.000000Z';
    const spec = { holderIdentity: 'a_1', leaseDurationSeconds: 3_600, renewTime };
    await started.cluster.create('Lease', { metadata: { name, namespace: NAMESPACE }, spec }, BY_TEST);
    const other = replica('b_1', both('b'), { isEnded: (holder) => holder.startsWith('b_') });
    await pass(30_000);
    assert.deepEqual([other.isLeading(), holder()], [false, 'a_1']);
    const restarted = replica('a_2', both('a'), { isEnded: (holder) => holder.startsWith('a_') });
    await settle();
    assert.deepEqual([restarted.isLeading(), holder()], [true, 'a_2']);
  });

  test('record the last renewal by the previous leader when they become the leader', async () => {
    const former = () =>
      started.cluster.store.get('Lease', name, NAMESPACE)?.metadata?.annotations?.[
        'portcullis.dev/former-leader-renewed'
      ];
    const first = replica('a', both('a'));
    await settle();
    assert.equal(former(), undefined);
    await pass(4_000);
    assert.equal(former(), undefined);
    await first.stop();
    const written = started.cluster.store.get('Lease', name, NAMESPACE)?.metadata?.managedFields?.at(-1)?.time;
    assert.ok(written);
    const second = replica('b', both('b'));
    await settle();
    await pass(10_000);
    assert.deepEqual([second.isLeading(), former()], [true, written]);
  });

  test('keep an earlier renewal if no leader has reported the pods since then', async () => {
    const annotations = { 'portcullis.dev/former-leader-renewed': '2026-01-01T00:00:00Z' };
    const spec = { holderIdentity: 'gone', leaseDurationSeconds: 1, renewTime: '2026-01-01T00:05:00.000000Z' };
    const metadata = { name, namespace: NAMESPACE, annotations };
    await started.cluster.create('Lease', { metadata, spec }, BY_TEST);
    const first = replica('a', both('a'));
    await pass(10_000);
    assert.equal(first.isLeading(), true);
    assert.deepEqual(started.cluster.store.get('Lease', name, NAMESPACE)?.metadata?.annotations, annotations);
  });

  test('record their own previous renewal when they lead again', async () => {
    const read = () => started.cluster.store.get('Lease', name, NAMESPACE)?.metadata;
    const first = replica('a', both('a'));
    await settle();
    await pass(4_000);
    const renewed = read()?.managedFields?.at(-1)?.time;
    assert.ok(renewed);
    // Creation times are whole seconds.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    first.machine.network(() => ({ outcome: 'hangs' }));
    await pass(10_000);
    assert.equal(first.isLeading(), false);
    first.machine.network(() => ({ outcome: 'fine' }));
    await pass(10_000);
    assert.equal(first.isLeading(), true);
    assert.equal(read()?.annotations?.['portcullis.dev/former-leader-renewed'], renewed);
  });

  test('stop all their controllers before they release the Lease', async () => {
    const first = replica('a', both('a'));
    await settle();
    const second = replica('b', both('b'));
    await settle();
    await first.stop();
    assert.equal(holder(), '');
    const ends = messages(first).filter((line) => line.endsWith('stopped') || line.endsWith('released'));
    assert.deepEqual(ends.toSorted(), [
      'leader-demo controller stopped',
      'lease released',
      'replica-demo controller stopped',
    ]);
    assert.equal(ends.indexOf('lease released') > ends.indexOf('leader-demo controller stopped'), true);
    await pass(5_000);
    assert.deepEqual([first.isLeading(), second.isLeading()], [false, true]);
    assert.deepEqual(await wakeAll('one'), [`b leader ${name}`, `b replica ${name}`]);
  });

  test('stop only the leader controllers when they are disconnected, and start them when they lead again', async () => {
    const first = replica('a', both('a'));
    await settle();
    first.machine.network(() => ({ outcome: 'hangs' }));
    await pass(10_000);
    assert.equal(first.isLeading(), false);
    assert.deepEqual(await wakeAll('one'), [`a replica ${name}`]);
    first.machine.network(() => ({ outcome: 'fine' }));
    await pass(10_000);
    assert.equal(first.isLeading(), true);
    assert.deepEqual(await wakeAll('two'), [`a leader ${name}`, `a replica ${name}`]);
    const starts = messages(first).filter((line) => line === 'leader-demo controller started');
    assert.equal(starts.length, 2);
  });

  const writes: readonly (readonly [verb: string, write: (cluster: Cluster) => Promise<unknown>])[] = [
    ['create', (cluster) => cluster.create('ServiceAccount', account('other'), BY_TEST)],
    ['update', (cluster) => cluster.update('ServiceAccount', account('held'), BY_TEST)],
    ['applyStatus', (cluster) => cluster.applyStatus('Namespace', { metadata: { name: NAMESPACE } }, BY_TEST)],
    [
      'patch',
      (cluster) =>
        cluster.patch(
          'ServiceAccount',
          { name: `${name}-held`, namespace: NAMESPACE },
          [{ op: 'add', path: '/metadata/labels', value: { late: 'yes' } }],
          BY_TEST,
        ),
    ],
    ['apply', (cluster) => cluster.apply('ServiceAccount', account('held'), BY_TEST)],
    ['remove', (cluster) => cluster.remove('ServiceAccount', `${name}-held`, NAMESPACE)],
  ];
  for (const [verb, write] of writes) {
    test(`write nothing if they were suspended past the end of their Lease just before the write: ${verb}`, async () => {
      await started.cluster.create('ServiceAccount', account('held'), BY_TEST);
      let goOn = (): void => undefined;
      let outcome = '';
      const writer = leader(async ({ cluster, signal }) => {
        await new Promise<void>((resolve) => (goOn = resolve));
        outcome = await write(cluster).then(
          () => 'written',
          (error: unknown) => (error as Error).message,
        );
        outcome += signal.aborted ? ', aborted' : '';
      });
      const first = replica('a', [writer]);
      await settle();
      const second = replica('b', both('b'));
      await settle();
      first.machine.pause();
      await pass(30_000);
      assert.equal(second.isLeading(), true);
      const revisions = (['ServiceAccount', 'Namespace'] as const).map((kind) => started.cluster.store.revision(kind));
      goOn();
      await settle();
      assert.equal(outcome, 'this replica is not the leader, aborted');
      assert.deepEqual(
        (['ServiceAccount', 'Namespace'] as const).map((kind) => started.cluster.store.revision(kind)),
        revisions,
      );
      assert.ok(messages(first).includes('leader-demo controller stopped'));
    });
  }

  test('finish running reconciles before they release the Lease', async () => {
    let goOn = (): void => undefined;
    const slow = leader(() => new Promise<void>((resolve) => (goOn = resolve)));
    const first = replica('a', [slow]);
    await settle();
    const stopping = first.stop();
    await pass(3_000);
    assert.equal(holder(), 'a');
    goOn();
    await stopping;
    assert.equal(holder(), '');
  });
});

// At most one candidate leads during random failures of requests and processes. After the failures, exactly one
// candidate leads.

const RUNS = 30;
/**
 * The Lease expires after 15 s, and a candidate retries after at most 4.4 s. The sum is doubled for a pending request.
 */
const RECOVERY_MS = 40_000;

/** A failure of one candidate after a delay. */
interface Incident {
  readonly afterMs: number;
  readonly victim: number;
  readonly what: 'pause' | 'resume' | 'stop' | 'join' | 'cut' | 'repair';
}

/** The outcomes of a candidate's requests, in order. */
type Weather = readonly RequestFault[];

const travel: fc.Arbitrary<RequestFault> = fc.record({
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
  what: fc.constantFrom('pause', 'pause', 'resume', 'resume', 'stop', 'join', 'cut', 'repair'),
});

suite('candidates that randomly fail', () => {
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
      if (what === 'repair') candidate.machine.network(() => ({ outcome: 'fine' }));
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
    assert.equal(election.candidates.filter((candidate) => candidate.acts()).length, 1, 'no candidate leads');
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

  test(`never lead at the same time (${RUNS} runs)`, async (t) => {
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
    // Candidates lead most of the time, so the property is not trivial.
    assert.ok(seen.led > seen.steps / 4, JSON.stringify(seen));
    assert.ok(seen.handovers > RUNS / 10, JSON.stringify(seen));
    t.diagnostic(JSON.stringify(seen));
  });
});
