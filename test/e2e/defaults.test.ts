/** Compares the pod defaults from the policy and from the webhook for the same pods on a kube-apiserver. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { DEFAULTS_KINDS, DEFAULTS_POLICY } from '../../src/api/admission-policies.ts';
import { createStore } from '../../src/cluster/store.ts';
import { objectPath } from '../../src/kube/resources.ts';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import { DEFAULT_FIELDS, generateDefaultsPolicy, type PodDefaults } from '../../src/policy/psa/index.ts';
import { MUTATE_DEFAULTED_PODS } from '../../src/server/webhooks/pods.ts';
import { startAdmissionServer, type TestServer } from '../support/admission-server.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import { readLines } from '../support/conformance/cases.ts';
import { findMissingKind } from '../support/control-plane/discovery.ts';
import { ASSETS, type ControlPlane, createSystem, startControlPlane } from '../support/control-plane/index.ts';
import { create, localObjects } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';
import { readFixture } from '../support/fixtures.ts';
import { runProgram } from '../support/memory-io.ts';
import { plainPod } from '../support/pod-security.ts';
import { createTestWebhooks } from '../support/scc-webhooks.ts';

const shared = ASSETS === undefined ? undefined : await startControlPlane({ podSecurityPlugin: 'on' });
const skip =
  shared === undefined
    ? 'the development cluster evaluates no MutatingAdmissionPolicy'
    : await findMissingKind(shared, 'MutatingAdmissionPolicy');
after(() => shared?.stop());

const LEVEL = 'pod-security.kubernetes.io/enforce';
/** The namespaces, by the value of the label `defaults`. */
const NAMESPACES = {
  none: {},
  policy: { defaults: 'policy' },
  webhook: { defaults: 'webhook' },
  'policy-restricted': { defaults: 'policy', [LEVEL]: 'restricted' },
  'webhook-restricted': { defaults: 'webhook', [LEVEL]: 'restricted' },
  leader: { defaults: 'leader' },
  'policy-scc': { defaults: 'policy', 'portcullis.dev/scc': 'enforce' },
} as const;

function settings(delivery: 'policy' | 'webhook') {
  const defaults: PodDefaults = {
    mode: 'apply',
    fields: DEFAULT_FIELDS,
    namespaceSelector: { matchLabels: { defaults: delivery } },
    exemptNamespaces: ['kube-system'],
  };
  return { defaults, scc: { mode: 'report', exemptNamespaces: [] } } as const;
}

/** Returns the pods of the cases and recorded pods, with the fields that API servers require. */
function readPods(): readonly JsonObject[] {
  const cases = readFixture<readonly JsonObject[]>('psa/defaults.yaml').map(({ annotations, spec }) => ({
    metadata: { annotations },
    spec,
  }));
  const recorded = readLines<{ readonly pod: JsonObject }>('random/pss-random.ndjson')
    .filter((_, index) => index % 3 === 0)
    .map(({ pod }) => pod);
  return [...cases, ...recorded].map((pod) => {
    const spec = (pod['spec'] ?? {}) as Readonly<Record<string, JsonObject[]>>;
    const complete = (list: readonly JsonObject[] = []) =>
      list.map((container) => ({ image: 'registry.example.com/i:1', ...container }));
    const { annotations } = (pod['metadata'] ?? {}) as JsonObject;
    const lists = { containers: complete(spec['containers']), initContainers: complete(spec['initContainers']) };
    // Pods with ephemeral containers cannot be created. Token volumes have random names.
    const others = { ephemeralContainers: undefined, automountServiceAccountToken: false };
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', annotations },
      spec: { ...spec, ...lists, ...others },
    };
  });
}

/** Checks that the second value contains all members of the first, except for empty lists. */
function isKept(before: unknown, after: unknown): boolean {
  if (Array.isArray(before) && Array.isArray(after)) return before.every((item, index) => isKept(item, after[index]));
  if (!isObject(before) || !isObject(after)) return Object.is(before, after);
  return Object.entries(before).every(([key, member]) => isKept(member, after[key]));
}

