/**
 * Tests the lifecycle of an installation with a control plane, the manifests, and replicas that run as processes with
 * the permissions of their service account.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readSeed } from '../../src/cli/serve/dev-cluster.ts';
import { PROFILES } from '../../src/install/index.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { createAuthority } from '../../src/tls/issue.ts';
import { objectMetadata, responseMessage, responseObject } from '../support/answers.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { findMissingPodField } from '../support/control-plane/discovery.ts';
import { type Replica, REPLICA_USER, useSystem } from '../support/control-plane/index.ts';
import {
  copyOverlay,
  create,
  find,
  localObjects,
  remove,
  resolvePaths,
  resourceVersions,
} from '../support/control-plane/installation.ts';
import { refusedCalls, unusedPermissions } from '../support/control-plane/replica.ts';
import { eventually } from '../support/eventually.ts';
import { createKubectl, hasKubectl } from '../support/kubectl.ts';
import { type Outcome, runProgram } from '../support/memory-io.ts';
import { checkScenario, POD_SECURITY, SCC } from '../support/scenarios.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples/cluster', import.meta.url));

const PLAIN = { containers: [{ name: 'c', image: 'registry.example.com/c:1' }] };
const PRIVILEGED = {
  containers: [{ name: 'c', image: 'registry.example.com/c:1', securityContext: { privileged: true } }],
};

function pod(namespace: string, name: string, spec: JsonObject = PLAIN): JsonObject {
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace }, spec };
}

const LABELS = { app: 'kinds' };
const JOB_POLICY = { restartPolicy: 'Never' };

/** The kinds with a pod template, and their fields. */
const WORKLOADS: readonly (readonly [apiVersion: string, kind: string, build: (template: JsonObject) => JsonObject])[] =
  [
    ['v1', 'PodTemplate', (template) => ({ template })],
    ['v1', 'ReplicationController', (template) => ({ spec: { selector: LABELS, template } })],
    ...['Deployment', 'ReplicaSet', 'DaemonSet', 'StatefulSet'].map(
      (kind) =>
        [
          'apps/v1',
          kind,
          (template: JsonObject) => ({ spec: { selector: { matchLabels: LABELS }, template } }),
        ] as const,
    ),
    ['batch/v1', 'Job', (template) => ({ spec: { template } })],
    ['batch/v1', 'CronJob', (template) => ({ spec: { schedule: '@hourly', jobTemplate: { spec: { template } } } })],
  ];

/** Builds an object of each kind with a pod template, named after its kind. */
function workloads(namespace: string, spec: JsonObject): readonly JsonObject[] {
  return WORKLOADS.map(([apiVersion, kind, build]) => {
    const policy = apiVersion === 'batch/v1' ? JOB_POLICY : {};
    const fields = build({ metadata: { labels: LABELS }, spec: { ...spec, ...policy } });
    return { apiVersion, kind, metadata: { name: kind.toLowerCase(), namespace }, ...fields };
  });
}

function namespace(name: string, labels: JsonObject = {}): JsonObject {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } };
}

const MERGE = { 'content-type': 'application/merge-patch+json' };
const STRATEGIC_MERGE = { 'content-type': 'application/strategic-merge-patch+json' };
const PSA = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/portcullis.dev';
const SCCS = '/apis/security.openshift.io/v1/securitycontextconstraints';
const MCS = 'openshift.io/sa.scc.mcs';

