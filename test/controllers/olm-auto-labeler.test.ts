/** Tests that the label syncer is enabled in namespaces with operators. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { createAll } from '../../src/cli/serve/dev-cluster.ts';
import { createDefaultSettings } from '../../src/config/portcullis-configuration.ts';
import { createObservable, type Observable, type Settings } from '../../src/config/settings.ts';
import { olmAutoLabeler } from '../../src/controllers/olm-auto-labeler.ts';
import { type DevCluster, OLM_DEFINITIONS } from '../../src/dev-cluster/index.ts';
import { ApiError, createStatus } from '../../src/kube/status.ts';
import type { ObjectMeta } from '../../src/kube/types.ts';
import { LABEL_SYNC_LABEL, LABEL_SYNC_MANAGER, OLM_MANAGED_ANNOTATION } from '../../src/kube/well-known.ts';
import { type ControllerRun, createController, installCrds, runController } from '../support/controllers.ts';
import { startCluster, type TestCluster } from '../support/dev-cluster.ts';

type AutoLabeler = Settings['olm']['autoLabeler'];

const BY_TEST = { fieldManager: 'test' };
const NAME = 'openshift-demo';
const SETTLE_MS = 10_000;
const CHECK_MS = 30_000;
const DEFINITION = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };
const DEFINITION_NAME = 'clusterserviceversions.operators.coreos.com';

suite('the OLM auto-labeler', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let running: ControllerRun;
  let settings: Observable<Settings> & { set(value: Settings): void };

  beforeEach(async () => {
    started = await startCluster();
    ({ cluster } = started);
    await installCrds(cluster);
    await cluster.idle();
    settings = createObservable(createDefaultSettings({ controllers: [], namespace: 'portcullis' }));
    await cluster.create('PortcullisConfiguration', { metadata: { name: 'cluster' }, spec: {} }, BY_TEST);
  });
  afterEach(async () => {
    assert.deepEqual(running.errors(), []);
    await running.stop();
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const installOlm = async (): Promise<void> => {
    await createAll(
      cluster,
      OLM_DEFINITIONS.map((value) => ({ value, origin: 'olm' })),
    );
    await cluster.idle();
  };
  const setMode = (autoLabeler: Partial<AutoLabeler>): void => {
    const { olm } = settings.value;
    settings.set({ ...settings.value, olm: { ...olm, autoLabeler: { ...olm.autoLabeler, ...autoLabeler } } });
  };
  const settle = async (): Promise<void> => {
    await cluster.idle();
    await running.idle();
  };
  const run = async (mode?: AutoLabeler['mode']): Promise<void> => {
    if (mode) setMode({ mode });
    running = runController(createController(olmAutoLabeler, { settings }), cluster);
    await settle();
  };
  const createNamespace = async (name: string, metadata: ObjectMeta = {}): Promise<void> => {
    await cluster.create('Namespace', { metadata: { ...metadata, name } }, BY_TEST);
  };
  const createCsv = async (name: string, namespace: string, metadata: ObjectMeta = {}): Promise<void> => {
    const csv = {
      metadata: { ...metadata, name, namespace },
      spec: { displayName: 'Demo', install: { strategy: 'deployment' } },
    };
    await cluster.create('ClusterServiceVersion', csv, BY_TEST);
  };
  const change = async (metadata: object, name = NAME): Promise<void> => {
    await cluster.patch('Namespace', { name }, { metadata }, { fieldManager: 'kubectl' });
    await settle();
  };
  /** Returns the label and the annotation, with `-` for absent values. */
  const state = (name = NAME): string => {
    const { labels, annotations } = cluster.store.get('Namespace', name)?.metadata ?? {};
    return `${labels?.[LABEL_SYNC_LABEL] ?? '-'} ${annotations?.[OLM_MANAGED_ANNOTATION] ?? '-'}`;
  };
  const events = async (): Promise<readonly string[]> => {
    await running.idle();
    return cluster.storage
      .list({ group: '', resource: 'events' })
      .map(({ type, reason, message, note }) => `${String(type)} ${String(reason)}: ${String(message ?? note)}`)
      .sort();
  };
  const condition = () => {
    const [found] = cluster.store.get('PortcullisConfiguration', 'cluster')?.status?.conditions ?? [];
    return found && `${found.type}=${found.status} ${found.reason}: ${found.message}`;
  };
  const rows = (): unknown[] => running.log.flatMap(({ msg, row }) => (msg === 'namespace evaluated' ? [row] : []));

  test('labels the namespace of an operator, and removes the label with a delay after the last operator is removed', async () => {
    await installOlm();
    await createNamespace(NAME);
    await run();
    await createCsv('a.v1', NAME);
    await settle();
    assert.equal(state(), 'true true');
    await cluster.remove('ClusterServiceVersion', 'a.v1', NAME);
    await settle();
    await running.pass(SETTLE_MS - 1);
    assert.equal(state(), 'true true');
    await running.pass(1);
    assert.equal(state(), '- -');
    const owners = cluster.store.get('Namespace', NAME)?.metadata?.managedFields?.map(({ manager }) => manager);
    assert.deepEqual(owners?.includes('olm-auto-labeler'), false);
    assert.deepEqual(
      running.log.filter(({ level, msg }) => level === 30 && msg === 'namespace evaluated').map(({ row }) => row),
      ['9', '5'],
    );
    assert.deepEqual(await events(), [
      'Normal LabelSyncEnabled: set the label security.openshift.io/scc.podSecurityLabelSync: an operator is installed. To opt out, set the annotation olm.auto-labeler.managed to "false" and remove the label',
      'Normal LabelSyncReleased: removed the label security.openshift.io/scc.podSecurityLabelSync: managed, but the last operator was removed',
    ]);
  });

  test('keeps the label during an upgrade that deletes the old version first', async () => {
    await installOlm();
    await createNamespace(NAME);
    await createCsv('a.v1', NAME);
    await run();
    const { resourceVersion } = cluster.store.get('Namespace', NAME)?.metadata ?? {};
    await cluster.remove('ClusterServiceVersion', 'a.v1', NAME);
    await settle();
    await running.pass(SETTLE_MS - 1);
    await createCsv('a.v2', NAME);
    await running.pass(SETTLE_MS);
    assert.equal(cluster.store.get('Namespace', NAME)?.metadata?.resourceVersion, resourceVersion);
  });

  test('does not restore the label of a namespace during the delay', async () => {
    await installOlm();
    await createNamespace(NAME);
    await createCsv('a.v1', NAME);
    await run();
    await cluster.remove('ClusterServiceVersion', 'a.v1', NAME);
    await change({ labels: { [LABEL_SYNC_LABEL]: 'false' } });
    assert.equal(state(), 'false true');
    await running.pass(SETTLE_MS);
    assert.equal(state(), '- -');
  });

  test('removes labels at startup if the operators were removed while no replica was running', async () => {
    await installOlm();
    const managed = { labels: { [LABEL_SYNC_LABEL]: 'true' }, annotations: { [OLM_MANAGED_ANNOTATION]: 'true' } };
    await createNamespace(NAME, managed);
    await createNamespace('openshift-by-admin', { labels: managed.labels });
    await run();
    await running.pass(SETTLE_MS);
    assert.deepEqual([state(), state('openshift-by-admin')], ['- -', 'true -']);
  });

  test('ignores copied operators, exempt namespaces, and namespaces that do not begin with openshift-', async () => {
    await installOlm();
    await run();
    const names = ['openshift-copies', 'openshift-old-copies', 'openshift-marketplace', 'openshiftx', 'shop'];
    for (const name of names) {
      await createNamespace(name);
      const copy: ObjectMeta =
        name === 'openshift-copies'
          ? { labels: { 'olm.copiedFrom': '' } }
          : name === 'openshift-old-copies'
            ? { annotations: { 'olm.operatorNamespace': 'operators' } }
            : {};
      await createCsv('global.v1', name, copy);
    }
    await settle();
    assert.deepEqual(new Set(names.map((name) => state(name))), new Set(['- -']));
  });

  test('treats an operator that becomes a copy as removed', async () => {
    await installOlm();
    await createNamespace(NAME);
    await createCsv('a.v1', NAME);
    await run();
    const copied = { metadata: { labels: { 'olm.copiedFrom': 'operators' } } };
    await cluster.patch('ClusterServiceVersion', { name: 'a.v1', namespace: NAME }, copied, BY_TEST);
    await settle();
    await running.pass(SETTLE_MS);
    assert.equal(state(), '- -');
  });

  test('removes a label once the API server responds, if a load balancer responds with 404 before', async () => {
    await installOlm();
    await createNamespace(NAME);
    await createCsv('a.v1', NAME);
    await run();
    assert.equal(state(), 'true true');
    const { patch } = cluster;
    cluster.patch = () => Promise.reject(new ApiError(createStatus(404, 'NotFound', 'default backend - 404')));
    await cluster.remove('ClusterServiceVersion', 'a.v1', NAME);
    await settle();
    await running.pass(SETTLE_MS);
    assert.equal(state(), 'true true');
    cluster.patch = patch;
    await running.pass(10);
    assert.equal(state(), '- -');
  });

  test('restores the label of a managed namespace unless the namespace has opted out', async () => {
    await installOlm();
    await createNamespace(NAME);
    await createCsv('a.v1', NAME);
    await run();
    await change({ labels: { [LABEL_SYNC_LABEL]: 'False' } });
    assert.equal(state(), 'true true');
    await change({ labels: { [LABEL_SYNC_LABEL]: null }, annotations: { [OLM_MANAGED_ANNOTATION]: null } });
    assert.equal(state(), 'true true');
    await change({ labels: { [LABEL_SYNC_LABEL]: 'false' }, annotations: { [OLM_MANAGED_ANNOTATION]: null } });
    assert.equal(state(), 'false -');
    await change({ labels: { [LABEL_SYNC_LABEL]: null }, annotations: { [OLM_MANAGED_ANNOTATION]: 'false' } });
    assert.equal(state(), '- false');
    assert.deepEqual(rows().slice(-1), ['2']);
  });

  test('records an event with the owner of an enforce label that the label syncer overwrites', async () => {
    await installOlm();
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await cluster.apply('Namespace', { metadata: { name: NAME, labels } }, { fieldManager: 'argocd' });
    await createCsv('a.v1', NAME);
    await run();
    assert.deepEqual(await events(), [
      'Warning LabelSyncEnabled: set the label security.openshift.io/scc.podSecurityLabelSync: an operator is installed. To opt out, set the annotation olm.auto-labeler.managed to "false" and remove the label; the label syncer overwrites pod-security.kubernetes.io/enforce=restricted of argocd',
    ]);
  });

  test('records an event without an owner if the label syncer also owns the enforce label', async () => {
    await installOlm();
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    for (const fieldManager of ['argocd', LABEL_SYNC_MANAGER])
      await cluster.apply('Namespace', { metadata: { name: NAME, labels } }, { fieldManager });
    await createCsv('a.v1', NAME);
    await run();
    assert.deepEqual(await events(), [
      'Normal LabelSyncEnabled: set the label security.openshift.io/scc.podSecurityLabelSync: an operator is installed. To opt out, set the annotation olm.auto-labeler.managed to "false" and remove the label',
    ]);
  });

  test('only adds labels in shipped mode, and changes nothing in off mode', async () => {
    await installOlm();
    await createNamespace(NAME);
    await createCsv('a.v1', NAME);
    await run('off');
    assert.deepEqual([state(), condition()], ['- -', 'OLMAvailable=True Installed: the auto-labeler mode is off']);
    setMode({ mode: 'shipped' });
    await settle();
    await cluster.remove('ClusterServiceVersion', 'a.v1', NAME);
    await running.pass(SETTLE_MS);
    assert.equal(state(), 'true -');
    await change({ labels: { [LABEL_SYNC_LABEL]: null } });
    assert.equal(state(), '- -');
  });

  test('is idle by default if the OpenShift labeler runs', async () => {
    await installOlm();
    await createNamespace(NAME);
    await createCsv('a.v1', NAME);
    const namespace = 'openshift-operator-lifecycle-manager';
    await createNamespace(namespace);
    const labels = { app: 'olm-operator' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'olm', image: 'olm' }] } };
    const spec = { selector: { matchLabels: labels }, template };
    await cluster.create('Deployment', { metadata: { name: 'olm-operator', namespace }, spec }, BY_TEST);
    await run();
    assert.equal(state(), '- -');
    assert.equal(
      condition(),
      'OLMAvailable=True Installed: the auto-labeler is off, because the Deployment olm-operator in openshift-operator-lifecycle-manager labels namespaces: set spec.olm.autoLabeler.mode to run it anyway',
    );
    setMode({ mode: 'managed' });
    await settle();
    assert.equal(state(), 'true true');
  });

  test('is idle if the Operator Lifecycle Manager is not installed, or is removed later', async () => {
    const managed = { labels: { [LABEL_SYNC_LABEL]: 'true' }, annotations: { [OLM_MANAGED_ANNOTATION]: 'true' } };
    await createNamespace(NAME, managed);
    await run();
    const missing =
      'OLMAvailable=False OLMNotInstalled: the cluster does not serve clusterserviceversions.operators.coreos.com: the auto-labeler is idle';
    assert.deepEqual([state(), condition()], ['true true', missing]);
    await installOlm();
    await createNamespace('openshift-other');
    await createCsv('a.v1', 'openshift-other');
    await running.pass(CHECK_MS);
    await running.pass(SETTLE_MS);
    assert.deepEqual([state(), state('openshift-other')], ['- -', 'true true']);
    assert.equal(condition(), 'OLMAvailable=True Installed: the auto-labeler mode is managed');
    await cluster.writer.remove(DEFINITION, '', DEFINITION_NAME);
    await cluster.idle();
    await running.pass(SETTLE_MS);
    await running.pass(CHECK_MS);
    assert.deepEqual([state('openshift-other'), condition()], ['true true', missing]);
  });

  test('sets its condition even if another client owns it', async () => {
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const stale = {
      type: 'OLMAvailable',
      status: 'True',
      reason: 'Installed',
      message: '',
      lastTransitionTime,
    } as const;
    const object = { metadata: { name: 'cluster' }, status: { conditions: [stale] } };
    await cluster.applyStatus('PortcullisConfiguration', object, { fieldManager: 'backup', force: true });
    await run();
    assert.match(condition() ?? '', /^OLMAvailable=False OLMNotInstalled: /);
  });

  test('ignores a terminating or deleted namespace', async () => {
    await installOlm();
    await createNamespace(NAME, { finalizers: ['example.org/hold'] });
    await createCsv('a.v1', NAME);
    await run();
    await cluster.remove('Namespace', NAME);
    await settle();
    await running.pass(SETTLE_MS);
    assert.deepEqual([cluster.store.list('ClusterServiceVersion').length, state()], [0, 'true true']);
    assert.equal(rows().at(-1), '1');
  });
});
