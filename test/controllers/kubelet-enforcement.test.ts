/**
 * Tests how the controller detects whether API servers call the authorization webhook for the minimum kubelet version.
 */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { createObservable, type KubeletSettings, type Settings } from '../../src/config/settings.ts';
import { kubeletEnforcement } from '../../src/controllers/kubelet-enforcement.ts';
import { type RunningController, startController } from '../../src/controllers/runtime.ts';
import { settingsStatus } from '../../src/controllers/settings-status.ts';
import type { DevCluster } from '../../src/dev-cluster/index.ts';
import { ApiError, ConnectionError, forbidden } from '../../src/kube/status.ts';
import type { AccessReviewStatus } from '../../src/kube/types.ts';
import { accessReviewStatus, authorizeKubelet, parseMinimum } from '../../src/policy/kubelet/index.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createController, createRecorder, createTestSettings, installCrds } from '../support/controllers.ts';
import { startEmptyCluster, type TestCluster } from '../support/dev-cluster.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';

const BY_TEST = { fieldManager: 'test' };
const MINIMUM = { fieldManager: 'kubelet-minimum-controller' };
const MINUTES = 60_000;

/** Response of an API server to a review, recorded from kube-apiserver 1.36.3. */
type Answer = (review: Parameters<Cluster['reviewAccess']>) => AccessReviewStatus;

/**
 * Responds as an API server that calls the webhook. The webhook applies the minimum 1.33.0 and does not find the node.
 */
const webhook: Answer = ([{ username = '', groups = [] }, { verb, resource = '' }]) => {
  const parsed = parseMinimum('1.33.0');
  assert.ok('value' in parsed);
  const access = { username, groups, resource: { verb, group: '', resource, subresource: '', name: '' } };
  const state = { minimum: parsed.value, mode: 'recoverable', findNode: () => undefined } as const;
  const status = accessReviewStatus(authorizeKubelet(access, state));
  assert.ok(status);
  return status;
};
/** Responds as OpenShift's authorizer, which returns the error without a reason. */
const openshift: Answer = (review) => {
  const { reason = '' } = webhook(review);
  return { allowed: false, denied: true, evaluationError: reason };
};
const rbac: Answer = () => ({ allowed: false });
const node: Answer = () => ({ allowed: false, reason: 'can only list/watch pods with spec.nodeName field selector' });
const REFUSED =
  'Post "https://127.0.0.1:9444/authorize/minimum-kubelet-version?timeout=3s": dial tcp 127.0.0.1:9444: connect: connection refused';
const noOpinion: Answer = (review) => ({ ...node(review), evaluationError: REFUSED });
const deny: Answer = () => ({ allowed: false, denied: true, evaluationError: REFUSED });
const otherDenial: Answer = () => ({ allowed: false, denied: true, reason: 'node "other" not found' });
const unreachable: Answer = () => {
  throw new ConnectionError('Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout');
};
const unauthorized: Answer = () => {
  const review = { group: 'authorization.k8s.io', resource: 'subjectaccessreviews' };
  throw new ApiError(forbidden(review, '', 'not permitted'));
};

const AT = 'At 2026-11-23T22:56:18Z, ';
const CALLED = 'True AuthorizerCalled: the minimum 1.33.0 is enforced. ';
const NOT_CALLED = 'False AuthorizerNotCalled: the minimum 1.33.0 is in force, but it is not enforced';
const UNKNOWN = 'Unknown ReviewFailed: the minimum 1.33.0 is in force, but it is not known whether it is enforced. ';
const CHECK =
  'Check --authorization-config of kube-apiserver and the static pod portcullis-authorizer on each control plane node';
const CONNECTED = 'the connected API server, the only one checked';
const FORBIDDEN = 'subjectaccessreviews.authorization.k8s.io is forbidden: not permitted';
const TIMEOUT = 'Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout';

