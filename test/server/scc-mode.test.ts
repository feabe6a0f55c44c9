/** Tests the warning about workloads that `spec.scc.mode: enforce` denies. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { WritableStore } from '../../src/cluster/store.ts';
import type { Kinds } from '../../src/kube/kinds.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import type { SccSettings } from '../../src/policy/scc/index.ts';
import { buildPod, createSccTestWebhooks, podRequest } from '../support/scc-webhooks.ts';

const KIND = { group: 'config.portcullis.dev', version: 'v1alpha1', kind: 'PortcullisConfiguration' };

/** Creates finished Jobs and pods, which create no more pods, and finished pods of a CronJob and of an open Job. */
function putFinished(store: WritableStore, namespace: string): void {
  const finished = { status: { phase: 'Succeeded' } };
  const putPod = (name: string, controller?: string): void => {
    const owner = { apiVersion: 'batch/v1', kind: 'Job', name: controller ?? '', uid: '1', controller: true };
    const ownerReferences = controller === undefined ? [] : [owner];
    const pod = buildPod({ runAsUser: 0 }) as JsonObject;
    store.put('Pod', { ...pod, ...finished, metadata: { name, namespace, ownerReferences } });
  };
  store.put('CronJob', { metadata: { name: 'nightly', namespace } } as Kinds['CronJob']);
  store.put('Job', { kind: 'Job', metadata: { name: 'open', namespace } });
  const status = { conditions: [{ type: 'Complete', status: 'True' }] };
  store.put('Job', { kind: 'Job', metadata: { name: 'done', namespace }, status });
  putPod('nightly-1-a', 'nightly-1');
  putPod('open-a', 'open');
  putPod('done-a', 'done');
  putPod('deleted-a', 'deleted');
  putPod('done');
}

/** Creates namespaces with denied workloads, and returns the warnings about a change to the spec. */
async function warningsFor(
  before: JsonObject | undefined,
  after: JsonObject,
  { mode = 'report', timeoutMs }: { readonly mode?: SccSettings['mode']; readonly timeoutMs?: number } = {},
) {
  const { store, decide } = createSccTestWebhooks({ settings: { mode } });
  const labels = { strict: 'enforce', lenient: 'report' };
  for (const name of ['shop', 'bank', 'kube-system']) store.put('Namespace', { metadata: { name } });
  for (const [name, label] of Object.entries(labels)) {
    store.put('Namespace', { metadata: { name, labels: { 'portcullis.dev/scc': label } } });
  }
  for (const namespace of ['shop', 'kube-system', 'strict', 'lenient']) {
    store.put('Deployment', { metadata: { name: 'web', namespace } });
    store.put('StatefulSet', { metadata: { name: 'db', namespace } });
    for (const [kind, controller, name] of [
      ['ReplicaSet', 'web-1', 'web-1-a'],
      ['ReplicaSet', 'web-1', 'web-1-b'],
      ['ReplicaSet', 'own', 'own-a'],
      ['StatefulSet', 'db', 'db-0'],
    ] as const) {
      const ownerReferences = [{ apiVersion: 'apps/v1', kind, name: controller, uid: '1', controller: true }];
      const pod = buildPod({ runAsUser: 0 }) as JsonObject;
      store.put('Pod', { ...pod, metadata: { name, namespace, ownerReferences } });
    }
    store.put('Pod', { ...(buildPod() as JsonObject), metadata: { name: 'compliant', namespace } });
    store.put('Pod', { ...(buildPod({ privileged: true }) as JsonObject), metadata: { name: 'lone', namespace } });
    putFinished(store, namespace);
  }
  const request = podRequest(
    { spec: after },
    {
      kind: KIND,
      resource: { group: KIND.group, version: KIND.version, resource: 'portcullisconfigurations' },
      ...(before ? { operation: 'UPDATE', oldObject: { spec: before } } : {}),
    },
  );
  const decision = await decide('/validate/objects', request, timeoutMs);
  assert.equal(decision.allowed, true);
  // Other warnings are tested with the other settings.
  return (decision.warnings ?? []).filter((warning) => warning.startsWith('spec.scc.mode '));
}

const ENFORCE = { scc: { mode: 'enforce' } };

suite('a change of the SCC mode to enforce', () => {
  const expected =
    'spec.scc.mode enforce denies new pods of 6 workloads: CronJob shop/nightly, Deployment shop/web, Job shop/open, Pod shop/lone, ReplicaSet shop/own, StatefulSet shop/db; portcullis scc plan --scc-mode enforce prints the reasons';
  test('in an update of the settings warns about workloads that would be denied', async () =>
    assert.deepEqual(await warningsFor({}, ENFORCE), [expected]));
  test('in new settings warns about workloads that would be denied', async () =>
    assert.deepEqual(await warningsFor(undefined, ENFORCE), [expected]));
  test('does not warn about workloads in exempt namespaces', async () => {
    const spec = { scc: { mode: 'enforce', exemptNamespaces: ['shop'] } };
    assert.deepEqual(await warningsFor({}, spec), []);
  });
  test('warns that the evaluation is incomplete if there is not enough time', async () => {
    assert.deepEqual(await warningsFor({}, ENFORCE, { timeoutMs: 0 }), [
      'spec.scc.mode enforce was not evaluated for all workloads; portcullis scc plan --scc-mode enforce evaluates them',
    ]);
  });
  test('causes no warning if the mode was already enforce', async () =>
    assert.deepEqual(await warningsFor(ENFORCE, ENFORCE, { mode: 'enforce' }), []));
  test('causes no warning when report mode is set again', async () =>
    assert.deepEqual(await warningsFor(ENFORCE, { scc: { mode: 'report' } }), []));
});
