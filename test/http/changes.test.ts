// The change feed: GET /api/-/changes/.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import postgres from 'postgres';
import { createVitrine, type Resource, type Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { basic, pluck, useService, type Answer } from '../support.ts';
import { assertProblem, assertUnauthorized, eventually, fromNewAddress } from './expect.ts';
import { describe, test } from 'node:test';

/* eslint-disable @typescript-eslint/no-explicit-any -- changes have any values */

/** How often a client of the feed is killed. */
const KILLS = Number(process.env['FEED_KILLS'] ?? 5);

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
} satisfies Resource;
const text = { text: { type: 'text' } } as const;

const RESOURCES: readonly Resource[] = [
  user,
  { model: 'note', columns: text, access: 'user' },
  { model: 'silent', columns: text, access: 'user', history: false },
  { model: 'ledger', columns: text, read: 'admin', access: 'admin' },
  { model: 'ticket', columns: { ...text, secret: { type: 'text', null: true, read: 'admin' } }, access: 'user' },
  {
    model: 'letter',
    columns: { ...text, owner: { type: 'foreignKey', references: 'user' } },
    owner: 'owner',
    rows: { read: 'owner=$me' },
    access: 'user',
  },
  {
    model: 'stock',
    primaryKey: { type: 'string' },
    columns: { ...text, owner: { type: 'foreignKey', references: 'user' } },
    owner: 'owner',
    rows: { read: 'owner=$me' },
    access: 'user',
  },
  { model: 'setting', columns: { value: { type: 'json' } }, primaryKey: { type: 'string' }, access: 'user' },
]; // prettier-ignore
const roles: Roles = { reader: {}, outsider: {} };

type Change = any;

interface Events {
  readonly status: number;
  readonly changes: Change[];
  /** The ids of all events, heartbeats included. */
  readonly ids: string[];
  /** What was sent, without the changes. */
  readonly silent: string[];
  /** Resolves when the stream has ended. */
  readonly ended: Promise<void>;
  readonly close: () => void;
}

/** Opens a stream of events. */
function follow(base: string, query: string, headers: Record<string, string>): Promise<Events> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      `${base}/api/-/changes/${query}`,
      { headers: { accept: 'text/event-stream', ...headers } },
      (response) => {
        const [changes, ids, silent]: [Change[], string[], string[]] = [[], [], []];
        let rest = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => {
          const blocks = `${rest}${chunk}`.split('\n\n');
          rest = blocks.pop() ?? '';
          silent.push(...blocks.filter((block) => !block.includes('data: ')));
          for (const block of blocks)
            for (const line of block.split('\n')) {
              if (line.startsWith('id: ')) ids.push(line.slice(4));
              if (line.startsWith('data: ')) changes.push(JSON.parse(line.slice(6)));
            }
        });
        const ended = new Promise<void>((end) => response.on('close', end));
        response.on('error', () => undefined);
        resolve({
          status: response.statusCode ?? 0,
          changes,
          ids,
          silent,
          ended,
          close: () => sent.destroy(),
        });
      },
    );
    sent.on('error', reject);
    sent.end();
  });
}

