/**
 * Tests complete responses of the authorization webhook for the minimum kubelet version over TLS, and reviews that it
 * does not accept.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, suite, test } from 'node:test';
import { connect, createSecureContext } from 'node:tls';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post as send, type Response } from '../support/https.ts';

const PATH = '/authorize/minimum-kubelet-version';
const { kubelet } = createDefaultSettings({ controllers: [], namespace: 'portcullis' });
const settings = { ...kubelet, isOn: true, minimumVersion: '1.33.0' };
const OUTDATED =
  'kubelet version is outdated: kubelet version is 1.29.8, which is lower than minimumKubeletVersion of 1.33.0';

const post = (server: TestServer, path: string, body: string): Promise<Response> =>
  send(server, path, body, 'application/json');
const LONG_VERSION = `1.33.0+${'x'.repeat(1 << 20)}`;
const VERSIONS = { old: 'v1.29.8', new: 'v1.33.0', odd: 'v1.33', long: LONG_VERSION };
const SHOWN_VERSION = `${LONG_VERSION.slice(0, 256)}…`;
const UNKNOWN_VERSION = `failed to parse node version ${SHOWN_VERSION}: Invalid character(s) found in build meta data "${SHOWN_VERSION.slice('1.33.0+'.length)}"`;
const PODS = { verb: 'list', resource: 'pods' };
const as = (node: string) => ({ user: `system:node:${node}`, groups: ['system:nodes'] });

suite('the authorization webhook decides like upstream:', () => {
  let server: TestServer;
  before(async () => {
    server = await startAdmissionServer([], {
      createScope: (store) => ({ store, settings: () => settings, hasSettingsObject: false }),
    });
    for (const [name, kubeletVersion] of Object.entries(VERSIONS)) {
      server.store.put('Node', { metadata: { name }, status: { nodeInfo: { kubeletVersion } } } as never);
    }
  });
  after(() => server.stop());

  const review = (spec: object, version = 'v1') => ({
    apiVersion: `authorization.k8s.io/${version}`,
    kind: 'SubjectAccessReview',
    spec,
  });

  const answers: readonly (readonly [name: string, review: object, status: object])[] = [
    ['a new kubelet', review({ ...as('new'), resourceAttributes: PODS }), { allowed: false }],
    [
      'an old kubelet',
      review({ ...as('old'), resourceAttributes: PODS }),
      { allowed: false, denied: true, reason: OUTDATED },
    ],
    [
      'an old kubelet in v1beta1',
      review({ user: 'system:node:old', group: ['system:nodes'], resourceAttributes: PODS }, 'v1beta1'),
      { allowed: false, denied: true, reason: OUTDATED },
    ],
    [
      'a request without a resource',
      review({ ...as('old'), nonResourceAttributes: { path: '/version', verb: 'get' } }),
      { allowed: false, denied: true, reason: OUTDATED },
    ],
    [
      'a kubelet with an unknown version',
      review({ ...as('odd'), resourceAttributes: PODS }),
      {
        allowed: false,
        denied: true,
        reason: 'failed to parse node version v1.33: No Major.Minor.Patch elements found',
        evaluationError: 'failed to parse node version v1.33: No Major.Minor.Patch elements found',
      },
    ],
    [
      'a kubelet version that is too long',
      review({ ...as('long'), resourceAttributes: PODS }),
      { allowed: false, denied: true, reason: UNKNOWN_VERSION, evaluationError: UNKNOWN_VERSION },
    ],
    ['a user who is not a node', review({ user: 'alice', resourceAttributes: PODS }), { allowed: false }],
  ];
  for (const [name, body, status] of answers) {
    test(name, async () => {
      const answer = await post(server, `${PATH}?timeout=3s`, JSON.stringify(body));
      assert.equal(answer.status, 200, answer.body);
      const { apiVersion, kind } = body as { readonly apiVersion: string; readonly kind: string };
      assert.deepEqual(JSON.parse(answer.body), { apiVersion, kind, status });
    });
  }

  test('the log contains only the beginning of long names', async () => {
    const name = 'x'.repeat(20_000);
    await post(server, PATH, JSON.stringify(review({ ...as(name), resourceAttributes: { ...PODS, name } })));
    const { user, name: logged, reason } = server.log.at(-1) ?? {};
    assert.deepEqual(
      [user, logged, reason],
      [`system:node:${name.slice(0, 1012)}…`, `${name.slice(0, 1024)}…`, `node "${name.slice(0, 1018)}…`],
    );
  });

  const OTHER = 'must be a SubjectAccessReview of authorization.k8s.io/v1 or authorization.k8s.io/v1beta1';
  const EITHER = 'spec must have either resourceAttributes or nonResourceAttributes';
  const malformed: readonly (readonly [body: string, reason: string])[] = [
    ['{', 'the body must be a JSON object'],
    ['[]', 'the body must be a JSON object'],
    [JSON.stringify({ ...review({}), kind: 'TokenReview' }), OTHER],
    [JSON.stringify(review({}, 'v2')), OTHER],
    [JSON.stringify({ ...review({}), spec: 'x' }), 'spec must be an object'],
    [JSON.stringify(review({ user: 7, resourceAttributes: PODS })), 'spec.user must be a string'],
    [
      JSON.stringify(review({ groups: 'system:nodes', resourceAttributes: PODS })),
      'spec.groups must be a list of strings',
    ],
    [JSON.stringify(review(as('old'))), EITHER],
    [JSON.stringify(review({ ...as('old'), resourceAttributes: PODS, nonResourceAttributes: {} })), EITHER],
    [
      JSON.stringify(review({ ...as('old'), resourceAttributes: { verb: ['get'] } })),
      'spec.resourceAttributes.verb must be a string, not "[\\"get\\"]"',
    ],
  ];
  for (const [body, reason] of malformed) {
    test(`${body} is rejected as malformed`, async () => {
      const { status, body: text } = await post(server, PATH, body);
      assert.deepEqual([status, text], [400, `invalid SubjectAccessReview: ${reason}\n`]);
    });
  }

  for (const version of ['v1', 'v1beta1']) {
    test(`a review of more than 64 KiB is denied in ${version} if it is about a node`, async () => {
      const values = ['authorization.k8s.io/v1beta1', 'x'.repeat(70_000)];
      const resourceAttributes = { ...PODS, labelSelector: { requirements: [{ key: 'k', operator: 'In', values }] } };
      const { apiVersion, kind, spec } = review({ ...as('old'), resourceAttributes }, version);
      const { status, body } = await post(server, PATH, JSON.stringify({ kind, apiVersion, spec }));
      const reason = 'the review has more than 65536 bytes';
      assert.deepEqual(
        [status, JSON.parse(body)],
        [200, { apiVersion, kind, status: { allowed: false, denied: true, reason } }],
      );
      const others = [
        { user: 'alice', groups: ['system:authenticated'] },
        { user: 'alice', groups: ['system:nodes'] },
        { user: 'system:node:old', groups: ['system:nodes-readers'] },
      ];
      for (const other of others) {
        const answer = await post(server, PATH, JSON.stringify(review({ resourceAttributes, ...other }, version)));
        assert.deepEqual(
          [answer.status, JSON.parse(answer.body)],
          [200, { apiVersion, kind, status: { allowed: false } }],
        );
      }
    });
  }

  test('a review about a user who is not a node gets no opinion even if it has the maximum size that API servers send', async () => {
    // A label selector of 1 MiB, such as `a,a,a`.
    const requirements = Array.from({ length: 1 << 19 }, () => ({ key: 'a', operator: 'Exists' }));
    const resourceAttributes = { ...PODS, labelSelector: { requirements } };
    const { status, body } = await post(
      server,
      PATH,
      JSON.stringify(review({ resourceAttributes, user: 'alice', groups: ['system:authenticated'] })),
    );
    assert.deepEqual([status, /"status":.*/.exec(body)?.[0]], [200, '"status":{"allowed":false}}']);
    assert.match(await server.metrics.expose(), /^portcullis_limits_exceeded_total\{limit="accessReviewBytes"\} 9$/m);
  });
});

