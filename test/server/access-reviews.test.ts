import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createAccessReviews } from '../../src/server/access-reviews.ts';
import { createLogLines } from '../support/scc-webhooks.ts';

test('what clients make up does not fill the memory: the oldest answers go first', async () => {
  let asked = 0;
  const ask = createAccessReviews({
    cluster: {
      reviewAccess() {
        asked++;
        return Promise.resolve(true);
      },
    },
    logger: createLogLines().logger,
    metrics: createMetrics({ version: '0.0.0' }).scc,
    now: () => 0,
  });
  const question = (index: number) => ({
    subject: { username: `user-${index}`, groups: [] },
    sccName: 'anyuid',
    namespaceName: 'shop',
  });
  for (let index = 0; index < 10_001; index++) await ask(question(index), 1000);
  assert.equal(asked, 10_001);
  await ask(question(10_000), 1000);
  assert.equal(asked, 10_001);
  await ask(question(0), 1000);
  assert.equal(asked, 10_002);
});
