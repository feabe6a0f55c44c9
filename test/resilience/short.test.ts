/** What keeps reviews answered, in short; `npm run test:resilience` goes on for minutes. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { assertFlawless, QUESTIONS, setStage, summaryOf, type Stage } from './stage.ts';

suite('replicas behind one address', () => {
  let stage: Stage;
  before(async () => {
    stage = await setStage({ perSecond: 20 });
    await stage.start(2);
    await stage.settled(2);
  });
  after(() => stage.stop());

  test('go on deciding while the API server is away, and know afterwards what has changed', async (t) => {
    const report = await stage.underLoad(async () => {
      const unready = await stage.unreadyWhile(async () => {
        await stage.proxy.set('away');
        await stage.change();
        await pause(2500);
      });
      assert.deepEqual(unready, []);
    });
    t.diagnostic(summaryOf(report));
    assertFlawless(report);
  });

  test('that start while it is away are not ready, and leave decisions to the failurePolicy', async () => {
    const [late] = await stage.start(1);
    assert.ok(late);
    const { status, text } = await late.probe();
    assert.equal(status, 500);
    assert.match(text, /informer-sync failed: not synced/);
    const [question] = QUESTIONS;
    assert.ok(question);
    const answer = stage.clientOf(late, 'any certificate').call(question.path, question.review);
    await assert.rejects(answer, /HTTP status 503: the replica has not read the cluster completely yet; try again/);
    await stage.proxy.set('none');
    await stage.settled(3);
    await stage.known(20_000);
    await stage.led(20_000);
  });

  test('are replaced, and no review fails', async (t) => {
    const report = await stage.underLoad(async () => {
      for (const old of stage.system.replicas.slice(0, 2)) await stage.system.retire(old);
    });
    t.diagnostic(summaryOf(report));
    assertFlawless(report);
  });
});
