/**
 * Tests authorization through SubjectAccessReviews, including the order of the reviews, their cache, errors and
 * timeouts.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAccessReviews } from '../../src/cluster/access-reviews.ts';
import { LIMITS } from '../../src/kube/limits.ts';
import type { UserInfo } from '../../src/kube/types.ts';
import type { Action } from '../../src/policy/rbac/index.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/index.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { accessFromStore } from '../../src/views/access.ts';
import { createRecorder } from '../support/recorder.ts';
import {
  ALICE,
  buildPod,
  createSccTestWebhooks,
  podRequest,
  type SccRigOptions,
  type SccTestWebhooks,
} from '../support/scc-webhooks.ts';

const ACCOUNT = 'system:serviceaccount:shop:default';
const ROOT = buildPod({ runAsUser: 0 });

interface SarRig extends SccTestWebhooks {
  /** The reviews that were sent, formatted as `user scc`. */
  readonly reviews: string[];
  readonly calls: { readonly user: UserInfo; readonly attributes: Action }[];
  readonly clock: { nowMs: number };
}

type Authorizer = (user: UserInfo, scc: string) => Promise<boolean>;

/** Creates the webhooks with SubjectAccessReviews. The default authorizer has the standard grants. */
function createSarRig(authorize?: Authorizer, options: SccRigOptions = {}): SarRig {
  const reviews: string[] = [];
  const calls: SarRig['calls'] = [];
  const clock = { nowMs: 0 };
  const rig: SccTestWebhooks = createSccTestWebhooks({
    authorization: 'sar',
    now: () => clock.nowMs,
    ...options,
    cluster: {
      reviewAccess(user, attributes) {
        const scc = attributes.name ?? '';
        reviews.push(`${user.username ?? ''} ${scc}`);
        calls.push({ user, attributes });
        if (!authorize) return Promise.resolve({ allowed: accessFromStore(rig.store)(user, attributes) });
        return authorize(user, scc).then((allowed) => ({ allowed }));
      },
    },
  });
  rig.putNamespace();
  return { ...rig, reviews, calls, clock };
}

/** Returns the result unless a timer fires first. Other load on the machine delays both. */
async function beforeTimer<T>(delayMs: number, result: T | Promise<T>): Promise<T> {
  return await Promise.race([result, sleep(delayMs).then(() => assert.fail(`no decision within ${delayMs} ms`))]);
}

