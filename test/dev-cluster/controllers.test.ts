import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/cluster.ts';
import { type ApiObject, getMetadata, type ResourceKey } from '../../src/dev-cluster/types.ts';

const core = (resource: string): ResourceKey => ({ group: '', resource });
const RBAC = 'rbac.authorization.k8s.io';
const ROLES: ResourceKey = { group: RBAC, resource: 'clusterroles' };

let cluster: DevCluster;
let failures: unknown[] = [];

beforeEach(async () => {
  failures = [];
  cluster = createDevCluster({ clock: () => new Date(), call: () => Promise.resolve({ ok: false, error: 'no' }) });
  await cluster.start({ rootCertificate: 'PEM', onError: (error) => failures.push(error) });
});

afterEach(() => {
  cluster.stop();
  assert.deepEqual(failures, []);
});

function object(kind: string, name: string, more: object = {}, namespace?: string, metadata: object = {}): ApiObject {
  const place = namespace === undefined ? {} : { namespace };
  return { apiVersion: 'v1', kind, metadata: { name, ...place, ...metadata }, ...more };
}

function getNames(resource: ResourceKey, namespace?: string): (string | undefined)[] {
  return cluster.storage.list(resource, namespace).map((stored) => getMetadata(stored).name);
}

const createNamespace = (name: string): Promise<ApiObject> =>
  cluster.writer.create(core('namespaces'), object('Namespace', name));

describe('the default objects', () => {
  test('include the namespaces and roles of Kubernetes', () => {
    assert.deepEqual(getNames(core('namespaces')), ['default', 'kube-node-lease', 'kube-public', 'kube-system']);
    assert.deepEqual(getNames(ROLES), [
      'admin',
      'cluster-admin',
      'edit',
      'system:aggregate-to-admin',
      'system:aggregate-to-edit',
      'system:aggregate-to-view',
      'system:basic-user',
      'system:discovery',
      'system:public-info-viewer',
      'view',
    ]);
  });

  const access: { name: string; role: string; action: { verb: string } & Record<string, string>; expected: boolean }[] =
    [
      { name: 'let the view role read pods', role: 'view', action: { verb: 'list', resource: 'pods' }, expected: true },
      {
        name: 'do not let the view role read secrets',
        role: 'view',
        action: { verb: 'get', resource: 'secrets' },
        expected: false,
      },
      {
        name: 'let the edit role write pods',
        role: 'edit',
        action: { verb: 'create', resource: 'pods' },
        expected: true,
      },
      {
        name: 'let the admin role grant roles',
        role: 'admin',
        action: { verb: 'create', apiGroup: RBAC, resource: 'rolebindings' },
        expected: true,
      },
      {
        name: 'do not let the admin role label namespaces',
        role: 'admin',
        action: { verb: 'update', resource: 'namespaces' },
        expected: false,
      },
    ];
  for (const { name, role, action, expected } of access) {
    test(name, async () => {
      const roleRef = { apiGroup: RBAC, kind: 'ClusterRole', name: role };
      const subjects = [{ apiGroup: RBAC, kind: 'User', name: 'eve' }];
      const apiVersion = `${RBAC}/v1`;
      const binding = { ...object('RoleBinding', 'eve', { roleRef, subjects }, 'default'), apiVersion };
      await cluster.writer.create({ group: RBAC, resource: 'rolebindings' }, binding);
      const attributes = { namespace: 'default', ...action };
      const eve = { username: 'eve', groups: ['system:authenticated'] };
      assert.deepEqual(await cluster.reviewAccess(eve, attributes), { allowed: expected });
    });
  }

  test('let authenticated users read discovery documents, but anonymous users only the version', async () => {
    const eve = { username: 'eve', groups: ['system:authenticated'] };
    assert.deepEqual(await cluster.reviewAccess(eve, { verb: 'get', nonResourceURL: '/api/v1' }), { allowed: true });
    assert.deepEqual(await cluster.reviewAccess(eve, { verb: 'list', resource: 'pods', namespace: 'default' }), {
      allowed: false,
    });
    const anonymous = { username: 'system:anonymous', groups: ['system:unauthenticated'] };
    assert.deepEqual(await cluster.reviewAccess(anonymous, { verb: 'get', nonResourceURL: '/version' }), {
      allowed: true,
    });
    assert.deepEqual(await cluster.reviewAccess(anonymous, { verb: 'get', nonResourceURL: '/api' }), {
      allowed: false,
    });
  });
});

