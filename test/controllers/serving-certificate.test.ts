import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import type { WebhookConfiguration } from '../../src/api/webhooks.ts';
import { REPLICA_LEASE_MS } from '../../src/controllers/replica-leases.ts';
import { servingCertificate } from '../../src/controllers/serving-certificate.ts';
import { draft, isObject, type ValidatingWebhookConfiguration } from '../../src/kube/types.ts';
import { pemFingerprint } from '../../src/tls/certificate-pair.ts';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { readExemptionUses } from '../../src/views/exemptions.ts';
import {
  configuration,
  createStage,
  DAY_MS,
  NAMES,
  NAMESPACE,
  SECRET,
  type Stage,
  type StagedLeader,
  START_DATE,
  TEST_MANAGER,
} from '../support/certificates.ts';

const VALIDATING = 'portcullis.dev';
const SETTLED_MS = 31_000;

function without(texts: Readonly<Record<string, string>>, file: string): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter(([name]) => name !== file));
}

suite('the serving certificate controller', () => {
  let stage: Stage;
  beforeEach(async () => {
    stage = await createStage();
  });
  afterEach(() => stage.stop());

  const validating = () =>
    stage.cluster.store.get('ValidatingWebhookConfiguration', VALIDATING) as ValidatingWebhookConfiguration;
  const sha = (file: string) => pemFingerprint(stage.texts()[file] ?? '');
  const steps = ({ log }: StagedLeader) =>
    log
      .filter(
        ({ controller, level, reason }) =>
          controller === servingCertificate.name && level === 30 && reason !== undefined,
      )
      .map(({ msg, reason }) => `${String(msg)}: ${String(reason)}`);
  const warnings = ({ log }: StagedLeader) =>
    log
      .filter(({ level }) => Number(level) >= 40)
      .map(({ msg, problems, err }) => problems ?? (err as Error | undefined)?.message ?? msg);
  const all = (...authorities: readonly string[]) => Array.from({ length: 3 }, () => authorities.toSorted());
  /** Starts a replica and a leader, and waits for the first certificate. */
  const begin = async () => {
    const replica = stage.replica('r');
    const leader = stage.leader();
    await stage.pass(0);
    await stage.pass(60_000, 5_000);
    return { replica, leader };
  };

  test('creates a single certificate, which all replicas serve and all configurations trust', async () => {
    const { replica, leader } = await begin();
    assert.deepEqual(Object.keys(stage.texts()).sort(), ['ca.crt', 'ca.key', 'tls.crt', 'tls.key']);
    assert.equal(stage.secret()?.type, 'Opaque');
    assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
    assert.ok(replica.isReady());
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
    const versions = () => [stage.secret(), validating()].map((one) => one?.metadata?.resourceVersion);
    const before = versions();
    await stage.pass(600_000, 30_000);
    assert.deepEqual(versions(), before);
    assert.deepEqual(steps(leader), [`created a CA and a serving certificate: Secret ${SECRET} does not exist`]);
    assert.deepEqual(warnings(leader), []);
  });

  test('records an event on the Secret for each step of a CA rotation', async () => {
    await begin();
    await stage.askFor('ca');
    await stage.pass(120_000, 1_000);
    const events = stage.cluster.storage.list({ group: '', resource: 'events' }).filter(isObject);
    assert.ok(events.every(({ involvedObject }) => isObject(involvedObject) && involvedObject['name'] === SECRET));
    assert.deepEqual(events.map(({ reason, message }) => [String(reason), message]).toSorted(), [
      ['AuthorityChanged', 'signed a serving certificate with the next CA: all API servers trust the next CA'],
      ['AuthorityCreated', `created a CA and a serving certificate: Secret ${SECRET} does not exist`],
      [
        'AuthorityPrepared',
        'created the next CA, which will sign certificates once all webhooks trust it: rotation requested',
      ],
      [
        'AuthorityRetired',
        'removed from caBundle: a CA that has expired or signed no certificate that a replica serves',
      ],
    ]);
  });

  test('changes only the caBundle in a configuration', async () => {
    await begin();
    const before = configuration(VALIDATING, ['a.portcullis.dev', 'b.portcullis.dev']);
    const { webhooks = [], metadata } = validating();
    const getShape = ({ webhooks: hooks = [] }: WebhookConfiguration) =>
      hooks.map(({ clientConfig: { service }, ...webhook }) => [webhook.name, webhook.failurePolicy, service?.path]);
    assert.deepEqual(getShape({ webhooks }), getShape(before));
    const [owned] = (metadata?.managedFields ?? []).filter(({ manager }) => manager === servingCertificate.name);
    assert.equal(owned?.operation, 'Apply');
    const own = (hook: string) =>
      [`k:{"name":"${hook}"}`, { '.': {}, 'f:clientConfig': { 'f:caBundle': {} }, 'f:name': {} }] as const;
    assert.deepEqual(owned.fieldsV1, {
      'f:webhooks': Object.fromEntries([own('a.portcullis.dev'), own('b.portcullis.dev')]),
    });
  });

  test('does not change configurations without the annotation', async () => {
    const own = draft(configuration('other', ['d.portcullis.dev']));
    own.metadata = { name: 'other', annotations: { 'portcullis.dev/inject-ca-from': 'elsewhere/secret' } };
    await stage.cluster.create('ValidatingWebhookConfiguration', own, TEST_MANAGER);
    await begin();
    assert.equal(
      stage.cluster.store.get('ValidatingWebhookConfiguration', 'other')?.webhooks?.[0]?.clientConfig.caBundle,
      undefined,
    );
  });

  test('neither changes a copy of a configuration nor waits for it', async () => {
    const copy = configuration('copy-of-validating', ['a.portcullis.dev']);
    await stage.cluster.create('ValidatingWebhookConfiguration', copy, TEST_MANAGER);
    const { replica, leader } = await begin();
    assert.ok(replica.isReady());
    await stage.askFor('ca');
    await stage.pass(120_000, 1_000);
    assert.ok(replica.isReady());
    const authority = [sha('ca.crt')];
    assert.deepEqual(stage.trusted(), [authority, authority, [], authority]);
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
    assert.equal(
      steps(leader).at(-1),
      'signed a serving certificate with the next CA: all API servers trust the next CA',
    );
  });

  test('does not wait for webhooks with failurePolicy Ignore', async () => {
    const { replica } = await begin();
    const before = sha('ca.crt');
    const foreign = createAuthority({ now: START_DATE, days: 365 });
    const disturb = async () => {
      const changed = draft(validating());
      const [, advice] = changed.webhooks ?? [];
      if (advice) Object.assign(advice, { failurePolicy: 'Ignore' }).clientConfig.caBundle = btoa(foreign.cert);
      await stage.cluster.update('ValidatingWebhookConfiguration', changed, TEST_MANAGER);
      assert.ok(replica.isReady());
      await stage.pass(1_000);
      assert.ok(replica.isReady());
    };
    await stage.askFor('ca');
    for (let second = 0; second < 120; second++) await disturb();
    assert.notEqual(sha('ca.crt'), before);
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
  });

  test('renews the certificate with the same CA after two thirds of its lifetime', async () => {
    const { replica, leader } = await begin();
    const [authority, first] = [sha('ca.crt'), sha('tls.crt')];
    await stage.pass(4.5 * DAY_MS, DAY_MS / 2);
    assert.equal(sha('tls.crt'), first);
    await stage.pass(DAY_MS / 2, DAY_MS / 4);
    assert.notEqual(sha('tls.crt'), first);
    assert.equal(sha('ca.crt'), authority);
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
    assert.equal(
      steps(leader).at(-1),
      'signed a serving certificate: two thirds of the serving certificate lifetime have passed',
    );
  });

  test('rotates the CA without an untrusted request', async () => {
    const { replica, leader } = await begin();
    const before = { authority: sha('ca.crt'), serving: sha('tls.crt') };
    await stage.askFor('ca');
    await stage.pass(0);
    const next = sha('next-ca.crt');
    assert.deepEqual(stage.trusted(), all(before.authority, next));
    assert.equal(stage.secret()?.metadata?.annotations?.['portcullis.dev/rotate'], undefined);
    await stage.pass(SETTLED_MS - 2_000, 1_000);
    assert.equal(sha('tls.crt'), before.serving);
    await stage.pass(3_000, 1_000);
    assert.equal(sha('ca.crt'), next);
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
    assert.deepEqual(stage.trusted(), all(before.authority, next));
    await stage.pass(SETTLED_MS, 1_000);
    assert.deepEqual(stage.trusted(), all(next));
    assert.ok(replica.isReady());
    assert.deepEqual(steps(leader).slice(1), [
      'created the next CA, which will sign certificates once all webhooks trust it: rotation requested',
      'signed a serving certificate with the next CA: all API servers trust the next CA',
    ]);
  });

  test('renews the certificate when the annotation requests it', async () => {
    const { replica, leader } = await begin();
    const first = sha('tls.crt');
    await stage.askFor('serving');
    await stage.pass(1_000);
    assert.notEqual(sha('tls.crt'), first);
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
    assert.equal(steps(leader).at(-1), 'signed a serving certificate: rotation requested');
    await stage.askFor('nonsense');
    await stage.pass(1_000);
    assert.equal(stage.secret()?.metadata?.annotations?.['portcullis.dev/rotate'], undefined);
  });

  test('trusts the old CA until all live replicas serve the new certificate', async () => {
    const { leader } = await begin();
    const old = sha('ca.crt');
    const slow = stage.replica('slow', 3_600_000);
    slow.catchUp();
    await stage.pass(5_000, 1_000);
    const slowPair = slow.current();
    await stage.askFor('ca');
    await stage.pass(600_000, 5_000);
    assert.equal(slow.current().cert, slowPair.cert);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt'), old));
    slow.catchUp();
    await stage.pass(60_000, 5_000);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
    assert.deepEqual(warnings(leader), []);
  });

  test('does not wait for a replica whose Lease has expired', async () => {
    await begin();
    const old = sha('ca.crt');
    const gone = stage.replica('gone', 3_600_000);
    gone.catchUp();
    await stage.pass(5_000, 1_000);
    await stage.askFor('ca');
    await stage.pass(40_000, 1_000);
    await gone.die();
    await stage.pass(REPLICA_LEASE_MS - 16_000, 1_000);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt'), old));
    await stage.pass(16_000 + SETTLED_MS, 1_000);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
  });

  test('recreates a deleted Secret, and API servers keep trusting the served certificates', async () => {
    const { replica, leader } = await begin();
    const old = sha('ca.crt');
    const served = replica.current().cert;
    await stage.cluster.remove('Secret', SECRET, NAMESPACE);
    await stage.pass(1_000);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt'), old));
    assert.equal(replica.current().cert, served);
    await stage.pass(60_000, 5_000);
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
    assert.equal(steps(leader).length, 2);
  });

  const damages: readonly {
    readonly name: string;
    readonly change: (texts: Record<string, string>) => Record<string, string>;
    readonly problems: readonly string[];
    readonly steps: readonly string[];
  }[] = [
    {
      name: 'that has lost the serving key',
      change: (texts) => without(texts, 'tls.key'),
      problems: ['tls.key contains no unencrypted PEM private key'],
      steps: ['signed a serving certificate: tls.key contains no unencrypted PEM private key'],
    },
    {
      name: 'that has lost the CA key',
      change: (texts) => without(texts, 'ca.key'),
      problems: ['ca.key contains no unencrypted PEM private key'],
      steps: ['created a CA and a serving certificate: ca.key contains no unencrypted PEM private key'],
    },
    {
      name: 'with a damaged CA certificate',
      change: (texts) => ({ ...texts, 'ca.crt': 'nonsense' }),
      problems: ['ca.crt contains no PEM certificate'],
      steps: ['created a CA and a serving certificate: ca.crt contains no PEM certificate'],
    },
    {
      name: 'that is empty',
      change: () => ({}),
      problems: ['ca.crt contains no PEM certificate', 'tls.crt contains no PEM certificate'],
      steps: [
        'created a CA and a serving certificate: ca.crt contains no PEM certificate; tls.crt contains no PEM certificate',
      ],
    },
  ];
  for (const { name, change, problems, steps: expected } of damages) {
    test(`repairs a Secret ${name}`, async () => {
      const { replica, leader } = await begin();
      await stage.setTexts(change({ ...stage.texts() }));
      await stage.pass(0);
      assert.ok(replica.isReady());
      await stage.pass(120_000, 5_000);
      assert.ok(replica.isReady());
      assert.deepEqual(steps(leader).slice(1), expected);
      assert.deepEqual(warnings(leader), [problems]);
      assert.equal(replica.current().cert, stage.texts()['tls.crt']);
      assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
    });
  }

  test('keeps other keys of the Secret', async () => {
    await stage.setTexts({ note: 'of another manager' });
    await begin();
    assert.equal(stage.texts()['note'], 'of another manager');
    assert.ok(stage.texts()['tls.crt']);
  });

  test('replaces an immutable Secret', async () => {
    const metadata = { name: SECRET, namespace: NAMESPACE };
    await stage.cluster.create('Secret', { metadata, type: 'Opaque', immutable: true }, TEST_MANAGER);
    const { replica } = await begin();
    assert.notEqual(stage.secret()?.immutable, true);
    assert.ok(replica.isReady());
  });

  test('corrects a changed caBundle in a configuration', async () => {
    await begin();
    const foreign = createAuthority({ now: START_DATE, days: 365 });
    const changed = draft(validating());
    for (const { clientConfig } of changed.webhooks ?? []) clientConfig.caBundle = btoa(foreign.cert);
    await stage.cluster.update('ValidatingWebhookConfiguration', changed, TEST_MANAGER);
    await stage.pass(0);
    assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
  });

  test('retries until the installation namespace exists', async () => {
    const cluster = await createStage('absent');
    const leader = cluster.leader();
    await cluster.pass(0);
    assert.match(String(warnings(leader)[0]), /^namespace portcullis does not exist: /);
    await cluster.cluster.create('Namespace', { metadata: { name: NAMESPACE } }, TEST_MANAGER);
    await cluster.pass(30_000, 5_000);
    assert.ok(cluster.secret());
    await cluster.stop();
  });

  test('keeps all replicas trusted even with two concurrent leaders', async () => {
    const { replica } = await begin();
    const other = stage.leader(2_000);
    await stage.askFor('ca');
    await stage.pass(120_000, 1_000);
    assert.ok(replica.isReady());
    assert.deepEqual(stage.trusted(), all(sha('ca.crt')));
    await other.die();
  });
});

