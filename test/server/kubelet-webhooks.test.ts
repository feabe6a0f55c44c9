/** The admission webhooks of the minimum kubelet version, over TLS. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { decodeSettings } from '../../src/config/portcullis-configuration.ts';
import type { JsonObject, Node } from '../../src/kube/types.ts';
import { createKubeletConfigWebhook } from '../../src/server/webhooks/kubelet-config.ts';
import { createKubeletNodeWebhook } from '../../src/server/webhooks/kubelet-node.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';

function reportedNode(name: string, kubeletVersion: string, labels = {}): Node {
  return { metadata: { name, labels }, status: { nodeInfo: { kubeletVersion } } } as unknown as Node;
}

/** Starts the webhooks with a minimum and an exemption in a file of settings, over three nodes. */
async function start(): Promise<TestServer> {
  const kubelet = { minimumVersion: '1.33.0', exemptNodes: { matchLabels: { type: 'kwok' } } };
  const decoded = decodeSettings({ spec: { kubelet } }, { controllers: [], namespace: 'portcullis' });
  assert.ok('settings' in decoded);
  const store = createStore();
  for (const name of ['old-b', 'old-a']) store.put('Node', reportedNode(name, 'v1.29.0'));
  store.put('Node', { metadata: { name: 'created' } });
  const scope = { store, settings: () => decoded.settings.kubelet, hasSettingsObject: false };
  return startAdmissionServer([createKubeletConfigWebhook(scope), createKubeletNodeWebhook(scope)]);
}

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.stop());

async function send(path: string, request: JsonObject): Promise<JsonObject> {
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { uid: 'u', ...request } };
  const reply = await post(server, path, JSON.stringify(review), 'application/json');
  assert.equal(reply.status, 200, reply.body);
  const { response } = JSON.parse(reply.body) as { readonly response: JsonObject };
  return response;
}

test('a minimum above the kubelets is denied with all nodes by name', async () => {
  const group = 'config.openshift.io';
  const response = await send('/kubelet/validate-config', {
    kind: { group, version: 'v1', kind: 'Node' },
    resource: { group, version: 'v1', resource: 'nodes' },
    operation: 'UPDATE',
    object: { metadata: { name: 'cluster' }, spec: { minimumKubeletVersion: '1.30.0' } },
    oldObject: { metadata: { name: 'cluster' }, spec: null },
  });
  const outdated =
    'kubelet version is outdated: kubelet version is 1.29.0, which is lower than minimumKubeletVersion of 1.30.0';
  const field = 'spec.minimumKubeletVersion';
  assert.deepEqual(response, {
    uid: 'u',
    allowed: false,
    status: {
      metadata: {},
      status: 'Failure',
      message: `Node.config.openshift.io "cluster" is invalid: ${field}: Forbidden: ${outdated}`,
      reason: 'Invalid',
      details: {
        name: 'cluster',
        group,
        kind: 'Node',
        causes: [{ reason: 'FieldValueForbidden', message: `Forbidden: ${outdated}`, field }],
      },
      code: 422,
    },
    warnings: [
      `node "old-a": ${outdated}`,
      `node "old-b": ${outdated}`,
      'node "created": it has not reported a kubelet version and is not compared with minimumKubeletVersion',
    ],
  });
});

suite('writes of nodes', () => {
  const user = { username: 'system:node:n', groups: ['system:nodes'] };
  const outdated =
    'nodes "n" is forbidden: kubelet version is outdated: kubelet version is 1.32.9, which is lower than minimumKubeletVersion of 1.33.0';
  const create = { operation: 'CREATE', userInfo: user };
  const cases: readonly (readonly [name: string, request: JsonObject, message: string | undefined])[] = [
    ['an old kubelet', { ...create, object: reportedNode('n', 'v1.32.9') }, outdated],
    ['a new kubelet', { ...create, object: reportedNode('n', 'v1.33.0-rc.1') }, undefined],
    [
      'an invalid version',
      { ...create, object: reportedNode('n', 'v1.33') },
      'nodes "n" is forbidden: failed to parse node version v1.33: No Major.Minor.Patch elements found',
    ],
    [
      'no version',
      { ...create, object: { metadata: { name: 'n' }, status: null } },
      'nodes "n" is forbidden: failed to parse node version : Version string empty',
    ],
    ['an exempt node', { ...create, object: reportedNode('n', 'v1.32.9', { type: 'kwok' }) }, undefined],
    ['an administrator', { operation: 'CREATE', userInfo: {}, object: reportedNode('n', 'v1.32.9') }, undefined],
    ['no user', { operation: 'CREATE', object: reportedNode('n', 'v1.32.9') }, undefined],
    [
      'a user without the group of nodes',
      { ...create, userInfo: { ...user, groups: null }, object: reportedNode('n', 'v1.32.9') },
      undefined,
    ],
    [
      'a report of the status',
      { operation: 'UPDATE', subResource: 'status', userInfo: user, object: reportedNode('n', 'v1.32.9') },
      undefined,
    ],
  ];
  for (const [name, request, message] of cases) {
    test(name, async () => {
      const response = await send('/kubelet/validate-node', {
        kind: { group: '', version: 'v1', kind: 'Node' },
        resource: { group: '', version: 'v1', resource: 'nodes' },
        name: 'n',
        ...request,
      });
      const { status } = response as { readonly status?: { readonly code: number; readonly message: string } };
      assert.deepEqual([response['allowed'], status?.message], [message === undefined, message]);
      assert.equal(status?.code, message === undefined ? undefined : 403);
    });
  }
});
