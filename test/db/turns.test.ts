// Requests that change the same records at the same time, and records that are locked.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReservedSql } from 'postgres';
import { after, before, describe, test } from 'node:test';
import { request as httpRequest } from 'node:http';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { users, useWritable, type WritableService } from './helpers.ts';
import { message, note, user } from '../../src/resources/registry.ts';
import { assertProblem, eventually, lockedOut, stopTime, whenAdmitted } from '../http/expect.ts';
import {
  type Answer,
  basic,
  cheapHash,
  closedAfter,
  createDatabase,
  request,
  startService,
  type TestDatabase,
  type TestService,
  pluck,
  waitingForLocks,
  startBeside,
  useService,
  type Sql,
} from '../support.ts';
import { requestText, wire } from '../http/wire.ts';
import { type Proxy, startProxy } from '../process/proxy.ts';
import { closeIdleConnections } from '../send.ts';
import { logIn, confirmImport, runBulk } from '../admin/support.ts';

/** How many writes wait for a connection. */
const queued = async ({ metrics }: Pick<TestService, 'metrics'>): Promise<number> =>
  Number(/^vitrine_lane_waiting\{lane="write"\} (\d+)$/m.exec(await metrics())?.[1]);

const WIDTH = 12;
const range = Array.from({ length: WIDTH }, (_, index) => index);

const resources: Resource[] = [
  {
    model: 'counter',
    columns: {
      label: { type: 'text', default: '' },
      ...Object.fromEntries(range.map((index) => [`c${index}`, { type: 'integer', default: 0 } as const])),
    },
    access: 'user',
  },
  {
    model: 'unique',
    columns: { code: { type: 'string', unique: true }, other: { type: 'integer', unique: true, null: true } },
    access: 'user',
  },
  {
    model: 'child',
    columns: { parent: { type: 'foreignKey', references: 'counter', onDelete: 'cascade' } },
    access: 'user',
  },
];