const reviewOf = (user: object, resourceAttributes: object): string =>
  JSON.stringify({
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { ...user, resourceAttributes },
  });

suite('before the nodes and the settings are read,', () => {
  let server: TestServer;
  before(async () => {
    server = await startAdmissionServer([], {
      createScope: (store) => ({
        store: { ...store, synced: () => false },
        settings: () => settings,
        hasSettingsObject: false,
      }),
    });
  });
  after(() => server.stop());

  const RETRY = 'the nodes and the settings have not been read yet\n';
  const cases: readonly (readonly [name: string, body: string, retries: boolean])[] = [
    ['a review about a node', reviewOf(as('x'), PODS), true],
    // The mode of the minimum is not known before the settings are read.
    ['a review about the registration of a node', reviewOf(as('x'), { verb: 'create', resource: 'nodes' }), true],
    ['a review about a node that is too large', reviewOf({ ...as('x'), extra: 'x'.repeat(70_000) }, PODS), true],
    ['a review about a node that reads a Node', reviewOf(as('x'), { verb: 'get', resource: 'nodes' }), false],
    ['a review about a user who is not a node', reviewOf({ user: 'alice' }, PODS), false],
  ];
  for (const [name, body, retries] of cases) {
    test(`${name} ${retries ? 'must be sent again' : 'is answered'}`, async () => {
      const { status, headers, body: text } = await post(server, PATH, body);
      assert.deepEqual([status, headers['retry-after']], retries ? [503, '1'] : [200, undefined]);
      if (retries) assert.equal(text, RETRY);
      else assert.match(text, /"status":\{"allowed":false\}/);
    });
  }

  test('the decisions are counted by cause', async () => {
    const lines = (await server.metrics.expose()).match(/^portcullis_kubelet_authorizations_total.*$/gm);
    assert.deepEqual(lines?.sort(), [
      'portcullis_kubelet_authorizations_total{decision="Deny",cause="not-synced"} 2',
      'portcullis_kubelet_authorizations_total{decision="NoOpinion",cause="exempt"} 1',
      'portcullis_kubelet_authorizations_total{decision="NoOpinion",cause="not-a-node"} 1',
    ]);
  });

  test('a request for an unknown path gets an explanation', async () => {
    const { status, body } = await post(server, '/authorize', '{}');
    assert.deepEqual([status, body], [404, `no webhook at POST /authorize; POST a SubjectAccessReview to ${PATH}\n`]);
  });
});