describe('the change feed', () => {
  const service = useService(RESOURCES, { roles, changes: ['reader'], trustProxy: 1 }, async () => {
    for (const [name, more] of Object.entries<Record<string, unknown>>({
      ada: { admin: true },
      eve: { role: 'reader' },
      sue: { role: 'reader' },
      tom: { role: 'outsider' },
    }))
      await service.addUser(name, more);
  });
  const as = (name: string): Record<string, string> => ({ authorization: basic(name) });
  const get = (name: string, query = '', headers: Record<string, string> = {}): Promise<Answer> =>
    service.request(`/api/-/changes/${query}`, { user: name, headers });
  async function send(name: string, method: string, path: string, body?: unknown): Promise<any> {
    const answer = await service.request(`/api/${path}`, { method, user: name, ...(body !== undefined && { body }) }); // prettier-ignore
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  }
  /** The cursor of the present. */
  const now = async (name = 'ada'): Promise<string> => {
    const { json, text: body } = await get(name, '?after=now');
    assert.ok(json.meta, body);
    return json.meta.after as string;
  };
  /** The changes that a user sees after a cursor. */
  const changesAfter = async (cursor: string, name = 'ada'): Promise<Change[]> => {
    const { status, json, text: body } = await get(name, `?after=${cursor}`);
    assert.equal(status, 200, body);
    return json.objects as Change[];
  };

  /** The lines of NDJSON after a cursor: the changes, and at last the position. */
  async function linesAfter(cursor: string, name = 'ada'): Promise<{ changes: Change[]; meta: Change }> {
    const { text: body } = await get(name, `?after=${cursor}`, { accept: 'application/x-ndjson' });
    const lines = body.trimEnd().split('\n').map((line) => JSON.parse(line)); // prettier-ignore
    return { changes: lines.slice(0, -1), meta: lines.at(-1).meta };
  }

  test('has each change with who made it, and the values before and after', async () => {
    const start = await now();
    const { id } = await send('eve', 'POST', 'note/', { text: 'one' });
    await send('ada', 'PUT', `note/${id}/`, { text: 'two' });
    await send('ada', 'DELETE', `note/${id}/`);
    const changes = await changesAfter(start);
    for (const change of changes) assert.match(change.at, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
    const [eve] = await service.sql`select id from "user" where username = 'eve'`;
    const [ada] = await service.sql`select id from "user" where username = 'ada'`;
    const common = { model: 'note', record: id, source: 'api', id: undefined, at: undefined };
    assert.deepEqual(
      changes.map((change) => ({ ...change, id: undefined, at: undefined })),
      [
        { ...common, action: 'create', user: { id: eve?.['id'], username: 'eve' }, before: null, after: { id, text: 'one' } },
        { ...common, action: 'update', user: { id: ada?.['id'], username: 'ada' }, before: { text: 'one' }, after: { text: 'two' } },
        { ...common, action: 'delete', user: { id: ada?.['id'], username: 'ada' }, before: { id, text: 'two' }, after: null },
      ],
    ); // prettier-ignore
    assert.deepEqual(await changesAfter(changes[0].id), changes.slice(1));
    assert.deepEqual(await changesAfter(changes[2].id), []);
  });

  test('begins with the oldest entry, in pages that follow each other', async () => {
    const rows = Array.from({ length: 2_500 }, (_, index) => ({
      door: 'api', action: 'create', model: 'note', record: `${900_000 + index}`, after: `{"id":${900_000 + index}}`,
    })); // prettier-ignore
    const start = await now();
    await service.sql`insert into vitrine_history ${service.sql(rows)}`;
    const records: number[] = [];
    let after = start;
    for (let more = true; more;) {
      const { json } = await get('ada', `?after=${after}`);
      records.push(...(pluck(json.objects, 'record') as number[]));
      ({ after, more } = json.meta);
    }
    assert.deepEqual(records, rows.map(({ record }) => Number(record))); // prettier-ignore
    const first = (await get('ada')).json;
    const [oldest] = await service.sql`select model, record from vitrine_history order by id limit 1`;
    assert.deepEqual([first.objects[0].model, String(first.objects[0].record)], [oldest?.['model'], oldest?.['record']]); // prettier-ignore
    assert.deepEqual(pluck((await linesAfter(start)).changes, 'record'), records);
  });

  test('large values make the pages shorter, and a search for a visible change goes on', async () => {
    const start = await now('eve');
    const large = 'x'.repeat(400_000);
    for (let count = 0; count < 5; count += 1) await send('ada', 'POST', 'note/', { text: large });
    const { json } = await get('ada', `?after=${start}`);
    assert.deepEqual([json.objects.length, json.meta.more], [3, true]);
    const hidden = Array.from({ length: 3_000 }, () => ({ door: 'api', action: 'create', model: 'ledger', record: '1', after: '{}' })); // prettier-ignore
    const from = await now('eve');
    await service.sql`insert into vitrine_history ${service.sql(hidden)}`;
    await send('ada', 'POST', 'note/', { text: 'visible' });
    assert.deepEqual(pluck(await changesAfter(from, 'eve'), 'model'), ['note']);
  });

  test('is for the roles of the registry and for admins', async () => {
    assertUnauthorized(await service.request('/api/-/changes/'));
    assertProblem(await get('tom'), 403);
    for (const name of ['ada', 'eve']) assert.equal((await get(name)).status, 200);
    const { status, headers } = await service.request('/api/-/changes/', { method: 'POST', user: 'ada' });
    assert.deepEqual([status, headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
    assert.equal((await service.request('/api/-/changes', { method: 'HEAD', user: 'ada' })).status, 200);
  });

  test('shows only the resources and columns that the caller may read', async () => {
    const start = await now();
    await send('ada', 'POST', 'ledger/', { text: 'hidden' });
    await send('ada', 'POST', 'silent/', { text: 'hidden' });
    const { id } = await send('ada', 'POST', 'ticket/', { text: 'seen', secret: 'hidden' });
    await send('ada', 'PUT', `ticket/${id}/`, { secret: 'hidden, too' });
    await send('ada', 'PUT', `ticket/${id}/`, { secret: 'again', text: 'changed' });
    const seen = await changesAfter(start, 'eve');
    assert.deepEqual(
      seen.map(({ model, before, after }) => ({ model, before, after })),
      [
        { model: 'ticket', before: null, after: { id, text: 'seen' } },
        { model: 'ticket', before: { text: 'seen' }, after: { text: 'changed' } },
      ],
    );
    assert.deepEqual(pluck(await changesAfter(start), 'model'), ['ledger', 'ticket', 'ticket', 'ticket']);
    const tom = await service.sql`select id from "user" where username = 'tom'`;
    await send('ada', 'PUT', `user/${tom[0]?.['id']}/`, { email: 'other@example.org', password: 'pw-tom' });
    assert.equal((await changesAfter(seen.at(-1).id, 'eve')).length, 0, 'columns that the API excludes');
  });

  test('shows of rows with rules only those that exist for the caller now', async () => {
    const start = await now('eve');
    const mine = await send('eve', 'POST', 'letter/', { text: 'mine' });
    const gone = await send('eve', 'POST', 'letter/', { text: 'gone' });
    await send('sue', 'POST', 'letter/', { text: 'hers' });
    await send('eve', 'DELETE', `letter/${gone.id}/`);
    assert.deepEqual(pluck(await changesAfter(start, 'eve'), 'record'), [mine.id]);
    assert.equal((await changesAfter(start, 'ada')).length, 4);
  });

  test('shows nothing of a deleted record whose key another one has now', async () => {
    const start = await now('sue');
    await send('eve', 'POST', 'stock/', { id: 'K1', text: 'hers' });
    await send('eve', 'DELETE', 'stock/K1/');
    await send('sue', 'POST', 'stock/', { id: 'K1', text: 'mine' });
    const seen = (await changesAfter(start, 'sue')).map(({ action, after }) => [action, after.text]);
    assert.deepEqual(seen, [['create', 'mine']]);
  });

  test('ends a page by what the caller sees, whatever is hidden between', async () => {
    const add = (model: string, count: number): Promise<unknown> =>
      service.sql`insert into vitrine_history (door, action, model, record, after)
        select 'api', 'create', ${model}, n::text, '{"text":"x"}' from generate_series(1, ${count}) n`;
    const pages = async (start: string): Promise<[number, boolean][]> => {
      const { json } = await get('eve', `?after=${start}`);
      const rest = json.meta.more ? await pages(json.meta.after) : [];
      return [[json.objects.length, json.meta.more], ...rest];
    };
    const first = await now('eve');
    await add('note', 1_200);
    const plain = await pages(first);
    const second = await now('eve');
    for (const part of [300, 500, 400]) {
      await add('ledger', 273);
      await add('note', part);
    }
    await add('ledger', 1_500);
    assert.deepEqual(plain, [[1_000, true], [200, false]]); // prettier-ignore
    assert.deepEqual(await pages(second), plain);
  });

  test('has an entry whose values are too large without them, for those who see all of its columns', async () => {
    const start = await now();
    await service.sql`insert into vitrine_history (door, action, model, record, before, after)
      select 'api', action, model, '1', case action when 'update' then value end, value
      from (values ('update', 'note'), ('update', 'ticket'), ('create', 'ticket')) entry (action, model),
        (select '{"text":"' || repeat('x', 33600000) || '"}') one (value)`;
    await send('ada', 'POST', 'note/', { text: 'next' });
    const seenBy = async (name: string): Promise<unknown[]> =>
      (await changesAfter(start, name)).map(({ action, model, before, after, unreadable }) => [action, model, before ?? after?.text, unreadable]); // prettier-ignore
    const next = ['create', 'note', 'next', undefined];
    const [ofNote, ofTicket] = [['update', 'note', undefined, true], ['create', 'ticket', undefined, true]]; // prettier-ignore
    assert.deepEqual(await seenBy('ada'), [ofNote, ['update', 'ticket', undefined, true], ofTicket, next]);
    assert.deepEqual(await seenBy('eve'), [ofNote, ofTicket, next]);
    await service.sql`delete from vitrine_history where octet_length(after) > 33000000`;
  });

  /** Entries that only admins see, and then one that all see. */
  async function manyHidden(): Promise<void> {
    await service.sql`insert into vitrine_history (door, action, model, record, after)
      select 'api', 'create', case n when 30000 then 'note' else 'ledger' end, n::text, '{}' from generate_series(1, 30000) n`;
  }

  test('a request looks at a bounded number of entries, and says from where to go on', async () => {
    const start = await now('eve');
    await manyHidden();
    const page = await get('eve', `?after=${start}`);
    assert.deepEqual([page.json.objects, page.json.meta.more], [[], true]);
    assert.deepEqual(pluck(await changesAfter(page.json.meta.after as string, 'eve'), 'record'), [30_000]);
    const lines = await linesAfter(start, 'eve');
    assert.deepEqual([lines.changes, lines.meta.more], [[], true]);
    const rest = await linesAfter(lines.meta.after as string, 'eve');
    assert.deepEqual([pluck(rest.changes, 'record'), rest.meta.more], [[30_000], false]);
    const end = await linesAfter('now');
    assert.deepEqual([end.changes, end.meta.more], [[], false]);
    assert.deepEqual(await changesAfter(end.meta.after as string), []);
  });

  test('a stream of events moves the position also where the caller sees nothing', async () => {
    const start = await now('eve');
    await manyHidden();
    const events = await follow(service.base, `?after=${start}`, as('eve'));
    await eventually(() => events.changes.length === 1, 'the visible change');
    events.close();
    assert.equal(events.ids.length, 3);
    for (const [at, entries] of [
      [0, 30_000],
      [1, 10_000],
    ] as const)
      // prettier-ignore
      assert.equal((await linesAfter(events.ids[at] ?? '')).changes.length, entries);
  });

  test('a stream that ends before its first event has told its position', async () => {
    const events = await follow(service.base, '?after=now', as('ada'));
    await eventually(() => events.silent.length === 1, 'the first lines');
    events.close();
    assert.match(events.silent[0] ?? '', /^retry: 1000\nid: \S+$/);
    await send('ada', 'POST', 'note/', { text: 'missed' });
    const again = await follow(service.base, '?after=now', { ...as('ada'), 'last-event-id': events.ids[0] ?? '' }); // prettier-ignore
    await eventually(() => again.changes.length === 1, 'the change in between');
    again.close();
    assert.equal(again.changes[0].after.text, 'missed');
  });

  test('shows a token only the changes in its scope', async () => {
    const token = await send('ada', 'POST', '-/tokens/', { resources: ['note'], methods: ['GET'] });
    const start = await now();
    await send('ada', 'POST', 'note/', { text: 'in' });
    await send('ada', 'POST', 'ticket/', { text: 'out' });
    const headers = { authorization: `Bearer ${token.token}`, ...fromNewAddress() };
    const answer = await service.request(`/api/-/changes/?after=${start}`, { headers });
    assert.deepEqual(pluck(answer.json.objects, 'model'), ['note']);
  });

  test('keys that are texts, and JSON with line breaks, come on one line', async () => {
    const start = await now();
    await service.sql`insert into vitrine_history (door, action, model, record, after) values ('api', 'create', 'setting', 'a"b', ${'{"id":"a\\"b","value":{\n"x":\r\n1}}'})`;
    const [change] = await changesAfter(start);
    assert.deepEqual([change.record, change.after], ['a"b', { id: 'a"b', value: { x: 1 } }]);
    assert.deepEqual((await linesAfter(start)).changes, [change]);
  });

  test('a forged or malformed cursor, and any other parameter, is 400', async () => {
    const cursor = await now();
    const flipped = `${cursor.startsWith('A') ? 'B' : 'A'}${cursor.slice(1)}`;
    const page = await service.request('/api/note/?limit=1', { user: 'ada', headers: { prefer: 'paging=cursor' } }); // prettier-ignore
    const foreign = /cursor=([^&]*)/.exec(page.json.meta.next)?.[1] ?? '';
    for (const wrong of ['', '0', '17', 'x', flipped, `${cursor}A`, cursor.slice(1), foreign, 'Now']) {
      const answer = await get('ada', `?after=${wrong}`);
      assertProblem(answer, 400);
      assert.ok(answer.json.errors.after, wrong);
    }
    const { status } = await follow(service.base, '', { ...as('ada'), 'last-event-id': flipped });
    assert.equal(status, 400);
    for (const query of [`?after=${cursor}&after=${cursor}`, '?limit=1', '?page=2'])
      assertProblem(await get('ada', query), 400);
    assertProblem(await get('ada', '', { accept: 'text/csv' }), 406);
    await fc.assert(
      fc.asyncProperty(fc.base64String({ minLength: 1, maxLength: 80 }), async (wrong) => {
        assert.equal((await get('ada', `?after=${encodeURIComponent(wrong)}`)).status, 400);
      }),
      { numRuns: 20 },
    );
  });

  test('a cursor does not show whether there are changes that the caller may not see', async () => {
    const [one, other] = [await now('eve'), await now('eve')];
    assert.equal(one.length, other.length);
    assert.notEqual(one, other);
  });

  test('a stream of events has the changes from a cursor on, and those to come', async () => {
    const start = await now();
    await send('ada', 'POST', 'note/', { text: 'before' });
    const events = await follow(service.base, `?after=${start}`, as('ada'));
    await eventually(() => events.changes.length === 1, 'the first change');
    await send('ada', 'POST', 'note/', { text: 'after' });
    await eventually(() => events.changes.length === 2, 'the second change');
    events.close();
    assert.deepEqual(events.ids.slice(1), pluck(events.changes, 'id'));
    assert.deepEqual(events.changes, await changesAfter(start));
    const again = await follow(service.base, `?after=${start}`, { ...as('ada'), 'last-event-id': events.ids[1] ?? '' }); // prettier-ignore
    await eventually(() => again.changes.length > 0, 'the change after the last event');
    again.close();
    assert.deepEqual(again.changes, events.changes.slice(1));
  });

  test('a stream ends when its caller loses the access', async () => {
    const token = await send('sue', 'POST', '-/tokens/', {});
    const byPassword = await follow(service.base, '?after=now', as('sue'));
    const byToken = await follow(service.base, '?after=now', { authorization: `Bearer ${token.token}` });
    await service.sql`delete from vitrine_token where id = ${token.id}`;
    await byToken.ended;
    await service.sql`update "user" set role = null where username = 'sue'`;
    await byPassword.ended;
    await send('ada', 'POST', 'note/', { text: 'secret' });
    assert.deepEqual([...byPassword.changes, ...byToken.changes], []);
    await service.sql`update "user" set role = 'reader' where username = 'sue'`;
    const inactive = await follow(service.base, '?after=now', as('sue'));
    await service.sql`update "user" set active = false where username = 'sue'`;
    await inactive.ended;
    await service.sql`update "user" set active = true where username = 'sue'`;
  });

  test('one client has at most 24 streams, and the metrics count them', async () => {
    const streams = await Promise.all(
      Array.from({ length: 24 }, () => follow(service.base, '?after=now', as('ada'))),
    );
    assert.deepEqual(new Set(pluck(streams, 'status')), new Set([200]));
    assert.match(await service.metrics(), /^vitrine_lane_running\{lane="changes"\} 24$/m);
    assert.equal((await follow(service.base, '', as('ada'))).status, 429);
    const other = await follow(service.base, '?after=now', as('eve'));
    assert.equal(other.status, 200);
    for (const { close } of [...streams, other]) close();
    const isFree = async (): Promise<boolean> =>
      /^vitrine_lane_running\{lane="changes"\} 0$/m.test(await service.metrics());
    await eventually(isFree, 'the end of all streams');
  });

  test('the service ends its streams when it stops', async () => {
    const vitrine = await createVitrine({
      databaseUrl: service.url,
      resources: RESOURCES,
      roles,
      port: 0,
      log: () => undefined,
    });
    const { url } = await vitrine.start();
    const events = await follow(url, '?after=now', as('ada'));
    await Promise.all([vitrine.close(), events.ended]);
  });
});

describe('the level of the change feed', () => {
  const service = useService(RESOURCES, { roles, changes: 'default' });

  test('may be anyone, who sees what anyone may read, without the names of users that they may not read', async () => {
    await service.sql`insert into vitrine_history (door, action, model, record, after, user_key, user_name)
      values ('api', 'create', 'note', '1', '{"id":1,"text":"a"}', '1', 'ada'), ('api', 'create', 'ledger', '1', '{}', null, null)`;
    const { json } = await service.request('/api/-/changes/');
    assert.deepEqual([json.objects.length, json.objects[0].user], [1, { id: 1, username: 'ada' }]);
    assertUnauthorized(await service.request('/api/-/changes/', { user: 'nobody' }));
  });
});

test('an unknown level, and an unknown role, stop the start', async () => {
  for (const [changes, said] of [
    ['all', /changes: must be one of default, user, admin, or an array of roles/],
    [['nobody'], /changes: there is no role "nobody"/],
  ] as const)
    await assert.rejects(
      createVitrine({ databaseUrl: 'postgres://127.0.0.1:1/x', resources: RESOURCES, roles, changes: changes as never }),
      { message: said },
    ); // prettier-ignore
});

describe('the order of the change feed', () => {
  const service = useService([user, { model: 'note', columns: text, access: 'user' }], {}, async () => {
    await service.addUser('ada', { admin: true });
  });
  const WRITERS = 8;

  /** A client that remembers the last change it has stored, and continues from there after each end of its stream. */
  function keepCopy(store: (change: Change) => void) {
    let last = '';
    let isDone = false;
    let events: Events | undefined;
    const running = (async () => {
      while (!isDone) {
        const query = last === '' ? '' : `?after=${last}`;
        events = await follow(service.base, query, { authorization: basic('ada') });
        let taken = 0;
        let isOver = false;
        void events.ended.then(() => (isOver = true));
        while (!isOver && !isDone) {
          for (const change of events.changes.slice(taken)) {
            store(change);
            last = change.id as string;
            taken += 1;
          }
          await sleep(5);
        }
      }
      events?.close();
    })();
    return {
      kill: () => events?.close(),
      done: () => {
        isDone = true;
        return running;
      },
    };
  }

  test('has no gap and follows the ids, with transactions of any length, rollbacks and lost connections', async () => {
    const given: string[] = [];
    let isOver = false;
    // Pages one after the other look much more often than a stream.
    const reading = (async () => {
      for (let after = ''; !isOver;) {
        const query = after === '' ? '' : `?after=${after}`;
        const { json } = await service.request(`/api/-/changes/${query}`, { user: 'ada' });
        given.push(...pluck(json.objects, 'record').map(String));
        after = json.meta.after as string;
      }
    })();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.array(fc.record({ pause: fc.integer({ min: 0, max: 40 }), entries: fc.integer({ min: 1, max: 3 }), end: fc.constantFrom('commit', 'commit', 'commit', 'rollback', 'kill') }), { minLength: 1, maxLength: 6 }),
          { minLength: WRITERS, maxLength: WRITERS },
        ), // prettier-ignore
        async (writers) => {
          const committed = new Set<string>();
          await Promise.all(
            writers.map(async (transactions) => {
              for (const { pause, entries, end } of transactions) {
                const sql = postgres(service.url, { max: 1, onnotice: () => undefined });
                const records = Array.from({ length: entries }, () => String((number += 1)));
                const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
                await sql.unsafe('begin');
                for (const record of records) {
                  await sql`insert into vitrine_history (door, action, model, record, after) values ('api', 'create', 'note', ${record}, '{}')`;
                  await sleep(pause);
                }
                if (end === 'kill') await service.sql`select pg_terminate_backend(${backend?.pid ?? 0})`;
                else await sql.unsafe(end);
                if (end === 'commit') for (const record of records) committed.add(record);
                await sql.end({ timeout: 1 });
              }
            }),
          );
          const rows = await service.sql`select record from vitrine_history where model = 'note' order by id`;
          const stored = rows.map(({ record }) => String(record));
          assert.ok([...committed].every((record) => stored.includes(record)));
          await eventually(() => given.length >= stored.length, 'all changes');
          assert.deepEqual(given, stored);
        },
      ),
      { numRuns: Number(process.env['FEED_RUNS'] ?? 3) },
    );
    isOver = true;
    await reading;
  });

  test('a client that is killed again and again ends with the state of the table', async () => {
    const start = await service.request('/api/-/changes/?after=now', { user: 'ada' });
    assert.equal(start.status, 200);
    const copied = new Map<unknown, unknown>();
    const copy = keepCopy(({ model, action, record, after }) => {
      if (model !== 'note' || record < 1) return;
      if (action === 'delete') copied.delete(record);
      else copied.set(record, { ...(copied.get(record) as object | undefined), ...after });
    });
    let isOver = false;
    const write = async (): Promise<void> => {
      const own: number[] = [];
      while (!isOver) {
        const [first] = own;
        const kind = Math.random();
        const path = first === undefined || kind < 0.5 ? '/api/note/' : `/api/note/${first}/`;
        const method = path === '/api/note/' ? 'POST' : kind < 0.8 ? 'PUT' : 'DELETE';
        const answer = await service.request(path, { method, user: 'ada', ...(method !== 'DELETE' && { body: { text: String(Math.random()) } }) }); // prettier-ignore
        assert.ok(answer.status < 300, answer.text);
        if (method === 'POST') own.push(answer.json.id as number);
        if (method === 'DELETE') own.shift();
      }
    };
    const writers = Array.from({ length: WRITERS }, write);
    for (let kills = 0; kills < KILLS; kills += 1) {
      await sleep(Math.random() * 1_500);
      copy.kill();
    }
    isOver = true;
    await Promise.all(writers);
    const rows = await service.sql`select id, text from note order by id`;
    const state = JSON.stringify(rows.map((row) => ({ ...row })));
    const current = (): string =>
      JSON.stringify([...copied].filter(([, value]) => 'text' in (value as object)).sort(([one], [other]) => Number(one) - Number(other)).map(([, value]) => value)); // prettier-ignore
    await eventually(() => current() === state, 'the state of the table');
    await copy.done();
  });
});
