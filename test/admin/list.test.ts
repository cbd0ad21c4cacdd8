// The list page: search, sorting, pages, date links, empty lists, its size, and the filter panel.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { closedAfter, startService, useService, type Sql } from '../support.ts';
import { fieldsOf, logIn, readable, unescaped, type AdminAnswer, type Browser } from './support.ts';
import { resources as shipped, thing } from './sample-resources.ts';
import { before, describe, test } from 'node:test';

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

let ada: Browser;
const service = useService(resources, {}, async () => {
  await service.addUser('ada', { admin: true });
  await service.addUser('grace');
  await service.sql`insert into thing (name, note, at, author_id, hidden) values
    ('Red apple', 'from the tree', '2023-12-31 23:59:59', 1, 'secret words'), ('Green apple', '100%', '2024-02-29 00:00:00', 2, ''),
    ('Pear', 'a_b', '2024-02-29 23:59:59', 1, ''), ('Plum', 'a\\b', '2024-03-01 00:00:00', null, ''), ('Fig', null, null, 2, '')`;
  await service.sql`insert into many (name, at) select 'many ' || n, timestamp '2024-01-01' + n * interval '1 hour' from generate_series(1, 20000) n`;
  await service.sql`analyze many`;
  await service.sql`insert into land (code, name) values ('no', 'Norway'), ('a/b?c=d&e', 'Odd'), (' ', 'Blank'), ('-', 'Dash'), ('é€', 'Signs')`;
  await service.sql`insert into stay (land_id) values ('no')`;
  await service.sql`insert into trip default values`;
  ada = await logIn(service, 'ada');
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

/** Replaces the records of the tests above by those of the filters. */
async function fillForFilters(): Promise<void> {
  await service.sql`truncate thing`;
  await service.sql`insert into thing (name, note, amount, big, ratio, price, ready, maybe, at, day, hour, extra, colour, author_id)
    select 'thing ' || n, case when n % 3 = 0 then null else 'note, "' || n % 5 || '" 100%_\\' end, nullif(n % 7, 0), 9007199254740993 + n,
      n / 4.0, n * 1.25, n % 2 = 0, case n % 3 when 0 then true when 1 then false end, timestamp '2024-01-01' + n * interval '37 hours',
      date '2024-01-01' + n, time '00:00' + n * interval '17 minutes', jsonb_build_object('n', n % 4),
      (array['red', 'green', 'blue'])[1 + n % 3], nullif(n % 3, 0) from generate_series(1, 60) n`;
  await service.sql`truncate land cascade`;
  await service.sql`insert into land (code, name) values ('no', 'Norway'), ('se', 'Sweden'), ('norway', 'Old')`;
}

/** Sends the form of the filter panel. @returns the query of the list */
async function applyFilter(
  model: string,
  path: string,
  how: string,
  value: string,
  state = '',
): Promise<string> {
  const query = new URLSearchParams(state);
  for (const pair of Object.entries({ _path: path, _how: how, _value: value })) query.append(...pair);
  const { status, location = '' } = await ada.get(`/admin/${model}/-/filter/?${String(query)}`);
  assert.equal(status, 303);
  return decodeURIComponent(location.replace(`/admin/${model}/`, ''));
}

const chips = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/<li class="chip(?: faulty)?">([\s\S]*?)<a\b[^>]*class="remove"/g)].map(
    ([, content = '']) =>
      unescaped(content.replace(/<[^>]*>/g, ' '))
        .replace(/\s+/g, ' ')
        .trim(),
  );

