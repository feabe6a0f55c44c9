/**
 * Tests SCC reviews that wait for a namespace or its ranges, including results, limits, disconnected clients and
 * memory.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:https';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import type { Namespace, Pod } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION } from '../../src/policy/psa/index.ts';
import type { SccMode } from '../../src/policy/scc/index.ts';
import type { Webhook } from '../../src/server/webhook.ts';
import { startAdmissionServer } from '../support/admission-server.ts';
import { eventually } from '../support/eventually.ts';
import { post, type Response } from '../support/https.ts';
import {
  buildPod,
  createSccTestWebhooks,
  createTestWebhooks,
  formatSccDenial,
  podRequest,
  putRegistration,
  putStandardSccs,
  RANGES,
  type SccTestWebhooks,
} from '../support/scc-webhooks.ts';

const CREATE = podRequest(buildPod());
const ROOT = buildPod({ runAsUser: 0 }, { hostUsers: false });
const WINDOWS = podRequest(buildPod({}, { os: { name: 'windows' } }));
const NOT_FOUND = 'error fetching namespace "shop": namespace "shop" not found';
const NO_RANGE = 'error fetching namespace "shop": unable to find annotation openshift.io/sa.scc.uid-range';
const WAITING = 'the webhook does not wait';

const denial = (decision: Decision): string | undefined => (decision.allowed ? undefined : decision.status.message);

/** Pod Security exempts the namespaces, so it does not wait for them. */
const WITHOUT_LEVELS = createPodSecurity({
  ...DEFAULT_CONFIGURATION,
  exemptions: { ...DEFAULT_CONFIGURATION.exemptions, namespaces: ['shop', 'kube-system'] },
});

suite('a review of a pod waits for its namespace', () => {
  const outOfRange = (name: string, range: string): string =>
    `provider ${name}: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [${range}]`;
  const errors = [outOfRange('restricted-v2', '1000660000, 1000669999'), outOfRange('restricted-v3', '1000, 65534')];
  const createRequest = podRequest(ROOT);
  const execRequest = podRequest({}, { operation: 'CONNECT', subResource: 'exec' });
  const execPrefix = `exec operation is not allowed because the pod's security context exceeds your permissions: pods "web" is forbidden: `;
  const paths: readonly (readonly [path: string, request: AdmissionRequest, prefix: string, separator: string])[] = [
    ['/mutate/pods', createRequest, '', ', '],
    ['/validate/pods', createRequest, '', ' '],
    ['/connect/pods', execRequest, execPrefix, ', '],
  ];
  type Labels = Readonly<Record<string, string>>;
  const arrivals: readonly (readonly [mode: SccMode, labels: Labels, denied: boolean])[] = [
    ['report', { 'portcullis.dev/scc': 'enforce' }, true],
    ['report', { 'portcullis.dev/scc': 'on' }, true],
    ['report', {}, false],
    ['report', { 'portcullis.dev/scc': 'off' }, false],
    ['enforce', {}, true],
    ['enforce', { 'portcullis.dev/scc': 'report' }, false],
    ['enforce', { 'openshift.io/run-level': '1' }, false],
  ];
  const createRig = (mode: SccMode, namespace = 'shop'): SccTestWebhooks => {
    const rig = createSccTestWebhooks({ settings: { mode }, podSecurity: WITHOUT_LEVELS });
    rig.store.put('Pod', buildPod({ runAsUser: 0 }, { hostUsers: false, namespace }) as unknown as Pod);
    return rig;
  };

  for (const [path, request, prefix, separator] of paths) {
    for (const [mode, labels, denied] of arrivals) {
      test(`at ${path} in ${mode} mode, until the namespace appears with labels ${JSON.stringify(labels)}`, async () => {
        const rig = createRig(mode);
        const decision = rig.decide(path, request, 15_000);
        assert.ok(decision instanceof Promise, WAITING);
        rig.putNamespace(labels);
        assert.equal(denial(await decision), denied ? prefix + formatSccDenial(errors, separator) : undefined);
      });
    }

    for (const mode of ['report', 'enforce'] as const) {
      test(`at ${path} in ${mode} mode, until the timeout if the namespace does not appear`, async () => {
        const decision = await createRig(mode).decide(path, request, 600);
        assert.equal(denial(decision), prefix + NOT_FOUND);
        assert.deepEqual(decision.warnings ?? [], []);
      });
    }

    test(`at ${path}, but not in off mode, in an exempt namespace, or for a Windows pod`, async () => {
      const namespace = 'kube-system';
      assert.equal((await createRig('off').decide(path, request, 15_000)).allowed, true);
      assert.equal(
        (await createRig('report', namespace).decide(path, { ...request, namespace }, 15_000)).allowed,
        true,
      );
      if (path === '/connect/pods') return;
      assert.equal((await createRig('enforce').decide(path, WINDOWS, 15_000)).allowed, true);
    });
  }
});

