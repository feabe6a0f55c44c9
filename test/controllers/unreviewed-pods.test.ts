/** Tests that pods that were admitted without a review are reported if the policy denies them. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { followRemovedGrants, type RemovedGrants } from '../../src/controllers/removed-grants.ts';
import { unreviewedPods } from '../../src/controllers/unreviewed-pods.ts';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import type { JsonObject, ObjectMeta } from '../../src/kube/types.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { NAMESPACE, TEST_MANAGER } from '../support/certificates.ts';
import {
  type ControllerRun,
  createController,
  createTestSettings,
  installStandardSccs,
  RANGES,
  runController,
} from '../support/controllers.ts';

const NO_EXEMPTIONS = { usernames: [], namespaces: [], runtimeClasses: ['kata'] };
const BASELINE = { 'pod-security.kubernetes.io/enforce': 'baseline', 'portcullis.dev/scc': 'off' };
const HOST_NETWORK = 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)';
const HOST = { hostNetwork: true };
const ROOT = { securityContext: { runAsUser: 0 } };
/** The pod with the defaults of the anyuid SCC. */
const BY_ANYUID = {
  securityContext: { runAsUser: 0, seLinuxOptions: { level: RANGES['openshift.io/sa.scc.mcs'] } },
  containers: [{ name: 'app', image: 'a', securityContext: { capabilities: { drop: ['MKNOD'] } } }],
};
/** The pod with the defaults of the restricted-v2 SCC. */
const BY_RESTRICTED = {
  securityContext: {
    fsGroup: 1_000_000_000,
    seLinuxOptions: { level: RANGES['openshift.io/sa.scc.mcs'] },
    seccompProfile: { type: 'RuntimeDefault' },
  },
  containers: [
    {
      name: 'app',
      image: 'a',
      securityContext: {
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        runAsNonRoot: true,
        runAsUser: 1_000_000_000,
      },
    },
  ],
};
const RECORDED = { 'openshift.io/scc': 'restricted-v2' };
const BY_USER = { 'openshift.io/scc': 'anyuid', 'security.openshift.io/validated-scc-subject-type': 'user' };