describe('the filter panel', () => {
  before(fillForFilters);

  test('replaces the days of a column by another day, because values of one parameter are alternatives', async () => {
    const year = 'amount=5&at__gte=2024-01-01&at__lt=2025-01-01';
    for (const [how, value, expected] of [
      ['eq', '2024-05-31', '?amount=5&at__gte=2024-05-31&at__lt=2024-06-01'],
      ['lte', '2024-05-31', '?amount=5&at__gte=2024-01-01&at__lt=2024-06-01'],
      ['gt', '2024-05-31', '?amount=5&at__lt=2025-01-01&at__gte=2024-06-01'],
    ] as const)
      assert.equal(await applyFilter('thing', 'at', how, value, year), expected);
  });

  test('takes the seconds of a time', async () => {
    const page = await ada.get('/admin/thing/?_filter=hour');
    assert.match(page.text, /type="time"\s+value=""\s+step="1"/);
  });

  for (const [path, how, value, expected] of [
    ['name', 'contains', '50%_\\', '?name__ilike=%50\\%\\_\\\\%'],
    ['name', 'begins', 'a b&c=d', '?name__ilike=a b&c=d%'],
    ['name', 'eq', "O'Hara +", "?name=O'Hara +"],
    ['name', 'ne', '', '?name__ne='],
    ['at', 'eq', '2024-02-29', '?at__gte=2024-02-29&at__lt=2024-03-01'],
    ['at', 'lte', '2024-12-31', '?at__lt=2025-01-01'],
    ['at', 'gt', '2024-12-31', '?at__gte=2025-01-01'],
    ['at', 'gte', '2024-12-31', '?at__gte=2024-12-31'],
    // A usual date for "without an end".
    ['at', 'eq', '9999-12-31', '?at__gte=9999-12-31&at__lt=10000-01-01'],
    ['at', 'gt', '9999-12-31', '?at__gte=10000-01-01'],
    // An invalid date is passed on, so that the list reports it.
    ['at', 'eq', '2021-02-30', '?at=2021-02-30'],
    ['at', 'lte', '2020-13-45', '?at__lte=2020-13-45'],
    ['at', 'eq', '2024-02-29 10:00', '?at=2024-02-29 10:00'],
    ['name', 'in', ' a , "b , c" ,d', '?name__in=a,"b , c",d'],
    // Only a date with a time is rewritten. In a text, a T after a day belongs to the text.
    ['name', 'eq', '2024-05-31Trip.jpg', '?name=2024-05-31Trip.jpg'],
    ['name', 'begins', '2024-05-31T18:30', '?name__ilike=2024-05-31T18:30%'],
    ['note', 'empty', 'whatever', '?note__is=null'],
    ['amount', 'lt', 'five', '?amount__lt=five'],
    ['amount', 'in', '1, 2', '?amount__in=1,2'],
    ['big', 'gt', '9007199254740993', '?big__gt=9007199254740993'],
    ['ratio', 'lte', '-1.5', '?ratio__lte=-1.5'],
    ['price', 'ne', '12.30', '?price__ne=12.30'],
    ['maybe', 'empty', '', '?maybe__is=null'],
    ['at', 'gte', '2024-05-31T18:30', '?at__gte=2024-05-31 18:30'],
    ['hour', 'gt', '18:30', '?hour__gt=18:30'],
    ['code', 'eq', '6f9619ff-8b86-d011-b42d-00cf4fc964ff', '?code=6f9619ff-8b86-d011-b42d-00cf4fc964ff'],
    ['author', 'eq', 'grace', '?author=2'],
    ['author', 'eq', 'GRA', '?author=2'],
    ['author', 'ne', '2', '?author__ne=2'],
    ['author__username', 'contains', 'a', '?author__username__ilike=%a%'],
    ['secret', 'eq', 'x', '?secret=x'],
    // Filters that the panel does not offer are ignored.
    ['hidden', 'eq', 'x', ''],
    ['author__password', 'contains', 'a', ''],
    ['nothing', 'eq', 'x', ''],
    ['colour', 'contains', 'r', ''],
    ['amount', 'contains', '1', ''],
    ['ready', 'gte', 'true', ''],
    ['author', 'in', '1, 2', ''],
    ['at', 'ne', '2024-05-31', ''],
    ['at', 'in', '2024-05-31, 2024-06-01', ''],
    ['code', 'gt', '6f9619ff-8b86-d011-b42d-00cf4fc964ff', ''],
    ['name', 'drop', 'x', ''],
  ] as const)
    test(`turns ${path} ${how} ${JSON.stringify(value)} into ${expected || 'no parameter'}`, async () => {
      assert.equal(await applyFilter('thing', path, how, value), expected);
    });

  test('keeps the other parameters of the list, except the page', async () => {
    const state = 'colour=red&_search=a&ordering=-name&limit=50&page=3&_filter=name';
    const expected = '?colour=red&_search=a&ordering=-name&limit=50&name=x';
    assert.equal(await applyFilter('thing', 'name', 'eq', 'x', state), expected);
  });

  test('shows links when the words match several related records', async () => {
    const page = await ada.get('/admin/thing/-/filter/?_path=author&_how=ne&_value=a&colour=red');
    assert.equal(page.status, 200);
    assert.match(page.text, /href="\/admin\/thing\/\?colour=red&amp;author__ne=1">ada<\/a>/);
  });

  test('shows a search form when the words match no related record', async () => {
    const none = await ada.get('/admin/thing/-/filter/?colour=red&_path=author&_how=ne&_value=zzz');
    assert.match(readable(none), /^Which author do you mean\?.*No records match “zzz”/);
    const [form = ''] = /<form[^>]*class="search"[\s\S]*?<\/form>/.exec(none.text) ?? [];
    assert.match(form, /action="\/admin\/thing\/-\/filter\/"/);
    const fields = Object.fromEntries(
      [...form.matchAll(/name="(\w+)"\s+value="([^"]*)"/g)].map(([, name, value = '']) => [
        name,
        unescaped(value),
      ]),
    );
    assert.deepEqual(fields, { colour: 'red', _path: 'author', _how: 'ne', _value: 'zzz' });
    assert.equal(
      await applyFilter('thing', 'author', 'ne', 'grace', 'colour=red'),
      '?colour=red&author__ne=2',
    );
  });

  test('prefers the related record with exactly this label', async () => {
    const [user] =
      await service.sql`insert into "user" (username, password, email) values ('grac', '', '') returning id`;
    assert.equal(await applyFilter('thing', 'author', 'eq', 'GRAC'), `?author=${user?.['id']}`);
    await service.sql`delete from "user" where username = 'grac'`;
  });

  test('says which comparisons need no value, for browsers without JavaScript', async () => {
    const note = await ada.get('/admin/thing/?_filter=note');
    assert.match(readable(note), /not needed for “has no value” and “has a value”/);
    assert.match(note.text, /<option value="empty"\s+data-alone>/);
    assert.doesNotMatch(readable(await ada.get('/admin/thing/?_filter=name')), /not needed/);
  });

  test('has a form for each column, with the comparisons and choices of its type', async () => {
    const list = await ada.get('/admin/thing/');
    const offered = [...list.text.matchAll(/href="([^"]*_filter=([\w]+))"/g)];
    assert.ok(offered.length >= 14);
    assert.ok(offered.every(([, , name]) => !['extra', 'hidden'].includes(name ?? '')));
    for (const [, href = '', name = ''] of offered) {
      const page = await ada.get(unescaped(href));
      const form = /<form class="add-filter"[\s\S]*?<\/form>/.exec(page.text)?.[0] ?? '';
      const hows = [...form.matchAll(/<option value="(\w+)"[^>]*>[^<]*<\/option>/g)].map(
        ([, value]) => value,
      );
      assert.ok(hows.includes('eq'), `${name}: ${hows.join()}`);
      assert.equal(hows.includes('ne'), name !== 'at', name);
      assert.equal(hows.includes('contains'), ['name', 'note', 'secret'].includes(name), name);
      assert.equal(
        hows.includes('gt'),
        !/^(name|note|secret|code|ready|maybe|colour|author)$/.test(name),
        name,
      );
      assert.equal(hows.includes('in'), !/^(ready|maybe|colour|author|at|day|hour|extra)$/.test(name), name);
    }
    const { text } = await ada.get('/admin/thing/?_filter=colour');
    assert.match(text, /<option value="green"\s*>green<\/option>/);
    assert.doesNotMatch((await ada.get('/admin/thing/?_filter=hidden')).text, /add-filter/);
  });
});

