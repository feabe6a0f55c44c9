/** Candidates that reach the API server over TLS, with no more rights than they need, in real time. */
import assert from 'node:assert/strict';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type Connection } from '../../src/cluster/connection.ts';
import { createLiveCluster } from '../../src/cluster/live-cluster.ts';
import { systemClock } from '../../src/cluster/clock.ts';
import { createLeaderElection, type LeaderElection } from '../../src/controllers/leadership.ts';
import { createRecorder, type Recorder } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

const NAMESPACE = 'portcullis';
const USER = 'system:serviceaccount:portcullis:portcullis';
const BY_TEST = { fieldManager: 'test' };
const LIMIT_MS = 10_000;

suite('candidates over the network', () => {
  let started: TestCluster;
  let kubeconfig = '';
  const connections: Connection[] = [];
  const candidates: (LeaderElection & Recorder)[] = [];

  before(async () => {
    started = await startCluster();
    await started.cluster.create('Namespace', { metadata: { name: NAMESPACE } }, BY_TEST);
    const admin = await started.kubeconfig();
    kubeconfig = `${admin}-of-the-replicas`;
    await writeFile(kubeconfig, (await readFile(admin, 'utf8')).replace('  user:\n', `  user:\n    as: "${USER}"\n`));
    for (let count = 0; count < 2; count++) {
      const connection = await connect({ kubeconfig, env: {}, userAgent: 'test' });
      connections.push(connection);
      const recorder = createRecorder();
      const cluster = createLiveCluster({
        connection,
        kinds: [],
        clock: systemClock,
        random: Math.random,
        now: () => new Date(),
      });
      const election = createLeaderElection({
        ...recorder,
        cluster,
        name: NAMESPACE,
        namespace: NAMESPACE,
        identity: `replica-${count}`,
        clock: systemClock,
        leaseDurationMs: 2_000,
        renewDeadlineMs: 1_200,
        retryPeriodMs: 200,
        onStarted: () => undefined,
        onStopped: () => Promise.resolve(),
      });
      candidates.push({ ...election, ...recorder });
      election.start();
    }
  });
  after(async () => {
    await Promise.all(candidates.map((candidate) => candidate.stop()));
    for (const connection of connections) connection.close();
    await rm(kubeconfig);
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const leaders = (): number => candidates.filter((candidate) => candidate.isLeading()).length;
  const reach = async (count: number): Promise<void> => {
    const endMs = performance.now() + LIMIT_MS;
    while (leaders() !== count) {
      assert.ok(performance.now() < endMs, `${leaders()} lead, not ${count}`);
      assert.ok(leaders() < 2);
      await sleep(10);
    }
  };
  const metadata = { name: 'leader-election', namespace: NAMESPACE };
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata.name };
  const grant = () =>
    started.cluster.create(
      'RoleBinding',
      { metadata, roleRef, subjects: [{ kind: 'ServiceAccount', name: 'portcullis', namespace: NAMESPACE }] },
      BY_TEST,
    );

  test('without the right to read leases none leads, and each says so', async () => {
    for (const { log } of candidates) {
      const warnings = (): string[] => log.filter(({ level }) => level === 40).map(({ err }) => (err as Error).message);
      const endMs = performance.now() + LIMIT_MS;
      while (warnings().length === 0 && performance.now() < endMs) await sleep(10);
      // Some attempts more, which say nothing new.
      await sleep(500);
      assert.deepEqual(warnings(), [
        `leases.coordination.k8s.io "portcullis" is forbidden: User "${USER}" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "portcullis"`,
      ]);
    }
    assert.equal(leaders(), 0);
  });

  test('get, create and update are all that is needed; who may not write events leads all the same', async () => {
    const rules = [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'create', 'update'] }];
    await started.cluster.create('Role', { metadata, rules }, BY_TEST);
    await grant();
    await reach(1);
    const { spec } = await started.cluster.get('Lease', NAMESPACE, NAMESPACE);
    await sleep(2_500);
    await reach(1);
    const { spec: later } = await started.cluster.get('Lease', NAMESPACE, NAMESPACE);
    assert.equal(later?.leaseDurationSeconds, 2);
    assert.notEqual(later.renewTime, spec?.renewTime);
  });

  test('who loses the right stops to lead, and leads again when it is back', async () => {
    await started.cluster.remove('RoleBinding', metadata.name, NAMESPACE);
    const startMs = performance.now();
    await reach(0);
    assert.ok(performance.now() - startMs < LIMIT_MS / 2);
    await grant();
    await reach(1);
  });

  test('who stops hands over at once', async () => {
    const [leader] = candidates.filter((candidate) => candidate.isLeading());
    await leader?.stop();
    const startMs = performance.now();
    await reach(1);
    assert.ok(performance.now() - startMs < LIMIT_MS / 2);
  });
});
