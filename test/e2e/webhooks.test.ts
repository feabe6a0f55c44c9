/** Creates pods in a loop while Portcullis is installed, enforces, and is upgraded, scaled to zero and removed. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { readDocuments } from '../../src/config/yaml.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import { type ControlPlane, useSystem } from '../support/control-plane/index.ts';
import {
  allow,
  apply,
  create,
  createNamespace,
  find,
  remove,
  replicaArguments,
} from '../support/control-plane/installation.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';

const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1';
const SETTINGS = '/apis/config.portcullis.dev/v1alpha1/portcullisconfigurations/cluster';
const DEPLOYMENT = '/apis/apps/v1/namespaces/portcullis/deployments/portcullis';
const MERGE = { 'content-type': 'application/merge-patch+json' };
const POD = { metadata: { name: 'loop' }, spec: { containers: [{ name: 'c', image: 'registry.example.com/c:1' }] } };

/** A pod that every SCC except `privileged` denies. */
const HOST_POD = { ...POD, spec: { ...POD.spec, hostNetwork: true } };

/** Only the default service account may use an SCC that allows the host network. */
const HEADERS = { 'Impersonate-User': 'alice' };

/** Creates pods in dry runs until it is stopped. Resolves to the distinct denial reasons. */
function createPods(plane: ControlPlane, namespace: string, pods: readonly JsonObject[] = [POD, HOST_POD]) {
  const denials = new Set<string>();
  let count = 0;
  let isStopped = false;
  const loop = (async () => {
    while (!isStopped) {
      const path = `/api/v1/namespaces/${namespace}/pods?dryRun=All`;
      for (const pod of pods) {
        const answer = await plane.admin.send('POST', path, pod, HEADERS);
        if (answer.status !== 201)
          denials.add(String(responseMessage(answer)).replace(/: failed to call webhook: .*/, ''));
        count++;
      }
      await pause(30);
    }
  })();
  return async (): Promise<readonly string[]> => {
    isStopped = true;
    await loop;
    assert.ok(count >= 2, String(count));
    return [...denials];
  };
}