/** The responses by API server address. The key `''` is the connected API server. */
const cases: readonly (readonly [name: string, answers: Readonly<Record<string, Answer>>, condition: string])[] = [
  [
    'all API servers call the webhook',
    { '10.0.0.1:6443': webhook, '10.0.0.2:6443': webhook, '[fd00::1]:6443': webhook },
    `${CALLED}${AT}the authorization webhook was called by 10.0.0.1:6443, 10.0.0.2:6443, [fd00::1]:6443`,
  ],
  [
    'the authorizer of the OpenShift API server is active',
    { '10.0.0.1:6443': openshift },
    `${CALLED}${AT}the authorization webhook was called by 10.0.0.1:6443`,
  ],
  [
    'no API server is configured to call the webhook',
    { '10.0.0.1:6443': rbac, '10.0.0.2:6443': node },
    `${NOT_CALLED}. ${AT}the authorization webhook was not called by 10.0.0.1:6443, 10.0.0.2:6443. ${CHECK}`,
  ],
  [
    'one of two API servers calls the webhook',
    { '10.0.0.1:6443': node, '10.0.0.2:6443': webhook },
    `${NOT_CALLED} by all API servers. ${AT}the authorization webhook was called by 10.0.0.2:6443 and not called by 10.0.0.1:6443. ${CHECK}`,
  ],
  [
    'the webhook does not respond, with each failure policy',
    { '10.0.0.1:6443': noOpinion, '10.0.0.2:6443': deny },
    `${NOT_CALLED}. ${AT}the authorization webhook was not called by 10.0.0.1:6443 (${REFUSED}), 10.0.0.2:6443 (${REFUSED}). ${CHECK}`,
  ],
  [
    'another authorizer denies the request',
    { '10.0.0.1:6443': otherDenial },
    `${NOT_CALLED}. ${AT}the authorization webhook was not called by 10.0.0.1:6443. ${CHECK}`,
  ],
  [
    'one of two API servers cannot be reached',
    { '10.0.0.1:6443': unreachable, '10.0.0.2:6443': webhook },
    `${UNKNOWN}${AT}the authorization webhook was called by 10.0.0.2:6443. ${AT}the SubjectAccessReview failed at 10.0.0.1:6443 (${TIMEOUT})`,
  ],
  [
    'no API server can be reached at its address',
    { '10.0.0.1:6443': unreachable, '': webhook },
    `${CALLED}${AT}the authorization webhook was called by ${CONNECTED}`,
  ],
  [
    'the addresses of the API servers are unknown',
    { '': node },
    `${NOT_CALLED}. ${AT}the authorization webhook was not called by ${CONNECTED}. ${CHECK}`,
  ],
  [
    'the leader may not create access reviews',
    { '10.0.0.1:6443': unauthorized, '': unauthorized },
    `${UNKNOWN}${AT}the SubjectAccessReview failed at ${CONNECTED} (${FORBIDDEN})`,
  ],
];

