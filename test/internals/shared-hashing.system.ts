import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readSettings } from '../../src/config.ts';
import { createWorkerHub } from '../../src/workers/worker-hub.ts';
import type { ToParent, ToWorker } from '../../src/workers/messages.ts';
import type { Worker } from '../../src/workers/worker.ts';
import { eventually } from '../http/expect.ts';
import { test } from 'node:test';

type Start = Extract<ToWorker, { kind: 'start' }>['start'];

test('with WORKERS, a client that leaves while another process hashes is not hashed', async () => {
  const child = fork('test/internals/hashing-worker.ts', { execArgv: ['--import', 'tsx'] });
  const exited = once(child, 'exit');
  const workers: Worker[] = [];
  const hub = createWorkerHub(
    readSettings({}),
    () => workers,
    () => '',
  );
  const worker = (number: number, send: Worker['send']): Worker => {
    const made = { number, send, hasJoined: () => true, gone: new AbortController().signal };
    workers.push(made as unknown as Worker);
    return made as unknown as Worker;
  };
  const given: ToWorker[] = [];
  const other = worker(1, (message) => given.push(message));
  const own = worker(2, (message) => {
    given.push(message);
    child.send(message);
  });
  let outcome: string | undefined;
  child.on('message', (message: ToParent) => {
    if (message.kind === 'join')
      child.send({ kind: 'start', start: { number: 2, processes: 2, secret: '' } as Start });
    else if (message.kind === 'ready') outcome = message.text;
    else hub.receive(own, message);
  });
  try {
    hub.receive(other, { kind: 'slot', id: 1, priority: 'new' });
    await eventually(() => outcome, 'the end of the wait');
    assert.equal(outcome, 'gone');
    hub.receive(other, { kind: 'release', id: 1 });
    hub.receive(other, { kind: 'slot', id: 2, priority: 'new' });
    await eventually(() => given.length === 3, 'the next place');
    assert.deepEqual(given, [
      { kind: 'slot', id: 1, isFree: true },
      { kind: 'slot', id: 1, isFree: false },
      { kind: 'slot', id: 2, isFree: true },
    ]);
    hub.receive(other, { kind: 'release', id: 2 });
  } finally {
    child.kill();
    await exited;
  }
});
