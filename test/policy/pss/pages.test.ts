/** The examples on the pages of the checks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkPages } from '../../../scripts/docs/checks.ts';
import { readPod } from '../../../src/config/objects.ts';
import { readDocuments } from '../../../src/config/yaml.ts';
import { evaluatePod } from '../../../src/policy/pss/index.ts';

for (const { id, level, before, after } of checkPages()) {
  test(`${id}: the example violates only this check, and passes after the fix`, () => {
    const [violations, remaining] = [before, after].map((text) => {
      const [document] = readDocuments(text, '').documents;
      return evaluatePod(readPod(document?.value, []).pod, { level, version: 'latest' }).violations;
    });
    assert.deepEqual(
      violations?.map(({ check }) => check),
      [id],
    );
    assert.deepEqual(remaining, []);
  });
}
