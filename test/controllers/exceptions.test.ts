/** Tests the status, the metric and the events of PodSecurityExceptions. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { exceptions } from '../../src/controllers/exceptions.ts';
import { createDevCluster, type DevCluster } from '../../src/dev-cluster/index.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { hashSpec } from '../../src/views/exceptions.ts';
import { NAMESPACE, TEST_MANAGER } from '../support/certificates.ts';
import {
  type ControllerRun,
  createController,
  createTestSettings,
  installCrds,
  runController,
} from '../support/controllers.ts';

const ENFORCE = 'pod-security.kubernetes.io/enforce';
const OWN = 'portcullis.dev/enforce';
const spec = {
  serviceAccountName: 'gateway',
  allow: [{ check: 'hostNamespaces', values: ['hostNetwork'] }],
  expiresAt: '2026-02-01T00:00:00Z',
  reason: 'SEC-123',
};

suite('the status of a PodSecurityException', () => {
  let cluster: DevCluster;
  let time: string;
  let run: ControllerRun;
  let metrics: Metrics;

  beforeEach(async () => {
    time = '2026-01-01T09:00:00Z';
    metrics = createMetrics({ version: '0.0.0' });
    cluster = createDevCluster({
      clock: () => new Date(time),
      call: () => Promise.resolve({ ok: false, error: 'unavailable' }),
    });
    await installCrds(cluster);
    for (const [name, labels] of Object.entries({
      [NAMESPACE]: {},
      shop: { [OWN]: 'baseline', [ENFORCE]: 'privileged' },
    })) {
      await cluster.create('Namespace', { metadata: { name, labels } }, TEST_MANAGER);
    }
    await cluster.create('ServiceAccount', { metadata: { name: 'gateway', namespace: 'shop' } }, TEST_MANAGER);
    const annotations = { 'portcullis.dev/authors': '["alice"]' };
    await cluster.create(
      'PodSecurityException',
      { metadata: { name: 'e', namespace: 'shop', annotations }, spec },
      TEST_MANAGER,
    );
    const containers = [{ name: 'app', image: 'a' }];
    const pod = { serviceAccountName: 'gateway', containers, hostNetwork: true };
    await cluster.create('Pod', { metadata: { name: 'gateway', namespace: 'shop' }, spec: pod }, TEST_MANAGER);
    const settings = createTestSettings({});
    const changed = {
      ...settings.value,
      exceptions: {
        mode: 'approved',
        maxDurationMs: 1e10,
        forbiddenChecks: [],
        namespaces: [],
        selfApproval: false,
        trustedApprovers: [],
      },
    } as const;
    const observable = { value: changed, subscribe: () => () => undefined };
    run = runController(
      createController(exceptions, { settings: observable, metrics, date: () => new Date(time) }),
      cluster,
    );
  });
  afterEach(async () => {
    assert.deepEqual(run.errors(), []);
    await run.stop();
  });

  const status = async (): Promise<JsonObject> => {
    await run.idle();
    return (await cluster.get('PodSecurityException', 'e', 'shop')).status ?? {};
  };
  const conditions = async (): Promise<readonly string[]> => {
    const { conditions: list = [] } = (await status()) as { readonly conditions?: readonly JsonObject[] };
    return list.map(
      (one) => `${String(one['type'])}=${String(one['status'])} ${String(one['reason'])}: ${String(one['message'])}`,
    );
  };
  const approve = async (approved = spec, at = '2026-01-01T09:00:00Z'): Promise<void> => {
    const approval = { by: 'bob', at, specHash: hashSpec(approved) };
    await cluster.applyStatus(
      'PodSecurityException',
      { metadata: { name: 'e', namespace: 'shop' }, status: { approval } },
      TEST_MANAGER,
    );
  };
  const events = (): readonly string[] =>
    cluster.storage
      .list({ group: '', resource: 'events' })
      .map(
        ({ reason, message, involvedObject }) =>
          `${String((involvedObject as JsonObject)['kind'])} ${String(reason)}: ${String(message)}`,
      )
      .sort();
  const expiry = async (): Promise<string | undefined> =>
    /^portcullis_exception_expiry_timestamp_seconds(\{.*)$/m.exec(await metrics.expose())?.[1];

  test('has conditions that change when the exception is approved and when it expires', async () => {
    assert.deepEqual(await conditions(), [
      'Approved=False NotApproved: it is not approved: portcullis exception approve e -n shop',
      'Active=False NotApproved: it is not approved: portcullis exception approve e -n shop',
      'Expired=False NotExpired: expiresAt is 2026-02-01T00:00:00Z',
      'Shadowed=False NotShadowed: no other policy denies its pods',
      'Unused=False NotActive: running pods that need it: 0',
      'Ready=False NotApproved: it is not approved: portcullis exception approve e -n shop',
      'Reconciling=True NotApproved: it is not approved: portcullis exception approve e -n shop',
    ]);
    assert.equal(await expiry(), undefined);
    await approve();
    assert.deepEqual(await conditions(), [
      'Approved=True Approved: approved by bob at 2026-01-01T09:00:00Z',
      'Active=True Applies: it applies to new pods until 2026-02-01T00:00:00Z',
      'Expired=False NotExpired: expiresAt is 2026-02-01T00:00:00Z',
      'Shadowed=False NotShadowed: no other policy denies its pods',
      'Unused=False InUse: running pods that need it: 1',
      'Ready=True Applies: all replicas apply it to new pods',
    ]);
    assert.deepEqual((await status())['workloads'], ['Pod/gateway']);
    assert.equal(await expiry(), '{exception="shop/e"} 1769904000');
    assert.deepEqual(events(), []);
    time = '2026-01-26T00:00:00Z';
    await run.pass(60_000);
    await run.idle();
    assert.deepEqual(events(), [
      'Pod ExceptionExpires: the PodSecurityException e, which its pods need, expires at 2026-02-01T00:00:00Z: new pods are denied afterwards',
      'PodSecurityException ExceptionExpires: the exception expires at 2026-02-01T00:00:00Z: new pods are denied afterwards',
    ]);
    time = '2026-02-01T00:00:00Z';
    await run.pass(60_000);
    assert.deepEqual((await conditions()).slice(1, 3), [
      'Active=False Expired: it expired at 2026-02-01T00:00:00Z',
      'Expired=True Expired: expiresAt is 2026-02-01T00:00:00Z',
    ]);
    assert.deepEqual((await conditions()).slice(5), [
      'Ready=False Expired: it expired at 2026-02-01T00:00:00Z',
      'Stalled=True Expired: it expired at 2026-02-01T00:00:00Z',
    ]);
    assert.equal(await expiry(), undefined);
  });

  test('leads to one event about the expiry, even if the exception does not apply in between', async () => {
    await approve();
    time = '2026-01-26T00:00:00Z';
    await run.pass(60_000);
    const approvals = [{ ...spec, reason: 'other' }, spec];
    for (const approved of approvals) {
      await approve(approved);
      await run.pass(60_000);
    }
    assert.equal((await conditions())[1], 'Active=True Applies: it applies to new pods until 2026-02-01T00:00:00Z');
    const records = cluster.storage.list({ group: '', resource: 'events' });
    assert.deepEqual(
      records.map(({ reason, series }) => [reason, series]),
      [
        ['ExceptionExpires', undefined],
        ['ExceptionExpires', undefined],
      ],
    );
  });

  test('leads to another event if an extended exception expires', async () => {
    await approve();
    time = '2026-01-26T00:00:00Z';
    await run.pass(60_000);
    await run.idle();
    const extended = { ...spec, expiresAt: '2026-03-01T00:00:00Z' };
    await cluster.patch('PodSecurityException', { name: 'e', namespace: 'shop' }, { spec: extended }, TEST_MANAGER);
    await approve(extended);
    time = '2026-02-23T00:00:00Z';
    await run.pass(60_000);
    await run.idle();
    assert.deepEqual(events().slice(2), [
      'PodSecurityException ExceptionExpires: the exception expires at 2026-02-01T00:00:00Z: new pods are denied afterwards',
      'PodSecurityException ExceptionExpires: the exception expires at 2026-03-01T00:00:00Z: new pods are denied afterwards',
    ]);
  });

  test('reports the exception as unused a day after its last pod has ended, or after it was approved again', async () => {
    await approve();
    await run.idle();
    const unused = async (now: string): Promise<string | undefined> => {
      time = now;
      await run.pass(60_000);
      return (await conditions())[4];
    };
    assert.equal(await unused('2026-01-05T09:00:00Z'), 'Unused=False InUse: running pods that need it: 1');
    await cluster.remove('Pod', 'gateway', 'shop');
    assert.equal(await unused('2026-01-05T09:01:00Z'), 'Unused=False RecentlyActive: running pods that need it: 0');
    assert.equal((await status())['lastUsed'], '2026-01-05T09:01:00Z');
    assert.equal(await unused('2026-01-06T09:00:00Z'), 'Unused=False RecentlyActive: running pods that need it: 0');
    assert.equal(await unused('2026-01-06T09:01:00Z'), 'Unused=True NoPods: running pods that need it: 0');
    await approve(spec, '2026-01-06T09:02:00Z');
    assert.equal(await unused('2026-01-06T09:03:00Z'), 'Unused=False RecentlyActive: running pods that need it: 0');
  });

  test('lists a pod that needs several exceptions for one violation', async () => {
    const partOf = (container: string) => ({
      ...spec,
      serviceAccountName: 'node',
      allow: [{ check: 'privileged', container, image: 'r.io/agent' }],
    });
    const specs = { e: partOf('a'), other: partOf('b') };
    await cluster.remove('PodSecurityException', 'e', 'shop');
    for (const [name, own] of Object.entries(specs)) {
      const metadata = { name, namespace: 'shop', annotations: { 'portcullis.dev/authors': '["alice"]' } };
      await cluster.create('PodSecurityException', { metadata, spec: own }, TEST_MANAGER);
      const approval = { by: 'bob', at: time, specHash: hashSpec(own) };
      await cluster.applyStatus(
        'PodSecurityException',
        { metadata: { name, namespace: 'shop' }, status: { approval } },
        TEST_MANAGER,
      );
    }
    const containers = ['a', 'b'].map((name) => {
      return { name, image: 'r.io/agent', securityContext: { privileged: true } };
    });
    const pod = { serviceAccountName: 'node', containers };
    await cluster.create('ServiceAccount', { metadata: { name: 'node', namespace: 'shop' } }, TEST_MANAGER);
    await cluster.create('Pod', { metadata: { name: 'node', namespace: 'shop' }, spec: pod }, TEST_MANAGER);
    await run.pass(60_000);
    assert.deepEqual((await status())['workloads'], ['Pod/node']);
    await cluster.remove('PodSecurityException', 'other', 'shop');
    await run.pass(60_000);
    assert.deepEqual((await status())['workloads'], []);
  });

  test('does not count finished pods as uses', async () => {
    const finished = { metadata: { name: 'gateway', namespace: 'shop' }, status: { phase: 'Succeeded' } };
    await cluster.applyStatus('Pod', finished, TEST_MANAGER);
    await approve();
    assert.deepEqual((await status())['workloads'], []);
  });

  test('lists the pod if the name of its workload is too long for the status', async () => {
    const owner = { apiVersion: 'v1', kind: 'Web', name: 'x'.repeat(400), uid: 'u', controller: true };
    const reference = { metadata: { ownerReferences: [owner] } };
    await cluster.patch('Pod', { name: 'gateway', namespace: 'shop' }, reference, TEST_MANAGER);
    await approve();
    assert.deepEqual((await status())['workloads'], ['Pod/gateway']);
  });

  test('reports that a stricter upstream label overrides the exception', async () => {
    await approve();
    assert.equal((await conditions())[3], 'Shadowed=False NotShadowed: no other policy denies its pods');
    await cluster.patch(
      'Namespace',
      { name: 'shop' },
      { metadata: { labels: { [ENFORCE]: 'restricted', [OWN]: null } } },
      TEST_MANAGER,
    );
    assert.equal(
      (await conditions())[3],
      'Shadowed=True OtherLevel: the PodSecurity plugin of the API server and the floor, if enabled, deny its pods at the restricted level, regardless of exceptions. To let Portcullis alone enforce the level: kubectl label namespace shop portcullis.dev/enforce=restricted pod-security.kubernetes.io/enforce=privileged --overwrite',
    );
  });

  test('contains the sum of the uses that replicas report', async () => {
    await approve();
    await run.idle();
    const uses = (count: number): JsonObject => ({
      name: 'replica-a',
      namespace: NAMESPACE,
      annotations: {
        'portcullis.dev/exemption-uses': JSON.stringify({ since: time, uses: { 'exception/shop/e': count } }),
      },
    });
    await cluster.create('Lease', { metadata: uses(2) }, TEST_MANAGER);
    await run.pass(60_000);
    assert.equal((await status())['uses'], 2);
    await cluster.apply('Lease', { metadata: uses(5) }, { ...TEST_MANAGER, force: true });
    await run.pass(60_000);
    assert.deepEqual([(await status())['uses'], (await status())['lastUsed']], [5, '2026-01-01T09:00:00Z']);
  });
});
