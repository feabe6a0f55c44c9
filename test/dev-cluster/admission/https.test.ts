import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { networkError } from '../../../src/cluster/network-error.ts';
import { createHttpsCaller, type HttpsCaller } from '../../../src/dev-cluster/admission/https.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { createAuthority, createServing } from '../../../src/tls/issue.ts';

const validity = { now: new Date(), days: 1 };
const authority = createAuthority(validity);
const caBundle = Buffer.from(authority.cert).toString('base64');
const otherBundle = Buffer.from(createAuthority(validity).cert).toString('base64');
const serving = createServing(authority, { dnsNames: ['hook.a.svc'], ipAddresses: ['127.0.0.1'] }, validity);
const named = createServing(authority, { dnsNames: ['hook.a.svc'], ipAddresses: [] }, validity);

const REVIEW = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: { uid: 'u', allowed: true } };

interface Seen {
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
  readonly clientPort: number | undefined;
}

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const json =
  (body: unknown, status = 200, contentType = 'application/json'): Answer =>
  (response) => {
    response.writeHead(status, { 'content-type': contentType });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };

describe('webhook calls over HTTPS', () => {
  let seen: Seen[] = [];
  let answer: Answer = json(REVIEW);
  let server: Server;
  let caller: HttpsCaller;
  let port = 0;
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { url, headers, socket } = request;
      seen.push({ url, headers, body: Buffer.concat(chunks).toString(), clientPort: socket.remotePort });
      answer(response, request);
    });
  };

  before(async () => {
    server = createServer(serving, listener);
    port = await open(server);
    caller = createHttpsCaller(({ namespace, name, port: servicePort }) =>
      `${name}.${namespace}:${servicePort}` === 'hook.a:443' ? { host: '127.0.0.1', port } : undefined,
    );
  });
  after(async () => {
    caller.close();
    await close(server);
  });

  const call = (clientConfig: object, timeoutMs = 5000, signal = new AbortController().signal) =>
    caller.call({ clientConfig: clientConfig as JsonObject, review: { the: 'review' }, timeoutMs, signal });
  const url = (path: string, more: object = { caBundle }): object => ({
    url: `https://127.0.0.1:${port}${path}`,
    ...more,
  });

  test('share one connection', async () => {
    seen = [];
    answer = json(REVIEW);
    assert.deepEqual(await call(url('/a')), { ok: true, review: REVIEW });
    await call(url('/b'), 1500);
    assert.deepEqual(
      seen.map((one) => [
        one.url,
        one.body,
        one.headers.accept,
        one.headers['content-type'],
        one.headers['user-agent'],
      ]),
      [
        ['/a?timeout=5s', '{"the":"review"}', 'application/json, */*', 'application/json', 'kube-apiserver-admission'],
        ['/b?timeout=2s', '{"the":"review"}', 'application/json, */*', 'application/json', 'kube-apiserver-admission'],
      ],
    );
    assert.equal(seen[0]?.clientPort, seen[1]?.clientPort);
  });

  test('resolve a Service to the address of its endpoint', async () => {
    seen = [];
    answer = json(REVIEW);
    const service = { namespace: 'a', name: 'hook', path: '/validate', port: 443 };
    assert.deepEqual(await call({ service, caBundle }), { ok: true, review: REVIEW });
    assert.deepEqual([seen[0]?.url, seen[0]?.headers.host], ['/validate?timeout=5s', 'hook.a.svc:443']);
  });

  test('are not sent again after the connection breaks', async () => {
    answer = json(REVIEW);
    await call(url('/a'));
    let calls = 0;
    answer = (_response, request) => {
      calls += 1;
      request.socket.destroy();
    };
    assert.deepEqual(await call(url('/a')), {
      ok: false,
      error: `Post "https://127.0.0.1:${port}/a?timeout=5s": EOF`,
    });
    assert.equal(calls, 1);
  });

  const answers: { name: string; answer: Answer; error: string }[] = [
    { name: '403', answer: json('not you', 403, 'text/plain'), error: 'not you' },
    { name: '503', answer: json('', 503), error: 'the server is currently unable to handle the request' },
    {
      name: 'another version',
      answer: json({ ...REVIEW, apiVersion: 'v9' }),
      error:
        'no kind "AdmissionReview" is registered for version "v9" in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71"',
    },
  ];
  for (const { name, answer: given, error } of answers) {
    test(`fail if the response has ${name}`, async () => {
      answer = given;
      assert.deepEqual(await call(url('/x')), { ok: false, error });
    });
  }

  test('fail if the response does not end before the timeout', async () => {
    answer = (response) => {
      response.writeHead(200);
      response.write('{');
    };
    assert.deepEqual(await call(url('/slow'), 100), {
      ok: false,
      error: `Post "https://127.0.0.1:${port}/slow?timeout=1s": context deadline exceeded`,
    });
  });

  test('end when the request is canceled', async () => {
    answer = () => undefined;
    const abort = new AbortController();
    const called = call(url('/x'), 5000, abort.signal);
    setTimeout(() => abort.abort(), 20);
    assert.deepEqual(await called, {
      ok: false,
      error: `Post "https://127.0.0.1:${port}/x?timeout=5s": context canceled`,
    });
  });

  test('fail if the CA of the certificate is unknown', async () => {
    const error = `Post "https://127.0.0.1:${port}/x?timeout=5s": tls: failed to verify certificate: x509: certificate signed by unknown authority`;
    assert.deepEqual(await call(url('/x', { caBundle: otherBundle })), { ok: false, error });
    assert.deepEqual(await call(url('/x', {})), { ok: false, error });
  });

  test('fail if the certificate is not valid for the IP address', async () => {
    const other = createServer(named, listener);
    const otherPort = await open(other);
    const called = await call({ url: `https://127.0.0.1:${otherPort}/x`, caBundle });
    await close(other);
    assert.deepEqual(called, {
      ok: false,
      error: `Post "https://127.0.0.1:${otherPort}/x?timeout=5s": tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs`,
    });
  });
});

