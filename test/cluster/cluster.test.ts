import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '../../src/cluster/clock.ts';
import { connect, type Connection } from '../../src/cluster/connection.ts';
import { createLiveCluster, type LiveCluster } from '../../src/cluster/live-cluster.ts';
import { project } from '../../src/cluster/projection.ts';
import { CRDS } from '../../src/install/index.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { RESOURCES } from '../../src/kube/resources.ts';
import type { KubeObject } from '../../src/kube/types.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { responseItems } from '../support/answers.ts';
import { startControlPlane } from '../support/control-plane/index.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { clusterContract } from './contract.ts';

const ALL = Object.keys(RESOURCES) as readonly Kind[];

// With KUBEBUILDER_ASSETS, the cluster is a real kube-apiserver.
clusterContract('the live cluster', async () => {
  const server = await startControlPlane();
  const kubeconfig = await server.kubeconfigFor('admin', ['system:masters']);
  const connection = await connect({ kubeconfig, env: {}, userAgent: 'test' });
  const cluster = createLiveCluster({
    connection,
    clock: systemClock,
    random: Math.random,
    now: () => new Date(),
  });
  await cluster.follow(ALL);
  return {
    cluster,
    async events() {
      const events = responseItems(await server.admin.send('GET', '/apis/events.k8s.io/v1/events'));
      return events.map((event) => String(event['reason']));
    },
    async stop() {
      await cluster.stop();
      connection.close();
      await server.stop();
    },
  };
});