suite('an installation', async () => {
  const { plane, system } = await useSystem({
    objectsFor: (port) => localObjects(port, { features: { ...PROFILES.scc.features, rollout: false } }),
  });
  let restart = { from: 0, to: 0 };
  const send = (object: JsonObject): Promise<ApiResponse> => create(plane.admin, object);
  const succeeds = async (object: JsonObject): Promise<ApiResponse> => {
    const answer = await send(object);
    assert.equal(answer.status, 201, answer.text);
    return answer;
  };
  const diagnose = async (): Promise<Outcome> =>
    runProgram(['doctor', `--kubeconfig=${await plane.kubeconfigFor('admin', ['system:masters'])}`]);

  test('changes nothing when it is applied a second time', async () => {
    // The namespaces are created before the webhooks.
    for (const { value } of await readSeed(EXAMPLES)) {
      if (value['kind'] === 'Namespace') await succeeds(value);
    }
    if (!hasKubectl) {
      assert.equal((await system.install()).length, system.objects.length);
      assert.deepEqual(await system.install(), []);
      return;
    }
    const kubectl = createKubectl(await plane.kubeconfigFor('admin', ['system:masters']));
    const overlay = await copyOverlay(['local', 'scc', 'without-rollout'], plane.folder, system.port);
    const results = async (): Promise<readonly string[]> => {
      const { code, stdout, stderr } = await kubectl(['apply', '-k', overlay]);
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
      return stdout.trimEnd().split('\n');
    };
    const first = await results();
    const forPods = ['Deployment', 'Service', 'NetworkPolicy', 'PodDisruptionBudget'];
    assert.equal(first.length, system.objects.filter(({ kind }) => !forPods.includes(String(kind))).length);
    assert.deepEqual(
      first.filter((line) => !line.endsWith(' created')),
      [],
    );
    // kubectl prints "configured" for every patch. Only resource versions show actual changes.
    const versions = await resourceVersions(plane.admin, system.objects);
    await results();
    assert.deepEqual(await resourceVersions(plane.admin, system.objects), versions);
  });

  test('denies nothing before a replica runs', async () => {
    const early = ['default', 'baseline', 'kube-system'].map((where) => pod(where, 'early'));
    const { spec } = find(system.objects, 'Deployment', 'portcullis') as {
      readonly spec: { readonly template: { readonly spec: JsonObject } };
    };
    const replica = pod('portcullis', 'portcullis-0', spec.template.spec);
    for (const object of [...early, replica, ...workloads('baseline', PLAIN), namespace('early')]) {
      await succeeds(object);
      assert.equal((await remove(plane.admin, object)).status, 200);
    }
  });

  test('has no registered webhook at first, which doctor reports', async () => {
    const { code, stdout } = await diagnose();
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^problem +webhooks +ValidatingWebhookConfiguration portcullis\.dev: is not registered\. The leader registers it when a replica is ready$/m,
    );
  });

  test('permits a ClusterRoleBinding with another role before the first replica runs', async () => {
    // The roleRef of a binding is immutable, so the leader must replace the binding.
    await succeeds({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'system:openshift:scc:restricted-v2' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
    });
  });

  test('gets two ready replicas', async () => {
    await system.add(2);
    await eventually(async () => {
      // Without a dry run, the pod would be created while no webhook is registered.
      const early = { metadata: { name: 'early' }, spec: PRIVILEGED };
      checkDenied(await plane.admin.send('POST', '/api/v1/namespaces/baseline/pods?dryRun=All', early));
    });
    // SCCs are enforced once their mode is registered.
    await eventually(async () => {
      const { text } = await plane.admin.send('GET', PSA);
      assert.match(text, /"portcullis\.dev\/registered-scc-mode":"report"/);
    }, 30_000);
    // The leader creates the standard SCCs. The readiness check of each replica reports missing SCCs.
    for (const replica of system.replicas) {
      await eventually(async () => assert.match((await replica.probe()).text, /^\[\+\]scc ok$/m), 30_000);
    }
  });

  test('accepts the example objects', async () => {
    for (const { value } of await readSeed(EXAMPLES)) {
      if (value['kind'] !== 'Namespace')
        await succeeds({ ...value, metadata: { namespace: 'default', ...objectMetadata(value) } });
    }
  });

  suite('decides about Pod Security as in the scenarios:', () => {
    for (const scenario of POD_SECURITY) {
      // The label that turns SCCs off selects the tier of the namespace.
      const denied = scenario.denied?.replace('"validate.pods.', '"report.validate.pods.');
      const inTier = denied === undefined ? {} : { denied };
      test(scenario.name, () => checkScenario(plane.admin, { ...scenario, ...inTier }));
    }
  });

  suite('decides about SCCs as in the scenarios:', () => {
    for (const scenario of SCC) {
      test(scenario.name, async (t) => {
        // The SCC requires user namespaces.
        const missing = scenario.pod?.scc === 'restricted-v3' && (await findMissingPodField(plane, 'hostUsers', false));
        if (missing !== false) {
          t.skip(missing);
          return;
        }
        await checkScenario(plane.admin, scenario);
      });
    }
  });

  suite('evaluates every kind with a pod template:', () => {
    const would =
      'would violate PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)';
    test('the API server accepts the namespaces for the workloads', async () => {
      await succeeds(
        namespace('kinds', { 'pod-security.kubernetes.io/warn': 'baseline', 'portcullis.dev/scc': 'off' }),
      );
      await succeeds(namespace('kinds-scc', { 'portcullis.dev/scc': 'enforce' }));
    });
    test('the responses contain Pod Security warnings', async () => {
      for (const object of [pod('kinds', 'pod', PRIVILEGED), ...workloads('kinds', PRIVILEGED)]) {
        const answer = await succeeds(object);
        assert.deepEqual(answer.warnings, [`299 - ${JSON.stringify(would)}`], String(object['kind']));
      }
    });
    test('but only pods get SCCs', async () => {
      for (const object of [pod('kinds-scc', 'pod'), ...workloads('kinds-scc', PLAIN)]) {
        const { metadata } = responseObject(await succeeds(object));
        const { annotations = {} } = metadata as { readonly annotations?: Readonly<Record<string, string>> };
        const isPod = object['kind'] === 'Pod';
        // An administrator may use every SCC. This SCC has the highest priority.
        assert.equal(annotations['openshift.io/scc'], isPod ? 'anyuid' : undefined, String(object['kind']));
      }
    });
  });

  test('has no problems according to doctor', async () => {
    // The webhooks fail closed a few seconds after the replicas are ready.
    const { code, stdout } = await eventually(async () => {
      const outcome = await diagnose();
      assert.match(outcome.stdout, /, 0 warnings\b/);
      assert.match(outcome.stdout, /^ok +reachability +mutate\.pods\.portcullis\.dev: responds$/m);
      return outcome;
    }, 30_000);
    assert.equal(code, 0, stdout);
  });

  test('keeps its replicas ready during an outage of the API server', async () => {
    const before = (await plane.calls()).length;
    await plane.interrupt();
    for (const replica of system.replicas) assert.equal((await replica.probe('/readyz')).status, 200);
    await plane.resume();
    await eventually(async () => {
      checkDenied(await send(pod('baseline', 'again', PRIVILEGED)));
    });
    // A starting API server denies requests until it has loaded the roles.
    restart = { from: before, to: (await plane.calls()).length };
  });

  test('removes a CA that no replica uses from the caBundle', async () => {
    const readBundle = async (): Promise<string> => {
      const [{ clientConfig }] = responseObject(await plane.admin.send('GET', PSA))['webhooks'] as [JsonObject];
      return Buffer.from((clientConfig as { readonly caBundle: string }).caBundle, 'base64').toString();
    };
    const bundle = await readBundle();
    const { cert } = createAuthority({ now: new Date(), days: 1 });
    const clientConfig = { caBundle: base64(`${bundle}${cert}`) };
    const webhooks = [{ name: 'validate.pods.portcullis.dev', clientConfig }];
    const answer = await plane.admin.send('PATCH', PSA, { webhooks }, STRATEGIC_MERGE);
    assert.equal(answer.status, 200, answer.text);
    await eventually(async () => assert.equal(await readBundle(), bundle), 60_000);
    checkDenied(await send(pod('baseline', 'trusted', PRIVILEGED)));
  });

  test('deletes grants on expiry', async () => {
    const end = new Date(Date.now() + 1000).toISOString();
    const roles = '/apis/rbac.authorization.k8s.io/v1';
    for (const collection of [`${roles}/namespaces/payments/rolebindings`, `${roles}/clusterrolebindings`]) {
      const binding = {
        metadata: {
          name: `portcullis:scc-until:anyuid:${end}`,
          annotations: { 'portcullis.dev/grant-expires-at': end },
        },
        roleRef: {
          apiGroup: 'rbac.authorization.k8s.io',
          kind: 'ClusterRole',
          name: 'system:openshift:scc:anyuid',
        },
        subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'payments' }],
      };
      const created = await plane.admin.send('POST', collection, binding);
      assert.equal(created.status, 201, created.text);
      await eventually(async () => {
        const { status } = await plane.admin.send('GET', `${collection}/${binding.metadata.name}`);
        assert.equal(status, 404);
      }, 30_000);
    }
  });

  test('reverts changes to standard roles and SCCs', async () => {
    const roles = '/apis/rbac.authorization.k8s.io/v1';
    const name = 'system:openshift:scc:restricted-v2';
    const scc = '/apis/security.openshift.io/v1/securitycontextconstraints/restricted-v2';
    const read = async (path: string): Promise<JsonObject> => responseObject(await plane.admin.send('GET', path));
    const kept = { role: `${roles}/clusterroles/${name}`, binding: `${roles}/clusterrolebindings/${name}` };
    const [role, binding] = [await read(kept.role), await read(kept.binding)];

    await plane.admin.send('PATCH', kept.role, { rules: [] }, MERGE);
    await plane.admin.send('PATCH', kept.binding, { subjects: [] }, MERGE);
    await plane.admin.send('PATCH', scc, { allowPrivilegedContainer: true }, MERGE);
    await eventually(async () => {
      assert.deepEqual((await read(kept.role))['rules'], role['rules']);
      assert.deepEqual((await read(kept.binding))['subjects'], binding['subjects']);
      assert.equal((await read(scc))['allowPrivilegedContainer'], false);
    });

    // The second occurrence increases the count of the event.
    const { path } = await resolvePaths(plane.admin, namespace('payments'));
    // An earlier scenario ended enforcement, and the leader allocates ranges only during enforcement.
    await plane.admin.send('PATCH', path, { metadata: { labels: { 'portcullis.dev/scc': 'enforce' } } }, MERGE);
    for (let times = 0; times < 2; times++) {
      await plane.admin.send('PATCH', path, { metadata: { annotations: { [MCS]: null } } }, MERGE);
      await eventually(async () =>
        assert.match(JSON.stringify(objectMetadata(await read(path))), /"openshift.io\/sa.scc.mcs":"s0:c/),
      );
    }
  });

  test('denies exec into a pod that does not exist like exec into any other pod', async () => {
    const path = '/api/v1/namespaces/payments/pods/nobody/exec?command=sh';
    const answer = await plane.admin.send('POST', path, undefined, { 'Impersonate-User': 'alice' });
    assert.equal(
      responseMessage(answer),
      'admission webhook "connect.pods.portcullis.dev" denied the request: exec operation is not allowed because the pod\'s security context exceeds your permissions: pods "nobody" is forbidden: unable to validate against any security context constraint: portcullis explain pod/nobody -n payments prints the reasons',
    );
  });

  test('ends and resumes enforcement with break-glass', async () => {
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const breakGlass = async (action: 'on' | 'off'): Promise<void> => {
      const { code, stderr } = await runProgram(['break-glass', action, `--kubeconfig=${kubeconfig}`]);
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    };
    await succeeds(namespace('suspended'));
    await breakGlass('on');
    await eventually(() => succeeds(pod('baseline', 'emergency', PRIVILEGED)));
    const suspend = (signal: NodeJS.Signals): void =>
      system.replicas.forEach(({ pid }) => void process.kill(pid, signal));
    suspend('SIGSTOP');
    try {
      const started = Date.now();
      for (const object of [pod('baseline', 'suspended'), ...workloads('suspended', PLAIN)]) await succeeds(object);
      assert.ok(Date.now() - started < 4000, `suspended replicas delay requests: ${Date.now() - started} ms`);
    } finally {
      suspend('SIGCONT');
    }
    await breakGlass('off');
    await eventually(async () => checkDenied(await send(pod('baseline', 'later', PRIVILEGED))));
  });

  test('continues without a restart when the SCC CRD is deleted and created', async () => {
    const definition = find(
      system.objects,
      'CustomResourceDefinition',
      'securitycontextconstraints.security.openshift.io',
    );
    await remove(plane.admin, definition);
    await eventually(async () => assert.equal((await plane.admin.send('GET', SCCS)).status, 404));
    await eventually(async () => {
      const calls = await plane.calls();
      assert.ok(calls.some(({ user, resource }) => user === REPLICA_USER && resource === 'customresourcedefinitions'));
    });
    checkDenied(await send(pod('baseline', 'unknown', PRIVILEGED)));
    await eventually(async () => assert.equal((await send(definition)).status, 201));
    const again = {
      ...pod('kinds-scc', 'again'),
      metadata: {
        name: 'again',
        namespace: 'kinds-scc',
        annotations: { 'openshift.io/required-scc': 'restricted-v2' },
      },
    };
    await eventually(() => succeeds(again), 30_000);
  });

  test('renews the serving certificate without failed requests', async () => {
    const secret = '/api/v1/namespaces/portcullis/secrets/portcullis-serving-certificate';
    const certificate = async (): Promise<unknown> =>
      (responseObject(await plane.admin.send('GET', secret))['data'] as JsonObject)['tls.crt'];
    // The content of an immutable Secret can only be replaced with the Secret.
    for (const immutable of [false, true]) {
      const before = await certificate();
      const loads = system.replicas.map((replica) => getLoads(replica));
      const rotate = { immutable, metadata: { annotations: { 'portcullis.dev/rotate': 'serving' } } };
      assert.equal((await plane.admin.send('PATCH', secret, rotate, MERGE)).status, 200);
      await eventually(async () => {
        checkDenied(await send(pod('baseline', 'rotated', PRIVILEGED)));
        assert.notEqual(await certificate(), before);
        for (const [index, replica] of system.replicas.entries()) assert.ok(getLoads(replica) > (loads[index] ?? 0));
      });
      checkDenied(await send(pod('baseline', 'rotated', PRIVILEGED)));
    }
  });

  test('uses exactly the permissions of the roles of its replicas', async () => {
    const [replica] = system.replicas;
    assert.ok(replica);
    await system.retire(replica);
    const calls = await plane.calls();
    const usual = calls.filter((_call, index) => index < restart.from || index >= restart.to);
    assert.deepEqual(refusedCalls(usual), []);
    // With spec.floor, the leader also maintains policies (see floor.test.ts). With spec.guard, a policy checks the verb
    // lower (see guard.test.ts).
    const unused = unusedPermissions(system.objects, calls).filter(
      (one) => !/admission-?polic|^get securitycontextconstraints|^lower /.test(one),
    );
    assert.deepEqual(unused, [
      // The replicas need these permissions only with spec.podSecurity.exceptions.
      'list podsecurityexceptions.policy.portcullis.dev',
      'watch podsecurityexceptions.policy.portcullis.dev',
      // The replicas need this permission only with spec.scc.authorization sar.
      'create subjectaccessreviews.authorization.k8s.io',
      ...DELETIONS,
      'patch podsecurityexceptions/status.policy.portcullis.dev',
    ]);
  });

  test('is removed by uninstall, starting with the webhooks', async () => {
    const kubeconfig = await plane.kubeconfigFor('admin', ['system:masters']);
    const { code, stderr } = await runProgram(['uninstall', '--yes', '--wait=1s', `--kubeconfig=${kubeconfig}`]);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    await Promise.all(system.replicas.map((replica) => replica.stop()));
    await succeeds(pod('baseline', 'free', PRIVILEGED));
    for (const object of system.objects) {
      const status = ['CustomResourceDefinition', 'Namespace'].includes(String(object['kind'])) ? 200 : 404;
      const { path } = await resolvePaths(plane.admin, object);
      await eventually(async () => assert.equal((await plane.admin.send('GET', path)).status, status, path));
    }
  });
});

/** The leader deletes the webhooks of disabled features, and all webhooks when the namespace is deleted. */
const DELETIONS = [
  'delete validatingwebhookconfigurations.admissionregistration.k8s.io named portcullis.dev',
  'delete mutatingwebhookconfigurations.admissionregistration.k8s.io named zz.portcullis.dev',
];

const DENIED =
  /^admission webhook "report\.validate\.pods\.portcullis\.dev" denied the request: pods "\w+" is forbidden: violates PodSecurity "baseline:latest": privileged \(container "c" must not set securityContext\.privileged=true\)$/;

function checkDenied(answer: ApiResponse): void {
  assert.equal(answer.status, 403, answer.text);
  assert.match(String(responseMessage(answer)), DENIED);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

function getLoads(replica: Replica): number {
  return replica.log().filter(({ msg }) => msg === 'serving certificate loaded').length;
}