suite('pod defaults on a kube-apiserver', { skip }, () => {
  let plane: ControlPlane;
  let server: TestServer;

  const send = async (namespace: keyof typeof NAMESPACES, pod: object) => {
    const answer = await plane.admin.send('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, pod);
    if (answer.status !== 201) return { status: answer.status, message: String(responseMessage(answer)) };
    return { status: answer.status, spec: responseObject(answer)['spec'] as JsonObject };
  };

  before(async () => {
    assert.ok(shared);
    plane = shared;
    const { scc, defaults } = settings('webhook');
    const webhooks = createTestWebhooks(createStore(), { settings: scc, podDefaults: defaults });
    server = await startAdmissionServer(webhooks);
    for (const [name, labels] of Object.entries(NAMESPACES)) {
      const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
      assert.equal((await create(plane.admin, namespace)).status, 201);
      server.store.put('Namespace', namespace);
    }
    const { name, path, rules, matchConditions } = MUTATE_DEFAULTED_PODS;
    const webhook = {
      name,
      clientConfig: {
        url: `https://localhost:${server.port}${path}`,
        caBundle: Buffer.from(server.ca).toString('base64'),
      },
      rules: rules.map(({ rule }) => rule),
      matchConditions,
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
    };
    const configuration = {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingWebhookConfiguration',
      metadata: { name: 'defaults' },
      webhooks: [webhook],
    };
    for (const object of [...generateDefaultsPolicy(settings('policy'), 'defaults'), configuration]) {
      const answer = await create(plane.admin, { ...object });
      assert.equal(answer.status, 201, answer.text);
    }
    await eventually(async () => {
      for (const namespace of ['policy-restricted', 'webhook-restricted'] as const) {
        assert.equal((await send(namespace, plainPod('p'))).status, 201);
      }
    });
  });
  after(async () => {
    // The API server keeps its connections to the server open, so it stops first.
    await plane.stop();
    await server.stop();
  });

  test('are the same from the policy and the webhook, keep explicit values, and keep valid pods valid', async (t) => {
    const counts = { pods: 0, accepted: 0, changed: 0 };
    const compare = async (pod: JsonObject): Promise<void> => {
      const [none, byPolicy, byWebhook] = await Promise.all([
        send('none', pod),
        send('policy', pod),
        send('webhook', pod),
      ]);
      counts.pods++;
      assert.equal(byPolicy.status, none.status, `${byPolicy.message}: ${JSON.stringify(pod)}`);
      if (none.spec === undefined) return;
      assert.deepEqual(byPolicy.spec, byWebhook.spec, JSON.stringify(pod));
      assert.ok(isKept(none.spec, byPolicy.spec), JSON.stringify(pod));
      counts.accepted++;
      if (!isKept(byPolicy.spec, none.spec)) counts.changed++;
    };
    const pods = readPods();
    for (let index = 0; index < pods.length; index += 8) await Promise.all(pods.slice(index, index + 8).map(compare));
    t.diagnostic(JSON.stringify(counts));
    assert.ok(counts.accepted >= 300 && counts.changed >= 100, JSON.stringify(counts));
  });

  test('make a pod without security contexts comply with restricted, unless SCC admission sets its fields', async () => {
    const isDenied = async (namespace: keyof typeof NAMESPACES) => (await send(namespace, plainPod('p'))).message;
    assert.deepEqual(
      [await isDenied('policy-restricted'), await isDenied('webhook-restricted')],
      [undefined, undefined],
    );
    const [none, enforced] = [await send('none', plainPod('p')), await send('policy-scc', plainPod('p'))];
    assert.deepEqual(enforced.spec?.['securityContext'], none.spec?.['securityContext']);
  });

  test('are set by a policy that the leader maintains with the permissions in the manifests', async () => {
    const defaults = { mode: 'apply', namespaceSelector: { matchLabels: { defaults: 'leader' } } };
    const objectsFor = (port: number) => localObjects(port, { policy: { defaults } });
    const system = await createSystem(plane, { objectsFor });
    try {
      await system.install();
      await system.add(1);
      const isSet = () =>
        eventually(async () => {
          const { spec } = await send('leader', plainPod('p'));
          assert.deepEqual(spec?.['securityContext'], {
            runAsNonRoot: true,
            seccompProfile: { type: 'RuntimeDefault' },
          });
        }, 30_000);
      await isSet();
      const path = objectPath('MutatingAdmissionPolicyBinding', DEFAULTS_POLICY);
      assert.equal((await plane.admin.send('DELETE', path)).status, 200);
      await eventually(async () => assert.equal((await plane.admin.send('GET', path)).status, 200));
      await isSet();
      for (const kind of DEFAULTS_KINDS) {
        const answer = await plane.admin.send('GET', objectPath(kind, DEFAULTS_POLICY));
        // The leader does not correct the policy.
        assert.equal(objectMetadata(responseObject(answer))['generation'], 1);
      }
      await system.configure({ defaults: { mode: 'off' } });
      await eventually(async () => assert.equal((await plane.admin.send('GET', path)).status, 404));
      assert.deepEqual(refusedCalls(await plane.calls()), []);
    } finally {
      await system.stop();
    }
  });
});

const served = shared === undefined || skip === false ? 'the API server evaluates MutatingAdmissionPolicies' : false;

suite('pod defaults without MutatingAdmissionPolicies', { skip: served }, () => {
  test('are set by a webhook that the leader registers, and doctor reports the required version', async () => {
    assert.ok(shared);
    const { admin } = shared;
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'webhook-only' } };
    assert.equal((await create(admin, namespace)).status, 201);
    const objectsFor = (port: number) => localObjects(port, { policy: { defaults: { mode: 'apply' } } });
    const system = await createSystem(shared, { objectsFor });
    try {
      await system.install();
      await system.add(1);
      await eventually(async () => {
        const answer = await admin.send('POST', '/api/v1/namespaces/webhook-only/pods?dryRun=All', plainPod('p'));
        const { securityContext } = responseObject(answer)['spec'] as JsonObject;
        assert.deepEqual(securityContext, { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
      }, 30_000);
      const kubeconfig = await shared.kubeconfigFor('admin', ['system:masters']);
      const { stdout } = await runProgram(['doctor', `--kubeconfig=${kubeconfig}`]);
      assert.match(
        stdout,
        /^info +api-server +spec\.defaults: the webhook sets the defaults, because MutatingAdmissionPolicies require Kubernetes v1\.36$/m,
      );
      assert.deepEqual(refusedCalls(await shared.calls()), []);
    } finally {
      await system.stop();
    }
  });
});
