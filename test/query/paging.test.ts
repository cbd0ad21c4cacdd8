import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { idsOf, startSamples } from './samples.ts';
import { after, before, describe, test } from 'node:test';

/** `shelf` has 8 records, limit 3, maxLimit 5 and the ordering `-rank,name`; its ranks are 3, 1, null, 2, 3, null, 1, 2. */
const orderings: [path: string, ids: number[]][] = [
  ['shelf/?limit=5', [3, 6, 1, 5, 4]],
  ['shelf/?limit=5&page=2', [8, 2, 7]],
  ['shelf/?ordering=rank&limit=5', [2, 7, 4, 8, 1]],
  ['shelf/?ordering=rank&limit=5&page=2', [5, 3, 6]],
  ['shelf/?ordering=-rank&limit=5', [3, 6, 1, 5, 4]],
  ['shelf/?ordering=rank,-name&limit=5', [7, 2, 8, 4, 5]],
  ['shelf/?ordering=-rank,-id&limit=5', [6, 3, 5, 1, 8]],
  ['shelf/?ordering=-name&limit=5', [8, 7, 6, 5, 4]],
  ['shelf/?ordering=id', [1, 2, 3]],
  ['shelf/?ordering=-id', [8, 7, 6]],
  ['shelf/?ordering=-id,rank', [8, 7, 6]],
  ['shelf/?ordering=rank,rank,-rank', [2, 7, 4]],
  // Row 4 of `thing` has only NULLs: they come last ascending, and first descending.
  ['thing/', [1, 2, 3, 4]],
  ['thing/?ordering=integer', [2, 1, 3, 4]],
  ['thing/?ordering=-integer', [4, 3, 1, 2]],
  ['thing/?ordering=bigint', [2, 1, 3, 4]],
  ['thing/?ordering=float', [2, 1, 3, 4]],
  ['thing/?ordering=decimal', [2, 1, 3, 4]],
  ['thing/?ordering=boolean', [2, 1, 3, 4]],
  ['thing/?ordering=-boolean,-id', [4, 3, 1, 2]],
  ['thing/?ordering=datetime', [3, 1, 2, 4]],
  ['thing/?ordering=-date', [4, 2, 1, 3]],
  ['thing/?ordering=time', [3, 1, 2, 4]],
  ['thing/?ordering=uuid', [1, 2, 3, 4]],
  ['thing/?ordering=box', [1, 2, 3, 4]],
  ['thing/?ordering=-box_id', [4, 3, 2, 1]],
  ['thing/?ordering=-box__id', [4, 3, 2, 1]],
  ['thing/?ordering=box__name', [3, 1, 2, 4]],
  ['thing/?ordering=-box__name', [4, 2, 1, 3]],
  ['thing/?ordering=spare_id__name,-box__name', [3, 2, 1, 4]],
  ['thing/?ordering=box__in', [1, 2, 3, 4]],
  ['thing/?ordering=box__owner__username,-id', [1, 4, 3, 2]],
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

  test('the total is counted only on request', async () => {
    const total = async (query: string, prefer?: string): Promise<string | null> => {
      const { status, headers } = await service.request(`/api/shelf/?${query}`, {
        headers: prefer === undefined ? {} : { prefer },
      });
      assert.equal(status, 200);
      return headers.get('x-total-count');
    };
    assert.equal(await total(''), null);
    assert.equal(await total('', 'count=planned'), null);
    assert.equal(await total('', 'respond-async, wait=5'), null);
    assert.equal(await total('', 'count=exact'), '8');
    assert.equal(await total('', 'respond-async, count=exact'), '8');
    assert.equal(await total('', 'count=none, count=exact'), null);
    assert.equal(await total('', 'count="exact", count=none'), '8');
    assert.equal(await total('page=3&limit=1&ordering=-name', 'count=exact'), '8');
    assert.equal(await total('page=99', 'count=exact'), '8');
    assert.equal(await total('rank__gt=1', 'count=exact'), '4');
    assert.equal(await total('-rank=3&page=2', 'count=exact'), '6');
    assert.equal(await total('rank=77', 'count=exact'), '0');
  });

  test('a page takes one statement, also with its count', async () => {
    /** The number of statements that the service has run. */
    const statements = async (): Promise<number> => {
      const text = await service.metrics();
      const counts = text.matchAll(/^vitrine_lane_statement_duration_seconds_count\{.*\} (\d+)$/gm);
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
    };
    for (const query of ['', 'page=2', 'rank__gt=1&ordering=-name', 'limit=5&page=9']) {
      for (const [headers, cost] of [
        [{}, 1],
        [{ prefer: 'count=exact' }, 1],
      ] as const) {
        // The first query of a kind is also estimated.
        await service.request(`/api/shelf/?${query}`, { headers });
        const before = await statements();
        assert.equal((await service.request(`/api/shelf/?${query}`, { headers })).status, 200);
        assert.equal((await statements()) - before, cost, query);
      }
    }
  });
});

