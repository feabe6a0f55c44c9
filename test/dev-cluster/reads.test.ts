import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { objectMetadata, responseItems, responseMessage, responseNames, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

const MAPS = '/api/v1/namespaces/default/configmaps';
/** Excludes the ConfigMap that every namespace has. */
const SELECTOR = 'labelSelector=test';

describe('reads', () => {
  let cluster: TestCluster;
  const send = (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiResponse> =>
    cluster.admin.send(method, path, body, headers);
  const create = (name: string, value = 'x'): Promise<ApiResponse> =>
    send('POST', MAPS, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, labels: { test: value } },
      data: { value },
    });
  const getVersion = (answer: ApiResponse): string => String(objectMetadata(responseObject(answer))['resourceVersion']);

  before(async () => {
    cluster = await startCluster();
    for (const name of ['c', 'a', 'd', 'b', 'e']) await create(name);
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });

  describe('lists', () => {
    test('contain all objects, sorted by name', async () => {
      const answer = await send('GET', `${MAPS}?${SELECTOR}`);
      assert.equal(responseObject(answer)['kind'], 'ConfigMapList');
      assert.deepEqual(responseNames(answer), ['a', 'b', 'c', 'd', 'e']);
      assert.ok(responseItems(answer).every((item) => item['kind'] === undefined && item['apiVersion'] === undefined));
    });

    test('consist of pages with the resource version of the first page', async () => {
      const first = await send('GET', `${MAPS}?${SELECTOR}&limit=2`);
      assert.deepEqual(responseNames(first), ['a', 'b']);
      await create('aa');
      await send('DELETE', `${MAPS}/d`);
      await send('PATCH', `${MAPS}/c`, { data: { value: 'y' } }, { 'content-type': 'application/merge-patch+json' });
      const next = (answer: ApiResponse): Promise<ApiResponse> =>
        send(
          'GET',
          `${MAPS}?${SELECTOR}&limit=2&continue=${String(objectMetadata(responseObject(answer))['continue'])}`,
        );
      const second = await next(first);
      assert.deepEqual(responseNames(second), ['c', 'e']);
      assert.equal(objectMetadata(responseObject(second))['continue'], undefined);
      assert.equal(getVersion(second), getVersion(first));
    });

    test('of all namespaces can be limited to a name', async () => {
      const answer = await send('GET', '/api/v1/configmaps?fieldSelector=metadata.name%3Da');
      assert.deepEqual(responseNames(answer), ['a']);
    });

    const refused: readonly [query: string, status: number, message: string | RegExp][] = [
      ['limit=x', 400, 'strconv.ParseInt: parsing "x": invalid syntax'],
      ['continue=abc$', 400, 'invalid continue token: continue key is not valid'],
    ];
    for (const [query, status, message] of refused) {
      test(`are rejected for ${query}`, async () => {
        const answer = await send('GET', `${MAPS}?${query}`);
        const text = String(responseMessage(answer));
        if (typeof message === 'string') assert.equal(text, message);
        else assert.match(text, message);
        assert.equal(answer.status, status);
      });
    }
  });

  describe('reads in other representations', () => {
    const TABLE = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json' };
    const METADATA = { accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' };

    test('return a single object as a table that contains the object', async () => {
      const table = responseObject(await send('GET', `${MAPS}/a?includeObject=Object`, undefined, TABLE));
      assert.equal(table['kind'], 'Table');
      const [row] = table['rows'] as { cells: unknown[]; object: { data?: unknown } }[];
      assert.equal(row?.cells[0], 'a');
      assert.deepEqual(row?.object.data, { value: 'x' });
    });

    test('return only the metadata of an object', async () => {
      const object = responseObject(await send('GET', `${MAPS}/a`, undefined, METADATA));
      assert.deepEqual(Object.keys(object), ['kind', 'apiVersion', 'metadata']);
    });

    test('reject an unsupported media type', async () => {
      const answer = await send('GET', `${MAPS}/a`, undefined, { accept: 'text/html' });
      assert.equal(answer.status, 406);
      assert.equal(responseMessage(answer), 'only the following media types are accepted: application/json');
    });

    test('return events of both API groups with the field names of the group', async () => {
      await cluster.cluster.recordEvent({
        regarding: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } },
        type: 'Normal',
        reason: 'Seen',
        action: 'Looking',
        note: 'twice',
        reportingController: 'test',
      });
      const [core] = responseItems(await send('GET', '/api/v1/events'));
      const [other] = responseItems(await send('GET', '/apis/events.k8s.io/v1/events'));
      assert.equal(core?.['message'], 'twice');
      assert.equal(other?.['note'], 'twice');
      assert.deepEqual(core['involvedObject'], other['regarding']);
      assert.equal(objectMetadata(core)['uid'], objectMetadata(other)['uid']);
    });
  });
});
