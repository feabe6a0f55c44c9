/** A short fuzz run. `node test/run.ts fuzz` starts longer runs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findProblems, formatReport, fuzz } from './run.ts';

test('a real server answers generated reviews correctly', async (t) => {
  const report = await fuzz({ seed: 1, timeMs: 8000 });
  const text = formatReport(report);
  assert.ok(report.responses > 0, text);
  assert.deepEqual([report.failures, findProblems(report)], [[], []], text);
  t.diagnostic(text.trim());
});