suite('a replica', () => {
  const stages: Stage[] = [];
  afterEach(async () => {
    for (const stage of stages.splice(0)) await stage.stop();
  });
  const begin = async (): Promise<Stage> => {
    const stage = await createStage();
    stages.push(stage);
    return stage;
  };
  const offer = (stage: Stage, now: Date) => {
    const authority = createAuthority({ now, days: 30 });
    const { cert, key } = createServing(authority, NAMES, { now, days: 7 });
    return stage.setTexts({ 'tls.crt': cert, 'tls.key': key });
  };

  test('loads a certificate as soon as it becomes valid', async () => {
    const stage = await begin();
    const replica = stage.replica('r');
    await offer(stage, new Date(START_DATE.getTime() + DAY_MS));
    await stage.pass(600_000, 60_000);
    assert.notEqual(replica.current().cert, stage.texts()['tls.crt']);
    await stage.pass(DAY_MS, 60_000 * 60);
    assert.equal(replica.current().cert, stage.texts()['tls.crt']);
  });

  test('keeps its certificate if the Secret contains an invalid certificate', async () => {
    const stage = await begin();
    const replica = stage.replica('r');
    await offer(stage, START_DATE);
    await stage.pass(20_000, 1_000);
    const served = replica.current().cert;
    assert.equal(served, stage.texts()['tls.crt']);
    await stage.setTexts({ 'tls.crt': served, 'tls.key': 'nonsense' });
    await stage.pass(20_000, 1_000);
    assert.equal(replica.current().cert, served);
  });
});

