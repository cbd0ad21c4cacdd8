// A write with a lost answer may have been made: the response must not deny it.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createVitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, cheapHash, createDatabase, request, type Answer, type TestDatabase } from '../support.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import { startProxy, type Proxy } from '../process/proxy.ts';
import { before, describe, test } from 'node:test';

/** What happens to running statements, and whether their writes may have been made. */
const LOSSES: readonly [event: string, isUnknown: boolean, lose: (proxy: Proxy, sql: Sql) => unknown][] = [
  ['the connection is cut', true, (proxy) => proxy.cut()],
  ['the database no longer answers', true, (proxy) => proxy.swallow()],
  [
    'its session is terminated',
    true,
    (_, sql) => sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`,
  ],
  [
    'it is canceled',
    false,
    (_, sql) => sql`
      select pg_cancel_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`,
  ],
  ['its lock times out', false, () => undefined],
];
type Sql = TestDatabase['sql'];

describe('a statement without an answer', { concurrency: 8 }, () => {
  let password: string;
  before(async () => {
    password = await cheapHash('pw-bob');
  });

  /** Runs the work on a service behind a proxy, which remembers the credentials of `bob`. */
  async function behindProxy(
    work: (base: string, proxy: Proxy, database: TestDatabase) => Promise<void>,
  ): Promise<void> {
    const database = await createDatabase();
    const proxy = await startProxy(database.url);
    const vitrine = await createVitrine({
      databaseUrl: proxy.url,
      resources: [user, note],
      port: 0,
      log: () => undefined,
    });
    try {
      await database.sql`insert into "user" ${database.sql({ username: 'bob', password, email: '' })}`;
      const { url } = await vitrine.start();
      for (const message of ['first', 'second']) {
        const { status } = await request(url, '/api/note/', {
          method: 'POST',
          user: 'bob',
          body: { message },
        });
        assert.equal(status, 201);
      }
      await work(url, proxy, database);
    } finally {
      await proxy.close();
      await vitrine.close();
      await database.drop();
    }
  }

  const send = (base: string): Promise<Answer[]> =>
    Promise.all([
      request(base, '/api/note/?message__like=f%25'),
      request(base, '/api/note/', { method: 'POST', user: 'bob', body: { message: 'new' } }),
      request(base, '/api/note/1/', { method: 'PUT', user: 'bob', body: { message: 'changed' } }),
      request(base, '/api/note/2/', { method: 'DELETE', user: 'bob' }),
    ]);

  function assertUnavailable(answers: readonly Answer[], isUnknown: boolean): void {
    answers.forEach((answer, index) => {
      assertProblem(answer, 503);
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
      const isWrite = index > 0;
      const expected = isUnknown && isWrite ? /not known whether the change was made/ : /try again\.$/i;
      assert.match(answer.json.detail, expected);
      assert.equal(/not known/.test(answer.json.detail), isUnknown && isWrite);
    });
  }

  for (const [event, isUnknown, lose] of LOSSES) {
    const outcome = isUnknown ? 'it is unknown whether a write was made' : 'nothing was changed';
    test(`if ${event}: 503, and ${outcome}`, () =>
      behindProxy(async (base, proxy, { sql }) => {
        let answers: Answer[] = [];
        await sql.begin(async (transaction) => {
          await transaction`lock table note in access exclusive mode`;
          const sent = performance.now();
          const sending = send(base);
          await eventually(async () => {
            const waiting = await sql`select from pg_stat_activity
              where datname = current_database() and wait_event_type = 'Lock'`;
            return waiting.length === 4;
          }, 'the statements to wait');
          await lose(proxy, sql);
          answers = await sending;
          const seconds = (performance.now() - sent) / 1000;
          assert.ok(seconds < 20, `all is answered with the first deadline, and not after ${seconds} s`);
        });
        assertUnavailable(answers, isUnknown);
      }));
  }

  test('a late cancel request ends no statement of another client', () =>
    behindProxy(async (base, proxy, { sql }) => {
      // Longer than a connection waits for the answer to a cancel request before its next statement.
      proxy.delayCancels(6_500);
      const leaving = new AbortController();
      const put = (number: number, message: string, signal?: AbortSignal): Promise<Response> =>
        fetch(`${base}/api/note/${number}/`, {
          method: 'PUT',
          headers: { authorization: basic('bob'), 'content-type': 'application/json' },
          body: JSON.stringify({ message }),
          ...(signal && { signal }),
        });
      const waiting = async (): Promise<number> => {
        const found = await sql`select from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`;
        return found.length;
      };
      let honest: Promise<Response> | undefined;
      await sql.begin(async (transaction) => {
        await transaction`lock table note in access exclusive mode`;
        const left = put(1, 'left', leaving.signal);
        await eventually(async () => (await waiting()) === 1, 'the statement to wait');
        leaving.abort();
        await assert.rejects(left);
        // PostgreSQL ends the wait for the lock before the cancel request arrives.
        await eventually(async () => (await waiting()) === 0, 'the end of the statement');
        await sleep(300);
        honest = put(2, 'honest');
        await eventually(async () => (await waiting()) === 1, 'the statement of another client');
        await sleep(1_800);
      });
      assert.equal((await honest)?.status, 200);
    }));

  test('if it was never sent: 503, and nothing was changed', () =>
    behindProxy(async (base, proxy, { sql }) => {
      await proxy.refuse();
      assertUnavailable(await send(base), false);
      assert.deepEqual(
        (await sql`select message from note order by id`).map((row) => row['message']),
        ['first', 'second'],
      );
    }));
});
