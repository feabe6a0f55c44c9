/** Tests the SCC modes of `serve`, and SCCs in its initial manifests. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { ApiClient, ApiResponse } from '../support/api-client.ts';
import { eventually } from '../support/eventually.ts';
import { connect } from '../support/kubeconfig.ts';
import { formatSettings, type RunningServer, serve } from '../support/serve-process.ts';

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'portcullis-test-'));
});
after(() => rm(folder, { recursive: true }));

/** A short SCC, an invalid SCC, and the roles of Alice and of the controller of ReplicaSets. */
const MANIFESTS = `apiVersion: v1
kind: Namespace
metadata: {name: before}
---
apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: short}
priority: 20
runAsUser: {type: MustRunAs, uid: 4711}
seLinuxContext: {type: RunAsAny}
users: [alice]
---
apiVersion: security.openshift.io/v1
kind: SecurityContextConstraints
metadata: {name: broken}
runAsUser: {type: MustRunAs}
seLinuxContext: {type: RunAsAny}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: alice}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
- {kind: ServiceAccount, name: replicaset-controller, namespace: kube-system}
---
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: before}
spec: {containers: [{name: c, image: i, securityContext: {privileged: true}}]}
`;

interface Started {
  readonly running: RunningServer;
  readonly client: ApiClient;
}

async function startWith(scc: object, manifests = MANIFESTS): Promise<Started> {
  const [file, config] = [join(folder, 'cluster.yaml'), join(folder, 'config.yaml')];
  await writeFile(file, manifests);
  await writeFile(config, formatSettings({ scc }));
  const running = await serve([`--manifests=${file}`, `--config=${config}`]);
  return { running, client: await connect(running) };
}

async function stop({ running, client }: Started): Promise<void> {
  client.close();
  await running.stop();
}

function createPod({ client }: Started, namespace: string, securityContext: object): Promise<ApiResponse> {
  const spec = { containers: [{ name: 'c', image: 'i', securityContext }] };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { generateName: 'p-' }, spec };
  return client.send('POST', `/api/v1/namespaces/${namespace}/pods`, pod, { 'Impersonate-User': 'alice' });
}

function createNamespace({ client }: Started, name: string, labels: object = {}): Promise<ApiResponse> {
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
  return client.send('POST', '/api/v1/namespaces', namespace);
}

function buildScc({ body }: ApiResponse): string | undefined {
  const { metadata } = body as { readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> } };
  return metadata?.annotations?.['openshift.io/scc'];
}

