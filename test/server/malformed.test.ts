/** What is no review, or is too much of one: each gets a clear answer, and the server lives on. Over real sockets. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { allow } from '../../src/kube/admission.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post, sendRaw } from '../support/https.ts';
import { podReview } from '../support/reviews.ts';

interface Case {
  readonly name: string;
  readonly body: string | Buffer;
  readonly contentType?: string | undefined;
  readonly status: number;
  readonly answer: string | RegExp;
}

const json = 'application/json';
const review = (change: Record<string, unknown>): string => JSON.stringify({ ...podReview({}), ...change });
const request = (change: Record<string, unknown>): string =>
  JSON.stringify({ ...podReview({}), request: { ...podReview({}).request, ...change } });

const CASES: readonly Case[] = [
  { name: 'no body', body: '', status: 400, answer: 'request body is empty\n' },
  {
    name: 'no body and no content type',
    body: '',
    contentType: undefined,
    status: 400,
    answer: 'request body is empty\n',
  },
  {
    name: 'a form',
    body: 'a=b',
    contentType: 'application/x-www-form-urlencoded',
    status: 400,
    answer: 'unable to process a request with a non-json content type\n',
  },
  {
    name: 'protobuf',
    body: 'k8s\0',
    contentType: 'application/vnd.kubernetes.protobuf',
    status: 400,
    answer: 'unable to process a request with a non-json content type\n',
  },
  {
    name: 'no content type',
    body: '{}',
    contentType: undefined,
    status: 400,
    answer: 'unable to process a request with a non-json content type\n',
  },
  {
    name: 'a content type that is none',
    body: '{}',
    contentType: 'json',
    status: 400,
    answer: 'unable to process a request with a non-json content type\n',
  },
  {
    name: 'more objects than make sense',
    body: request({ object: { spec: { containers: Array.from({ length: 1_000_001 }, () => ({})) } } }),
    status: 400,
    answer: 'unable to decode the request: the body has more than 1000000 objects and lists\n',
  },
  {
    name: 'JSON cut short',
    body: '{"apiVersion":"admission.k8s.io/v1"',
    status: 400,
    answer: /^unable to decode the request: Expected ',' or '}' after property value in JSON at position 35/,
  },
  {
    name: 'invalid UTF-8',
    body: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
    status: 400,
    answer: 'unable to decode the request: the body is not valid UTF-8\n',
  },
  {
    name: 'UTF-16',
    body: Buffer.from('\ufeff{}', 'utf16le'),
    status: 400,
    answer: 'unable to decode the request: the body is not valid UTF-8\n',
  },
  {
    name: 'a list',
    body: '[]',
    status: 400,
    answer: 'unable to decode the request: the body must be a JSON object of kind AdmissionReview\n',
  },
  {
    name: 'null',
    body: 'null',
    status: 400,
    answer: 'unable to decode the request: the body must be a JSON object of kind AdmissionReview\n',
  },
  {
    name: 'v1beta1',
    body: review({ apiVersion: 'admission.k8s.io/v1beta1' }),
    status: 400,
    answer:
      'unable to decode the request: apiVersion: must be "admission.k8s.io/v1"; set admissionReviewVersions: ["v1"] in the webhook\n',
  },
  {
    name: 'another kind',
    body: review({ kind: 'Pod' }),
    status: 400,
    answer: 'unexpected AdmissionReview kind: admission.k8s.io/v1, Kind=Pod\n',
  },
  {
    name: 'a kind that is no string',
    body: review({ kind: 7 }),
    status: 400,
    answer: 'unexpected AdmissionReview kind: kind must be a string\n',
  },
  {
    name: 'no request',
    body: review({ request: undefined }),
    status: 400,
    answer: "unable to decode the request: must have required property 'request'\n",
  },
  {
    name: 'request null',
    body: review({ request: null }),
    status: 400,
    answer: 'unable to decode the request: request: must be object\n',
  },
  {
    name: 'no uid',
    body: request({ uid: undefined }),
    status: 400,
    answer: "unable to decode the request: request: must have required property 'uid'\n",
  },
  {
    name: 'empty uid',
    body: request({ uid: '' }),
    status: 400,
    answer: 'unable to decode the request: request.uid: must NOT have fewer than 1 characters\n',
  },
  {
    name: 'uid a number',
    body: request({ uid: 1 }),
    status: 400,
    answer: 'unable to decode the request: request.uid: must be string\n',
  },
  {
    name: 'an operation that does not exist',
    body: request({ operation: 'PATCH' }),
    status: 400,
    answer: 'unable to decode the request: request.operation: must be one of "CREATE", "UPDATE", "DELETE", "CONNECT"\n',
  },
  {
    name: 'kind a string',
    body: request({ kind: 'Pod' }),
    status: 400,
    answer: 'unable to decode the request: request.kind: must be object\n',
  },
  {
    name: 'groups a string',
    body: request({ userInfo: { username: 'alice', groups: 'admins' } }),
    status: 400,
    answer: 'unable to decode the request: request.userInfo.groups: must be array\n',
  },
  {
    name: 'namespace an object',
    body: request({ namespace: {} }),
    status: 400,
    answer: 'unable to decode the request: request.namespace: must be string\n',
  },
  {
    name: 'larger than 7 MiB',
    body: Buffer.alloc(7 * 1024 * 1024 + 1, 0x20),
    status: 413,
    answer: 'request entity is too large; limit is 7340032 bytes\n',
  },
];

/** Odd, but a review all the same. */
const REVIEWS: readonly { readonly name: string; readonly body: string | Buffer; readonly contentType?: string }[] = [
  { name: 'content type with a charset', body: request({}), contentType: 'application/json; charset=utf-8' },
  { name: 'without apiVersion and kind', body: review({ apiVersion: undefined, kind: undefined }) },
  {
    name: '__proto__ in a map',
    body: request({}).replace('"labels":{', '"labels":{"__proto__":"x","constructor":"y",'),
  },
  { name: '__proto__ at the top', body: request({}).replace('{', '{"__proto__":{"polluted":true},') },
  { name: 'duplicate keys', body: request({}).replace('{', '{"kind":"AdmissionReview",') },
  { name: 'an unknown kind of object', body: request({ kind: { group: 'x.example.com', version: 'v1', kind: 'Y' } }) },
  { name: 'objects of the wrong type', body: request({ object: 'a string', oldObject: [1] }) },
  {
    name: 'an object 100,000 levels deep',
    body: request({ object: 'DEEP' }).replace('"DEEP"', `${'['.repeat(1e5)}${']'.repeat(1e5)}`),
  },
  { name: 'almost 7 MiB', body: request({ object: { a: 'x'.repeat(7 * 1024 * 1024 - 2000) } }) },
  { name: 'a lone surrogate', body: request({ name: '\\ud800' }).replace('\\\\ud800', '\\ud800') },
];

