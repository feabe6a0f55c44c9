/** Authentication of API servers by service account tokens, over TLS, with keys that a scripted API server publishes. */
import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { after, before, suite, test, type TestContext } from 'node:test';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type CryptoKey, type JWK } from 'jose';
import { createStore } from '../../src/cluster/store.ts';
import { allow } from '../../src/kube/admission.ts';
import { createCallerTokens, type CallerTokens, type CallerTokenOptions } from '../../src/server/caller-tokens.ts';
import { createServer } from '../../src/server/server.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { NAMES } from '../support/admission-server.ts';
import { eventually } from '../support/eventually.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';
import { post, type Response } from '../support/https.ts';
import { createRecorder, type Recorder } from '../support/recorder.ts';
import { podReview } from '../support/reviews.ts';
import { json, refusal, startScriptedServer, type ScriptedServer } from '../support/scripted-server.ts';

const ISSUER = 'https://kubernetes.default.svc.cluster.local';
const AUDIENCE = 'https://portcullis.portcullis.svc:443/psa/validate';
const REJECTED = 'the token of the caller is not accepted:';
const BODY = JSON.stringify(podReview({}));

interface Key {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly published: JWK;
}

async function createKey(kid: string, alg: string): Promise<Key> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, published: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

const [RSA, EC, NEW] = await Promise.all([
  createKey('rsa', 'RS256'),
  createKey('ec', 'ES256'),
  createKey('new', 'ES256'),
]);

const nowSeconds = Math.floor(Date.now() / 1000);

/** The private claims of a token for reviews of all API groups. */
const OWN = {
  namespace: 'kube-system',
  serviceaccount: { name: 'webhook-auth', uid: '1' },
  validatingWebhookConfiguration: { name: 'portcullis', uid: '2' },
  attestations: { admissionReviewAPIGroups: ['*'] },
};
const withGroups = (...groups: readonly unknown[]) => ({
  'kubernetes.io': { ...OWN, attestations: { admissionReviewAPIGroups: groups } },
});

