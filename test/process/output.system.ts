// What a process writes: the format of its log, a log that nobody reads, and who may read the metrics.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createDatabase, eventually, request, useDatabase } from '../support.ts';
import {
  EXECUTABLE,
  folderWith,
  freePort,
  listening,
  REPOSITORY,
  run,
  serve,
  start,
  until,
} from './support.ts';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, lines } from './workers-support.ts';
import { answered, readExposition, valueOf } from './exposition.ts';
import { describe, test } from 'node:test';

describe('LOG_FORMAT', () => {
  const database = useDatabase();

  const TEXT = /^\S+ \S+Z INFO {2}GET \/healthz 200 \d+(?:\.\d)?ms 15B - id=\S+$/m;

  for (const [format, first] of [
    ['json', /^\{"time":.*"path":"\/healthz".*\}$/m],
    ['text', TEXT],
    [undefined, /^\{"time":.*"path":"\/healthz".*\}$/m],
  ] as const) {
    test(`${format ?? 'none, where standard error is no terminal,'} writes ${format ?? 'json'} without colours`, async () => {
      const env = { DATABASE_URL: database.url, ...(format && { LOG_FORMAT: format }) };
      const service = await serve({ env });
      await request(service.base, '/healthz');
      const { stderr } = await service.stop();
      assert.match(stderr, first);
      assert.ok(!stderr.includes('\u001b'));
    });
  }

  test('no other word is taken', async () => {
    const { code, stderr } = await run(['serve'], { env: { LOG_FORMAT: 'xml' } });
    assert.equal(code, 1);
    assert.match(stderr, /LOG_FORMAT must be one of json, text/);
  });

  // The script of util-linux gives a program a terminal.
  const hasScript = spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux');
  const options = { skip: hasScript ? false : 'there is no script of util-linux here' };
  for (const [name, env, isText, isColoured] of [
    ['a terminal gets text with colours', {}, true, true],
    ['a terminal gets no colours with NO_COLOR', { NO_COLOR: '1' }, true, false],
    ['an empty NO_COLOR counts for nothing', { NO_COLOR: '' }, true, true],
    ['a terminal gets JSON with LOG_FORMAT=json', { LOG_FORMAT: 'json' }, false, false],
  ] as const) {
    test(name, options, async () => {
      const program = await start(['-qefc', `'${process.execPath}' '${EXECUTABLE}' serve`, '/dev/null'], {
        command: 'script',
        env: { DATABASE_URL: database.url, PORT: '0', TERM: 'xterm', ...env },
      });
      await until('the service to listen', () => program.stdout().includes('listening on '));
      await request(/listening on (\S+)/.exec(program.stdout())?.[1] ?? '', '/healthz');
      await until('the line', () => program.stdout().includes('/healthz'));
      const output = program.stdout();
      const plain = output.replace(/\u001b\[\d+m/g, '').replaceAll('\r', ''); // eslint-disable-line no-control-regex -- colours
      assert.equal(TEXT.test(plain), isText, output);
      assert.equal(output.includes('\u001b['), isColoured, output);
      program.child.kill('SIGTERM');
      await program.ended;
    });
  }
});

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
    const [, count] = /^dropped (\d+) lines? of the log/.exec(message) ?? [];
    return count === undefined ? [] : [{ level, count: Number(count) }];
  });
  assert.equal(lines.at(-1)?.message, 'the last line');
  assert.deepEqual(
    notes.map(({ level }) => level),
    ['warn'],
  );
  assert.equal(lines.length - 2 + (notes[0]?.count ?? 0), 20_000);
});

test('a log that nobody reads stops no process of WORKERS after a reload', async (t) => {
  const database = await createDatabase();
  t.after(() => database.drop());
  const service = await serve({ env: { DATABASE_URL: database.url, WORKERS: '2' } });
  service.child.kill('SIGHUP');
  // The processes that end reset the standard error that all of them share.
  await until('the reload', () => lines(service, /"message":"reloaded"/) === 1);
  service.child.stderr?.pause();
  const path = `/healthz?${'x'.repeat(300)}`;
  for (let sent = 0; sent < 1_500; sent += 1) assert.equal((await ask(service.base, path)).status, 200);
  service.child.stderr?.resume();
  assert.equal((await service.stop()).code, 0);
});

describe('a signal that Node.js gives a meaning', () => {
  const database = useDatabase();

  for (const [signal, workers] of [
    ['SIGUSR1', '1'],
    ['SIGUSR2', '1'],
    ['SIGHUP', '1'],
    ['SIGHUP', '2'],
  ] as const)
    test(`${signal} has no effect before the command has loaded, with WORKERS=${workers}`, async () => {
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
      const env = { DATABASE_URL: database.url, PORT: '0', WORKERS: workers };
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

test('a low limit of open files leaves connections to other clients, and the log says so', async (t) => {
  const database = await createDatabase();
  t.after(() => database.drop());
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
});

describe('who may read the metrics', () => {
  test('with METRICS=HOST:PORT every client of that address, which serves nothing else', async () => {
    const database = await createDatabase();
    const address = `127.0.0.1:${await freePort()}`;
    const program = await serve({ env: { DATABASE_URL: database.url, METRICS: address } });
    const own = `http://${address}`;
    assert.equal((await request(program.base, '/metrics')).status, 404);
    await request(program.base, '/api/note/');
    const through = await request(own, '/metrics?x=1', { headers: { 'X-Forwarded-For': '10.0.0.1' } });
    assert.equal(valueOf(readExposition(through.text), answered('/api/{model}/', 'GET', 200)), 1);
    assert.equal((await request(own, '/api/note/')).status, 404);
    const post = await request(own, '/metrics', { method: 'POST' });
    assert.deepEqual([post.status, post.headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
    const again = await run(['serve'], { env: { DATABASE_URL: database.url, METRICS: address, PORT: '0' } });
    assert.equal(again.code, 1);
    assert.match(again.stderr, new RegExp(`^vitrine: Cannot listen on ${address}: `, 'm'));
    assert.equal((await program.stop()).code, 0);
    await database.drop();
  });

  test('what METRICS does not take ends the start', async () => {
    for (const METRICS of [
      'on',
      'loopback',
      '9464',
      ':9464',
      '127.0.0.1:',
      '127.0.0.1:70000',
      '::1:9464',
      'http://x:1',
    ]) {
      const { code, stderr } = await run(['serve'], { env: { METRICS } });
      assert.equal(code, 1, METRICS);
      assert.match(stderr, /METRICS must be off, or an address to listen on such as 127\.0\.0\.1:9464/);
    }
  });
});
