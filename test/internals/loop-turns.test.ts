// Clients take turns at the event loop.
import assert from 'node:assert/strict';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { ClientGone } from '../../src/db/lanes/requester.ts';
import { LoopTurns } from '../../src/http/load/loop-turns.ts';
import { describe, test } from 'node:test';

const client = (key: string, clientKind: 'anonymous' | 'user' = 'anonymous') => ({
  key,
  clientKind,
  onGone: () => () => undefined,
});
const work = (milliseconds: number): void => {
  const until = performance.now() + milliseconds;
  while (performance.now() < until);
};

describe('turns at the event loop', () => {
  test('begin short work at once while an iteration has time, and that of others after it', async () => {
    const turns = new LoopTurns();
    for (let count = 0; count < 10; count += 1) {
      const one = client('a');
      assert.equal(turns.start(one), undefined);
      assert.equal(turns.start(one), undefined, 'it goes on');
      await nextIteration();
    }
    assert.equal(turns.start(client('a')), undefined);
    assert.notEqual(turns.start(client('b')), undefined);
    assert.equal(turns.waiting, 1);
  });

  test('alternate between users and anonymous clients, and among the clients of each kind', async () => {
    const turns = new LoopTurns();
    const order: string[] = [];
    const enter = (key: string, clientKind: 'anonymous' | 'user'): Promise<unknown> =>
      turns.yield(client(key, clientKind)).then(() => order.push(key));
    await Promise.all([
      ...['a', 'a', 'a', 'a', 'b', 'c'].map((key) => enter(key, 'anonymous')),
      ...['u', 'u', 'v'].map((key) => enter(key, 'user')),
    ]);
    assert.deepEqual(order, ['u', 'a', 'v', 'b', 'u', 'c', 'a', 'a', 'a']);
  });

  test('leave the event loop to others after some milliseconds of short work', async () => {
    const turns = new LoopTurns();
    let iterations = 0;
    let done = 0;
    const all = Array.from({ length: 40 }, () =>
      turns.yield(client('a')).then(() => {
        work(1);
        done += 1;
      }),
    );
    for (; done < all.length; iterations += 1) await nextIteration();
    assert.ok(iterations >= 8, `${iterations} iterations`);
  });

  test('run one piece of long work in an iteration, and pause after it if requests have started', async () => {
    for (const startsOthers of [false, true]) {
      const turns = new LoopTurns();
      const ends: number[] = [];
      const starts: number[] = [];
      let isOver = false;
      const all = Promise.all(
        Array.from({ length: 4 }, async () => {
          await turns.piece(client('a'));
          starts.push(performance.now());
          work(20);
          ends.push(performance.now());
        }),
      ).finally(() => (isOver = true));
      while (!isOver) {
        if (startsOthers) void turns.start(client('b'));
        await nextIteration();
      }
      await all;
      const pauses = starts.slice(1).map((start, index) => start - (ends[index] ?? 0));
      for (const pause of pauses) assert.equal(pause >= 15, startsOthers, pauses.join(', '));
    }
  });

  test('skip clients that have disconnected', async () => {
    const turns = new LoopTurns();
    let leave = (): void => undefined;
    const gone = turns.piece({
      ...client('a'),
      onGone: (callback) => {
        leave = callback;
        return () => undefined;
      },
    });
    leave();
    await assert.rejects(gone, ClientGone);
    assert.equal(turns.waiting, 0);
  });
});