for (const authorization of ['rbac', 'sar']) {
  suite(`with SCC mode enforce and ${authorization} authorization,`, () => {
    let started: Started;
    before(async () => {
      started = await startWith({ mode: 'enforce', authorization });
    });
    after(() => stop(started));

    test('a namespace and its first pod can be created at the same time', async () => {
      const [namespace, first] = await Promise.all([createNamespace(started, 'shop'), createPod(started, 'shop', {})]);
      assert.equal(namespace.status, 201);
      // The pod request may arrive first.
      const pod = first.status === 404 ? await createPod(started, 'shop', {}) : first;
      assert.equal(pod.status, 201, pod.text);
      assert.equal(buildScc(pod), 'short');
    });

    test('SCCs in the manifests get defaults for missing fields', async () => {
      const { body } = await started.client.send(
        'GET',
        '/apis/security.openshift.io/v1/securitycontextconstraints/short',
      );
      const { volumes, allowPrivilegeEscalation } = body as Record<string, unknown>;
      assert.equal(allowPrivilegeEscalation, true);
      assert.equal((volumes as unknown[]).length, 29);
    });

    test('a privileged pod is denied', async () => {
      const answer = await createPod(started, 'before', { privileged: true });
      assert.equal(answer.status, 403);
      const { message } = answer.body as { readonly message: string };
      assert.match(
        message,
        /^admission webhook "mutate\.pods\.portcullis\.dev" denied the request: unable to validate against any security context constraint: \[provider short: \.containers\[0\]\.privileged: Invalid value: true: Privileged containers are not allowed, provider "anyuid": Forbidden: not usable by user or serviceaccount, /,
      );
    });

    test('a denied pod of a ReplicaSet is reported as an event on its Deployment', async () => {
      const { client } = started;
      const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'c', image: 'i' }] } };
      const deployment = {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'web' },
        spec: { selector: { matchLabels: { app: 'web' } }, template },
      };
      const created = await client.send('POST', '/apis/apps/v1/namespaces/before/deployments', deployment);
      assert.equal(created.status, 201, created.text);
      const controller = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web-5d4f', uid: 'u1', controller: true };
      const spec = { containers: [{ name: 'c', image: 'i', securityContext: { privileged: true } }] };
      const metadata = { generateName: 'web-5d4f-', ownerReferences: [controller] };
      const pod = { apiVersion: 'v1', kind: 'Pod', metadata, spec };
      const user = { 'Impersonate-User': 'system:serviceaccount:kube-system:replicaset-controller' };
      const denied = await client.send('POST', '/api/v1/namespaces/before/pods', pod, user);
      assert.equal(denied.status, 403, denied.text);
      await eventually(async () => {
        const { text } = await client.send('GET', '/apis/events.k8s.io/v1/namespaces/before/events');
        const { items } = JSON.parse(text) as {
          items: readonly { reason: string; note: string; regarding: { name?: string } }[];
        };
        const { reason, note, regarding } = items.find((one) => one.reason === 'SCCViolation') ?? {};
        assert.deepEqual([reason, regarding?.name], ['SCCViolation', 'web']);
        assert.match(note ?? '', /^unable to validate .*To fix: portcullis explain deployment\/web -n before$/);
      });
    });

    test('an invalid SCC is reported by readiness, a metric and a log line', async () => {
      const ready = await fetch(`${started.running.probes}/readyz?verbose`);
      assert.equal(ready.status, 200);
      assert.match(await ready.text(), /^\[\+\]scc ok: SCC broken is invalid \(MustRunAs requires a UID\)$/m);
      const { scc, reason, level } = await started.running.logged('broken SCC, which decisions skip');
      assert.deepEqual([scc, reason, level], ['broken', 'MustRunAs requires a UID', 'warn']);
      const metrics = await (await fetch(`${started.running.probes}/metrics`)).text();
      assert.match(metrics, /^portcullis_scc_broken\{scc="broken"\} 1$/m);
    });

    test('a metric counts decisions by SCC', async () => {
      const metrics = await (await fetch(`${started.running.probes}/metrics`)).text();
      assert.match(
        metrics,
        /^portcullis_scc_decisions_total\{operation="create",mode="enforce",decision="allow",scc="short",subject_type="user"\} 1$/m,
      );
    });
  });
}

suite('by default,', () => {
  let started: Started;
  before(async () => {
    started = await startWith({});
  });
  after(() => stop(started));

  test('a pod that enforcement would deny is created with a warning', async () => {
    const answer = await createPod(started, 'before', { privileged: true });
    assert.equal(answer.status, 201);
    assert.equal(buildScc(answer), undefined);
    assert.match(
      answer.warnings[0] ?? '',
      /^299 - "would be denied if security context constraints were enforced: unable to validate against any security context constraint"$/,
    );
  });

  test('pods are not changed', async () => {
    const answer = await createPod(started, 'before', {});
    assert.deepEqual([answer.status, buildScc(answer)], [201, undefined]);
    const { spec } = answer.body as { readonly spec: { readonly containers: readonly object[] } };
    assert.deepEqual((spec.containers[0] as { securityContext: unknown }).securityContext, {});
  });

  test('a namespace label enables enforcement', async () => {
    await createNamespace(started, 'ahead', { 'portcullis.dev/scc': 'enforce' });
    assert.equal(buildScc(await createPod(started, 'ahead', {})), 'short');
    assert.equal((await createPod(started, 'ahead', { privileged: true })).status, 403);
  });
});

suite('with SCC mode off,', () => {
  let started: Started;
  before(async () => {
    started = await startWith({ mode: 'off' }, MANIFESTS.replaceAll(/---\napiVersion: security[^]*?(?=---)/g, ''));
  });
  after(() => stop(started));

  test('a namespace label is ignored', async () => {
    await createNamespace(started, 'shop', { 'portcullis.dev/scc': 'enforce' });
    const answer = await createPod(started, 'shop', { privileged: true });
    assert.deepEqual([answer.status, buildScc(answer), answer.warnings], [201, undefined, []]);
  });

  test('no SCC is created', async () => {
    const names = async (path: string): Promise<string[]> => {
      const { body } = await started.client.send('GET', path);
      const { items } = body as { readonly items: readonly { readonly metadata: { readonly name: string } }[] };
      return items.map(({ metadata }) => metadata.name);
    };
    assert.deepEqual(await names('/apis/security.openshift.io/v1/securitycontextconstraints'), []);
  });
});
