/** Tests the floor policies on a kube-apiserver together with replicas, and after all replicas are killed. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { FLOOR_POLICIES, POLICY_KINDS } from '../../src/api/admission-policies.ts';
import { FLOOR_SELECTOR } from '../../src/api/names.ts';
import { objectPath, RESOURCES } from '../../src/kube/resources.ts';
import type { JsonObject, Pod } from '../../src/kube/types.ts';
import { objectMetadata, responseItems, responseMessage, responseObject } from '../support/answers.ts';
import { useSystem, withoutPolicies } from '../support/control-plane/index.ts';
import { allow, CREATE_PODS, createNamespace } from '../support/control-plane/installation.ts';
import { refusedCalls } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';
import { runProgram } from '../support/memory-io.ts';
import { compliantPod, hostNetworkPod, PLAIN_DETAILS, plainPod } from '../support/pod-security.ts';

const skip = withoutPolicies;

const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1';
const SPEC = {
  podSecurity: { defaults: { enforce: 'baseline' }, exemptions: { namespaces: ['legacy'] } },
  scc: { mode: 'report' },
  floor: { mode: 'enforce' },
  webhooks: { failurePolicy: 'Ignore' },
};

/** Returns the denial of a floor policy. */
function denial(name: string, text: string, binding = name): string {
  return `403 pods "p" is forbidden: ValidatingAdmissionPolicy 'floor.${name}.psa.portcullis.dev' with binding 'floor.${binding}.psa.portcullis.dev' denied request: ${text}`;
}

const VIOLATION = 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)';
const DENIED_IN_SHOP = denial('enforce-baseline', VIOLATION, 'enforce-baseline-unlabeled');

/** The policies and bindings for the settings. */
const EXPECTED = POLICY_KINDS.flatMap((kind) => FLOOR_POLICIES[kind])
  .filter((name) => !/\.scc\.|enforce-restricted-unlabeled/.test(name))
  .sort();

/** The labels of namespaces that enforce SCCs. */
const SCCS = { 'pod-security.kubernetes.io/enforce': 'privileged', 'portcullis.dev/scc': 'enforce' };

/** A pod that requests an SCC that alice may not use. */
const FORGED: Pod = {
  ...hostNetworkPod(),
  metadata: { name: 'p', annotations: { 'openshift.io/scc': 'privileged' } },
};