suite('the webhooks of an installation', async () => {
  const { plane, system } = await useSystem();
  let stopLoop: ReturnType<typeof createPods>;
  for (const name of ['observed', 'enforced']) {
    await createNamespace(plane.admin, name);
  }
  const rules = [{ apiGroups: [''], resources: ['pods', 'pods/ephemeralcontainers'], verbs: ['create', 'update'] }];
  await allow(plane.admin, 'creator', ['alice'], rules);
  await eventually(async () => {
    const answer = await plane.admin.send('POST', '/api/v1/namespaces/observed/pods?dryRun=All', POD, HEADERS);
    assert.equal(answer.status, 201, answer.text);
  });
  beforeEach(() => {
    stopLoop = createPods(plane, 'observed');
  });
  afterEach(async () => {
    await stopLoop();
  });

  const readWebhooks = async (): Promise<readonly JsonObject[]> => {
    const lists = ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'].map(async (resource) => {
      const { items } = responseObject(await plane.admin.send('GET', `${CONFIGURATIONS}/${resource}`));
      return (items as readonly { readonly webhooks?: readonly JsonObject[] }[]).flatMap(
        ({ webhooks = [] }) => webhooks,
      );
    });
    return (await Promise.all(lists)).flat();
  };
  /** The webhook that fails closed even if nothing is enforced by default. */
  const OWN_LABEL = 'own-label.validate.pods.portcullis.dev';
  /**
   * The webhooks that fail closed unless SCC admission is off, because namespaces may have the label for enforcement.
   */
  const SCCS = [
    'connect.pods',
    'mutate.objects',
    'mutate.pods',
    'objects',
    'own-label.validate.pods',
    'validate.pods',
  ].map((name) => `${name}.portcullis.dev`);
  /** Returns the names of fail-closed webhooks. */
  const closed = async (): Promise<readonly unknown[]> =>
    [
      ...new Set((await readWebhooks()).filter((one) => one['failurePolicy'] === 'Fail').map((one) => one['name'])),
    ].sort();
  const label = async (mode: string | null): Promise<void> => {
    const body = { metadata: { labels: { 'portcullis.dev/scc': mode } } };
    assert.equal((await plane.admin.send('PATCH', '/api/v1/namespaces/enforced', body, MERGE)).status, 200);
  };

  test('deny nothing and fail open in whatever order the objects are created', async () => {
    // CRDs come first because API servers reject objects of unknown kinds. The namespace precedes its objects.
    const rank = ({ kind }: JsonObject): number => ['CustomResourceDefinition', 'Namespace'].indexOf(String(kind));
    const [definitions, others] = [
      system.objects.filter((one) => rank(one) >= 0),
      system.objects.filter((one) => rank(one) < 0),
    ];
    await apply(plane.admin, definitions);
    await eventually(() => apply(plane.admin, others.toReversed()));
    assert.deepEqual(await readWebhooks(), []);
    await pause(500);
    await system.add(2);
    await eventually(async () => assert.equal((await readWebhooks()).length, 17), 30_000);
    await pause(6_000);
    assert.deepEqual(await closed(), SCCS);
    for (const { name, timeoutSeconds } of await readWebhooks()) {
      const isLong = /^(?!olm|defaults|report\.connect).*\.?pods\.|^(?:mutate\.)?objects\./.test(String(name));
      assert.ok(Number(timeoutSeconds) <= (isLong ? 15 : 5), String(name));
    }
    assert.deepEqual(await stopLoop(), []);
  });

  test('report an ephemeral container even if an immutable field is changed with it', async () => {
    const pod = { apiVersion: 'v1', kind: 'Pod', ...POD, metadata: { name: 'debugged', namespace: 'observed' } };
    const stored = responseObject(await create(plane.admin, pod));
    const debug = { name: 'debug', image: 'registry.example.com/debug:1', securityContext: { privileged: true } };
    const spec = { ...(stored['spec'] as JsonObject), ephemeralContainers: [debug], os: { name: 'windows' } };
    const path = '/api/v1/namespaces/observed/pods/debugged/ephemeralcontainers';
    const answer = await plane.admin.send('PUT', path, { ...stored, spec }, HEADERS);
    assert.equal(answer.status, 200, answer.text);
    assert.match(answer.warnings[0] ?? '', /would be denied if security context constraints were enforced: /);
  });

  test('fail closed for a namespace that enforces SCCs, and fail open for all other namespaces', async () => {
    await label('enforce');
    await eventually(async () => assert.deepEqual(await closed(), SCCS), 15_000);
    // If the API server receives the label between the two webhooks, it validates a pod without SCC defaults.
    await pause(1_000);
    const stopEnforced = createPods(plane, 'enforced');
    await pause(500);
    const denials = await stopEnforced();
    assert.equal(denials.length, 1, denials.join('\n'));
    assert.match(denials[0] ?? '', /unable to validate against any security context constraint: .*host network/i);
    assert.deepEqual(await stopLoop(), []);
  });

  test('are kept during an upgrade, and deny only pods that the settings deny', async () => {
    const readState = async () => [
      responseObject(await plane.admin.send('GET', SETTINGS))['spec'],
      await readWebhooks(),
    ];
    const deployment = JSON.stringify(find(system.objects, 'Deployment', 'portcullis'));
    await apply(plane.admin, [
      JSON.parse(deployment.replace(/"image":"[^"]+"/, '"image":"example.com/old:1"')) as JsonObject,
    ]);
    const before = await readState();
    const stopEnforced = createPods(plane, 'enforced');
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const { code, stdout, stderr } = await runProgram(['upgrade', `--kubeconfig=${kubeconfig}`]);
    assert.equal(code, 0, stderr);
    await apply(
      plane.admin,
      readDocuments(stdout, 'upgrade').documents.map(({ value }) => value as JsonObject),
    );
    const args = replicaArguments([responseObject(await plane.admin.send('GET', DEPLOYMENT))]);
    for (const old of system.replicas) {
      await system.add(1, { args });
      await system.retire(old);
    }
    await system.settled(2);
    const denials = await stopEnforced();
    assert.ok(
      denials.every((one) => one.includes('unable to validate against any security context constraint')),
      denials.join('\n'),
    );
    assert.deepEqual(await stopLoop(), []);
    assert.deepEqual(await readState(), before);
  });

  test('fail closed only for enforced namespaces while no replica runs', async () => {
    await system.retire();
    const stopEnforced = createPods(plane, 'enforced');
    await pause(500);
    const denials = await stopEnforced();
    assert.equal(denials.length, 1, denials.join('\n'));
    assert.match(denials[0] ?? '', /failed calling webhook "mutate\.pods\.portcullis\.dev"$/);
    assert.deepEqual(await stopLoop(), []);
    await system.add(1);
  });

  test('start and end enforcement in the cluster with the settings', async () => {
    await label(null);
    await system.configure({ podSecurity: { defaults: { enforce: 'baseline' } } });
    await eventually(async () => {
      const names = (await readWebhooks()).map(({ name }) => name);
      assert.ok(!names.includes('unlabeled.validate.pods.portcullis.dev'), 'the default level fails closed');
      assert.deepEqual(await closed(), SCCS);
    }, 15_000);
    await system.configure({ scc: { mode: 'off' } });
    await eventually(async () => {
      const names = (await readWebhooks()).map(({ name }) => name);
      assert.deepEqual([names.length, await closed()], [7, [OWN_LABEL]], names.join());
    });
    await stopLoop();
    stopLoop = createPods(plane, 'observed');
    await system.configure({ scc: { mode: 'off' }, webhooks: { management: 'static' } });
    await pause(2_000);
    await plane.admin.send('DELETE', `${CONFIGURATIONS}/validatingwebhookconfigurations/portcullis.dev`);
    await pause(500);
    assert.deepEqual(await readWebhooks(), []);
    await system.configure({});
    await eventually(async () => assert.equal((await readWebhooks()).length, 17));
    assert.deepEqual(await stopLoop(), []);
  });

  test('deny no compliant pod while the SCC mode changes, and enforce the mode when it is registered', async () => {
    await stopLoop();
    await system.add(1);
    const registeredMode = async (): Promise<unknown> => {
      const answer = await plane.admin.send('GET', `${CONFIGURATIONS}/validatingwebhookconfigurations/portcullis.dev`);
      const { annotations } = objectMetadata(responseObject(answer)) as { readonly annotations?: JsonObject };
      return annotations?.['portcullis.dev/registered-scc-mode'];
    };
    const createPod = (pod: JsonObject) =>
      plane.admin.send('POST', '/api/v1/namespaces/observed/pods?dryRun=All', pod, HEADERS);
    const assignedScc = async (): Promise<unknown> => {
      const { annotations } = objectMetadata(responseObject(await createPod(POD))) as {
        readonly annotations?: JsonObject;
      };
      return annotations?.['openshift.io/scc'];
    };
    await system.configure({ scc: { mode: 'off' } });
    await eventually(async () => assert.deepEqual(await closed(), [OWN_LABEL]), 15_000);
    const loops = Array.from({ length: 4 }, () => createPods(plane, 'observed', [POD]));
    await system.configure({ scc: { mode: 'report' } });
    await eventually(async () => assert.equal(await registeredMode(), 'report'), 15_000);
    assert.deepEqual([(await createPod(HOST_POD)).status, await assignedScc()], [201, undefined]);
    await system.configure({ scc: { mode: 'enforce' } });
    await eventually(async () => {
      assert.equal(await registeredMode(), 'enforce');
      const answer = await createPod(HOST_POD);
      assert.equal(answer.status, 403, answer.text);
      assert.match(
        String(responseMessage(answer)),
        /^admission webhook "mutate\.pods\.portcullis\.dev" denied the request: .*unable to validate against any security context constraint/,
      );
      assert.equal(await assignedScc(), 'restricted-v2');
    }, 30_000);
    await system.configure({ scc: { mode: 'off' } });
    await eventually(async () => {
      assert.deepEqual(await closed(), [OWN_LABEL]);
      assert.deepEqual([(await createPod(HOST_POD)).status, await assignedScc()], [201, undefined]);
    }, 15_000);
    for (const stop of loops) assert.deepEqual(await stop(), []);
  });

  test('are not restored by the leader during uninstall, which ends SCC enforcement first', async () => {
    await system.configure({ scc: { mode: 'enforce' } });
    await eventually(async () => assert.ok((await closed()).includes('mutate.pods.portcullis.dev')), 15_000);
    await stopLoop();
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const { code, stderr } = await runProgram(['uninstall', '--yes', '--wait=1s', `--kubeconfig=${kubeconfig}`]);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    stopLoop = createPods(plane, 'observed');
    assert.deepEqual(await readWebhooks(), []);
    await system.retire();
    assert.deepEqual(await stopLoop(), []);
  });

  test('are deleted with the installation namespace', async () => {
    await system.configure({});
    await eventually(() => apply(plane.admin, system.objects), 30_000);
    await system.add(1);
    await eventually(async () => assert.ok((await readWebhooks()).length > 0), 30_000);
    await remove(plane.admin, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'portcullis' } });
    await eventually(async () => assert.deepEqual(await readWebhooks(), []));
    assert.deepEqual(await stopLoop(), []);
  });
});
