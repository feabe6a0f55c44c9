/** Tests the minimum kubelet version with two replicas. Each test continues from the state of the previous test. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import forge from 'node-forge';
import type { JsonObject, Node, PortcullisConfiguration } from '../../src/kube/types.ts';
import { responseMessage } from '../support/answers.ts';
import { ASSETS, useSystem } from '../support/control-plane/index.ts';
import { create, createNamespace, localObjects } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const MERGE = { 'content-type': 'application/merge-patch+json' };
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const FEATURES = { scc: false, rollout: false, kubelet: true, olm: false };
const RENDERED = 'portcullis.dev/rendered-minimum-kubelet-version';

function node(name: string, kubeletVersion: string): JsonObject {
  const status = { nodeInfo: nodeInfo(kubeletVersion), conditions: [{ type: 'Ready', status: 'True' }] };
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: {}, status };
}

/** API servers require all fields of the node information. */
function nodeInfo(kubeletVersion: string): JsonObject {
  const names = ['machineID', 'systemUUID', 'bootID', 'kernelVersion', 'osImage', 'containerRuntimeVersion'];
  const others = [...names, 'kubeProxyVersion', 'operatingSystem', 'architecture'].map((name) => [name, 'test']);
  return { ...(Object.fromEntries(others) as JsonObject), kubeletVersion };
}

const OUTDATED =
  'kubelet version is outdated: kubelet version is 1.29.9, which is lower than minimumKubeletVersion of 1.30.0';
/** A collection path, and an object to create in it. */
type Request = readonly [path: string, object: JsonObject];

const LEASE: Request = [
  '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases',
  { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'old' } },
];

function certificateRequest(): Request {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const request = forge.pki.createCertificationRequest();
  request.publicKey = forge.pki.publicKeyFromPem(publicKey);
  request.setSubject([{ name: 'commonName', value: 'system:node:old' }]);
  request.sign(forge.pki.privateKeyFromPem(privateKey), forge.md.sha256.create());
  const spec = {
    request: Buffer.from(forge.pki.certificationRequestToPem(request)).toString('base64'),
    signerName: 'kubernetes.io/kubelet-serving',
    usages: ['digital signature', 'server auth'],
  };
  const type = { apiVersion: 'certificates.k8s.io/v1', kind: 'CertificateSigningRequest' };
  return ['/apis/certificates.k8s.io/v1/certificatesigningrequests', { ...type, metadata: { name: 'old' }, spec }];
}