describe('concurrent requests', () => {
  let second: Awaited<ReturnType<typeof startBeside>>;
  let bases: string[];
  after(() => second.close());
  const service: WritableService = useWritable(resources, '', async () => {
    // A second instance on the same database: the results must not depend on a single process.
    second = await startBeside(service.url, [users, ...resources]);
    bases = [service.base, second.base];
    // Both remember the credentials first, so that logins do not influence the races.
    for (const base of bases) await at(base, 'PUT', '/api/counter/0/', {});
  });

  const at = (
    base: string,
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Answer> =>
    request(base, path, { method, body, headers: { authorization: basic('ada'), ...headers } });
  /** Sends all requests at once, alternating between the two instances. */
  const race = (
    count: number,
    send: (
      index: number,
    ) => [method: string, path: string, body?: object | undefined, headers?: Record<string, string>],
  ): Promise<Answer[]> =>
    Promise.all(
      Array.from({ length: count }, async (_, index) => {
        for (;;) {
          const answer = await at(bases[index % 2] ?? '', ...send(index));
          // On a slow machine, the service may ask a client to wait.
          if (answer.status !== 503 && answer.status !== 429) return answer;
          await sleep(100);
        }
      }),
    );
  const create = async (model: string, body: object): Promise<string> => {
    const { status, json, text } = await service.send('POST', `/api/${model}/`, body);
    assert.equal(status, 201, text);
    return `/api/${model}/${json.id}/`;
  };
  const statuses = (answers: readonly Answer[]): number[] => answers.map(({ status }) => status).sort();

  test('exactly one of parallel PUTs with the same If-Match wins, and the others change nothing', async () => {
    const path = await create('counter', {});
    for (let round = 0; round < 5; round += 1) {
      const { headers } = await service.request(path);
      const match = { 'if-match': headers.get('etag') ?? '' };
      const answers = await race(WIDTH, (index) => ['PUT', path, { label: `${round}.${index}`, [`c${index}`]: round + 1 }, match]); // prettier-ignore
      assert.deepEqual(statuses(answers), [200, ...Array<number>(WIDTH - 1).fill(412)]);
      const winner = answers.find(({ status }) => status === 200);
      const now = await service.request(path);
      assert.deepEqual(now.json, winner?.json);
      assert.equal(now.headers.get('etag'), winner?.headers.get('etag'));
    }
  });

  test('parallel PUTs of different columns lose no change', async () => {
    const path = await create('counter', { label: 'kept' });
    for (let round = 1; round <= 5; round += 1) {
      const answers = await race(WIDTH, (index) => ['PUT', path, { [`c${index}`]: round }]);
      assert.deepEqual(statuses(answers), Array<number>(WIDTH).fill(200));
      answers.forEach(({ json }, index) => assert.equal(json[`c${index}`], round));
      const { id, label, ...counts } = (await service.request(path)).json;
      assert.deepEqual([`/api/counter/${id}/`, label], [path, 'kept']);
      assert.deepEqual(Object.values(counts), Array<number>(WIDTH).fill(round));
    }
  });

  test('parallel PUTs of one column each return their own value, and one value remains', async () => {
    const path = await create('counter', {});
    const answers = await race(WIDTH, (index) => ['PUT', path, { label: `from ${index}` }]);
    answers.forEach(({ status, json }, index) =>
      assert.deepEqual([status, json.label], [200, `from ${index}`]),
    );
    assert.match((await service.request(path)).json.label, /^from \d+$/);
  });

  test('parallel DELETEs and PUTs get only 200, 404 and 412, and one DELETE wins, or one of those with If-Match', async () => {
    for (const isMatched of [true, false])
      for (let round = 0; round < 5; round += 1) {
        const path = await create('counter', {});
        const match = { 'if-match': (await service.request(path)).headers.get('etag') ?? '' };
        const answers = await race(WIDTH, (index) =>
          index % 4 === round % 4
            ? ['DELETE', path, undefined, isMatched ? match : {}]
            : ['PUT', path, { label: `${index}` }, isMatched || index % 2 ? match : {}],
        );
        for (const { status, text } of answers) assert.ok([200, 404, 412].includes(status), text);
        const count = answers.filter(({ text, status }) =>
          isMatched ? status === 200 : /"deleted"/.test(text),
        );
        assert.equal(count.length, 1);
        if (!isMatched) assert.equal((await service.request(path)).status, 404);
      }
  });

  test('one of parallel POSTs with the same unique value is 201, and the others are 409', async () => {
    for (const field of ['code', 'other']) {
      const answers = await race(WIDTH, (index) => ['POST', '/api/unique/', field === 'code' ? { code: 'one' } : { code: `${index}`, other: 7 }]); // prettier-ignore
      assert.deepEqual(statuses(answers), [201, ...Array<number>(WIDTH - 1).fill(409)]);
      const refused = answers.filter(({ status }) => status === 409);
      for (const { json } of refused) assert.deepEqual(Object.keys(json.errors), [field]);
      const { json } = await service.request(`/api/unique/?${field}=${field === 'code' ? 'one' : 7}`);
      assert.equal(json.objects.length, 1);
    }
  });

  test('one of parallel PUTs with the same unique value is 200, and the others are 409', async () => {
    const paths = await Promise.all(range.map((index) => create('unique', { code: `before ${index}` })));
    const answers = await race(WIDTH, (index) => ['PUT', paths[index] ?? '', { code: 'taken' }]);
    assert.deepEqual(statuses(answers), [200, ...Array<number>(WIDTH - 1).fill(409)]);
  });

  test('POSTs in parallel with the deletion of their parent leave no child behind', async () => {
    for (let round = 0; round < 5; round += 1) {
      const path = await create('counter', {});
      const parent = Number(path.split('/')[3]);
      const answers = await race(WIDTH, (index) =>
        index === WIDTH / 2 ? ['DELETE', path] : ['POST', '/api/child/', { parent }],
      );
      for (const { status, text } of answers) assert.ok([200, 201, 400, 409].includes(status), text);
      const { json } = await service.request(`/api/child/?parent=${parent}`);
      assert.deepEqual(json.objects, []);
    }
  });

  test('updates that lock each other in opposite order all succeed', async () => {
    const paths = [await create('counter', {}), await create('counter', {})];
    const children = await Promise.all(range.map((index) => create('child', { parent: Number(paths[index % 2]?.split('/')[3]) }))); // prettier-ignore
    const answers = await race(WIDTH * 2, (index) => {
      const parent = Number(paths[(index + 1) % 2]?.split('/')[3]);
      return index < WIDTH ? ['PUT', children[index] ?? '', { parent }] : ['PUT', paths[index % 2] ?? '', { label: `${index}` }]; // prettier-ignore
    });
    assert.deepEqual(statuses(answers), Array<number>(WIDTH * 2).fill(200));
  });
});

const WRITES = [
  ['PUT', { content: 'changed' }],
  ['DELETE', undefined],
] as const;

describe('a record that another transaction has locked', () => {
  let holder: ReservedSql;
  let eve: number;
  after(() => holder.release());
  const service: TestService = useService([user, message, note], {}, async () => {
    await service.addUser('bob');
    eve = await service.addUser('eve');
    holder = await service.sql.reserve();
  });

  async function create(): Promise<string> {
    const sent = { method: 'POST', user: 'bob', body: { content: 'as it was' } };
    return (await service.request('/api/message/', sent)).headers.get('location') ?? '';
  }
  const idOf = (path: string): number => Number(path.split('/')[3]);

  /** Sends a write of Bob, which waits until `change` is committed. */
  async function writeDuring(
    path: string,
    change: (id: number) => Promise<unknown>,
    method: string,
    body?: object,
  ): Promise<Answer> {
    await holder`begin`;
    await change(idOf(path));
    const answer = service.request(path, { method, user: 'bob', body });
    await lockedOut(service);
    await holder`commit`;
    return answer;
  }

  for (const [method, body] of WRITES) {
    test(`returns 403 to other users without waiting for the lock: ${method}`, async () => {
      const path = await create();
      await holder`begin`;
      await holder`update message set content = 'held' where id = ${idOf(path)}`;
      const answer = await service.request(path, { method, user: 'eve', body });
      await holder`rollback`;
      assertProblem(answer, 403);
      assert.equal((await service.request(path)).json.content, 'as it was');
    });

    for (const [outcome, status, change] of [
      [
        'is changed by its owner after the lock is released',
        200,
        (id: number) => holder`update message set content = 'held' where id = ${id}`,
      ],
      [
        'returns 403 if it has another owner by then',
        403,
        (id: number) => holder`update message set user_id = ${eve} where id = ${id}`,
      ],
      [
        'returns 404 if it is deleted by then',
        404,
        (id: number) => holder`delete from message where id = ${id}`,
      ],
    ] as const)
      test(`${outcome}: ${method}`, async () => {
        const path = await create();
        const answer = await writeDuring(path, change, method, body);
        assert.equal(answer.status, status, answer.text);
        if (status === 403) assert.equal((await service.request(path)).json.user_id, eve);
      });
  }

  test('does not block other writes: some of the waiting ones end with 503', async (t) => {
    const passTime = stopTime(t);
    // A client with a connection for writes leaves the last ones to others, and writes of one record take turns.
    const users = Array.from({ length: 10 }, (_, index) => `locked${index}`);
    for (const name of users) await service.addUser(name);
    const owners = users.flatMap((user) => [user, user]);
    const paths = await Promise.all(
      owners.map(async (user) => {
        const sent = { method: 'POST', user, body: { content: 'as it was' } };
        return (await service.request('/api/message/', sent)).headers.get('location') ?? '';
      }),
    );
    await eventually(async () => (await queued(service)) === 0, 'the events of the logins');
    await holder`begin`;
    await holder`select from message where id = any(${paths.map(idOf)}) for update`;
    let answered = 0;
    const all = paths.map(async (path, index) => {
      const sent = { method: 'PUT', user: owners[index] ?? '', body: { content: 'changed' } };
      const answer = await service.request(path, sent);
      answered += 1;
      return answer;
    });
    await lockedOut(service, 8);
    const created = Promise.all(Array.from({ length: 8 }, () => create()));
    await eventually(async () => (await queued(service)) === 20, 'the other writes');
    passTime(600);
    const others = await created;
    assert.equal(others.filter((path) => path !== '').length, 8);
    assert.ok(answered < all.length, 'the records are still locked');
    await holder`commit`;
    const answers = await Promise.all(all);
    const ended = answers.filter(({ status }) => status !== 200);
    assert.ok(ended.length > 0 && ended.length < answers.length);
    for (const answer of ended) {
      assertProblem(answer, 503);
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]/);
    }
  });

  test('or a table that is locked: reads that wait for it do not delay reads and writes of others', async () => {
    await service.sql`insert into note (message) values ('locked')`;
    // A client runs one page of unknown cost at a time.
    for (const path of ['/api/note/1/', '/api/user/'])
      assert.equal((await service.request(path)).status, 200);
    const { requests: blocked } = await service.sql.begin(async (own) => {
      await own`lock table note in access exclusive mode`;
      const requests = ['/api/note/1/', '/api/note/'].map((path) => service.request(path));
      await eventually(async () => {
        const waiting =
          await service.sql`select from pg_locks where relation = 'note'::regclass and not granted`;
        return waiting.count > 0;
      }, 'the wait for the lock');
      const answers = await Promise.all([
        service.request('/api/user/1/'),
        service.request('/api/user/'),
        service.request('/api/user/1/', { method: 'PUT', user: 'bob', body: {} }),
      ]);
      assert.deepEqual(pluck(answers, 'status'), [200, 200, 403]);
      return { requests };
    });
    // The lock may have taken more than 5 s on a slow machine.
    for (const { status } of await Promise.all(blocked)) assert.ok([200, 503].includes(status));
  });
});

