// Pages with cursors: their links go on from a record, whatever is inserted and deleted in between.
import fc from 'fast-check';
import assert from 'node:assert/strict';
import { createVitrine, type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { request, useService, type Answer, type TestService } from '../support.ts';
import { closeIdleConnections } from '../send.ts';
import { assertProblem } from './expect.ts';
import { describe, test } from 'node:test';

const group: Resource = {
  model: 'group',
  table: 'groups',
  columns: { name: { type: 'string' }, rank: { type: 'integer', null: true } },
};
const item: Resource = {
  model: 'item',
  columns: {
    name: { type: 'string' },
    rank: { type: 'integer', null: true },
    price: { type: 'decimal' },
    weight: { type: 'float', null: true },
    at: { type: 'datetime' },
    note: { type: 'text', null: true },
    group: { type: 'foreignKey', references: 'group', null: true },
  },
  ordering: 'name',
};
const marker: Resource = { model: 'marker', columns: { cursor: { type: 'string' } } };
const secret: Resource = { model: 'secret', columns: { name: { type: 'string' } }, read: 'user' };
const linked: Resource = {
  model: 'linked',
  columns: { secret: { type: 'foreignKey', references: 'secret', null: true } },
};
const RESOURCES = [user, group, item, marker, secret, linked];

const CURSORS = { Prefer: 'paging=cursor' };
interface Body {
  readonly meta: { readonly page: number; readonly next: string; readonly previous: string };
  readonly objects: readonly { readonly id: number; readonly name?: string }[];
}

describe('pages with cursors', () => {
  const service: TestService = useService(RESOURCES, {}, async () => {
    await service.addUser('ada');
    await service.sql`insert into groups (name, rank) select 'g' || n % 3, nullif(n % 4, 0) from generate_series(1, 9) n`;
    await service.sql`
      insert into item (name, rank, price, weight, at, group_id)
      select 'n' || n % 7, nullif(n % 5, 0), (n % 4) / 3.0, case n % 6 when 0 then null when 1 then 'NaN' else n % 6 / 3.0 end,
        timestamp '2026-01-01' + n % 3 * interval '0.25 seconds', case when n % 10 < 9 then n % 10 + 1 end
      from generate_series(1, 60) n`;
  });

  const pathOf = (query: Readonly<Record<string, string | undefined>>, model = 'item'): string => {
    const given = Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    );
    return `/api/${model}/?${new URLSearchParams(given as [string, string][]).toString()}`;
  };
  const get = async (path: string, headers: Record<string, string> = CURSORS): Promise<Body> => {
    const answer = await service.request(path, { headers });
    assert.equal(answer.status, 200, `${path}: ${answer.text}`);
    return answer.json as Body;
  };
  const idsOf = ({ objects }: Body): number[] => objects.map(({ id }) => id);
  const all = async (ordering: string | undefined, filter = {}): Promise<number[]> =>
    idsOf(await get(pathOf({ ordering, limit: '1000', ...filter }), {}));

  /** The ids of all pages from a path on, in one direction. */
  async function walk(path: string, direction: 'next' | 'previous' = 'next'): Promise<number[][]> {
    const pages: number[][] = [];
    for (let link = path; link !== '';) {
      const page = await get(link);
      pages.push(idsOf(page));
      link = page.meta[direction];
      assert.ok(pages.length < 100, 'the walk ends');
    }
    return pages;
  }

  test('have what the filters match, once, there and back, for any ordering, limit and filter', async () => {
    const names = ['rank', 'name', 'price', 'weight', 'at', 'group__rank', 'group__name', 'id'];
    const orderings = fc
      .uniqueArray(fc.constantFrom(...names), { maxLength: 4 })
      .chain((columns) =>
        fc.tuple(...columns.map((name) => fc.boolean().map((isDown) => (isDown ? `-${name}` : name)))),
      );
    const filters = [{}, { rank__gte: '2' }, { '-rank': '1' }, { group__rank__is: 'null' }, { name: 'none' }];
    await fc.assert(
      fc.asyncProperty(
        orderings,
        fc.integer({ min: 1, max: 30 }),
        fc.constantFrom<Record<string, string>>(...filters),
        async (columns, limit, filter) => {
          const ordering = columns.join() || undefined;
          const expected = await all(ordering, filter);
          const first = pathOf({ ordering, limit: String(limit), ...filter });
          const pages = await walk(first);
          assert.deepEqual(pages.flat(), expected);
          assert.ok(pages.slice(0, -1).every(({ length }) => length === limit));
          let last = await get(first);
          while (last.meta.next !== '') last = await get(last.meta.next);
          const back = last.meta.previous === '' ? [] : await walk(last.meta.previous, 'previous');
          assert.deepEqual([...back.reverse().flat(), ...idsOf(last)], expected);
        },
      ),
      {
        numRuns: 40,
        // NULL, NaN and equal values at the ends of pages, and an ordering that ends in the key.
        examples: [
          [['-group__rank', 'rank'], 7, {}],
          [['price', '-weight'], 7, {}],
          [['-at'], 7, {}],
          [['-rank', 'name', '-id'], 7, {}],
          [[], 7, {}],
        ],
      },
    );
  });

  test('neither repeat nor hide records while others are inserted and deleted', async () => {
    const add = async (name: string): Promise<number> => {
      const [row] = await service.sql<{ id: number }[]>`
        insert into item (name, price, at) values (${name}, 0, now()) returning id`;
      return row?.id ?? 0;
    };
    const stable = await all('name');
    const seen: number[] = [];
    const added: number[] = [];
    let page = await get(pathOf({ ordering: 'name', limit: '5' }));
    for (;;) {
      seen.push(...idsOf(page));
      if (page.meta.next === '') break;
      for (const name of ['a', 'n3', 'z']) added.push(await add(name)); // before, among and behind what was read
      const first = added[added.length - 3] ?? 0;
      if (added.length > 6) await service.sql`delete from item where id = ${first}`;
      page = await get(page.meta.next);
    }
    assert.equal(new Set(seen).size, seen.length);
    assert.deepEqual(
      seen.filter((id) => stable.includes(id)),
      stable,
    );
    await service.sql`delete from item where id = any(${added})`;
  });

  test('go on where they were when the record at the boundary is gone', async () => {
    const ids: number[] = [];
    for (const name of ['x1', 'x2', 'x3', 'x4'])
      ids.push(
        ...(
          await service.sql<
            { id: number }[]
          >`insert into item (name, price, at) values (${name}, 0, now()) returning id`
        ).map(({ id }) => id),
      );
    const first = await get(pathOf({ name__gt: 'x', limit: '2' }));
    await service.sql`delete from item where id = ${ids[1] ?? 0}`;
    const second = await get(first.meta.next);
    assert.deepEqual(idsOf(second), ids.slice(2));
    assert.deepEqual(idsOf(await get(second.meta.previous)), ids.slice(0, 1));
    await service.sql`delete from item where id = any(${ids.slice(2)})`;
    const empty = await get(first.meta.next);
    assert.deepEqual([empty.objects, empty.meta.next], [[], '']);
    assert.deepEqual(idsOf(await get(empty.meta.previous)), ids.slice(0, 1));
    await service.sql`delete from item where id = ${ids[0] ?? 0}`;
  });

  test('have the number 1 at the start and 0 with a cursor, and begin at any page', async () => {
    const answer = await service.request(pathOf({ limit: '7' }), {
      headers: { Prefer: 'paging=cursor, count=exact' },
    });
    const first = answer.json as Body;
    assert.equal(answer.headers.get('preference-applied'), 'paging=cursor, count=exact');
    assert.equal(answer.headers.get('x-total-count'), '60');
    assert.deepEqual([first.meta.page, first.meta.previous], [1, '']);
    assert.match(first.meta.next, /^\/api\/item\/\?limit=7&cursor=[\w-]{20,200}$/);
    assert.equal((await get(first.meta.next, {})).meta.page, 0);
    const third = await get(pathOf({ limit: '7', page: '3' }));
    assert.equal(third.meta.page, 3);
    assert.deepEqual(
      await walk(third.meta.previous, 'previous'),
      (await walk(pathOf({ limit: '7' }))).slice(0, 2).reverse(),
    );
    const beyond = await get(pathOf({ limit: '7', page: '100' }));
    assert.deepEqual(
      [beyond.objects, beyond.meta.next, beyond.meta.previous],
      [[], '', '/api/item/?limit=7&page=99'],
    );
    assert.equal(
      (await get(pathOf({ limit: '7' }), {})).meta.next,
      '/api/item/?limit=7&page=2',
      'not without Prefer',
    );
  });

  test('are bound to their list, and every other cursor gets the same 400', async () => {
    const { meta } = await get(pathOf({ ordering: 'rank', limit: '7', rank__gte: '1' }));
    const cursor = /cursor=(.*)$/.exec(meta.next)?.[1] ?? '';
    const flipped = `${cursor.slice(0, -2)}${cursor.at(-2) === 'A' ? 'B' : 'A'}${cursor.at(-1)}`;
    const tries: [path: string, query: Readonly<Record<string, string>>][] = [
      ['item', { ordering: 'rank', limit: '8', rank__gte: '1', cursor }],
      ['item', { ordering: '-rank', limit: '7', rank__gte: '1', cursor }],
      ['item', { ordering: 'rank', limit: '7', rank__gte: '2', cursor }],
      ['item', { ordering: 'rank', limit: '7', cursor }],
      ['group', { ordering: 'rank', limit: '7', rank__gte: '1', cursor }],
      ...['', 'x', '!', cursor.slice(1), `${cursor}A`, flipped, 'A'.repeat(4000)].map(
        (text): [string, Readonly<Record<string, string>>] => [
          'item',
          { ordering: 'rank', limit: '7', rank__gte: '1', cursor: text },
        ],
      ),
    ];
    const bodies = new Set<string>();
    for (const [model, query] of tries) {
      const answer = await service.request(pathOf(query, model));
      assertProblem(answer, 400);
      bodies.add(JSON.stringify((answer.json as { errors: unknown }).errors));
    }
    assert.deepEqual([...bodies], ['{"cursor":["is not from a link of this list: start without it"]}']);
  });

  test('are bound to what the caller may see', async () => {
    await service.sql`insert into secret (name) select 's' || n from generate_series(1, 5) n`;
    await service.sql`insert into linked (secret_id) select n from generate_series(1, 5) n`;
    const path = pathOf({ limit: '2', ordering: 'secret__name' }, 'linked');
    const page = await service.request(path, { user: 'ada', headers: CURSORS });
    const { meta } = page.json as Body;
    assert.deepEqual(idsOf((await service.request(meta.next, { user: 'ada' })).json as Body), [3, 4]);
    assertProblem(await service.request(meta.next), 400);
  });

  test('cannot be combined with a page number, and not with a stream', async () => {
    const { meta } = await get(pathOf({ limit: '7' }));
    const both = await service.request(`${meta.next}&page=2`);
    assert.deepEqual((both.json as { errors: unknown }).errors, { cursor: ['cannot be used with page'] });
    for (const headers of [
      { Accept: 'application/x-ndjson' },
      { Accept: 'text/csv', Prefer: 'paging=none' },
    ]) {
      const stream = await service.request(meta.next, { headers });
      assert.deepEqual(Object.keys((stream.json as { errors: object }).errors), ['limit', 'cursor']);
    }
    assertProblem(await service.request('/api/item/1/?cursor=x'), 400);
  });

  test('exist as CSV and in a browser, too', async () => {
    const csv = await service.request(pathOf({ limit: '59' }), {
      headers: { ...CURSORS, Accept: 'text/csv' },
    });
    const next = /^<([^>]*)>; rel="next"$/.exec(csv.headers.get('link') ?? '')?.[1] ?? '';
    assert.match(next, /cursor=/);
    const last = await service.request(next, { headers: { Accept: 'text/csv' } });
    assert.equal(last.text.split('\r\n').length, 3);
    assert.match(last.headers.get('link') ?? '', /^<[^>]*cursor=[^>]*>; rel="prev"$/);
    const html = await service.request(next, { headers: { Accept: 'text/html' } });
    assert.match(html.text, /&quot;previous&quot;: <a href="[^"]*cursor=/);
  });

  test('do not exist where a column has the name cursor', async () => {
    await service.sql`insert into marker (cursor) values ('a'), ('b'), ('b')`;
    const page = await get(pathOf({ cursor: 'b', limit: '1' }, 'marker'));
    assert.deepEqual([idsOf(page), page.meta.next], [[2], '/api/marker/?cursor=b&limit=1&page=2']);
  });

  test('say so when the values of an ordering are too long for a link', async () => {
    const [row] = await service.sql<{ id: number }[]>`
      insert into item (name, price, at, note) select 'long', 0, now(), repeat('x', 7000) from generate_series(1, 2) returning id`;
    const path = pathOf({ name: 'long', ordering: 'note', limit: '1' });
    const answer: Answer = await service.request(path, { headers: CURSORS });
    assert.match(
      JSON.stringify((answer.json as { errors: unknown }).errors),
      /^\{"ordering":\["has values that are too long/,
    );
    assert.equal(
      (await service.request(pathOf({ name: 'long', ordering: 'note' }), { headers: CURSORS })).status,
      200,
    );
    await service.sql`delete from item where id >= ${row?.id ?? 0}`;
  });

  test('are the same for all processes on the database', async () => {
    const other = await createVitrine({
      databaseUrl: service.url,
      resources: RESOURCES,
      port: 0,
      log: () => undefined,
    });
    const { url } = await other.start();
    try {
      const { meta } = await get(pathOf({ limit: '7' }));
      const answer = await request(url, meta.next);
      assert.deepEqual(answer.json, await get(meta.next));
    } finally {
      closeIdleConnections(url);
      await other.close();
    }
  });
});