describe('an active filter', () => {
  for (const [query, expected] of [
    ['name=a', 'Name is “a”'],
    ['name=', 'Name is “”'],
    ['-name__ne=a', 'Name not: is not “a”'],
    ['name__ilike=%25a%5C%25%25', 'Name contains “a%”'],
    ['name__ilike=a%25', 'Name begins with “a”'],
    ['name__ilike=a_%25', 'Name matches the pattern “a_%”'],
    ['note__is=null', 'Note has no value'],
    ['-note__is=null', 'Note has a value'],
    ['amount__gte=5', 'Amount is at least “5”'],
    ['at__lt=2024-05-31', 'At is before “2024-05-31”'],
    ['at__ne=2024-05-31', 'At is not “2024-05-31”'],
    ['ready=true', 'Ready is yes'],
    ['author=2', 'Author is grace'],
    ['author=4711', 'Author is “4711”'],
    ['author__ne=1', 'Author is not ada'],
    ['author__in=2,1,4711', 'Author is one of grace, ada, “4711”'],
    ['author__in=1,2,3,4,5,6,7,8,9,10,11,12', /^Author is one of ada, grace, “3”.*“10” and 2 more$/],
    ['author__username=ada', 'Author › Username is “ada”'],
    ['colour__in=red,blue', 'Colour is one of “red,blue”'],
  ] as const)
    test(`${query} is shown as: ${String(expected)}`, async () => {
      const page = await ada.get(`/admin/thing/?${query}`);
      assert.equal(page.status, 200);
      if (typeof expected === 'string') assert.deepEqual(chips(page), [expected]);
      else assert.match(chips(page).join(), expected);
    });

  test('can be removed alone, even if another filter has the same name', async () => {
    const page = await ada.get('/admin/thing/?name=a&colour=red&name=b&page=1&ordering=name&_search=x');
    assert.deepEqual(chips(page), ['Name is “a”', 'Colour is “red”', 'or Name is “b”']);
    for (const [removed, rest] of [
      ['a', 'colour=red&amp;name=b'],
      ['b', 'name=a&amp;colour=red'],
    ] as const) {
      const link = new RegExp(
        `“${removed}”</b></a></span\\s*>\\s*<a\\s+href="([^"]*)"\\s+class="remove"`,
      ).exec(page.text)?.[1];
      assert.equal(link, `/admin/thing/?${rest}&amp;ordering=name&amp;_search=x`);
    }
    assert.match(page.text, /href="\/admin\/thing\/\?ordering=name&amp;_search=x">Remove all filters/);
  });

  for (const [query, how, value] of [
    ['name__ilike=%25x%25', 'contains', 'x'],
    ['name__ilike=50%5C%25%25', 'begins', '50%'],
    ['name__ilike=%25x_', 'ilike', '%x_'],
    ['name=%3Cb%3E%22', 'eq', '<b>"'],
    ['name__in=a%2C%22b%20%2C%20c%22', 'in', 'a,"b , c"'],
    ['note__is=null', 'empty', ''],
    ['-note__is=null', 'filled', ''],
    ['amount__gte=5', 'gte', '5'],
    ['amount=five', 'eq', 'five'],
    ['ready=false', 'eq', 'false'],
    ['colour__ne=green', 'ne', 'green'],
    ['author=2', 'eq', '2'],
    ['author__username=ada', 'eq', 'ada'],
    ['at__lt=2024-05-31', 'lt', '2024-05-31'],
  ] as const)
    test(`${query} can be changed in a form with its current value`, async () => {
      const page = await ada.get(`/admin/thing/?code__is=null&${query}&ordering=name`);
      const links = [...page.text.matchAll(/<a href="([^"]*)" title="Change this filter">/g)];
      const form = await ada.get(unescaped(links.at(-1)?.[1] ?? ''));
      assert.deepEqual(chips(form), chips(page));
      const fields = fieldsOf(form);
      assert.deepEqual([fields['_how'], fields['_value']], [how, value]);
      const again = await ada.get(`/admin/thing/-/filter/?${String(new URLSearchParams(fields))}`);
      assert.equal(
        decodeURIComponent(again.location ?? ''),
        `/admin/thing/?code__is=null&ordering=name&${decodeURIComponent(query)}`,
      );
    });

  test('has no “or” when all filters must match', async () => {
    const page = await ada.get('/admin/thing/?name__ne=a&name__ne=b&-name=c&-name=d');
    assert.doesNotMatch(chips(page).join(), /\bor\b/);
  });

  test('reports a missing value', async () => {
    const fields = { amount: '5', _path: 'amount', _how: 'eq', _value: '', _old: '0' };
    const answer = await ada.get(`/admin/thing/-/filter/?${String(new URLSearchParams(fields))}`);
    assert.equal(answer.location, '/admin/thing/?amount=5&_filter=amount&_old=0');
    assert.match((await ada.follow(answer)).text, /Enter a value for the filter\./);
  });

  test('can only be removed when the panel cannot express it', async () => {
    for (const query of [
      '-author=2',
      'author__in=1,2',
      'at__ne=2024-05-31',
      'at__in=2024-05-31,2024-06-01',
      '-name__ilike=%25x%25',
      'nothing=1',
      'hidden=x',
      'author__password=x',
    ]) {
      const page = await ada.get(`/admin/thing/?${query}`);
      assert.equal(chips(page).length, 1, query);
      assert.doesNotMatch(page.text, /Change this filter/, query);
    }
  });

  for (const query of [
    'amount=five',
    'name__like=foo%',
    'name=%00',
    'name=%ff&note=x',
    'n%zz=1',
    'nothing=1',
    'name__between=a',
    'hidden=out+of+sight',
    'author__password__ilike=%25',
    'author__password=x',
    'ordering=hidden',
    'ordering=author__password',
    'ordering=name,,',
    'limit=0',
    'page=x',
    'ordering=name&ordering=id',
    'extra__gt=1',
    'name__in=',
    'name__ilike=%5C',
    'at=yesterday',
    'constructor=1',
    '-__proto__=1',
  ]) {
    test(`${query} returns 400 and is shown with its error instead of a list`, async () => {
      const page = await ada.get(`/admin/thing/?colour=red&${query}`);
      assert.equal(page.status, 400);
      assert.doesNotMatch(page.text, /<table|id="bulk"|export\.csv/);
      assert.match(page.text, /class="chip faulty"/);
      assert.match(page.text, /href="\/admin\/thing\/\?colour=red(&amp;note=x)?" ?\s*class="remove"/);
      assert.match(readable(page), /The list cannot be shown/);
      assert.doesNotMatch(page.text, /argon2/);
    });
  }
});

