import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  appended,
  clearContainer,
  clearPod,
  createPool,
  newContainer,
  newPod,
} from '../../../../src/policy/pss/decode/scratch.ts';

test('a pod that is cleared sets nothing', () => {
  const pod = soiled(newPod());
  clearPod(pod);
  // Where a setter is does not change.
  assert.deepEqual({ ...pod, list: undefined, index: 0 }, newPod());
});

test('a container that is cleared sets nothing', () => {
  const container = soiled(newContainer());
  clearContainer(container);
  assert.deepEqual({ ...container, list: 'containers', index: 0 }, newContainer());
});

test('a pool gives the same records again, in lists of any length', () => {
  const pool = createPool(() => ({}));
  const three = pool(3);
  assert.equal(pool(3), three);
  assert.equal(pool(5)[2], three[2]);
  assert.deepEqual(pool(0), []);
  assert.equal(pool(1000).length, 1000);
  assert.notEqual(pool(1000), pool(1000));
});

test('a list that was empty is not the list that it becomes', () => {
  const empty: readonly number[] = [];
  const one = appended(empty, 1);
  assert.deepEqual([empty, one, appended(one, 2)], [[], [1, 2], [1, 2]]);
});

/** The record with each of its fields set to something else. */
function soiled<T extends object>(record: T): T {
  for (const key of Object.keys(record)) Object.defineProperty(record, key, { value: 'soiled' });
  return record;
}
