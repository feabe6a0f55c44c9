/**
 * Tests an installation with the Kubernetes controllers, including pods, events, conditions, garbage collection, tokens
 * and drains.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { INSTALLATION } from '../../src/api/names.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseItems, responseObject } from '../support/answers.ts';
import { type ControlPlane, createSystem, type System } from '../support/control-plane/index.ts';
import { create } from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { type FullCluster, missingPrograms, startFullCluster } from './cluster.ts';
import {
  assertRunning,
  COMPLIANT,
  CONTROLLER,
  eventMessages,
  HOST_NETWORK,
  isRunning,
  KINDS,
  listPods,
  PLAIN,
  workload,
  workloadPath,
} from './workloads.ts';

const NODES = 30;
/** A DaemonSet on the nodes in one of three zones. */
const DAEMON_PODS = NODES / 3;
const WAIT_MS = 180_000;
const MERGE = { 'content-type': 'application/merge-patch+json' };

const ENFORCE = 'pod-security.kubernetes.io/enforce';
const SCC = 'portcullis.dev/scc';
const HOST_DENIAL = /violates PodSecurity "baseline:latest": host namespaces \(hostNetwork=true\)/;
const RESTRICTED_DENIAL = /violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false/;
const SCC_DENIAL = /unable to validate against any security context constraint/;
const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';

function podCount(kind: string): number {
  return { DaemonSet: DAEMON_PODS, CronJob: 1 }[kind] ?? 3;
}