describe('a live cluster', () => {
  let server: TestCluster;
  let connection: Connection;
  let live: LiveCluster;
  const metrics = createMetrics({ version: 'test' });
  before(async () => {
    server = await startCluster();
    await server.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'shop' } });
    for (const name of ['p1', 'p2', 'p3']) await server.admin.send('POST', PODS, pod(name));
    await server.cluster.idle();
    connection = await connect({
      kubeconfig: await server.kubeconfig(),
      env: {},
      userAgent: 'test',
      requests: metrics.cluster.requests,
    });
    live = createLiveCluster({
      connection,
      clock: systemClock,
      random: Math.random,
      now: () => new Date(),
      pageSize: 2,
      metrics: metrics.cluster,
    });
    await live.follow(ALL);
  });
  after(async () => {
    await live.stop();
    connection.close();
    await server.stop();
    assert.deepEqual(server.errors, []);
  });

  const getNames = (objects: readonly KubeObject[]): string[] =>
    objects.map(({ metadata }) => [metadata?.namespace, metadata?.name].join('/')).sort();

  test('stores all objects, and one spec for equal pods', () => {
    for (const kind of ALL) {
      const stored = server.cluster.store.list(kind).filter((object) => project(kind, { ...object }) !== undefined);
      assert.deepEqual(getNames(live.store.list(kind)), getNames(stored), kind);
    }
    const [first, ...others] = live.store.list('Pod', 'shop');
    assert.equal(others.length, 2);
    for (const other of others) assert.equal(other.spec, first?.spec);
  });

  test('stores changes by other clients', async () => {
    await server.admin.send('POST', '/api/v1/namespaces', { metadata: { name: 'bank', labels: { a: 'b' } } });
    assert.deepEqual(await found(() => live.store.get('Namespace', 'bank')?.metadata?.labels?.['a']), 'b');
    await server.admin.send('DELETE', `${PODS}/p3`);
    await found(() => (live.store.get('Pod', 'p3', 'shop') ? undefined : true));
  });

  test('notifies once about its own write, although the watch also delivers it', async () => {
    const told: string[] = [];
    const leave = live.store.subscribe(({ type, object }) => {
      if (object.metadata?.name?.startsWith('mine')) told.push(`${type} ${object.metadata.name}`);
    });
    for (const name of ['mine-1', 'mine-2']) {
      await live.create('ServiceAccount', { metadata: { name, namespace: 'shop' } }, { fieldManager: 'test' });
    }
    await live.remove('ServiceAccount', 'mine-1', 'shop');
    // The watch delivers events in order.
    await server.admin.send('POST', '/api/v1/namespaces/shop/serviceaccounts', { metadata: { name: 'theirs' } });
    await found(() => live.store.get('ServiceAccount', 'theirs', 'shop'));
    leave();
    assert.deepEqual(told, ['put mine-1', 'put mine-2', 'remove mine-1']);
  });

  test('keeps a deleted object in the store while it has finalizers', async () => {
    const metadata = { name: 'held', namespace: 'shop', finalizers: ['example.org/hold'] };
    await live.create('ConfigMap', { metadata }, { fieldManager: 'test' });
    await live.remove('ConfigMap', 'held', 'shop');
    const held = live.store.get('ConfigMap', 'held', 'shop');
    assert.equal(typeof held?.metadata?.deletionTimestamp, 'string');
    const ops = [{ op: 'remove', path: '/metadata/finalizers' }] as const;
    await live.patch('ConfigMap', { name: 'held', namespace: 'shop' }, ops, { fieldManager: 'test' });
    await found(() => (live.store.get('ConfigMap', 'held', 'shop') ? undefined : true));
  });

  test('watches a kind as soon as its CRD exists', async () => {
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    assert.equal(live.serves('SecurityContextConstraints'), false);
    for (const definition of CRDS) await server.admin.send('POST', path, definition);
    await server.cluster.idle();
    const [standard] = STANDARD_SCCS;
    await live.create('SecurityContextConstraints', standard?.scc ?? {}, { fieldManager: 'test' });
    const name = standard?.scc.metadata?.name ?? '';
    await found(() => live.store.get('SecurityContextConstraints', name));
    const patch = [{ op: 'add', path: '/priority', value: 77 }];
    await server.admin.send('PATCH', `/apis/security.openshift.io/v1/securitycontextconstraints/${name}`, patch, {
      'content-type': 'application/json-patch+json',
    });
    await found(() => live.store.get('SecurityContextConstraints', name)?.priority === 77 || undefined);
    assert.equal(live.serves('SecurityContextConstraints'), true);
  });

  test('watches only the configured scope of a kind', async () => {
    const scoped = createLiveCluster({
      connection,
      clock: systemClock,
      random: Math.random,
      now: () => new Date(),
    });
    const followed = scoped.follow([
      { kind: 'ServiceAccount', namespace: 'shop' },
      { kind: 'Namespace', name: 'shop' },
    ]);
    assert.deepEqual(scoped.unsyncedKinds(), ['ServiceAccount', 'Namespace']);
    await followed;
    assert.deepEqual(scoped.unsyncedKinds(), []);
    assert.deepEqual(getNames(scoped.store.list('Namespace')), ['/shop']);
    for (const namespace of ['default', 'shop']) {
      await scoped.create('ServiceAccount', { metadata: { name: 'scoped', namespace } }, { fieldManager: 'test' });
    }
    await server.admin.send('POST', '/api/v1/namespaces/shop/serviceaccounts', { metadata: { name: 'last' } });
    await found(() => scoped.store.get('ServiceAccount', 'last', 'shop'));
    const accounts = getNames(scoped.store.list('ServiceAccount'));
    await scoped.stop();
    // A stopped cluster must not start a watch, because nothing would stop it.
    await scoped.follow(['Role']);
    assert.deepEqual(scoped.unsyncedKinds(), []);
    assert.deepEqual(new Set(accounts.map((name) => name.split('/')[0])), new Set(['shop']));
    assert.ok(accounts.includes('shop/scoped'));
  });

  test('watches a kind once even if it is requested twice', async () => {
    const own = createMetrics({ version: 'test' });
    const kubeconfig = await server.kubeconfig();
    const { requests } = own.cluster;
    const counted = await connect({ kubeconfig, env: {}, userAgent: 'test', requests });
    const twice = createLiveCluster({
      connection: counted,
      clock: systemClock,
      random: Math.random,
      now: () => new Date(),
    });
    await twice.follow(['ServiceAccount', { kind: 'ServiceAccount' }]);
    const account = { metadata: { name: 'twice', namespace: 'shop' } };
    await server.admin.send('POST', '/api/v1/namespaces/shop/serviceaccounts', account);
    await found(() => twice.store.get('ServiceAccount', 'twice', 'shop'));
    await twice.stop();
    counted.close();
    const gets = (await own.expose()).split('\n').filter((line) => /^rest_client_requests_total.*"GET"/.test(line));
    assert.deepEqual(
      gets.map((line) => line.split(' ').at(-1)),
      ['2'],
      'a list and a watch',
    );
  });

  test('counts requests and reports the age of the last event', async () => {
    const text = await metrics.expose();
    const host = new URL(connection.server).host;
    assert.match(text, new RegExp(`rest_client_requests_total\\{code="200",method="GET",host="${host}"\\} [1-9]`));
    assert.match(text, new RegExp(`rest_client_requests_total\\{code="404",method="GET",host="${host}"\\} [1-9]`));
    for (const kind of ALL) {
      const age = new RegExp(`portcullis_cluster_last_event_age_seconds\\{kind="${kind}"\\} (\\S+)`).exec(text)?.[1];
      assert.ok(Number(age) >= 0 && Number(age) < 60, `${kind}: ${age}`);
    }
  });
});

const PODS = '/api/v1/namespaces/shop/pods';

function pod(name: string): KubeObject & { spec: object } {
  return {
    metadata: {
      name,
      ownerReferences: [{ apiVersion: 'example.org/v1', kind: 'Web', name: 'web', uid: 'u', controller: true }],
    },
    spec: { containers: [{ name: 'c', image: 'i' }] },
  };
}

/** Waits until the value exists. */
async function found<T>(look: () => T | undefined): Promise<T> {
  for (let tries = 0; tries < 1000; tries++) {
    const thing = look();
    if (thing !== undefined) return thing;
    await pause(10);
  }
  assert.fail(`not found in time: ${String(look)}`);
}
