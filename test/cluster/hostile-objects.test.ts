/** Tests the live cluster with large objects and with roles that change, against an API server with a few lists. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { systemClock } from '../../src/cluster/clock.ts';
import { createLiveCluster, type LiveCluster } from '../../src/cluster/live-cluster.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { evaluatePod } from '../../src/policy/pss/index.ts';
import { sccAccess } from '../../src/views/access.ts';
import { eventually } from '../support/eventually.ts';
import { json, type Responder, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts';

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const ROLES = `${RBAC}/roles`;
const CLUSTER_ROLES = `${RBAC}/clusterroles`;
const BINDINGS = `${RBAC}/rolebindings`;
const PODS = '/api/v1/pods';

type Item = JsonObject & { readonly metadata: Readonly<Record<string, string>> };

/** Lists by path. The path of a namespace returns only the objects in the namespace. */
const lists = new Map<string, Item[]>();
const watches = new Map<string, ServerResponse>();
/** Responses to the next lists of a path. */
const failures = new Map<string, Responder[]>();
const requests: string[] = [];
let version = 100;

/** Responds to lists, page by page, and keeps watches open. */
const respond: Responder = (response, request) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'https://api.test');
  if (searchParams.get('watch') === 'true') {
    watches.set(pathname, response);
    response.writeHead(200).flushHeaders();
    return;
  }
  const isMetadataOnly = request.headers.accept?.includes('PartialObjectMetadataList') === true;
  const [limit, token] = [searchParams.get('limit'), searchParams.get('continue')];
  requests.push(`${pathname} ${limit}${token === null ? '' : ` ${token}`}${isMetadataOnly ? ' metadata' : ''}`);
  const failure = failures.get(pathname)?.shift();
  if (failure) {
    failure(response, request);
    return;
  }
  const namespace = /\/namespaces\/([^/]+)/.exec(pathname)?.[1];
  const all = (lists.get(pathname.replace(/\/namespaces\/[^/]+/, '')) ?? []).filter(
    ({ metadata }) => namespace === undefined || metadata['namespace'] === namespace,
  );
  const start = Number(token);
  const end = start + Number(limit);
  const items = all.slice(start, end).map((item) => (isMetadataOnly ? { metadata: item.metadata } : item));
  const metadata = { resourceVersion: `${version}`, ...(end < all.length ? { continue: `${end}` } : {}) };
  json({ kind: 'List', metadata, items })(response, request);
};

const send = (path: string, type: string, object: Item): void => {
  watches.get(path)?.write(`${JSON.stringify({ type, object })}\n`);
};

function identity(name: string, namespace: string | undefined, at: number): Item['metadata'] {
  return { name, uid: `uid-${name}`, resourceVersion: `${at}`, ...(namespace === undefined ? {} : { namespace }) };
}

const USE = { verbs: ['use'], apiGroups: ['security.openshift.io'], resources: ['securitycontextconstraints'] };
const READ = { verbs: ['get'], apiGroups: [''], resources: ['pods'] };

const role = (name: string, rule: JsonObject, namespace: string | undefined = 'shop'): Item => ({
  metadata: identity(name, namespace, ++version),
  rules: [rule],
});
const clusterRole = (name: string, rule: JsonObject): Item => ({
  metadata: identity(name, undefined, ++version),
  rules: [rule],
});
const binding = (name: string, roleRef: JsonObject, user: string, namespace = 'shop'): Item => ({
  metadata: identity(name, namespace, ++version),
  roleRef,
  subjects: [{ kind: 'User', name: user }],
});

let server: ScriptedServer;
let live: LiveCluster;
const logged: string[] = [];

const start = async (kinds: readonly Kind[]): Promise<void> => {
  const logger = {
    warn: (_fields: unknown, text: string) => void logged.push(text),
    info() {},
    debug() {},
    error() {},
  };
  live = createLiveCluster({
    connection: await server.connect(),
    clock: systemClock,
    random: () => 0,
    now: () => new Date(),
    logger: logger as never,
  });
  await live.follow(kinds);
  // Events that are sent before the first watch would be lost.
  await eventually(() => assert.equal(watches.size, kinds.length));
};