suite('in a cluster with the controllers of Kubernetes,', { skip: missingPrograms }, () => {
  let cluster: FullCluster;
  let plane: ControlPlane;
  let system: System;

  const get = async (path: string): Promise<JsonObject> => responseObject(await plane.admin.send('GET', path));
  const succeeds = async (object: JsonObject): Promise<void> => {
    const answer = await create(plane.admin, object);
    assert.equal(answer.status, 201, answer.text);
  };
  const namespace = (name: string, labels: JsonObject): Promise<void> =>
    succeeds({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });

  before(async () => {
    cluster = await startFullCluster(NODES);
    ({ plane } = cluster);
    system = await createSystem(plane);
    await system.install();
    await system.add(2);
    await namespace('shop', { [ENFORCE]: 'baseline' });
    await namespace('vault', { [ENFORCE]: 'restricted' });
    await namespace('guarded', { [ENFORCE]: 'privileged', [SCC]: 'enforce' });
    await eventually(async () => {
      const pod = { metadata: { name: 'p' }, spec: HOST_NETWORK };
      for (const name of ['shop', 'vault', 'guarded']) {
        const answer = await plane.admin.send('POST', `/api/v1/namespaces/${name}/pods?dryRun=All`, pod, CONTROLLER);
        assert.match(answer.text, name === 'guarded' ? SCC_DENIAL : /violates PodSecurity/);
      }
    }, WAIT_MS);
  });
  after(async () => {
    try {
      await system?.stop();
    } finally {
      await cluster?.stop();
    }
  });

  test('controllers create only the pods that the levels allow', async (t) => {
    t.diagnostic(`ran against: ${plane.title}, ${NODES} simulated nodes`);
    for (const kind of KINDS) await succeeds(workload(kind, `good-${kind.toLowerCase()}`, 'vault', COMPLIANT));
    for (const kind of KINDS) {
      // A CronJob starts its first Job within a minute.
      const name = `good-${kind.toLowerCase()}`;
      await eventually(async () => {
        const running = (await listPods(plane.admin, 'vault', name)).filter(isRunning);
        assert.ok(running.length >= podCount(kind), `${name}: ${running.length}`);
      }, WAIT_MS);
    }
  });

  test('workloads report the reason for denied pods in events and conditions', async () => {
    for (const kind of KINDS) {
      await succeeds(workload(kind, `bad-${kind.toLowerCase()}`, 'shop', HOST_NETWORK));
      await succeeds(workload(kind, `bad-${kind.toLowerCase()}`, 'vault', PLAIN));
    }
    for (const kind of KINDS) {
      const name = `bad-${kind.toLowerCase()}`;
      for (const [place, denial] of [
        ['shop', HOST_DENIAL],
        ['vault', RESTRICTED_DENIAL],
      ] as const) {
        await eventually(async () => {
          const messages = await eventMessages(plane.admin, place, 'FailedCreate', name);
          assert.ok(
            messages.some((message) => denial.test(message)),
            `${place}/${name}: ${messages.join('\n')}`,
          );
        }, WAIT_MS);
        assert.deepEqual(await listPods(plane.admin, place, name), []);
      }
    }
    for (const kind of ['Deployment', 'ReplicaSet', 'ReplicationController']) {
      await eventually(async () => {
        const { status } = await get(workloadPath(workload(kind, `bad-${kind.toLowerCase()}`, 'shop', HOST_NETWORK)));
        const conditions = isObject(status) && Array.isArray(status['conditions']) ? status['conditions'] : [];
        const failure = conditions.filter(isObject).find(({ type }) => type === 'ReplicaFailure');
        assert.equal(failure?.['reason'], 'FailedCreate', JSON.stringify(status));
        assert.match(String(failure?.['message']), HOST_DENIAL);
      }, WAIT_MS);
    }
  });

  test('a corrected workload recovers', async (t) => {
    for (const kind of ['Deployment', 'StatefulSet', 'DaemonSet']) {
      const name = `bad-${kind.toLowerCase()}`;
      const { spec } = workload(kind, name, 'shop', PLAIN);
      const template = { ...(spec as { readonly template: JsonObject }).template };
      const startMs = performance.now();
      const path = workloadPath(workload(kind, name, 'shop', PLAIN));
      const patch = { spec: { template: { spec: { ...(template['spec'] as JsonObject), hostNetwork: null } } } };
      assert.equal((await plane.admin.send('PATCH', path, patch, MERGE)).status, 200);
      await eventually(() => assertRunning(plane.admin, 'shop', name, podCount(kind)), WAIT_MS);
      t.diagnostic(`${kind}: all pods run ${Math.round((performance.now() - startMs) / 1000)} s after the correction`);
    }
  });

  test('SCC admission defaults the pods of controllers', async () => {
    for (const kind of ['Deployment', 'StatefulSet', 'DaemonSet', 'Job']) {
      const name = `good-${kind.toLowerCase()}`;
      await succeeds(workload(kind, name, 'guarded', PLAIN));
      await succeeds(workload(kind, `bad-${kind.toLowerCase()}`, 'guarded', HOST_NETWORK));
      await eventually(() => assertRunning(plane.admin, 'guarded', name, podCount(kind)), WAIT_MS);
      for (const pod of await listPods(plane.admin, 'guarded', name)) {
        const { annotations } = objectMetadata(pod) as { readonly annotations?: JsonObject };
        assert.equal(annotations?.['openshift.io/scc'], 'restricted-v2', name);
      }
      await eventually(async () => {
        const messages = await eventMessages(plane.admin, 'guarded', 'FailedCreate', `bad-${kind.toLowerCase()}`);
        assert.ok(
          messages.some((message) => SCC_DENIAL.test(message)),
          messages.join('\n'),
        );
      }, WAIT_MS);
    }
  });

  test('an operator creates the pods of a custom resource, and the garbage collector deletes them with it', async () => {
    const group = 'example.com';
    const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    await succeeds({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `shops.${group}` },
      spec: {
        group,
        names: { kind: 'Shop', plural: 'shops' },
        scope: 'Namespaced',
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    });
    const shop = { apiVersion: `${group}/v1`, kind: 'Shop', metadata: { name: 'own', namespace: 'guarded' } };
    const path = `/apis/${group}/v1/namespaces/guarded/shops`;
    await eventually(async () => assert.equal((await plane.admin.send('POST', path, shop)).status, 201), WAIT_MS);
    await succeeds({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'operator', namespace: 'guarded' } });
    const rbac = 'rbac.authorization.k8s.io';
    await succeeds({
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata: { name: 'operator', namespace: 'guarded' },
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'edit' },
      subjects: [{ kind: 'ServiceAccount', name: 'operator', namespace: 'guarded' }],
    });
    const { uid } = objectMetadata(await get(`${path}/own`));
    const owner = { apiVersion: shop.apiVersion, kind: 'Shop', name: 'own', uid, controller: true };
    const createPod = (name: string, spec: JsonObject) => {
      const metadata = { name, namespace: 'guarded', labels: { app: 'own' }, ownerReferences: [owner] };
      const headers = { 'Impersonate-User': 'system:serviceaccount:guarded:operator' };
      return plane.admin.send('POST', '/api/v1/namespaces/guarded/pods', { metadata, spec }, headers);
    };
    await eventually(async () => assert.equal((await createPod('own-0', PLAIN)).status, 201), WAIT_MS);
    assert.match((await createPod('own-1', HOST_NETWORK)).text, SCC_DENIAL);
    await eventually(() => assertRunning(plane.admin, 'guarded', 'own', 1), WAIT_MS);
    assert.equal((await plane.admin.send('DELETE', `${path}/own`)).status, 200);
    await eventually(async () => assert.deepEqual(await listPods(plane.admin, 'guarded', 'own'), []), WAIT_MS);
  });

  test('the clusterrole-aggregation-controller aggregates the roles of the installation', async () => {
    for (const role of ['view', 'edit', 'admin']) {
      await eventually(async () => {
        const { rules } = await get(`/apis/rbac.authorization.k8s.io/v1/clusterroles/${role}`);
        assert.match(JSON.stringify(rules), /securitycontextconstraints/, role);
      }, WAIT_MS);
    }
  });

  test('a token that the API server issues has the permissions of a replica', async () => {
    const { namespace: home, name } = INSTALLATION;
    const account = `/api/v1/namespaces/${home}/serviceaccounts/${name}`;
    const answer = await plane.admin.send('POST', `${account}/token`, { spec: {} });
    const { status } = responseObject(answer);
    const token = isObject(status) ? String(status['token']) : '';
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } };
    const reviewed = await plane.admin.send('POST', '/apis/authentication.k8s.io/v1/tokenreviews', review);
    assert.match(reviewed.text, new RegExp(`"username":"system:serviceaccount:${home}:${name}"`));
  });

  test('the token controller fills the Secret of a service account in an enforced namespace', async () => {
    const annotations = { 'kubernetes.io/service-account.name': 'default' };
    const metadata = { name: 'token', namespace: 'guarded', annotations };
    await succeeds({ apiVersion: 'v1', kind: 'Secret', metadata, type: 'kubernetes.io/service-account-token' });
    await eventually(async () => {
      const { data } = await get('/api/v1/namespaces/guarded/secrets/token');
      assert.ok(isObject(data) && String(data['token']).length > 0);
    }, WAIT_MS);
  });

  test('a drain evicts one replica at a time', async () => {
    const home = INSTALLATION.namespace;
    const pods = async (): Promise<readonly JsonObject[]> =>
      (await listPods(plane.admin, home)).filter((pod) => objectMetadata(pod)['deletionTimestamp'] === undefined);
    await eventually(async () => assert.equal((await pods()).filter(isRunning).length, 3), WAIT_MS);
    await eventually(async () => {
      const { status } = await get(`/apis/policy/v1/namespaces/${home}/poddisruptionbudgets/${INSTALLATION.name}`);
      assert.ok(isObject(status) && status['disruptionsAllowed'] === 1, JSON.stringify(status));
    }, WAIT_MS);
    const names = (await pods()).map((pod) => String(objectMetadata(pod)['name']));
    const evict = async (name: string): Promise<number> => {
      const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace: home } };
      return (await plane.admin.send('POST', `/api/v1/namespaces/${home}/pods/${name}/eviction`, eviction)).status;
    };
    const [first = '', second = ''] = names;
    assert.equal(await evict(first), 201);
    assert.equal(await evict(second), 429);
    await eventually(async () => assert.equal(await evict(second), 201), WAIT_MS);
    await eventually(async () => assert.equal((await pods()).filter(isRunning).length, 3), WAIT_MS);
  });

  test('an enforced namespace with workloads is deleted', async () => {
    for (const name of ['shop', 'guarded']) {
      assert.equal((await plane.admin.send('DELETE', `/api/v1/namespaces/${name}`)).status, 200);
    }
    for (const name of ['shop', 'guarded']) {
      await eventually(async () => {
        const { status, text } = await plane.admin.send('GET', `/api/v1/namespaces/${name}`);
        assert.equal(status, 404, text);
      }, WAIT_MS);
    }
  });

  test('the garbage collector deletes the webhook configurations with the role that owns them', async () => {
    await system.stop();
    const before = responseItems(await plane.admin.send('GET', CONFIGURATIONS)).map(objectMetadata);
    assert.ok(before.some(({ name }) => name === 'portcullis.dev'));
    const role = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${INSTALLATION.webhookRole}`;
    assert.equal((await plane.admin.send('DELETE', role)).status, 200);
    await eventually(async () => {
      assert.deepEqual(responseItems(await plane.admin.send('GET', CONFIGURATIONS)), []);
    }, WAIT_MS);
    await namespace('later', {});
    await succeeds(workload('Deployment', 'later', 'later', HOST_NETWORK));
    await eventually(() => assertRunning(plane.admin, 'later', 'later', 3), WAIT_MS);
  });
});
