// The list page: search, sorting, pages, date links, empty lists, and its size.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, readable, unescaped, type AdminAnswer, type Browser } from './support.ts';
import { resources as shipped, thing } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const LISTED = ['name', 'note', 'author', 'amount', 'price', 'ready', 'at', 'extra'];

const resources: readonly Resource[] = [
  ...shipped.map((one) =>
    one.model === 'thing'
      ? { ...thing, admin: { ...thing.admin, list: LISTED, search: ['name', 'note', 'author__username'] } }
      : one,
  ),
  { model: 'many', columns: { name: { type: 'string' }, at: { type: 'datetime' } }, admin: { dates: 'at' } },
  {
    model: 'recent',
    columns: { name: { type: 'string' }, at: { type: 'datetime' } },
    admin: { dates: 'at' },
  },
  {
    model: 'stay',
    columns: { land: { type: 'foreignKey', references: 'land' }, night: { type: 'integer', null: true } },
    access: 'user',
    admin: { label: '{land__name} {night}' },
  },
  {
    model: 'trip',
    columns: { stay: { type: 'foreignKey', references: 'stay', null: true } },
    admin: { list: ['stay', 'id'] },
  },
  { model: 'fixed', columns: { name: { type: 'string' } }, admin: { allow: [], label: '{name}!' } },
] satisfies Resource[];

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  await service.addUser('grace');
  await service.sql`insert into thing (name, note, at, author_id, hidden) values
    ('Red apple', 'from the tree', '2023-12-31 23:59:59', 1, 'secret words'), ('Green apple', '100%', '2024-02-29 00:00:00', 2, ''),
    ('Pear', 'a_b', '2024-02-29 23:59:59', 1, ''), ('Plum', 'a\\b', '2024-03-01 00:00:00', null, ''), ('Fig', null, null, 2, '')`;
  await service.sql`insert into many (name, at) select 'many ' || n, '2024-01-01' from generate_series(1, 20000) n`;
  await service.sql`analyze many`;
  await service.sql`insert into land (code, name) values ('no', 'Norway'), ('a/b?c=d&e', 'Odd'), (' ', 'Blank'), ('-', 'Dash'), ('é€', 'Signs')`;
  await service.sql`insert into stay (land_id) values ('no')`;
  await service.sql`insert into trip default values`;
  ada = await logIn(service, 'ada');
});
after(() => service.close());

test('the label of a record without text columns is its key', async () => {
  assert.match((await ada.get('/admin/trip/1/')).text, /<h1>#1<\/h1>/);
});

const names = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/<th scope="row"[^>]*>\s*<a[^>]*>([\s\S]*?)<\/a>/g)].map(([, name = '']) =>
    unescaped(name.trim()),
  );
const list = (query: string, model = 'thing'): Promise<AdminAnswer> => ada.get(`/admin/${model}/${query}`);
/** The addresses of the links of a page, by their texts. */
const linksOf = ({ text }: AdminAnswer): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<a\s[^>]*?href="([^"]*)"[^>]*>([\s\S]*?)<\/a\s*>/g)].map(
      ([, href = '', name = '']) => [name.replace(/<[^>]*>/g, '').trim(), unescaped(href)],
    ),
  );

