/**
 * Tests installations with Pod Security alone and with SCCs on a control plane. The feature is added to a running
 * installation and removed again.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { defaultSettings, PROFILES } from '../../src/install/index.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseItems, responseMessage, responseObject } from '../support/answers.ts';
import { type Replica, useSystem } from '../support/control-plane/index.ts';
import { apply, create, createNamespace, localObjects } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';
import { createKubectl, hasKubectl } from '../support/kubectl.ts';
import { runProgram } from '../support/memory-io.ts';

const DEFAULT = { features: defaultSettings('1.0.0').features };
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const MERGE = { 'content-type': 'application/merge-patch+json' };
const SCC_DEFINITION =
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/securitycontextconstraints.security.openshift.io';
const SCC_GROUP = '/apis/security.openshift.io/v1';

const COMPLIANT = {
  securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
  containers: [
    {
      name: 'c',
      image: 'registry.example.com/c:1',
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    },
  ],
};
const PRIVILEGED = {
  containers: [{ name: 'c', image: 'registry.example.com/c:1', securityContext: { privileged: true } }],
};

suite('the SCC feature', async () => {
  const { plane, system } = await useSystem({ objectsFor: (port) => localObjects(port, DEFAULT) });
  const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted', 'portcullis.dev/scc': 'enforce' };
  await createNamespace(plane.admin, 'shop', labels);

  const get = async (path: string): Promise<JsonObject> => {
    const answer = await plane.admin.send('GET', path);
    assert.equal(answer.status, 200, answer.text);
    return responseObject(answer);
  };
  const status = async (path: string): Promise<number> => (await plane.admin.send('GET', path)).status;
  /** Returns the number of reviews that API servers send for a request. */
  const countCalls = async (send: () => Promise<unknown>): Promise<number> => {
    const count = async (): Promise<number> => {
      const texts = await Promise.all(system.replicas.map(async ({ probe }) => (await probe('/metrics')).text));
      const values = texts.flatMap((text) => [...text.matchAll(/^portcullis_webhook_requests_total\{.*\} (\d+)$/gm)]);
      return values.reduce((sum, [, value]) => sum + Number(value), 0);
    };
    // A replica renders its metrics at most once per second.
    await pause(1_100);
    const start = await count();
    await send();
    await pause(1_100);
    return (await count()) - start;
  };
  const createPod = async (name: string, spec: JsonObject, dryRun = '') => {
    const answer = await plane.admin.send('POST', `/api/v1/namespaces/shop/pods${dryRun}`, {
      metadata: { name },
      spec,
    });
    return answer.status === 201 ? objectMetadata(responseObject(answer)) : responseMessage(answer);
  };
  const deniesPrivileged = async (): Promise<void> => {
    const denial = await createPod('privileged', PRIVILEGED, '?dryRun=All');
    assert.match(String(denial), /violates PodSecurity "restricted:latest": privileged /);
  };
  const findings = async (): Promise<string> => (await runProgram(['doctor', `--kubeconfig=${kubeconfig}`])).stdout;
  /** Replaces all replicas with one that has the features of the manifests. */
  const replaceReplicas = async (features: readonly string[]): Promise<void> => {
    const old: readonly Replica[] = system.replicas;
    await system.add(1, { args: features.map((name) => `--features=${name}`) });
    await system.retire(...old);
  };
  const rolesForSccs = async (): Promise<readonly string[]> => {
    const answer = await plane.admin.send('GET', '/apis/rbac.authorization.k8s.io/v1/clusterroles');
    return responseItems(answer).flatMap(({ metadata, rules }) => {
      const { name = '' } = metadata as { readonly name?: string };
      const groups = (Array.isArray(rules) ? rules : []).flatMap((rule: unknown) =>
        isObject(rule) ? (rule['apiGroups'] as readonly string[]) : [],
      );
      return name.startsWith('portcullis') && groups.includes('security.openshift.io') ? name : [];
    });
  };

  test('is off by default, so API servers call one webhook for each pod and namespace', async () => {
    await system.install();
    await system.add(1);
    await eventually(deniesPrivileged, 30_000);
    assert.equal(await countCalls(() => createPod('one', COMPLIANT)), 1);
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'other' } };
    assert.equal(await countCalls(() => create(plane.admin, namespace)), 1);
  });

  test('adds no objects, permissions or findings while it is off', async () => {
    assert.equal(await status(SCC_GROUP), 404);
    assert.deepEqual(await rolesForSccs(), []);
    const pod = await createPod('plain', COMPLIANT);
    assert.deepEqual(isObject(pod) ? (pod['annotations'] ?? {}) : pod, {});
    const { metadata } = await get('/api/v1/namespaces/shop');
    assert.deepEqual((metadata as JsonObject)['annotations'] ?? {}, {});
    assert.doesNotMatch(await findings(), /scc|security\.openshift\.io/i);
    for (const command of ['plan', 'status']) {
      const { stdout, stderr } = await runProgram(['rollout', command, `--kubeconfig=${kubeconfig}`]);
      assert.doesNotMatch(`${stdout}${stderr}`, /scc|security ?context ?constraints/i, command);
    }
  });

  test('is required by SCC settings, which are otherwise ignored and reported', async () => {
    const answer = await plane.admin.send('PATCH', SETTINGS, { spec: { scc: { mode: 'enforce' } } }, MERGE);
    assert.equal(answer.status, 200, answer.text);
    await eventually(async () => {
      const { status: state = {} } = (await get(SETTINGS)) as {
        readonly status?: { readonly sccMode?: string; readonly conditions?: readonly JsonObject[] };
      };
      const applied = state.conditions?.find(({ type }) => type === 'Applied');
      assert.deepEqual(
        [state.sccMode, applied?.['reason'], applied?.['message']],
        [
          undefined,
          'FeatureNotInstalled',
          'spec.scc has no effect, because the scc feature is not installed: set spec.scc to null, or install the feature with portcullis install --profile=local --scc, and restart the replicas with scc in --features',
        ],
      );
    });
    assert.match(
      await findings(),
      /spec\.scc is set, but the scc feature is not installed\n +Impact: .*portcullis install --scc --kubeconfig=\S+ \| kubectl apply --server-side -f - --kubeconfig=/,
    );
    await plane.admin.send('PATCH', SETTINGS, { spec: { scc: null } }, MERGE);
  });

  test('can be added to a running installation', async () => {
    await apply(plane.admin, localObjects(system.port, PROFILES.scc));
    await replaceReplicas(['scc']);
    await eventually(async () => {
      const pod = await createPod('defaulted', COMPLIANT, '?dryRun=All');
      const { annotations = {} } = (isObject(pod) ? pod : {}) as { readonly annotations?: JsonObject };
      assert.deepEqual(
        [annotations['openshift.io/scc'], annotations['security.openshift.io/validated-scc-subject-type']],
        ['restricted-v2', 'serviceaccount'],
        JSON.stringify(pod),
      );
    }, 60_000);
    await createPod('defaulted', COMPLIANT);
    await deniesPrivileged();
    assert.ok((await countCalls(() => createPod('several', COMPLIANT, '?dryRun=All'))) > 1);
    assert.match(await findings(), /security\.openshift\.io: is served, but spec\.scc\.mode is report/);
  });

  test('can be removed again, but labels, annotations and SCCs remain', async () => {
    const namespaceBefore = objectMetadata(await get('/api/v1/namespaces/shop'));
    assert.ok('openshift.io/sa.scc.uid-range' in (namespaceBefore['annotations'] as JsonObject));
    await apply(plane.admin, localObjects(system.port, DEFAULT));
    await replaceReplicas([]);
    await eventually(async () => {
      assert.equal(await countCalls(() => createPod('single', COMPLIANT, '?dryRun=All')), 1);
    }, 30_000);
    await deniesPrivileged();
    const { labels, annotations } = objectMetadata(await get('/api/v1/namespaces/shop'));
    assert.deepEqual([labels, annotations], [namespaceBefore['labels'], namespaceBefore['annotations']]);
    const pod = objectMetadata(await get('/api/v1/namespaces/shop/pods/defaulted'));
    assert.equal((pod['annotations'] as JsonObject)['openshift.io/scc'], 'restricted-v2');
    assert.equal(await status(SCC_DEFINITION), 200);
    assert.equal(await status(`${SCC_GROUP}/securitycontextconstraints/restricted-v2`), 200);
    assert.equal(typeof (await createPod('later', COMPLIANT)), 'object');
  });

  const skip = hasKubectl ? false : 'no kubectl';
  test('leaves behind permissions, which a command that doctor prints deletes', { skip }, async () => {
    const text = await findings();
    const [, fix = ''] =
      /^ +Fix: kubectl (-n portcullis delete .*clusterroles\/portcullis-scc .*|delete .*clusterroles\/portcullis-scc .*)$/m.exec(
        text,
      ) ?? [];
    assert.match(fix, /validatingadmissionpolicies\/portcullis-grants/, text);
    const { code, stderr } = await createKubectl(kubeconfig)(fix.split(' '));
    // On a busy machine, kubectl also reports delays of its own requests.
    assert.deepEqual([code, stderr.replaceAll(/^I.* "Waited before sending request" .*\n/gm, '')], [0, '']);
    assert.deepEqual(await rolesForSccs(), []);
    assert.doesNotMatch(await findings(), /remain from previous settings/);
  });

  test('is required for namespaces with an SCC mode to fail closed without replicas', async () => {
    await Promise.all(system.replicas.map((replica) => replica.stop()));
    assert.equal(typeof (await createPod('unreviewed', PRIVILEGED, '?dryRun=All')), 'object');
  });

  test('has not caused requests of replicas that were denied', async () => {
    assert.deepEqual(refusedCalls(await plane.calls()), []);
  });
});
