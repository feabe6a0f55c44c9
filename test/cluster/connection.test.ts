import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createPlainServer } from 'node:http';
import { connect as dial, createServer as createTcpServer, type AddressInfo } from 'node:net';
import { writeFile } from 'node:fs/promises';
import { after, before, describe, test, suite } from 'node:test';
import { connect, type Connection, type ConnectOptions, parseWarnings } from '../../src/cluster/connection.ts';
import { UserError } from '../../src/config/files.ts';
import { ApiError } from '../../src/kube/status.ts';
import { createAuthority } from '../../src/tls/issue.ts';
import { json, startScriptedServer, type Responder, type ScriptedServer } from '../support/scripted-server.ts';
import { warningHeader } from '../../src/dev-cluster/server.ts';

const GET = { method: 'GET', path: '/api/v1/pods' } as const;

let server: ScriptedServer;
const connections: Connection[] = [];

before(async () => void (server = await startScriptedServer()));
after(async () => {
  for (const connection of connections) connection.close();
  await server.stop();
});

async function connectTo(kubeconfig: string, options: Partial<ConnectOptions> = {}): Promise<Connection> {
  const connection = await connect({ kubeconfig, env: {}, userAgent: 'portcullis/test', ...options });
  connections.push(connection);
  return connection;
}

const status = (code: number, reason: string, message: string) => ({
  kind: 'Status',
  status: 'Failure',
  code,
  reason,
  message,
});

describe('responses', () => {
  const failures: readonly (readonly [name: string, answer: Responder, code: number, message: string])[] = [
    ['403 with a Status', json(status(403, 'Forbidden', 'no'), 403), 403, 'no'],
    ['401 with a Status', json(status(401, 'Unauthorized', 'Unauthorized'), 401), 401, 'Unauthorized'],
    ['a 404 without a Status', json('404 page not found\n', 404), 404, '404 page not found'],
    ['an error without a body', json('', 502), 502, 'HTTP status 502'],
    ['an error with an HTML page', json(`<html>\n${'x'.repeat(500)}</html>`, 500), 500, `<html> ${'x'.repeat(193)}`],
    ['a redirect', json('', 302, { location: 'https://127.0.0.1/login' }), 302, 'HTTP status 302'],
    ['503 without Retry-After', json(status(503, 'X', 'busy'), 503), 503, 'busy'],
    [
      'Retry-After with a date',
      json(status(429, 'X', 'busy'), 429, { 'retry-after': 'Fri, 01 Jan 2100 00:00:00 GMT' }),
      429,
      'busy',
    ],
  ];
  for (const [name, answer, code, message] of failures) {
    test(`${name} is an ApiError`, async () => {
      const { request } = await connectTo(await server.kubeconfig());
      server.respond(answer);
      const error = await request(GET).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      assert.ok(error instanceof ApiError);
      assert.deepEqual([error.status.code, error.message, server.requests.length], [code, message, 1]);
    });
  }

  test('unknown fields of a response are kept', async () => {
    const { request } = await connectTo(await server.kubeconfig());
    server.respond(json('{"kind":"PodList","items":[{"spec":{"new":1,"__proto__":2}}]}'));
    const list = await request({ ...GET, query: { limit: '5', continue: 'a/b=' } });
    assert.equal(JSON.stringify(list), '{"kind":"PodList","items":[{"spec":{"new":1,"__proto__":2}}]}');
    const { url, headers, method } = server.requests[0] ?? assert.fail();
    assert.equal(`${method} ${url}`, 'GET /api/v1/pods?limit=5&continue=a%2Fb%3D');
    assert.equal(headers.accept, 'application/json');
    assert.equal(headers['user-agent'], 'portcullis/test');
    assert.equal(headers.authorization, undefined);
  });

  test('a body is sent as JSON', async () => {
    const { request } = await connectTo(await server.kubeconfig());
    server.respond(json({}));
    await request({ method: 'POST', path: '/x', body: { a: 'ü' } });
    const { headers, body } = server.requests[0] ?? assert.fail();
    assert.deepEqual(
      [headers['content-type'], headers['content-length'], body],
      ['application/json', '10', '{"a":"ü"}'],
    );
  });

  test('connections are kept', async () => {
    const { request } = await connectTo(await server.kubeconfig());
    server.respond(json({}));
    await request(GET);
    await request(GET);
    await request(GET);
    assert.equal(new Set(server.requests.map(({ clientPort }) => clientPort)).size, 1);
  });

  test('the URL of a server may have a path', async () => {
    const { request } = await connectTo(await server.kubeconfig({ server: `${server.url}/k8s/clusters/c-1/` }));
    server.respond(json({}));
    await request(GET);
    assert.equal(server.requests[0]?.url, '/k8s/clusters/c-1/api/v1/pods');
  });
});