suite('the Lease of a replica', () => {
  test('contains the certificate fingerprint, is renewed, and is deleted when the replica stops', async () => {
    const stage = await createStage();
    const replica = stage.replica('r');
    stage.leader();
    const lease = () => stage.cluster.store.get('Lease', 'portcullis-replica-r', NAMESPACE);
    await stage.pass(10_000, 1_000);
    assert.deepEqual(lease()?.metadata?.labels, {
      'app.kubernetes.io/name': 'portcullis',
      'app.kubernetes.io/part-of': 'portcullis',
      'app.kubernetes.io/component': 'replica',
    });
    assert.deepEqual(lease()?.metadata?.annotations, {
      'portcullis.dev/serving-certificate': pemFingerprint(replica.current().cert),
      'portcullis.dev/pod-security-default': 'privileged',
      'portcullis.dev/pod-security-generation': '0',
      'portcullis.dev/exemption-uses': `{"since":"${START_DATE.toISOString().replace('.000', '')}","uses":{}}`,
    });
    replica.metrics.podSecurity.exemptionUses.cell({ exemption: 'user', name: 'alice' }).count += 2;
    const validation = { operation: 'create', mode: 'enforce', decision: 'allow', scc: 'privileged' };
    for (const subject_type of ['user', 'serviceaccount']) {
      replica.metrics.scc.validations.cell({ ...validation, subject_type }).count++;
      replica.metrics.scc.validations.cell({ ...validation, operation: 'update', subject_type }).count++;
    }
    assert.equal(lease()?.spec?.leaseDurationSeconds, 60);
    assert.equal(lease()?.spec?.holderIdentity, 'r_1');
    const { renewTime } = lease()?.spec ?? {};
    await stage.pass(16_000, 1_000);
    assert.notEqual(lease()?.spec?.renewTime, renewTime);
    assert.deepEqual(readExemptionUses(stage.cluster.store.list('Lease', NAMESPACE)), {
      since: START_DATE.toISOString().replace('.000', ''),
      replicas: 1,
      counts: new Map(Object.entries({ 'user/alice': 2, 'scc/privileged': 2 })),
    });
    await stage.cluster.remove('Lease', 'portcullis-replica-r', NAMESPACE);
    await stage.pass(1_000);
    assert.ok(lease());
    await replica.leave();
    await stage.pass(20_000, 1_000);
    assert.equal(lease(), undefined);
    await stage.stop();
  });

  test('is deleted by another replica ten minutes after the last renewal', async () => {
    const stage = await createStage();
    stage.replica('stays');
    const gone = stage.replica('gone');
    await stage.pass(1_000);
    await gone.die();
    const names = () => stage.cluster.store.list('Lease', NAMESPACE).map(({ metadata }) => metadata?.name);
    await stage.pass(570_000, 15_000);
    assert.deepEqual(names(), ['portcullis-replica-stays', 'portcullis-replica-gone']);
    await stage.pass(60_000, 15_000);
    assert.deepEqual(names(), ['portcullis-replica-stays']);
    await stage.stop();
  });
});
