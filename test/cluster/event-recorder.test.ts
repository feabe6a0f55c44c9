import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ClusterEvent } from '../../src/cluster/cluster.ts';
import type { Connection } from '../../src/cluster/connection.ts';
import { createEventRecorder } from '../../src/cluster/event-recorder.ts';
import { ApiError } from '../../src/kube/status.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { json, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts';

const note = (text: string, name = 'shop'): ClusterEvent => ({
  regarding: { apiVersion: 'v1', kind: 'Namespace', metadata: { name, uid: `uid-${name}`, resourceVersion: '7' } },
  type: 'Warning',
  reason: 'Tested',
  action: 'Testing',
  note: text,
  reportingController: 'tester',
});

describe('events', () => {
  let server: ScriptedServer;
  let connection: Connection;
  let clock: FakeClock;
  let tell: (note: ClusterEvent) => Promise<void>;
  before(async () => {
    server = await startScriptedServer();
    connection = await server.connect();
  });
  after(() => server.stop());
  const begin = (): void => {
    clock = createFakeClock();
    const now = (): Date => new Date(Date.UTC(2026, 0, 1) + clock.now());
    tell = createEventRecorder({ connection, clock, now });
    server.respond(json({}));
  };
  const sent = (): readonly unknown[] =>
    server.requests.map(({ method, body }) => {
      const value = JSON.parse(body) as { note?: string; 0?: { value: unknown } };
      return method === 'POST' ? ['POST', value.note] : [method, value[0]?.value];
    });

  const named: readonly (readonly [object: string, expected: RegExp])[] = [
    ['portcullis:scc-until:anyuid', /^[0-9a-f-]{36}$/],
    ['x'.repeat(216), /^x{216}\.[0-9a-f-]{36}$/],
    ['x'.repeat(253), /^[0-9a-f-]{36}$/],
  ];
  for (const [object, expected] of named) {
    test(`have valid names if the name of their object has ${object.length} characters`, async () => {
      begin();
      await tell(note('hello', object));
      const event = JSON.parse(server.requests[0]?.body ?? '') as { metadata: { name: string } };
      assert.match(event.metadata.name, expected);
    });
  }

  test('have a time, a regarding object and a controller', async () => {
    begin();
    await tell(note('hello'));
    const [request] = server.requests;
    assert.equal(request?.url, '/apis/events.k8s.io/v1/namespaces/default/events?fieldManager=tester');
    const event = JSON.parse(request?.body ?? '') as { metadata: { name: string } };
    assert.match(event.metadata.name, /^shop\.[0-9a-f-]{36}$/);
    assert.deepEqual(event, {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: event.metadata.name, namespace: 'default' },
      eventTime: '2026-01-01T00:00:00.000000Z',
      type: 'Warning',
      reason: 'Tested',
      action: 'Testing',
      note: 'hello',
      regarding: {
        apiVersion: 'v1',
        kind: 'Namespace',
        name: 'shop',
        uid: 'uid-shop',
        resourceVersion: '7',
      },
      reportingController: 'tester',
      reportingInstance: 'tester',
    });
  });

  test('become a series if they are repeated, even concurrently', async () => {
    begin();
    await Promise.all([tell(note('a')), tell(note('a')), tell(note('b'))]);
    clock.advance(599_999);
    await tell(note('a'));
    assert.deepEqual(
      sent().toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b))),
      [
        ['PATCH', { count: 2, lastObservedTime: '2026-01-01T00:00:00.000000Z' }],
        ['PATCH', { count: 3, lastObservedTime: '2026-01-01T00:09:59.999000Z' }],
        ['POST', 'a'],
        ['POST', 'b'],
      ],
    );
  });

  test('are created again if they are repeated after ten minutes', async () => {
    begin();
    await tell(note('a'));
    clock.advance(600_000);
    await tell(note('a'));
    assert.deepEqual(sent(), [
      ['POST', 'a'],
      ['POST', 'a'],
    ]);
  });

  test('are created again if they were deleted', async () => {
    begin();
    server.respond(json({}), json({ kind: 'Status', message: 'gone', code: 404 }, 404), json({}));
    await tell(note('a'));
    await tell(note('a'));
    assert.deepEqual(
      server.requests.map(({ method }) => method),
      ['POST', 'PATCH', 'POST'],
    );
  });

  test('are logged as errors if the API server rejects them, and are created at the next attempt', async () => {
    begin();
    server.respond(json({ kind: 'Status', message: 'no', code: 403 }, 403), json({}));
    await assert.rejects(tell(note('a')), (error) => error instanceof ApiError && error.status.code === 403);
    await tell(note('a'));
    assert.deepEqual(sent(), [
      ['POST', 'a'],
      ['POST', 'a'],
    ]);
  });

  test('are limited to a burst of 25 for each object, then one every five minutes', async () => {
    begin();
    for (let index = 0; index < 40; index++) await tell(note(`n${index}`));
    assert.equal(server.requests.length, 25);
    await tell(note('a', 'bank'));
    assert.equal(server.requests.length, 26);
    clock.advance(300_000);
    await tell(note('later'));
    await tell(note('too soon'));
    assert.deepEqual(sent().slice(26), [['POST', 'later']]);
  });
});
