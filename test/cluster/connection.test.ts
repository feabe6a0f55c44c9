import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer as createPlainServer } from 'node:http';
import { type AddressInfo, connect as dial, createServer as createTcpServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { resolveCluster } from '../../src/cluster/cluster-source.ts';
import type { Connection } from '../../src/cluster/connection.ts';
import { isWithoutProxy } from '../../src/cluster/no-proxy.ts';
import { ApiError, ConnectionError } from '../../src/kube/status.ts';
import { UserError } from '../../src/kube/user-error.ts';
import { createAuthority } from '../../src/tls/issue.ts';
import {
  type ConnectionSetup,
  json,
  type Responder,
  type ScriptedServer,
  startScriptedServer,
} from '../support/scripted-server.ts';

const GET = { method: 'GET', path: '/api/v1/pods' } as const;

let server: ScriptedServer;
before(async () => void (server = await startScriptedServer()));
after(() => server.stop());

/** Sets the responses of the server, and connects to the server. */
async function connectTo(responders: readonly Responder[], setup?: ConnectionSetup): Promise<Connection> {
  server.respond(...responders);
  return server.connect(setup);
}

/** Returns the error of a rejected request. */
async function failure(request: Promise<unknown>): Promise<Error> {
  const error = await request.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof Error);
  return error;
}

/** Sends a request whose signal is aborted after 50 ms. */
async function abortedRequest(responder: Responder): Promise<void> {
  const { request } = await connectTo([responder]);
  const stopping = new AbortController();
  setTimeout(() => stopping.abort(), 50);
  await assert.rejects(request({ ...GET, signal: stopping.signal }), { name: 'AbortError' });
}

const status = (code: number, reason: string, message: string) => ({
  kind: 'Status',
  status: 'Failure',
  code,
  reason,
  message,
});

describe('a connection', () => {
  const DATE = { 'retry-after': 'Fri, 01 Jan 2100 00:00:00 GMT' };
  const failures: readonly (readonly [name: string, answer: Responder, code: number, message: string])[] = [
    ['status 403 with a Status', json(status(403, 'Forbidden', 'no'), 403), 403, 'no'],
    ['an error without a body', json('', 502), 502, 'HTTP status 502'],
    ['an error with an HTML page', json(`<html>\n${'x'.repeat(500)}</html>`, 500), 500, `<html> ${'x'.repeat(193)}`],
    ['a redirect', json('', 302, { location: 'https://127.0.0.1/login' }), 302, 'HTTP status 302'],
    ['status 503 without Retry-After', json(status(503, 'X', 'busy'), 503), 503, 'busy'],
    ...['1e9', -5, 0.5, {}].map(
      (seconds) =>
        [
          `an invalid delay in the body: ${JSON.stringify(seconds)}`,
          json({ kind: 'Status', message: 'busy', details: { retryAfterSeconds: seconds } }, 429),
          429,
          'busy',
        ] as const,
    ),
    ['a date in Retry-After', json(status(429, 'X', 'busy'), 429, DATE), 429, 'busy'],
  ];
  for (const [name, answer, code, message] of failures) {
    test(`rejects with an ApiError for ${name}`, async () => {
      const { request } = await connectTo([answer]);
      const error = await failure(request(GET));
      assert.ok(error instanceof ApiError);
      assert.deepEqual([error.status.code, error.message, server.requests.length], [code, message, 1]);
    });
  }

  test('keeps unknown fields of a response', async () => {
    const text = '{"kind":"PodList","items":[{"spec":{"new":1,"__proto__":2}}]}';
    const { request } = await connectTo([json(text)]);
    const list = await request({ ...GET, query: { limit: '5', continue: 'a/b=' } });
    assert.equal(JSON.stringify(list), text);
    const { url, headers, method } = server.requests[0] ?? assert.fail();
    assert.equal(`${method} ${url}`, 'GET /api/v1/pods?limit=5&continue=a%2Fb%3D');
    const { accept, 'user-agent': userAgent, authorization } = headers;
    assert.deepEqual([accept, userAgent, authorization], ['application/json', 'portcullis/test', undefined]);
  });

  test('sends a body as JSON', async () => {
    const { request } = await connectTo([json({})]);
    await request({ method: 'POST', path: '/x', body: { a: 'ü' } });
    const { headers, body } = server.requests[0] ?? assert.fail();
    const { 'content-type': type, 'content-length': length } = headers;
    assert.deepEqual([type, length, body], ['application/json', '10', '{"a":"ü"}']);
  });

  test('accepts a server URL with a path', async () => {
    const { request } = await connectTo([json({})], { cluster: { server: `${server.url}/k8s/clusters/c-1/` } });
    await request(GET);
    assert.equal(server.requests[0]?.url, '/k8s/clusters/c-1/api/v1/pods');
  });
});