describe('a busy server', () => {
  const busy = (code: number): Responder => json(status(code, 'TooManyRequests', 'busy'), code, { 'retry-after': '0' });

  for (const code of [429, 503]) {
    test(`is retried after ${code}`, async () => {
      const { request } = await connectTo(await server.kubeconfig());
      server.respond(busy(code), busy(code), json({ done: true }));
      assert.deepEqual(await request(GET), { done: true });
      assert.equal(server.requests.length, 3);
    });
  }

  test('is not called before Retry-After has passed', async () => {
    const { request } = await connectTo(await server.kubeconfig());
    server.respond(json(status(429, 'X', 'busy'), 429, { 'retry-after': '1' }), json({}));
    const start = performance.now();
    await request(GET);
    assert.ok(performance.now() - start >= 990);
  });

  test('is retried ten times', async () => {
    const { request } = await connectTo(await server.kubeconfig());
    server.respond(busy(429));
    await assert.rejects(request(GET), { name: 'ApiError', message: 'busy' });
    assert.equal(server.requests.length, 11);
  });

  for (const seconds of ['99999', '61']) {
    test(`is not retried after ${seconds} s`, async () => {
      const { request } = await connectTo(await server.kubeconfig());
      server.respond(json(status(429, 'X', 'busy'), 429, { 'retry-after': seconds }));
      await assert.rejects(request(GET), {
        name: 'ApiError',
        message: `busy (the server asks for a retry in ${seconds} s, which exceeds the limit)`,
      });
      assert.equal(server.requests.length, 1);
    });
  }

  test('is not retried for more than a minute in total', async () => {
    const { request } = await connectTo(await server.kubeconfig());
    const busyFor = (seconds: string) => json(status(503, 'X', 'busy'), 503, { 'retry-after': seconds });
    server.respond(busyFor('1'), busyFor('60'));
    await assert.rejects(request(GET), {
      name: 'ApiError',
      message: 'busy (the server asks for a retry in 60 s, which exceeds the limit)',
    });
    assert.equal(server.requests.length, 2);
  });

  test('is not retried after the signal is aborted', async () => {
    const { request } = await connectTo(await server.kubeconfig());
    server.respond(json(status(429, 'X', 'busy'), 429, { 'retry-after': '50' }));
    const stopping = new AbortController();
    setTimeout(() => stopping.abort(), 50);
    await assert.rejects(request({ ...GET, signal: stopping.signal }), { name: 'AbortError' });
  });
});

