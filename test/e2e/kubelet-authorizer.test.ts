/**
 * Tests the authorization webhook of `install --profile=control-plane` with a real API server, which calls it through
 * the generated files. Requires KUBEBUILDER_ASSETS, because the development cluster does not support authorization
 * webhooks.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { readDocuments } from '../../src/config/yaml.ts';
import { CRDS } from '../../src/install/index.ts';
import type { JsonObject, PortcullisConfiguration } from '../../src/kube/types.ts';
import { responseMessage } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { findMissingField } from '../support/control-plane/discovery.ts';
import {
  ASSETS,
  type ControlPlane,
  createSystem,
  type Replica,
  startControlPlane,
  startReplica,
} from '../support/control-plane/index.ts';
import { apply, create, localObjects } from '../support/control-plane/installation.ts';
import { freePorts } from '../support/control-plane/process.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const MERGE = { 'content-type': 'application/merge-patch+json' };
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const OUTDATED =
  'kubelet version is outdated: kubelet version is 1.29.8, which is lower than minimumKubeletVersion of 1.33.0';

/** Returns the generated files, adapted to another folder and free ports, and without the decision cache. */
async function writeFiles(folder: string, [port = 0, probes = 0]: readonly number[]): Promise<void> {
  const { code, stderr } = await runProgram(['install', '--profile=control-plane', `--output-dir=${folder}`]);
  assert.equal(code, 0, stderr);
  const files = ['manifests/portcullis-authorizer.yaml', 'authz/authorization.yaml'];
  for (const name of [...files, 'authz/minimum-kubelet-version.kubeconfig']) {
    const text = await readFile(join(folder, name), 'utf8');
    const adapted = text
      .replaceAll('/etc/kubernetes/authz', join(folder, 'authz'))
      .replaceAll('9444', String(port))
      .replaceAll('9445', String(probes))
      .replaceAll('TTL: "10s"', 'TTL: 1ms');
    await writeFile(join(folder, name), adapted);
  }
}

async function readObjects(file: string): Promise<readonly JsonObject[]> {
  const { documents } = readDocuments(await readFile(file, 'utf8'), file);
  return documents.map(({ value }) => value as JsonObject);
}

