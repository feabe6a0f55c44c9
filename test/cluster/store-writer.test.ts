import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createStoreWriter, type StoreWriter } from '../../src/cluster/store-writer.ts';
import { createProjections } from '../../src/cluster/projection.ts';
import { createStore } from '../../src/cluster/store.ts';
import { createFakeClock, type FakeClock } from '../support/fake-clock.ts';

const at = (version: number, uid = 'u1') => ({
  metadata: { name: 'a', namespace: 'n', uid, resourceVersion: String(version), labels: { version: String(version) } },
});

interface Case {
  readonly name: string;
  readonly steps: (feed: StoreWriter, clock: FakeClock) => void;
  /** What subscribers are told, with the version of the object. */
  readonly told: readonly string[];
}

const cases: readonly Case[] = [
  {
    name: 'what is watched is told',
    steps(feed) {
      feed.put(at(1));
      feed.put(at(2));
      feed.remove(at(3));
    },
    told: ['put 1', 'put 2', 'remove 2'],
  },
  {
    name: 'the watch of a write changes nothing',
    steps(feed) {
      feed.written(at(10));
      feed.put(at(10));
    },
    told: ['put 10'],
  },
  {
    name: 'what was before a write does not overwrite it',
    steps(feed) {
      feed.put(at(8));
      feed.written(at(10));
      feed.put(at(9));
      feed.put(at(10));
      feed.put(at(11));
    },
    told: ['put 8', 'put 10', 'put 11'],
  },
  {
    name: 'an answer that comes after the watch has told of more is of no interest',
    steps(feed) {
      feed.put(at(10));
      feed.put(at(11));
      feed.reached('11');
      feed.written(at(10));
    },
    told: ['put 10', 'put 11'],
  },
  {
    name: 'an answer that comes after the watch has told of the removal brings nothing back',
    steps(feed) {
      feed.put(at(9));
      feed.remove(at(10));
      feed.reached('10');
      feed.written(at(9));
    },
    told: ['put 9', 'remove 9'],
  },
  {
    name: 'what was before a removal does not bring the object back',
    steps(feed) {
      feed.put(at(8));
      feed.deleted('u1', 'a', 'n');
      feed.put(at(9));
      feed.remove(at(10));
    },
    told: ['put 8', 'remove 8'],
  },
  {
    name: 'an object made anew is not removed with its predecessor',
    steps(feed) {
      feed.put(at(8));
      feed.deleted('u1', 'a', 'n');
      feed.written(at(12, 'u2'));
      feed.remove(at(10));
      feed.put(at(12, 'u2'));
    },
    told: ['put 8', 'remove 8', 'put 12'],
  },
  {
    name: 'a list removes what it lacks',
    steps(feed) {
      feed.put(at(8));
      feed.retain(new Set(['u2']), '9');
    },
    told: ['put 8', 'remove 8'],
  },
  {
    name: 'a list changes nothing that is as it was',
    steps(feed) {
      feed.put(at(8));
      feed.put(at(8));
      feed.retain(new Set(['u1']), '9');
    },
    told: ['put 8'],
  },
  {
    name: 'a list that was made before a write does not undo it',
    steps(feed) {
      feed.written(at(10));
      feed.retain(new Set(), '9');
    },
    told: ['put 10'],
  },
  {
    name: 'a list that was made after a write knows better',
    steps(feed) {
      feed.written(at(10));
      feed.retain(new Set(), '11');
    },
    told: ['put 10', 'remove 10'],
  },
  {
    name: 'a cluster that was restored is believed, though its versions are lower',
    steps(feed) {
      feed.put(at(900));
      feed.retain(new Set(['u1']), '900');
      feed.put(at(7));
      feed.retain(new Set(['u1']), '20');
      feed.written(at(21));
    },
    told: ['put 900', 'put 7', 'put 21'],
  },
  {
    name: 'a write that the watch never tells of is forgotten after a minute',
    steps(feed, clock) {
      feed.written(at(900));
      clock.advance(60_000);
      feed.put(at(7));
    },
    told: ['put 900', 'put 7'],
  },
  {
    name: 'versions are numbers, not texts',
    steps(feed) {
      feed.written(at(100));
      feed.put(at(99));
    },
    told: ['put 100'],
  },
];

for (const { name, steps, told } of cases) {
  test(name, () => {
    const store = createStore();
    const clock = createFakeClock();
    const heard: string[] = [];
    store.subscribe(({ type, object }) => heard.push(`${type} ${object.metadata?.resourceVersion}`));
    steps(createStoreWriter({ kind: 'Role', store, projection: createProjections()('Role'), clock }), clock);
    assert.deepEqual(heard, told);
  });
}