suite('a review of a pod waits for the ranges of its namespace:', () => {
  const noRangeYet =
    'Namespace "shop" has no openshift.io/sa.scc.uid-range annotation yet. Retry in a few seconds. If this persists, the range allocator is not running or has no free range (event UIDRangeFull).';
  const noLevel =
    'Namespace "shop" has no openshift.io/sa.scc.mcs annotation. Set it, or remove openshift.io/sa.scc.uid-range=1000660000/10000 so both are allocated.';
  const shop = (annotations?: Record<string, string>): Namespace => ({
    metadata: { name: 'shop', ...(annotations ? { annotations } : {}) },
  });
  const cases: readonly {
    readonly name: string;
    readonly namespace?: Namespace;
    readonly message: string;
    readonly warning?: string;
  }[] = [
    { name: 'without a namespace', message: NOT_FOUND },
    { name: 'without range annotations', namespace: shop(), message: NO_RANGE, warning: noRangeYet },
    {
      name: 'without a UID range',
      namespace: shop({ 'openshift.io/sa.scc.mcs': 's0:c26,c5' }),
      message: NO_RANGE,
      warning: noRangeYet,
    },
    {
      name: 'without an MCS level',
      namespace: shop({ 'openshift.io/sa.scc.uid-range': '1000660000/10000' }),
      message: 'error fetching namespace "shop": unable to find annotation openshift.io/sa.scc.mcs',
      warning: noLevel,
    },
  ];
  for (const { name, namespace, message, warning } of cases) {
    const warnings = warning === undefined ? [] : [warning];
    test(`${name}, the pod is denied before the API server times out`, async () => {
      const rig = createSccTestWebhooks();
      if (namespace) rig.store.put('Namespace', namespace);
      const startMs = performance.now();
      const decision = await rig.decide('/mutate/pods', CREATE, 600);
      const waitedMs = performance.now() - startMs;
      assert.deepEqual([denial(decision), decision.warnings ?? []], [message, warnings]);
      assert.ok(waitedMs >= 90 && waitedMs < 500, `waited ${waitedMs} ms`);
    });

    test(`${name}, the pod is admitted as soon as the ranges appear`, async () => {
      const rig = createSccTestWebhooks();
      if (namespace) rig.store.put('Namespace', namespace);
      const decision = rig.decide('/mutate/pods', CREATE, 15_000);
      assert.ok(decision instanceof Promise, WAITING);
      rig.store.put('Namespace', { metadata: { name: 'other', annotations: RANGES } });
      rig.putNamespace();
      assert.deepEqual((await decision).facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
    });

    if (!namespace) continue;
    test(`${name}, the pod is evaluated with example ranges in report mode`, async () => {
      const rig = createSccTestWebhooks({ settings: { mode: 'report' }, podSecurity: WITHOUT_LEVELS });
      rig.store.put('Namespace', namespace);
      const decision = await rig.decide('/validate/pods', CREATE, 15_000);
      assert.deepEqual([decision.allowed, decision.warnings], [true, undefined]);
      assert.deepEqual(decision.facts, { mode: 'report', scc: 'restricted-v2', subjectType: 'serviceaccount' });
    });
  }

  test('a timeout that is too short for a wait denies the pod immediately', async () => {
    assert.equal((await createSccTestWebhooks().decide('/mutate/pods', CREATE, 100)).allowed, false);
  });

  test('the wait ends when the namespace disables SCCs', async () => {
    const rig = createSccTestWebhooks();
    rig.store.put('Namespace', shop());
    const pending = rig.decide('/mutate/pods', podRequest(ROOT), 15_000);
    rig.store.put('Namespace', { metadata: { name: 'shop', labels: { 'portcullis.dev/scc': 'off' } } });
    assert.deepEqual(await pending, { allowed: true });
  });

  test('/validate/pods also waits', async () => {
    const ready = createSccTestWebhooks();
    ready.putNamespace();
    const assigned = await ready.decide('/mutate/pods', CREATE);
    assert.ok(assigned.allowed);
    const rig = createSccTestWebhooks();
    const decision = rig.decide('/validate/pods', podRequest(assigned.object), 15_000);
    rig.putNamespace();
    assert.equal((await decision).allowed, true);
  });

  test('500 pods of a new namespace are admitted when its ranges appear', async () => {
    const rig = createSccTestWebhooks();
    const decisions = Array.from({ length: 500 }, () => Promise.resolve(rig.decide('/mutate/pods', CREATE, 15_000)));
    rig.store.put('Namespace', shop());
    rig.putNamespace();
    for (const { facts } of await Promise.all(decisions)) {
      assert.deepEqual(facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
    }
  });
});

suite('in a new installation,', () => {
  const NO_SCCS = 'no SecurityContextConstraints found in cluster';

  test('denials are delayed until the standard SCCs and their bindings exist', async () => {
    const rig = createSccTestWebhooks({ isNewInstallation: true });
    rig.putNamespace();
    const decision = rig.decide('/mutate/pods', CREATE, 15_000);
    assert.ok(decision instanceof Promise, WAITING);
    putStandardSccs(rig.store);
    assert.deepEqual((await decision).facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
  });

  test('a pod is denied if the SCCs do not appear, or immediately if no controller creates them', async () => {
    const rig = createSccTestWebhooks({ isNewInstallation: true });
    rig.putNamespace();
    assert.equal(denial(await rig.decide('/mutate/pods', CREATE, 600)), NO_SCCS);
    const other = createSccTestWebhooks();
    other.putNamespace();
    for (const { metadata } of other.store.list('SecurityContextConstraints')) {
      other.store.remove('SecurityContextConstraints', metadata?.name ?? '');
    }
    assert.equal(denial(await other.decide('/mutate/pods', CREATE, 15_000)), NO_SCCS);
  });
});

suite('waiting reviews are limited', () => {
  const MIB = 1024 * 1024;
  const cases: readonly {
    readonly name: string;
    /** Memory of one review. */
    readonly bytes: number;
    /** Maximum number of waiting reviews. */
    readonly limit: number;
    readonly namespace?: Namespace;
    readonly message: string;
  }[] = [
    { name: '2048 small reviews without a namespace', bytes: 2000, limit: 2048, message: NOT_FOUND },
    { name: 'reviews of 48 MiB without a namespace', bytes: 9 * MIB, limit: 5, message: NOT_FOUND },
    { name: 'reviews of exactly 48 MiB', bytes: 24 * MIB, limit: 2, message: NOT_FOUND },
    {
      name: '2048 small reviews without ranges',
      bytes: 2000,
      limit: 2048,
      namespace: { metadata: { name: 'shop' } },
      message: NO_RANGE,
    },
  ];
  for (const { name, bytes, limit, namespace, message } of cases) {
    test(`above the limit of ${name}, the oldest review from the address with the most is denied`, async () => {
      const rig = createSccTestWebhooks();
      if (namespace) rig.store.put('Namespace', namespace);
      const denied: string[] = [];
      const send = async (address: string, index: number): Promise<void> => {
        const decision = await rig.decide('/mutate/pods', CREATE, 15_000, { measure: () => bytes, address });
        if (!decision.allowed) denied.push(`${address} ${index} ${decision.status.message}`);
      };
      const waiting = [send('10.0.0.1', 0)];
      for (let index = 1; index < limit; index++) waiting.push(send('10.0.0.2', index));
      await turn();
      assert.deepEqual(denied, []);
      waiting.push(send('10.0.0.2', limit), send('10.0.0.2', limit + 1));
      await turn();
      assert.deepEqual(
        denied.splice(0),
        [1, 2].map((index) => `10.0.0.2 ${index} ${message}`),
      );
      rig.putNamespace();
      await Promise.all(waiting);
      assert.deepEqual(denied, []);
    });
  }

  const strangers: readonly (readonly [name: string, address: string])[] = [
    ['another address', '127.0.0.2'],
    ['the same address', '127.0.0.1'],
  ];
  for (const [name, localAddress] of strangers) {
    test(`over TLS, 16 MiB of reviews for missing namespaces from ${name} do not cause the denial of a pod in a new namespace`, async (t) => {
      const store = createStore();
      const arrived = Promise.withResolvers<undefined>();
      const webhooks = createTestWebhooks(store, {}).map((webhook): Webhook => ({
        ...webhook,
        async decide(request, context) {
          if (request.namespace === 'shop') arrived.resolve(undefined);
          return await webhook.decide(request, context);
        },
      }));
      const server = await startAdmissionServer(webhooks, { store });
      const agent = new Agent({ localAddress });
      t.after(async () => {
        agent.destroy();
        await server.stop();
      });
      const send = (body: string, from?: Agent): Promise<Response> =>
        post(server, '/mutate/pods?timeout=15s', body, 'application/json', from);
      // 128 reviews of the largest size that is not reduced use up exactly the limit.
      const missing = JSON.stringify({ request: { ...CREATE, namespace: 'none' } }).padEnd(128 * 1024);
      const flood = Array.from({ length: 140 }, () => send(missing, agent));
      for (const each of flood) each.catch(() => undefined);
      // The limit is reached.
      const { body } = await Promise.race(flood);
      assert.match(body, /"message":"error fetching namespace \\"none\\": namespace \\"none\\" not found"/);
      const reply = send(JSON.stringify({ request: CREATE }));
      await arrived.promise;
      store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
      assert.match((await reply).body, /"allowed":true/);
    });
  }

  test('reviews that have waited continue in separate turns of the event loop', async () => {
    const rig = createSccTestWebhooks();
    let done = 0;
    const waiting = Array.from({ length: 100 }, async () => {
      await rig.decide('/mutate/pods', CREATE, 15_000);
      done++;
    });
    rig.putNamespace();
    await turn();
    await turn();
    assert.ok(done < 10, `${done}`);
    await Promise.all(waiting);
  });
});

suite('when a client disconnects, its review', () => {
  test('no longer waits', async () => {
    const controller = new AbortController();
    const decision = createSccTestWebhooks().decide('/mutate/pods', CREATE, 15_000, {
      getSignal: () => controller.signal,
    });
    controller.abort();
    const first = await Promise.race([decision, turn(undefined)]);
    assert.equal(first && denial(first), NOT_FOUND);
  });

  test('does not remain in memory', async (t) => {
    setFlagsFromString('--expose_gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const rig = createSccTestWebhooks();
    const reviews: WeakRef<object>[] = [];
    const server = await startAdmissionServer([
      {
        path: '/mutate/pods',
        async decide(request, context) {
          reviews.push(new WeakRef(request));
          return await rig.decide('/mutate/pods', request, 15_000, context);
        },
      },
    ]);
    t.after(() => server.stop());
    putRegistration(server.store);
    const body = JSON.stringify({ request: CREATE });
    const agent = new Agent({ keepAlive: true });
    const calls = Array.from({ length: 10 }, () =>
      post(server, '/mutate/pods?timeout=15s', body, 'application/json', agent),
    );
    const settled = Promise.allSettled(calls);
    await eventually(() => assert.equal(reviews.length, 10));
    assert.match(await server.metrics.expose(), /portcullis_webhook_requests_in_flight 10/);
    agent.destroy();
    assert.ok((await settled).every(({ status }) => status === 'rejected'));
    await eventually(() => assert.equal(server.log.length, 10));
    const { time, durationMs, ...line } = server.log[0] ?? {};
    assert.deepEqual([typeof time, typeof durationMs], ['number', 'number']);
    assert.deepEqual(line, {
      level: 30,
      logger: 'webhook',
      webhook: '/mutate/pods',
      uid: CREATE.uid,
      operation: 'CREATE',
      kind: 'Pod',
      namespace: 'shop',
      name: 'web',
      user: 'alice',
      msg: 'client disconnected before the response',
    });
    assert.match(await server.metrics.expose(), /portcullis_webhook_requests_in_flight 0/);
    await eventually(() => {
      collectGarbage();
      assert.ok(reviews.every((review) => review.deref() === undefined));
    });
  });
});