/** The claims of a token of an API server with changed claims. A claim that is undefined is absent. */
const claims = (change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> => ({
  iss: ISSUER,
  sub: 'system:serviceaccount:kube-system:webhook-auth',
  aud: [AUDIENCE],
  iat: nowSeconds,
  nbf: nowSeconds,
  exp: nowSeconds + 600,
  'kubernetes.io': OWN,
  ...change,
});

interface Signing {
  readonly key?: Pick<Key, 'kid' | 'alg'>;
  readonly privateKey?: CryptoKey | Uint8Array;
}

function sign(
  change: Readonly<Record<string, unknown>> = {},
  { key = RSA, privateKey }: Signing = {},
): Promise<string> {
  const { kid, alg } = key;
  const own = [RSA, EC, NEW].find((one) => one.kid === kid)?.privateKey ?? RSA.privateKey;
  return new SignJWT(claims(change)).setProtectedHeader({ alg, kid }).sign(privateKey ?? own);
}

/** Publishes keys at the scripted API server. */
function publish(api: ScriptedServer, ...keys: readonly Key[]): void {
  api.respond((response, request) => {
    if (request.url === '/.well-known/openid-configuration') json({ issuer: ISSUER })(response, request);
    else if (request.url === '/openid/v1/jwks')
      json({ keys: keys.map(({ published }) => published) })(response, request);
    else refusal(404, 'not found')(response, request);
  });
}

interface Server extends Recorder {
  readonly api: ScriptedServer;
  readonly clock: FakeClock;
  readonly tokens: CallerTokens;
  readonly signal: AbortSignal;
  send(authorization?: string): Promise<Response>;
  stop(): Promise<void>;
}

/** Starts a server with one webhook. It has no keys until its tokens are followed. */
async function start(change: Partial<CallerTokenOptions> = {}): Promise<Server> {
  const api = await startScriptedServer();
  publish(api, RSA, EC);
  const recorder = createRecorder();
  const clock = createFakeClock();
  const tokens = createCallerTokens({
    mode: 'required',
    connection: await api.connect(),
    issuer: undefined,
    audiences: () => [AUDIENCE],
    clock,
    date: () => new Date(nowSeconds * 1000),
    ...recorder,
    ...change,
  });
  const validity = { now: new Date(), days: 1 };
  const authority = createAuthority(validity);
  const store = createStore();
  store.markSynced();
  const { app } = createServer({
    webhooks: [{ path: '/psa/validate', decide: () => allow() }],
    store,
    ...recorder,
    callers: tokens,
    now: () => performance.now(),
    tls: createServing(authority, NAMES, validity),
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const stopping = new AbortController();
  return {
    ...recorder,
    api,
    clock,
    tokens,
    signal: stopping.signal,
    send: (authorization) =>
      post(
        { port, ca: authority.cert, headers: authorization === undefined ? {} : { authorization } },
        '/psa/validate?timeout=10s',
        BODY,
        'application/json',
      ),
    async stop() {
      stopping.abort();
      await app.close();
      await api.stop();
    },
  };
}

/** Starts a server for the time of a test. */
async function startFor(t: TestContext, change: Partial<CallerTokenOptions> = {}): Promise<Server> {
  const server = await start(change);
  t.after(() => server.stop());
  return server;
}

/** Starts a server that has read the keys. */
async function startWithKeys(t: TestContext, change: Partial<CallerTokenOptions> = {}): Promise<Server> {
  const server = await startFor(t, change);
  void server.tokens.follow(server.signal);
  await eventually(() => assert.equal(server.log.at(0)?.['msg'], 'keys of service account tokens read'));
  return server;
}

const bearer = async (token: Promise<string>): Promise<string> => `Bearer ${await token}`;

async function counts({ metrics }: Server): Promise<Readonly<Record<string, number>>> {
  const lines = (await metrics.expose()).matchAll(/^portcullis_webhook_caller_tokens_total\{result="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, result = '', count]) => [result, Number(count)]));
}

const TAMPERED = async (): Promise<string> => {
  const [header, , signature] = (await sign()).split('.');
  const payload = Buffer.from(JSON.stringify(claims({ sub: 'system:serviceaccount:shop:eve' }))).toString('base64url');
  return [header, payload, signature].join('.');
};

suite('tokens of callers', () => {
  let server: Server;
  before(async () => {
    server = await start();
    void server.tokens.follow(server.signal);
  });
  after(() => server.stop());

  interface Case {
    readonly name: string;
    readonly header: () => Promise<string | undefined> | string | undefined;
    readonly status?: number;
    /** The label in the metrics. */
    readonly result?: string;
    readonly body?: string;
  }
  const rejected = (name: string, header: Case['header'], result: string, reason: string): Case => {
    return { name, header, status: 401, result, body: `${REJECTED} ${reason}\n` };
  };
  const NOT_ATTESTED = 'its claim kubernetes.io.attestations.admissionReviewAPIGroups must be a list of API groups';
  const NOT_BOUND = 'it must be bound to either a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration';
  const NOT_JWT = 'it is not a JSON Web Token with the scheme Bearer';
  const { validatingWebhookConfiguration, ...UNBOUND } = OWN;
  const CASES: readonly Case[] = [
    { name: 'a token with RS256', header: () => bearer(sign()) },
    { name: 'a token with ES256', header: () => bearer(sign({}, { key: EC })) },
    { name: 'the scheme in lower case', header: async () => `bearer ${await sign()}` },
    { name: 'one of several audiences', header: () => bearer(sign({ aud: ['https://other', AUDIENCE] })) },
    { name: 'one audience without a list', header: () => bearer(sign({ aud: AUDIENCE })) },
    { name: 'expired within the clock skew', header: () => bearer(sign({ exp: nowSeconds - 20 })) },
    { name: 'the API group of pods', header: () => bearer(sign(withGroups(''))) },
    {
      name: 'bound to a MutatingWebhookConfiguration',
      header: () =>
        bearer(sign({ 'kubernetes.io': { ...UNBOUND, mutatingWebhookConfiguration: validatingWebhookConfiguration } })),
    },
    {
      name: 'another API group',
      header: () => bearer(sign(withGroups('ninja.turtles.ai'))),
      status: 403,
      result: 'api_group',
      body: 'the token of the caller permits reviews of the API group "ninja.turtles.ai", not ""\n',
    },
    {
      name: 'no token',
      header: () => undefined,
      status: 401,
      result: 'missing',
      body: 'a service account token of an API server is required\n',
    },
    rejected('another scheme', () => 'Basic YTpi', 'malformed', NOT_JWT),
    rejected('an empty token', () => 'Bearer ', 'malformed', NOT_JWT),
    rejected('not a JSON Web Token', () => 'Bearer abc', 'malformed', NOT_JWT),
    rejected('invalid Base64', () => 'Bearer !!.??.**', 'malformed', NOT_JWT),
    rejected('two tokens', async () => `Bearer ${await sign()} ${await sign()}`, 'malformed', NOT_JWT),
    rejected('a huge token', () => `Bearer ${'x'.repeat(9000)}`, 'malformed', 'it is longer than 8192 characters'),
    rejected(
      'no signature',
      () => `Bearer ${new UnsecuredJWT(claims()).encode()}`,
      'algorithm',
      'its algorithm is not one of RS256, RS384, RS512, ES256, ES384, ES512',
    ),
    rejected(
      'a public key as the secret of HS256',
      () =>
        bearer(sign({}, { key: { kid: 'rsa', alg: 'HS256' }, privateKey: Buffer.from(JSON.stringify(RSA.published)) })),
      'algorithm',
      'its algorithm is not one of RS256, RS384, RS512, ES256, ES384, ES512',
    ),
    rejected('another payload', () => bearer(TAMPERED()), 'signature', 'its signature is invalid'),
    rejected(
      'the signature of another key',
      () => bearer(sign({}, { key: EC, privateKey: NEW.privateKey })),
      'signature',
      'its signature is invalid',
    ),
    rejected(
      'an unknown key',
      () => bearer(sign({}, { key: NEW })),
      'unknown_key',
      'the cluster has no key with its ID and algorithm',
    ),
    rejected(
      'another issuer',
      () => bearer(sign({ iss: 'https://evil' })),
      'issuer',
      `its issuer is "https://evil", not "${ISSUER}"`,
    ),
    rejected('expired', () => bearer(sign({ exp: nowSeconds - 120 })), 'expired', 'it has expired'),
    rejected('not valid yet', () => bearer(sign({ nbf: nowSeconds + 600 })), 'not_yet_valid', 'it is not valid yet'),
    rejected('without expiration', () => bearer(sign({ exp: undefined })), 'claims', 'its claim exp must be a time'),
    rejected(
      'another audience',
      () => bearer(sign({ aud: ['https://portcullis.portcullis.svc:443/scc/mutate'] })),
      'audience',
      `its audience is "https://portcullis.portcullis.svc:443/scc/mutate", not "${AUDIENCE}"`,
    ),
    rejected(
      'a huge audience',
      () => bearer(sign({ aud: ['a'.repeat(2000)] })),
      'audience',
      `its audience is "${'a'.repeat(299)}…, not "${AUDIENCE}"`,
    ),
    rejected('no audience', () => bearer(sign({ aud: undefined })), 'audience', `its audience is , not "${AUDIENCE}"`),
    rejected(
      'the mounted token of a pod with this audience',
      () => bearer(sign({ 'kubernetes.io': { ...OWN, attestations: undefined, pod: { name: 'web', uid: '3' } } })),
      'claims',
      NOT_ATTESTED,
    ),
    rejected('no private claims', () => bearer(sign({ 'kubernetes.io': undefined })), 'claims', NOT_ATTESTED),
    rejected('no API groups', () => bearer(sign(withGroups())), 'claims', NOT_ATTESTED),
    rejected('an invalid API group', () => bearer(sign(withGroups(1))), 'claims', NOT_ATTESTED),
    rejected('bound to no configuration', () => bearer(sign({ 'kubernetes.io': UNBOUND })), 'claims', NOT_BOUND),
    rejected(
      'bound to two configurations',
      () => bearer(sign({ 'kubernetes.io': { ...OWN, mutatingWebhookConfiguration: { name: 'a', uid: 'b' } } })),
      'claims',
      NOT_BOUND,
    ),
  ];
  for (const { name, header, status = 200, result = 'valid', body } of CASES) {
    test(`${name}: ${status}`, async () => {
      const before = (await counts(server))[result] ?? 0;
      const logged = server.log.length;
      const reply = await server.send(await header());
      assert.equal(reply.status, status, reply.body);
      if (status !== 200) {
        assert.equal(reply.body, body);
        const lines = server.log.slice(logged).filter(({ msg }) => msg === 'client rejected');
        assert.deepEqual(
          lines.map(({ reason }) => `${String(reason)}\n`),
          [body],
        );
      }
      // Reviews of a wrong API group have a valid token.
      assert.ok(((await counts(server))[result] ?? 0) > before, `counted as ${result}`);
    });
  }

  test('a rejection before the body closes the connection', async () => {
    assert.equal((await server.send('Bearer abc')).headers.connection, 'close');
  });

  test('the log contains no token', async () => {
    const secret = 'secret-token-with-many-characters';
    await server.send(`Bearer ${secret}`);
    assert.equal(JSON.stringify(server.log).includes(secret), false);
  });
});

test('optional tokens: reviews without a token are accepted, invalid tokens are not', async (t) => {
  const server = await startWithKeys(t, { mode: 'optional' });
  assert.equal((await server.send()).status, 200);
  assert.equal((await server.send(await bearer(sign()))).status, 200);
  const reply = await server.send(await bearer(sign({ iss: 'https://evil' })));
  assert.deepEqual([reply.status, reply.body], [401, `${REJECTED} its issuer is "https://evil", not "${ISSUER}"\n`]);
  assert.deepEqual(await counts(server), { valid: 1, absent: 1, issuer: 1 });
});

test('the issuer of the setting replaces that of the API server', async (t) => {
  const server = await startWithKeys(t, { issuer: 'https://issuer.example' });
  assert.equal((await server.send(await bearer(sign({ iss: 'https://issuer.example' })))).status, 200);
  assert.equal((await server.send(await bearer(sign()))).status, 401);
});

test('rotation: a new key is read at once, but not more than every ten seconds', async (t) => {
  const server = await startWithKeys(t);
  const token = await bearer(sign({}, { key: NEW }));
  publish(server.api, RSA, EC, NEW);
  assert.equal((await server.send(token)).status, 401);
  assert.equal(server.api.requests.length, 0);
  server.clock.advance(10_000);
  assert.deepEqual(await Promise.all([server.send(token), server.send(token)]).then(statuses), [200, 200]);
  assert.equal(server.api.requests.length, 2);
});

test('rotation: the tokens of a removed key are rejected after the next read', async (t) => {
  const server = await startWithKeys(t);
  const token = await bearer(sign());
  assert.equal((await server.send(token)).status, 200);
  publish(server.api, EC);
  server.clock.advance(5 * 60_000);
  await eventually(async () => assert.equal((await server.send(token)).status, 401));
});

test('a token is rejected once it has expired, although it was accepted before', async (t) => {
  let ms = nowSeconds * 1000;
  const server = await startWithKeys(t, { date: () => new Date(ms) });
  const token = await bearer(sign());
  assert.equal((await server.send(token)).status, 200);
  ms += 12 * 60_000;
  const reply = await server.send(token);
  assert.deepEqual([reply.status, reply.body], [401, `${REJECTED} it has expired\n`]);
});

test('without keys at start, reviews are rejected until the keys can be read', async (t) => {
  const server = await startFor(t);
  const token = await bearer(sign());
  server.api.respond(refusal(403, 'forbidden: User "x" cannot get path "/openid/v1/jwks"'));
  void server.tokens.follow(server.signal);
  const reason =
    'the keys of service account tokens cannot be read: forbidden: User "x" cannot get path "/openid/v1/jwks"';
  const reply = await server.send(token);
  assert.deepEqual([reply.status, reply.body], [503, `${reason}\n`]);
  assert.equal(server.tokens.problem(), reason);
  publish(server.api, RSA);
  server.clock.advance(10_000);
  await eventually(async () => assert.equal((await server.send(token)).status, 200));
  assert.equal(server.tokens.problem(), undefined);
});

test('during an outage, the last known keys stay in use', async (t) => {
  const server = await startWithKeys(t);
  server.api.respond(refusal(500, 'etcd is away'));
  server.clock.advance(5 * 60_000);
  await eventually(() =>
    assert.equal(
      server.log.at(-1)?.['msg'],
      'cannot read the keys of service account tokens; the last known ones stay in use',
    ),
  );
  assert.equal((await server.send(await bearer(sign()))).status, 200);
  const reply = await server.send(await bearer(sign({}, { key: NEW })));
  assert.deepEqual(
    [reply.status, reply.body],
    [503, 'the keys of service account tokens cannot be read: etcd is away\n'],
  );
  assert.equal(server.tokens.problem(), undefined);
});

for (const [name, documents, reason] of [
  ['no keys', { keys: 'none' }, 'JSON Web Key Set malformed'],
  ['no issuer', { keys: [] }, '/.well-known/openid-configuration of the API server has no issuer'],
] as const) {
  test(`an API server with ${name}`, async (t) => {
    const server = await startFor(t);
    server.api.respond(json(documents));
    const reply = await server.send(await bearer(sign()));
    assert.deepEqual(
      [reply.status, reply.body],
      [503, `the keys of service account tokens cannot be read: ${reason}\n`],
    );
  });
}

test('invalid tokens of one address are limited; known tokens are still accepted', async (t) => {
  const server = await startWithKeys(t);
  const known = await bearer(sign());
  assert.equal((await server.send(known)).status, 200);
  const forged = await Promise.all(
    Array.from({ length: 55 }, (_, index) =>
      bearer(sign({ jti: String(index) }, { key: EC, privateKey: NEW.privateKey })),
    ),
  );
  const replies = await Promise.all(forged.map((token) => server.send(token)));
  const limited = replies.filter(({ status }) => status === 429);
  assert.deepEqual([limited.length, limited[0]?.body], [5, 'too many invalid tokens from this address; try again\n']);
  assert.equal((await server.send(known)).status, 200);
  server.clock.advance(1000);
  assert.equal((await server.send(await bearer(sign({ jti: 'later' })))).status, 200);
});

function statuses(replies: readonly Response[]): number[] {
  return replies.map(({ status }) => status);
}
