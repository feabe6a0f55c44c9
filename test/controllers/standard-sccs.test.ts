import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { createObservable } from '../../src/config/settings.ts';
import { standardSccs } from '../../src/controllers/standard-sccs.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { allow, deny } from '../../src/kube/admission.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import type { SecurityContextConstraints } from '../../src/kube/scc.ts';
import { forbidden } from '../../src/kube/status.ts';
import type { KubeObject } from '../../src/kube/types.ts';
import { STANDARD_CLUSTER_ROLE_BINDINGS, STANDARD_CLUSTER_ROLES, STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import {
  type ControllerRun,
  createController,
  createTestSettings,
  installCrds,
  runController,
} from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';
import { startVerdictWebhook } from '../support/verdict-webhook.ts';

const BY_TEST = { fieldManager: 'test' };
const PREFIX = 'system:openshift:scc:';

suite('the standard SCCs', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let running: ControllerRun;

  beforeEach(async () => {
    started = await startCluster();
    ({ cluster } = started);
  });
  afterEach(async () => {
    await running.stop();
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const run = async (): Promise<void> => {
    running = runController(createController(standardSccs), cluster);
    await running.idle();
  };
  const getNames = (kind: Kind) => cluster.store.list(kind).flatMap(({ metadata }) => metadata?.name ?? []);
  const buildScc = (name: string) => withoutMetadata(cluster.store.get('SecurityContextConstraints', name) ?? {});
  const getStandard = (name: string): SecurityContextConstraints =>
    STANDARD_SCCS.find(({ scc }) => scc.metadata?.name === name)?.scc ?? {};
  const change = async (name: string, fields: SecurityContextConstraints): Promise<void> => {
    const scc = cluster.store.get('SecurityContextConstraints', name);
    await cluster.update('SecurityContextConstraints', { ...scc, ...fields }, BY_TEST);
    await running.idle();
  };
  const changes = () =>
    running.log
      .filter(({ msg }) => msg === 'object corrected')
      .map(({ kind, name, fields }) => ({ kind, name, fields }));

  test('are created with their roles and bindings', async () => {
    await installCrds(cluster);
    await run();
    assert.deepEqual(running.errors(), []);
    assert.deepEqual(
      new Set(getNames('SecurityContextConstraints')),
      new Set(STANDARD_SCCS.map(({ scc }) => scc.metadata?.name)),
    );
    for (const { scc } of STANDARD_SCCS) assert.deepEqual(buildScc(scc.metadata?.name ?? ''), withoutMetadata(scc));
    assert.deepEqual(
      getNames('ClusterRole').filter((name) => name.startsWith(PREFIX)),
      STANDARD_CLUSTER_ROLES.map(({ metadata }) => metadata?.name),
    );
    assert.deepEqual(
      getNames('ClusterRoleBinding').filter((name) => name.startsWith(PREFIX)),
      STANDARD_CLUSTER_ROLE_BINDINGS.map(({ metadata }) => metadata?.name),
    );
    const [owner] = cluster.store.get('SecurityContextConstraints', 'anyuid')?.metadata?.managedFields ?? [];
    assert.equal(owner?.manager, standardSccs.name);
    assert.deepEqual(changes(), []);
  });

  test('are not written if they already exist', async () => {
    await installCrds(cluster);
    await run();
    await running.stop();
    const revision = cluster.storage.revision();
    await run();
    assert.equal(cluster.storage.revision(), revision);
  });

  test('of the second generation are corrected after changes', async () => {
    await installCrds(cluster);
    await run();
    await change('restricted-v2', { allowPrivilegedContainer: true, users: ['alice'] });
    assert.deepEqual(buildScc('restricted-v2'), withoutMetadata(getStandard('restricted-v2')));
    assert.deepEqual(changes(), [
      {
        kind: 'SecurityContextConstraints',
        name: 'restricted-v2',
        fields: ['allowPrivilegedContainer', 'users'],
      },
    ]);
    const events = cluster.storage.list({ group: '', resource: 'events' });
    assert.deepEqual(
      events.map(({ type, reason, message, involvedObject }) => ({
        type,
        reason,
        message,
        name: (involvedObject as { readonly name?: string }).name,
      })),
      [
        {
          type: 'Warning',
          reason: 'Corrected',
          message:
            'restored the standard values of allowPrivilegedContainer, users; to use other values, create a copy under another name',
          name: 'restricted-v2',
        },
      ],
    );
  });

  test('of the first generation keep changes, and are created again after a deletion', async () => {
    await installCrds(cluster);
    await run();
    await change('anyuid', { groups: [], priority: null });
    assert.deepEqual(buildScc('anyuid'), { ...withoutMetadata(getStandard('anyuid')), groups: [], priority: null });
    await cluster.remove('SecurityContextConstraints', 'anyuid');
    await running.idle();
    assert.deepEqual(buildScc('anyuid'), withoutMetadata(getStandard('anyuid')));
    assert.deepEqual(changes(), []);
  });

  test('list the service accounts of OpenShift while the settings select OpenShift compatibility', async () => {
    await installCrds(cluster);
    const settings = createObservable(createTestSettings({}).value);
    running = runController(createController(standardSccs, { settings }), cluster);
    await running.idle();
    const users = () =>
      ['privileged', 'hostmount-anyuid'].map((name) => cluster.store.get('SecurityContextConstraints', name)?.users);
    await change('privileged', { users: ['system:admin', 'alice'], priority: 3 });
    assert.deepEqual(users(), [['system:admin', 'alice'], []]);
    const { value } = settings;
    settings.set({ ...value, scc: { ...value.scc, compatibility: 'openshift' } });
    await running.idle();
    assert.deepEqual(users(), [
      ['system:admin', 'alice', 'system:serviceaccount:openshift-infra:build-controller'],
      ['system:serviceaccount:openshift-infra:pv-recycler-controller'],
    ]);
    settings.set(value);
    await running.idle();
    assert.deepEqual(users(), [['system:admin', 'alice'], []]);
    assert.equal(cluster.store.get('SecurityContextConstraints', 'privileged')?.priority, 3);
  });

  test('keep changes to nested-container', async () => {
    await installCrds(cluster);
    const own = { ...getStandard('nested-container'), allowPrivilegeEscalation: false };
    await cluster.create('SecurityContextConstraints', own, BY_TEST);
    await run();
    assert.equal(buildScc('nested-container').allowPrivilegeEscalation, false);
  });

  test('have roles and bindings that are corrected after changes', async () => {
    await installCrds(cluster);
    await run();
    const role = cluster.store.get('ClusterRole', `${PREFIX}anyuid`);
    await cluster.update('ClusterRole', { ...role, rules: [] }, BY_TEST);
    await cluster.remove('ClusterRole', `${PREFIX}privileged`);
    const binding = cluster.store.get('ClusterRoleBinding', `${PREFIX}restricted-v2`);
    assert.ok(binding);
    await cluster.update('ClusterRoleBinding', { ...binding, subjects: [] }, BY_TEST);
    await cluster.remove('ClusterRoleBinding', `${PREFIX}restricted-v3`);
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' };
    await cluster.create(
      'ClusterRoleBinding',
      { ...binding, metadata: { name: `${PREFIX}restricted-v3` }, roleRef },
      BY_TEST,
    );
    await running.idle();
    for (const wanted of STANDARD_CLUSTER_ROLES) {
      const found = cluster.store.get('ClusterRole', wanted.metadata?.name ?? '');
      assert.deepEqual(withoutMetadata(found ?? {}), withoutMetadata(wanted));
    }
    for (const wanted of STANDARD_CLUSTER_ROLE_BINDINGS) {
      const found = cluster.store.get('ClusterRoleBinding', wanted.metadata?.name ?? '');
      assert.deepEqual(withoutMetadata(found ?? {}), withoutMetadata(wanted));
    }
    assert.deepEqual(running.errors(), []);
  });

  test('are created as soon as the cluster serves them', async () => {
    await run();
    const errors = running.errors();
    const missing =
      'the cluster does not serve securitycontextconstraints.security.openshift.io: install its CustomResourceDefinition: the server could not find the requested resource';
    assert.deepEqual(new Set(errors), new Set([missing]));
    assert.equal(errors.length, STANDARD_SCCS.length);
    assert.ok(cluster.store.get('ClusterRoleBinding', `${PREFIX}restricted-v2`));
    for (let minute = 0; minute < 20; minute++) await running.pass(60_000);
    await installCrds(cluster);
    running.errors();
    await running.pass(60_000);
    assert.equal(getNames('SecurityContextConstraints').length, STANDARD_SCCS.length);
    assert.deepEqual(running.errors(), []);
  });

  test('are retried if their writes are denied, which is logged', async () => {
    await installCrds(cluster);
    const webhook = await startVerdictWebhook(cluster, ['securitycontextconstraints'], ({ name = '' }) =>
      name === 'privileged'
        ? deny(forbidden({ group: 'security.openshift.io', resource: 'securitycontextconstraints' }, name, 'no'))
        : allow(),
    );
    await run();
    assert.deepEqual(running.errors(), [
      'admission webhook "verdict.example.com" denied the request: securitycontextconstraints.security.openshift.io "privileged" is forbidden: no',
    ]);
    assert.equal(getNames('SecurityContextConstraints').length, STANDARD_SCCS.length - 1);
    await webhook.stop();
    await running.pass(5);
    assert.ok(getNames('SecurityContextConstraints').includes('privileged'));
  });
});

function withoutMetadata<T extends KubeObject>(object: T): Omit<T, 'metadata'> {
  const fields: { metadata?: unknown } = { ...object };
  delete fields.metadata;
  return fields as Omit<T, 'metadata'>;
}