suite('the floor', { skip }, async () => {
  const { plane, system } = await useSystem();
  /** Creates a pod as alice in a dry run. Returns the denial, or an empty text. */
  const createPod = async (namespace: string, pod: Pod): Promise<string> => {
    const object = { ...pod, metadata: { ...pod.metadata, namespace: undefined } };
    const path = `/api/v1/namespaces/${namespace}/pods?dryRun=All`;
    const answer = await plane.admin.send('POST', path, object, { 'Impersonate-User': 'alice' });
    return answer.status === 201 ? '' : `${answer.status} ${String(responseMessage(answer))}`;
  };
  const policies = async (): Promise<readonly JsonObject[]> =>
    (
      await Promise.all(
        POLICY_KINDS.map(async (kind) =>
          responseItems(
            await plane.admin.send(
              'GET',
              `${CONFIGURATIONS}/${RESOURCES[kind].resource}?labelSelector=${encodeURIComponent(FLOOR_SELECTOR)}`,
            ),
          ),
        ),
      )
    ).flat();
  /** Returns the failure policies of the given webhooks. */
  const failurePolicies = async (): Promise<readonly unknown[]> => {
    const items = ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations'].map(async (resource) =>
      responseItems(await plane.admin.send('GET', `${CONFIGURATIONS}/${resource}`)),
    );
    const webhooks = (await Promise.all(items))
      .flat()
      .flatMap((one) => (one['webhooks'] ?? []) as readonly JsonObject[]);
    return ['unlabeled.validate', 'floor.mutate', 'floor.validate', 'validate', 'connect'].map(
      (name) => webhooks.find((one) => one['name'] === `${name}.pods.portcullis.dev`)?.['failurePolicy'],
    );
  };
  const OPEN = ['Ignore', 'Ignore', 'Ignore', 'Fail', 'Fail'];
  const isOpen = async () => {
    await eventually(async () => assert.deepEqual(await failurePolicies(), OPEN), 30_000);
    // The API server observes the webhook configurations.
    await pause(1_000);
  };

  for (const [name, labels] of [
    ['shop', {}],
    ['legacy', {}],
    ['secure', { 'pod-security.kubernetes.io/enforce': 'restricted' }],
    ['storage', { 'portcullis.dev/admission': 'fail-open' }],
    ['guarded', SCCS],
    ['ranged', { 'pod-security.kubernetes.io/enforce': 'baseline', 'portcullis.dev/scc': 'enforce' }],
  ] as const) {
    await createNamespace(plane.admin, name, labels);
  }
  await allow(plane.admin, 'creator', ['alice'], [CREATE_PODS]);
  await system.install();
  await system.configure(SPEC);
  await system.add(2);
  // API servers evaluate policies before they call validating webhooks.
  await eventually(async () => {
    assert.equal(await createPod('shop', hostNetworkPod()), DENIED_IN_SHOP);
    assert.match(await createPod('secure', plainPod('p')), /ValidatingAdmissionPolicy/);
    assert.equal((await policies()).length, EXPECTED.length);
  }, 30_000);
  await isOpen();
  await eventually(async () => {
    // The namespace has ranges, and the SCCs exist.
    assert.equal(await createPod('guarded', plainPod('p')), '');
    // SCCs are enforced once the webhooks have been registered for some time.
    assert.match(await createPod('guarded', hostNetworkPod()), /unable to validate against any security context/);
  }, 30_000);

  test('is created only once, with the permissions in the manifests', async () => {
    const names = (await policies()).map((object) => String(objectMetadata(object)['name'])).sort();
    assert.deepEqual(names, EXPECTED);
    const messages = system.replicas.flatMap((replica) => replica.log().map(({ msg }) => String(msg)));
    assert.equal(messages.filter((msg) => msg === 'admission policy created').length, names.length);
    assert.deepEqual(refusedCalls(await plane.calls()), []);
  });

  test('is restored after a policy is deleted by hand, and webhooks fail closed until it is in effect again', async () => {
    const path = objectPath('ValidatingAdmissionPolicy', 'floor.enforce-baseline.psa.portcullis.dev');
    const { uid } = objectMetadata(responseObject(await plane.admin.send('GET', path)));
    assert.equal((await plane.admin.send('DELETE', path)).status, 200);
    await eventually(async () => {
      const answer = await plane.admin.send('GET', path);
      assert.equal(answer.status, 200);
      assert.notEqual(objectMetadata(responseObject(answer))['uid'], uid);
    });
    await eventually(async () =>
      assert.deepEqual(await failurePolicies(), [undefined, undefined, undefined, 'Fail', 'Fail']),
    );
    await isOpen();
  });

  test('admits and denies the same pods as replicas while these are killed and started', async () => {
    const wrong = new Set<string>();
    let count = 0;
    let isStopped = false;
    const loop = (async () => {
      while (!isStopped) {
        for (const [namespace, pod, isDenied] of [
          ['shop', hostNetworkPod(), true],
          ['shop', plainPod('p'), false],
          ['secure', plainPod('p'), true],
          ['secure', compliantPod(), false],
          ['legacy', hostNetworkPod(), false],
          ['guarded', hostNetworkPod(), true],
          ['ranged', compliantPod(), false],
          ['ranged', hostNetworkPod(), true],
        ] as const) {
          const text = await createPod(namespace, pod);
          if ((text !== '') !== isDenied) wrong.add(`${namespace}: ${text}`);
          count++;
        }
      }
    })();
    for (let round = 0; round < 2; round++) {
      const [first] = system.replicas;
      assert.ok(first);
      await first.stop('SIGKILL');
      await system.retire(first);
      await system.add(1);
    }
    isStopped = true;
    await loop;
    assert.deepEqual([...wrong], []);
    assert.ok(count > 20, String(count));
  });

  test('lets webhooks fail open while the leader changes, and admits compliant pods if an outage follows', async () => {
    await isOpen();
    const seen = new Set<string>();
    const leads = (replica: (typeof system.replicas)[number]): boolean =>
      replica.log().some(({ msg }) => msg === 'leadership begins');
    const former = await eventually(() => {
      const leader = system.replicas.find(leads);
      assert.ok(leader);
      return leader;
    }, 30_000);
    await former.stop();
    await system.retire(former);
    await eventually(async () => {
      seen.add(JSON.stringify(await failurePolicies()));
      assert.ok(system.replicas.some(leads));
    }, 30_000);
    for (let i = 0; i < 20; i++) seen.add(JSON.stringify(await failurePolicies()));
    assert.deepEqual([...seen], [JSON.stringify(OPEN)]);
  });

  test('applies after all replicas are killed', async () => {
    for (const replica of system.replicas) await replica.stop('SIGKILL');
    assert.equal(await createPod('shop', hostNetworkPod()), DENIED_IN_SHOP);
    assert.equal(
      await createPod('secure', plainPod('p')),
      denial('enforce-restricted', `violates PodSecurity "restricted:latest": ${PLAIN_DETAILS}`),
    );
    for (const [namespace, pod] of [
      ['shop', plainPod('p')],
      ['secure', compliantPod()],
      ['legacy', hostNetworkPod()],
      ['portcullis', hostNetworkPod()],
      ['ranged', plainPod('p')],
    ] as const) {
      assert.equal(await createPod(namespace, pod), '', namespace);
    }
    for (const namespace of ['storage', 'kube-system']) {
      assert.equal(await createPod(namespace, hostNetworkPod()), DENIED_IN_SHOP, namespace);
    }
    assert.equal(await createPod('ranged', hostNetworkPod()), denial('enforce-baseline', VIOLATION));
    for (const pod of [compliantPod(), FORGED]) {
      assert.match(await createPod('guarded', pod), /failed calling webhook "mutate\.pods\.portcullis\.dev"/);
    }
  });

  test('is followed by a report of pods that SCCs deny and that were created during the outage', async () => {
    const pod = { ...plainPod('root'), spec: { ...plainPod('root').spec, securityContext: { runAsUser: 0 } } };
    const path = '/api/v1/namespaces/ranged/pods';
    const creator = { 'Impersonate-User': 'alice' };
    for (const one of [pod, plainPod('plain')]) {
      const answer = await plane.admin.send('POST', path, { ...one, metadata: { name: one.metadata?.name } }, creator);
      assert.equal(answer.status, 201, JSON.stringify(answer));
    }
    for (const replica of [...system.replicas]) await system.retire(replica);
    await system.add(1);
    await eventually(async () => {
      const object = responseObject(await plane.admin.send('GET', objectPath('PortcullisConfiguration', 'cluster')));
      const { unreviewedPods } = object['status'] as { readonly unreviewedPods?: readonly JsonObject[] };
      assert.deepEqual(
        unreviewedPods?.map(({ namespace, name, message }) => [namespace, name, String(message).slice(0, 72)]),
        [['ranged', 'root', 'it has no SCC: unable to validate against any security context constrain']],
      );
    }, 60_000);
    const events = responseItems(await plane.admin.send('GET', '/apis/events.k8s.io/v1/namespaces/ranged/events'));
    assert.deepEqual(
      events.map(({ reason, reportingController }) => [reason, reportingController]),
      [['SCCViolation', 'unreviewed-pods-controller']],
    );
    assert.deepEqual(refusedCalls(await plane.calls()), []);
    for (const replica of system.replicas) await replica.stop('SIGKILL');
  });

  test('is paused by break-glass even without replicas', async () => {
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const breakGlass = (...args: readonly string[]) =>
      runProgram(['break-glass', ...args, `--kubeconfig=${kubeconfig}`]);
    assert.equal((await breakGlass('on')).code, 0);
    await eventually(async () => {
      for (const namespace of ['shop', 'guarded']) assert.equal(await createPod(namespace, FORGED), '', namespace);
    });
    assert.match((await breakGlass('status')).stdout, /^Break-glass is on: /m);
    // Without --force, the command requires a replica that responds.
    assert.equal((await breakGlass('off', '--force')).code, 0);
    await eventually(async () => {
      assert.match(await createPod('shop', FORGED), /^403 /);
      assert.match(await createPod('guarded', FORGED), /^500 .*failed calling webhook/);
    });
  });
});
