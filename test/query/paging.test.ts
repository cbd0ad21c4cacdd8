// The order of records, and the pages that they are divided into.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { useWritable, type WritableService } from '../db/helpers.ts';
import { assertProblem } from '../http/expect.ts';
import {
  type Answer,
  type TestService,
  useService,
  startBeside,
  closedAfter,
  useStarted,
} from '../support.ts';
import { idsOf, startSamples } from './samples.ts';

/** `shelf` has 8 records, limit 3, maxLimit 5 and the ordering `-rank,name`; its ranks are 3, 1, null, 2, 3, null, 1, 2. */
const orderings: [path: string, ids: number[]][] = [
  ['shelf/?limit=5', [3, 6, 1, 5, 4]],
  ['shelf/?limit=5&page=2', [8, 2, 7]],
  ['shelf/?ordering=rank&limit=5', [2, 7, 4, 8, 1]],
  ['shelf/?ordering=-rank&limit=5', [3, 6, 1, 5, 4]],
  ['shelf/?ordering=-rank,-id&limit=5', [6, 3, 5, 1, 8]],
  ['shelf/?ordering=id', [1, 2, 3]],
  ['shelf/?ordering=-id,rank', [8, 7, 6]],
  ['shelf/?ordering=rank,rank,-rank', [2, 7, 4]],
  // Row 4 of `thing` has only NULLs: they come last ascending, and first descending.
  ['thing/', [1, 2, 3, 4]],
  ['thing/?ordering=integer', [2, 1, 3, 4]],
  ['thing/?ordering=-integer', [4, 3, 1, 2]],
  ['thing/?ordering=-boolean,-id', [4, 3, 1, 2]],
  ['thing/?ordering=-box_id', [4, 3, 2, 1]],
  ['thing/?ordering=spare_id__name,-box__name', [3, 2, 1, 4]],
  ['thing/?ordering=box__in', [1, 2, 3, 4]],
  ['thing/?box__name__ne=oak&ordering=box__name', [3, 2]],
];

/** The query of a request for `shelf`, and its links, all without `/api/shelf/?`. */
const links: [query: string, next: string, previous: string][] = [
  ['', 'limit=3&page=2', ''],
  ['page=1', 'limit=3&page=2', ''],
  ['page=2', 'limit=3&page=3', 'limit=3&page=1'],
  ['page=3', '', 'limit=3&page=2'],
  ['page=4', '', 'limit=3&page=3'],
  ['page=5&limit=1', 'limit=1&page=6', 'limit=1&page=4'],
  ['limit=4', 'limit=4&page=2', ''],
  ['limit=4&page=2', '', 'limit=4&page=1'],
  ['limit=6', 'limit=5&page=2', ''],
  ['limit=99999999999999999999999', 'limit=5&page=2', ''],
  [`limit=${'9'.repeat(400)}&page=2`, '', 'limit=5&page=1'],
  ['page=99999999999999999999', '', 'limit=3&page=99999999999999999998'],
  ['page=9223372036854775807', '', 'limit=3&page=9223372036854775806'],
  [`page=1${'0'.repeat(300)}`, '', `limit=3&page=${'9'.repeat(300)}`],
  ['ordering=name&limit=1', 'ordering=name&limit=1&page=2', ''],
  ['limit=1&ordering=-rank,name', 'ordering=-rank,name&limit=1&page=2', ''],
  ['page=2&name__like=s%25&limit=1', 'name__like=s%25&limit=1&page=3', 'name__like=s%25&limit=1&page=1'],
  ['-name=a+b&limit=1', '-name=a%20b&limit=1&page=2', ''],
  ['-name=a%2bb&limit=1', '-name=a%2Bb&limit=1&page=2', ''],
  ['-name=%c3%a9%26=%3d%23&limit=1', '-name=%C3%A9%26%3D%3D%23&limit=1&page=2', ''],
  ['-name__in=%22a,b%22,c&limit=1', '-name__in=%22a,b%22,c&limit=1&page=2', ''],
  ['n%61me=s1&limit=1&rank__gt=0&name=s2', 'name=s1&rank__gt=0&name=s2&limit=1&page=2', ''],
  ['&&-name&limit=1&', '-name=&limit=1&page=2', ''],
  ['rank=77', '', ''],
  ['rank=77&page=2', '', 'rank=77&limit=3&page=1'],
];

