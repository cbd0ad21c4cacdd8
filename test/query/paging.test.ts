// The order of records, and the pages that they are divided into.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { note } from '../../src/resources/registry.ts';
import { useWritable, type WritableService } from '../db/helpers.ts';
import { assertProblem } from '../http/expect.ts';
import type { TestService } from '../support.ts';
import { idsOf, startSamples } from './samples.ts';
import { after, before, describe, test } from 'node:test';

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
  let service: TestService;
  before(async () => {
    service = await startSamples();
  });
  after(() => service.close());

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
      // prettier-ignore
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

  test('pages far from the start are complete and in order', async () => {
    await service.sql`insert into node (id, name, parent_id) select 5000 + n, 'm' || n % 7, n % 3 + 1 from generate_series(1, 2600) n`;
    for (const [ordering, sql] of [
      ['id', 'id'],
      ['-id', 'id desc'],
      ['-parent,name', 'parent_id desc, name, id'],
    ] as const) {
      const rows = await service.sql.unsafe<{ id: number }[]>(
        `select id from node where id > 5000 order by ${sql}`,
      );
      const visited: number[] = [];
      let path = `/api/node/?id__gt=5000&ordering=${ordering}&limit=400`;
      while (path !== '') {
        const answer = await service.request(path);
        visited.push(...idsOf(answer));
        path = answer.json.meta.next;
      }
      assert.deepEqual(visited, rows.map(({ id }) => id), ordering); // prettier-ignore
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
