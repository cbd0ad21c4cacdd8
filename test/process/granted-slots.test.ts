// The streams that the first of several processes gives the others.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGrantedSlots } from '../../src/workers/granted-slots.ts';
import type { ToParent, ToWorker, WorkerStart } from '../../src/workers/messages.ts';
import type { Worker } from '../../src/workers/worker.ts';
import { eventually } from '../http/expect.ts';
import { describe, test } from 'node:test';

/** A process that only notes what it is sent. */
function process(number: number) {
  const answers: [id: number, isFree: boolean][] = [];
  const gone = new AbortController();
  const send = (message: ToWorker): void => {
    if (message.kind === 'slot') answers.push([message.id, message.isFree]);
  };
  const worker = { number, send, gone: gone.signal } as unknown as Worker;
  return { worker, answers, end: () => gone.abort() };
}

const stream = (id: number, clientKind: 'anonymous' | 'user' | 'admin' = 'anonymous') =>
  ({ kind: 'stream', id, client: 'mallory', clientKind }) as const;

describe('the streams of a client in several processes', () => {
  for (const [kind, limit] of [
    ['anonymous', 1],
    ['user', 1],
    ['admin', 2],
  ] as const)
    test(`are ${limit} together (${kind})`, async () => {
      const slots = createGrantedSlots();
      const processes = [process(1), process(2), process(3)];
      for (const { worker } of processes) slots.receive(worker, stream(1, kind));
      const answers = () => processes.flatMap(({ answers }) => answers);
      await eventually(() => answers().length === 3, 'the answers');
      assert.equal(answers().filter(([, isFree]) => isFree).length, limit);
    });

  test('wait for one whose search has not ended', async () => {
    const slots = createGrantedSlots();
    const [one, two] = [process(1), process(2)];
    slots.receive(one.worker, stream(1));
    await eventually(() => one.answers.length, 'the first stream');
    slots.receive(one.worker, { kind: 'ending', id: 1 });
    slots.receive(two.worker, stream(1));
    await sleep(500); // beside a stream that goes on, it would be refused by now
    assert.deepEqual(two.answers, []);
    slots.receive(one.worker, { kind: 'release', id: 1 });
    await eventually(() => two.answers.length, 'the second stream');
    assert.deepEqual(two.answers, [[1, true]]);
  });

  const ways = {
    'their client leaves': (slots: ReturnType<typeof createGrantedSlots>, { worker }: { worker: Worker }) =>
      slots.receive(worker, { kind: 'release', id: 1 }),
    'their process ends': (slots: ReturnType<typeof createGrantedSlots>, it: ReturnType<typeof process>) => {
      it.end();
      slots.forget(it.worker);
    },
  };
  for (const [way, happen] of Object.entries(ways))
    for (const isWaiting of [false, true])
      test(`are free again when ${way}, ${isWaiting ? 'at once' : 'after the first has begun'}`, async () => {
        const slots = createGrantedSlots();
        const [one, two] = [process(1), process(2)];
        slots.receive(one.worker, stream(1));
        if (!isWaiting) await eventually(() => one.answers.length, 'the first stream');
        happen(slots, one);
        slots.receive(two.worker, stream(1));
        await eventually(() => two.answers.length, 'the second stream');
        assert.deepEqual(two.answers, [[1, true]]);
      });

  test('are free again after their maximum duration if their process does not run', async () => {
    const slots = createGrantedSlots({ anonymous: 1_500, user: 1_500, admin: 1_500 }, 500);
    const [frozen, two] = [process(1), process(2)];
    slots.receive(frozen.worker, stream(1));
    await eventually(() => frozen.answers.length, 'the first stream');
    const isFree = async (): Promise<boolean> => {
      const known = two.answers.length;
      slots.receive(two.worker, stream(known));
      await eventually(() => two.answers.length > known, 'an answer');
      return two.answers.at(-1)?.[1] ?? false;
    };
    await eventually(isFree, 'the second stream');
    assert.deepEqual(two.answers[0], [0, false]);
  });

  test('are asked for a few times at once only, while the first process does not answer', async () => {
    const child = fork('test/process/asking-worker.ts', { execArgv: ['--import', 'tsx'] });
    const exited = once(child, 'exit');
    let asked = 0;
    let refused: string | undefined;
    child.on('message', (message: ToParent) => {
      const start = { number: 2, processes: 2, countsStreams: true, secret: '' } as WorkerStart;
      if (message.kind === 'join') child.send({ kind: 'start', start });
      else if (message.kind === 'stream') asked += 1;
      else if (message.kind === 'ready') refused = message.text;
    });
    try {
      await eventually(() => refused, 'the refusals');
      assert.equal(refused, '6 6');
      assert.equal(asked, 8);
    } finally {
      child.kill();
      await exited;
    }
  });
});
