/** Access that has to be asked for: what is asked, in which order, how often, and what becomes of silence. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { accessFromStore } from '../../src/cluster/access.ts';
import type { AccessAttributes } from '../../src/cluster/cluster.ts';
import type { Decision } from '../../src/kube/admission.ts';
import type { UserInfo } from '../../src/kube/types.ts';
import { STANDARD_SCCS } from '../../src/policy/scc/standard.ts';
import {
  ALICE,
  createSccRig,
  podOf,
  podRequest,
  RANGES,
  type SccRig,
  type SccRigOptions,
} from '../support/scc-webhooks.ts';

const ACCOUNT = 'system:serviceaccount:shop:default';
const ROOT = podOf({ runAsUser: 0 });

interface AskingRig extends SccRig {
  /** What was asked, as `user scc`. */
  readonly asked: string[];
  readonly calls: { readonly user: UserInfo; readonly attributes: AccessAttributes }[];
  readonly clock: { nowMs: number };
}

type Answer = (user: UserInfo, scc: string) => Promise<boolean>;

/** A server that asks; without an answer of its own the cluster has the standard grants. */
function createAskingRig(answer?: Answer, options: SccRigOptions = {}): AskingRig {
  const asked: string[] = [];
  const calls: AskingRig['calls'] = [];
  const clock = { nowMs: 0 };
  const rig: SccRig = createSccRig({
    authorization: 'sar',
    now: () => clock.nowMs,
    ...options,
    cluster: {
      reviewAccess(user, attributes) {
        const scc = attributes.name ?? '';
        asked.push(`${user.username ?? ''} ${scc}`);
        calls.push({ user, attributes });
        return answer ? answer(user, scc) : Promise.resolve(accessFromStore(rig.store)(user, attributes));
      },
    },
  });
  rig.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
  return { ...rig, asked, calls, clock };
}

const answerOf = (decision: Decision): unknown =>
  decision.allowed ? decision.facts : decision.status.message.slice(0, 64);

suite('what is asked', () => {
  test('SCCs that fit, in their order, until one may be used; the service account before the user', async () => {
    const rig = createAskingRig();
    const decision = await rig.ask('/scc/mutate', podRequest(podOf()));
    assert.deepEqual(decision.facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
    assert.deepEqual(rig.asked, [`${ACCOUNT} anyuid`, 'alice anyuid', `${ACCOUNT} restricted-v2`]);
  });

  test('how it is asked', async () => {
    const rig = createAskingRig();
    const userInfo = { ...ALICE, uid: 'u-1', extra: { 'scopes.example.com/x': ['a', 'b'] } };
    await rig.ask('/scc/mutate', podRequest(podOf(), { userInfo }));
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

  test('nothing about SCCs whose own users and groups tell', async () => {
    const rig = createAskingRig();
    const userInfo = { username: 'root', groups: ['system:cluster-admins'] };
    const decision = await rig.ask('/scc/mutate', podRequest(podOf(), { userInfo }));
    assert.deepEqual(decision.facts, { scc: 'anyuid', subjectType: 'user' });
    assert.ok(rig.asked.includes(`${ACCOUNT} anyuid`));
    assert.ok(!rig.asked.includes('root anyuid'));
  });

  test('about every SCC for a refusal, which is the one of an authorizer at hand', async () => {
    const rig = createAskingRig();
    const asking = await rig.ask('/scc/mutate', podRequest(ROOT));
    const knowing = createSccRig();
    knowing.store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES } });
    assert.deepEqual(asking, knowing.ask('/scc/mutate', podRequest(ROOT)));
    assert.equal(rig.asked.length, new Set(rig.asked).size, 'nothing is asked twice');
    assert.equal(rig.asked[0], `${ACCOUNT} anyuid`);
  });

  test('nothing at all for pods that SCCs have nothing to do with', async () => {
    const rig = createAskingRig();
    await rig.ask('/scc/mutate', podRequest(podOf({}, { os: { name: 'windows' } })));
    await rig.ask('/scc/mutate', podRequest(podOf(), { namespace: 'kube-system' }));
    await rig.ask('/scc/mutate', podRequest(podOf(), { namespace: 'none' }), 100);
    assert.deepEqual(rig.asked, []);
  });

  test('the second look asks no more than the first', async () => {
    const rig = createAskingRig();
    const decision = await rig.ask('/scc/mutate', podRequest(podOf()));
    assert.ok(decision.allowed);
    rig.asked.length = 0;
    rig.clock.nowMs += 20_000;
    const second = await rig.ask('/scc/validate', podRequest(decision.object));
    assert.deepEqual(second.facts, { scc: 'restricted-v2', subjectType: 'serviceaccount' });
    assert.deepEqual(rig.asked, [`${ACCOUNT} restricted-v2`]);
  });

  test('what a warning says is asked for, too', async () => {
    const rig = createAskingRig((user, scc) =>
      Promise.resolve(
        (user.username === 'alice' && scc === 'anyuid') || (user.username === ACCOUNT && scc === 'nonroot'),
      ),
    );
    const decision = await rig.ask('/scc/mutate', podRequest(ROOT));
    assert.deepEqual(decision.facts, { scc: 'anyuid', subjectType: 'user' });
    assert.deepEqual(decision.warnings, [
      'SCC "anyuid" admits the pod only because its creator may use it. Service account "default" may not use it, so such pods fail when a controller creates them.',
    ]);
  });
});

