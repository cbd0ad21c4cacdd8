// Requests that change the same records at the same time, and records that are locked.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { startWith, users, type WritableService } from '../db/helpers.ts';
import type { ReservedSql } from 'postgres';
import { message, note, user } from '../../src/resources/registry.ts';
import { assertProblem, eventually, lockedOut } from '../http/expect.ts';
import { basic, request, startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

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
  let service: WritableService;
  let second: Vitrine;
  let bases: string[];
  before(async () => {
    service = await startWith(resources);
    // A second instance on the same database: the results must not depend on a single process.
    const options = {
      databaseUrl: service.url,
      resources: [users, ...resources],
      port: 0,
      log: () => undefined,
    };
    second = await createVitrine(options);
    bases = [service.base, (await second.start()).url];
    // Both remember the credentials first, so that logins do not influence the races.
    for (const base of bases) await at(base, 'PUT', '/api/counter/0/', {});
  });
  after(async () => {
    await second.close();
    await service.close();
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

  test('exactly one of parallel PUTs and DELETEs with the same If-Match wins', async () => {
    for (let round = 0; round < 5; round += 1) {
      const path = await create('counter', {});
      const { headers } = await service.request(path);
      const match = { 'if-match': headers.get('etag') ?? '' };
      const answers = await race(WIDTH, (index) =>
        index % 3 === round % 3
          ? ['DELETE', path, undefined, match]
          : ['PUT', path, { label: `${index}` }, match],
      );
      const found = statuses(answers);
      assert.equal(found.filter((status) => status === 200).length, 1, found.join());
      assert.ok(found.every((status) => [200, 404, 412].includes(status)), found.join()); // prettier-ignore
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

  test('parallel DELETEs and PUTs get only 200, 404 and 412, and one DELETE wins', async () => {
    for (let round = 0; round < 5; round += 1) {
      const path = await create('counter', {});
      const tag = (await service.request(path)).headers.get('etag') ?? '';
      const answers = await race(WIDTH, (index) => {
        if (index % 4 === round % 4) return ['DELETE', path];
        return ['PUT', path, { label: `${index}` }, index % 2 ? { 'if-match': tag } : {}];
      });
      for (const { status, text } of answers) assert.ok([200, 404, 412].includes(status), text);
      assert.equal(answers.filter(({ text }) => /"deleted"/.test(text)).length, 1);
      assert.equal((await service.request(path)).status, 404);
    }
  });

  test('one of parallel DELETEs is 200, and the others are 404', async () => {
    const path = await create('counter', {});
    const answers = await race(WIDTH, () => ['DELETE', path]);
    assert.deepEqual(statuses(answers), [200, ...Array<number>(WIDTH - 1).fill(404)]);
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
  let service: TestService;
  let holder: ReservedSql;
  let bob: number;
  let eve: number;
  before(async () => {
    service = await startService([user, message, note]);
    bob = await service.addUser('bob');
    eve = await service.addUser('eve');
    holder = await service.sql.reserve();
  });
  after(async () => {
    holder.release();
    await service.close();
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

    test(`is changed by its owner after the lock is released: ${method}`, async () => {
      const path = await create();
      const answer = await writeDuring(
        path,
        (id) => holder`update message set content = 'held' where id = ${id}`,
        method,
        body,
      );
      assert.equal(answer.status, 200);
    });

    test(`returns 403 if it has another owner by then: ${method}`, async () => {
      const path = await create();
      const answer = await writeDuring(
        path,
        (id) => holder`update message set user_id = ${eve} where id = ${id}`,
        method,
        body,
      );
      assertProblem(answer, 403);
      assert.equal((await service.request(path)).json.user_id, eve);
    });

    test(`returns 404 if it is deleted by then: ${method}`, async () => {
      const path = await create();
      const answer = await writeDuring(
        path,
        (id) => holder`delete from message where id = ${id}`,
        method,
        body,
      );
      assertProblem(answer, 404);
    });

    test(`can be changed by its new owner: ${method}`, async () => {
      const path = await create();
      await service.sql`update message set user_id = ${eve} where id = ${idOf(path)}`;
      assertProblem(await service.request(path, { method, user: 'bob', body }), 403);
      await service.sql`update message set user_id = ${bob} where id = ${idOf(path)}`;
      const answer = await service.request(path, { method, user: 'bob', body });
      assert.equal(answer.status, 200);
    });
  }

  test('does not block other writes: some of the waiting ones end with 503', async () => {
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
    await holder`begin`;
    await holder`select from message where id = any(${paths.map(idOf)}) for update`;
    let answered = 0;
    const all = paths.map(async (path, index) => {
      const sent = { method: 'PUT', user: owners[index] ?? '', body: { content: 'changed' } };
      const answer = await service.request(path, sent);
      answered += 1;
      return answer;
    });
    await lockedOut(service);
    const others = await Promise.all(Array.from({ length: 8 }, () => create()));
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
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 403],
      );
      return { requests };
    });
    // The lock may have taken more than 5 s on a slow machine.
    for (const { status } of await Promise.all(blocked)) assert.ok([200, 503].includes(status));
  });
});