test('an invalid search is shown in its field with its error', async () => {
  const page = await ada.get('/admin/thing/?_search=100%');
  assert.equal(page.status, 400);
  assert.match(page.text, /name="_search"\s+value="100%"/);
  assert.match(readable(page), /is not percent-encoded UTF-8/);
});

test('the list of the admin area has the same records as the API for the same query', async () => {
  const text = fc.constantFrom('thing 1', 'thing', '', 'note, "1" 100%_\\', 'Ä');
  const number = fc.integer({ min: -1, max: 70 }).map(String);
  const moment = fc.constantFrom('2024-01-02', '2024-02-01 12:00', '2024-03-31 23:59:59');
  const order = fc.constantFrom('eq', 'ne', 'lt', 'lte', 'gt', 'gte');
  const one = (name: string, how: fc.Arbitrary<string>, value: fc.Arbitrary<string>) =>
    fc.tuple(fc.boolean(), how, value).map(([negated, operator, shown]) => {
      const path = operator === 'eq' ? name : `${name}__${operator}`;
      return [`${negated ? '-' : ''}${path}`, shown] as const;
    });
  const pattern = text.map((part) => `%${part.replace(/[\\%_]/g, '\\$&')}%`);
  const filter = fc.oneof(
    one('name', order, text),
    one('note', fc.constantFrom('like', 'ilike'), pattern),
    one('note', fc.constant('is'), fc.constant('null')),
    ...['amount', 'id', 'author', 'ratio', 'price'].map((name) => one(name, order, number)),
    one('amount', fc.constant('in'), fc.array(number, { minLength: 1, maxLength: 3 }).map(String)),
    one('author__username', order, fc.constantFrom('ada', 'grace', 'x')),
    one('at', order, moment),
    one('ready', fc.constantFrom('eq', 'ne', 'is'), fc.constantFrom('true', 'false')),
    one('colour', fc.constant('in'), fc.constantFrom('red', 'red,blue', '"green"')),
    fc.tuple(fc.constant('ordering'), fc.constantFrom('name', '-amount,name', 'author__username', '-at')),
    fc.tuple(fc.constant('page'), fc.constantFrom('1', '2')),
    fc.tuple(fc.constant('limit'), fc.constantFrom('3', '20', '50')),
  );
  const query = fc.uniqueArray(filter, { maxLength: 4, selector: ([name]) => name });
  await fc.assert(
    fc.asyncProperty(query, async (filters) => {
      const search = filters.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
      const page = await ada.get(`/admin/thing/?${search}`);
      assert.equal(page.status, 200, search);
      const ids = [...page.text.matchAll(/name="_id"\s+value="(\d+)"/g)].map(([, id]) => Number(id));
      const link = unescaped(/href="(\/api\/thing\/[^"]*)"/.exec(page.text)?.[1] ?? '');
      const { json } = await service.request(link, { user: 'ada' });
      assert.deepEqual(
        ids,
        json.objects.map(({ id }: { id: number }) => id),
        search,
      );
    }),
    { numRuns: 60 },
  );
});

test('a table of which no column can be served has a list, too', async (t) => {
  const bare = { model: 'bare', primaryKey: false, columns: {}, methods: ['GET'] } satisfies Resource;
  const prepare = (sql: Sql) => sql`create table bare (id bytea primary key)`;
  const service = closedAfter(t, await startService([...shipped, bare], { prepare }));
  await service.sql`insert into bare values ('\\x01'), ('\\x02')`;
  await service.addUser('ada', { admin: true });
  assert.equal((await (await logIn(service, 'ada')).get('/admin/bare/')).status, 200);
});