suite('malformed reviews', () => {
  let server: TestServer;
  before(async () => {
    server = await startAdmissionServer([{ path: '/allow', decide: () => allow() }]);
  });
  after(() => server.stop());

  for (const { name, body, status, answer, ...rest } of CASES) {
    test(name, async () => {
      const contentType = 'contentType' in rest ? rest.contentType : json;
      const response = await post(server, '/allow', body, contentType);
      assert.equal(response.status, status);
      if (typeof answer === 'string') assert.equal(response.body, answer);
      else assert.match(response.body, answer);
      assert.equal(response.headers['content-type'], 'text/plain; charset=utf-8');
    });
  }

  for (const { name, body, contentType } of REVIEWS) {
    test(`answered: ${name}`, async () => {
      const response = await post(server, '/allow', body, contentType ?? json);
      assert.equal(response.status, 200, response.body.slice(0, 300));
      assert.deepEqual(JSON.parse(response.body), {
        kind: 'AdmissionReview',
        apiVersion: 'admission.k8s.io/v1',
        response: { uid: podReview({}).request.uid, allowed: true },
      });
      assert.equal(({} as Record<string, unknown>).polluted, undefined);
    });
  }

  test('another method', async () => {
    const [answer] = await sendRaw(
      server,
      'PUT /allow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
    );
    assert.match(answer, /^HTTP\/1\.1 404 /);
    assert.match(answer, /no webhook at PUT \/allow; POST an AdmissionReview to \/allow\n$/);
  });

  test('another path', async () => {
    const response = await post(server, '/nothing', request({}), json);
    assert.deepEqual(
      [response.status, response.body],
      [404, 'no webhook at POST /nothing; POST an AdmissionReview to /allow\n'],
    );
  });

  test('another path, in whatever form', async () => {
    for (const contentType of ['text/plain', 'nonsense', undefined]) {
      const response = await post(server, '/nothing', 'a=b', contentType);
      assert.deepEqual(
        [response.status, response.body],
        [404, 'no webhook at POST /nothing; POST an AdmissionReview to /allow\n'],
      );
    }
  });

  test('a path that cannot be decoded', async () => {
    const response = await post(server, '/%', request({}), json);
    assert.deepEqual(
      [response.status, response.headers['content-type'], response.body],
      [400, 'text/plain; charset=utf-8', "'/%' is not a valid url component\n"],
    );
  });

  test('what is not HTTP', async () => {
    const [answer] = await sendRaw(server, '\x16\x03\x01 this is not HTTP\r\n\r\n');
    assert.match(answer, /^HTTP\/1\.1 400 Bad Request/);
  });

  test('a body that ends early', async () => {
    await sendRaw(
      server,
      'POST /allow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
      {
        end: true,
      },
    );
    assert.equal((await post(server, '/allow', request({}), json)).status, 200);
  });

  test('a client that sends a byte at a time is answered, and does not hold up others', async () => {
    const body = request({});
    const head = `POST /allow HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const slow = sendRaw(server, head + body, { chunkBytes: 20, pauseMs: 1 });
    const quick = await post(server, '/allow', request({}), json);
    assert.equal(quick.status, 200);
    const [answer] = await slow;
    assert.match(answer, /^HTTP\/1\.1 200 OK/);
  });

  test('200 malformed reviews at once leave nothing behind', async () => {
    const responses = await Promise.all(
      Array.from({ length: 200 }, (_, index) => post(server, '/allow', '{'.repeat(index + 1), json)),
    );
    assert.ok(responses.every((response) => response.status === 400));
    assert.equal((await post(server, '/allow', request({}), json)).status, 200);
  });

  const seen = [
    {
      name: 'a form',
      body: 'a=b',
      contentType: 'text/plain',
      code: '400',
      reason: /^unable to process a request with a non-json content type$/,
    },
    {
      name: 'too large',
      body: Buffer.alloc(7 * 1024 * 1024 + 1, 0x20),
      contentType: json,
      code: '413',
      reason: /^request entity is too large/,
    },
    { name: 'no JSON', body: '{', contentType: json, code: '400', reason: /^unable to decode the request/ },
  ] as const;
  for (const { name, body, contentType, code, reason } of seen) {
    test(`counted and logged: ${name}`, async () => {
      const cell = server.metrics.webhook.requests.cell({ webhook: '/allow', code });
      const { count } = cell;
      await post(server, '/allow', body, contentType);
      assert.equal(cell.count, count + 1);
      const { msg, webhook, remoteAddress, ...line } = server.log.at(-1) ?? {};
      assert.deepEqual([msg, webhook, remoteAddress], ['malformed review', '/allow', '127.0.0.1']);
      assert.match(String(line['reason']), reason);
    });
  }

  test('what is sent to no webhook makes no series', async () => {
    await post(server, '/nothing', 'a=b', 'text/plain');
    assert.doesNotMatch(await server.metrics.expose(), /"[^"]*nothing"/);
  });
});