suite('the KubeletMinimumEnforced condition has the expected status and reason:', () => {
  let started: TestCluster;
  let cluster: DevCluster;
  let clock: FakeClock;
  let running: RunningController | undefined;
  let date: Date;
  const defaults = createTestSettings({}).value;
  const settings = createObservable<Settings>(defaults);

  beforeEach(async () => {
    started = await startEmptyCluster();
    ({ cluster } = started);
    clock = createFakeClock();
    date = new Date('2026-11-23T22:56:13Z');
    configure({ isOn: true });
    await installCrds(cluster);
    await cluster.create('Namespace', { metadata: { name: 'default' } }, BY_TEST);
    await cluster.create('PortcullisConfiguration', { metadata: { name: 'cluster' }, spec: {} }, BY_TEST);
  });
  afterEach(async () => {
    await running?.stop();
    running = undefined;
    await started.stop();
    assert.deepEqual(started.errors, []);
  });

  const configure = (kubelet: Partial<KubeletSettings>): void =>
    settings.set({ ...defaults, kubelet: { ...defaults.kubelet, ...kubelet } });
  const putInForce = async (minimumVersion: string | undefined): Promise<void> => {
    const status = { kubelet: minimumVersion === undefined ? {} : { minimumVersion } };
    const object = { metadata: { name: 'cluster' }, status };
    await cluster.applyStatus('PortcullisConfiguration', object, BY_TEST);
    await running?.idle();
  };
  const addApiServers = async (addresses: readonly string[]): Promise<void> => {
    const endpoints = addresses.map((address) => ({ addresses: [address], conditions: { ready: true } }));
    const stopped = { addresses: ['10.0.0.9'], conditions: { ready: false } };
    const slice = {
      metadata: { name: 'kubernetes', namespace: 'default' },
      addressType: 'IPv4',
      endpoints: [...endpoints, stopped],
      ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
    };
    await cluster.create('EndpointSlice', slice, BY_TEST);
  };
  /** Starts the controller and records the users in reviews. */
  const run = async (answers: Readonly<Record<string, Answer>>): Promise<readonly string[]> => {
    const users: string[] = [];
    const reviewAccess: Cluster['reviewAccess'] = async (...review) => {
      users.push(review[0].username ?? '');
      const answer = answers[review[2] ?? ''];
      assert.ok(answer);
      return await Promise.resolve(answer(review));
    };
    const metrics = createMetrics({ version: '0.0.0' });
    const controller = createController(kubeletEnforcement, { settings, date: () => date });
    const options = { ...createRecorder(), metrics, cluster: { ...cluster, reviewAccess }, clock };
    running = startController(controller, options);
    await running.idle();
    return users;
  };
  const pass = async (ms: number): Promise<void> => {
    date = new Date(date.getTime() + ms);
    clock.advance(ms);
    await running?.idle();
  };
  const condition = (): string | undefined => {
    const { conditions = [] } = cluster.store.get('PortcullisConfiguration', 'cluster')?.status ?? {};
    const found = conditions.find(({ type }) => type === 'KubeletMinimumEnforced');
    return found && `${found.status} ${found.reason}: ${found.message}`;
  };

  for (const [name, answers, expected] of cases) {
    test(name, async () => {
      const addresses = Object.keys(answers).flatMap((key) => /^\[?(.+?)\]?:6443$/.exec(key)?.[1] ?? []);
      if (addresses.length > 0) await addApiServers(addresses);
      await putInForce('1.33.0');
      await run(answers);
      await pass(5_000);
      assert.equal(condition(), expected);
    });
  }

  test('access reviews use a different node each time, because API servers cache decisions', async () => {
    await putInForce('1.33.0');
    const users = await run({ '': webhook });
    await pass(5_000);
    await pass(5 * MINUTES);
    assert.equal(users.length, 2);
    for (const user of users) assert.match(user, /^system:node:portcullis-check-[0-9a-f-]{36}$/);
    assert.notEqual(users[0], users[1]);
  });

  test('the condition is updated five seconds after a change and every five minutes, and is removed if there is no minimum', async () => {
    const users = await run({ '': node });
    await pass(5 * MINUTES);
    assert.deepEqual([users.length, condition()], [0, undefined]);
    await putInForce('1.33.0');
    await pass(4_999);
    assert.deepEqual([users.length, condition()], [0, undefined]);
    await pass(1);
    assert.match(condition() ?? '', /^False AuthorizerNotCalled: the minimum 1\.33\.0 .* At 2026-11-23T23:01:18Z, /);
    configure({ isOn: true, taint: true });
    await pass(5 * MINUTES - 1);
    assert.equal(users.length, 1);
    await pass(1);
    assert.match(condition() ?? '', /At 2026-11-23T23:06:18Z, /);
    await putInForce('1.34.0');
    await pass(5_000);
    assert.match(condition() ?? '', /^False AuthorizerNotCalled: the minimum 1\.34\.0 .* At 2026-11-23T23:06:23Z, /);
    assert.equal(users.length, 3);
    configure({ isOn: false });
    await pass(0);
    assert.equal(condition(), undefined);
  });

  for (const [name, spec, isKept] of [
    ['the condition is removed if the feature is removed', {}, false],
    ['the condition is kept while the settings contain the feature', { kubelet: { minimumVersion: '1.33.0' } }, true],
  ] as const) {
    test(name, async () => {
      const metadata = { name: 'cluster' };
      const status = { kubelet: { minimumVersion: '1.33.0' } };
      await cluster.apply('PortcullisConfiguration', { metadata, spec }, BY_TEST);
      await cluster.applyStatus('PortcullisConfiguration', { metadata, status }, MINIMUM);
      await run({ '': node });
      await pass(5_000);
      assert.match(condition() ?? '', /^False AuthorizerNotCalled: /);
      await running?.stop();
      const controller = createController(settingsStatus, {
        features: { scc: true, kubelet: false, olm: false },
        date: () => date,
      });
      const metrics = createMetrics({ version: '0.0.0' });
      running = startController(controller, { ...createRecorder(), metrics, cluster, clock });
      await running.idle();
      const { kubelet, conditions = [] } = cluster.store.get('PortcullisConfiguration', 'cluster')?.status ?? {};
      const types = conditions.map(({ type }) => type).toSorted();
      const own = ['Accepted', 'Applied', 'Ready', 'Reconciling'];
      assert.deepEqual(
        { kubelet, types },
        isKept
          ? { ...status, types: [...own, 'KubeletMinimumEnforced'].toSorted() }
          : { kubelet: undefined, types: own },
      );
    });
  }
});