const invalid: [query: string, name: string][] = [
  ...['0', '00', '-1', '+1', '1.5', '1e3', 'x', '', '%20', '1%20', '0x10', '%D9%A1', 'null', '1,2'].flatMap(
    (value): [string, string][] => [
      [`limit=${value}`, 'limit'],
      [`page=${value}`, 'page'],
    ],
  ),
  ['limit=2&limit=2', 'limit'],
  ['page=1&name=a&page=2', 'page'],
  ['ordering=name&ordering=name', 'ordering'],
  ...[
    '', ',', 'rank,', ',rank', 'rank,,name', '-', '--rank', '+rank', 'rank+desc', 'RANK', 'nosuch', 'rank,nosuch', 'rank__gt',
    'rank__eq', 'name__id', 'id__id', '__name', 'name__', '1', 'name;', '%22name%22', '__proto__', 'constructor', 'limit',
  ].map((value): [string, string] => [`ordering=${value}`, 'ordering']),
]; // prettier-ignore

describe('ordering and paging', () => {
  const service = useStarted(startSamples);

  test('records have the requested order, and ties are ordered by id', async () => {
    for (const [path, ids] of orderings) {
      const answer = await service.request(`/api/${path}`);
      assert.equal(answer.status, 200, `${path}: ${answer.text}`);
      assert.deepEqual(idsOf(answer), ids, path);
    }
  });

  test('next and previous have the filters and the ordering, then the limit and the page', async () => {
    for (const [query, next, previous] of links) {
      const { status, json } = await service.request(`/api/shelf/?${query}`);
      assert.equal(status, 200, query);
      assert.equal(json.meta.next, next && `/api/shelf/?${next}`, query);
      assert.equal(json.meta.previous, previous && `/api/shelf/?${previous}`, query);
      assert.deepEqual(Object.keys(json.meta), ['model', 'page', 'next', 'previous']);
      assert.equal(json.meta.model, 'shelf');
    }
  });

  test('the limit is that of the resource, or the requested one up to maxLimit', async () => {
    for (const [query, count] of [
      ['', 3],
      ['limit=2', 2],
      ['limit=5', 5],
      ['limit=6', 5],
      ['limit=1000000', 5],
    ] as const) {
      assert.equal((await service.request(`/api/shelf/?${query}`)).json.objects.length, count);
    }
    await service.sql`insert into node (id, name) select 1000 + n, 'n' || n from generate_series(1, 1200) n`;
    for (const [query, count] of [
      ['', 20],
      ['limit=1000', 1000],
      ['limit=1001', 1000],
    ] as const) {
      const { json } = await service.request(`/api/node/?${query}`);
      assert.equal(json.objects.length, count);
      assert.equal(json.meta.next, `/api/node/?limit=${count}&page=2`);
    }
  });

  test('every page past the end is empty', async () => {
    for (const page of ['4', '1000', '3074457345618258603', '9223372036854775808', `1${'0'.repeat(999)}`]) {
      const { status, text } = await service.request(`/api/shelf/?page=${page}`);
      assert.equal(status, 200, page);
      const previous = BigInt(page) - 1n;
      assert.equal(
        text,
        `{"meta":{"model":"shelf","page":${page},"next":"","previous":"/api/shelf/?limit=3&page=${previous}"},"objects":[]}`,
      );
    }
  });

  test('an invalid limit, page or ordering is 400 with the name of the parameter', async () => {
    for (const [query, name] of invalid) {
      const { status, json } = await service.request(`/api/shelf/?${query}`);
      assert.equal(status, 400, query);
      assert.deepEqual(Object.keys(json.errors ?? {}), [name], query);
    }
  });
});

const few: Resource = { model: 'few', columns: {}, maxLimit: 5 };
const view = (model: string): Resource => ({
  model,
  primaryKey: { type: 'integer', column: 'id' },
  columns: { name: { type: 'string' }, s0: { type: 'integer', null: true } },
  access: 'default',
});

const service: WritableService = useWritable(
  [view('lacking'), view('repeated'), view('blank'), few, note],
  `create view lacking as select * from (values (null::integer, 'a', 7), (1, 'b', 8), (2, 'c', 9)) v (id, name, s0);
     create view repeated as select * from (values (1, 'a', 7), (1, 'b', 8), (1, 'b', 9), (2, 'c', 9)) v (id, name, s0);
     create view blank as select nullif(n % 4, 3) as id, chr(96 + n / 2) as name, n as s0 from generate_series(2, 21) n;`,
);