describe('a server that cannot be reached', () => {
  async function failureOf(kubeconfig: string, options: Partial<ConnectOptions> = {}): Promise<string> {
    const { request } = await connectTo(kubeconfig, options);
    const error = await request(GET).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof UserError, String(error));
    return error.message.replaceAll(server.url, '<server>');
  }

  test('the connection is refused', async () => {
    const closed = createTcpServer();
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
    const { port } = closed.address() as AddressInfo;
    await new Promise((resolve) => closed.close(resolve));
    assert.equal(
      await failureOf(await server.kubeconfig({ server: `https://127.0.0.1:${port}` })),
      `Unable to connect to the server: dial tcp 127.0.0.1:${port}: connect: connection refused`,
    );
  });

  test('an unknown authority', async () => {
    const { cert } = createAuthority({ now: new Date(), days: 1 });
    assert.equal(
      await failureOf(await server.kubeconfig({ 'certificate-authority-data': Buffer.from(cert).toString('base64') })),
      'Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by unknown authority',
    );
  });

  test('a certificate for another name', async () => {
    assert.equal(
      await failureOf(await server.kubeconfig({ 'tls-server-name': 'other.test' })),
      'Unable to connect to the server: tls: failed to verify certificate: x509: certificate is valid for api.test, not other.test',
    );
  });

  test('an authority that is not a certificate', async () => {
    const message = await failureOf(await server.kubeconfig({ 'certificate-authority-data': 'eHg=' }));
    assert.match(message, /^the certificates for <server> cannot be used: /);
  });

  test('a missing file of the authority', async () => {
    const changed = { 'certificate-authority-data': undefined, 'certificate-authority': '/nowhere/ca.crt' };
    assert.equal(
      await failureOf(await server.kubeconfig(changed)),
      'cannot read /nowhere/ca.crt: there is no such file',
    );
  });

  test('a client certificate without a key', async () => {
    const pair = { 'client-certificate-data': Buffer.from(server.authority).toString('base64') };
    assert.equal(
      await failureOf(await server.kubeconfig({}, pair)),
      'the credentials for <server> contain only one of client-certificate and client-key',
    );
  });

  test('no response', async () => {
    server.respond(() => undefined);
    assert.equal(
      await failureOf(await server.kubeconfig(), { timeoutMs: 100 }),
      'Unable to connect to the server: no response from <server> within 0.1 s',
    );
  });

  test('an incomplete response', async () => {
    server.respond((response) => void response.writeHead(200, { 'content-length': '100' }).write('{'));
    assert.equal(
      await failureOf(await server.kubeconfig(), { timeoutMs: 100 }),
      'Unable to connect to the server: no response from <server> within 0.1 s',
    );
  });

  test('a closed connection', async () => {
    server.respond((response) => response.destroy());
    assert.equal(await failureOf(await server.kubeconfig()), 'Unable to connect to the server: EOF');
  });

  test('a connection that closes during the response', async () => {
    server.respond((response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{', () => response.destroy());
    });
    assert.equal(await failureOf(await server.kubeconfig()), 'Unable to connect to the server: unexpected EOF');
  });

  test('a response that is not JSON', async () => {
    server.respond(json('<html></html>'));
    assert.equal(
      await failureOf(await server.kubeconfig()),
      'the response of <server> is not JSON: is it a Kubernetes API server?',
    );
  });

  test('an aborted signal', async () => {
    server.respond(() => undefined);
    const { request } = await connectTo(await server.kubeconfig());
    const stopping = new AbortController();
    setTimeout(() => stopping.abort(), 50);
    await assert.rejects(request({ ...GET, signal: stopping.signal }), { name: 'AbortError' });
  });
});

test('a GET is repeated if the server closes the kept connection', async () => {
  const { request } = await connectTo(await server.kubeconfig());
  server.respond(json({}), (_response, { socket }) => socket.destroy(), json({ again: true }));
  await request(GET);
  assert.deepEqual(await request(GET), { again: true });
  assert.equal(server.requests.length, 3);
});