before(async () => {
  server = await startScriptedServer();
});
beforeEach(() => {
  for (const map of [lists, watches, failures]) map.clear();
  requests.length = 0;
  logged.length = 0;
  server.respond(respond);
});
after(() => server.stop());

describe('the bindings of a role', () => {
  const mayUse = (user: string, namespace = 'shop'): boolean =>
    sccAccess(live.store).canUse({ username: user, groups: [] }, 'anyuid', namespace);
  const follow = () => start(['Role', 'ClusterRole', 'RoleBinding']);
  const subjects = (name: string) => live.store.get('RoleBinding', name, 'shop')?.subjects;
  const R = { kind: 'Role', name: 'r' };

  test('are read once, after the roles', async () => {
    lists.set(ROLES, [role('r', USE)]);
    lists.set(CLUSTER_ROLES, [clusterRole('c', { ...USE, verbs: ['*'] })]);
    lists.set(BINDINGS, [
      binding('a', R, 'alice'),
      binding('b', { kind: 'ClusterRole', name: 'c' }, 'bob'),
      binding('c', { kind: 'Role', name: 'others' }, 'carol'),
    ]);
    await follow();
    assert.deepEqual(
      [mayUse('alice'), mayUse('bob'), mayUse('carol'), mayUse('alice', 'bank')],
      [true, true, false, false],
    );
    assert.equal(subjects('c'), undefined);
    assert.equal(requests.filter((request) => request.includes('rolebindings')).length, 1);
    await live.stop();
  });

  test('are read again when the role grants an SCC, and grant nothing once the role no longer grants it', async () => {
    lists.set(BINDINGS, [binding('a', R, 'alice'), binding('other', R, 'alice', 'bank')]);
    await follow();
    assert.deepEqual([mayUse('alice'), subjects('a')], [false, undefined]);
    for (const type of ['ADDED', 'MODIFIED']) {
      send(ROLES, type, role('r', USE));
      await eventually(() => assert.ok(mayUse('alice')));
      send(ROLES, 'MODIFIED', role('r', READ));
      await eventually(() => assert.ok(!mayUse('alice')));
      assert.equal(subjects('a'), undefined);
    }
    send(ROLES, 'ADDED', role('r', { verbs: ['*'], apiGroups: ['*'], resources: ['*'] }));
    await eventually(() => assert.ok(mayUse('alice')));
    send(ROLES, 'DELETED', role('r', USE));
    await eventually(() => assert.ok(!mayUse('alice')));
    assert.equal(mayUse('alice', 'bank'), false);
    const reads = requests.filter((request) => request.includes('namespaces/shop/rolebindings'));
    assert.deepEqual(reads, Array(3).fill(`${RBAC}/namespaces/shop/rolebindings 500`));
    await live.stop();
  });

  test('of all namespaces are read again when a ClusterRole grants an SCC', async () => {
    const ref = { kind: 'ClusterRole', name: 'c' };
    lists.set(BINDINGS, [binding('a', ref, 'alice'), binding('b', ref, 'bob', 'bank')]);
    await follow();
    send(CLUSTER_ROLES, 'ADDED', clusterRole('unbound', USE));
    send(CLUSTER_ROLES, 'ADDED', clusterRole('c', { ...USE, resourceNames: ['anyuid'] }));
    await eventually(() => assert.ok(mayUse('alice') && mayUse('bob', 'bank')));
    assert.equal(mayUse('alice', 'bank'), false);
    assert.deepEqual(requests.slice(3), [`${BINDINGS} 500`]);
    await live.stop();
  });

  test('grant nothing until they are read again, which is retried', async () => {
    lists.set(BINDINGS, [binding('a', R, 'alice')]);
    await follow();
    const path = `${RBAC}/namespaces/shop/rolebindings`;
    failures.set(path, [json({ kind: 'Status', message: 'etcd is gone' }, 500)]);
    send(ROLES, 'ADDED', role('r', USE));
    await eventually(() => assert.equal(logged.length, 1));
    assert.deepEqual([mayUse('alice'), logged], [false, ['failed to read the bindings of a role, retrying']]);
    await eventually(() => assert.ok(mayUse('alice')));
    await live.stop();
  });

  test('are not replaced by an older version', async () => {
    const old = binding('a', R, 'alice');
    lists.set(BINDINGS, [old, binding('gone', R, 'bob')]);
    await follow();
    send(BINDINGS, 'MODIFIED', binding('a', R, 'carol'));
    send(BINDINGS, 'DELETED', binding('gone', R, 'bob'));
    await eventually(() => assert.equal(live.store.get('RoleBinding', 'gone', 'shop'), undefined));
    send(ROLES, 'ADDED', role('r', USE));
    await eventually(() => assert.equal(requests.length, 4));
    await pause(100);
    assert.deepEqual([mayUse('alice'), mayUse('bob')], [false, false]);
    send(BINDINGS, 'MODIFIED', binding('a', R, 'carol'));
    await eventually(() => assert.ok(mayUse('carol')));
    await live.stop();
  });
});

