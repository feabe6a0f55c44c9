/** Tests the examples on the documentation pages for `check` findings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkPages } from '../../../scripts/docs/checks.ts';
import type { CheckedObject } from '../../../src/cli/output/findings.ts';
import { runProgram } from '../../support/memory-io.ts';

interface Findings {
  readonly objects: readonly CheckedObject[];
}

for (const { id, before, after, options } of checkPages()) {
  test(`the example on the page of ${id} has only this finding, and no finding after the fix`, async () => {
    const [found, remaining] = await Promise.all(
      [before, after].map(async (stdin) => {
        const { stdout } = await runProgram(['check', '-f', '-', '-o', 'json', ...options], { stdin });
        return (JSON.parse(stdout) as Findings).objects.map(({ findings }) => findings.map(({ check }) => check));
      }),
    );
    assert.deepEqual(found, [[id]]);
    assert.deepEqual(remaining, [[]]);
  });
}
