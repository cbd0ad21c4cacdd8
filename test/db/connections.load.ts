import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createVitrine, type Panel, type Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import {
  type Answer,
  basic,
  cheapHash,
  closedAfter,
  createDatabase,
  pluck,
  request,
  sendAs,
  startService,
  type TestDatabase,
  type TestService,
  useService,
} from '../support.ts';
import { useAdmin } from '../admin/support.ts';
import { type Proxy, startProxy } from '../process/proxy.ts';

const guarded: Resource = {
  model: 'guarded',
  columns: { name: { type: 'string' } },
  access: 'user',
  admin: { search: ['name'] },
};

describe('connections that the database ends', () => {
  const service: TestService = useService([user, guarded], {}, () => service.addUser('ada'));

  const send = sendAs(service, 'ada');

  test('affect only the statement that was running', async () => {
    const { json } = await send('POST', '/api/guarded/', { name: 'held' });
    const path = `/api/guarded/${json.id}/`;
    for (let times = 0; times < 2; times += 1) {
      let cut: Promise<Answer> | undefined;
      await service.sql.begin(async (transaction) => {
        await transaction`select from guarded for update`;
        cut = send('PUT', path, { name: `cut ${times}` });
        await eventually(async () => {
          const ended = await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
          return ended.length > 0;
        }, 'the statement to wait');
        assertProblem(await cut, 503);
      });
      // As many as there are connections, so that each one is used.
      const after = await Promise.all(
        Array.from({ length: 16 }, (_, at) => send('PUT', path, { name: `after ${at}` })),
      );
      assert.deepEqual(
        [...new Set(after.map(({ status, text }) => (status === 200 ? 'done' : text)))],
        ['done'],
      );
    }
  });

  test('are all usable again after many cuts under load', async () => {
    const { json } = await send('POST', '/api/guarded/', { name: 'cut' });
    const path = `/api/guarded/${json.id}/`;
    const statuses = new Set<number>();
    let isOver = false;
    const client = async (at: number): Promise<void> => {
      while (!isOver) {
        const answer = await (at % 2 === 0
          ? service.request(`/api/guarded/?name=${at}&ordering=-id`)
          : send('PUT', path, { name: `by ${at}` }));
        statuses.add(answer.status);
      }
    };
    const clients = Promise.all(Array.from({ length: 24 }, (_, at) => client(at)));
    for (let times = 0; times < 40; times += 1) {
      await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'vitrine'`;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    isOver = true;
    await clients;
    assert.ok(
      [...statuses].every((status) => [200, 429, 503].includes(status)),
      String([...statuses]),
    );
    // Writes of one record take turns.
    const made = await Promise.all(
      Array.from({ length: 8 }, () => send('POST', '/api/guarded/', { name: 'one of many' })),
    );
    let held: Promise<Answer[]> | undefined;
    await service.sql.begin(async (transaction) => {
      await transaction`select from guarded for update`;
      held = Promise.all(
        made.map(({ json: { id } }) => send('PUT', `/api/guarded/${id}/`, { name: 'held' })),
      );
      await eventually(async () => {
        const waiting = await service.sql`select from pg_stat_activity
          where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
        return waiting.length >= 3;
      }, 'all connections that one client may use for changes');
    });
    assert.deepEqual([...new Set(pluck((await held) ?? [], 'status'))], [200]);
  });
});

/** What readers ask for: by key, first pages, filters, costly reads, streams, and pages of the admin area. */
const READS = [
  '/api/guarded/1/',
  '/api/note/7/',
  '/api/note/',
  '/api/note/?ordering=-message&limit=5',
  '/api/note/?message__like=%2599%25&page=3',
  '/api/note/?message__ilike=%25A%25B%25&ordering=message',
  '/api/seen/',
  '/readyz',
];
const STREAM = '/api/note/?id__lte=9';
const PAGES = ['/admin/', '/admin/guarded/?_search=el', '/admin/note/3/', '/admin/note/-/export.csv?id=3'];

const seen: Resource = { ...guarded, model: 'seen', identity: true };
const panels: Panel[] = [
  {
    title: 'Notes',
    load: async ({ query }) => ({
      columns: ['count'],
      rows: (await query('select count(*) from note')).map(({ count = null }) => [count]),
    }),
  },
];