describe('credentials', () => {
  async function headersFor(user: object): Promise<readonly (string | readonly string[] | undefined)[]> {
    server.respond(json({}));
    const { request } = await connectTo(await server.kubeconfig({}, user));
    await request(GET);
    const { headers } = server.requests.at(-1) ?? assert.fail();
    const shown = Object.entries(headers).filter(([name]) => /^authorization$|^impersonate/.test(name));
    return shown.map(([name, value]) => `${name}: ${String(value)}`);
  }

  test('a token', async () => assert.deepEqual(await headersFor({ token: 'abc' }), ['authorization: Bearer abc']));

  test('a username and a password', async () => {
    const expected = `authorization: Basic ${Buffer.from('alice:secret').toString('base64')}`;
    assert.deepEqual(await headersFor({ username: 'alice', password: 'secret' }), [expected]);
  });

  test('a renewed token file is in effect after a while, and a token file precedes a token', async (t) => {
    t.mock.timers.enable({ apis: ['Date'] });
    const tokenFile = await server.file('token', 'first\n');
    server.respond(json({}));
    const { request } = await connectTo(await server.kubeconfig({}, { tokenFile, token: 'old' }));
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

  test('impersonation with UID, groups and extra fields', async () => {
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

  test('an exec plugin returns a token and receives the cluster', async () => {
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

  const broken: readonly (readonly [name: string, program: string, message: RegExp])[] = [
    ['fails', `console.error('not logged in'); process.exit(1)`, /^the credential plugin \S+ failed: not logged in$/],
    ['prints nothing', ``, /^the credential plugin \S+ failed: .*JSON/],
    ['prints another object', `console.log('{}')`, /^the credential plugin \S+ failed: /],
  ];
  for (const [name, program, message] of broken) {
    test(`a plugin that ${name}`, async () => {
      const command = await server.file('plugin', `#!${process.execPath}\n${program}\n`);
      const { request } = await connectTo(await server.kubeconfig({}, { exec: { command } }));
      await assert.rejects(request(GET), (error: unknown) => error instanceof UserError && message.test(error.message));
    });
  }

  test('a plugin that is missing', async () => {
    const { request } = await connectTo(await server.kubeconfig({}, { exec: { command: 'no-such-plugin' } }));
    await assert.rejects(request(GET), {
      name: 'UserError',
      message: 'the credential plugin no-such-plugin failed: spawn no-such-plugin ENOENT',
    });
  });

  test('credentials are not sent without encryption', async () => {
    const seen: (string | undefined)[] = [];
    const plain = createPlainServer(({ headers }, response) => {
      seen.push(headers.authorization);
      response.end('{}');
    });
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve));
    const { port } = plain.address() as AddressInfo;
    const { request } = await connectTo(
      await server.kubeconfig({ server: `http://127.0.0.1:${port}` }, { token: 'abc' }),
    );
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
  server.respond(json({}));

  const named = await connectTo(await server.kubeconfig({ 'proxy-url': url }));
  assert.deepEqual(await named.request(GET), {});
  const byEnvironment = await connectTo(await server.kubeconfig({ server: 'https://api.test' }), {
    env: { HTTPS_PROXY: url },
  });
  assert.deepEqual(await byEnvironment.request(GET), {});
  const here = await connectTo(await server.kubeconfig(), { env: { HTTPS_PROXY: url } });
  assert.deepEqual(await here.request(GET), {});
  assert.deepEqual(targets, [new URL(server.url).host, 'api.test:443']);
  proxy.closeAllConnections();
  proxy.close();
});

const CASES: readonly (readonly [name: string, headers: readonly string[], texts: readonly string[]])[] = [
  ['none', [], []],
  ['one', ['299 - "existing pods violate"'], ['existing pods violate']],
  ['several headers', ['299 - "a"', '299 - "b"'], ['a', 'b']],
  ['several in one header', ['299 - "a, b", 299 kube "c"'], ['a, b', 'c']],
  ['quotes and backslashes', ['299 - "namespace \\"shop\\" \\\\ x"'], ['namespace "shop" \\ x']],
  ['a warning with a date', ['299 - "a" "Sat, 21 Nov 2026 18:00:00 GMT"'], ['a']],
  ['an empty warning', ['299 - ""'], ['']],
  ['malformed warnings', ['299 existing pods', '', '"a"', '299 - "open'], []],
];

suite('warnings of an API server', () => {
  for (const [name, headers, texts] of CASES) {
    test(name, () => assert.deepEqual(parseWarnings(headers), texts));
  }

  test('from the development cluster', () => {
    const text = 'namespace "shöp": \\ ✓';
    assert.deepEqual(parseWarnings([warningHeader(text)]), [text]);
  });
});
