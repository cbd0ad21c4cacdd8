// A process whose log nobody reads, and signals that Node.js gives a meaning.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDatabase, eventually, request, type TestDatabase } from '../support.ts';
import { EXECUTABLE, REPOSITORY, folderWith, listening, serve, start, until } from './support.ts';
import { ask, lines } from './workers-support.ts';
import { after, before, describe, test } from 'node:test';

/** Writes lines of 1 KB to the log, says how many bytes wait for the reader, and goes on when something is on standard input. */
const PROGRAM = `
  import { once } from 'node:events';
  import { createLogger } from ${JSON.stringify(join(REPOSITORY, 'src/http/observability/logger.ts'))};
  const logger = createLogger('info');
  for (let line = 0; line < 20_000; line += 1) logger.info({ message: 'x'.repeat(1_000) });
  logger.flush();
  console.log(process.stderr.writableLength);
  await once(process.stdin, 'data');
  while (process.stderr.writableLength > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  logger.info({ message: 'the last line' });
  logger.flush();
  process.exit();`;

test('a log that nobody reads takes a bounded part of the memory, and says later how many lines were dropped', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', PROGRAM], {
    cwd: REPOSITORY,
    env: { PATH: process.env['PATH'] },
  });
  const [held] = (await once(child.stdout, 'data')) as [Buffer];
  assert.ok(Number(held) > 0 && Number(held) < 5 * 1024 * 1024, `${String(held)} bytes`);
  let log = '';
  child.stderr.on('data', (part) => (log += part));
  child.stdin.write('go on');
  await once(child, 'close');
  const lines = log
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { level: string; message: string });
  const notes = lines.flatMap(({ level, message }) => {
    const [, count] = /^(\d+) lines of the log were dropped/.exec(message) ?? [];
    return count === undefined ? [] : [{ level, count: Number(count) }];
  });
  assert.equal(lines.at(-1)?.message, 'the last line');
  assert.deepEqual(
    notes.map(({ level }) => level),
    ['warn'],
  );
  assert.equal(lines.length - 2 + (notes[0]?.count ?? 0), 20_000);
});

test('a log that nobody reads stops no process of WORKERS after a reload', async () => {
  const database = await createDatabase();
  try {
    const service = await serve({ env: { DATABASE_URL: database.url, WORKERS: '2' } });
    service.child.kill('SIGHUP');
    // The processes that end reset the standard error that all of them share.
    await until('the reload', () => lines(service, /"message":"reloaded"/) === 1);
    service.child.stderr?.pause();
    const path = `/healthz?${'x'.repeat(300)}`;
    for (let sent = 0; sent < 1_500; sent += 1) assert.equal((await ask(service.base, path)).status, 200);
    service.child.stderr?.resume();
    assert.equal((await service.stop()).code, 0);
  } finally {
    await database.drop();
  }
});

describe('a signal that Node.js gives a meaning', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
  });
  after(() => database.drop());

  for (const signal of ['SIGUSR1', 'SIGUSR2'] as const)
    test(`${signal} has no effect before the command has loaded either`, async () => {
      const cwd = await folderWith({
        // bin/vitrine.js adds the first listener.
        'early.mjs': `let isSent = false;
          process.on('newListener', (event) => {
            if (event !== 'SIGTERM' || isSent) return;
            isSent = true;
            setImmediate(() => process.kill(process.pid, '${signal}'));
          });`,
      });
      const words = ['--import', join(cwd, 'early.mjs'), EXECUTABLE, 'serve'];
      const env = { DATABASE_URL: database.url, PORT: '0' };
      const service = await listening(await start(words, { command: process.execPath, cwd, env }));
      const { stderr, code } = await service.stop();
      assert.doesNotMatch(stderr, /[Dd]ebugger/);
      assert.equal(code, 0);
    });

  for (const signal of ['SIGUSR1', 'SIGUSR2'] as const)
    test(`${signal} neither opens the debugger nor ends the service`, async () => {
      const service = await serve({ env: { DATABASE_URL: database.url } });
      service.child.kill(signal);
      await request(service.base, '/healthz');
      await sleep(300);
      assert.equal((await request(service.base, '/healthz')).status, 200);
      const { stderr, code } = await service.stop();
      assert.doesNotMatch(stderr, /[Dd]ebugger/);
      assert.equal(code, 0);
    });
});

test('a low limit of open files leaves connections to other clients, and the log says so', async () => {
  const database = await createDatabase();
  try {
    const program = await start(['-c', 'ulimit -n 250; exec "$0" "$1" serve', process.execPath, EXECUTABLE], {
      command: 'sh',
      env: { DATABASE_URL: database.url, PORT: '0', HOST: '127.0.0.1' },
    });
    const service = await listening(program);
    assert.match(service.stderr(), /only 50 connections at once, because a process may have 250 files open/);
    const idle = Array.from({ length: 300 }, () =>
      connect({ port: Number(new URL(service.base).port), host: '127.0.0.1', localAddress: '127.0.0.2' })
        .on('error', () => undefined)
        .resume(),
    );
    // A new connection beyond the limit is refused, and idle ones are closed in its favor.
    await eventually(
      () =>
        request(service.base, '/healthz').then(
          ({ status }) => status === 200,
          () => false,
        ),
      'a connection',
    );
    for (const socket of idle) socket.destroy();
    assert.equal((await service.stop()).code, 0);
  } finally {
    await database.drop();
  }
});
