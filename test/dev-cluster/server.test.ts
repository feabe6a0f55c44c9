import assert from 'node:assert/strict';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { connect } from 'node:tls';
import type { JsonObject } from '../../src/kube/types.ts';
import { createAuthority, issueClient } from '../../src/tls/issue.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import { type ApiResponse, createApiClient } from '../support/api-client.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

describe('the API over HTTP', () => {
  let cluster: TestCluster;
  const send = (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiResponse> =>
    cluster.admin.send(method, path, body, headers);
  before(async () => {
    cluster = await startCluster();
  });
  after(async () => {
    await cluster.stop();
    assert.deepEqual(cluster.errors, []);
  });

  describe('authentication', () => {
    test('a client without a certificate is anonymous', async () => {
      const answer = await cluster.as().send('GET', '/api/v1/pods');
      assert.equal(answer.status, 403);
      assert.equal(
        responseMessage(answer),
        'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope',
      );
    });

    test('a token is rejected', async () => {
      const answer = await cluster.as().send('GET', '/api', undefined, { authorization: 'Bearer x' });
      assert.equal(answer.status, 401);
      assert.equal(responseMessage(answer), 'Unauthorized');
    });

    test('a certificate from another CA is rejected', async () => {
      const validity = { now: new Date(), days: 1 };
      const forged = issueClient(
        createAuthority(validity),
        { username: 'admin', groups: ['system:masters'] },
        validity,
      );
      const client = createApiClient({ port: cluster.port, authority: cluster.authority, client: forged });
      const answer = await client.send('GET', '/api');
      client.close();
      assert.equal(answer.status, 401);
    });

    test('anonymous clients can access public paths', async () => {
      const answer = await cluster.as().send('GET', '/version');
      assert.equal(answer.status, 200);
      for (const path of ['/healthz', '/livez', '/readyz']) {
        assert.equal((await cluster.as().send('GET', path)).text, 'ok');
      }
    });

    test('anonymous clients cannot access other paths', async () => {
      const answer = await cluster.as().send('GET', '/openapi/v2');
      assert.equal(responseMessage(answer), 'forbidden: User "system:anonymous" cannot get path "/openapi/v2"');
      assert.equal(answer.status, 403);
    });
  });

  describe('impersonation with the headers', () => {
    const as = (headers: Record<string, string>): Promise<ApiResponse> =>
      send('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', whoami, headers);
    const whoami = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
    const cases: readonly [headers: Record<string, string>, user: object][] = [
      [{ 'impersonate-user': 'bob' }, { username: 'bob', groups: ['system:authenticated'] }],
      [
        {
          'impersonate-user': 'bob',
          'impersonate-group': 'dev',
        },
        { username: 'bob', groups: ['dev', 'system:authenticated'] },
      ],
      [
        { 'impersonate-user': 'system:serviceaccount:default:app' },
        {
          username: 'system:serviceaccount:default:app',
          groups: ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'],
        },
      ],
      [
        { 'impersonate-user': 'bob', 'impersonate-group': 'system:authenticated' },
        { username: 'bob', groups: ['system:authenticated'] },
      ],
    ];
    for (const [headers, user] of cases) {
      test(`${JSON.stringify(headers)} sets the user`, async () => {
        assert.deepEqual((responseObject(await as(headers))['status'] as JsonObject)['userInfo'], user);
      });
    }

    const refused: readonly [headers: Record<string, string>, status: number, message: string][] = [
      [{ 'impersonate-group': 'dev' }, 400, 'requested [dev] without impersonating a user'],
    ];
    for (const [headers, status, message] of refused) {
      test(`${JSON.stringify(headers)} is rejected`, async () => {
        const answer = await as(headers);
        assert.equal(responseMessage(answer), message);
        assert.equal(answer.status, status);
      });
    }

    const forbidden: readonly [headers: Record<string, string>, message: string][] = [
      [
        { 'impersonate-user': 'bob' },
        'users "bob" is forbidden: User "carol" cannot impersonate resource "users" in API group "" at the cluster scope',
      ],
      [
        { 'impersonate-user': 'system:serviceaccount:a:b' },
        'serviceaccounts "b" is forbidden: User "carol" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a"',
      ],
    ];
    for (const [headers, message] of forbidden) {
      test(`${JSON.stringify(headers)} requires a permission`, async () => {
        const answer = await cluster.as('carol').send('GET', '/api', undefined, headers);
        assert.equal(responseMessage(answer), message);
        assert.equal(answer.status, 403);
      });
    }
  });

  describe('malformed requests are rejected:', () => {
    const cases: readonly [
      what: string,
      request: readonly [method: string, path: string, body?: string, headers?: Record<string, string>],
      status: number,
      message?: string,
    ][] = [
      ['an unknown path', ['GET', '/nothing'], 404],
      [
        'a broken escape',
        ['GET', '/api/v1/namespaces/%zz'],
        400,
        "'/api/v1/namespaces/%zz' is not a valid url component",
      ],
      [
        'the name of a built-in property',
        ['GET', '/api/v1/namespaces/__proto__'],
        404,
        'namespaces "__proto__" not found',
      ],
      [
        'a body that is too large',
        ['POST', '/api/v1/namespaces', 'x'.repeat(3 * 1024 * 1024 + 1)],
        413,
        'Request entity too large: limit is 3145728',
      ],
      ['a list as a body', ['POST', '/api/v1/namespaces', '[]'], 400],
    ];
    for (const [what, request, status, message] of cases) {
      test(what, async () => {
        const answer = await send(...request);
        assert.equal(answer.status, status, answer.text);
        if (message !== undefined) assert.equal(responseMessage(answer), message);
        assert.equal((await send('GET', '/readyz')).status, 200);
      });
    }

    test('bytes that are not HTTP', async () => {
      const socket = connect({ host: '127.0.0.1', port: cluster.port, ca: cluster.authority });
      socket.write('\0\x01\x02 garbage\r\n\r\n');
      const [received] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      assert.match(received.toString(), /^HTTP\/1.1 400 /);
    });
  });

  describe('discovery', () => {
    test('contains the resources of CRDs in the cluster', async () => {
      const definition = {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: 'gadgets.example.com' },
        spec: {
          group: 'example.com',
          scope: 'Namespaced',
          names: { kind: 'Gadget', plural: 'gadgets', singular: 'gadget', listKind: 'GadgetList', shortNames: ['gg'] },
          versions: [
            { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } },
            { name: 'v2', served: true, storage: false, schema: { openAPIV3Schema: { type: 'object' } } },
          ],
        },
      };
      const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
      const { conditions } = responseObject(await send('POST', path, definition))['status'] as {
        readonly conditions: readonly { readonly type: string; readonly status: string }[];
      };
      assert.deepEqual(
        conditions.map(({ type, status }) => `${type} ${status}`),
        ['NamesAccepted True', 'Established True'],
      );
      await cluster.cluster.idle();
      const group = responseObject(await send('GET', '/apis/example.com'));
      assert.deepEqual(group['preferredVersion'], { groupVersion: 'example.com/v1', version: 'v1' });
      const gadget = { apiVersion: 'example.com/v1', kind: 'Gadget', metadata: { name: 'g' } };
      assert.equal((await send('POST', '/apis/example.com/v1/namespaces/default/gadgets', gadget)).status, 201);
      const other = responseObject(await send('GET', '/apis/example.com/v2/namespaces/default/gadgets/g'));
      assert.equal(other['apiVersion'], 'example.com/v2');
      assert.match((await send('GET', '/openapi/v3')).text, /apis\/example.com\/v2/);
      assert.equal((await send('DELETE', `${path}/gadgets.example.com`)).status, 200);
      await cluster.cluster.idle();
      assert.equal((await send('GET', '/apis/example.com')).status, 404);
      assert.equal((await send('GET', '/apis/example.com/v1/gadgets')).status, 404);
    });
  });

  test('the file of a kubeconfig can only be read by its owner', async () => {
    const { mode } = await stat(await cluster.kubeconfig());
    assert.equal(mode & 0o777, 0o600);
  });
});