describe('reads while the database ends all connections, again and again', () => {
  const { service, ada } = useAdmin([user, note, guarded, seen], { trustProxy: 1, panels }, async () => {
    await service.addUser('eve');
    await service.sql`insert into guarded (name) values ('held')`;
    await service.sql`insert into seen (name) values ('held')`;
    await service.sql`insert into note (message) select md5(i::text) from generate_series(1, 20000) i`;
  });

  test('are all answered', async () => {
    const made = await service.request('/api/-/tokens/', { method: 'POST', user: 'eve', body: {} });
    const cookie = [...ada.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    /** Each reader is a client of one of these kinds, with what it asks for in turn. */
    const kinds: readonly (readonly [headers: Record<string, string>, paths: readonly string[]])[] = [
      [{}, READS],
      [{ authorization: basic('eve') }, READS],
      [{ authorization: `Bearer ${made.json.token}` }, READS],
      [{ cookie }, PAGES],
      [{ accept: 'application/x-ndjson' }, [STREAM]],
    ];
    const failed: string[] = [];
    let isOver = false;
    /** How many answers each reader has got. */
    const turns = Array<number>(16).fill(0);
    const read = async (index: number): Promise<void> => {
      const [headers = {}, paths = []] = kinds[index % kinds.length] ?? [];
      for (let turn = 0; !isOver; turns[index] = turn += 1) {
        const path = paths[(index + turn) % paths.length] ?? '';
        const sent = { ...headers, 'x-forwarded-for': `10.2.0.${index}` };
        const answer = await service.request(path, { headers: sent }).catch(String);
        if (typeof answer === 'string') failed.push(`${path}: ${answer}`);
        else if (answer.status !== 200 || /could not be loaded/.test(answer.text))
          failed.push(`${path}: ${answer.status} ${answer.json?.detail}`);
      }
    };
    const readers = Promise.all(turns.map((_, index) => read(index)));
    for (let times = 0; times < 10; times += 1) {
      const before = [...turns];
      await eventually(
        () => turns.every((turn, index) => turn > (before[index] ?? 0) + 1),
        'answers to all readers',
      );
      await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'vitrine'`;
    }
    isOver = true;
    await readers;
    assert.deepEqual(failed, []);
  });
});

// A write with a lost answer may have been made: the response must not deny it.

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
      assert.deepEqual(pluck(await sql`select message from note order by id`, 'message'), [
        'first',
        'second',
      ]);
    }));
});

// A DATABASE_URL of several servers, and servers that close connections, freeze or accept no changes.

const RESOURCES = [user, note];

const sessionsOf = async ({ sql }: TestService): Promise<number[]> =>
  (
    await sql<{ pid: number }[]>`select pid from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' order by pid`
  ).map(({ pid }) => pid);

/** The sessions once those of the start have ended, which takes longer on a slow machine. */
async function settledSessionsOf(service: TestService): Promise<number[]> {
  for (let before = await sessionsOf(service); ;) {
    await sleep(500);
    const now = await sessionsOf(service);
    if (now.join() === before.join()) return now;
    before = now;
  }
}

for (const [cause, work] of [
  ['raises such an error', `raise exception 'no' using errcode = 'read_only_sql_transaction'`],
  [
    'makes its transaction read-only',
    `perform set_config('transaction_read_only', 'on', true); delete from "user"`,
  ],
])
  test(`after a write that a trigger refuses that ${cause}, all pools keep their connections`, async (t) => {
    const service = closedAfter(t, await startService(RESOURCES));
    await service.addUser('bob');
    await service.sql.unsafe(`create function refuse() returns trigger language plpgsql as $$
        begin if new.message = 'no' then ${work}; end if; return new; end $$;
        create trigger refuse before insert on note for each row execute function refuse()`);
    const post = async (message: string): Promise<number> =>
      (await service.request('/api/note/', { method: 'POST', user: 'bob', body: { message } })).status;
    assert.equal(await post('one'), 201);
    assert.equal((await service.request('/api/note/1/')).status, 200);
    let lost: number[] = [];
    // On a slow machine, a session may end for another reason. A defect would lose some each time: the pools are replaced at most
    // once a second.
    for (let tries = 0; tries < 3; tries += 1) {
      await sleep(1_100);
      const before = await settledSessionsOf(service);
      assert.notEqual(await post('no'), 201);
      assert.equal((await service.request('/api/note/1/')).status, 200);
      assert.equal(await post('two'), 201);
      const after = await sessionsOf(service);
      lost = before.filter((pid) => !after.includes(pid));
      if (lost.length === 0) break;
    }
    assert.deepEqual(lost, []);
  });
