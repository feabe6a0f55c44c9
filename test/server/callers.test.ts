/** Callers with and without client certificates, over real TLS. */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { createServedCertificate, type ServedCertificate } from '../../src/cli/serve/certificates.ts';
import { createStore } from '../../src/cluster/store.ts';
import { allow } from '../../src/kube/admission.ts';
import type { KeyPair } from '../../src/tls/certificate-pair.ts';
import { protocolSettings } from '../../src/tls/protocol.ts';
import { createAuthority, createClient, createServing } from '../../src/tls/issue.ts';
import { createClientAuthentication, createServer, type AdmissionServer } from '../../src/server/server.ts';
import { createRecorder, type Recorder } from '../support/controllers.ts';
import { podReview } from '../support/reviews.ts';

const now = new Date();
const validity = { now, days: 1 };
const NAMES = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] };
const serving = createAuthority(validity);
const clients = createAuthority(validity);
const others = createAuthority(validity);
const client = (username: string, authority = clients, made = validity): KeyPair =>
  createClient(authority, { username, groups: [] }, made);
const LONG_AGO = { now: new Date(now.getTime() - 10 * 24 * 60 * 60 * 1000), days: 1 };

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly connection: string | undefined;
}

function ask(
  port: number,
  pair: KeyPair | undefined,
  path = '/psa/validate',
  agent: Agent | false = false,
): Promise<Answer> {
  const review = path === '/' ? undefined : JSON.stringify(podReview({ namespace: 'shop', spec: { containers: [] } }));
  return new Promise((resolve, reject) => {
    const call = request(
      {
        host: '127.0.0.1',
        port,
        ca: serving.cert,
        ...pair,
        path,
        method: review === undefined ? 'GET' : 'POST',
        headers: { 'content-type': 'application/json' },
        agent,
      },
      (response) => {
        let body = '';
        response.on('data', (chunk: Buffer) => (body += chunk.toString()));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body, connection: response.headers.connection }),
        );
      },
    );
    call.on('error', reject);
    call.end(review);
  });
}

suite('callers', () => {
  let recorder: Recorder;
  let served: ServedCertificate;
  let server: AdmissionServer;
  let port = 0;

  before(async () => {
    recorder = createRecorder();
    served = createServedCertificate({
      pair: createServing(serving, NAMES, validity),
      state: 'lasting',
      protocol: protocolSettings(),
      clientAuthorities: clients.cert,
      ...recorder,
    });
    const store = createStore();
    store.markSynced();
    server = createServer({
      webhooks: [{ path: '/psa/validate', decide: () => allow() }],
      store,
      ...recorder,
      now: () => performance.now(),
      tls: served.tls(),
      clientAuthentication: createClientAuthentication(['api', 'front']),
    });
    served.attach(server);
    await server.app.listen({ host: '127.0.0.1', port: 0 });
    port = (server.app.server.address() as AddressInfo).port;
  });
  after(() => server.app.close());

  const NOT_KNOWN = 'the client certificate is not accepted: it is signed by an unknown authority\n';
  const cases: readonly {
    readonly name: string;
    readonly pair?: KeyPair;
    readonly path?: string;
    readonly status: number;
    readonly body?: string;
  }[] = [
    { name: 'an allowed one', pair: client('api'), status: 200 },
    { name: 'another allowed one', pair: client('front'), status: 200 },
    { name: 'nobody', status: 401, body: 'a client certificate is required\n' },
    { name: 'nobody, about the paths', path: '/', status: 200 },
    {
      name: 'somebody else',
      pair: client('eve'),
      status: 403,
      body: 'the client certificate of "eve" may not send reviews\n',
    },
    { name: 'one of another authority', pair: client('api', others), status: 401, body: NOT_KNOWN },
    {
      name: 'one that has expired',
      pair: client('api', clients, LONG_AGO),
      status: 401,
      body: 'the client certificate is not accepted: it has expired\n',
    },
    {
      name: 'a server',
      pair: createServing(clients, NAMES, validity),
      status: 401,
      body: 'the client certificate is not accepted: it does not allow client authentication\n',
    },
    { name: 'one that has signed itself', pair: createAuthority(validity), status: 401 },
  ];
  for (const { name, pair, path, status, body } of cases) {
    test(name, async () => {
      const answer = await ask(port, pair, path);
      assert.equal(answer.status, status);
      if (body !== undefined) assert.equal(answer.body, body);
    });
  }

  test('refusals are counted and logged, and end the connection', async () => {
    const agent = new Agent({ keepAlive: true });
    assert.equal((await ask(port, client('eve'), '/psa/validate', agent)).connection, 'close');
    agent.destroy();
    const line = recorder.log.filter(({ msg }) => msg === 'client rejected').at(-1);
    assert.deepEqual(
      { webhook: line?.['webhook'], reason: line?.['reason'], remoteAddress: line?.['remoteAddress'] },
      {
        webhook: '/psa/validate',
        reason: 'the client certificate of "eve" may not send reviews',
        remoteAddress: '127.0.0.1',
      },
    );
    assert.match(
      await recorder.metrics.expose(),
      /portcullis_webhook_requests_total\{webhook="\/psa\/validate",code="403"\} \d/,
    );
  });

  test('another authority counts from the next connection on, whatever certificate is served', async () => {
    const agent = new Agent({ keepAlive: true });
    const api = client('api');
    assert.equal((await ask(port, api, '/psa/validate', agent)).status, 200);
    served.trustClients(others.cert);
    const last = await ask(port, api, '/psa/validate', agent);
    assert.deepEqual([last.status, last.connection], [200, 'close']);
    assert.equal((await ask(port, api, '/psa/validate', agent)).status, 401);
    assert.equal((await ask(port, client('api', others))).status, 200);
    served.use(createServing(serving, NAMES, validity));
    assert.equal((await ask(port, client('api', others))).status, 200);
    assert.equal((await ask(port, client('api'))).body, NOT_KNOWN);
    agent.destroy();
  });
});
