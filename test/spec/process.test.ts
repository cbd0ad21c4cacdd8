import assert from 'node:assert/strict';
import { verify } from '@node-rs/argon2';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { basic, createDatabase, request, type TestDatabase } from '../support.ts';
import { addUser, EXECUTABLE, serve, temporaryFolder, until } from '../process/support.ts';

/** util-linux's `script`, which runs a command on a terminal of its own. */
const hasScript = /util-linux/.test(String(spawnSync('script', ['--version']).stdout ?? ''));

describe('the program', { concurrency: true, timeout: 90_000 }, () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await (await serve({ env: { DATABASE_URL: database.url } })).stop(); // makes the tables
    await addUser(database.sql, 'ada');
  });
  after(() => database.drop());

  test('listens where HOST says', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url, HOST: 'localhost' } });
    assert.match(service.base, /^http:\/\/localhost:[1-9]\d*$/);
    assert.equal((await request(service.base, '/readyz')).status, 200);
    assert.equal((await service.stop()).code, 0);
  });

  test('does not wait for a request in flight for much longer than the ten seconds of grace', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url } });
    const { hostname, port } = new URL(service.base);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    const head = [
      'POST /api/note/ HTTP/1.1',
      'Host: x',
      `Authorization: ${basic('ada')}`,
      'Content-Type: application/json',
      'Content-Length: 1000',
      'Expect: 100-continue',
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    await once(socket, 'data'); // the service waits for the body now
    service.child.kill('SIGTERM');
    const patience = new Promise((resolve) => setTimeout(resolve, 20_000, 'still there').unref());
    assert.notEqual(await Promise.race([service.ended, patience]), 'still there');
    assert.equal((await service.ended).code, 0);
    socket.destroy();
  });

  /** Types the answers to the questions of a command on a terminal. Gives the exit code and all that the terminal shows. */
  async function typed(words: readonly string[], answers: readonly [question: RegExp, answer: string][]) {
    const command = [process.execPath, EXECUTABLE, ...words].map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      cwd: await temporaryFolder(),
      env: {
        PATH: process.env['PATH'],
        HOME: process.env['HOME'],
        DATABASE_URL: database.url,
        LOG_LEVEL: 'error',
      },
    });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text));
    const ended = once(child, 'close');
    for (const [question, answer] of answers) {
      await until(`the question ${question.source}`, () => question.test(shown));
      child.stdin.write(`${answer}\r`);
    }
    const [code] = (await ended) as [number];
    child.stdin.destroy();
    return { code, shown };
  }

  const stored = async (username: string): Promise<string | undefined> => {
    const [row] = await database.sql`select password from "user" where username = ${username}`;
    return row && String(row['password']);
  };

  test(
    'asks for a password twice on a terminal, and does not show what is typed',
    { skip: !hasScript },
    async () => {
      const { code, shown } = await typed(
        ['user', 'add', 'eve'],
        [
          [/Password: /, 'open, sesame'],
          [/Repeat password: /, 'open, sesame'],
        ],
      );
      assert.equal(code, 0, shown);
      assert.doesNotMatch(shown, /sesame/);
      assert.ok(await verify((await stored('eve')) ?? '', 'open, sesame'));
    },
  );

  test('adds nobody where the two passwords differ', { skip: !hasScript }, async () => {
    const { code, shown } = await typed(
      ['user', 'add', 'zoe'],
      [
        [/Password: /, 'one password'],
        [/Repeat password: /, 'another'],
      ],
    );
    assert.equal(code, 1, shown);
    assert.match(shown, /do not match/);
    assert.equal(await stored('zoe'), undefined);
  });
});
