/**
 * Tests that replicas continue to decide while controller writes of every kind fail with each code, and that all
 * objects are written eventually.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { INSTALLATION, ROTATE_ANNOTATION } from '../../src/api/names.ts';
import { OLM_DEFINITIONS } from '../../src/dev-cluster/index.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { REPLICA_USER } from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { assertNoFailures, recordFault, setUpStage, type Stage } from './stage.ts';

const CODES = [429, 409, 422, 500] as const;
const MERGE = { 'content-type': 'application/merge-patch+json' };
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const SCCS = '/apis/security.openshift.io/v1/securitycontextconstraints';
const SECRET = `/api/v1/namespaces/${INSTALLATION.namespace}/secrets/${INSTALLATION.certificateSecret}`;
const METHODS: Readonly<Record<string, string>> = { create: 'POST', update: 'PUT', patch: 'PATCH', delete: 'DELETE' };

/** The kinds of writes in this test. It causes no removals at shutdown or after a feature is disabled. */
const EXPECTED = [
  ...['namespaces', 'nodes', 'nodes/status', 'portcullisconfigurations', 'portcullisconfigurations/status'].map(
    (resource) => `PATCH ${resource}`,
  ),
  ...['psaenforcementconfigs', 'psaenforcementconfigs/status'].map((resource) => `PATCH ${resource}`),
  ...['configmaps', 'leases', 'rangeallocations', 'secrets', 'clusterroles', 'securitycontextconstraints']
    .concat('mutatingwebhookconfigurations', 'validatingwebhookconfigurations')
    .flatMap((resource) => [`POST ${resource}`, `PUT ${resource}`]),
  ...['POST clusterrolebindings', 'DELETE clusterrolebindings'],
];

/** Writes that need not succeed, because events are not repeated and the CRDs of reports are not installed. */
const BEST_EFFORT = ['POST events', 'PATCH events', 'PATCH clusterreports', 'PATCH clusterpolicyreports'];

const ANYUID = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:openshift:scc:anyuid' };

/**
 * Objects that exist before the replicas start. The binding must be replaced, and the node has a report and a taint.
 */
const OBJECTS: readonly JsonObject[] = [
  ...OLM_DEFINITIONS,
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'system:openshift:scc:restricted-v2' },
    roleRef: ANYUID,
  },
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'old' },
    spec: {},
    status: {
      nodeInfo: {
        ...Object.fromEntries(
          ['machineID', 'systemUUID', 'bootID', 'kernelVersion', 'osImage', 'containerRuntimeVersion']
            .concat('kubeProxyVersion', 'operatingSystem', 'architecture')
            .map((name) => [name, 'test']),
        ),
        kubeletVersion: 'v1.29.0',
      },
      conditions: [{ type: 'Ready', status: 'True' }],
    },
  },
];

suite('replicas tolerate rejected writes:', () => {
  let stage: Stage;
  const kinds = new Set<string>();
  const send = async (method: string, path: string, body?: JsonObject): Promise<void> => {
    const { status, text } = await stage.plane.admin.send(method, path, body, method === 'PATCH' ? MERGE : {});
    assert.ok(status < 300, `${method} ${path}: ${text}`);
  };
  const createNamespace = (name: string): Promise<void> =>
    send('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  /** Waits until each rejected kind of write was rejected with each code and has succeeded. */
  const waitForSuccess = (timeoutMs: number): Promise<void> =>
    eventually(async () => {
      const calls = await stage.plane.calls();
      const success = new Set(
        calls
          .filter(({ user, code }) => user === REPLICA_USER && code < 300)
          .map(({ verb, resource, subresource }) => `${METHODS[verb]} ${resource}${subresource && `/${subresource}`}`),
      );
      const rejected = [...stage.proxy.rejectedWrites()].filter(([kind]) => !BEST_EFFORT.includes(kind));
      for (const [kind] of rejected) kinds.add(kind);
      const unfinished = rejected.filter(([kind, codes]) => codes.length < CODES.length || !success.has(kind));
      assert.deepEqual(unfinished, []);
    }, timeoutMs);
  before(async () => {
    stage = await setUpStage({
      perSecond: 60,
      manifests: {
        features: { scc: true, rollout: true, kubelet: true, olm: true },
        policy: { scc: { mode: 'enforce' }, kubelet: { taint: true } },
      },
    });
    for (const object of OBJECTS) {
      const { status, text } = await create(stage.plane.admin, object);
      assert.equal(status, 201, text);
    }
    await stage.system.configure({
      rollout: { phase: 'Enforce', raiseSettleTime: '1s' },
      scc: { mode: 'enforce' },
      kubelet: { minimumVersion: '1.30.0', taint: true },
    });
  });
  after(() => stage.stop());

  test('they start while writes are rejected', { timeout: 300_000 }, async (t) => {
    const startMs = performance.now();
    await stage.proxy.set({ rejectedWrites: CODES });
    await stage.start(2);
    await eventually(() => stage.settled(2), 120_000);
    await waitForSuccess(120_000);
    t.diagnostic(`took ${Math.round(performance.now() - startMs)} ms`);
  });

  test('they lose no review while writes are rejected with 429, 409, 422 and 500', { timeout: 300_000 }, async (t) => {
    const startMs = performance.now();
    const report = await stage.underLoad(async () => {
      await stage.proxy.set({ rejectedWrites: CODES });
      await createNamespace('new');
      await createNamespace('openshift-new');
      await send('DELETE', `${ADMISSION}/mutatingwebhookconfigurations/zz.portcullis.dev`);
      await send('DELETE', `${SCCS}/nonroot`);
      await send('PATCH', `${SCCS}/restricted-v2`, { readOnlyRootFilesystem: true });
      await send('PATCH', `${RBAC}/clusterroles/${ANYUID.name}`, { rules: [] });
      await send('PATCH', SECRET, { metadata: { annotations: { [ROTATE_ANNOTATION]: 'serving' } } });
      await waitForSuccess(120_000);
    });
    recordFault(t, report, performance.now() - startMs);
    assertNoFailures(report);
    t.diagnostic(`kinds of writes: ${[...kinds].sort().join(', ')}`);
    assert.deepEqual(
      EXPECTED.filter((kind) => !kinds.has(kind)),
      [],
    );
  });
});