suite('the minimum kubelet version of an installation', async () => {
  const policy = { scc: { mode: 'off' }, kubelet: { taint: true } };
  const { plane, system } = await useSystem({
    objectsFor: (port) => localObjects(port, { features: FEATURES, policy }),
  });
  const request = (kubelet: JsonObject): Promise<void> =>
    system.configure({ scc: { mode: 'off' }, kubelet: { taint: true, ...kubelet } });
  await system.install();
  for (const one of [node('old', 'v1.29.0'), node('new', 'v1.31.0')]) {
    assert.equal((await create(plane.admin, one)).status, 201);
  }
  await request({ minimumVersion: '1.30.0' });
  await system.add(2);

  const minimum = async (): Promise<readonly (string | undefined)[]> => {
    const { status } = (await plane.admin.send('GET', SETTINGS)).body as PortcullisConfiguration;
    const { minimumVersion, renderedMinimumVersion } = status?.kubelet ?? {};
    const progress = status?.conditions?.find(({ type }) => type === 'Progressing');
    return [minimumVersion, renderedMinimumVersion, progress?.reason];
  };
  const report = async (name: string): Promise<readonly unknown[]> => {
    const { spec, status } = (await plane.admin.send('GET', `/api/v1/nodes/${name}`)).body as Node;
    const condition = status?.conditions?.find(({ type }) => type === 'KubeletVersionBelowMinimum');
    const taint = spec?.taints?.find(({ key }) => key === 'portcullis.dev/kubelet-outdated');
    return [condition?.reason, taint?.effect];
  };

  test('is not raised while a node is below it, and the node gets a condition and a taint', async (t) => {
    t.diagnostic(`ran against: ${plane.title}`);
    await eventually(async () => {
      assert.deepEqual(await minimum(), [undefined, undefined, 'NodesBelowMinimum']);
      assert.deepEqual(await report('old'), ['KubeletOutdated', 'NoSchedule']);
      assert.deepEqual(await report('new'), ['KubeletVersionSufficient', undefined]);
    });
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const { code, stdout } = await runProgram(['kubelet', 'status', `--kubeconfig=${kubeconfig}`]);
    assert.equal(code, 1);
    assert.match(stdout, /^old +<none> +v1\.29\.0 +outdated +kubelet version is outdated: /m);
    assert.match(stdout, /\n2 nodes, 1 below the minimum or with an unknown version\n$/);
  });

  test('is in effect and rendered after the kubelet is upgraded', async () => {
    const upgrade = { status: { nodeInfo: nodeInfo('v1.30.2') } };
    assert.equal((await plane.admin.send('PATCH', '/api/v1/nodes/old/status', upgrade, MERGE)).status, 200);
    await eventually(async () => {
      assert.deepEqual(await minimum(), ['1.30.0', '1.30.0', 'UpToDate']);
      assert.deepEqual(await report('old'), ['KubeletVersionSufficient', undefined]);
    });
    const { body } = await plane.admin.send('GET', '/apis/events.k8s.io/v1/namespaces/default/events');
    const { items } = body as { readonly items: readonly { readonly reason: string }[] };
    const reasons = items.map(({ reason }) => reason).filter((reason) => reason.startsWith('Kubelet'));
    assert.deepEqual(reasons.sort(), ['KubeletOutdated', 'KubeletVersionSufficient']);
  });

  test('is not enforced if the API server does not call the authorization webhook', async () => {
    const message = await eventually(async () => {
      const { status } = (await plane.admin.send('GET', SETTINGS)).body as PortcullisConfiguration;
      const condition = status?.conditions?.find(({ type }) => type === 'KubeletMinimumEnforced');
      assert.deepEqual([condition?.status, condition?.reason], ['False', 'AuthorizerNotCalled']);
      return condition?.message ?? '';
    });
    assert.match(
      message,
      /^the minimum 1\.30\.0 is in force, but it is not enforced\. At \S+Z, the authorization webhook was not called by the connected API server, the only one checked\. Check --authorization-config of kube-apiserver and the static pod portcullis-authorizer on each control plane node$/,
    );
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const { code, stdout } = await runProgram(['kubelet', 'status', `--kubeconfig=${kubeconfig}`, '-o=json']);
    const { authorizer } = JSON.parse(stdout) as { readonly authorizer?: unknown };
    assert.deepEqual([code, authorizer], [0, { server: plane.server, webhook: 'not-called' }]);
  });

  test('denies writes of a node that falls below it while the settings require this', async () => {
    const downgrade = { status: { nodeInfo: nodeInfo('v1.29.9') } };
    assert.equal((await plane.admin.send('PATCH', '/api/v1/nodes/old/status', downgrade, MERGE)).status, 200);
    const api = 'rbac.authorization.k8s.io';
    const binding = { apiVersion: `${api}/v1`, kind: 'ClusterRoleBinding', metadata: { name: 'nodes' } };
    const roleRef = { apiGroup: api, kind: 'ClusterRole', name: 'cluster-admin' };
    const subjects = [{ apiGroup: api, kind: 'Group', name: 'system:nodes' }];
    assert.equal((await create(plane.admin, { ...binding, roleRef, subjects })).status, 201);
    await createNamespace(plane.admin, 'kube-node-lease');
    await request({ minimumVersion: '1.30.0', admission: { nodeWrites: true, certificates: true } });
    for (const [path, object] of ASSETS === undefined ? [LEASE] : [LEASE, certificateRequest()]) {
      const write = (name: string) =>
        plane.admin.send('POST', `${path}?dryRun=All`, object, {
          'Impersonate-User': `system:node:${name}`,
          'Impersonate-Group': 'system:nodes',
        });
      await eventually(async () => {
        const answer = await write('old');
        assert.equal(answer.status, 403, answer.text);
        assert.ok(String(responseMessage(answer)).endsWith(OUTDATED), answer.text);
      });
      const answer = await write('new');
      assert.equal(answer.status, 201, answer.text);
    }
    const upgrade = { status: { nodeInfo: nodeInfo('v1.30.2') } };
    assert.equal((await plane.admin.send('PATCH', '/api/v1/nodes/old/status', upgrade, MERGE)).status, 200);
  });

  test('no longer denies writes once all pools have the rendered minimum', async () => {
    await request({});
    await eventually(async () => assert.deepEqual(await minimum(), ['1.30.0', undefined, 'WaitingForPools']));
    const confirmation = { metadata: { annotations: { [RENDERED]: 'none' } } };
    assert.equal((await plane.admin.send('PATCH', SETTINGS, confirmation, MERGE)).status, 200);
    await eventually(async () => {
      assert.deepEqual(await minimum(), [undefined, undefined, undefined]);
      assert.deepEqual(
        [await report('old'), await report('new')],
        [
          [undefined, undefined],
          [undefined, undefined],
        ],
      );
    });
  });

  test('needs only the permissions that the replicas have', async () => {
    assert.deepEqual(refusedCalls(await plane.calls()), []);
  });
});