test('unknown clients that send many reviews or unfinished bodies do not delay API servers', async (t) => {
  const scope = (store: TestServer['store']) => ({ store, settings: () => settings, hasSettingsObject: false });
  const server = await startAdmissionServer([], { createScope: scope, now: () => 0 });
  for (let count = 0; count < 5000; count++) await server.app.inject({ method: 'POST', url: PATH });
  assert.equal((await post(server, PATH, reviewOf(as('x'), PODS))).status, 200);
  const [length, received] = [128 * 1024, 127 * 1024];
  const head = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
  const secureContext = createSecureContext({ ca: server.ca });
  const sockets = Array.from({ length: 200 }, () => {
    const socket = connect({ host: '127.0.0.1', port: server.port, secureContext }).on('error', () => socket.destroy());
    socket.write(head + ' '.repeat(received));
    return socket;
  });
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await server.stop();
  });
  // Unfinished bodies share 24 MiB, so the oldest body is rejected.
  const [response] = (await Promise.race(sockets.map((socket) => once(socket, 'data')))) as [Buffer];
  assert.match(response.toString(), /^HTTP\/1\.1 429 [^]*\r\nretry-after: 1\r\n/);
});

test('client addresses are served in turn, and reviews above the memory limit of an address must be sent again', async (t) => {
  const scope = (store: TestServer['store']) => ({ store, settings: () => settings, hasSettingsObject: false });
  let nowMs = 0;
  const server = await startAdmissionServer([], { createScope: scope, now: () => (nowMs += 10) });
  t.after(() => server.stop());
  const order: string[] = [];
  const send = async (remoteAddress: string, extra: string): Promise<void> => {
    const payload = reviewOf({ ...as('x'), extra }, PODS);
    const headers = { 'content-type': 'application/json' };
    const { statusCode } = await server.app.inject({ method: 'POST', url: PATH, payload, headers, remoteAddress });
    order.push(`${remoteAddress} ${statusCode}`);
  };
  const long = 'x'.repeat(60_000);
  await Promise.all([...Array.from({ length: 500 }, () => send('10.0.0.1', long)), send('10.0.0.2', '')]);
  const decided = order.filter((text) => text.endsWith(' 200'));
  assert.ok(decided.indexOf('10.0.0.2 200') < 5, `position ${decided.indexOf('10.0.0.2 200')}`);
  assert.deepEqual([...new Set(order)].sort(), ['10.0.0.1 200', '10.0.0.1 429', '10.0.0.2 200']);
});