suite('unreviewed pods', () => {
  let cluster: DevCluster;
  let time: string;
  let runs: ControllerRun[];
  let metrics: Metrics;
  let removedGrants: RemovedGrants;

  beforeEach(async () => {
    time = '2026-01-01T09:00:00Z';
    runs = [];
    metrics = createMetrics({ version: '0.0.0' });
    cluster = createDevCluster({
      clock: () => new Date(time),
      call: () => Promise.resolve({ ok: false, error: 'unavailable' }),
    });
    removedGrants = followRemovedGrants(cluster.store, () => new Date(time));
    await installStandardSccs(cluster);
    for (const [name, metadata] of Object.entries({
      [NAMESPACE]: {},
      default: {},
      legacy: { labels: BASELINE },
      limited: { labels: BASELINE },
      shop: { annotations: RANGES },
    })) {
      await cluster.create('Namespace', { metadata: { ...metadata, name } }, TEST_MANAGER);
      await cluster.create('ServiceAccount', { metadata: { namespace: name, name: 'default' } }, TEST_MANAGER);
    }
    await cluster.create('PortcullisConfiguration', { metadata: { name: 'cluster' }, spec: {} }, TEST_MANAGER);
  });
  afterEach(async () => {
    for (const run of runs) {
      assert.deepEqual(run.errors(), []);
      await run.stop();
    }
  });

  const createPod = async (
    path: string,
    spec: JsonObject,
    annotations: Readonly<Record<string, string>> = {},
    metadata: ObjectMeta = {},
  ) => {
    const [namespace = '', name = ''] = path.split('/');
    const containers = [{ name: 'app', image: 'registry.example/app:1' }];
    const object = {
      metadata: { namespace, name, annotations, ...metadata },
      spec: { serviceAccountName: 'default', containers, ...spec },
    };
    await cluster.create('Pod', object, TEST_MANAGER);
  };
  const addEphemeral = async (path: string, securityContext: JsonObject = {}) => {
    const [namespace = '', name = ''] = path.split('/');
    const pod = await cluster.get('Pod', name, namespace);
    const ephemeralContainers = [{ name: 'debug', image: 'registry.example/debug:1', securityContext }];
    const body = { ...pod, spec: { ...pod.spec, ephemeralContainers } };
    await cluster.writer.update({ group: '', resource: 'pods' }, body, 'ephemeralcontainers');
  };
  /** Writes the status that the kubelet writes when the ephemeral container starts. */
  const startEphemeral = async (path: string, startedAt: string) => {
    const [namespace = '', name = ''] = path.split('/');
    const debug = { name: 'debug', image: '', imageID: '', ready: false, restartCount: 0 };
    const status = { ephemeralContainerStatuses: [{ ...debug, state: { running: { startedAt } } }] };
    await cluster.applyStatus('Pod', { metadata: { namespace, name }, status }, TEST_MANAGER);
  };
  /**
   * Starts a leader in a process that started at the given time. `renewed` is the last renewal by the former leader.
   */
  const start = async (processStart: string, renewed?: string, exemptions = NO_EXEMPTIONS): Promise<ControllerRun> => {
    if (renewed !== undefined) {
      const annotations = { 'portcullis.dev/former-leader-renewed': renewed };
      const lease = { metadata: { namespace: NAMESPACE, name: 'portcullis', annotations } };
      if (cluster.store.get('Lease', 'portcullis', NAMESPACE)) await cluster.remove('Lease', 'portcullis', NAMESPACE);
      await cluster.create('Lease', lease, TEST_MANAGER);
    }
    const settings = createTestSettings({ phase: 'Disabled' }, exemptions);
    const replica = { name: 'portcullis-replica-a', identity: 'a', startMs: Date.parse(processStart) };
    const date = (): Date => new Date(time);
    const controller = createController(unreviewedPods, { settings, metrics, replica, removedGrants, date });
    const run = runController(controller, cluster);
    runs.push(run);
    await run.idle();
    return run;
  };
  const status = () => cluster.store.get('PortcullisConfiguration', 'cluster')?.status;
  const condition = () =>
    status()?.conditions?.map(({ type, status: value, reason, message }) => [type, value, reason, message]);
  const reported = () =>
    status()?.unreviewedPods?.map(({ namespace, name, message }) => `${namespace}/${name}: ${message.slice(0, 73)}`);
  const count = async () => /^portcullis_unreviewed_pods (\d+)$/m.exec(await metrics.expose())?.[1];
  const events = () =>
    cluster.storage.list({ group: '', resource: 'events' }).map(({ reason, message, involvedObject }) => {
      const { kind, name } = involvedObject as { readonly kind: string; readonly name: string };
      return [`${kind}/${name}`, reason, message];
    });

  test('are evaluated when a leader starts if they were created during an outage', async () => {
    await createPod('limited/before', HOST);
    time = '2026-01-01T10:05:00Z';
    await createPod('limited/host', HOST);
    await createPod('limited/plain', {});
    await createPod('limited/kata', { ...HOST, runtimeClassName: 'kata' });
    await createPod(`${NAMESPACE}/replica`, HOST);
    await createPod('shop/plain', {});
    await createPod('shop/root', ROOT);
    await createPod('shop/windows', { os: { name: 'windows' } });
    await createPod('shop/forged', HOST, { 'openshift.io/scc': 'privileged' });
    await createPod('shop/unknown', {}, { 'openshift.io/scc': 'gone' });
    await createPod('shop/mismatch', {}, { 'openshift.io/scc': 'restricted-v2' });
    await createPod('shop/creator', BY_ANYUID, BY_USER);
    time = '2026-01-01T10:20:00Z';
    const run = await start('2026-01-01T10:10:00Z', '2026-01-01T10:00:00Z');
    const unable = 'unable to validate against any security context constraint';
    const names = (scc: string): string =>
      `its annotation openshift.io/scc names the SCC "${scc}": ${unable}`.slice(0, 73);
    assert.deepEqual(reported(), [
      `limited/host: ${HOST_NETWORK.slice(0, 73)}`,
      `shop/creator: ${names('anyuid')}`,
      `shop/forged: ${names('privileged')}`,
      `shop/mismatch: ${names('restricted-v2')}`,
      `shop/root: ${`it has no SCC: ${unable}`.slice(0, 73)}`,
      `shop/unknown: ${names('gone')}`,
    ]);
    const message = 'the policy denies 6 pods that were admitted without a review. To list them: portcullis report';
    assert.deepEqual(condition(), [['PodsReviewed', 'False', 'PodsDenied', message]]);
    assert.equal(await count(), '6');
    assert.deepEqual(events()[0], [
      'Pod/host',
      'PodSecurityViolation',
      `pod host was admitted without a review: ${HOST_NETWORK}. To fix: kubectl get pod/host -n limited -o yaml | portcullis check --level=baseline --fix=diff -f -`,
    ]);
    assert.equal(events().length, 6);
    assert.equal(cluster.store.list('Pod').length, 12);
    // The next leader keeps the report and does not repeat events.
    await run.stop();
    assert.equal(await count(), '0');
    const next = await start('2026-01-01T10:30:00Z', '2026-01-01T10:29:00Z');
    assert.deepEqual([reported()?.length, await count(), events().length], [6, '6', 6]);
    await cluster.remove('Pod', 'root', 'shop');
    await next.idle();
    assert.equal(reported()?.length, 5);
    for (const name of ['forged', 'unknown', 'mismatch', 'creator']) await cluster.remove('Pod', name, 'shop');
    await cluster.remove('Pod', 'host', 'limited');
    await next.pass(60_000);
    assert.deepEqual([reported(), await count()], [[], '0']);
    assert.deepEqual(condition(), [
      ['PodsReviewed', 'True', 'NoneDenied', 'the policy denies none of the pods that were admitted without a review'],
    ]);
  });

  const RBAC_GROUP = 'rbac.authorization.k8s.io';
  const grantAnyuid = (kind: 'Role' | 'ClusterRole', name: string) => ({
    metadata: { namespace: 'shop', name: 'own' },
    roleRef: { apiGroup: RBAC_GROUP, kind, name },
    subjects: [{ kind: 'ServiceAccount', name: 'default', namespace: 'shop' }],
  });
  const ownRole = {
    metadata: { namespace: 'shop', name: 'own' },
    rules: [
      {
        apiGroups: ['security.openshift.io'],
        resources: ['securitycontextconstraints'],
        resourceNames: ['anyuid'],
        verbs: ['use'],
      },
    ],
  };
  const BY_ACCOUNT = { ...BY_USER, 'security.openshift.io/validated-scc-subject-type': 'serviceaccount' };
  const standardRole = 'system:openshift:scc:anyuid';

  const removals: readonly (readonly [what: string, create: () => Promise<unknown>, remove: () => Promise<unknown>])[] =
    [
      [
        'the binding',
        () => cluster.create('RoleBinding', grantAnyuid('ClusterRole', standardRole), TEST_MANAGER),
        () => cluster.remove('RoleBinding', 'own', 'shop'),
      ],
      [
        'the subject of the binding',
        () => cluster.create('RoleBinding', grantAnyuid('ClusterRole', standardRole), TEST_MANAGER),
        () => cluster.patch('RoleBinding', { name: 'own', namespace: 'shop' }, { subjects: [] }, TEST_MANAGER),
      ],
      [
        'the role',
        async () => {
          await cluster.create('Role', ownRole, TEST_MANAGER);
          await cluster.create('RoleBinding', grantAnyuid('Role', 'own'), TEST_MANAGER);
        },
        () => cluster.remove('Role', 'own', 'shop'),
      ],
      [
        'the ClusterRole of a ClusterRoleBinding',
        async () => {
          const { rules } = ownRole;
          const binding = { ...grantAnyuid('ClusterRole', 'own'), metadata: { name: 'own' } };
          await cluster.create('ClusterRole', { metadata: { name: 'own' }, rules }, TEST_MANAGER);
          await cluster.create('ClusterRoleBinding', binding, TEST_MANAGER);
        },
        () => cluster.remove('ClusterRole', 'own'),
      ],
      [
        'the user from the SCC',
        () =>
          cluster.patch(
            'SecurityContextConstraints',
            { name: 'anyuid' },
            { users: ['system:serviceaccount:shop:default'] },
            TEST_MANAGER,
          ),
        () => cluster.patch('SecurityContextConstraints', { name: 'anyuid' }, { users: [] }, TEST_MANAGER),
      ],
      [
        'the role and its binding',
        async () => {
          await cluster.create('Role', ownRole, TEST_MANAGER);
          await cluster.create('RoleBinding', grantAnyuid('Role', 'own'), TEST_MANAGER);
        },
        async () => {
          await cluster.remove('Role', 'own', 'shop');
          await cluster.remove('RoleBinding', 'own', 'shop');
        },
      ],
    ];
  for (const [what, grant, revoke] of removals) {
    test(`are not reported if their SCC grant was revoked just after they were admitted, by removing ${what}`, async () => {
      const run = await start('2026-01-01T08:00:00Z');
      await grant();
      // The controller evaluates the pod after the removal.
      await Promise.all([createPod('shop/pod', BY_ANYUID, BY_ACCOUNT), revoke()]);
      await run.idle();
      await run.pass(5_000);
      assert.deepEqual([reported() ?? [], events()], [[], []]);
      // A pod that is created later was not admitted with this grant.
      time = '2026-01-01T09:01:00Z';
      await createPod('shop/later', BY_ANYUID, BY_ACCOUNT);
      await run.idle();
      await run.pass(5_000);
      assert.equal(reported()?.length, 1);
      time = '2026-01-01T08:00:00Z';
      await createPod('shop/set-back', BY_ANYUID, BY_ACCOUNT);
      await run.idle();
      await run.pass(5_000);
      assert.equal(reported()?.length, 2, 'even if the clock is set back');
    });
  }

  for (const [what, grant, revoke] of removals) {
    test(`are not reported if their SCC grant was revoked before the leader changed, by removing ${what}`, async () => {
      await grant();
      await createPod('shop/pod', BY_ANYUID, BY_ACCOUNT);
      await revoke();
      time = '2026-01-01T09:00:05Z';
      // The new leader ran when the pod was admitted.
      const run = await start('2026-01-01T08:00:00Z', '2026-01-01T08:59:59Z');
      await run.pass(5_000);
      assert.deepEqual([reported() ?? [], events()], [[], []]);
    });
  }

  test('are not reported if they are mirror pods that the SCCs of their nodes admit', async () => {
    const mirror = { 'kubernetes.io/config.mirror': 'hash' };
    const spec = { ...HOST, serviceAccountName: '', nodeName: 'worker-1' };
    time = '2026-01-01T10:05:00Z';
    await createPod('shop/static', spec, mirror);
    await createPod('shop/recorded', spec, { ...mirror, ...BY_USER, 'openshift.io/scc': 'privileged' });
    const node = { apiVersion: 'v1', kind: 'Node', name: 'worker-1', uid: 'u', controller: true };
    await createPod('limited/static', spec, mirror, { ownerReferences: [node] });
    await start('2026-01-01T10:10:00Z', '2026-01-01T10:00:00Z');
    assert.deepEqual(reported(), [`limited/static: ${HOST_NETWORK.slice(0, 73)}`]);
    assert.deepEqual(events(), [
      [
        'Pod/static',
        'PodSecurityViolation',
        `pod static was admitted without a review: ${HOST_NETWORK}. To fix: kubectl get pod/static -n limited -o yaml | portcullis check --level=baseline --fix=diff -f -`,
      ],
    ]);
  });

  test('are reported with a command for the pod if their controller is a custom resource', async () => {
    const owner = (apiVersion: string, kind: string) => ({
      ownerReferences: [{ apiVersion, kind, name: 'build', uid: 'u', controller: true }],
    });
    time = '2026-01-01T10:05:00Z';
    await createPod('shop/task', ROOT, {}, owner('tekton.dev/v1', 'TaskRun'));
    await createPod('shop/other', ROOT, {}, owner('example.com/v1', 'Deployment'));
    await createPod('shop/build', ROOT, {}, owner('apps/v1', 'Deployment'));
    await start('2026-01-01T10:10:00Z', '2026-01-01T10:00:00Z');
    const commands = events().map(([regarding, , note]) => [regarding, String(note).split('To fix: ')[1]]);
    assert.deepEqual(commands.sort(), [
      ['Deployment/build', 'portcullis explain deployment/build -n shop'],
      ['Deployment/build', 'portcullis explain pod/other -n shop'],
      ['TaskRun/build', 'portcullis explain pod/task -n shop'],
    ]);
  });

  test('are reported if the grant that was removed does not contain their SCC or their account', async () => {
    const run = await start('2026-01-01T08:00:00Z');
    const binding = grantAnyuid('ClusterRole', standardRole);
    const other = { ...binding, subjects: [{ kind: 'ServiceAccount', name: 'other', namespace: 'shop' }] };
    await cluster.create('RoleBinding', other, TEST_MANAGER);
    await Promise.all([
      createPod('shop/pod', BY_ANYUID, BY_ACCOUNT),
      createPod('shop/host', HOST, { ...BY_ACCOUNT, 'openshift.io/scc': 'privileged' }),
      cluster.remove('RoleBinding', 'own', 'shop'),
    ]);
    await run.idle();
    await run.pass(5_000);
    assert.deepEqual(
      reported()?.map((one) => one.split(':')[0]),
      ['shop/host', 'shop/pod'],
    );
  });

  test('are reported even if their fields contain long texts', async () => {
    time = '2026-01-01T10:05:00Z';
    const containers = [{ name: 'app', image: 'a', securityContext: { capabilities: { add: ['X'.repeat(20_000)] } } }];
    await createPod('limited/capability', { containers });
    for (const [name, kind, owner] of [
      ['command', 'a;id', '$(id)'],
      ['long', 'Deployment', 'x'.repeat(2000)],
      ['pod', 'Pod', '-'],
    ] as const) {
      const reference = { apiVersion: 'apps/v1', kind, name: owner, uid: 'u', controller: true };
      await createPod(`limited/${name}`, HOST, {}, { ownerReferences: [reference] });
    }
    await start('2026-01-01T10:10:00Z', '2026-01-01T10:00:00Z');
    const lengths = status()?.unreviewedPods?.map(({ name, message }) => [name, message.length]);
    const others = ['command', 'long', 'pod'];
    assert.deepEqual(lengths, [['capability', 1025], ...others.map((name) => [name, HOST_NETWORK.length])]);
    assert.deepEqual(
      events().map(([regarding]) => regarding),
      ['capability', ...others].map((name) => `Pod/${name}`),
    );
    assert.ok(String(events()[1]?.[2]).includes('kubectl get pod/command -n limited -o yaml'));
  });

  test('are reported if an ephemeral container was added during or after an outage', async () => {
    const limited = ['limited/before', 'limited/debugged', 'limited/late-clock', 'limited/later', 'limited/no-owners'];
    for (const name of [...limited, 'shop/debugged', 'shop/plain']) {
      await createPod(name, name.startsWith('shop') ? BY_RESTRICTED : {}, name.startsWith('shop') ? RECORDED : {});
    }
    await addEphemeral('limited/before', { privileged: true });
    await startEphemeral('limited/before', '2026-01-01T09:59:54Z');
    time = '2026-01-01T10:05:00Z';
    await addEphemeral('limited/debugged', { privileged: true });
    await addEphemeral('limited/late-clock', { privileged: true });
    await startEphemeral('limited/late-clock', '2026-01-01T09:59:00Z');
    await addEphemeral('limited/no-owners', { privileged: true });
    await startEphemeral('limited/no-owners', '2026-01-01T10:05:01Z');
    const unowned = { metadata: { managedFields: [{}] } };
    await cluster.patch('Pod', { namespace: 'limited', name: 'no-owners' }, unowned, TEST_MANAGER);
    await addEphemeral('shop/debugged', { privileged: true });
    const run = await start('2026-01-01T10:10:00Z', '2026-01-01T10:00:00Z');
    const names = () => reported()?.map((line) => line.replace(/:.*/, ''));
    const added = ['limited/debugged', 'limited/late-clock', 'limited/no-owners', 'shop/debugged'];
    assert.deepEqual(names(), added);
    assert.match(
      String(events()[0]?.[2]),
      /^pod debugged was admitted without a review: violates PodSecurity "baseline:/,
    );
    time = '2026-01-01T10:15:00Z';
    await addEphemeral('limited/later', { privileged: true });
    await run.idle();
    await run.pass(5_000);
    assert.deepEqual(names(), [...added, 'limited/later'].toSorted());
  });

  test('are evaluated by the next leader if the current leader could not publish its report', async () => {
    time = '2026-01-01T10:05:00Z';
    await createPod('limited/host', HOST);
    const recorded = () =>
      cluster.store.get('Lease', 'portcullis', NAMESPACE)?.metadata?.annotations?.[
        'portcullis.dev/former-leader-renewed'
      ];
    const renewed = '2026-01-01T10:00:00Z';
    const { applyStatus } = cluster;
    cluster.applyStatus = () => Promise.reject(new Error('the API server is unavailable'));
    const first = await start('2026-01-01T10:10:00Z', renewed);
    await first.stop();
    assert.deepEqual([first.errors(), reported(), recorded()], [['the API server is unavailable'], undefined, renewed]);
    cluster.applyStatus = applyStatus;
    await start('2026-01-01T10:20:00Z');
    assert.deepEqual([reported()?.length, recorded()], [1, undefined]);
  });

  test('are evaluated by the next leader if the current leader stopped before it evaluated them twice', async () => {
    const first = await start('2026-01-01T08:00:00Z');
    time = '2026-01-01T10:00:00Z';
    await createPod('limited/host', HOST);
    await createPod('shop/creator', BY_ANYUID, BY_USER);
    await first.stop();
    assert.deepEqual(reported(), []);
    time = '2026-01-01T10:00:20Z';
    await start('2026-01-01T10:00:10Z', '2026-01-01T10:00:04Z');
    assert.deepEqual(reported(), [`limited/host: ${HOST_NETWORK.slice(0, 73)}`]);
  });

  test('are not reported if exemptions apply to users and the replica reviewed them before it became the leader', async () => {
    time = '2026-01-01T10:05:00Z';
    await createPod('limited/host', HOST);
    time = '2026-01-01T10:10:00Z';
    await start('2026-01-01T10:01:00Z', '2026-01-01T10:00:00Z', {
      ...NO_EXEMPTIONS,
      usernames: ['ci'],
    } as unknown as typeof NO_EXEMPTIONS);
    assert.deepEqual(reported(), []);
  });

  test('are no longer reported once the policy admits them', async () => {
    time = '2026-01-01T10:05:00Z';
    await createPod('limited/host', HOST);
    const run = await start('2026-01-01T10:10:00Z', '2026-01-01T10:00:00Z');
    assert.equal(reported()?.length, 1);
    const labels = { ...BASELINE, 'pod-security.kubernetes.io/enforce': 'privileged' };
    const limited = cluster.store.get('Namespace', 'limited');
    await cluster.update('Namespace', { ...limited, metadata: { ...limited?.metadata, labels } }, TEST_MANAGER);
    await run.pass(60_000);
    assert.deepEqual(reported(), []);
  });

  test('are evaluated twice if they were created while replicas were running, on the assumption that their creators may use the assigned SCCs', async () => {
    const run = await start('2026-01-01T08:00:00Z');
    assert.deepEqual(condition()?.[0]?.[1], 'True');
    await createPod('limited/host', HOST);
    await createPod('shop/root', ROOT);
    await createPod('shop/creator', BY_ANYUID, BY_USER);
    await createPod('shop/forged', HOST, { 'openshift.io/scc': 'privileged' });
    await createPod('shop/short', ROOT);
    await run.idle();
    assert.deepEqual(reported(), []);
    await cluster.remove('Pod', 'short', 'shop');
    await cluster.remove('Pod', 'host', 'limited');
    await createPod('limited/host', HOST);
    await run.idle();
    assert.deepEqual(reported(), [], 'a new pod with the same name');
    await run.pass(5_000);
    assert.deepEqual(
      reported()?.map((line) => line.replace(/:.*/, '')),
      ['limited/host', 'shop/forged', 'shop/root'],
    );
  });

  test('are reported only for times without a replica if exemptions apply to users', async () => {
    time = '2026-01-01T10:05:00Z';
    await createPod('limited/host', HOST);
    const exemptions = { ...NO_EXEMPTIONS, usernames: ['root'] } as unknown as typeof NO_EXEMPTIONS;
    const run = await start('2026-01-01T09:00:00Z', '2026-01-01T10:00:00Z', exemptions);
    await createPod('limited/later', HOST);
    await run.pass(10_000);
    assert.deepEqual(reported(), []);
    await run.stop();
    await start('2026-01-01T10:10:00Z', '2026-01-01T10:00:00Z', exemptions);
    assert.equal(reported()?.length, 2);
  });
});
