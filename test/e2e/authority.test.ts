/**
 * Tests how a tenant with the ClusterRole `admin` in one namespace can misuse a temporary grant, and the names that the
 * standard SCCs contain.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JsonObject } from '../../src/kube/types.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import { ASSETS, useSystem } from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const RBAC = 'rbac.authorization.k8s.io';
const API = `/apis/${RBAC}/v1`;
const BINDINGS = `${API}/namespaces/shop/rolebindings`;
const MERGE = { 'content-type': 'application/merge-patch+json' };
const SCC_ROLE = 'system:openshift:scc:privileged';
const ALICE = { 'impersonate-user': 'alice' };
const MIGRATION = {
  'impersonate-user': 'system:serviceaccount:shop:migration',
  'impersonate-group': 'system:serviceaccounts',
};
const OPERATOR = {
  'impersonate-user': 'system:serviceaccount:shop:operator',
  'impersonate-group': 'system:serviceaccounts',
};
const DENIED = "ValidatingAdmissionPolicy 'portcullis-grants' with binding 'portcullis-grants' denied request: ";
const CHANGED = `${DENIED}only users with the bind permission for the role may create a temporary grant, or change its expiry, subjects or finalizers`;
const PASSED = `${DENIED}the subjects of a temporary grant cannot pass on the use of SCCs. Only other users, or users with the bind or escalate permission, can grant it`;
const ESCALATION = 'is attempting to grant RBAC permissions not currently held';

const user = (name: string): JsonObject => ({ apiGroup: RBAC, kind: 'User', name });
const account = (name: string): JsonObject => ({ kind: 'ServiceAccount', name, namespace: 'shop' });
const bind = (name: string, role: string, subject: JsonObject, kind = 'ClusterRole'): JsonObject => ({
  metadata: { name },
  roleRef: { apiGroup: RBAC, kind, name: role },
  subjects: [subject],
});
const rule = (
  verbs: readonly string[],
  resources: readonly string[],
  resourceNames?: readonly string[],
): JsonObject => ({
  apiGroups: ['security.openshift.io'],
  resources,
  verbs,
  ...(resourceNames === undefined ? {} : { resourceNames }),
});

const skip = ASSETS === undefined && 'needs admission policies';

suite('a tenant with the admin role in a namespace', { skip }, async () => {
  const { plane, system } = await useSystem({}, { podSecurityPlugin: 'off' });
  /** Path of the temporary grant. */
  let grant = '';

  const run = (...args: readonly string[]) => runProgram([...args, '--kubeconfig', kubeconfig]);
  const send = async (
    headers: Readonly<Record<string, string>>,
    method: 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body: JsonObject,
  ): Promise<string> => {
    const answer = await plane.admin.send(method, path, body, method === 'PATCH' ? { ...MERGE, ...headers } : headers);
    return answer.status < 300 ? '' : String(responseMessage(answer));
  };
  const readGrant = async (): Promise<JsonObject> => responseObject(await plane.admin.send('GET', grant));

  await system.install();
  await system.add(1);
  await system.configure({ scc: { mode: 'enforce' } });
  const kubeconfig = await plane.kubeconfigFor('root', ['system:masters']);
  const v1 = (kind: string, name: string, namespace?: string): JsonObject => ({
    ...{ apiVersion: 'v1', kind },
    metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  });
  await create(plane.admin, v1('Namespace', 'shop'));
  for (const name of ['migration', 'operator']) await create(plane.admin, v1('ServiceAccount', name, 'shop'));
  const bindings = [
    bind('tenant', 'admin', user('alice')),
    // The tenant gives the account the permission to write bindings.
    bind('migration', 'admin', account('migration')),
    bind('operator', 'admin', account('operator')),
  ];
  for (const binding of bindings) assert.equal(await send({}, 'POST', BINDINGS, binding), '');
  const custom = {
    metadata: { name: 'use-privileged' },
    rules: [rule(['use'], ['securitycontextconstraints'], ['privileged'])],
  };
  assert.equal(await send({}, 'POST', `${API}/clusterroles`, custom), '');
  // Even all permissions for exceptions do not make the operator a subject of a temporary grant.
  const policies = {
    metadata: { name: 'policies' },
    rules: [{ apiGroups: ['policy.portcullis.dev'], resources: ['*'], verbs: ['*'] }],
  };
  assert.equal(await send({}, 'POST', `${API}/clusterroles`, policies), '');
  assert.equal(await send({}, 'POST', BINDINGS, bind('operator-policies', 'policies', account('operator'))), '');
  await eventually(async () => {
    const { status } = await plane.admin.send(
      'GET',
      '/apis/security.openshift.io/v1/securitycontextconstraints/privileged',
    );
    assert.equal(status, 200);
  }, 60_000);
  // The operator has a grant that does not expire, for example because it grants SCCs to its workloads.
  assert.equal((await run('scc', 'grant', 'privileged', '-z', 'operator', '-n', 'shop')).code, 0);
  // Creation times have a precision of one second.
  await sleep(1100);
  const granted = await run('scc', 'grant', 'privileged', '-z', 'migration', '-n', 'shop', '--for', '1h');
  assert.equal(granted.code, 0, granted.stderr);
  const [, name = ''] = /\/(portcullis:scc-until:\S+) created/.exec(granted.stdout) ?? [];
  grant = `${BINDINGS}/${name}`;
  // The rules of the view role are aggregated into the edit role, and from there into the admin role.
  await eventually(async () => {
    const { text } = await plane.admin.send('GET', `${API}/clusterroles/admin`);
    assert.ok(text.includes('podsecurityexceptions'), 'the admin role contains the rules of the view role');
  }, 30_000);
  // API servers observe new policies and bindings after a short delay.
  await eventually(async () => {
    assert.equal(await send(OPERATOR, 'POST', `${BINDINGS}?dryRun=All`, bind('probe', SCC_ROLE, user('x'))), '');
    assert.ok(
      (await send(MIGRATION, 'POST', `${BINDINGS}?dryRun=All`, bind('probe', SCC_ROLE, user('x')))).includes(PASSED),
    );
  }, 60_000);

  const attacks: readonly (readonly [
    name: string,
    headers: Readonly<Record<string, string>>,
    method: 'POST' | 'PATCH',
    path: () => string,
    body: JsonObject,
    expected: string,
  ])[] = [
    ['cannot grant an SCC', ALICE, 'POST', () => BINDINGS, bind('a', SCC_ROLE, user('alice')), ESCALATION],
    [
      'cannot create a binding with the metadata of a temporary grant',
      ALICE,
      'POST',
      () => BINDINGS,
      { ...bind('portcullis:scc-until:a', 'view', user('alice')) },
      CHANGED,
    ],
    [
      'cannot keep a binding with a finalizer, although RBAC requires no permission for it',
      ALICE,
      'PATCH',
      () => grant,
      { metadata: { finalizers: ['example.com/keep'] } },
      CHANGED,
    ],
    [
      'cannot change the expiry time even as the subject of the grant',
      MIGRATION,
      'PATCH',
      () => grant,
      { metadata: { annotations: { 'portcullis.dev/grant-expires-at': '2036-01-01T00:00:00Z' } } },
      CHANGED,
    ],
    [
      'cannot remove the expiry time even as the subject of the grant',
      MIGRATION,
      'PATCH',
      () => grant,
      { metadata: { annotations: { 'portcullis.dev/grant-expires-at': null } } },
      CHANGED,
    ],
    [
      'cannot add subjects even as the subject of the grant',
      MIGRATION,
      'PATCH',
      () => grant,
      { subjects: [account('migration'), user('alice')] },
      CHANGED,
    ],
    [
      'cannot grant the SCC to others with the standard role',
      MIGRATION,
      'POST',
      () => BINDINGS,
      bind('permanent', SCC_ROLE, user('alice')),
      PASSED,
    ],
    [
      'cannot grant the SCC to others with the role of temporary grants',
      MIGRATION,
      'POST',
      () => BINDINGS,
      bind('permanent', `${SCC_ROLE}:temporary`, user('alice')),
      PASSED,
    ],
    [
      'cannot grant the SCC to others with a generated binding name',
      MIGRATION,
      'POST',
      () => BINDINGS,
      { ...bind('', SCC_ROLE, user('alice')), metadata: { generateName: 'portcullis:scc-until:' } },
      CHANGED,
    ],
    [
      'cannot add a subject to an existing grant',
      MIGRATION,
      'PATCH',
      () => `${BINDINGS}/${SCC_ROLE}`,
      { subjects: [account('operator'), user('alice')] },
      PASSED,
    ],
    [
      'cannot create a role that permits the use of the SCC',
      MIGRATION,
      'POST',
      () => `${API}/namespaces/shop/roles`,
      { metadata: { name: 'own' }, rules: [rule(['use'], ['securitycontextconstraints'], ['privileged'])] },
      PASSED,
    ],
  ];
  for (const [name, headers, method, path, body, expected] of attacks) {
    test(name, async () => {
      const message = await send(headers, method, path(), body);
      assert.ok(message.includes(expected), message);
    });
  }

  test('cannot slow down the API server with bindings that have many subjects', { timeout: 120_000 }, async () => {
    const view = {
      metadata: { name: `${SCC_ROLE}-own` },
      rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }],
    };
    assert.equal(await send(ALICE, 'POST', `${API}/namespaces/shop/roles`, view), '');
    const subjects = Array.from({ length: 8000 }, (_, index) => user(`u${index}`));
    for (const [name, role, kind] of [
      ['many-viewers', 'view', 'ClusterRole'],
      ['many-users', `${SCC_ROLE}-own`, 'Role'],
    ] as const) {
      const binding = { ...bind(name, role, user('u'), kind), subjects };
      assert.equal(await send(ALICE, 'POST', BINDINGS, binding), '');
      const startMs = performance.now();
      const labels = { metadata: { labels: { team: 'shop' } } };
      assert.equal(await send(ALICE, 'PATCH', `${BINDINGS}/${name}`, labels), '');
      assert.equal(await send(ALICE, 'PATCH', `${BINDINGS}/${name}`, { subjects: subjects.toReversed() }), '');
      const elapsedMs = performance.now() - startMs;
      assert.ok(elapsedMs < 10_000, `${name}: ${elapsedMs} ms`);
    }
    // If a binding has too many subjects to compare, every change to the subjects counts as an addition.
    const fewer = await send(MIGRATION, 'PATCH', `${BINDINGS}/many-users`, { subjects });
    assert.ok(fewer.includes(PASSED), fewer);
    assert.equal(
      await send(MIGRATION, 'PATCH', `${BINDINGS}/many-users`, { metadata: { labels: { team: null } } }),
      '',
    );
  });

  test('cannot slow down the API server with roles that have many or long rules', { timeout: 240_000 }, async () => {
    const many = (count: number) => Array.from({ length: count }, (_, index) => `x${index}`);
    const rules = {
      groups: [{ apiGroups: many(80_000), resources: ['x'], verbs: ['get'] }],
      verbs: [{ apiGroups: ['*'], resources: ['*'], verbs: many(80_000) }],
      rules: many(20_000).map((name) => ({ apiGroups: ['*'], resources: ['*', name], verbs: ['get'] })),
    };
    for (const [name, value] of Object.entries(rules)) {
      const startMs = performance.now();
      const role = { metadata: { name: `many-${name}` }, rules: value };
      assert.equal(await send({}, 'POST', `${API}/namespaces/shop/roles?dryRun=All`, role), '');
      const elapsedMs = performance.now() - startMs;
      assert.ok(elapsedMs < 5000, `${name}: ${elapsedMs} ms`);
    }
  });

  test('keeps all other permissions while being the subject of the grant', async () => {
    assert.equal(await send(MIGRATION, 'POST', `${BINDINGS}?dryRun=All`, bind('viewers', 'view', user('bob'))), '');
    const role = { metadata: { name: 'pods' }, rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }] };
    assert.equal(await send(MIGRATION, 'POST', `${API}/namespaces/shop/roles?dryRun=All`, role), '');
    // A change that adds no subject, such as a label that a controller writes.
    const labels = { metadata: { labels: { team: 'shop' } } };
    assert.equal(await send(MIGRATION, 'PATCH', `${grant}?dryRun=All`, labels), '');
    const dryRun = { apiVersion: 'v1', kind: 'DeleteOptions', dryRun: ['All'] };
    assert.equal(await send(ALICE, 'DELETE', grant, dryRun), '');
  });

  test('is subject to a policy that does not restrict administrators or subjects with permanent grants', async () => {
    assert.equal(await send(OPERATOR, 'POST', `${BINDINGS}?dryRun=All`, bind('operand', SCC_ROLE, account('x'))), '');
    const role = {
      metadata: { name: 'operand' },
      rules: [rule(['use'], ['securitycontextconstraints'], ['privileged'])],
    };
    assert.equal(await send(OPERATOR, 'POST', `${API}/namespaces/shop/roles?dryRun=All`, role), '');
    assert.equal(await send({}, 'POST', `${BINDINGS}?dryRun=All`, bind('admin', SCC_ROLE, user('carol'))), '');
    const end = { metadata: { annotations: { 'portcullis.dev/grant-expires-at': '2036-01-01T00:00:00Z' } } };
    assert.equal(await send({}, 'PATCH', `${grant}?dryRun=All`, end), '');
    const wide = { metadata: { name: 'wide' }, rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] };
    assert.equal(await send({}, 'POST', `${API}/clusterroles?dryRun=All`, wide), '');
    const args = ['scc', 'revoke', 'privileged', '-z', 'migration', '-n', 'shop', '--dry-run=server'];
    assert.match((await run(...args)).stdout, / deleted from namespace shop \(server dry run\)\n/);
    assert.equal((await readGrant())['kind'], 'RoleBinding');
  });

  test('can grant the SCC to others with a role of an administrator, which doctor and audit exemptions report', async () => {
    assert.equal(await send(MIGRATION, 'POST', BINDINGS, bind('passed', 'use-privileged', user('alice'))), '');
    const listed = async (): Promise<string> => (await run('audit', 'exemptions')).stdout;
    assert.match(
      await listed(),
      /^grant +privileged: User alice .* RoleBinding passed, .* created during the temporary grant of /m,
    );
    assert.doesNotMatch(await listed(), /operator .*created during/);
    // A foreground deletion would wait for the object that blocks it.
    const { metadata } = (await readGrant()) as { readonly metadata: JsonObject };
    const blocker = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name: 'blocker',
        finalizers: ['example.com/keep'],
        ownerReferences: [
          {
            apiVersion: `${RBAC}/v1`,
            kind: 'RoleBinding',
            name: metadata['name'],
            uid: metadata['uid'],
            blockOwnerDeletion: true,
          },
        ],
      },
    };
    assert.equal(await send(ALICE, 'POST', '/api/v1/namespaces/shop/configmaps', blocker), '');
    const options = { apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: 'Foreground' };
    assert.equal(await send(ALICE, 'DELETE', grant, options), '');
    assert.deepEqual(((await readGrant())['metadata'] as JsonObject)['finalizers'], ['foregroundDeletion']);
    const soon = new Date(Date.now() + 3000).toISOString();
    const end = { metadata: { annotations: { 'portcullis.dev/grant-expires-at': soon } } };
    assert.equal(await send({}, 'PATCH', grant, end), '');
    await eventually(async () => assert.equal((await plane.admin.send('GET', grant)).status, 404), 30_000);
    // The record remains, and the tenant cannot change it.
    await eventually(
      async () => assert.match(await listed(), /RoleBinding passed, .* created during the temporary grant of /),
      10_000,
    );
    const record = { metadata: { annotations: { 'portcullis.dev/temporary-grants': '[]' } } };
    assert.match(await send(ALICE, 'PATCH', '/api/v1/namespaces/shop', record), /cannot patch resource "namespaces"/);
    const { stdout } = await run('doctor');
    assert.match(
      stdout,
      /warning +grants +RoleBinding shop\/passed: permanently grants SCC privileged to User alice, and was created or changed while the SCC was granted temporarily \(/,
    );
    assert.match(stdout, /Fix: kubectl -n shop delete rolebinding passed.* # only if it is not intended/);
    assert.equal(
      await send({}, 'PATCH', '/api/v1/namespaces/shop/configmaps/blocker', { metadata: { finalizers: null } }),
      '',
    );
  });

  test('cannot use an SCC by creating the namespace of an OpenShift controller', async () => {
    const scc = '/apis/security.openshift.io/v1/securitycontextconstraints/privileged';
    const users = async (): Promise<unknown> => responseObject(await plane.admin.send('GET', scc))['users'];
    assert.deepEqual(await users(), ['system:admin']);
    const builder = 'system:serviceaccount:openshift-infra:build-controller';
    await system.configure({ scc: { mode: 'enforce', compatibility: 'openshift' } });
    await eventually(async () => assert.deepEqual(await users(), ['system:admin', builder]), 30_000);
    // The leader keeps changes of administrators.
    assert.equal(await send({}, 'PATCH', scc, { users: ['system:admin', 'carol', builder], priority: 4 }), '');
    await system.configure({ scc: { mode: 'enforce', compatibility: null } });
    await eventually(async () => assert.deepEqual(await users(), ['system:admin', 'carol']), 30_000);
    assert.equal(responseObject(await plane.admin.send('GET', scc))['priority'], 4);
  });
});
