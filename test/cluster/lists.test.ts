import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { reviewAccess, reviewSelf } from '../../src/cluster/access-reviews.ts';
import { connect, type Connection } from '../../src/cluster/connection.ts';
import { readCluster } from '../../src/cluster/lists.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { RESOURCES } from '../../src/kube/resources.ts';
import type { KubeObject } from '../../src/kube/types.ts';
import type { Action } from '../../src/policy/rbac/index.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { json, type Responder, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts';

const ALL = Object.keys(RESOURCES) as readonly Kind[];
/** The kinds that some clusters do not serve. */
const CUSTOM: readonly Kind[] = ALL.filter((kind) =>
  /^(?:.*\.openshift|openreports)\.io$|^wgpolicyk8s\.io$|\.portcullis\.dev$|\.coreos\.com$/.test(RESOURCES[kind].group),
).sort();

describe('a connection to a development cluster', () => {
  let cluster: TestCluster;
  let admin: Connection;
  const connections: Connection[] = [];
  const as = async (lines: string): Promise<Connection> => {
    const path = await cluster.kubeconfig();
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace('    client-key-data:', `${lines}    client-key-data:`));
    const connection = await connect({ kubeconfig: path, env: {}, userAgent: 'test' });
    connections.push(connection);
    return connection;
  };
  before(async () => {
    cluster = await startCluster();
    for (const name of ['shop', 'bank']) await cluster.admin.send('POST', '/api/v1/namespaces', namespace(name));
    for (let index = 0; index < 7; index++) {
      const pod = {
        metadata: { name: `p${index}`, labels: { a: 'b' } },
        spec: { containers: [{ name: 'c', image: 'i' }] },
      };
      await cluster.admin.send('POST', `/api/v1/namespaces/${index < 4 ? 'shop' : 'bank'}/pods`, pod);
    }
    await cluster.cluster.idle();
    admin = await as('');
  });
  after(async () => {
    for (const connection of connections) connection.close();
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });

  const getNames = (objects: readonly KubeObject[]): string[] =>
    objects.map(({ metadata }) => [metadata?.namespace, metadata?.name].join('/')).sort();

  test('lists all objects in pages', async () => {
    const counts: number[] = [];
    const options = { pageSize: 2, onProgress: (count: number) => counts.push(count) };
    const { store, unserved } = await readCluster(admin, ALL, options);
    assert.deepEqual([...unserved].sort(), CUSTOM);
    assert.equal(store.synced(), true);
    for (const kind of ALL) {
      assert.deepEqual(getNames(store.list(kind)), getNames(cluster.cluster.store.list(kind)), kind);
    }
    const total = ALL.reduce((sum, kind) => sum + store.list(kind).length, 0);
    assert.deepEqual([counts.at(-1), counts.length > total / 2], [total, true]);
  });

  test('returns objects with apiVersion and kind, and keeps managedFields only for namespaces', async () => {
    const { store } = await readCluster(admin, ['Pod', 'Namespace'], {});
    const stored = cluster.cluster.storage.get(RESOURCES.Pod, 'shop', 'p0');
    assert.ok(stored?.metadata?.managedFields);
    const metadata = Object.fromEntries(Object.entries(stored.metadata).filter(([key]) => key !== 'managedFields'));
    assert.deepEqual(store.get('Pod', 'p0', 'shop'), { ...stored, apiVersion: 'v1', kind: 'Pod', metadata });
    assert.ok(store.get('Namespace', 'shop')?.metadata?.managedFields);
  });

  test('reads one namespace', async () => {
    const { store } = await readCluster(admin, ['Pod', 'Namespace', 'ClusterRole'], { namespace: 'bank' });
    assert.deepEqual(getNames(store.list('Pod')), ['bank/p4', 'bank/p5', 'bank/p6']);
    assert.deepEqual(getNames(store.list('Namespace')), ['/bank']);
    assert.ok(store.list('ClusterRole').length >= 10);
  });

  test('reports all missing permissions in a single error', async () => {
    const alice = await as('    as: alice\n    as-groups: [dev]\n');
    await assert.rejects(readCluster(alice, ['Pod', 'ClusterRole', 'Namespace'], { namespace: 'shop' }), {
      name: 'UserError',
      message:
        'this requires the "list" verb on pods, clusterroles.rbac.authorization.k8s.io, namespaces: ' +
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "shop"',
    });
  });

  test('reviews the permissions of its own user and of other users', async () => {
    const alice = await as('    as: alice\n    as-groups: [dev]\n');
    assert.deepEqual(await reviewSelf(alice), { username: 'alice', groups: ['dev', 'system:authenticated'] });
    const use = {
      verb: 'use',
      apiGroup: 'security.openshift.io',
      resource: 'securitycontextconstraints',
      name: 'anyuid',
    };
    const version = { verb: 'get', nonResourceURL: '/version' };
    const review = async (username: string, group: string, action: Action): Promise<boolean> =>
      (await reviewAccess(admin, { username, groups: [group] }, action)).allowed;
    assert.equal(await review('alice', 'dev', use), false);
    assert.equal(await review('bob', 'system:masters', use), true);
    assert.equal(await review('bob', 'system:authenticated', version), true);
  });
});