describe('in namespaces,', () => {
  test('deleted default objects are created again', async () => {
    await createNamespace('a');
    await cluster.idle();
    assert.deepEqual(cluster.storage.get(core('configmaps'), 'a', 'kube-root-ca.crt')?.['data'], { 'ca.crt': 'PEM' });
    await cluster.writer.remove(core('configmaps'), 'a', 'kube-root-ca.crt');
    await cluster.writer.remove(core('serviceaccounts'), 'a', 'default');
    await cluster.idle();
    assert.deepEqual(getNames(core('configmaps'), 'a'), ['kube-root-ca.crt']);
    assert.deepEqual(getNames(core('serviceaccounts'), 'a'), ['default']);
  });

  test('objects are deleted together with their namespace', async () => {
    await createNamespace('a');
    await cluster.writer.create(core('configmaps'), object('ConfigMap', 'c', {}, 'a'));
    await cluster.writer.create(
      core('pods'),
      object('Pod', 'p', { spec: { containers: [{ name: 'c', image: 'i' }] } }, 'a'),
    );
    const answer = await cluster.writer.remove(core('namespaces'), '', 'a');
    assert.deepEqual(answer['status'], { phase: 'Terminating' });
    await cluster.idle();
    assert.equal(cluster.storage.get(core('namespaces'), '', 'a'), undefined);
    for (const resource of ['configmaps', 'pods', 'serviceaccounts'])
      assert.deepEqual(getNames(core(resource), 'a'), []);
  });

  test('objects with finalizers keep a deleted namespace in existence', async () => {
    await createNamespace('a');
    const held = object('ConfigMap', 'c', {}, 'a', { finalizers: ['example.com/hold'] });
    await cluster.writer.create(core('configmaps'), held);
    await cluster.writer.remove(core('namespaces'), '', 'a');
    await cluster.idle();
    assert.deepEqual(getNames(core('configmaps'), 'a'), ['c']);
    const stored = cluster.storage.get(core('configmaps'), 'a', 'c');
    assert.ok(stored);
    await cluster.writer.update(core('configmaps'), { ...stored, metadata: { ...stored.metadata, finalizers: [] } });
    await cluster.idle();
    assert.equal(cluster.storage.get(core('namespaces'), '', 'a'), undefined);
  });
});

describe('aggregated roles', () => {
  const role = (name: string, rules: object[], labels: object = {}): ApiObject => ({
    ...object('ClusterRole', name, { rules }, undefined, { labels }),
    apiVersion: `${RBAC}/v1`,
  });
  const rule = (resource: string): object => ({ apiGroups: ['example.com'], resources: [resource], verbs: ['get'] });
  const getRules = (name: string): unknown => cluster.storage.get(ROLES, '', name)?.['rules'];

  test('contain the rules of the roles that they select, even if those are aggregated too', async () => {
    const label = { 'rbac.authorization.k8s.io/aggregate-to-view': 'true' };
    await cluster.writer.create(ROLES, role('widgets', [rule('widgets')], label));
    await cluster.idle();
    for (const name of ['view', 'edit', 'admin']) {
      assert.ok(JSON.stringify(getRules(name)).includes('widgets'), name);
    }
    await cluster.writer.remove(ROLES, '', 'widgets');
    await cluster.idle();
    for (const name of ['view', 'edit', 'admin']) {
      assert.ok(!JSON.stringify(getRules(name)).includes('widgets'), name);
    }
  });
});
