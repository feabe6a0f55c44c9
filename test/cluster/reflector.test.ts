import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Connection } from '../../src/cluster/connection.ts';
import { createPooling } from '../../src/cluster/object-pool.ts';
import { createParser } from '../../src/cluster/parser.ts';
import { createReflector, type Reflector } from '../../src/cluster/reflector.ts';
import { createStoreWriter } from '../../src/cluster/store-writer.ts';
import { createStore } from '../../src/cluster/store.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { json, type Responder, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts';

interface Scene {
  readonly clock: FakeClock;
  readonly reflector: Reflector;
  /** The changes to the store, such as `put a@1`. */
  readonly changes: readonly string[];
  readonly failures: readonly string[];
  recovered(): number;
  unserved(): number;
  listed(): number;
  /** Waits until the server has received the given number of requests, and returns all requests. */
  requests(count: number): Promise<readonly string[]>;
  /** Waits for a condition without advancing the fake clock. */
  soon(condition: () => boolean): Promise<void>;
}

const role = (name: string, version: number) => ({
  metadata: { name, namespace: 'n', uid: `uid-${name}`, resourceVersion: String(version) },
});

const list = (version: number, items: readonly object[], more: object = {}): Responder =>
  json({ metadata: { resourceVersion: String(version), ...more }, items });

const status = (code: number, message: string, headers = {}): Responder =>
  json({ kind: 'Status', message, code }, code, headers);

/** Opens a watch and sends events. The connection stays open. */
const watching =
  (...events: readonly (readonly [type: string, object: object])[]): Responder =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    for (const [type, object] of events) response.write(`${JSON.stringify({ type, object })}\n`);
  };

const sending =
  (...parts: readonly (string | Buffer)[]): Responder =>
  (response) => {
    response.writeHead(200);
    for (const part of parts) response.write(part);
  };

const PAGE = '/apis/rbac.authorization.k8s.io/v1/roles?';

