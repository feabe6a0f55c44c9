import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

const MERGE = { 'content-type': 'application/merge-patch+json' };

describe('a watch', () => {
  let cluster: TestCluster;
  let sequence = 0;
  let secrets = '';
  before(async () => {
    cluster = await startCluster();
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });
  beforeEach(async () => {
    sequence += 1;
    const metadata = { name: `watched-${sequence}` };
    await send('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
    await cluster.cluster.idle();
    secrets = `/api/v1/namespaces/watched-${sequence}/secrets`;
  });

  const send = (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiResponse> =>
    cluster.admin.send(method, path, body, headers);
  const create = (name: string, labels = {}): Promise<ApiResponse> =>
    send('POST', secrets, { apiVersion: 'v1', kind: 'Secret', metadata: { name, labels } });
  const now = async (): Promise<string> =>
    String(objectMetadata(responseObject(await send('GET', secrets)))['resourceVersion']);
  /** Watches for a second and returns the type and name, or the message, of each event. */
  const watch = async (query: string, headers?: Record<string, string>): Promise<string[]> => {
    const { text } = await send('GET', `${secrets}?watch=true&timeoutSeconds=1&${query}`, undefined, headers);
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => formatEvent(JSON.parse(line) as JsonObject));
  };

  test('begins with the existing objects, and then reports changes', async () => {
    await create('a');
    const watching = watch('');
    await requestStarted();
    await create('b');
    await send('PATCH', `${secrets}/a`, { data: { x: 'eQ==' } }, MERGE);
    await send('DELETE', `${secrets}/b`);
    assert.deepEqual(await watching, ['ADDED a', 'ADDED b', 'MODIFIED a', 'DELETED b']);
  });

  test('continues from the resource version of a list', async () => {
    await create('a');
    const version = await now();
    await create('b');
    await send('DELETE', `${secrets}/a`);
    assert.deepEqual(await watch(`resourceVersion=${version}`), ['ADDED b', 'DELETED a']);
  });

  test('reports only changes in its namespace and of its resource', async () => {
    const version = await now();
    await send('POST', '/api/v1/namespaces/default/secrets', secret('elsewhere'));
    const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'other' } };
    await send('POST', secrets.replace('secrets', 'configmaps'), map);
    assert.deepEqual(await watch(`resourceVersion=${version}`), []);
  });

  test('reports objects that start or stop matching the selector as added or deleted', async () => {
    await create('a', { pick: 'no' });
    const version = await now();
    const label = (pick: string): Promise<ApiResponse> =>
      send('PATCH', `${secrets}/a`, { metadata: { labels: { pick } } }, MERGE);
    await label('yes');
    await send('PATCH', `${secrets}/a`, { data: { x: 'eQ==' } }, MERGE);
    await label('no');
    await send('DELETE', `${secrets}/a`);
    const selected = await watch(`resourceVersion=${version}&labelSelector=pick%3Dyes`);
    assert.deepEqual(selected, ['ADDED a', 'MODIFIED a', 'DELETED a']);
  });

  test('that starts at an expired version ends with an error', async () => {
    const [only, ...more] = await watch('resourceVersion=1');
    assert.match(only ?? '', /^ERROR too old resource version: 1 \(\d+\)$/);
    assert.deepEqual(more, []);
  });

  const INITIAL = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan';

  test('marks the end of the initial events with a bookmark', async () => {
    await create('a');
    const version = await now();
    const initial = ['ADDED a', 'BOOKMARK initial-events-end'];
    assert.deepEqual(await watch(`${INITIAL}&allowWatchBookmarks=true`), initial);
    assert.deepEqual(await watch(`${INITIAL}&allowWatchBookmarks=true&resourceVersion=${version}`), initial);
    assert.deepEqual(await watch(INITIAL), ['ADDED a']);
    assert.deepEqual(await watch('sendInitialEvents=false&resourceVersionMatch=NotOlderThan'), []);
  });

  const INVALID: readonly (readonly [query: string, error: string])[] = [
    [
      'sendInitialEvents=true&resourceVersion=1',
      'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list',
    ],
    [
      'watch=true&sendInitialEvents=true',
      'resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
    ],
    [
      'watch=true&resourceVersionMatch=NotOlderThan',
      'resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
    ],
  ];
  for (const [query, error] of INVALID) {
    test(`rejects ${query}`, async () => {
      const { status, text } = await send('GET', `${secrets}?${query}`);
      const { message } = JSON.parse(text) as { readonly message: string };
      assert.deepEqual([status, message], [422, `ListOptions.meta.k8s.io "" is invalid: ${error}`]);
    });
  }

  test('ends when the server stops', async () => {
    const other = await startCluster();
    const watching = other.admin.send('GET', '/api/v1/namespaces?watch=true&resourceVersion=0&timeoutSeconds=60');
    await requestStarted();
    await other.stop();
    await Promise.allSettled([watching]);
  });

  test('ends when the CRD of its resource is deleted', async () => {
    const names = { kind: 'Thing', plural: 'things' };
    const schema = { openAPIV3Schema: { type: 'object' } };
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const defined = await send('POST', definitions, {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'things.example.com' },
      spec: {
        group: 'example.com',
        scope: 'Cluster',
        names,
        versions: [{ name: 'v1', served: true, storage: true, schema }],
      },
    });
    assert.equal(defined.status, 201, defined.text);
    await cluster.cluster.idle();
    const things = '/apis/example.com/v1/things';
    await send('POST', things, { apiVersion: 'example.com/v1', kind: 'Thing', metadata: { name: 'a' } });
    const watching = send('GET', `${things}?watch=true&timeoutSeconds=30`);
    await requestStarted();
    await send('DELETE', `${definitions}/things.example.com`);
    const lines = (await watching).text.split('\n').slice(0, -1);
    assert.deepEqual(
      lines.map((line) => formatEvent(JSON.parse(line) as JsonObject)),
      ['ADDED a', 'DELETED a'],
    );
    assert.equal((await send('GET', things)).status, 404);
  });
});

/** Waits until the server has received a request. */
function requestStarted(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 200));
}

function secret(name: string): JsonObject {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name } };
}

function formatEvent({ type, object }: JsonObject): string {
  const body = object as JsonObject;
  const { name, annotations } = objectMetadata(body);
  if (type === 'ERROR') return `ERROR ${String(body['message'])}`;
  if (type === 'BOOKMARK') {
    const end = (annotations as JsonObject | undefined)?.['k8s.io/initial-events-end'];
    return `BOOKMARK ${end === 'true' ? 'initial-events-end' : ''}`;
  }
  return `${String(type)} ${body['kind'] === 'Table' ? 'Table' : String(name)}`;
}
