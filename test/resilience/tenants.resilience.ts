/**
 * Tests that no object of a tenant and no request of a stranger stops a replica. Tenants with the ClusterRoles `edit`
 * and `admin` create the worst objects that an API server accepts, and a client without credentials sends the worst
 * requests. Replicas are killed in between, so they list all objects again.
 *
 * `--test-name-pattern` selects attacks. With PORTCULLIS_BUNDLE, the suite attacks that script.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { formatReport } from './stage.ts';
import { STRANGER_ATTACKS, type StrangerAttack } from './stranger-attacks.ts';
import { TENANT_ATTACKS, type TenantAttack } from './tenant-attacks.ts';
import {
  assertUnaffected,
  attackedResources,
  CONFIGURATION_NAMES,
  type ConfigurationName,
  type Effect,
  findTenantResources,
  setUpTenants,
  type TenantStage,
} from './tenant-stage.ts';

/** Attacks whose effect depends on the configuration. They are repeated with the second configuration. */
const REPEATED: readonly string[] = [
  'pods of users with many groups',
  'long timeouts in the URL',
  'bodies of 23 MiB',
  'RoleBinding: subjects of an SCC role',
  'Pod: volumes',
];

function record(t: TestContext, effect: Effect, restartMs: number | 'ended' | undefined): void {
  const { peakMiB, ended, admitted, attempts, direct, dryRuns, dryRunResponses, cpuP99Ms, cpuMaxMs, ownP99Ms } = effect;
  t.diagnostic(
    `direct: ${formatReport(direct)}; without waits for a CPU p99 ${ownP99Ms} ms; CPU time p99 ${cpuP99Ms} ms, maximum ${cpuMaxMs} ms`,
  );
  t.diagnostic(`dry runs: ${formatReport(dryRuns)}`);
  for (const failure of [...direct.failures.slice(0, 3), ...dryRuns.failures.slice(0, 3)])
    t.diagnostic(JSON.stringify(failure));
  for (const text of ended) t.diagnostic(text);
  if (dryRuns.wrong > 0)
    for (const [response, count] of dryRunResponses) t.diagnostic(`dry runs: ${count} × ${response}`);
  if (admitted.length > 0) t.diagnostic(`admitted: ${admitted.join(', ')}`);
  const restart =
    restartMs === undefined ? '–' : restartMs === 'ended' ? 'ended' : `${(restartMs / 1000).toFixed(1)} s`;
  const columns = [
    t.name,
    `${peakMiB} MiB`,
    `${direct.p99Ms} ms`,
    `${cpuP99Ms} ms`,
    restart,
    `${admitted.length} of ${attempts}`,
    ended.length,
  ];
  t.diagnostic(`| ${columns.join(' | ')} |`);
}

suite('attacks by tenants and strangers', { timeout: 7_200_000 }, () => {
  let folder: string;
  let stage: TenantStage;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'portcullis-bundle-'));
    const existing = process.env['PORTCULLIS_BUNDLE'] || undefined;
    if (existing === undefined) await promisify(execFile)(process.execPath, ['scripts/build.ts', folder]);
    stage = await setUpTenants({ main: existing ?? join(folder, 'main.js') });
  });
  after(async () => {
    await stage.stop();
    await rm(folder, { recursive: true, force: true });
  });

  test('cover every watched resource that a tenant can write', async (t) => {
    t.diagnostic(`ran against: ${stage.plane.title}`);
    const resources = await findTenantResources(stage);
    t.diagnostic(resources.join(', '));
    assert.ok(resources.includes('pods') && resources.includes('rolebindings.rbac.authorization.k8s.io'));
    assert.deepEqual(
      resources.filter((resource) => !attackedResources().includes(resource)),
      [],
    );
  });

  const attackTenant = (attack: TenantAttack, configuration: ConfigurationName) => async (t: TestContext) => {
    await stage.restore();
    await stage.configure(configuration);
    let restartMs: number | 'ended' | undefined;
    const effect = await stage.measure(async () => {
      const tenant = stage.startTenant(attack);
      await tenant.created;
      await pause(3000);
      restartMs = await stage.restart();
      await pause(2000);
      const { rejections, ...report } = await tenant.stop();
      t.diagnostic(JSON.stringify(report));
      t.diagnostic(JSON.stringify(rejections));
    });
    record(t, effect, restartMs);
    await stage.clean([attack]);
    assertUnaffected(effect);
  };

  const attackStranger = (attack: StrangerAttack, configuration: ConfigurationName) => async (t: TestContext) => {
    await stage.restore();
    await stage.configure(configuration);
    const before = TENANT_ATTACKS.find(({ name }) => name === attack.after);
    assert.equal(before?.name, attack.after);
    const effect = await stage.measure(async () => {
      const tenant = before && stage.startTenant(before);
      await tenant?.created;
      await tenant?.stop();
      const stranger = await stage.startStranger(attack);
      await pause(8000);
      const counts = await stranger.stop();
      t.diagnostic([...counts].map(([response, count]) => `${count} × ${response}`).join(', '));
    });
    record(t, effect, undefined);
    if (before) await stage.clean([before]);
    assertUnaffected(effect, attack.isFlood);
  };

  test('are measured against a run without an attack, which does not affect other clients', async (t) => {
    await stage.restore();
    const effect = await stage.measure(() => pause(8000));
    record(t, effect, undefined);
    assertUnaffected(effect);
  });

  for (const configuration of CONFIGURATION_NAMES) {
    const isDefault = configuration === 'default';
    const suffix = isDefault ? '' : `; ${configuration}`;
    for (const attack of TENANT_ATTACKS.filter(({ name }) => isDefault || REPEATED.includes(name)))
      test(`do not affect other clients: ${attack.name}${suffix}`, attackTenant(attack, configuration));
    for (const attack of STRANGER_ATTACKS.filter(({ name }) => isDefault || REPEATED.includes(name)))
      test(`do not affect other clients: ${attack.name}${suffix}`, attackStranger(attack, configuration));
  }

  test('do not affect other tenants when all of them run at once', async (t) => {
    await stage.restore();
    let restartMs: number | 'ended' | undefined;
    const effect = await stage.measure(async () => {
      for (const [index, attack] of TENANT_ATTACKS.entries()) {
        const tenant = stage.startTenant(attack, { createMs: 3000 });
        const strangerAttack = STRANGER_ATTACKS[index % STRANGER_ATTACKS.length];
        const stranger = strangerAttack && (await stage.startStranger(strangerAttack));
        await tenant.created;
        await tenant.stop();
        await stranger?.stop();
        if (index % 10 === 9) restartMs = await stage.restart();
      }
      restartMs = await stage.restart();
      restartMs = await stage.restart();
    });
    record(t, effect, restartMs);
    await stage.clean(TENANT_ATTACKS);
    assertUnaffected(effect, true);
  });
});