suite('access reviews', () => {
  test('are sent for matching SCCs in order until one is allowed, first for the service account, then for the user', async () => {
    const rig = createSarRig();
    const decision = await rig.decide('/mutate/pods', podRequest(buildPod()));
    assert.deepEqual(decision.facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
    assert.deepEqual(rig.reviews, [`${ACCOUNT} anyuid`, 'alice anyuid', `${ACCOUNT} restricted-v2`]);
  });

  test('contain all attributes of the subject', async () => {
    const rig = createSarRig();
    const userInfo = { ...ALICE, uid: 'u-1', extra: { 'scopes.example.com/x': ['a', 'b'] } };
    await rig.decide('/mutate/pods', podRequest(buildPod(), { userInfo }));
    const attributes = {
      verb: 'use',
      apiGroup: 'security.openshift.io',
      resource: 'securitycontextconstraints',
      name: 'anyuid',
      namespace: 'shop',
    };
    const groups = ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'];
    assert.deepEqual(rig.calls.slice(0, 2), [
      { user: { username: ACCOUNT, groups }, attributes },
      { user: userInfo, attributes },
    ]);
  });

  test('are not sent for SCCs that list the user or a group', async () => {
    const rig = createSarRig();
    const userInfo = { username: 'root', groups: ['system:cluster-admins'] };
    const decision = await rig.decide('/mutate/pods', podRequest(buildPod(), { userInfo }));
    assert.deepEqual(decision.facts, { scc: 'anyuid', subjectType: 'user' });
    assert.ok(rig.reviews.includes(`${ACCOUNT} anyuid`));
    assert.ok(!rig.reviews.includes('root anyuid'));
  });

  test('are sent for every SCC before a denial, which equals the denial based on RBAC', async () => {
    const rig = createSarRig();
    const denied = await rig.decide('/mutate/pods', podRequest(ROOT));
    const rbacRig = createSccTestWebhooks();
    rbacRig.putNamespace();
    assert.deepEqual(denied, await rbacRig.decide('/mutate/pods', podRequest(ROOT)));
    assert.equal(rig.reviews.length, new Set(rig.reviews).size, 'a review is sent twice');
    assert.equal(rig.reviews[0], `${ACCOUNT} anyuid`);
  });

  test('are not sent for pods outside SCC admission', async () => {
    const rig = createSarRig();
    await rig.decide('/mutate/pods', podRequest(buildPod({}, { os: { name: 'windows' } })));
    await rig.decide('/mutate/pods', podRequest(buildPod(), { namespace: 'kube-system' }));
    await rig.decide('/mutate/pods', podRequest(buildPod(), { namespace: 'none' }), 100);
    assert.deepEqual(rig.reviews, []);
  });

  test('are not sent again in the second pass', async () => {
    const rig = createSarRig();
    const decision = await rig.decide('/mutate/pods', podRequest(buildPod()));
    assert.ok(decision.allowed);
    rig.reviews.length = 0;
    rig.clock.nowMs += 20_000;
    const second = await rig.decide('/validate/pods', podRequest(decision.object));
    assert.deepEqual(second.facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
    assert.deepEqual(rig.reviews, [`${ACCOUNT} restricted-v2`]);
  });

  test('determine the warnings', async () => {
    const rig = createSarRig((user, scc) =>
      Promise.resolve(
        (user.username === 'alice' && scc === 'anyuid') || (user.username === ACCOUNT && scc === 'nonroot'),
      ),
    );
    const decision = await rig.decide('/mutate/pods', podRequest(ROOT));
    assert.deepEqual(decision.facts, { scc: 'anyuid', subjectType: 'user' });
    assert.deepEqual(decision.warnings, [
      `SCC "anyuid" admits the pod only because the pod's creator may use the SCC. Service account "default" may not use it, so such pods fail when a controller creates them.`,
    ]);
  });
});

suite('cached access reviews', () => {
  test('expire after 10 seconds', async () => {
    const rig = createSarRig();
    const countReviews = async (): Promise<number> => {
      const before = rig.reviews.length;
      await rig.decide('/mutate/pods', podRequest(buildPod()));
      return rig.reviews.length - before;
    };
    assert.equal(await countReviews(), 3);
    rig.clock.nowMs = 9_999;
    assert.equal(await countReviews(), 0);
    rig.clock.nowMs = 10_001;
    assert.equal(await countReviews(), 3);
  });

  test('depend on all attributes of the user', async () => {
    const rig = createSarRig();
    const users: readonly UserInfo[] = [
      ALICE,
      { ...ALICE, uid: '1' },
      { ...ALICE, groups: ['ops'] },
      { ...ALICE, extra: { a: ['b'] } },
      ALICE,
    ];
    for (const userInfo of users) await rig.decide('/mutate/pods', podRequest(buildPod(), { userInfo }));
    assert.equal(rig.reviews.filter((review) => review === 'alice anyuid').length, 4);
    assert.equal(rig.reviews.filter((review) => review === `${ACCOUNT} anyuid`).length, 1);
  });

  test('do not hide new grants after they have expired', async () => {
    let allowed = false;
    const rig = createSarRig((_user, scc) => Promise.resolve(allowed && scc === 'restricted-v2'));
    assert.equal((await rig.decide('/mutate/pods', podRequest(buildPod()))).allowed, false);
    allowed = true;
    assert.equal((await rig.decide('/mutate/pods', podRequest(buildPod()))).allowed, false);
    rig.clock.nowMs = 11_000;
    assert.equal((await rig.decide('/mutate/pods', podRequest(buildPod()))).allowed, true);
  });

  test('are shared by 100 concurrent reviews of pods', async () => {
    const rig = createSarRig(async (_user, scc) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      return scc === 'restricted-v2';
    });
    const decisions = Array.from({ length: 100 }, () =>
      Promise.resolve(rig.decide('/mutate/pods', podRequest(buildPod()))),
    );
    for (const decision of await Promise.all(decisions)) assert.equal(decision.allowed, true);
    assert.deepEqual(rig.reviews, [`${ACCOUNT} anyuid`, 'alice anyuid', `${ACCOUNT} restricted-v2`]);
  });
});

test('access reviews are limited for each client address, and a denial contains the limit', async () => {
  const rig = createSarRig(() => Promise.resolve(false));
  const send = async (username: string, address: string): Promise<string> => {
    const request = podRequest(buildPod(), { userInfo: { username } });
    const decision = await rig.decide('/mutate/pods', request, undefined, { address });
    return decision.allowed ? '' : decision.status.message;
  };
  const reason = ': a client may cause at most 200 SubjectAccessReviews per second; try again';
  const first = await send('user-0', '192.0.2.1');
  assert.match(first, /^unable to validate against any security context constraint: /);
  let message = first;
  for (let index = 1; !message.endsWith(reason); index++) message = await send(`user-${index}`, '192.0.2.1');
  assert.equal(message, `${first}${reason}`);
  assert.equal(rig.reviews.length, LIMITS.accessReviewBurst);
  assert.equal(await send('user-x', '192.0.2.2'), first);
  rig.clock.nowMs += 1000;
  assert.equal(await send('user-y', '192.0.2.1'), first);
});

test('the cache of access reviews holds 10,240 results, and drops the oldest first', async () => {
  let sent = 0;
  const review = createAccessReviews({
    cluster: { reviewAccess: () => Promise.resolve({ allowed: ++sent > 0 }) },
    logger: createRecorder().logger,
    metrics: createMetrics({ version: '0.0.0' }).scc,
    takeAccessReview: () => true,
    now: () => 0,
  });
  const reviewUser = async (index: number): Promise<number> => {
    const subject = { username: `user-${index}`, groups: [] };
    await review({ subject, sccName: 'anyuid', namespaceName: 'shop' }, { timeoutMs: 1000, address: undefined });
    return sent;
  };
  for (let index = 0; index < 10_240; index++) await reviewUser(index);
  assert.equal(await reviewUser(10_240), 10_241);
  assert.equal(await reviewUser(10_240), 10_241);
  assert.equal(await reviewUser(0), 10_242);
});

suite('failed access reviews deny access:', () => {
  test('after an error, which is logged but not cached, the next SCC is tried', async () => {
    let failing = true;
    const rig = createSarRig((_user, scc) => {
      if (scc === 'anyuid' && failing) return Promise.reject(new Error('connection refused'));
      return Promise.resolve(true);
    });
    const first = await rig.decide('/mutate/pods', podRequest(buildPod()));
    assert.deepEqual(first.facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
    const [line] = rig.log;
    const { level, time, err, ...fields } = line as { level: unknown; time: unknown; err: { message: string } };
    assert.deepEqual([level, typeof time, err.message], [40, 'number', 'connection refused']);
    assert.deepEqual(fields, {
      logger: 'access',
      user: ACCOUNT,
      scc: 'anyuid',
      namespace: 'shop',
      msg: 'access review failed, denying access',
    });
    failing = false;
    const second = await rig.decide('/mutate/pods', podRequest(buildPod()));
    assert.deepEqual(second.facts, { scc: 'anyuid', subjectType: 'serviceaccount' });
    assert.deepEqual(await rig.series('portcullis_access_reviews_total'), [
      'portcullis_access_reviews_total{result="error"} 2',
      'portcullis_access_reviews_total{result="allowed"} 2',
    ]);
  });

  test('without a response from the API server, the pod is denied before the timeout', async () => {
    const rig = createSarRig(() => new Promise(() => undefined), { now: () => performance.now() });
    const decision = await beforeTimer(650, rig.decide('/mutate/pods', podRequest(buildPod()), 700));
    assert.match(decision.allowed ? '' : decision.status.message, /^unable to validate against any security context/);
  });

  suite('with slow access reviews,', () => {
    const SLOW_MS = 100;
    const MANY = 300;
    /** The timeout suffices for only some of the reviews. */
    const createSlowRig = (allowed: string): SarRig => {
      const rig = createSarRig(
        async (_user, scc) => {
          await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
          return scc === allowed;
        },
        { now: () => performance.now() },
      );
      const { scc } = STANDARD_SCCS.find(({ scc: { metadata } }) => metadata?.name === 'anyuid') ?? {};
      assert.ok(scc);
      for (let index = 0; index < MANY; index++) {
        const name = `copy-${String(index).padStart(3, '0')}`;
        rig.store.put('SecurityContextConstraints', { ...scc, metadata: { name } });
      }
      return rig;
    };
    const PRIVILEGED = buildPod({ privileged: true });

    for (const path of ['/mutate/pods', '/validate/pods']) {
      test(`${path}: reviews that cannot be sent in time deny access`, async () => {
        const rig = createSlowRig('none');
        const decision = await beforeTimer(900, rig.decide(path, podRequest(PRIVILEGED), 1200));
        assert.ok(!decision.allowed);
        const { message } = decision.status;
        assert.ok(message.startsWith('unable to validate against any security context constraint: ['));
        const denied = message.match(/provider "copy-\d{3}": Forbidden: not usable by user or serviceaccount/g);
        assert.equal(denied?.length, MANY);
        const sent = rig.reviews.length;
        assert.ok(sent >= 16 && sent <= 16 * 6, `${sent} reviews`);
        await new Promise((resolve) => setTimeout(resolve, 3 * SLOW_MS));
        assert.equal(rig.reviews.length, sent, 'a review is sent after the response');
      });
    }

    test('a very short timeout causes no review to be sent', async () => {
      const rig = createSlowRig('none');
      const decision = await rig.decide('/mutate/pods', podRequest(PRIVILEGED), 150);
      assert.equal(decision.allowed, false);
      assert.deepEqual(rig.reviews, []);
    });

    test('the oldest review is denied if the waiting reviews exceed 48 MiB', async () => {
      const rig = createSarRig(() => new Promise(() => {}));
      const sendLarge = async (): Promise<boolean> =>
        (await rig.decide('/mutate/pods', podRequest(buildPod()), 15_000, { measure: () => 12 * 1024 * 1024 })).allowed;
      const oldest = sendLarge();
      const others = [sendLarge(), sendLarge(), sendLarge()];
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(rig.reviews.length > 0, true);
      others.push(sendLarge());
      assert.equal(await Promise.race([oldest, ...others.map((other) => other.then(() => 'another'))]), false);
    });

    test('no further review is sent after the client has disconnected', async () => {
      const rig = createSlowRig('none');
      const controller = new AbortController();
      const decision = rig.decide('/mutate/pods', podRequest(PRIVILEGED), 15_000, {
        getSignal: () => controller.signal,
      });
      controller.abort();
      assert.equal((await decision).allowed, false);
      assert.ok(rig.reviews.length <= 16, `${rig.reviews.length}`);
    });
  });
});