suite('answers are kept', () => {
  test('for ten seconds, whatever they are', async () => {
    const rig = createAskingRig();
    const ask = async (): Promise<number> => {
      const before = rig.asked.length;
      await rig.ask('/scc/mutate', podRequest(podOf()));
      return rig.asked.length - before;
    };
    assert.equal(await ask(), 3);
    rig.clock.nowMs = 9_999;
    assert.equal(await ask(), 0);
    rig.clock.nowMs = 10_001;
    assert.equal(await ask(), 3);
  });

  test('for each user apart, by all that is known of the user', async () => {
    const rig = createAskingRig();
    const users: readonly UserInfo[] = [
      ALICE,
      { ...ALICE, uid: '1' },
      { ...ALICE, groups: ['ops'] },
      { ...ALICE, extra: { a: ['b'] } },
      ALICE,
    ];
    for (const userInfo of users) await rig.ask('/scc/mutate', podRequest(podOf(), { userInfo }));
    assert.equal(rig.asked.filter((one) => one === 'alice anyuid').length, 4);
    assert.equal(rig.asked.filter((one) => one === `${ACCOUNT} anyuid`).length, 1);
  });

  test('a change of rights is seen when they are old', async () => {
    let allowed = false;
    const rig = createAskingRig((_user, scc) => Promise.resolve(allowed && scc === 'restricted-v2'));
    assert.equal((await rig.ask('/scc/mutate', podRequest(podOf()))).allowed, false);
    allowed = true;
    assert.equal((await rig.ask('/scc/mutate', podRequest(podOf()))).allowed, false);
    rig.clock.nowMs = 11_000;
    assert.equal((await rig.ask('/scc/mutate', podRequest(podOf()))).allowed, true);
  });

  test('a hundred pods at once ask once', async () => {
    const rig = createAskingRig(async (_user, scc) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      return scc === 'restricted-v2';
    });
    const decisions = Array.from({ length: 100 }, () => Promise.resolve(rig.ask('/scc/mutate', podRequest(podOf()))));
    for (const decision of await Promise.all(decisions)) assert.equal(decision.allowed, true);
    assert.deepEqual(rig.asked, [`${ACCOUNT} anyuid`, 'alice anyuid', `${ACCOUNT} restricted-v2`]);
  });
});

