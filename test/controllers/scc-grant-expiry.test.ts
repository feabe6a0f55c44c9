/** Tests the expiry of grants, including the deletion of the binding and the events before and after the deletion. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { sccGrantExpiry } from '../../src/controllers/scc-grant-expiry.ts';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import { ApiError, createStatus } from '../../src/kube/status.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { createUseBinding } from '../../src/policy/scc/index.ts';
import { TEST_MANAGER } from '../support/certificates.ts';
import { type ControllerRun, createController, runController } from '../support/controllers.ts';

const DAY_MS = 24 * 3_600_000;
const END = '2026-02-01T00:00:00Z';
const NAME = `portcullis:scc-until:anyuid:${END}`;
const SUBJECTS = [{ kind: 'ServiceAccount', name: 'builder', namespace: 'shop' }];

suite('grants with an expiry time', () => {
  let cluster: DevCluster;
  let time: string;
  let run: ControllerRun;

  beforeEach(async () => {
    time = '2026-01-01T00:00:00Z';
    cluster = createDevCluster({
      clock: () => new Date(time),
      call: () => Promise.resolve({ ok: false, error: 'unavailable' }),
    });
    for (const name of ['default', 'shop']) await cluster.create('Namespace', { metadata: { name } }, TEST_MANAGER);
    for (const [namespace, end] of [
      ['shop', END],
      ['shop', undefined],
      [undefined, END],
    ] as const) {
      const binding = { ...createUseBinding('anyuid', namespace, end), subjects: SUBJECTS };
      await cluster.create(namespace === undefined ? 'ClusterRoleBinding' : 'RoleBinding', binding, TEST_MANAGER);
    }
    run = runController(createController(sccGrantExpiry, { date: () => new Date(time) }), cluster);
    await run.idle();
  });
  afterEach(async () => {
    assert.deepEqual(run.errors(), []);
    await run.stop();
  });

  const pass = async (now: string, ms: number): Promise<void> => {
    time = now;
    await run.pass(ms);
    await run.idle();
  };
  const names = (): readonly string[] =>
    (['RoleBinding', 'ClusterRoleBinding'] as const).flatMap((kind) =>
      cluster.store.list(kind).map(({ metadata }) => `${kind} ${metadata?.name}`),
    );
  const events = (): readonly string[] =>
    cluster.storage
      .list({ group: '', resource: 'events' })
      .map(({ reason, message, involvedObject }) => {
        const { kind } = involvedObject as JsonObject;
        return `${String(kind)} ${String(reason)}: ${String(message)}`;
      })
      .sort();

  const ALL = [`RoleBinding ${NAME}`, 'RoleBinding system:openshift:scc:anyuid', `ClusterRoleBinding ${NAME}`].sort();
  const ANNOUNCEMENT = `GrantExpires: the binding will be deleted at ${END}. Running pods continue, but new pods can no longer use the SCC`;
  const ANNOUNCED = [`ClusterRoleBinding ${ANNOUNCEMENT}`, `RoleBinding ${ANNOUNCEMENT}`];

  test('are kept if they bind other roles, because the policy for the service account does not permit their deletion', async () => {
    const { metadata, ...binding } = createUseBinding('anyuid', 'shop', END);
    const roleRef = { ...binding.roleRef, name: 'view' };
    const other = { ...binding, metadata: { ...metadata, name: `${NAME}-view` }, roleRef, subjects: SUBJECTS };
    await cluster.create('RoleBinding', other, TEST_MANAGER);
    await pass(END, 32 * DAY_MS);
    assert.deepEqual(names(), ['RoleBinding system:openshift:scc:anyuid', `RoleBinding ${NAME}-view`]);
  });

  test('lead to an event seven days before they expire, and are deleted when they expire', async () => {
    await pass('2026-01-24T23:00:00Z', 23 * DAY_MS);
    assert.deepEqual(events(), []);
    await pass('2026-01-25T00:00:00Z', 3_600_000);
    assert.deepEqual(events(), ANNOUNCED);
    await pass('2026-01-31T23:59:59Z', 7 * DAY_MS);
    assert.deepEqual(names().toSorted(), ALL);
    await pass(END, 1000);
    assert.deepEqual(names(), ['RoleBinding system:openshift:scc:anyuid']);
    const expired = `GrantExpired: the binding was deleted because the grant expired at ${END}`;
    assert.deepEqual(events(), [
      ...[`ClusterRoleBinding ${expired}`, `ClusterRoleBinding ${ANNOUNCEMENT}`],
      ...[`RoleBinding ${expired}`, `RoleBinding ${ANNOUNCEMENT}`],
    ]);
  });

  for (const name of [
    'portcullis:scc-until:x y',
    'portcullis:scc-until:ServiceAccount  shop:a%20b',
    'portcullis:scc-until:\n',
  ]) {
    test(`are deleted regardless of the name of their binding: ${JSON.stringify(name)}`, async () => {
      for (const [namespace, kind] of [
        ['shop', 'RoleBinding'],
        [undefined, 'ClusterRoleBinding'],
      ] as const) {
        const binding = createUseBinding('anyuid', namespace, END);
        await cluster.create(
          kind,
          { ...binding, metadata: { ...binding.metadata, name }, subjects: SUBJECTS },
          TEST_MANAGER,
        );
      }
      await pass(END, 32 * DAY_MS);
      assert.deepEqual(names(), ['RoleBinding system:openshift:scc:anyuid']);
    });
  }

  test('are deleted once the API server responds, if a load balancer responds with 404 before', async () => {
    const { get } = cluster;
    cluster.get = () => Promise.reject(new ApiError(createStatus(404, 'NotFound', 'default backend - 404')));
    await pass(END, 31 * DAY_MS);
    assert.deepEqual(names().toSorted(), ALL);
    cluster.get = get;
    await pass('2026-02-01T00:00:01Z', 1000);
    assert.deepEqual(names(), ['RoleBinding system:openshift:scc:anyuid']);
  });

  test('are kept if their expiry time is moved to the future or removed', async () => {
    const change = (end: string | null) =>
      cluster.patch(
        'RoleBinding',
        { name: NAME, namespace: 'shop' },
        { metadata: { annotations: { 'portcullis.dev/grant-expires-at': end } } },
        TEST_MANAGER,
      );
    await change('2026-03-01T00:00:00Z');
    await pass(END, 31 * DAY_MS);
    assert.deepEqual(names().toSorted(), ALL.slice(1));
    await change('never');
    await pass('2026-04-01T00:00:00Z', 60 * DAY_MS);
    assert.deepEqual(names().toSorted(), ALL.slice(1));
  });
});