async function open(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function close(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve, reject) => server.close((error) => (error ? reject(error) : resolve())));
}

describe('network errors are formatted as in Go:', () => {
  const failure = (code: string, more: object = {}): Error =>
    Object.assign(new Error(`error of Node: ${code}`), { code, ...more });
  const openSsl = (problem: string, alert?: number): Error => {
    const data = alert === undefined ? '' : `SSL alert number ${alert}`;
    const message = `write EPROTO 40ED:error:0A000410:SSL routines:${problem}:../record/rec_layer_s3.c:918:${data}\n`;
    return Object.assign(new Error(message), { code: 'EPROTO' });
  };
  const cases: [name: string, error: unknown, text: string][] = [
    ['an unknown host', failure('ENOTFOUND'), 'dial tcp: lookup hook.example.com: no such host'],
    ['a resolver that does not respond', failure('EAI_AGAIN'), 'dial tcp: lookup hook.example.com: no such host'],
    [
      'a host without a route',
      failure('EHOSTUNREACH', { address: '10.0.0.1', port: 443 }),
      'dial tcp 10.0.0.1:443: connect: no route to host',
    ],
    [
      'an unreachable network',
      failure('ENETUNREACH', { address: 'fe80::1', port: 1 }),
      'dial tcp [fe80::1]:1: connect: network is unreachable',
    ],
    [
      'a server that does not answer',
      failure('ETIMEDOUT', { address: '10.0.0.1', port: 443 }),
      'dial tcp 10.0.0.1:443: i/o timeout',
    ],
    [
      'several addresses',
      new AggregateError([failure('ECONNREFUSED', { address: '::1', port: 1 }), failure('ECONNREFUSED')]),
      'dial tcp [::1]:1: connect: connection refused',
    ],
    [
      'a connection reset',
      Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }),
      'read: connection reset by peer',
    ],
    [
      'an expired certificate',
      failure('CERT_HAS_EXPIRED'),
      'tls: failed to verify certificate: x509: certificate has expired or is not yet valid: error of Node: CERT_HAS_EXPIRED',
    ],
    [
      'a server without TLS',
      openSsl('tls_validate_record_header:wrong version number'),
      'http: server gave HTTP response to HTTPS client',
    ],
    [
      'a server that requires another cipher suite or a client certificate',
      openSsl('ssl3_read_bytes:ssl/tls alert handshake failure', 40),
      'remote error: tls: handshake failure',
    ],
    [
      'a server that requires TLS 1.3',
      openSsl('ssl3_read_bytes:tlsv1 alert protocol version', 70),
      'remote error: tls: protocol version not supported',
    ],
    [
      'a server that does not trust the client certificate',
      openSsl('ssl3_read_bytes:tlsv1 alert unknown ca', 48),
      'remote error: tls: unknown certificate authority',
    ],
    [
      'a server without a certificate for the name',
      openSsl('ssl3_read_bytes:tlsv1 unrecognized name', 112),
      'remote error: tls: unrecognized name',
    ],
    [
      'a server that supports only TLS 1.0',
      openSsl('tls_process_server_hello:unsupported protocol'),
      'tls: unsupported protocol',
    ],
    ['an unknown error', new Error('odd'), 'odd'],
  ];
  for (const [name, error, text] of cases) {
    test(name, () => assert.equal(networkError(error, 'https://hook.example.com/x'), text));
  }

  for (const [names, text] of [
    ['DNS:a.test', "cannot validate certificate for fd00::1 because it doesn't contain any IP SANs"],
    ['DNS:a.test, IP Address:FD00:0:0:0:0:0:0:2', 'certificate is valid for fd00::2, not fd00::1'],
  ] as const) {
    test(`a certificate with ${names} for a server with an IPv6 address`, () => {
      const error = failure('ERR_TLS_CERT_ALTNAME_INVALID', { cert: { subjectaltname: names } });
      assert.equal(networkError(error, 'https://[fd00::1]:6443'), `tls: failed to verify certificate: x509: ${text}`);
    });
  }
});