describe('the search', () => {
  for (const [words, found] of [
    ['apple', ['Red apple', 'Green apple']],
    ['APPLE green', ['Green apple']],
    ['apple%20%20ada', ['Red apple']],
    ['grace', ['Green apple', 'Fig']],
    ['tree+ada+red', ['Red apple']],
    ['%25', ['Green apple']],
    ['_', ['Pear']],
    ['%5C', ['Plum']],
    ['3', ['Pear']],
    ['apple%203', []],
    ['secret', []],
    ['argon2', []],
    ["'%22%3B--", []],
    ['%F0%9F%92%A5', []],
  ] as const)
    test(`finds ${found.length} records by ${decodeURIComponent(words)}`, async () => {
      const page = await list(`?_search=${words}`);
      assert.equal(page.status, 200);
      assert.deepEqual(names(page), found);
      if (found.length === 0) assert.match(readable(page), /No matching records/);
    });

  test('keeps the filters and the order, and can be cleared', async () => {
    const page = await list('?_search=apple&author=1&ordering=-name&page=1');
    const form = /<form class="search"[\s\S]*?<\/form>/.exec(page.text)?.[0] ?? '';
    const hidden = [...form.matchAll(/type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(
      ([, name, value]) => [name, value],
    );
    assert.deepEqual(hidden, [['author', '1'], ['ordering', '-name']]); // prettier-ignore
    assert.equal(linksOf(page)['Clear'], '/admin/thing/?author=1&ordering=-name');
  });
});

describe('the header of a column', () => {
  const head = (page: AdminAnswer, title: string): string =>
    unescaped(
      new RegExp(`<th scope="col"[^>]*>\\s*<a href="[^"]*">${title}</a>[\\s\\S]*?</th>`).exec(
        page.text,
      )?.[0] ?? '',
    );

  for (const [query, title, next, state] of [
    ['', 'Name', 'ordering=name', undefined],
    ['?ordering=name', 'Name', 'ordering=-name', 'ascending'],
    ['?ordering=-name', 'Name', 'ordering=name', 'descending'],
    ['?ordering=name', 'Note', 'ordering=note%2Cname', undefined],
    ['?ordering=note,-name', 'Name', 'ordering=name%2Cnote', undefined],
    [
      '?ordering=name&page=1&colour=red&_search=a',
      'Name',
      'colour=red&_search=a&ordering=-name',
      'ascending',
    ],
  ] as const)
    test(`${title} of ${query || 'an unsorted list'} links to ${next}`, async () => {
      const shown = head(await list(query), title);
      assert.match(shown, new RegExp(`href="/admin/thing/\\?${next}"`));
      assert.equal(/aria-sort="(\w+)"/.exec(shown)?.[1], state);
      if (query.includes('ordering=name'))
        assert.ok(/aria-label="Remove sorting by Name"/.test(head(await list(query), 'Name')));
    });

  test('sorts foreign keys by the labels of their records, and can remove one of several orderings', async () => {
    const page = await list('?ordering=author__username,-name');
    assert.deepEqual(names(page), ['Red apple', 'Pear', 'Green apple', 'Fig', 'Plum']);
    assert.match(page.text, /href="\/admin\/thing\/\?ordering=-author__username%2C-name">Author/);
    assert.match(
      page.text,
      /href="\/admin\/thing\/\?ordering=-name"\s+class="remove"\s+aria-label="Remove sorting by Author"/,
    );
    assert.match(page.text, /<th scope="col"\s*>Extra<\/th>/);
  });
});

test('sorts foreign keys whose labels have columns of further records by these columns', async () => {
  // In the order of the keys, and in the order of the labels: Norway 1, Norway 2, Odd 1.
  await service.sql`insert into stay (id, land_id, night) overriding system value
    values (11, 'a/b?c=d&e', 1), (12, 'no', 2), (13, 'no', 1)`;
  await service.sql`insert into trip (stay_id) values (11), (12), (13)`;
  const sorted = linksOf(await list('', 'trip'))['Stay'] ?? '';
  assert.equal(sorted, '/admin/trip/?ordering=stay__land__name%2Cstay__night');
  const up = await ada.get(sorted);
  assert.deepEqual(names(up), ['Norway 1', 'Norway 2', 'Odd 1', '#1']);
  assert.match(up.text, /aria-sort="ascending"/);
  const down = await ada.get(linksOf(up)['Stay'] ?? '');
  assert.deepEqual(names(down), ['#1', 'Odd 1', 'Norway 2', 'Norway 1']);
  assert.match(down.text, /aria-sort="descending"/);
});

describe('the pages of a list', () => {
  test('have an exact count for few records', async () => {
    assert.match(readable(await list('')), /1–5 of 5 records/);
    const page = await list('?limit=2&page=2&ordering=id');
    assert.match(readable(page), /3–4 of 5 records/);
    const { First, Previous, Next, Last, 50: fifty } = linksOf(page);
    assert.deepEqual({ First, Previous, Next, Last, fifty }, {
      First: undefined, Previous: '/admin/thing/?limit=2&page=1&ordering=id'.replace('&page=1&ordering=id', '&ordering=id&page=1'),
      Next: '/admin/thing/?limit=2&ordering=id&page=3', Last: undefined, fifty: '/admin/thing/?ordering=id&limit=50',
    }); // prettier-ignore
    assert.equal(linksOf(await list('?limit=1&page=3'))['First'], '/admin/thing/?limit=1&page=1');
    assert.equal(linksOf(await list('?limit=1&page=3'))['Last'], '/admin/thing/?limit=1&page=5');
    assert.match(readable(await list('?limit=1&page=3')), /Page 3 of 5/);
  });

  test('have an estimated count for many records', async () => {
    const page = await list('?page=3', 'many');
    assert.match(readable(page), /41–60 of about 20,000 records/);
    assert.match(readable(page), /all about 20,000 records in this list/);
    assert.equal(linksOf(page)['Last'], undefined);
    assert.match(readable(await list('?id__lte=500', 'many')), /1–20 of 500 records/);
    assert.match(readable(await list('?limit=100', 'many')), /1–100 of about/);
    assert.match(readable(await list('?limit=5000', 'many')), /1–200 of about/);
  });

  for (const [page, previous] of [
    ['7', '3'],
    ['99999999999999999999999', '3'],
  ] as const)
    // prettier-ignore
    test(`past the end link back to the last page with records: page ${page}`, async () => {
      const answer = await list(`?limit=2&page=${page}`);
      assert.equal(answer.status, 200);
      assert.match(readable(answer), /No records on this page/);
      assert.equal(linksOf(answer)['Previous'], `/admin/thing/?limit=2&page=${previous}`);
      assert.equal((await ada.get(linksOf(answer)['Previous'] ?? '')).status, 200);
    });
});

describe('the date links of a list', () => {
  const dates = async (query: string, model?: string): Promise<string | undefined> => {
    const nav = /<nav class="dates"[\s\S]*?<\/nav>/.exec((await list(query, model)).text)?.[0];
    return (
      nav &&
      unescaped(nav.replace(/<[^>]*>/g, ' '))
        .replace(/\s+/g, ' ')
        .trim()
    );
  };

  test('lead from years to months to days and back', async () => {
    assert.equal(await dates(''), 'At 2023 2024');
    const year = linksOf(await list(''))['2024'] ?? '';
    assert.equal(year, '/admin/thing/?at__gte=2024-01-01&at__lt=2025-01-01');
    assert.deepEqual(names(await ada.get(year)), ['Green apple', 'Pear', 'Plum']);
    assert.equal(await dates(year.slice(13)), 'At All dates 2024 February March');
    const month = linksOf(await ada.get(year))['February'] ?? '';
    assert.equal(month, '/admin/thing/?at__gte=2024-02-01&at__lt=2024-03-01');
    assert.equal(await dates(month.slice(13)), 'At All dates 2024 February 29');
    const day = linksOf(await ada.get(month))['29'] ?? '';
    assert.deepEqual(names(await ada.get(day)), ['Green apple', 'Pear']);
    const back = linksOf(await ada.get(day));
    assert.deepEqual([back['All dates'], back['2024'], back['February']], ['/admin/thing/', year, month]);
  });

  test('start with the months of a single year, and with the days of a single month', async () => {
    const rows = (...days: string[]) => service.sql`
      insert into recent (name, at) select day, day::timestamp from unnest(${days}::text[]) day`;
    const shown = async (): Promise<string | undefined> => dates('', 'recent');
    await rows('2026-03-04');
    assert.equal(await shown(), undefined);
    await rows('2026-03-06 12:00');
    assert.equal(await shown(), 'At 2026 March 4 5 6');
    const day = linksOf(await list('', 'recent'))['6'] ?? '';
    assert.equal(day, '/admin/recent/?at__gte=2026-03-06&at__lt=2026-03-07');
    assert.equal(names(await ada.get(day)).length, 1);
    await rows('2026-05-01');
    assert.equal(await shown(), 'At 2026 March April May');
    await rows('2027-01-01');
    assert.equal(await shown(), 'At 2026 2027');
  });

  test('keep filters and search, and are omitted for a large table without an index', async () => {
    assert.equal(
      linksOf(await list('?author=1&_search=e&page=1'))['2023'],
      '/admin/thing/?author=1&_search=e&at__gte=2023-01-01&at__lt=2024-01-01',
    );
    assert.doesNotMatch((await list('', 'many')).text, /class="dates"/);
  });

  test('lead to the last day of the year 9999', async () => {
    const days = ['9998-12-31 23:59:59', '9999-12-30', '9999-12-31', '9999-12-31 23:59:59'];
    await service.sql`delete from recent`;
    await service.sql`insert into recent (name, at) select day, day::timestamp from unnest(${days}::text[]) day`;
    assert.equal(await dates('', 'recent'), 'At 9998 9999');
    let page = await list('', 'recent');
    for (const [title, count] of [
      ['9999', 3],
      ['December', 3],
      ['31', 2],
    ] as const) {
      page = await ada.get(linksOf(page)[title] ?? '');
      assert.equal(names(page).length, count, title);
    }
  });

  test('omit infinite dates and years outside 1 to 9999', async () => {
    for (const at of ['infinity', '-infinity', '0044-03-15 BC', '12023-01-01']) {
      await service.sql`insert into thing (name, at) values ('Odd', ${at}::text::timestamp)`;
      assert.equal(await dates(''), 'At 2023 2024', at);
      await service.sql`delete from thing where name = 'Odd'`;
    }
  });
});

test('an empty list says why it is empty and links to the next step', async () => {
  assert.match(readable(await list('', 'message')), /There are no records yet\. Add the first one/);
  const none = readable(await list('', 'fixed'));
  assert.match(none, /There are no records yet\./);
  assert.doesNotMatch(none, /Add the|Import/);
  const nothing = await list('?name=nothing&colour=red');
  assert.match(readable(nothing), /No matching records\. Show all records/);
  assert.equal(linksOf(nothing)['Show all records'], '/admin/thing/');
});

test('keys with any characters link to their records', async () => {
  const page = await list('?ordering=id', 'land');
  const rows = [...page.text.matchAll(/<th scope="row"[^>]*>\s*<a href="([^"]*)"/g)].map(([, href = '']) =>
    unescaped(href),
  );
  assert.equal(rows.length, 5);
  for (const href of rows) assert.equal((await ada.get(href)).status, 200, href);
});

test('a page of 20 records is smaller than 30 KiB', async () => {
  await service.sql`insert into thing (name, note, author_id, amount, big, ratio, price, at)
    select 'weighed ' || n, repeat('long note ', 30), 1 + n % 2, n, n, n, n, now() from generate_series(1, 20) n`;
  const page = await list('?name__ilike=weighed%25');
  assert.equal(names(page).length, 20);
  assert.ok(page.text.length < 30 * 1024, `${page.text.length} bytes`);
});