// Many writes of one record, which wait for its lock.

const resource: Resource = { model: 'page', columns: { text: { type: 'text' } }, access: 'user' };
const OWNED: Resource[] = [
  {
    model: 'page',
    columns: { user: { type: 'foreignKey', references: 'user' }, text: { type: 'text' } },
    owner: 'user',
    access: 'user',
  },
  {
    model: 'line',
    columns: { on: { type: 'foreignKey', references: 'page' }, text: { type: 'text' } },
    access: 'user',
  },
];
const NAMES = ['bob', 'eve', 'mallory'];

describe('writes of one record that is locked', () => {
  const service: WritableService = useWritable([resource], '', async () => {
    for (const name of NAMES) await service.addUser(name);
    await service.sql`insert into page (text) select 'x' from generate_series(1, 3)`;
  });

  const write = (user: string, id: number, method = 'PUT') =>
    service.request(`/api/page/${id}/`, {
      method,
      user,
      headers: { 'content-type': 'application/json' },
      ...(method === 'PUT' ? { body: JSON.stringify({ text: user }) } : {}),
    });
  const waiting = () => waitingForLocks(service);

  test('have one connection, so that all others can be written', async (t) => {
    stopTime(t);
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      const sent = NAMES.flatMap((name) => Array.from({ length: 6 }, () => write(name, 1)));
      await eventually(async () => (await waiting()) === 1, 'a write that waits for the lock');
      for (const [name, id] of Object.entries({ bob: 2, ada: 3 }))
        assert.equal((await write(name, id)).status, 200);
      assert.equal(await waiting(), 1);
      return { answers: sent };
    });
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(new Set(statuses), new Set([200]));
  });

  test('are refused after two seconds, and leave nothing behind', async (t) => {
    const passTime = stopTime(t);
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      let refusals = 0;
      const sent = Array.from({ length: 5 }, async () => {
        const answer = await write('bob', 1, 'DELETE');
        refusals += 1;
        return answer;
      });
      const areWaiting = async () => (await waiting()) === 1 && (await queued(service)) === 4;
      await eventually(areWaiting, 'the writes that wait for the first');
      passTime(2_000);
      await eventually(() => refusals === 4, 'the refusals');
      return { answers: sent };
    });
    const all = await Promise.all(answers);
    assert.deepEqual(pluck(all, 'status').sort(), [200, 503, 503, 503, 503]);
    const [refused] = all.filter(({ status }) => status === 503);
    assert.match(refused?.headers.get('retry-after') ?? '', /^[1-9]$/);
    assert.match(refused?.json.detail, /keep changing this record/);
    assert.equal((await write('bob', 1)).status, 404);
  });
});

