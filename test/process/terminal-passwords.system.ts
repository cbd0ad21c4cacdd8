import { verify } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createDatabase, type TestDatabase } from '../support.ts';
import { EXECUTABLE, serve, temporaryFolder, until } from './support.ts';
import { after, before, describe, test } from 'node:test';

/** `script` of util-linux, which runs a command on a terminal. */
const hasScript = /util-linux/.test(String(spawnSync('script', ['--version']).stdout ?? ''));

describe('user add on a terminal', { concurrency: 8 }, () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await (await serve({ env: { DATABASE_URL: database.url } })).stop(); // creates the tables
  });
  after(() => database.drop());

  /** Runs a command on a terminal, and types answers to its questions. Gives the exit code and the visible text. */
  async function runOnTerminal(
    words: readonly string[],
    answers: readonly [question: RegExp, answer: string][],
  ) {
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

  test('asks twice for the password, and does not show it', { skip: !hasScript }, async () => {
    const { code, shown } = await runOnTerminal(
      ['user', 'add', 'eve'],
      [
        [/Password: /, 'open, sesame'],
        [/Repeat password: /, 'open, sesame'],
      ],
    );
    assert.equal(code, 0, shown);
    assert.doesNotMatch(shown, /sesame/);
    assert.ok(await verify((await stored('eve')) ?? '', 'open, sesame'));
  });

  test('adds no user if the two passwords differ', { skip: !hasScript }, async () => {
    const { code, shown } = await runOnTerminal(
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
