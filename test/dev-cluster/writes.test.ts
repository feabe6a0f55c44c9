import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

const MAPS = '/api/v1/namespaces/default/configmaps';
const MERGE = { 'content-type': 'application/merge-patch+json' };

const map = (name: string, more: object = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  ...more,
});

describe('writes follow the rules of API servers:', () => {
  let cluster: TestCluster;
  let sequence = 0;
  let name = '';
  before(async () => {
    cluster = await startCluster();
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });
  beforeEach(() => {
    sequence += 1;
    name = `map-${sequence}`;
  });

  const send = (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiResponse> =>
    cluster.admin.send(method, path, body, headers);
  const stored = async (): Promise<JsonObject> => responseObject(await send('GET', `${MAPS}/${name}`));

  test('a generated name is unique, and a dry run stores nothing', async () => {
    const body = { ...map(''), metadata: { generateName: 'made-' } };
    const dry = metadata(await send('POST', `${MAPS}?dryRun=All`, body));
    const first = metadata(await send('POST', MAPS, body));
    const second = metadata(await send('POST', MAPS, body));
    for (const made of [dry, first, second])
      assert.match(String(made['name']), /^made-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    assert.notEqual(first['name'], second['name']);
    assert.equal(dry['resourceVersion'], undefined);
    assert.equal((await send('GET', `${MAPS}/${String(dry['name'])}`)).status, 404);
  });

  test('an update that changes nothing is not stored', async () => {
    const made = responseObject(await send('POST', MAPS, map(name, { data: { a: '1' } })));
    const again = responseObject(await send('PUT', `${MAPS}/${name}`, made));
    assert.deepEqual(again, made);
    const patched = responseObject(await send('PATCH', `${MAPS}/${name}`, { data: { a: '1' } }, MERGE));
    assert.deepEqual(patched, made);
  });

  test('concurrent patches are all applied', async () => {
    await send('POST', MAPS, map(name));
    const keys = Array.from({ length: 20 }, (_nothing, index) => `key-${index}`);
    const answers = await Promise.all(
      keys.map((key) => send('PATCH', `${MAPS}/${name}`, { data: { [key]: 'x' } }, MERGE)),
    );
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
    assert.deepEqual(Object.keys((await stored())['data'] ?? {}).sort(), keys.sort());
  });

  test('concurrent applies of a new object create it only once', async () => {
    const hooks = '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations';
    const webhook = {
      name: 'unreachable.example.com',
      clientConfig: { url: 'https://127.0.0.1:1/' },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*'], resources: ['configmaps'] }],
      failurePolicy: 'Ignore',
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
    };
    assert.equal((await send('POST', hooks, { metadata: { name: 'slow' }, webhooks: [webhook] })).status, 201);
    const apply = { 'content-type': 'application/apply-patch+yaml' };
    const keys = ['a', 'b', 'c', 'd'];
    const answers = await Promise.all(
      keys.map((key) =>
        send('PATCH', `${MAPS}/${name}?fieldManager=${key}`, map(name, { data: { [key]: 'x' } }), apply),
      ),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 200, 201]);
    assert.deepEqual(Object.keys((await stored())['data'] ?? {}).sort(), keys);
    await send('DELETE', `${hooks}/slow`);
  });

  test('an object with finalizers exists until the last finalizer is removed', async () => {
    await send('POST', MAPS, { ...map(name), metadata: { name, finalizers: ['example.com/a'] } });
    const deleted = metadata(await send('DELETE', `${MAPS}/${name}`));
    assert.ok(deleted['deletionTimestamp']);
    assert.equal((await send('GET', `${MAPS}/${name}`)).status, 200);
    const conflict = await send('POST', MAPS, map(name));
    assert.equal(responseMessage(conflict), `object is being deleted: configmaps "${name}" already exists`);
    const last = await send('PATCH', `${MAPS}/${name}`, { metadata: { finalizers: null } }, MERGE);
    assert.equal(last.status, 200);
    assert.equal((await send('GET', `${MAPS}/${name}`)).status, 404);
  });

  test('a deletion succeeds only if its preconditions hold', async () => {
    const made = metadata(await send('POST', MAPS, map(name)));
    const remove = (preconditions: object): Promise<ApiResponse> =>
      send('DELETE', `${MAPS}/${name}`, { kind: 'DeleteOptions', apiVersion: 'v1', preconditions });
    assert.equal(
      responseMessage(await remove({ uid: 'other' })),
      `Operation cannot be fulfilled on ConfigMap "${name}": the UID in the precondition (other) does not match the UID in record (${String(made['uid'])})`,
    );
    assert.equal(
      responseMessage(await remove({ uid: made['uid'], resourceVersion: '1' })),
      `Operation cannot be fulfilled on ConfigMap "${name}": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (${String(made['resourceVersion'])})`,
    );
    assert.equal((await remove({ uid: made['uid'], resourceVersion: made['resourceVersion'] })).status, 200);
  });

  test('a dry run of a deletion does not delete the object', async () => {
    await send('POST', MAPS, map(name));
    assert.equal(
      (await send('DELETE', `${MAPS}/${name}`, { kind: 'DeleteOptions', apiVersion: 'v1', dryRun: ['All'] })).status,
      200,
    );
    assert.equal((await send('DELETE', `${MAPS}/${name}?dryRun=All`)).status, 200);
    assert.equal((await send('GET', `${MAPS}/${name}`)).status, 200);
  });

  const refused: readonly [
    what: string,
    request: () => Parameters<typeof send>,
    status: number,
    message: () => string,
  ][] = [
    [
      'a name that differs from the URL',
      () => ['PUT', `${MAPS}/${name}`, map('other')],
      400,
      () => `the name of the object (other) does not match the name on the URL (${name})`,
    ],
    [
      'a resource version on create',
      () => ['POST', MAPS, { ...map(''), metadata: { name, resourceVersion: '5' } }],
      500,
      () => 'resourceVersion should not be set on objects to be created',
    ],
    [
      'a patch of a missing object',
      () => ['PATCH', `${MAPS}/${name}`, {}, MERGE],
      404,
      () => `configmaps "${name}" not found`,
    ],
  ];
  for (const [what, request, status, message] of refused) {
    test(`${what} is rejected`, async () => {
      const answer = await send(...request());
      assert.equal(responseMessage(answer), message());
      assert.equal(answer.status, status);
    });
  }
});

function metadata(answer: ApiResponse): JsonObject {
  return objectMetadata(responseObject(answer));
}
