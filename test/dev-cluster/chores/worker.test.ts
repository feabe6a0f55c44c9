import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import type { Chore } from '../../../src/dev-cluster/chores/chore.ts';
import { createWorker } from '../../../src/dev-cluster/chores/worker.ts';
import type { StoredChange } from '../../../src/dev-cluster/history.ts';

const change: StoredChange = { type: 'ADDED', resource: { group: '', resource: 'pods' }, object: {}, revision: 1 };

function chore(run: (key: string) => Promise<void>, ...[key]: string[]): Chore {
  return { name: 'chore', keyOf: () => key, run };
}

test('equal keys that wait are one', async () => {
  const ran: string[] = [];
  const only = chore((key) => Promise.resolve(void ran.push(key)), 'k');
  const worker = createWorker([only], () => undefined);
  worker.notice(change);
  worker.notice(change);
  worker.add(only, 'other');
  await worker.idle();
  assert.deepEqual(ran, ['k', 'other']);
});

test('what comes while a chore runs is done after it', async () => {
  const ran: number[] = [];
  const only: Chore = chore(async () => {
    ran.push(ran.length);
    if (ran.length === 1) worker.notice(change);
    await Promise.resolve();
  }, 'k');
  const worker = createWorker([only], () => undefined);
  worker.notice(change);
  await worker.idle();
  assert.deepEqual(ran, [0, 1]);
});

test('changes that ask for nothing', async () => {
  const worker = createWorker([chore(() => Promise.reject(new Error('never')))], () => assert.fail('a chore has run'));
  worker.notice(change);
  await worker.idle();
});

test('what fails is told of and tried again', async () => {
  const told: string[] = [];
  let attempts = 0;
  const failing = chore(() => {
    attempts += 1;
    return attempts < 3 ? Promise.reject(new Error(`attempt ${attempts}`)) : Promise.resolve();
  }, 'k');
  const worker = createWorker([failing], (error, name, key) => told.push(`${name} ${key}: ${String(error)}`));
  worker.notice(change);
  for (let waited = 0; attempts < 3 && waited < 200; waited++) await wait(5);
  await worker.idle();
  assert.deepEqual(told, ['chore k: Error: attempt 1', 'chore k: Error: attempt 2']);
});

test('nothing is done after the stop', async () => {
  let attempts = 0;
  const failing = chore(() => {
    attempts += 1;
    return Promise.reject(new Error('no'));
  }, 'k');
  const worker = createWorker([failing], () => undefined);
  worker.notice(change);
  await worker.idle();
  worker.stop();
  worker.notice(change);
  await wait(30);
  assert.equal(attempts, 1);
});
