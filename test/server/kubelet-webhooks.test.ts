/** Tests the admission webhooks for the minimum kubelet version over TLS. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import { decodeSettings } from '../../src/config/portcullis-configuration.ts';
import type { JsonObject, Node } from '../../src/kube/types.ts';
import { createDisclosure } from '../../src/server/disclosure.ts';
import { onlyRegistered } from '../../src/server/webhooks/index.ts';
import { createMirrorPodPolicy, createNodes } from '../../src/server/webhooks/nodes.ts';
import { createObjectWebhooks } from '../../src/server/webhooks/objects/index.ts';
import { createNodesConfigReviewer } from '../../src/server/webhooks/objects/nodes-config.ts';
import { createValidatePods } from '../../src/server/webhooks/pods.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { post } from '../support/https.ts';

function reportedNode(name: string, kubeletVersion: string, labels = {}): Node {
  return { metadata: { name, labels }, status: { nodeInfo: { kubeletVersion } } } as unknown as Node;
}

/** Starts the webhooks for five nodes, with a minimum and an exemption in a settings file. */
async function start(admission: JsonObject = {}): Promise<TestServer> {
  const kubelet = { minimumVersion: '1.33.0', exemptNodes: { matchLabels: { type: 'kwok' } }, admission };
  const decoded = decodeSettings({ spec: { kubelet } }, { controllers: [], namespace: 'portcullis' });
  assert.ok('settings' in decoded);
  const store = createStore();
  for (const name of ['old-b', 'old-a']) store.put('Node', reportedNode(name, 'v1.29.0'));
  store.put('Node', { metadata: { name: 'created' } });
  store.put('Node', reportedNode('new', 'v1.33.0'));
  store.put('Node', reportedNode('exempt', 'v1.29.0', { type: 'kwok' }));
  const scope = { store, settings: () => decoded.settings.kubelet, hasSettingsObject: false };
  const webhooks = [
    ...createObjectWebhooks({ 'nodes.config.openshift.io': createNodesConfigReviewer(scope, createDisclosure(true)) }),
    createNodes(scope),
    createValidatePods([createMirrorPodPolicy(scope)]),
  ];
  return startAdmissionServer(webhooks.map((webhook) => onlyRegistered(webhook, () => ({ workloadResources: [] }))));
}

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.stop());

async function send(path: string, request: JsonObject, to: TestServer = server): Promise<JsonObject> {
  const review = { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { uid: 'u', ...request } };
  const reply = await post(to, path, JSON.stringify(review), 'application/json');
  assert.equal(reply.status, 200, reply.body);
  const { response } = JSON.parse(reply.body) as { readonly response: JsonObject };
  return response;
}

test('a minimum above kubelet versions in use is denied with the names of all nodes', async () => {
  const group = 'config.openshift.io';
  const response = await send('/validate/objects', {
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
      'node "created": no kubelet version reported yet; not compared with minimumKubeletVersion',
    ],
  });
});

suite('writes of the kubelet version in a node are allowed or denied:', () => {
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
      'a user outside the group of nodes',
      { ...create, userInfo: { ...user, groups: null }, object: reportedNode('n', 'v1.32.9') },
      undefined,
    ],
    [
      'an update of the status',
      { operation: 'UPDATE', subResource: 'status', userInfo: user, object: reportedNode('n', 'v1.32.9') },
      undefined,
    ],
  ];
  for (const [name, request, message] of cases) {
    test(`${name}: ${message === undefined ? 'allowed' : 'denied'}`, async () => {
      const response = await send('/validate/nodes', {
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

suite('among other writes of nodes,', () => {
  let checking: TestServer;
  before(async () => {
    checking = await start({ certificates: true, nodeWrites: true });
  });
  after(() => checking.stop());

  const outdated =
    'kubelet version is outdated: kubelet version is 1.29.0, which is lower than minimumKubeletVersion of 1.33.0';
  const by = (node: string) => ({ username: `system:node:${node}`, groups: ['system:nodes'] });
  const request = (group: string, resource: string, node = 'old-a'): JsonObject => ({
    kind: { group, version: 'v1', kind: 'Any' },
    resource: { group, version: 'v1', resource },
    operation: 'CREATE',
    name: 'x',
    userInfo: by(node),
  });
  const certificate = (signer: unknown, node?: string): JsonObject => ({
    ...request('certificates.k8s.io', 'certificatesigningrequests', node),
    object: { spec: { signerName: signer } },
  });
  const lease = (node?: string): JsonObject => ({
    ...request('coordination.k8s.io', 'leases', node),
    operation: 'UPDATE',
    namespace: 'kube-node-lease',
  });
  const pod: JsonObject = { ...request('', 'pods'), namespace: 'shop' };
  const [CLIENT, SERVING] = ['kubernetes.io/kube-apiserver-client-kubelet', 'kubernetes.io/kubelet-serving'];

  const denied: readonly (readonly [name: string, request: JsonObject, object: string])[] = [
    ['a client certificate', certificate(CLIENT), 'certificatesigningrequests.certificates.k8s.io "x"'],
    ['a serving certificate', certificate(SERVING), 'certificatesigningrequests.certificates.k8s.io "x"'],
    ['a heartbeat', lease(), 'leases.coordination.k8s.io "x"'],
    ['a mirror pod', pod, 'pods "x"'],
  ];
  for (const [name, body, object] of denied) {
    test(`${name} of a node below the minimum is denied unless the check is off`, async () => {
      const path = body === pod ? '/validate/pods' : '/validate/nodes';
      const { allowed, status } = await send(path, body, checking);
      const { code, message } = status as { readonly code: number; readonly message: string };
      assert.deepEqual([allowed, code, message], [false, 403, `${object} is forbidden: ${outdated}`]);
      assert.equal((await send(path, body))['allowed'], true);
    });
  }

  const allowed: readonly (readonly [name: string, request: JsonObject])[] = [
    ['a heartbeat of a new kubelet', lease('new')],
    ['a heartbeat of an exempt node', lease('exempt')],
    ['a heartbeat of a node that has not reported a version', lease('created')],
    ['a heartbeat of a node without a Node object', lease('absent')],
    ['a certificate of another signer', certificate('example.com/signer')],
    ['a certificate request without a valid signer', certificate(null)],
    ['a Lease in another namespace', { ...lease(), namespace: 'default' }],
    ['the status of a pod', { ...pod, operation: 'UPDATE', subResource: 'status' }],
    ['the deletion of a pod', { ...pod, operation: 'DELETE' }],
    ['another object', request('', 'events')],
    ['a pod of another user', { ...pod, userInfo: { username: 'alice', groups: ['system:nodes'] } }],
    ['a pod of a user without groups', { ...pod, userInfo: { username: 'system:node:old-a' } }],
  ];
  for (const [name, body] of allowed) {
    test(`${name} is allowed`, async () => {
      for (const path of ['/validate/nodes', '/validate/pods']) {
        assert.equal((await send(path, body, checking))['allowed'], true, path);
      }
    });
  }
});
