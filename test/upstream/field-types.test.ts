/** Tests that the types of fields match the OpenAPI document of Kubernetes. Requires Go. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createFieldTypes, FILE } from '../../scripts/field-types.ts';

const hasGo = spawnSync('go', ['version'], { stdio: 'ignore' }).status === 0;

test('the generated types of fields are up to date', { skip: !hasGo && 'Go is not installed' }, () => {
  assert.equal(createFieldTypes(), readFileSync(FILE, 'utf8'), 'run `npm run field-types`');
});
