/** Replicas that share a Lease: who leads runs the leader's controllers, and each runs its own. */
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, suite, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { watch, type Controller, type ReconcileContext } from '../../src/controllers/controller.ts';
import { runWithLeadership, type Leadership } from '../../src/controllers/leadership.ts';
import { createMachine, type Load, type Machine } from '../support/candidates.ts';
import { createRecorder, type Recorder } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';

const NAMESPACE = 'portcullis';
const BY_TEST = { fieldManager: 'test' };

interface Replica extends Recorder, Leadership {
  readonly machine: Machine;
}

suite('replicas that share a lease', () => {
  let started: TestCluster;
  let clock: FakeClock;
  let load: Load;
  let replicas: Replica[];
  /** What was reconciled, as `replica controller key`. */
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
  const replica = (identity: string, controllers: readonly Controller[]): Replica => {
    const machine = createMachine(clock, started.cluster, load);
    const recorder = createRecorder();
    const options = {
      ...recorder,
      name,
      namespace: NAMESPACE,
      identity,
      cluster: machine.cluster,
      clock: machine.clock,
    };
    const made = { ...recorder, ...runWithLeadership(controllers, options), machine };
    replicas.push(made);
    return made;
  };
  /** One that looks at accounts, whoever runs it. */
  const watcher = (identity: string, runsOn: Controller['runsOn']): Controller => ({
    name: `${runsOn}-demo`,
    runsOn,
    initialKeys: ['start'],
    sources: [
      watch('ServiceAccount', ({ metadata }) => [metadata?.labels?.['demo'] ?? ''].filter((key) => key === name)),
    ],
    reconcile(key) {
      seen.push(`${identity} ${runsOn} ${key}`);
      return Promise.resolve(undefined);
    },
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

  test('each runs its own controllers, one runs those of the leader', async () => {
    const first = replica('a', both('a'));
    await settle();
    const second = replica('b', both('b'));
    await settle();
    assert.deepEqual(seen, ['a replica start', 'a leader start', 'b replica start']);
    assert.deepEqual([first.isLeading(), second.isLeading()], [true, false]);
    assert.deepEqual(await wakeAll('one'), [`a leader ${name}`, `a replica ${name}`, `b replica ${name}`]);
  });

  test('who has no controllers of a leader does not stand for election', async () => {
    const first = replica('a', [watcher('a', 'replica')]);
    await settle();
    assert.deepEqual([first.isLeading(), holder()], [false, undefined]);
    const second = replica('b', both('b'));
    await settle();
    assert.deepEqual([first.isLeading(), second.isLeading(), holder()], [false, true, 'b']);
    assert.deepEqual(await wakeAll('one'), [`a replica ${name}`, `b leader ${name}`, `b replica ${name}`]);
    await second.stop();
    await first.stop();
    await pass(20_000);
    assert.equal(holder(), '');
    assert.equal(messages(first).at(-1), 'replica-demo controller stopped');
    assert.match(await first.metrics.expose(), new RegExp(`leader_election_master_status\\{name="${name}"\\} 0\n`));
  });

  test('a lease whose holders can be counted no further is taken all the same', async () => {
    const spec = { holderIdentity: 'gone', leaseDurationSeconds: 1, leaseTransitions: 2 ** 31 - 1 };
    await started.cluster.create('Lease', { metadata: { name, namespace: NAMESPACE }, spec }, BY_TEST);
    const first = replica('a', both('a'));
    await pass(10_000);
    assert.deepEqual([first.isLeading(), holder()], [true, 'a']);
  });

  test('who stops ends all its controllers, then gives the lease back', async () => {
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

  test('who is cut off ends the controllers of the leader only, and begins them again when it leads again', async () => {
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
    ['updateStatus', (cluster) => cluster.updateStatus('Namespace', { metadata: { name: NAMESPACE } }, BY_TEST)],
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
    test(`who stood still for longer than its lease, just before it wrote (${verb}), does not write`, async () => {
      await started.cluster.create('ServiceAccount', account('held'), BY_TEST);
      let goOn = (): void => undefined;
      let outcome = '';
      const writer: Controller = {
        ...watcher('a', 'leader'),
        sources: [],
        async reconcile(_key, { cluster, signal }: ReconcileContext) {
          await new Promise<void>((resolve) => (goOn = resolve));
          outcome = await write(cluster).then(
            () => 'written',
            (error: unknown) => (error as Error).message,
          );
          outcome += signal.aborted ? ', and it is to stop' : '';
          return undefined;
        },
      };
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
      assert.equal(outcome, 'this replica is not the leader, and it is to stop');
      assert.deepEqual(
        (['ServiceAccount', 'Namespace'] as const).map((kind) => started.cluster.store.revision(kind)),
        revisions,
      );
      assert.ok(messages(first).includes('leader-demo controller stopped'));
    });
  }

  test('a leader writes', async () => {
    let written = '';
    const writer: Controller = {
      ...watcher('a', 'leader'),
      sources: [],
      async reconcile(_key, { cluster }) {
        const made = await cluster.create('ServiceAccount', account('written'), BY_TEST);
        const read = await cluster.get('ServiceAccount', made.metadata?.name ?? '', NAMESPACE);
        written = read.metadata?.name ?? '';
        return undefined;
      },
    };
    replica('a', [writer]);
    await settle();
    assert.equal(written, `${name}-written`);
  });

  test('work that is on its way comes to its end before the lease is given back', async () => {
    let goOn = (): void => undefined;
    const slow: Controller = {
      ...watcher('a', 'leader'),
      sources: [],
      async reconcile() {
        await new Promise<void>((resolve) => (goOn = resolve));
        return undefined;
      },
    };
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
