/** Tests the store and the log during an outage of the API server. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Connection } from '../../src/cluster/connection.ts';
import { createLiveCluster, type LiveCluster } from '../../src/cluster/live-cluster.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { createRecorder } from '../support/recorder.ts';
import { json, type Responder, type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts';

const broken = json({ kind: 'Status', message: 'etcd is gone', code: 500 }, 500);
const shop = { metadata: { name: 'shop', uid: 'u', resourceVersion: '1' } };
const list = json({ metadata: { resourceVersion: '5' }, items: [shop] });
const watching: Responder = (response) => {
  response.writeHead(200).flushHeaders();
};
const forgotten: Responder = (response) => {
  const object = { kind: 'Status', code: 410, message: 'too old resource version: 5 (9)' };
  response.writeHead(200).write(`${JSON.stringify({ type: 'ERROR', object })}\n`);
};

describe('an outage of the API server', () => {
  let server: ScriptedServer;
  let connection: Connection;
  before(async () => {
    server = await startScriptedServer();
    connection = await server.connect();
  });
  after(() => server.stop());

  interface Scene {
    readonly live: LiveCluster;
    readonly clock: FakeClock;
    /** Waits for the given number of responses and returns the log lines. */
    said(requests: number): Promise<readonly string[]>;
  }

  const play = async (
    answers: readonly Responder[],
    act: (scene: Scene) => Promise<void>,
    kind: Kind = 'Namespace',
  ): Promise<void> => {
    server.respond(...answers);
    const clock = createFakeClock();
    const { log, logger } = createRecorder('info');
    logger.level = 'debug';
    const now = (): Date => new Date(0);
    const live = createLiveCluster({ connection, clock, random: () => 0, now, logger });
    const started = live.follow([kind]);
    try {
      await act({
        live,
        clock,
        async said(requests) {
          for (let tries = 0; tries < 1000 && server.requests.length < requests; tries++) await pause(5);
          await pause(50);
          assert.equal(server.requests.length, requests);
          return log.map(getLine);
        },
      });
    } finally {
      await live.stop();
      await started;
    }
  };

  const getLine = ({ level, msg, resource, err }: JsonObject): string => {
    const { message } = (err ?? {}) as JsonObject;
    return [level, msg, resource, message]
      .filter((part) => part !== undefined)
      .map(String)
      .join(' | ');
  };

  test('at startup leaves a kind unsynced, and is logged once', () =>
    play([broken, broken, list, watching], async ({ live, clock, said }) => {
      await said(1);
      clock.advance(800);
      await said(2);
      assert.deepEqual(live.unsyncedKinds(), ['Namespace']);
      clock.advance(1600);
      assert.deepEqual(await said(4), [
        '40 | watch failed, keeping the last known state | namespaces | etcd is gone',
        '20 | watch still failing | namespaces | etcd is gone',
        '30 | watch recovered | namespaces',
      ]);
      assert.deepEqual(live.unsyncedKinds(), []);
      assert.deepEqual([...live.failures()], []);
    }));

  test('after startup keeps the store, and the age of the last event increases', () =>
    play([list, broken, broken], async ({ live, clock, said }) => {
      await said(2);
      clock.advance(800);
      await said(3);
      clock.advance(1000);
      assert.deepEqual(live.unsyncedKinds(), []);
      assert.equal(live.store.get('Namespace', 'shop')?.metadata?.uid, 'u');
      assert.deepEqual([...live.lastEventAgesMs()], [['Namespace', 1800]]);
      assert.deepEqual([...live.failures()], [['Namespace', 'etcd is gone']]);
    }));

  test('that outlasts the watch cache is followed by a new list', () =>
    play([list, forgotten, list, watching], async ({ clock, said }) => {
      await said(2);
      clock.advance(800);
      assert.deepEqual(await said(4), ['30 | watch expired, listing the resource again | namespaces']);
    }));

  const notServed: Responder = (response) => {
    response.writeHead(404, { 'content-type': 'text/html' }).end('<html>default backend - 404</html>');
  };
  const groups = (...names: readonly string[]): Responder =>
    json({ kind: 'APIGroupList', groups: names.map((name) => ({ name, versions: [{ version: 'v1' }] })) });
  const resources = (...names: readonly string[]): Responder =>
    json({ kind: 'APIResourceList', resources: names.map((name) => ({ name })) });
  const SCCS = 'securitycontextconstraints';
  const NO_LIST =
    '40 | watch failed, keeping the last known state | namespaces | the response to /api/v1/namespaces is not a list: is it a Kubernetes API server?';

  const MISTAKEN: readonly (readonly [
    name: string,
    kind: Kind,
    answers: readonly Responder[],
    known: boolean,
    told?: string,
  ])[] = [
    ['an empty object', 'Namespace', [json({})], true, NO_LIST],
    [
      'a list with null as an item',
      'Namespace',
      [json({ kind: 'NamespaceList', metadata: { resourceVersion: '9' }, items: [null] })],
      true,
      NO_LIST,
    ],
    ['a list without a resource version', 'Namespace', [json({ kind: 'NamespaceList', items: [] })], true, NO_LIST],
    [
      'a list that is empty',
      'Namespace',
      [json({ kind: 'NamespaceList', metadata: { resourceVersion: '9' } }), watching],
      false,
    ],
    ['status 404 for a built-in resource', 'Node', [notServed], true],
    ['status 404 for all resources', 'SecurityContextConstraints', [notServed, notServed], true],
    [
      'status 404 for a resource that the discovery document contains',
      'SecurityContextConstraints',
      [notServed, groups('security.openshift.io'), resources(SCCS)],
      true,
    ],
    [
      'status 404 for a resource that the discovery document does not contain',
      'SecurityContextConstraints',
      [notServed, groups('security.openshift.io'), resources('others')],
      false,
    ],
    [
      'status 404 for a resource that older API servers do not serve',
      'MutatingAdmissionPolicy',
      [notServed, groups('admissionregistration.k8s.io'), resources('others')],
      false,
    ],
  ];
  for (const [name, kind, answers, known, told] of MISTAKEN) {
    test(`that ends with ${name} ${known ? 'keeps' : 'clears'} the store`, () =>
      play(
        [list, forgotten, ...answers],
        async ({ live, clock, said }) => {
          await said(2);
          clock.advance(800);
          // A resource that is not served starts the watch for CRDs.
          const isFollowed = !known && kind === 'SecurityContextConstraints';
          const lines = await said(2 + answers.length + (isFollowed ? 1 : 0));
          assert.equal(live.store.get(kind, 'shop') !== undefined, known);
          if (told !== undefined) assert.ok(lines.includes(told), lines.join('\n'));
        },
        kind,
      ));
  }
});