describe('writes that wait for locks', () => {
  const service: WritableService = useWritable(OWNED, '', async () => {
    for (const name of NAMES) ids.set(name, await service.addUser(name));
    await service.sql`insert into page (id, user_id, text) overriding system value
      select n, ${ids.get('eve')!}, 'x' from generate_series(1, 20) n`;
    await service.sql`insert into page (id, user_id, text) overriding system value values (100, ${ids.get('bob')!}, 'x')`;
    // PostgreSQL ends the wait for a lock after 5 s, so logins come before it.
    for (const name of [...NAMES, 'ada']) await put(name, 100);
  });
  const ids = new Map<string, number>();

  const put = (user: string, id: number) =>
    service.request(`/api/page/${id}/`, { method: 'PUT', user, body: { text: 'y' } });
  const post = (user: string, page: number) =>
    service.request('/api/line/', { method: 'POST', user, body: { on: page, text: 'x' } });

  test('do not keep others from a record that their client may not write', async (t) => {
    stopTime(t);
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id <= 20 for update`;
      const sent = Array.from({ length: 12 }, (_, index) => put('eve', index + 1));
      await eventually(async () => (await waitingForLocks(service)) >= 3, 'writes that wait for locks');
      const refused = Array.from({ length: 6 }, () => put('eve', 100));
      let isAnswered = false;
      void Promise.race([...sent, ...refused]).then(() => (isAnswered = true));
      for (let turn = 0; turn < 5; turn += 1) assert.equal((await put('bob', 100)).status, 200);
      assert.ok(!isAnswered);
      return { answers: [...sent, ...refused] };
    });
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(statuses.slice(-6), Array(6).fill(403));
  });

  test('of a referenced record leave connections to clients with no other write', async (t) => {
    stopTime(t);
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      const sent = ['eve', 'mallory', 'ada'].flatMap((user) =>
        Array.from({ length: 6 }, () => post(user, 1)),
      );
      await eventually(async () => (await waitingForLocks(service)) >= 6, 'writes that wait for the lock');
      let isAnswered = false;
      void Promise.race(sent).then(() => (isAnswered = true));
      for (let turn = 0; turn < 5; turn += 1) assert.equal((await put('bob', 100)).status, 200);
      assert.ok(!isAnswered);
      return { answers: sent };
    });
    for (const { status, text } of await Promise.all(answers)) assert.equal(status, 201, text);
  });

  test('end after 500 ms for a client that has waited for 100 ms, and for none that waits for a moment', async (t) => {
    const passTime = stopTime(t);
    const users = Array.from({ length: 9 }, (_, index) => `writer ${index}`);
    for (const name of users) {
      await service.addUser(name);
      assert.equal((await post(name, 2)).status, 201);
    }
    await eventually(async () => (await queued(service)) === 0, 'the events of the logins');
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      const locked = users.slice(1).map((user) => post(user, 1));
      await eventually(async () => (await waitingForLocks(service)) === 8, 'writes that wait for the lock');
      passTime(600);
      let isAnswered = false;
      const last = post(users[0] ?? '', 2);
      void Promise.race([...locked, last]).then(() => (isAnswered = true));
      await eventually(async () => (await queued(service)) === 1, 'the write that waits for a connection');
      await sleep(250); // the service looks for such a client twice
      assert.ok(!isAnswered);
      passTime(100);
      assert.equal((await last).status, 201);
      return { answers: locked };
    });
    assert.deepEqual(pluck(await Promise.all(answers), 'status').sort(), [
      ...Array<number>(7).fill(201),
      503,
    ]);
  });
});

const pair = {
  model: 'pair',
  access: 'user',
  columns: {
    content: { type: 'string', unique: true },
    other: { type: 'foreignKey', references: 'pair', null: true },
  },
} as const satisfies Resource;

/** An update holds its lock for a while, and then locks the other record. */
const DEADLOCK = `
  create function hold() returns trigger language plpgsql as $$
    begin
      perform pg_sleep(0.2);
      perform from pair where id = new.other_id for update;
      return null;
    end $$;
  create trigger hold after update on pair for each row execute function hold()`;

test('two writes that deadlock both succeed, and each is made once', async (t) => {
  const service = closedAfter(t, await startService([user, pair]));
  await service.addUser('bob');
  await service.sql.unsafe(DEADLOCK);
  const write = (path: string, method: string, body: object) =>
    service.request(path, { method, user: 'bob', body });
  for (const content of ['a', 'b'])
    assert.equal((await write('/api/pair/', 'POST', { content })).status, 201);
  const answers = await Promise.all([
    write('/api/pair/1/', 'PUT', { content: 'c', other_id: 2 }),
    write('/api/pair/2/', 'PUT', { content: 'd', other_id: 1 }),
  ]);
  assert.deepEqual(
    answers.map(({ status, json }) => [status, json.content]),
    [
      [200, 'c'],
      [200, 'd'],
    ],
  );
  const { count } = await service.sql`
      select from vitrine_history where model = 'pair' and action = 'update'`;
  assert.equal(count, 2);
});

const slow: Resource = { model: 'slow', columns: { x: { type: 'text' } }, access: 'user' };
const WAITING = `
  create function wait() returns trigger language plpgsql as $$ begin perform pg_sleep(600); return new; end $$;
  create table slow (id integer generated by default as identity primary key, x text not null);
  create trigger wait before insert on slow for each row execute function wait();`;

describe('a client that disconnects', () => {
  const service: WritableService = useWritable([slow], WAITING);

  const open = async (): Promise<number> =>
    (
      await service.sql`select from pg_stat_activity where datname = current_database() and xact_start is not null
        and application_name = 'vitrine' and wait_event = 'PgSleep'`
    ).length;

  for (const [what, body] of [
    ['a record', { x: 'one' }],
    ['an array', [{ x: 'one' }, { x: 'two' }]],
  ] as const)
    test(`ends the transaction that would have created ${what}`, async () => {
      const sent = httpRequest(`${service.base}/api/slow/`, {
        method: 'POST',
        headers: { authorization: basic('ada'), 'content-type': 'application/json' },
      });
      sent.on('error', () => undefined);
      sent.end(JSON.stringify(body));
      await eventually(async () => (await open()) === 1, 'the insert to run');
      sent.destroy();
      await eventually(async () => (await open()) === 0, 'the insert to end');
      assert.equal((await service.sql`select from slow`).length, 0);
    });

  test('ends its transaction also with HTTP/1.0', async () => {
    const client = wire(service);
    const sent = requestText('POST', '/api/slow/', { authorization: basic('ada') }, '{"x":"one"}');
    client.send(sent.replace('HTTP/1.1', 'HTTP/1.0'));
    await eventually(async () => (await open()) === 1, 'the insert to run');
    client.destroy();
    await eventually(async () => (await open()) === 0, 'the insert to end');
    assert.equal((await service.sql`select from slow`).length, 0);
  });
});

// A write of a table with a trigger is read back in one transaction. A request to cancel may hit BEGIN, ROLLBACK and the rest, too.

const item: Resource = {
  model: 'item',
  columns: { name: { type: 'string', unique: true }, note: { type: 'string', default: '' } },
  access: 'user',
};
const TRIGGER = `
  create function add_note() returns trigger language plpgsql as
  $$ begin update item set note = 'by a trigger' where id = new.id; return null; end $$;
  create trigger add_note after insert on item for each row execute function add_note()`;
const READ_BACK = 'set constraints all immediate';

describe('a command of a transaction that fails', () => {
  let database: TestDatabase;
  let proxy: Proxy;
  let vitrine: Vitrine;
  let base: string;

  const post = (name: string): Promise<Answer> =>
    request(base, '/api/item/', { method: 'POST', user: 'ada', body: { name } });
  const namesOf = async (table: string): Promise<unknown[]> =>
    (await database.sql.unsafe(`select * from ${table} order by 1`)).map(
      ({ name, changes }) => name ?? changes.name,
    );
  /** The sessions of the service in an open transaction. */
  const open = async (): Promise<number> =>
    (
      await database.sql`select from pg_stat_activity where datname = current_database()
        and application_name = 'vitrine' and state like 'idle in transaction%'`
    ).count;

  before(async () => {
    database = await createDatabase();
    proxy = await startProxy(database.url);
    const options = { databaseUrl: proxy.url, resources: [user, item], port: 0, log: () => undefined };
    await (await createVitrine(options)).close();
    await database.sql.unsafe(TRIGGER);
    vitrine = await createVitrine(options);
    base = (await vitrine.start()).url;
    const ada = { username: 'ada', password: await cheapHash('pw-ada'), email: '' };
    await database.sql`insert into "user" ${database.sql(ada)}`;
    for (const name of ['first', 'second']) {
      const { status, json } = await post(name);
      assert.deepEqual([status, json.note], [201, 'by a trigger']);
    }
  });
  after(async () => {
    closeIdleConnections(base);
    await vitrine.close();
    await proxy.close();
    await database.drop();
  });

  test('leaves a refused write refused if it is ROLLBACK, and no transaction open', async () => {
    for (let round = 0; round < 10; round += 1) {
      proxy.spoil('rollback\0');
      const answer = await post('first');
      assertProblem(answer, 409);
      assert.match(answer.json.errors.name[0], /another record/);
    }
    assert.equal((await post('third')).status, 201);
    assert.equal(await open(), 0);
    assert.deepEqual(await namesOf('item'), ['first', 'second', 'third']);
  });

  test('leaves a write made if it is BEGIN', async () => {
    proxy.spoil('begin\0');
    const { status, json } = await post('fourth');
    assert.deepEqual([status, json.note], [201, 'by a trigger']);
    assert.equal((await database.sql`select from item where name = 'fourth'`).count, 1);
  });

  test('leaves a refused write refused if it is BEGIN', async () => {
    proxy.spoil('begin\0');
    assertProblem(await post('first'), 409);
    assert.equal(await open(), 0);
  });

  test('undoes the write if it is one after BEGIN', async () => {
    for (const command of [`${READ_BACK};`, 'commit\0']) {
      proxy.spoil(command);
      assertProblem(await post('fifth'), 500, command);
      assert.equal((await database.sql`select from item where name = 'fifth'`).count, 0);
      assert.equal(await open(), 0);
    }
  });

  test('does not deny the change if it follows a BEGIN that failed, too', async () => {
    proxy.spoil('begin\0');
    proxy.spoil(`${READ_BACK};`);
    const answer = await post('sixth');
    assertProblem(answer, 503);
    assert.match(answer.json.detail, /It is not known whether the change was made/);
    assert.equal((await database.sql`select from item where name = 'sixth'`).count, 1);
    assert.equal((await post('seventh')).status, 201);
  });
});

// Functions of the database may change any setting of the session that runs them.

const columns = {
  command: { type: 'text', null: true },
  at: { type: 'datetime', null: true },
  day: { type: 'date', null: true },
  ratio: { type: 'float', null: true },
  tags: { type: 'array', of: 'string', null: true },
} as const;
const sessionResources: Resource[] = [
  { model: 'event', columns, access: 'user' },
  ...['triggered', 'late', 'checked'].map((model): Resource => ({
    model,
    columns: { command: { type: 'text' } },
    access: 'user',
  })),
  { model: 'defaulted', columns: { at: columns.at, tags: columns.tags }, access: 'user' },
  {
    model: 'seen',
    primaryKey: { type: 'integer' },
    columns: { command: { type: 'text' }, at: { type: 'datetime', null: true } },
    methods: ['GET'],
  },
];

const DDL = `
  create function run(command text) returns boolean language plpgsql volatile as $$ begin
    execute command; return true; end $$;
  create function run_new() returns trigger language plpgsql as $$ begin
    execute new.command; return new; end $$;
  create table event (id serial primary key, command text, at timestamptz, day date, ratio float8, tags text[]);
  create function run_set() returns text language plpgsql as $$ begin
    set time zone 'Asia/Tokyo'; set array_nulls = off; return 'by default'; end $$;
  create table defaulted (id serial primary key, name text default run_set(), at timestamptz, tags text[]);
  create trigger runs before insert or update on event for each row when (new.command is not null) execute function run_new();
  create table triggered (id serial primary key, command text not null);
  create trigger runs after insert on triggered for each row execute function run_new();
  create table late (id serial primary key, command text not null);
  create constraint trigger runs after insert on late deferrable initially deferred for each row execute function run_new();
  create table checked (id serial primary key, command text not null check (run(command)));
  create table commands (id serial primary key, command text not null, at timestamptz);
  create view seen as select id, command, at from commands where run(command)`;

/** What statements may leave behind. */
const COMMANDS: Record<string, string> = {
  'the time zone': `set time zone 'America/New_York'`,
  'the style of dates': `set datestyle = 'German'`,
  'both at once': `select set_config('timezone', 'Asia/Tokyo', false), set_config('datestyle', 'SQL, DMY', false)`,
  'the search path': `set search_path = pg_catalog`,
  'the role': `set role pg_monitor`,
  'the session user': `set session authorization pg_monitor`,
  'the meaning of backslashes': `set standard_conforming_strings = off`,
  'NULL in arrays': `set array_nulls = off`,
  'the digits of floats': `set extra_float_digits = -10`,
  'the encoding': `set client_encoding = 'LATIN1'`,
  'a read-only default': `set default_transaction_read_only = on`,
  'a time limit': `set statement_timeout = '1ms'`,
  'the role of replication': `set session_replication_role = replica`,
  'a temporary table in front of a table': `create temp table if not exists event (like event including all)`,
};

const CLEAN = {
  at: '2024-05-31 12:00:00',
  day: '2024-05-31',
  ratio: 0.1234567890123456,
  tags: ['ö\\', null],
};
const BODY = { at: '2024-05-31T12:00:00Z', day: CLEAN.day, ratio: CLEAN.ratio, tags: CLEAN.tags };
const COUNT = 12; // more than the connections that share the work

const atOnce = <T>(work: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: COUNT }, (_, index) => work(index)));

/** The rows that have been written last, as another session finds them. */
const latest = async (sql: Sql, count: number): Promise<unknown[]> => {
  const rows = await sql`
    select at::text, day::text, ratio, array_to_string(tags, ',', '(none)') as tags from event order by id desc limit ${count}`;
  return rows.map((row) => ({ ...row }));
};
const STORED = { at: '2024-05-31 12:00:00+00', day: CLEAN.day, ratio: CLEAN.ratio, tags: 'ö\\,(none)' };

/** Writes and reads on all connections, and compares with what another session finds. */
async function assertClean({ send, request, sql }: WritableService): Promise<void> {
  const made = await atOnce(() => whenAdmitted(() => send('POST', '/api/event/', BODY)));
  for (const { status, json } of made) {
    assert.deepEqual([status, json], [201, { id: json.id, command: null, ...CLEAN }]);
  }
  const ids = made.map(({ json }) => Number(json.id));
  assert.deepEqual(await latest(sql, COUNT), Array(COUNT).fill(STORED));
  const reads = await atOnce(async (index) => {
    const id = ids[index % ids.length];
    const query = `id__in=${id}&at=2024-05-31T12:00:00Z&ordering=-day`;
    const one = await whenAdmitted(() => request(`/api/event/${id}/`));
    const list = await whenAdmitted(() => request(`/api/event/?${query}`));
    assert.deepEqual([one.status, list.status], [200, 200]);
    return [one.json, list.json.objects?.[0]];
  });
  for (const found of reads.flat())
    assert.deepEqual({ at: found.at, day: found.day, ratio: found.ratio, tags: found.tags }, CLEAN);
}

describe('what a function has left in its session does not reach other statements:', () => {
  const service: WritableService = useWritable(sessionResources, (sql) => sql.unsafe(DDL).simple());
  const send: WritableService['send'] = (...all) => service.send(...all);

  for (const [name, command] of Object.entries(COMMANDS))
    describe(name, () => {
      for (const model of ['triggered', 'late', 'checked'])
        test(`by a write (${model})`, async () => {
          await atOnce(() => send('POST', `/api/${model}/`, { command }));
          await assertClean(service);
        });

      test('by a read', async () => {
        await service.sql`truncate commands restart identity`;
        await service.sql`insert into commands (command) values (${command})`;
        for (const path of ['1/', '', '?command__ne=x&ordering=-id']) {
          await atOnce(() => service.request(`/api/seen/${path}`));
          await assertClean(service);
        }
      });
    });

  const ZONES = `select set_config('timezone', 'Asia/Tokyo', false), set_config('datestyle', 'SQL, DMY', false),
    set_config('array_nulls', 'off', false), set_config('extra_float_digits', '-10', false)`;

  test('a lock', async () => {
    const { status } = await send('POST', '/api/triggered/', { command: 'select pg_advisory_lock(7)' });
    assert.equal(status, 201);
    await service.sql.begin(async (sql) => {
      await sql`set local lock_timeout = '5s'`;
      await sql`select pg_advisory_xact_lock(7)`;
    });
  });

  test('the values beside a default', async () => {
    const { at, tags } = BODY;
    for (const body of [{ at, tags }, [{ at, tags }]])
      assert.equal((await send('POST', '/api/defaulted/', body)).status, 201);
    const rows =
      await service.sql`select at::text, array_to_string(tags, ',', '(none)') as tags from defaulted`;
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      Array(2).fill({ at: STORED.at, tags: STORED.tags }),
    );
    await assertClean(service);
  });

  test('the next records of an array', async () => {
    const made = await send('POST', '/api/event/', [
      { command: ZONES },
      BODY,
      { ...BODY, command: ZONES },
      BODY,
    ]);
    assert.equal(made.status, 201);
    assert.deepEqual(await latest(service.sql, 3), Array(3).fill(STORED));
    await assertClean(service);
  });

  test('the next rows of an import', async () => {
    const browser = await logIn(service, 'ada');
    const { ratio, day } = CLEAN;
    const line = `2024-05-31 12:00:00,${day},${ratio},"[""ö\\\\"",null]"`;
    const text = [
      'command,at,day,ratio,tags',
      `"${ZONES}",,,,`,
      `,${line}`,
      `"${ZONES}",${line}`,
      `,${line}`,
    ].join('\n');
    const path = '/admin/event/-/import/';
    const preview = await browser.post(path, { _text: text });
    assert.match(preview.text, /name="_digest"/, preview.text);
    const done = await confirmImport(browser, path, preview);
    assert.equal(done.status, 303, done.text);
    assert.deepEqual(await latest(service.sql, 3), Array(3).fill(STORED));
    await assertClean(service);
  });

  test('the next records of a bulk change', async () => {
    await service.sql`truncate event`;
    await send('POST', '/api/event/', Array(3).fill({ command: ZONES }));
    const browser = await logIn(service, 'ada');
    const choice = { _all: '1', _action: 'set', _column: 'at', at: '2024-05-31T12:00:00' };
    const done = await runBulk(browser, 'event', choice);
    assert.equal(done.status, 303, done.text);
    const rows = await service.sql`select at::text from event`;
    assert.deepEqual(pluck(rows, 'at'), Array(3).fill(STORED.at));
    await assertClean(service);
  });

  test('the next batches of a stream', async () => {
    await service.sql`truncate commands restart identity`;
    await service.sql`insert into commands (command, at) select case when n = 5 then ${ZONES} else 'select 1' end, '2024-05-31 12:00:00Z' from generate_series(1, 100) n`;
    const { text } = await service.request('/api/seen/?ordering=id', {
      headers: { accept: 'application/x-ndjson' },
    });
    const late = text.trimEnd().split('\n').slice(-80);
    assert.equal(late.length, 80);
    for (const one of late) assert.match(one, /"at":"2024-05-31 12:00:00"/);
  });
});

describe('with prepare=false', () => {
  const service: WritableService = useWritable(
    sessionResources,
    (sql) => sql.unsafe(DDL).simple(),
    undefined,
    {
      parameters: { prepare: 'false' },
    },
  );

  for (const name of [
    'the time zone',
    'the style of dates',
    'the meaning of backslashes',
    'the session user',
  ])
    test(`a change of ${name}, which PostgreSQL reports, does not reach other statements`, async () => {
      const command = COMMANDS[name];
      await Promise.all(Array.from({ length: COUNT }, () => service.send('POST', '/api/late/', { command })));
      await assertClean(service);
    });
});
