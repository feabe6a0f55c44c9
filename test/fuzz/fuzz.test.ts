/** A short run of what `npm run test:fuzz` does for longer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printReport, problemsOf } from './print-report.ts';
import { fuzz } from './run.ts';

test('generated reviews against a real server', async (t) => {
  const report = await fuzz({ seed: 1, timeMs: 8000 });
  const text = printReport(report);
  assert.ok(report.answers > 0, text);
  assert.deepEqual([report.failures, problemsOf(report)], [[], []], text);
  t.diagnostic(text.trim());
});