describe('large objects', () => {
  const large = 'x'.repeat(1_500_000);
  const pod = (name: string, value: string): Item => ({
    metadata: identity(name, 'shop', ++version),
    spec: { containers: [{ name: 'c', image: 'i', env: [{ name: 'A', value }] }] },
  });
  const stored = (name: string) => live.store.get('Pod', name, 'shop');
  const evaluate = (name: string): string => evaluatePod(stored(name), { level: 'baseline', version: 'latest' }).detail;
  const TOO_LARGE = 'pod too large to evaluate (spec: Too long: may not be more than 32768 bytes)';

  test('are listed in pages that shrink to the limit in bytes and grow again afterwards', async () => {
    lists.set(PODS, [
      ...Array.from({ length: 4 }, (_, index) => pod(`l${index}`, large)),
      pod('a', ''),
      pod('b', ''),
      pod('c', ''),
    ]);
    await start(['Pod']);
    assert.equal(live.store.list('Pod').length, 7);
    assert.deepEqual(stored('l0')?.spec, { containers: [{ name: 'c', image: 'i' }] });
    const pages = requests.map((request) => request.slice(PODS.length + 1));
    assert.deepEqual(pages.slice(0, 4), ['100', '25', '7', '2']);
    assert.ok(pages.length < 12, pages.join());
    await live.stop();
  });

  test('are stored as too large if they exceed the limit of a response', async () => {
    const huge = pod('huge', 'x'.repeat(LIMITS.responseBytes));
    lists.set(PODS, [pod('a', ''), huge, pod('b', '')]);
    await start(['Pod']);
    assert.deepEqual([evaluate('a'), evaluate('huge'), evaluate('b')], ['', TOO_LARGE, '']);
    assert.ok(requests.includes(`${PODS} 1 1 metadata`), requests.join());
    assert.deepEqual(logged, ['object is too large, omitting the fields in "excess" from the store']);
    await live.stop();
  });

  test('change the store in the order of their watch events', async () => {
    await start(['Pod']);
    send(PODS, 'ADDED', pod('a', large));
    send(PODS, 'ADDED', pod('b', ''));
    send(PODS, 'DELETED', pod('a', large));
    const volumes = Array.from({ length: 19_000 }, (_, index) => ({ name: `v${index}`, emptyDir: {} }));
    send(PODS, 'MODIFIED', { metadata: identity('b', 'shop', ++version), spec: { containers: [], volumes } });
    await eventually(() => assert.equal(evaluate('b'), TOO_LARGE));
    assert.equal(stored('a'), undefined);
    await live.stop();
  });

  test('are listed again if they exceed the limit of a watch event', async () => {
    await start(['Pod']);
    const huge = pod('huge', 'x'.repeat(LIMITS.responseBytes));
    lists.set(PODS, [huge]);
    send(PODS, 'ADDED', huge);
    await eventually(() => assert.equal(evaluate('huge'), TOO_LARGE), 20_000);
    assert.equal(logged[0], 'watch failed, keeping the last known state');
    await live.stop();
  });

  test('keep only the fields that policies read if they are read for a review', async () => {
    await start(['Pod']);
    server.respond(json(pod('a', large)));
    const { spec } = await live.get('Pod', 'a', 'shop');
    assert.deepEqual(spec, { containers: [{ name: 'c', image: 'i' }] });
    await live.stop();
  });
});
