/** A short resilience test. `node test/run.ts resilience` runs for minutes. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { assertNoFailures, formatReport, REVIEWS, setUpStage, type Stage } from './stage.ts';
import { STRANGER_ATTACKS } from './stranger-attacks.ts';
import { TENANT_ATTACKS } from './tenant-attacks.ts';
import {
  assertUnaffected,
  attackedResources,
  findTenantResources,
  setUpTenants,
  type TenantStage,
} from './tenant-stage.ts';

suite('replicas behind a Service', () => {
  let stage: Stage;
  before(async () => {
    stage = await setUpStage({ perSecond: 20 });
    await stage.start(2);
    await stage.settled(2);
  });
  after(() => stage.stop());

  test('continue to decide while the API server is unreachable', async (t) => {
    const report = await stage.underLoad(async () => {
      const unready = await stage.collectUnready(async () => {
        await stage.proxy.set('unreachable');
        await stage.changeLevel();
        await pause(2500);
      });
      assert.deepEqual(unready, []);
    });
    t.diagnostic(formatReport(report));
    assertNoFailures(report);
  });

  test('are not ready if they start while the API server is unreachable, and apply changes afterwards', async () => {
    const [replica] = await stage.start(1);
    assert.ok(replica);
    const { status, text } = await replica.probe();
    assert.equal(status, 500);
    assert.match(text, /informer-sync failed: not synced/);
    const [expectation] = REVIEWS;
    assert.ok(expectation);
    const response = stage.getClient(replica, 'any certificate').call(expectation.path, expectation.review);
    await assert.rejects(response, /HTTP status 503: the replica has not read the cluster completely yet; try again/);
    await stage.proxy.set('none');
    await stage.settled(3);
    await stage.waitForChange(20_000);
    await stage.waitForLeader(20_000);
  });

  test('are replaced without a failed review', async (t) => {
    const report = await stage.underLoad(async () => {
      for (const old of stage.system.replicas.slice(0, 2)) await stage.system.retire(old);
    });
    t.diagnostic(formatReport(report));
    assertNoFailures(report);
  });
});

const TENANTS = ['Role: rules about SCCs', 'RoleBinding: subjects of an SCC role', 'Pod: volumes'];
const STRANGERS = ['long timeouts in the URL', 'denied pods with long owners'];

suite('tenants and strangers', () => {
  let stage: TenantStage;
  before(async () => {
    stage = await setUpTenants({ perSecond: 10 });
  });
  after(() => stage.stop());

  test('attack every watched resource that a tenant can write', async () => {
    const resources = await findTenantResources(stage);
    assert.ok(resources.includes('pods') && resources.includes('rolebindings.rbac.authorization.k8s.io'));
    assert.deepEqual(
      resources.filter((resource) => !attackedResources().includes(resource)),
      [],
    );
  });

  test('do not stop a replica, and no forbidden pod is admitted', async (t) => {
    const tenants = TENANT_ATTACKS.filter(({ name }) => TENANTS.includes(name));
    const strangers = STRANGER_ATTACKS.filter(({ name }) => STRANGERS.includes(name));
    assert.deepEqual([tenants.length, strangers.length], [TENANTS.length, STRANGERS.length]);
    const effect = await stage.measure(async () => {
      for (const attack of tenants) {
        const tenant = stage.startTenant(attack, { count: 2, bytes: 50_000 });
        await tenant.created;
        const { created } = await tenant.stop();
        assert.equal(created, 2, attack.name);
      }
      for (const attack of strangers) {
        const stranger = await stage.startStranger({ ...attack, connections: 4 });
        await pause(1000);
        assert.ok((await stranger.stop()).size > 0, attack.name);
      }
      assert.notEqual(await stage.restart(), 'ended');
    });
    t.diagnostic(JSON.stringify({ ...effect, direct: undefined, dryRuns: undefined }));
    assertUnaffected(effect, true);
  });
});
