import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { JsonObject } from '../../src/kube/types.ts';
import { responseMessage, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

const PODS = '/api/v1/namespaces/default/pods';

const pod = (name: string, more: object = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'c', image: 'i' }], ...more },
});

describe('subresources', () => {
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

  test('finalize namespaces', async () => {
    const created = responseObject(
      await send('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'final' } }),
    );
    const answer = await send('PUT', '/api/v1/namespaces/final/finalize', { ...created, spec: { finalizers: [] } });
    assert.equal(answer.status, 200);
    await send('DELETE', '/api/v1/namespaces/final');
    await cluster.cluster.idle();
    assert.equal((await send('GET', '/api/v1/namespaces/final')).status, 404);
  });

  describe('of pods', () => {
    before(async () => {
      await send('POST', PODS, pod('single'));
      await send('POST', '/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'somewhere' } });
      await send('POST', PODS, pod('settled', { nodeName: 'somewhere' }));
    });
    const cases: readonly [path: string, status: number, message: string][] = [
      ['single/exec?command=ls', 400, 'pod single does not have a host assigned'],
      ['settled/exec', 400, 'node somewhere has no kubelet: this is a development cluster, which runs no pods'],
      ['missing/exec', 404, 'pods "missing" not found'],
    ];
    for (const [path, status, message] of cases) {
      test(`reject ${path}`, async () => {
        const answer = await send('GET', `${PODS}/${path}`);
        assert.equal(responseMessage(answer), message);
        assert.equal(answer.status, status);
      });
    }

    test('return an empty log for a pod that has not started', async () => {
      const answer = await send('GET', `${PODS}/single/log`);
      assert.deepEqual([answer.status, answer.text], [204, '']);
    });

    test('require the create verb for a GET request that starts a stream', async () => {
      const rules = [{ verbs: ['get'], apiGroups: [''], resources: ['pods/exec'] }];
      await bind(cluster, 'watcher', rules);
      const answer = await cluster.as('watcher').send('GET', `${PODS}/single/exec`);
      assert.equal(
        responseMessage(answer),
        'pods "single" is forbidden: User "watcher" cannot create resource "pods/exec" in API group "" in the namespace "default"',
      );
    });
  });

  const unknown: readonly [method: string, path: string, status: number][] = [
    ['GET', `${PODS}/single/nothing`, 404],
    ['DELETE', '/api/v1/namespaces', 405],
    ['POST', '/api/v1/pods', 405],
    ['GET', '/api/v1/namespaces/default/nodes', 404],
    ['GET', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', 405],
    ['POST', '/api/v1/namespaces/default/serviceaccounts/default/token', 404],
  ];
  for (const [method, path, status] of unknown) {
    test(`${method} ${path} responds with ${status}`, async () => {
      const answer = await send(method, path, method === 'POST' || method === 'PUT' ? {} : undefined);
      assert.equal(answer.status, status);
      assert.equal(
        responseMessage(answer),
        status === 404
          ? 'the server could not find the requested resource'
          : 'the server does not allow this method on the requested resource',
      );
    });
  }
});

describe('in access reviews,', () => {
  let cluster: TestCluster;
  const AUTHORIZATION = '/apis/authorization.k8s.io/v1';
  const post = (path: string, kind: string, spec?: object, metadata?: object): Promise<ApiResponse> => {
    const [, , group = '', version = ''] = path.split('/');
    return cluster.admin.send('POST', path, { apiVersion: `${group}/${version}`, kind, spec, metadata });
  };
  before(async () => {
    cluster = await startCluster();
    await bind(cluster, 'reader', [{ verbs: ['get', 'list'], apiGroups: [''], resources: ['pods'] }]);
  });
  after(() => cluster.stop());

  const pods = (verb: string, namespace = 'default'): object => ({
    resourceAttributes: { verb, resource: 'pods', namespace },
  });
  const answers: readonly [what: string, user: string, spec: object, allowed: boolean][] = [
    ['an action of a role', 'reader', pods('get'), true],
    ['another verb', 'reader', pods('delete'), false],
    ['another namespace', 'reader', pods('get', 'kube-system'), false],
    ['another user', 'stranger', pods('get'), false],
    ['a path', 'reader', { nonResourceAttributes: { verb: 'get', path: '/metrics' } }, false],
  ];
  for (const [what, user, spec, allowed] of answers) {
    test(`${what} is ${allowed ? 'allowed' : 'not allowed'}`, async () => {
      const answer = await post(`${AUTHORIZATION}/subjectaccessreviews`, 'SubjectAccessReview', { ...spec, user });
      assert.deepEqual(responseObject(answer)['status'], { allowed });
    });
  }
});

/** Grants a role to a user in namespace `default`. */
async function bind({ admin }: TestCluster, username: string, rules: readonly object[]): Promise<void> {
  const base = '/apis/rbac.authorization.k8s.io/v1/namespaces/default';
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  const apiGroup = 'rbac.authorization.k8s.io';
  await admin.send('POST', `${base}/roles`, { apiVersion, kind: 'Role', metadata: { name: username }, rules });
  await admin.send('POST', `${base}/rolebindings`, {
    apiVersion,
    kind: 'RoleBinding',
    metadata: { name: username },
    roleRef: { apiGroup, kind: 'Role', name: username },
    subjects: [{ kind: 'User', apiGroup, name: username }],
  });
}
