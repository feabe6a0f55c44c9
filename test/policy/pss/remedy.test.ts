import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checks } from '../../../src/policy/pss/index.ts';
import { remedyOf } from '../../../src/policy/pss/remedy.ts';

test('there is something to do about every violation', () => {
  for (const id of [...checks.map((check) => check.id), 'decode']) assert.match(remedyOf(id), /^[A-Z].*\.$/, id);
  assert.equal(remedyOf('constructor'), '');
});