describe('a reflector follows its resource:', () => {
  let server: ScriptedServer;
  let connection: Connection;
  const opened: ServerResponse[] = [];
  before(async () => {
    server = await startScriptedServer();
    connection = await server.connect({ timeoutMs: 5000 });
  });
  after(() => server.stop());

  const play = async (
    answers: readonly Responder[],
    act: (scene: Scene) => Promise<void>,
    {
      pageSize = 2,
      through = connection,
      clock = createFakeClock(),
    }: { pageSize?: number; through?: Connection; clock?: FakeClock } = {},
  ): Promise<void> => {
    opened.length = 0;
    server.respond(
      ...[...answers, watching()].map<Responder>((answer) => (response, request) => {
        opened.push(response);
        answer(response, request);
      }),
    );
    const store = createStore();
    const [changes, failures]: [string[], string[]] = [[], []];
    let [recovered, unserved, listed] = [0, 0, 0];
    store.subscribe(({ type, object: { metadata } }) =>
      changes.push(`${type} ${metadata?.name}@${metadata?.resourceVersion}`),
    );
    const reflector = createReflector({
      connection: through,
      parser: createParser(),
      path: '/apis/rbac.authorization.k8s.io/v1/roles',
      pageSize,
      sink: createStoreWriter({ kind: 'Lease', store, complete: createPooling(), clock }),
      clock,
      random: () => 0,
      unserved: { confirm: () => Promise.resolve(true), onConfirmed: () => unserved++ },
      onListed: () => listed++,
      onFailure: (error, retryMs) => failures.push(`${String(error)} +${retryMs}`),
      onRecovered: () => recovered++,
    });
    const soon = async (condition: () => boolean): Promise<void> => {
      for (let tries = 0; tries < 1000 && !condition(); tries++) await pause(5);
      assert.ok(condition(), `timeout: ${JSON.stringify({ changes, failures, seen: server.requests })}`);
    };
    reflector.start();
    try {
      await act({
        clock,
        reflector,
        changes,
        failures,
        recovered: () => recovered,
        unserved: () => unserved,
        listed: () => listed,
        soon,
        async requests(count) {
          await soon(() => server.requests.length >= count);
          await pause(20);
          return server.requests.map(({ url }) => said(url));
        },
      });
    } finally {
      await reflector.stop();
    }
  };

  /** Formats a request as `list`, `list c` (with a continue token) or `watch 5`. */
  const said = (url: string): string => {
    const query = new URLSearchParams(url.slice(PAGE.length));
    if (query.get('watch') !== 'true') return ['list', ...query.getAll('continue')].join(' ');
    assert.deepEqual([query.get('allowWatchBookmarks'), query.get('timeoutSeconds')], ['true', '300']);
    return `watch ${query.get('resourceVersion')}`;
  };

  test('lists in pages, then watches from the resource version of the list', () =>
    play(
      [
        list(5, [role('a', 1), role('b', 2)], { continue: 'c' }),
        list(5, [role('c', 3)]),
        watching(['ADDED', role('d', 6)], ['MODIFIED', role('a', 7)], ['DELETED', role('b', 8)]),
      ],
      async ({ requests, changes, soon, listed }) => {
        assert.deepEqual(await requests(3), ['list', 'list c', 'watch 5']);
        await soon(() => changes.length === 6);
        assert.deepEqual(changes, ['put a@1', 'put b@2', 'put c@3', 'put d@6', 'put a@7', 'remove b@2']);
        assert.equal(listed(), 1);
      },
    ));

  test('a broken watch is continued after the last event', () =>
    play([list(5, []), watching(['ADDED', role('a', 6)])], async ({ requests, clock, changes, soon, failures }) => {
      await soon(() => changes.length === 1);
      clock.advance(5000);
      opened[1]?.destroy();
      assert.deepEqual(await requests(3), ['list', 'watch 5', 'watch 6']);
      assert.deepEqual(failures, []);
    }));

  test('a watch that ends is continued after the last bookmark', () =>
    play([list(5, []), watching(['BOOKMARK', role('', 60)])], async ({ requests, clock, changes }) => {
      await requests(2);
      clock.advance(5000);
      opened[1]?.end();
      assert.deepEqual(await requests(3), ['list', 'watch 5', 'watch 60']);
      assert.deepEqual(changes, []);
    }));

  test('an incomplete event is discarded', () =>
    play(
      [list(5, []), sending('{"type":"ADDED","object":{"metadata":{"na')],
      async ({ requests, clock, changes, failures }) => {
        await requests(2);
        clock.advance(5000);
        opened[1]?.end();
        assert.deepEqual(await requests(3), ['list', 'watch 5', 'watch 5']);
        assert.deepEqual([changes, failures], [[], []]);
      },
    ));

  test('watches that end immediately are retried with backoff', () =>
    play([list(5, []), (response) => response.end(), (response) => response.end()], async (scene) => {
      await scene.soon(() => scene.failures.length === 1);
      scene.clock.advance(799);
      assert.equal((await scene.requests(2)).length, 2);
      scene.clock.advance(1);
      await scene.soon(() => scene.failures.length === 2);
      scene.clock.advance(1600);
      assert.deepEqual(await scene.requests(4), ['list', 'watch 5', 'watch 5', 'watch 5']);
      assert.deepEqual(scene.failures, [
        'ConnectionError: the watch ended immediately +800',
        'ConnectionError: the watch ended immediately +1600',
      ]);
    }));

  test('a watch that receives no bytes for 90 s is closed', () =>
    play([list(5, []), watching(['ADDED', role('a', 6)])], async ({ requests, clock, reflector, changes, soon }) => {
      await soon(() => changes.length === 1);
      clock.advance(89_999);
      assert.equal((await requests(2)).length, 2);
      assert.equal(reflector.lastEventAgeMs(), 89_999);
      clock.advance(1);
      assert.deepEqual(await requests(3), ['list', 'watch 5', 'watch 6']);
    }));

  test('bookmarks keep a watch alive', () =>
    play([list(5, []), watching()], async ({ requests, clock, reflector, soon }) => {
      await requests(2);
      for (let minutes = 0; minutes < 4; minutes++) {
        clock.advance(60_000);
        opened[1]?.write('{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"70"}}}\n');
        await soon(() => reflector.lastEventAgeMs() === 0);
      }
      assert.deepEqual(await requests(2), ['list', 'watch 5']);
    }));

  test('an event may arrive one byte at a time', () =>
    play([list(5, []), watching()], async ({ requests, changes, soon }) => {
      await requests(2);
      const object = { ...role('a', 6), text: 'Größe 🏰' };
      for (const byte of Buffer.from(`${JSON.stringify({ type: 'ADDED', object })}\n`)) {
        opened[1]?.write(Buffer.of(byte));
        if (byte > 127) await pause(2);
      }
      await soon(() => changes.length === 1);
    }));

  const lost: readonly (readonly [name: string, answer: Responder, failure: string])[] = [
    [
      'an error event with code 410',
      watching(['ERROR', { kind: 'Status', code: 410, message: 'too old resource version: 5 (90)' }]),
      'ApiError: too old resource version: 5 (90) +800',
    ],
    [
      'a watch from a future resource version',
      status(504, 'Too large resource version'),
      'ApiError: Too large resource version +800',
    ],
    ['a line that is not an event', sending('[1]\n'), 'Error: malformed watch event: it has no object +800'],
    ['an error without a status', watching(['ERROR', {}]), 'ApiError: the watch failed +800'],
  ];
  for (const [name, answer, failure] of lost) {
    test(`${name} is followed by a list, and only changes are reported`, () =>
      play(
        [
          list(5, [role('a', 1), role('b', 2), role('c', 3)]),
          answer,
          list(99, [role('a', 1), role('b', 98), role('d', 97)]),
        ],
        async ({ requests, clock, failures, changes, soon }) => {
          await soon(() => failures.length === 1);
          clock.advance(800);
          assert.deepEqual(await requests(4), ['list', 'watch 5', 'list', 'watch 99']);
          assert.deepEqual(changes.slice(3), ['put b@98', 'put d@97', 'remove c@3']);
          assert.deepEqual(failures, [failure]);
        },
      ));
  }

  test('an expired list is started again, and objects that were deleted in the meantime are removed', () =>
    play(
      [
        list(5, [role('a', 1), role('b', 2)], { continue: 'c' }),
        status(410, 'The provided continue parameter is too old'),
        list(9, [role('b', 2)]),
      ],
      async ({ requests, changes }) => {
        assert.deepEqual(await requests(4), ['list', 'list c', 'list', 'watch 9']);
        assert.deepEqual(changes, ['put a@1', 'put b@2', 'remove a@1']);
      },
    ));

  test('Retry-After extends the backoff', () =>
    play(
      [list(5, []), status(429, 'Too many requests', { 'retry-after': '7' })],
      async ({ requests, clock, failures, soon, recovered }) => {
        await soon(() => failures.length === 1);
        clock.advance(6999);
        assert.equal((await requests(2)).length, 2);
        clock.advance(1);
        assert.deepEqual(await requests(3), ['list', 'watch 5', 'watch 5']);
        await soon(() => recovered() === 1);
      },
    ));

  test('Retry-After is limited to 24 s', () =>
    play(
      [status(429, 'Too many requests', { 'retry-after': '99999' }), list(5, [])],
      async ({ requests, clock, failures, soon }) => {
        await soon(() => failures.length === 1);
        assert.deepEqual(failures, [
          'ApiError: Too many requests (Retry-After is 99999 s, which exceeds the limit) +24000',
        ]);
        clock.advance(24_000);
        assert.deepEqual(await requests(3), ['list', 'list', 'watch 5']);
      },
    ));

  test('after a timeout, lists use smaller pages and longer timeouts until a list is complete', async () => {
    const silent: Responder = () => undefined;
    const clock = createFakeClock();
    const through = await server.connect({ timeoutMs: 1000, clock });
    await play(
      [silent, silent, list(5, [role('a', 1)]), status(410, 'too old'), list(9, [role('a', 1)])],
      async ({ requests, failures, soon }) => {
        await requests(1);
        clock.advance(1000);
        await soon(() => failures.length === 1);
        clock.advance(800);
        await requests(2);
        clock.advance(2000);
        await soon(() => failures.length === 2);
        clock.advance(1600);
        await soon(() => failures.length === 3);
        clock.advance(3200);
        await requests(6);
        const reason = (seconds: number) =>
          `ConnectionError: Unable to connect to the server: no response from ${server.url} within ${seconds} s`;
        assert.deepEqual(failures.slice(0, 2), [`${reason(1)} +800`, `${reason(2)} +1600`]);
        const limits = server.requests.map(({ url }) => new URLSearchParams(url.slice(PAGE.length)).get('limit'));
        assert.deepEqual(limits, ['500', '250', '125', null, '500', null]);
      },
      { pageSize: 500, through, clock },
    );
  });

  test('lists use large pages again if a list has too many small pages', async () => {
    const silent: Responder = () => undefined;
    const clock = createFakeClock();
    const through = await server.connect({ timeoutMs: 1000, clock });
    const endless = list(5, [role('a', 1)], { continue: 'c' });
    await play(
      [silent, endless, endless, list(5, [role('a', 1)])],
      async ({ requests, failures, soon }) => {
        await requests(1);
        clock.advance(1000);
        await soon(() => failures.length === 1);
        clock.advance(800);
        await soon(() => failures.length === 2);
        clock.advance(1600);
        await requests(5);
        const limits = server.requests.map(({ url }) => new URLSearchParams(url.slice(PAGE.length)).get('limit'));
        assert.deepEqual(limits, ['500', '250', '250', '500', null]);
      },
      { pageSize: 500, through, clock },
    );
  });

  test('a temporary lack of permissions does not change the store', () => {
    const denied = status(403, 'roles is forbidden');
    return play(
      [list(5, [role('a', 1)]), watching(), denied, denied, list(8, [role('a', 1), role('b', 7)])],
      async ({ requests, clock, failures, changes, soon, recovered }) => {
        await requests(2);
        clock.advance(300_000);
        opened[1]?.end();
        await soon(() => failures.length === 1);
        clock.advance(800);
        await soon(() => failures.length === 2);
        assert.deepEqual(changes, ['put a@1']);
        clock.advance(1600);
        assert.deepEqual(await requests(6), ['list', 'watch 5', 'watch 5', 'list', 'list', 'watch 8']);
        assert.deepEqual(changes, ['put a@1', 'put b@7']);
        assert.equal(recovered(), 1);
      },
    );
  });

  test('a resource that is not served is empty, and is listed again about once a minute', () => {
    const missing = json('404 page not found', 404);
    return play(
      [list(5, [role('a', 1)]), missing, missing, missing, list(9, [role('b', 8)])],
      async ({ requests, clock, failures, changes, soon, unserved, listed }) => {
        await soon(() => failures.length === 1);
        clock.advance(800);
        await soon(() => unserved() === 1);
        assert.deepEqual([changes, listed()], [['put a@1', 'remove a@1'], 2]);
        clock.advance(29_999);
        assert.equal((await requests(3)).length, 3);
        clock.advance(1);
        await soon(() => unserved() === 2);
        clock.advance(30_000);
        assert.deepEqual(await requests(6), ['list', 'watch 5', 'list', 'list', 'list', 'watch 9']);
        assert.deepEqual(changes.slice(2), ['put b@8']);
        assert.equal(failures.length, 1);
      },
    );
  });

  test('retryNow lists immediately, then once a second until the resource is served', () => {
    const missing = json('404 page not found', 404);
    return play(
      [missing, missing, list(9, [role('b', 8)])],
      async ({ requests, clock, reflector, changes, soon, unserved }) => {
        await soon(() => unserved() === 1);
        reflector.retryNow();
        await soon(() => unserved() === 2);
        clock.advance(1000);
        assert.deepEqual(await requests(4), ['list', 'list', 'list', 'watch 9']);
        assert.deepEqual(changes, ['put b@8']);
      },
    );
  });

  test('stop interrupts the backoff', () =>
    play([status(500, 'etcd is gone')], async ({ failures, soon, clock, reflector }) => {
      await soon(() => failures.length === 1);
      await reflector.stop();
      assert.equal(clock.pending(), 0);
    }));
});