describe('a request that a busy server rejects', () => {
  const busy = (code: number, seconds: string): Responder =>
    json(status(code, 'TooManyRequests', 'busy'), code, { 'retry-after': seconds });

  for (const code of [429, 503]) {
    test(`is retried after ${code}`, async () => {
      const { request } = await connectTo([busy(code, '0'), busy(code, '0'), json({ done: true })]);
      assert.deepEqual(await request(GET), { done: true });
      assert.equal(server.requests.length, 3);
    });
  }

  test('is not sent again before the time in Retry-After has passed', async () => {
    const { request } = await connectTo([busy(429, '1'), json({})]);
    const start = performance.now();
    await request(GET);
    assert.ok(performance.now() - start >= 990);
  });

  const exceeded = (seconds: number): string => `busy (Retry-After is ${seconds} s, which exceeds the limit)`;
  const limits: readonly (readonly [name: string, answers: readonly Responder[], message: string, requests: number])[] =
    [
      ['at most ten times', [busy(429, '0')], 'busy', 11],
      ['only if Retry-After is at most one minute', [busy(429, '61')], exceeded(61), 1],
      ['for at most one minute in total', [busy(503, '1'), busy(503, '60')], exceeded(60), 2],
    ];
  for (const [name, answers, message, requests] of limits) {
    test(`is retried ${name}`, async () => {
      const { request } = await connectTo(answers);
      await assert.rejects(request(GET), { name: 'ApiError', message });
      assert.equal(server.requests.length, requests);
    });
  }

  test('is not retried once the signal is aborted', () => abortedRequest(busy(429, '50')));
});

describe('a failed request reports the cause:', () => {
  const UNREACHABLE = 'Unable to connect to the server: ';
  const UNTRUSTED = `${UNREACHABLE}tls: failed to verify certificate: x509: certificate`;
  const TIMEOUT = `${UNREACHABLE}no response from <server> within 0.1 s`;
  const { cert } = createAuthority({ now: new Date(), days: 1 });
  const authority = (pem: string) => ({ 'certificate-authority-data': Buffer.from(pem).toString('base64') });
  const noFile = { 'certificate-authority-data': undefined, 'certificate-authority': '/nowhere/ca.crt' };
  const noKey = { 'client-certificate-data': authority(cert)['certificate-authority-data'] };
  const silent: Responder = () => undefined;
  const incomplete: Responder = (response) => void response.writeHead(200, { 'content-length': '100' }).write('{');
  const aborting: Responder = (response) => {
    response.writeHead(200, { 'content-length': '100' }).write('{', () => response.destroy());
  };
  const cases: readonly (readonly [
    name: string,
    setup: ConnectionSetup,
    message: string | RegExp,
    responder?: Responder,
  ])[] = [
    ['an unknown CA', { cluster: authority(cert) }, `${UNTRUSTED} signed by unknown authority`],
    [
      'a certificate for another name',
      { cluster: { 'tls-server-name': 'other.test' } },
      `${UNTRUSTED} is valid for api.test, not other.test`,
    ],
    ['a CA that is not a certificate', { cluster: authority('x') }, /^the certificates for <server> cannot be used: /],
    ['a missing CA file', { cluster: noFile }, 'cannot read /nowhere/ca.crt: there is no such file'],
    [
      'a client certificate without a key',
      { user: noKey },
      'the credentials for <server> contain only one of client-certificate and client-key',
    ],
    ['a missing response', { timeoutMs: 100 }, TIMEOUT, silent],
    ['an incomplete response', { timeoutMs: 100 }, TIMEOUT, incomplete],
    ['a closed connection', {}, `${UNREACHABLE}EOF`, (response) => response.destroy()],
    ['a connection that closes during the response', {}, `${UNREACHABLE}unexpected EOF`, aborting],
    [
      'a response that is not JSON',
      {},
      'the response of <server> is not JSON: is it a Kubernetes API server?',
      json('<html></html>'),
    ],
  ];
  for (const [name, setup, message, responder = json({})] of cases) {
    test(name, async () => {
      const { request } = await connectTo([responder], setup);
      const error = await failure(request(GET));
      assert.ok(error instanceof ConnectionError || error instanceof UserError);
      const shown = error.message.replaceAll(server.url, '<server>');
      if (typeof message === 'string') assert.equal(shown, message);
      else assert.match(shown, message);
    });
  }

  test('a refused connection', async () => {
    const closed = createTcpServer();
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    const { request } = await connectTo([json({})], { cluster: { server: `https://127.0.0.1:${port}` } });
    const { message } = await failure(request(GET));
    assert.equal(message, `${UNREACHABLE}dial tcp 127.0.0.1:${port}: connect: connection refused`);
  });

  test('an aborted signal', () => abortedRequest(silent));
});