describe('a count', () => {
  const thing: Resource = { model: 'thing', columns: { size: { type: 'integer' } } };
  let service: TestService;
  before(async () => {
    const options = { maxCount: 100, ordering: 'id' } as const;
    service = await startService([
      user,
      thing,
      { ...thing, ...options, model: 'limited' },
      { ...thing, ...options, model: 'open', countLevel: 'user' },
    ]);
    await service.addUser('bob');
    await service.addUser('ada', { admin: true });
    await service.sql`insert into thing (size) select i from generate_series(1, 10001) i`;
    for (const table of ['limited', 'open'])
      await service.sql`insert into ${service.sql(table)} (size) select i from generate_series(1, 101) i`;
    await service.sql`analyze`;
  });
  after(() => service.close());

  const cases: [path: string, prefer: string, total: string | null, applied?: string, user?: string][] = [
    ['thing/', 'count=exact', '10001'],
    ['thing/', 'count=capped', '10000+'],
    ['thing/?size__gt=1', 'count=capped', '10000'],
    ['thing/?size=5', 'count=capped', '1'],
    ['thing/', 'count=estimated', '10001'],
    ['thing/?size__lte=77', 'COUNT = "Estimated"', '77', 'estimated'],
    ['thing/?size__lt=0', 'count=estimated', '0'],
    ['thing/', 'count=rough', null],
    ['limited/', 'count=exact', '100+', 'capped'],
    ['limited/', 'count=exact', '100+', 'capped', 'bob'],
    ['limited/', 'count=exact', '101', 'exact', 'ada'],
    ['limited/?size__lte=100', 'count=exact', '100', 'capped'],
    ['limited/', 'count=capped', '100+', 'capped', 'ada'],
    ['limited/?id__lte=100', 'count=estimated', '100', 'estimated'],
    ['open/', 'count=exact', '100+', 'capped'],
    ['open/', 'count=exact', '101', 'exact', 'bob'],
  ];
  for (const [path, prefer, total, applied, name] of cases)
    test(`of ${path} with ${prefer} by ${name ?? 'anyone'} is ${total}`, async () => {
      const way = applied ?? prefer.split('=')[1];
      for (const accept of ['application/json', 'text/csv']) {
        const headers = { prefer, accept };
        const answer = await service.request(`/api/${path}`, {
          headers,
          ...(name !== undefined && { user: name }),
        });
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get('x-total-count'), total);
        assert.equal(answer.headers.get('preference-applied'), total === null ? null : `count=${way}`);
      }
    });

  test('is right where the planner is wrong', async () => {
    await service.sql`insert into thing (size) select -1 from generate_series(1, 10050)`; // not analyzed
    await service.sql`insert into limited (size) select -1 from generate_series(1, 300)`;
    for (const [table, count] of [
      ['thing', '10001'],
      ['limited', '300'],
    ] as const) {
      const { headers } = await service.request(`/api/${table}/?size=-1`, {
        headers: { prefer: 'count=estimated' },
      });
      assert.equal(headers.get('x-total-count'), count);
      await service.sql`delete from ${service.sql(table)} where size = -1`;
    }
  });

  test('does not delay the short reads of others while its estimate waits', async () => {
    const waiting = async (): Promise<number> =>
      (
        await service.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      ).length;
    let answer: Promise<Answer> | undefined;
    await service.sql.begin(async (transaction) => {
      await transaction`lock table thing in access exclusive mode`;
      const headers = { prefer: 'count=estimated' };
      answer = service.request('/api/thing/?size__gt=1&size__lt=99999', { headers });
      await eventually(async () => (await waiting()) === 1, 'the count to wait');
      assert.equal((await service.request('/api/limited/1/')).status, 200);
      assert.equal(await waiting(), 1);
    });
    assert.equal((await answer)?.headers.get('x-total-count'), '10000');
  });

  test('needs valid credentials only where they can change it', async () => {
    const headers = { prefer: 'count=exact', authorization: 'Basic eDp5' };
    assert.equal((await service.request('/api/thing/', { headers })).status, 200);
    assert.equal((await service.request('/api/limited/', { headers })).status, 401);
  });
});

test('a maxLimit below 20 is also the page size', async () => {
  const few: Resource = { model: 'few', columns: {}, maxLimit: 5 };
  const service = await startService([few]);
  try {
    await service.sql`insert into few select from generate_series(1, 30)`;
    const { json } = await service.request('/api/few/');
    assert.equal(json.objects.length, 5);
    assert.equal(json.meta.next, '/api/few/?limit=5&page=2');
  } finally {
    await service.close();
  }
});

test('the link to the next page works for the longest requests', async () => {
  const service = await startService([user, note]);
  try {
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
      for (const paging of [
        '',
        '&limit=2',
        '&page=2&limit=2',
        '&page=0000000002&limit=00000000000000000002',
      ]) {
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
  } finally {
    await service.close();
  }
});