describe('a view whose key is NULL in some rows, or the same in several,', () => {
  /** Follows the links from a page to its neighbors. @returns the rows of all pages, and the address of the last one */
  async function follow(
    path: string,
    way: 'next' | 'previous',
    prefer: string,
    most = 9,
  ): Promise<[unknown[], string]> {
    const found: unknown[] = [];
    for (let [next, last] = [path, path]; ; last = next) {
      const { json, status } = await service.request(next, { headers: { prefer } });
      assert.equal(status, 200, next);
      found.push(
        ...(json.objects as { id: number | null; s0: number }[]).map(({ id, s0 }) => `${id ?? 'null'} ${s0}`),
      );
      next = json.meta[way] as string;
      if (next === '' || found.length > most) return [found, last];
    }
  }

  const LACKING = ['null 7', '1 8', '2 9'];
  for (const [ordering, rows] of [
    ['name', LACKING],
    ['-name', LACKING.toReversed()],
    ['id', ['1 8', '2 9', 'null 7']],
    ['-id', ['null 7', '2 9', '1 8']],
    ['s0,-name', LACKING],
  ] as const)
    for (const paging of ['paging=pages', 'paging=cursor'])
      test(`has each record with a NULL key on one page, ordered by ${ordering}, with ${paging}`, async () => {
        const [found, last] = await follow(`/api/lacking/?limit=1&ordering=${ordering}`, 'next', paging);
        assert.deepEqual(found, rows);
        const [back] = await follow(last, 'previous', paging);
        assert.deepEqual(back, rows.toReversed());
      });

  test('has each record with a repeated key on one page', async () => {
    for (const ordering of ['name,s0', 'id,s0', '-s0,-name'])
      for (const limit of [1, 2, 3, 50]) {
        const path = `/api/repeated/?limit=${limit}&ordering=${ordering}`;
        const [found] = await follow(path, 'next', 'paging=pages');
        assert.deepEqual(found.toSorted(), ['1 7', '1 8', '1 9', '2 9'], path);
      }
  });

  for (const ordering of ['id', '-id', 'name', '-name', '-name,-id'])
    for (const limit of [1, 2, 3, 7])
      test(`has no record twice when several have a NULL key, ordered by ${ordering} with cursors, ${limit} at once`, async () => {
        const path = `/api/blank/?limit=${limit}&ordering=${ordering}`;
        const [found, last] = await follow(path, 'next', 'paging=cursor', 20);
        assert.deepEqual(found, [...new Set(found)]);
        const [back] = await follow(last, 'previous', 'paging=cursor', 20);
        assert.deepEqual(back, [...new Set(back)]);
      });

  test('has each record with a repeated key on one page with cursors of other columns', async () => {
    const [found] = await follow('/api/repeated/?limit=1&ordering=s0,name', 'next', 'paging=cursor');
    assert.deepEqual(found, ['1 7', '1 8', '1 9', '2 9']);
  });
});

test('a maxLimit below 20 is also the page size', async () => {
  await service.sql`insert into few select from generate_series(1, 30)`;
  const { json } = await service.request('/api/few/');
  assert.equal(json.objects.length, 5);
  assert.equal(json.meta.next, '/api/few/?limit=5&page=2');
});

test('the link to the next page works for the longest requests', async () => {
  for (let count = 0; count < 5; count += 1) await service.sql`insert into note (message) values ('x')`;
  const maxQuery = 8192;
  const values = (one: string, name = 'message__in='): string => {
    const count = Math.floor((maxQuery - name.length) / (one.length + 1));
    return `${name}x,${`${one},`.repeat(Math.min(count, 998)).slice(0, -one.length - 1)}`;
  };
  const moments = Array.from({ length: 390 }, () => '2024-01-01+00:00:00').join(',');
  for (const query of [
    `message__ne=${'y'.repeat(maxQuery - 'message__ne='.length)}`,
    values('1234567'),
    values('a%20b', '-message__in=y,').replace('=y,x,', '=y,'),
    `-created__in=${moments}`,
  ]) {
    for (const paging of ['', '&limit=2', '&page=2&limit=2', '&page=0000000002&limit=00000000000000000002']) {
      const { status, json, text } = await service.request(`/api/note/?${query}${paging || '&limit=1'}`);
      assert.equal(status, 200, text.slice(0, 300));
      assert.notEqual(json.meta.next, '', `${query.slice(0, 30)} ${paging}`);
      const next = await service.request(json.meta.next);
      assert.equal(next.status, 200, next.text.slice(0, 300));
      assert.equal(next.json.meta.page, json.meta.page + 1);
      assert.equal((await service.request(next.json.meta.previous)).text, text);
    }
  }
  assertProblem(await service.request(`/api/note/?message=${'y'.repeat(maxQuery)}&limit=1`), 414);
});

// Pages with cursors: their links go on from a record, whatever is inserted and deleted in between.

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

  test('are the same for all processes on the database', async (t) => {
    const other = closedAfter(t, await startBeside(service.url, RESOURCES));
    const { meta } = await get(pathOf({ limit: '7' }));
    assert.deepEqual((await other.request(meta.next)).json, await get(meta.next));
  });
});