test('a GET is retried if the server closes the idle connection', async () => {
  const { request } = await connectTo([json({}), (_response, { socket }) => socket.destroy(), json({ again: true })]);
  await request(GET);
  assert.deepEqual(await request(GET), { again: true });
  assert.equal(server.requests.length, 3);
});

describe('credentials', () => {
  async function headersFor(user: object): Promise<readonly (string | readonly string[] | undefined)[]> {
    const { request } = await connectTo([json({})], { user });
    await request(GET);
    const { headers } = server.requests.at(-1) ?? assert.fail();
    const shown = Object.entries(headers).filter(([name]) => /^authorization$|^impersonate/.test(name));
    return shown.map(([name, value]) => `${name}: ${String(value)}`);
  }

  test('a token is sent as a bearer token', async () =>
    assert.deepEqual(await headersFor({ token: 'abc' }), ['authorization: Bearer abc']));

  test('a username and a password are sent as basic credentials', async () => {
    const expected = `authorization: Basic ${Buffer.from('alice:secret').toString('base64')}`;
    assert.deepEqual(await headersFor({ username: 'alice', password: 'secret' }), [expected]);
  });

  test('a renewed token file takes effect, and takes precedence over a static token', async (t) => {
    t.mock.timers.enable({ apis: ['Date'] });
    const tokenFile = await server.file('token', 'first\n');
    const { request } = await connectTo([json({})], { user: { tokenFile, token: 'old' } });
    await request(GET);
    await writeFile(tokenFile, 'second\n');
    await request(GET);
    t.mock.timers.tick(61_000);
    await request(GET);
    assert.deepEqual(
      server.requests.map(({ headers }) => headers.authorization),
      ['Bearer first', 'Bearer first', 'Bearer second'],
    );
  });

  test('connections on which a CA that was replaced verified the server are closed', async (t) => {
    t.mock.timers.enable({ apis: ['Date'] });
    const file = await server.file('ca.crt', server.authority);
    const closed: Promise<unknown>[] = [];
    const { request } = await connectTo(
      [
        (response, received) => {
          closed.push(once(received.socket, 'close'));
          response.end('{}');
        },
      ],
      { cluster: { 'certificate-authority-data': undefined, 'certificate-authority': file } },
    );
    await request(GET);
    await writeFile(file, `${server.authority}\n`);
    t.mock.timers.tick(61_000);
    await request(GET);
    await closed[0];
    assert.equal(closed.length, 2);
  });

  test('impersonation headers contain the user, UID, groups and extra fields', async () => {
    const user = {
      token: 'abc',
      as: 'bob',
      'as-uid': '7',
      'as-groups': ['dev', 'ops'],
      'as-user-extra': { 'example.org/a b': ['x', 'y'] },
    };
    assert.deepEqual(await headersFor(user), [
      'authorization: Bearer abc',
      'impersonate-user: bob',
      'impersonate-uid: 7',
      'impersonate-group: dev, ops',
      'impersonate-extra-example.org%2fa%20b: x, y',
    ]);
  });

  test('an exec plugin receives the cluster and returns a token', async () => {
    const program = `#!${process.execPath}
const { spec, apiVersion } = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
const token = [process.argv[2], process.env.FLAVOUR, spec.interactive, spec.cluster.server].join(' ');
console.log(JSON.stringify({ apiVersion, kind: 'ExecCredential', status: { token } }));
`;
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: await server.file('plugin', program),
      args: ['argument'],
      env: [{ name: 'FLAVOUR', value: 'sweet' }],
      provideClusterInfo: true,
    };
    assert.deepEqual(await headersFor({ exec }), [`authorization: Bearer argument sweet false ${server.url}`]);
  });

  test('an exec plugin receives the CA from a file, the proxy and the configuration in the extension', async () => {
    const program = `#!${process.execPath}
const { cluster } = JSON.parse(process.env.KUBERNETES_EXEC_INFO).spec;
console.log(JSON.stringify({ kind: 'ExecCredential', status: { token: JSON.stringify(cluster) } }));
`;
    const kubeconfig = JSON.stringify({
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'a', user: 'u' } }],
      clusters: [
        {
          name: 'a',
          cluster: {
            server: 'https://a.test',
            'certificate-authority': await server.file('authority', 'the authority'),
            'proxy-url': 'http://proxy.test',
            extensions: [
              { name: 'other', extension: { audience: 'b' } },
              { name: 'client.authentication.k8s.io/exec', extension: { audience: 'a' } },
            ],
          },
        },
      ],
      users: [
        { name: 'u', user: { exec: { command: await server.file('plugin', program), provideClusterInfo: true } } },
      ],
    });
    const { credentials } = await resolveCluster({ kubeconfig: await server.file('kubeconfig', kubeconfig), env: {} });
    const { authorization = '' } = (await credentials()).headers;
    assert.deepEqual(JSON.parse(authorization.replace('Bearer ', '')), {
      server: 'https://a.test',
      'certificate-authority-data': Buffer.from('the authority').toString('base64'),
      'insecure-skip-tls-verify': false,
      'proxy-url': 'http://proxy.test',
      config: { audience: 'a' },
    });
  });

  const broken: readonly (readonly [name: string, program: string | undefined, reason: RegExp])[] = [
    ['fails', `console.error('not logged in'); process.exit(1)`, /not logged in$/],
    ['prints nothing', ``, /.*JSON/],
    ['prints another object', `console.log('{}')`, /./],
    ['is missing', undefined, /spawn no-such-plugin ENOENT$/],
  ];
  for (const [name, program, reason] of broken) {
    test(`an exec plugin that ${name} is an error`, async () => {
      const text = `#!${process.execPath}\n${program}\n`;
      const command = program === undefined ? 'no-such-plugin' : await server.file('plugin', text);
      const { request } = await connectTo([json({})], { user: { exec: { command } } });
      const message = new RegExp(`^the credential plugin \\S+ failed: ${reason.source}`);
      await assert.rejects(request(GET), { name: 'UserError', message });
    });
  }

  test('credentials are not sent over unencrypted connections', async () => {
    const seen: (string | undefined)[] = [];
    const plain = createPlainServer(({ headers }, response) => {
      seen.push(headers.authorization);
      response.end('{}');
    });
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    const { port } = plain.address() as AddressInfo;
    const setup = { cluster: { server: `http://127.0.0.1:${port}` }, user: { token: 'abc' } };
    const { request } = await connectTo([json({})], setup);
    assert.deepEqual(await request(GET), {});
    assert.deepEqual(seen, [undefined]);
    plain.closeAllConnections();
    plain.close();
  });
});

