/** Tests what users who may write namespaces can change while the guard of labels is on. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JsonObject, PortcullisConfiguration } from '../../src/kube/types.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import { ASSETS, useSystem } from '../support/control-plane/index.ts';
import { allow, create, createNamespace } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { readFixture } from '../support/fixtures.ts';
import { runProgram } from '../support/memory-io.ts';

const MERGE = 'application/merge-patch+json';
const APPLY = 'application/apply-patch+yaml';
const LEVEL = 'pod-security.kubernetes.io/enforce';
const DENIED = "ValidatingAdmissionPolicy 'guard.portcullis.dev' with binding 'guard.portcullis.dev' denied request: ";
const REQUIREMENT = '. This requires the lower verb on podsecuritylevels.policy.portcullis.dev in a ClusterRole';
const LOWERED = `${DENIED}lowers the enforced level from restricted to privileged${REQUIREMENT}`;

const as = (user: string) => ({ 'impersonate-user': user });
const DEPLOYER = 'system:serviceaccount:ci:deployer';

interface Case {
  readonly name: string;
  readonly before?: JsonObject;
  readonly after: JsonObject & { readonly name?: string };
  readonly finding?: string;
}

const skip = ASSETS === undefined && 'needs admission policies';

suite('the guard of namespace labels', { skip }, async () => {
  const { plane, system } = await useSystem({}, { podSecurityPlugin: 'on' });
  const send = async (user: string, method: string, path: string, body: unknown, type = MERGE): Promise<string> => {
    const headers = { ...as(user), 'content-type': method === 'PATCH' ? type : 'application/json' };
    const answer = await plane.admin.send(method, path, body, headers);
    return answer.status < 300 ? '' : String(responseMessage(answer));
  };
  const namespace = (metadata: JsonObject): JsonObject => ({ apiVersion: 'v1', kind: 'Namespace', metadata });
  const read = async (name: string): Promise<JsonObject> =>
    responseObject(await plane.admin.send('GET', `/api/v1/namespaces/${name}`));

  const writes = { apiGroups: [''], resources: ['namespaces', 'namespaces/status', 'namespaces/finalize'] };
  await allow(plane.admin, 'writers', ['alice', 'bob'], [{ ...writes, verbs: ['create', 'update', 'patch'] }]);
  await allow(plane.admin, 'updaters', [DEPLOYER], [{ ...writes, verbs: ['update'] }]);
  const lower = { apiGroups: ['policy.portcullis.dev'], resources: ['podsecuritylevels'], verbs: ['lower'] };
  await allow(plane.admin, 'lower', ['bob'], [lower]);
  await allow(plane.admin, 'lower-shop', ['alice'], [{ ...lower, resourceNames: ['delegated'] }]);
  const writeManyLabels = async (name: string): Promise<number> => {
    const labels = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`label-${index}`, '']));
    const startMs = performance.now();
    assert.equal(await send('alice', 'POST', '/api/v1/namespaces', namespace({ name, labels })), '');
    assert.equal(
      await send('alice', 'PATCH', `/api/v1/namespaces/${name}`, { metadata: { labels: { team: 'a' } } }),
      '',
    );
    return performance.now() - startMs;
  };
  const unguardedMs = await writeManyLabels('many-unguarded');
  await system.install();
  const spec = {
    podSecurity: { defaults: { enforce: 'baseline' }, exemptions: { namespaces: ['exempt'] } },
    scc: { mode: 'enforce', exemptNamespaces: ['exempt', 'exempt-scc'] },
  };
  await system.configure({ ...spec, guard: { labels: 'enforce' } });
  await system.add(1);
  const strict = { [LEVEL]: 'restricted', 'pod-security.kubernetes.io/enforce-version': 'latest' };
  for (const name of ['shop', 'delegated', 'two-steps']) await createNamespace(plane.admin, name, strict);
  const rbac = 'rbac.authorization.k8s.io';
  const binding = {
    ...{ apiVersion: `${rbac}/v1`, kind: 'RoleBinding', metadata: { name: 'owner', namespace: 'shop' } },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup: rbac, kind: 'User', name: 'owner' }],
  };
  assert.equal((await create(plane.admin, binding)).status, 201);
  const shop = '/api/v1/namespaces/shop';
  const lowered = { metadata: { labels: { [LEVEL]: 'privileged' } } };
  await eventually(async () => {
    assert.match(await send('alice', 'PATCH', `${shop}?dryRun=All`, lowered), /guard\.portcullis\.dev/);
  }, 60_000);

  suite('denies changes that lower a label, and lists them:', () => {
    for (const [index, { name, before, after, finding }] of readFixture<readonly Case[]>('psa/guard.yaml').entries()) {
      test(name, async () => {
        const object = { name: after.name ?? `case-${index}` };
        let path = '/api/v1/namespaces';
        if (before !== undefined) {
          assert.equal((await create(plane.admin, namespace({ ...object, ...before }))).status, 201);
          path += `/${object.name}`;
        }
        const method = before === undefined ? 'POST' : 'PUT';
        const message = await send('alice', method, `${path}?dryRun=All`, namespace({ ...object, ...after }));
        if (finding === undefined) assert.equal(message, '');
        // The leader may have allocated the ranges in the meantime, which the update would remove.
        else assert.ok(message.includes(`${DENIED}${finding}`) && message.endsWith(REQUIREMENT), message);
      });
    }
  });

  const put = async (user: string, subresource = '') => {
    const current = await read('shop');
    const metadata = objectMetadata(current);
    const labels = { ...(metadata['labels'] as JsonObject), [LEVEL]: 'privileged' };
    return await send(user, 'PUT', `${shop}${subresource}`, { ...current, metadata: { ...metadata, labels } });
  };
  const attacks: Readonly<Record<string, () => Promise<string>>> = {
    'a merge patch': () => send('alice', 'PATCH', shop, lowered),
    'a JSON patch': () =>
      send(
        'alice',
        'PATCH',
        shop,
        [{ op: 'replace', path: '/metadata/labels/pod-security.kubernetes.io~1enforce', value: 'privileged' }],
        'application/json-patch+json',
      ),
    'a server-side apply': () =>
      send(
        'alice',
        'PATCH',
        `${shop}?fieldManager=x&force=true`,
        namespace({ name: 'shop', ...lowered.metadata }),
        APPLY,
      ),
    'a dry run': () => send('alice', 'PATCH', `${shop}?dryRun=All`, lowered),
    'an update by a service account': () => put(DEPLOYER),
    'an update of the status subresource': () => put('alice', '/status'),
    'a patch of the status subresource': () => send('alice', 'PATCH', `${shop}/status`, lowered),
    'an update of the finalize subresource': () => put('alice', '/finalize'),
    'a change by a user with all permissions in the namespace': () => send('owner', 'PATCH', shop, lowered),
  };
  for (const [name, attack] of Object.entries(attacks)) {
    test(`denies ${name}`, async () => {
      const message = await attack();
      assert.ok(message.endsWith(LOWERED), message);
      assert.equal((objectMetadata(await read('shop'))['labels'] as JsonObject)[LEVEL], 'restricted');
    });
  }

  test('denies an object with a generated name, and an apply that creates the namespace', async () => {
    const labels = { [LEVEL]: 'privileged' };
    const expected = LOWERED.replace('restricted', 'baseline');
    const generated = await send('alice', 'POST', '/api/v1/namespaces', namespace({ generateName: 'x-', labels }));
    assert.ok(generated.endsWith(expected), generated);
    const path = '/api/v1/namespaces/applied?fieldManager=x';
    const applied = await send('alice', 'PATCH', path, namespace({ name: 'applied', labels }), APPLY);
    assert.ok(applied.endsWith(expected), applied);
  });

  test('denies each of two steps that lower a level together', async () => {
    const path = '/api/v1/namespaces/two-steps';
    const [first, second] = [null, 'privileged'].map((level) => ({ metadata: { labels: { [LEVEL]: level } } }));
    assert.match(await send('alice', 'PATCH', path, first), /lowers the enforced level from restricted to baseline/);
    const raised = { metadata: { labels: { 'portcullis.dev/enforce': 'restricted', [LEVEL]: null } } };
    assert.match(await send('alice', 'PATCH', path, raised), /lowers the enforced level from restricted to baseline/);
    assert.match(await send('alice', 'PATCH', path, second), /lowers the enforced level from restricted to privileged/);
  });

  test('evaluates namespaces without a loop over their labels', async () => {
    const times = (await writeManyLabels('many-guarded')) / unguardedMs;
    // An iteration over the labels would make the writes ten times slower.
    assert.ok(times < 5, `${times} times as long as without the guard`);
  });

  test('permits changes by users who have the verb in all namespaces, or in the namespaces that their role names', async () => {
    assert.equal(await send('bob', 'PATCH', `${shop}?dryRun=All`, lowered), '');
    assert.equal(await send('alice', 'PATCH', '/api/v1/namespaces/delegated', lowered), '');
  });

  test('permits the controllers to allocate ranges', async () => {
    assert.equal(await send('alice', 'POST', '/api/v1/namespaces', namespace({ name: 'allocated' })), '');
    await eventually(async () => {
      const { annotations = {} } = objectMetadata(await read('allocated'));
      assert.ok('openshift.io/sa.scc.uid-range' in (annotations as JsonObject));
    }, 30_000);
  });

  test('lets doctor list the users who may lower a level', async () => {
    const kubeconfig = await plane.kubeconfigFor('root', ['system:masters']);
    const { stdout } = await runProgram(['doctor', '--kubeconfig', kubeconfig]);
    assert.match(stdout, /guard +policy guard\.portcullis\.dev: is in force in enforce mode/);
    assert.match(
      stdout,
      /guard +levels of all namespaces: may be lowered by Group system:masters, ServiceAccount portcullis\/portcullis, User bob/,
    );
    const lists = (await plane.calls()).filter(({ user, verb }) => user === 'root' && verb === 'list');
    const counts = Object.groupBy(lists, ({ resource }) => resource);
    const read = ['namespaces', 'clusterroles', 'clusterrolebindings'].map((resource) => counts[resource]?.length);
    // `doctor` lists roles and bindings twice. The second list of each selects only the objects of Portcullis.
    assert.deepEqual(read, [1, 2, 2]);
  });

  test('delays the Ready condition of the settings until it follows them', async () => {
    const warnings = async (): Promise<string> =>
      (
        await plane.admin.send('PATCH', `${shop}?dryRun=All`, lowered, { ...as('alice'), 'content-type': MERGE })
      ).warnings.join();
    const set = async (labels: string): Promise<void> => {
      await system.configure({ ...spec, guard: { labels } });
      await eventually(async () => {
        const { metadata, status } = responseObject(
          await plane.admin.send('GET', '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster'),
        ) as PortcullisConfiguration;
        const ready = status?.conditions?.find(({ type }) => type === 'Ready');
        assert.deepEqual([ready?.status, ready?.observedGeneration], ['True', metadata?.generation], ready?.message);
      }, 60_000);
    };
    await set('warn');
    assert.match(await warnings(), /guard\.portcullis\.dev.*lowers the enforced level from restricted to privileged/);
    await set('enforce');
    assert.ok((await send('alice', 'PATCH', `${shop}?dryRun=All`, lowered)).endsWith(LOWERED));
    await set('off');
    assert.doesNotMatch(await warnings(), /guard/);
    assert.equal(await send('alice', 'PATCH', `${shop}?dryRun=All`, lowered), '');
  });
});