suite(
  'the minimum kubelet version on a real API server',
  { skip: ASSETS === undefined && 'no KUBEBUILDER_ASSETS' },
  () => {
    let folder: string;
    let plane: ControlPlane;
    let replica: Replica | undefined;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
      const ports = await freePorts(2);
      await writeFiles(folder, ports);
      const authorizationConfig = join(folder, 'authz/authorization.yaml');
      plane = await startControlPlane({ authorizationConfig });
      await apply(plane.admin, [...CRDS, ...(await readObjects(join(folder, 'rbac.yaml')))]);
      const settings = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
      const metadata = { name: 'cluster' };
      await eventually(() =>
        apply(plane.admin, [{ ...settings, metadata, spec: { kubelet: { minimumVersion: '1.33.0' } } }]),
      );
      // The controller has put the minimum into effect.
      await send('PATCH', `${SETTINGS}/status`, { status: { kubelet: { minimumVersion: '1.33.0' } } });
      for (const [name, version] of Object.entries({ old: 'v1.29.8', new: 'v1.33.2' })) await createNode(name, version);
      await eventually(async () =>
        assert.equal((await send('GET', '/api/v1/namespaces/default/serviceaccounts/default')).status, 200),
      );
      for (const node of ['old', 'new']) await createPod(node);
      const [pod] = (await readObjects(join(folder, 'manifests/portcullis-authorizer.yaml'))) as readonly {
        readonly spec: { readonly containers: readonly { readonly args: readonly string[] }[] };
      }[];
      const [, ...args] = pod?.spec.containers[0]?.args ?? [];
      replica = await startReplica(plane, {
        kubeconfig: await plane.kubeconfigFor('portcullis-authorizer', []),
        port: ports[0] ?? 0,
        args: args.filter((arg) => !arg.startsWith('--kubeconfig')),
      });
      await replica.ready();
    });
    after(async () => {
      await replica?.stop();
      await plane.stop();
      await rm(folder, { recursive: true });
    });

    const send = (method: string, path: string, body?: object, node?: string): Promise<ApiResponse> => {
      const headers =
        node === undefined ? {} : { 'Impersonate-User': `system:node:${node}`, 'Impersonate-Group': 'system:nodes' };
      return plane.admin.send(method, path, body, { ...headers, ...(method === 'PATCH' ? MERGE : {}) });
    };
    const createNode = async (name: string, kubeletVersion: string): Promise<void> => {
      await send('POST', '/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name } });
      const { status, text } = await send('PATCH', `/api/v1/nodes/${name}/status`, {
        status: { nodeInfo: { kubeletVersion } },
      });
      assert.equal(status, 200, text);
    };
    /** Creates a pod on the node, with a Secret that only this node may read. */
    const createPod = async (node: string): Promise<void> => {
      const metadata = { name: node, namespace: 'default' };
      await send('POST', '/api/v1/namespaces/default/secrets', { apiVersion: 'v1', kind: 'Secret', metadata });
      const volumes = [{ name: 's', secret: { secretName: node } }];
      const spec = {
        nodeName: node,
        volumes,
        containers: [{ name: 'c', image: 'i' }],
        automountServiceAccountToken: false,
      };
      const { status, text } = await send('POST', '/api/v1/namespaces/default/pods', {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata,
        spec,
      });
      assert.equal(status, 201, text);
    };
    const readSecret = (node: string): Promise<ApiResponse> =>
      send('GET', `/api/v1/namespaces/default/secrets/${node}`, undefined, node);
    const listPods = (node: string): Promise<ApiResponse> =>
      send('GET', `/api/v1/pods?fieldSelector=spec.nodeName%3D${node}`, undefined, node);
    const reportVersion = (node: string, kubeletVersion: string): Promise<ApiResponse> =>
      send('PATCH', `/api/v1/nodes/${node}/status`, { status: { nodeInfo: { kubeletVersion } } }, node);

    test('a node with a new kubelet can read its pods and their secrets', async () => {
      await eventually(async () => assert.equal((await readSecret('new')).status, 200));
      assert.equal((await listPods('new')).status, 200);
    });

    test('a node with an old kubelet loses access to pods and secrets, and gets the reason', async () => {
      for (const answer of [await readSecret('old'), await listPods('old')]) {
        assert.equal(answer.status, 403);
        assert.ok(String(responseMessage(answer)).endsWith(OUTDATED), answer.text);
      }
    });

    test('a node with an old kubelet cannot gain access with a request that leads to an oversized review', async (t) => {
      // Reviews from older API servers do not contain selectors.
      const type = 'io.k8s.api.authorization.v1.ResourceAttributes';
      const missing = await findMissingField(plane, 'authorization.k8s.io/v1', type, 'fieldSelector');
      if (missing !== false) {
        t.skip(missing);
        return;
      }
      const selector = Array.from({ length: 5000 }, (_, index) => `!k${index}`).join();
      const answer = await send(
        'GET',
        `/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dold&labelSelector=${selector}`,
        undefined,
        'old',
      );
      assert.equal(answer.status, 403, answer.text);
      assert.ok(String(responseMessage(answer)).endsWith('the review has more than 65536 bytes'), answer.text);
    });

    test('a node with an old kubelet can still read its own Node', async () => {
      assert.equal((await send('GET', '/api/v1/nodes/old', undefined, 'old')).status, 200);
    });

    test('an upgraded kubelet reports its version and recovers', async () => {
      const answer = await reportVersion('old', 'v1.33.1');
      assert.equal(answer.status, 200, answer.text);
      await eventually(async () => assert.equal((await readSecret('old')).status, 200));
    });

    test('a new node registers', async () => {
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'joining' } };
      const answer = await send('POST', '/api/v1/nodes', node, 'joining');
      assert.equal(answer.status, 201, answer.text);
    });

    test('in OpenShift compatibility mode, no node can join and an upgraded kubelet stays locked out, as in upstream', async () => {
      await createNode('late', 'v1.29.8');
      await send('PATCH', SETTINGS, { spec: { kubelet: { compatibility: 'openshift' } } });
      // The Node does not exist, so the patch changes nothing while the previous setting still applies.
      await eventually(async () => assert.equal((await reportVersion('absent', 'v1.33.1')).status, 403));
      const report = await reportVersion('late', 'v1.33.1');
      assert.equal(report.status, 403);
      assert.ok(String(responseMessage(report)).endsWith(OUTDATED), report.text);
      const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'unknown' } };
      const answer = await send('POST', '/api/v1/nodes', node, 'unknown');
      assert.equal(answer.status, 403);
      assert.ok(String(responseMessage(answer)).endsWith('node "unknown" not found'), answer.text);
    });

    test('the condition of the settings states whether and when the API server called the webhook', async () => {
      const features = { scc: false, rollout: false, kubelet: true, olm: false };
      const policy = { scc: { mode: 'off' }, kubelet: { minimumVersion: '1.33.0' } };
      const system = await createSystem(plane, { objectsFor: (port) => localObjects(port, { features, policy }) });
      try {
        await system.install();
        await system.configure(policy);
        await system.add(1);
        const started = new Date().toISOString();
        const { status, reason, message } = await eventually(async () => {
          const { conditions = [] } = ((await send('GET', SETTINGS)).body as PortcullisConfiguration).status ?? {};
          const condition = conditions.find(({ type }) => type === 'KubeletMinimumEnforced');
          assert.ok(condition);
          return condition;
        }, 30_000);
        const [, time = ''] =
          /^the minimum 1\.33\.0 is enforced\. At (.+Z), the authorization webhook was called by the connected API server, the only one checked$/.exec(
            message,
          ) ?? [];
        assert.deepEqual([status, reason, time === '' ? message : ''], ['True', 'AuthorizerCalled', '']);
        assert.ok(Math.abs(Date.parse(time) - Date.parse(started)) < 60_000, time);
      } finally {
        await system.stop();
      }
    });

    /** Returns the lines of `kubelet status` about the authorizer. */
    const authorizer = async (user: string, groups: readonly string[]): Promise<readonly string[]> => {
      const kubeconfig = await plane.kubeconfigFor(user, groups);
      const { stdout, stderr } = await runProgram(['kubelet', 'status', `--kubeconfig=${kubeconfig}`]);
      assert.equal(stderr, '');
      return stdout.split('\n').filter((line) => line.startsWith('Authorizer: '));
    };

    test('kubelet status states whether the API server calls the webhook', async () => {
      const called = await authorizer('admin', ['system:masters']);
      assert.deepEqual(called, [`Authorizer:   called   ${plane.server}`]);
      await replica?.stop();
      const [stopped = ''] = await authorizer('admin', ['system:masters']);
      const [state, ...error] = stopped.split(' (');
      assert.equal(state, `Authorizer:   not-called   ${plane.server}`);
      assert.match(error.join(' ('), /^Post "https:\/\/127\.0\.0\.1:.*connect: connection refused\)$/);
    });

    test('kubelet status reports that the user may not create the access review', async () => {
      const apiGroup = 'rbac.authorization.k8s.io';
      const type = { apiVersion: `${apiGroup}/v1`, metadata: { name: 'reader' } };
      const rules = [
        { apiGroups: [''], resources: ['nodes'], verbs: ['list'] },
        { apiGroups: ['config.portcullis.dev'], resources: ['portcullisconfigurations'], verbs: ['get'] },
      ];
      const roleRef = { apiGroup, kind: 'ClusterRole', name: 'reader' };
      const subjects = [{ apiGroup, kind: 'User', name: 'reader' }];
      await create(plane.admin, { ...type, kind: 'ClusterRole', rules });
      await create(plane.admin, { ...type, kind: 'ClusterRoleBinding', roleRef, subjects });
      await eventually(async () => {
        assert.deepEqual(await authorizer('reader', []), [
          `Authorizer:   unknown   ${plane.server} (subjectaccessreviews.authorization.k8s.io is forbidden: User "reader" cannot create resource "subjectaccessreviews" in API group "authorization.k8s.io" at the cluster scope)`,
        ]);
      });
    });
  },
);