test('requests through a proxy are encrypted end to end', async () => {
  const targets: (string | undefined)[] = [];
  const proxy = createPlainServer();
  proxy.on('connect', ({ url }, socket) => {
    targets.push(url);
    const { port } = new URL(server.url);
    const onwards = dial(Number(port), '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'));
    socket.pipe(onwards).pipe(socket);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const env = { HTTPS_PROXY: url };
  // For Node, this variable also contains the domain itself.
  const parent = { cluster: { server: 'https://api.test' }, env: { ...env, NO_PROXY: '.api.test' } };
  for (const setup of [
    { cluster: { 'proxy-url': url } },
    { cluster: { server: 'https://api.test' }, env },
    parent,
    { env },
  ]) {
    const { request } = await connectTo([json({})], setup);
    assert.deepEqual(await request(GET), {});
  }
  const direct = await connectTo([], {
    cluster: { server: 'https://api.corp.test' },
    env: { ...env, no_proxy: 'corp.test' },
  });
  await assert.rejects(direct.request(GET), /lookup api\.corp\.test: no such host$/);
  assert.deepEqual(targets, [new URL(server.url).host, 'api.test:443', 'api.test:443']);
  proxy.closeAllConnections();
  proxy.close();
});

describe('NO_PROXY has the same meaning as in Go', () => {
  const cases: readonly (readonly [noProxy: string, server: string, isDirect: boolean])[] = [
    ['10.0.0.0/8', 'https://10.1.2.3:6443', true],
    ['192.168.0.0/16', 'https://10.1.2.3:6443', false],
    ['10.0.0.0/99', 'https://10.1.2.3:6443', false],
    ['fd00::/8', 'https://[fd00::1]:6443', true],
    ['fd00::/8', 'https://10.1.2.3:6443', false],
    ['other.test, 10.1.2.3', 'https://10.1.2.3:6443', true],
    ['10.1.2.3:6443', 'https://10.1.2.3:6443', true],
    ['10.1.2.3:443', 'https://10.1.2.3:6443', false],
    ['10.1', 'https://10.1.2.3:6443', false],
    ['fd00::1', 'https://[fd00:0::1]:6443', true],
    ['[fd00::1]:443', 'https://[fd00::1]:6443', false],
    ['corp.test', 'https://corp.test', true],
    ['CORP.test', 'https://api.corp.test', true],
    ['corp.test', 'https://apicorp.test', false],
    ['.corp.test', 'https://api.corp.test', true],
    ['.corp.test', 'https://corp.test', false],
    ['*.corp.test', 'https://api.corp.test', true],
    ['*corp.test', 'https://api.corp.test', false],
    ['corp.test:443', 'https://api.corp.test', true],
    ['corp.test:443', 'http://api.corp.test', false],
    ['*', 'https://api.corp.test', true],
    ['', 'https://api.corp.test', false],
    [',, :443', 'https://api.corp.test', false],
  ];
  for (const [noProxy, target, isDirect] of cases) {
    test(`${JSON.stringify(noProxy)} ${isDirect ? 'contains' : 'does not contain'} ${target}`, () =>
      assert.equal(isWithoutProxy(target, noProxy), isDirect));
  }
});

describe('a request to the address of a single API server verifies the certificate:', () => {
  const address = (): string => new URL(server.url).host;
  const REFUSED = 'Unable to connect to the server: tls: failed to verify certificate: x509: certificate is valid for';
  const cases: readonly (readonly [name: string, cluster: object, result: string])[] = [
    ['the certificate is valid for the name in the URL', { server: 'https://api.test' }, 'host: api.test'],
    [
      'the certificate is valid for tls-server-name',
      { server: 'https://10.0.0.1', 'tls-server-name': 'api.test' },
      'host: 10.0.0.1',
    ],
    ['the certificate is for another name', { server: 'https://other.test' }, `${REFUSED} api.test, not other.test`],
    ['the certificate is for another address', { server: 'https://10.0.0.1' }, `${REFUSED} 127.0.0.1, not 10.0.0.1`],
    [
      'the connection skips the verification',
      { server: 'https://api.test', 'insecure-skip-tls-verify': true, 'certificate-authority-data': undefined },
      'no request was sent to <address>, because the connection to https://api.test does not verify certificates',
    ],
  ];
  for (const [name, cluster, expected] of cases) {
    test(name, async () => {
      const { request } = await connectTo([json({})], { cluster });
      const sent = request({ ...GET, address: address() });
      const result = await sent.then(
        () => `host: ${String(server.requests[0]?.headers.host)}`,
        (error: unknown) => (error instanceof ConnectionError ? error.message.replace(address(), '<address>') : error),
      );
      assert.equal(result, expected);
      assert.equal(server.requests.length, expected.startsWith('host: ') ? 1 : 0);
    });
  }
});