suite('no answer is a no', () => {
  test('an error: the next SCC is tried, the error is logged, and asked again the next time', async () => {
    let failing = true;
    const rig = createAskingRig((_user, scc) => {
      if (scc === 'anyuid' && failing) return Promise.reject(new Error('connection refused'));
      return Promise.resolve(true);
    });
    assert.deepEqual(answerOf(await rig.ask('/scc/mutate', podRequest(podOf()))), {
      scc: 'restricted-v2',
      subjectType: 'serviceaccount',
    });
    const [line] = rig.log;
    const { level, err, ...facts } = line as { level: unknown; err: { message: string } };
    assert.equal(err.message, 'connection refused');
    assert.ok(level !== undefined);
    assert.deepEqual(
      { ...facts, time: undefined },
      {
        logger: 'access',
        user: ACCOUNT,
        scc: 'anyuid',
        namespace: 'shop',
        msg: 'access review failed; access is denied',
        time: undefined,
      },
    );
    failing = false;
    assert.deepEqual(answerOf(await rig.ask('/scc/mutate', podRequest(podOf()))), {
      scc: 'anyuid',
      subjectType: 'serviceaccount',
    });
    assert.deepEqual(await rig.series('portcullis_access_reviews_total'), [
      'portcullis_access_reviews_total{result="error"} 2',
      'portcullis_access_reviews_total{result="allowed"} 2',
    ]);
  });

  test('an API server that never answers: refused within the time', async () => {
    const rig = createAskingRig(() => new Promise(() => undefined), { now: () => performance.now() });
    const startMs = performance.now();
    const decision = await rig.ask('/scc/mutate', podRequest(podOf()), 700);
    const tookMs = performance.now() - startMs;
    assert.equal(answerOf(decision), 'unable to validate against any security context constraint: [pro'.slice(0, 64));
    assert.ok(tookMs >= 150 && tookMs < 650, `the API server still waits: ${tookMs}`);
  });

  suite('the time is up before all is asked', () => {
    const SLOW_MS = 100;
    const MANY = 300;
    /** Each answer takes its time, so that there is enough for a few of the questions only. */
    const createSlowRig = (allowed: string): AskingRig => {
      const rig = createAskingRig(
        async (_user, scc) => {
          await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
          return scc === allowed;
        },
        { now: () => performance.now() },
      );
      const { scc } = STANDARD_SCCS.find((one) => one.scc.metadata?.name === 'anyuid') ?? {};
      assert.ok(scc);
      for (let index = 0; index < MANY; index++) {
        const name = `copy-${String(index).padStart(3, '0')}`;
        rig.store.put('SecurityContextConstraints', { ...scc, metadata: { name } });
      }
      return rig;
    };
    const PRIVILEGED = podOf({ privileged: true });

    for (const path of ['/scc/mutate', '/scc/validate']) {
      test(`${path}: the rest is a no and is not asked`, async () => {
        const rig = createSlowRig('none');
        const startMs = performance.now();
        const decision = await rig.ask(path, podRequest(PRIVILEGED), 1000);
        const tookMs = performance.now() - startMs;
        assert.ok(!decision.allowed);
        const { message } = decision.status;
        assert.ok(message.startsWith('unable to validate against any security context constraint: ['));
        const denied = message.match(/provider "copy-\d{3}": Forbidden: not usable by user or serviceaccount/g);
        assert.equal(denied?.length, MANY);
        assert.ok(tookMs < 900, `the API server still waits: ${tookMs}`);
        const asked = rig.asked.length;
        assert.ok(asked >= 16 && asked <= 16 * 6, `${asked} were asked`);
        await new Promise((resolve) => setTimeout(resolve, 3 * SLOW_MS));
        assert.equal(rig.asked.length, asked, 'nothing is asked after the answer');
      });
    }

    test('an API server without patience: nothing is asked at all', async () => {
      const rig = createSlowRig('none');
      const decision = await rig.ask('/scc/mutate', podRequest(PRIVILEGED), 400);
      assert.equal(decision.allowed, false);
      assert.deepEqual(rig.asked, []);
    });

    test('nobody waits for the answer any more: nothing else is asked', async () => {
      const rig = createSlowRig('none');
      const going = new AbortController();
      const decision = rig.ask('/scc/mutate', podRequest(PRIVILEGED), 15_000, { signal: going.signal });
      going.abort();
      assert.equal((await decision).allowed, false);
      assert.ok(rig.asked.length <= 16, `${rig.asked.length}`);
    });
  });
});
