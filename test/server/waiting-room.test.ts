import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';

const MIB = 1024 * 1024;

suite('places for reviews that wait', () => {
  const cases: readonly {
    readonly name: string;
    /** Of the reviews that wait already, and of the next one. */
    readonly bytes: readonly [number, number];
    readonly fits: number;
  }[] = [
    { name: 'no more reviews than that', bytes: [0, 0], fits: 2000 },
    { name: 'no more bytes than that', bytes: [3 * MIB, 3 * MIB], fits: 10 },
    { name: 'to the byte', bytes: [16 * MIB, 16 * MIB], fits: 2 },
  ];
  for (const { name, bytes, fits } of cases) {
    test(name, () => {
      const room = createWaitingRoom();
      const leave = Array.from({ length: fits }, () => room.enter(bytes[0]));
      assert.ok(leave.every((one) => one !== undefined));
      assert.equal(room.enter(bytes[1]), undefined);
      leave[0]?.();
      assert.notEqual(room.enter(bytes[1]), undefined, 'a place that is given back is there for the next');
      assert.equal(room.enter(bytes[1]), undefined);
    });
  }

  test('small reviews fit beside large ones', () => {
    const room = createWaitingRoom({ reviews: 3, bytes: 10 });
    assert.notEqual(room.enter(9), undefined);
    assert.equal(room.enter(2), undefined);
    assert.notEqual(room.enter(1), undefined);
    assert.notEqual(room.enter(0), undefined);
    assert.equal(room.enter(0), undefined);
  });
});

test('each goes on in a turn of the event loop of its own', async () => {
  const room = createWaitingRoom();
  const order: string[] = [];
  const turns = ['a', 'b', 'c'].map(async (name) => {
    await room.turn();
    order.push(name);
    setImmediate(() => order.push(`after ${name}`));
  });
  await Promise.all(turns);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(order, ['a', 'after a', 'b', 'after b', 'c', 'after c']);
});