async function* streamOf(...chunks: readonly Buffer[]): AsyncGenerator<Buffer, void> {
  for (const chunk of chunks) yield await Promise.resolve(chunk);
}

const WRONG_METADATA: readonly (readonly [metadata: unknown, problem: string])[] = [
  [5, 'metadata must be an object'],
  [{ name: 5 }, 'metadata.name must be a string'],
  [{ name: 'a', namespace: {} }, 'metadata.namespace must be a string'],
  [{ name: 'a', annotations: { x: 1 } }, 'metadata.annotations must be a map of strings'],
  [{ name: 'a', labels: [] }, 'metadata.labels must be a map of strings'],
  [{ name: 'a', ownerReferences: 5 }, 'metadata.ownerReferences must be a list of objects'],
];

function namespace(name: string): KubeObject {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
}

describe('readCluster', () => {
  let server: ScriptedServer;
  let connection: Connection;
  before(async () => {
    server = await startScriptedServer();
    connection = await server.connect();
  });
  after(() => server.stop());

  const status = (code: number, message: string) => json({ kind: 'Status', message, code }, code);
  const missing = json('404 page not found', 404);
  const list = (items: readonly object[], metadata: object = {}) =>
    json({ items, metadata: { resourceVersion: '1', ...metadata } });
  const named = (name: string) => ({ metadata: { name } });
  const NOT_SERVED =
    '<server> does not serve securitycontextconstraints.security.openshift.io, roles.rbac.authorization.k8s.io: is it a Kubernetes API server?';
  const BUSY = 'cannot list pods at <server>: busy (Retry-After is 99999 s, which exceeds the limit)';
  const ENDLESS = 'listing /api/v1/pods does not terminate: a continue token repeats';
  const ETCD = 'cannot list roles.rbac.authorization.k8s.io at <server>: etcd is gone';
  const cases: readonly (readonly [name: string, answer: Responder, kinds: readonly Kind[], message: string])[] = [
    ['a response with 401', status(401, 'Unauthorized'), ['Pod'], 'You must be logged in to the server (Unauthorized)'],
    ['a response with 500', status(500, 'etcd is gone'), ['Role'], ETCD],
    [
      'a response with 404 for a core resource',
      missing,
      ['Pod', 'Role'],
      'cannot list pods at <server>: 404 page not found',
    ],
    ['responses with 404 for all resources', missing, ['SecurityContextConstraints', 'Role'], NOT_SERVED],
    [
      'a long delay in Retry-After',
      json({ kind: 'Status', message: 'busy' }, 429, { 'retry-after': '99999' }),
      ['Pod'],
      BUSY,
    ],
    ['a repeated continue token', list([named('a')], { continue: 'again' }), ['Pod'], ENDLESS],
    ...WRONG_METADATA.map(([metadata, problem]) => {
      const message = `invalid object in the list of pods: ${problem}`;
      return [`a list in which ${problem}`, list([named('fine'), { metadata }]), ['Pod'], message] as const;
    }),
  ];
  for (const [name, answer, kinds, message] of cases) {
    test(`rejects ${name}`, async () => {
      server.respond(answer);
      await assert.rejects(readCluster(connection, kinds, {}), {
        name: 'UserError',
        message: message.replace('<server>', server.url),
      });
    });
  }

  test('requests a list in a single response if its pages always expire', async () => {
    const page = list([named('a')], { continue: 'more' });
    const gone = status(410, 'expired');
    server.respond(page, gone, page, gone, page, gone, list([named('a'), named('b')]));
    const { store } = await readCluster(connection, ['ClusterRole'], {});
    assert.deepEqual(
      store.list('ClusterRole').map(({ metadata }) => metadata?.name),
      ['a', 'b'],
    );
    const pages = ['limit=500', 'limit=500&continue=more'];
    const queries = server.requests.map(({ url }) => url.split('?')[1] ?? '');
    assert.deepEqual(queries, [...pages, ...pages, ...pages, '']);
  });

  test('rejects a list whose pages never end', async () => {
    let page = 0;
    const endless: Connection = {
      ...connection,
      read: (_request, collect) => {
        const text = JSON.stringify({ items: [], metadata: { continue: String(page++), resourceVersion: '1' } });
        return collect(streamOf(Buffer.from(text)));
      },
    };
    await assert.rejects(readCluster(endless, ['Pod'], {}), {
      name: 'UserError',
      message: 'listing /api/v1/pods does not terminate: it has more than 10000 pages',
    });
  });

  test('does not fail if the SelfSubjectReview is denied', async () => {
    server.respond(status(403, 'no'));
    assert.equal(await reviewSelf(connection), undefined);
  });

  test('stops if its signal is aborted', async () => {
    server.respond(() => undefined);
    const stopping = new AbortController();
    setTimeout(() => stopping.abort(), 50);
    await assert.rejects(readCluster(connection, ['Pod', 'Role'], { signal: stopping.signal }), { name: 'AbortError' });
  });
});
