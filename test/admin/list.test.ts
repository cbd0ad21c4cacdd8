// The list page: search, sorting, pages, views, columns, empty lists, its size, and the filter panel.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { closedAfter, startService, useService, type Sql } from '../support.ts';
import {
  errorsIn,
  fieldsOf,
  logIn,
  readable,
  unescaped,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { resources as shipped, thing } from './sample-resources.ts';
import { before, describe, test } from 'node:test';

const LISTED = ['name', 'note', 'author', 'amount', 'price', 'ready', 'at', 'extra'];

const resources: readonly Resource[] = [
  ...shipped.map((one) =>
    one.model === 'thing'
      ? { ...thing, admin: { ...thing.admin, list: LISTED, search: ['name', 'note', 'author__username'] } }
      : one,
  ),
  {
    model: 'many',
    columns: {
      name: { type: 'string' },
      at: { type: 'datetime' },
      even: { type: 'boolean', default: false },
    },
    admin: { dates: 'at' },
  },
  {
    model: 'job',
    columns: {
      title: { type: 'string' },
      status: {
        type: 'string',
        choices: { open: 'Open', waiting: 'Waiting', done: 'Done' },
        default: 'open',
      },
      worker: { type: 'foreignKey', references: 'user', null: true },
      team: { type: 'string', null: true },
      place: { type: 'foreignKey', references: 'many', null: true },
    },
    admin: {
      list: ['title', 'status'],
      filters: ['status', 'worker', 'place', 'title'],
      views: [
        { title: 'Open', query: 'status=open&ordering=-id' },
        { title: 'Mine', query: 'worker=$me&status__in=open,waiting&_columns=title' },
        { title: 'Of my name', query: 'team=$me.username' },
      ],
    },
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
  { model: 'marked', columns: { name: { type: 'string' } }, admin: { list: ['name'], search: ['name'] } },
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
  await service.sql`insert into job (title, status, worker_id, team, place_id) values
    ('one', 'open', 1, 'ada', null), ('two', 'waiting', 1, null, 3), ('three', 'open', 2, 'ada', 3), ('four', 'done', null, null, 4)`;
  await service.sql`insert into marked (name) values ('García'), ('GARCIA'), (${'Garci\u0301a'}), ('İstanbul'), ('Αθήνα'),
    ('Nguyễn 100％'), ('한국'), ('Straße'), ('がくせい')`;
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

  for (const [words, found] of [
    ['garcia', ['García', 'GARCIA', 'Garci\u0301a']],
    ['García', ['García', 'GARCIA', 'Garci\u0301a']],
    ['istanbul', ['İstanbul']],
    ['αθηνα', ['Αθήνα']],
    ['nguyen', ['Nguyễn 100％']],
    ['한', ['한국']],
    ['%', ['Nguyễn 100％']],
    ['_', []],
    ['strasse', []],
    ['straße', ['Straße']],
    ['が', ['がくせい']],
    ['\u0301', ['Garci\u0301a']],
  ] as const)
    test(`finds ${found.length} names by ${words}, with and without marks`, async () => {
      assert.deepEqual(
        names(await list(`?_search=${encodeURIComponent(words)}&ordering=id`, 'marked')),
        found,
      );
    });

  test('finds each text by each part of it, in any case', async () => {
    const part = fc.constantFrom(...'aÉßİıſǅ한が％＿\\%_ñệΆ', 'e\u0301', 'ﬁ', '½', 'ش\u0651\u064E');
    const text = fc.array(part, { minLength: 1, maxLength: 8 }).map((parts) => parts.join(''));
    await fc.assert(
      fc.asyncProperty(text, fc.nat(7), fc.nat(7), async (whole, from, to) => {
        const [{ id } = { id: 0 }] = await service.sql<{ id: number }[]>`
          insert into marked (name) values (${whole}) returning id`;
        const word = [...whole]
          .slice(Math.min(from, to), Math.max(from, to) + 1)
          .join('')
          .trim();
        if (word === '') return;
        const [before] = await service.sql`select from marked
          where id = ${id} and name ilike ${`%${word.replace(/[\\%_]/g, '\\$&')}%`}`;
        const page = await list(`?_search=${encodeURIComponent(word)}&id=${id}`, 'marked');
        if (before) assert.equal(names(page).length, 1, JSON.stringify([whole, word]));
      }),
      { numRuns: 60 },
    );
  });

  test('keeps the filters and the order, and can be cleared', async () => {
    const page = await list('?_search=apple&author=1&ordering=-name&page=1');
    const form = /<form class="search"[\s\S]*?<\/form>/.exec(page.text)?.[0] ?? '';
    const hidden = [...form.matchAll(/type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(
      ([, name, value]) => [name, value],
    );
    assert.deepEqual(hidden, [['author', '1'], ['ordering', '-name']]); // prettier-ignore
    assert.equal(linksOf(page)['Clear the search'], '/admin/thing/?author=1&ordering=-name');
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
async function apply(model: string, fields: Fields, state = ''): Promise<string> {
  const query = new URLSearchParams(state);
  for (const [name, values] of Object.entries(fields))
    for (const value of [values].flat()) query.append(name, value);
  const { status, location = '' } = await ada.get(`/admin/${model}/-/filter/?${String(query)}`);
  assert.equal(status, 303);
  return decodeURIComponent(location.replace(`/admin/${model}/`, ''));
}

const applyComparison = (path: string, how: string, value: string, state = ''): Promise<string> =>
  apply('thing', { _path: path, _how: how, _value: value }, state);

/** The form of the filter panel, and the fields that a browser would send for it. */
function panelOf({ text }: AdminAnswer): { readonly form: string; readonly fields: [string, string][] } {
  const form = /<section class="filter-panel"[\s\S]*?<\/form>/.exec(text)?.[0] ?? '';
  const fields: [string, string][] = [];
  const attribute = (tag: string, name: string): string =>
    unescaped(new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? '');
  for (const [, tag = '', content] of form.matchAll(
    /<(?:input|select)\b([^>]*)>(?:(?<=<select[^>]*>)([\s\S]*?)<\/select>)?/g,
  )) {
    const chosen =
      /<option value="([^"]*)" selected/.exec(content ?? '') ?? /<option value="([^"]*)"/.exec(content ?? '');
    const value = content === undefined ? attribute(tag, 'value') : unescaped(chosen?.[1] ?? '');
    if (!tag.includes('type="checkbox"') || tag.includes(' checked'))
      fields.push([attribute(tag, 'name'), value]);
  }
  return { form, fields };
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

  for (const [fields, expected] of [
    [{ '_is.colour': '=red' }, '?colour=red'],
    [{ '_is.colour': ['=red', '=blue'] }, '?colour__in=red,blue'],
    [{ '_is.ready': '=false' }, '?ready=false'],
    [{ '_is.maybe': 'none' }, '?maybe__is=null'],
    [{ '_is.author': '=2' }, '?author=2'],
    [{ '_is.author': 'none' }, '?author__is=null'],
    [{ '_find.author': 'grace' }, '?author=2'],
    [{ '_find.author': 'GRA' }, '?author=2'],
    [{ '_find.author': '2' }, '?author=2'],
    [{ '_has.name': ' apple ' }, '?name__ilike=%apple%'],
    [{ '_has.name': '50%_\\' }, '?name__ilike=%50\\%\\_\\\\%'],
    [{ '_has.code': 'not a code' }, '?code=not a code'],
    [{ '_from.amount': '1', '_to.amount': '5' }, '?amount__gte=1&amount__lte=5'],
    [{ '_from.big': '9007199254740993' }, '?big__gte=9007199254740993'],
    [{ '_to.hour': '18:30' }, '?hour__lte=18:30:00'],
    [{ '_from.day': '2024-01-05', '_to.day': '2024-01-06' }, '?day__gte=2024-01-05&day__lte=2024-01-06'],
    [{ '_from.at': '2024-02-29', '_to.at': '2024-02-29' }, '?at__gte=2024-02-29&at__lt=2024-03-01'],
    // A usual date for "without an end".
    [{ '_to.at': '9999-12-31' }, '?at__lt=10000-01-01'],
    // An invalid value is passed on, so that the list reports it.
    [{ '_from.at': '2021-02-30' }, '?at__gte=2021-02-30'],
    [{ '_to.at': '2020-13-45' }, '?at__lte=2020-13-45'],
    [{ '_from.amount': 'five' }, '?amount__gte=five'],
    [{ '_is.colour': '=pink' }, '?colour=pink'],
    // Columns that the panel does not offer are ignored.
    [{ '_has.hidden': 'x', '_is.nothing': '=1', '_has.author__password': 'a', '_from.extra': '1' }, ''],
  ] as const satisfies readonly (readonly [Fields, string])[])
    test(`turns ${JSON.stringify(fields)} into ${expected || 'no parameter'}`, async () => {
      assert.equal(await apply('thing', fields), expected);
    });

  for (const [period, from] of [
    ['today', (day: Date) => day],
    ['week', (day: Date) => new Date(day.getTime() - 6 * 86_400_000)],
    ['month', (day: Date) => new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth(), 1))],
  ] as const)
    test(`has a button for the days of ${period}`, async () => {
      const day = (date: Date): string => date.toISOString().slice(0, 10);
      const before = new Date();
      const query = await apply('thing', {
        _period: `${period}.at`,
        '_from.at': '2020-01-01',
        '_is.ready': '=true',
      });
      const possible = [before, new Date()].map((now) => {
        const next = day(new Date(now.getTime() + 86_400_000));
        return `?ready=true&at__gte=${day(from(now))}&at__lt=${next}`;
      });
      assert.ok(possible.includes(query), query);
    });

  test('reports a value beside “no value”, and shows what was typed', async () => {
    const fields = { _panel: '1', '_is.maybe': ['=true', 'none'], '_has.name': 'typed' };
    const list = await ada.get((await apply('thing', fields, 'amount=5')).replace(/^/, '/admin/thing/'));
    assert.equal(list.status, 200);
    const { form, fields: sent } = panelOf(list);
    assert.deepEqual(sent.filter(([name]) => name === '_is.maybe').map(([, value]) => value), ['=true', 'none']); // prettier-ignore
    assert.ok(
      sent.some(([name, value]) => name === '_has.name' && value === 'typed'),
      form,
    );
  });

  for (const query of [
    'colour__in=red,blue&ready=true&maybe__is=null',
    'author=2',
    'author__is=null',
    'author=4711',
    'at__gte=2024-02-29&at__lt=2024-03-01',
    'at__lt=10000-01-01',
    'day__gte=2024-01-05&day__lte=2024-01-06',
    'day=2024-01-05',
    'amount__gte=1&amount__lte=5',
    'amount__gte=five',
    'big=9007199254740993',
    'name__ilike=%25a%5C%25%25',
    'hour__gte=18%3A30%3A00',
    // The panel has no control for these, and keeps them.
    '-author=2',
    'author__in=1,2',
    'at__ne=2024-05-31',
    'at__gte=2024-05-31+18%3A30',
    'name=a&name=b',
    'name__ilike=a%25',
    '-name__ilike=%25x%25',
    'colour__in=red,pink',
    'maybe__is=true',
    'amount__gt=1&amount__gte=2',
    'nothing=1',
    'hidden=x',
    'ordering=name&limit=50&_search=a&_columns=name%2Cday',
  ])
    test(`shows ${query} and sends it again`, async () => {
      const { fields } = panelOf(await ada.get(`/admin/thing/?page=1&${query}`));
      const answer = await ada.get(`/admin/thing/-/filter/?${String(new URLSearchParams(fields))}`);
      const sorted = (text: string): string[][] => [...new URLSearchParams(text)].sort();
      assert.equal(answer.status, 303);
      assert.deepEqual(sorted(answer.location?.split('?')[1] ?? ''), sorted(query));
    });

  test('has a control for each column, of its type', async () => {
    const { form } = panelOf(await ada.get('/admin/thing/'));
    for (const part of [
      /<input type="checkbox" name="_is.colour" value="=green" \/> <span>green</,
      /<input type="checkbox" id="filter-0" name="_is.ready" value="=true" \/> <span>Yes/,
      /<input type="checkbox" name="_is.maybe" value="none" \/> <span>no value/,
      /<select name="_is.author"[\s\S]*<option value="none">no value<[\s\S]*<option value="=2">grace</,
      /<input type="date" id="[^"]*" name="_from.at"/,
      /<input type="time" step="1" id="[^"]*" name="_to.hour"/,
      /<input inputmode="decimal" id="[^"]*" name="_from.amount"/,
      /Name contains<\/label>\s*<input name="_has.name"/,
      /Code is<\/label>/,
      /<summary>More filters<\/summary>/,
    ])
      assert.match(form, part);
    assert.doesNotMatch(form, /hidden"[^>]*name="_has|\.extra|\.hidden/);
  });

  test('shows filters in use outside of “More filters”', async () => {
    const more = async (query: string): Promise<string> =>
      panelOf(await ada.get(`/admin/thing/?${query}`)).form.split('More filters')[1] ?? '';
    assert.match(await more(''), /name="_from.amount"/);
    assert.doesNotMatch(await more('amount__gte=1'), /name="_from.amount"/);
  });

  test('counts the records of each choice without the own filter of its column', async () => {
    const counts = ({ form }: ReturnType<typeof panelOf>, field: string): string[] =>
      [...form.matchAll(new RegExp(`name="_is.${field}"[^>]*>([\\s\\S]*?)</label`, 'g'))].map(([, text = '']) =>
        text.replace(/<[^>]*>/g, '').replace(/\s+/g, ' ').trim(),
      ); // prettier-ignore
    const all = panelOf(await ada.get('/admin/thing/?colour=red'));
    assert.deepEqual(counts(all, 'colour'), ['red 20', 'green 20', 'blue 20']);
    assert.deepEqual(counts(all, 'maybe'), ['Yes 20', 'No 0', 'no value 0']);
    assert.deepEqual(counts(panelOf(await ada.get('/admin/many/')), 'even'), ['Yes', 'No']);
    assert.deepEqual(counts(panelOf(await ada.get('/admin/many/?id__lte=7')), 'even'), ['Yes 0', 'No 7']);
  });

  test('takes as many statements for many records and many filters as for one', async () => {
    const statements = async (query: string): Promise<number> => {
      const count = async (): Promise<number> =>
        [...(await service.metrics()).matchAll(/^vitrine_lane_statement_duration_seconds_count\{.*\} (\d+)$/gm)]
          .reduce((sum, [, found]) => sum + Number(found), 0); // prettier-ignore
      // The first statement of a kind is also estimated.
      await list(query);
      const before = await count();
      assert.equal((await list(query)).status, 200);
      return (await count()) - before;
    };
    const one = await statements('?id=1&author=1&_columns=name,author');
    assert.ok(one > 3 && one < 20, String(one));
    assert.equal(await statements('?id__gte=1&author=1&limit=100&_columns=name,author'), one);
    const others = Array.from({ length: 40 }, (_, index) => `&author__ne=${index + 2}`).join('');
    assert.equal(await statements(`?id=1&author=1&_columns=name,author${others}`), one);
  });

  test('has a search field for a foreign key to many records', async () => {
    const { form } = panelOf(await ada.get('/admin/job/?place=3'));
    assert.match(
      form,
      /data-lookup="\/admin\/many\/-\/lookup\/"[\s\S]*name="_find.place"[^>]*value="3"[\s\S]*many 3</,
    );
    assert.equal(await apply('job', { '_find.place': 'many 20000' }), '?place=20000');
  });

  test('offers the records that words match if they are several', async () => {
    const sent = '_panel=1&_find.place=any+1999&_is.status=%3Dopen&_columns=title&worker=1';
    const list = await ada.follow(await ada.get(`/admin/job/-/filter/?${sent}`));
    assert.match(list.text, /Place: “any 1999” does not match exactly one record\./);
    const { form, fields } = panelOf(list);
    assert.match(form, /<select name="_is.place"[\s\S]*<option value="=19990">many 19990</);
    const chosen = fields.filter(([name]) => name !== '_is.place').concat([['_is.place', '=19990']]);
    const answer = await ada.get(`/admin/job/-/filter/?${String(new URLSearchParams(chosen))}`);
    assert.equal(decodeURIComponent(answer.location ?? ''), '/admin/job/?worker=1&status=open&place=19990&_columns=title'); // prettier-ignore
    const none = await ada.follow(await ada.get('/admin/job/-/filter/?_panel=1&_find.place=nowhere'));
    assert.match(none.text, /“nowhere” does not match exactly one record\./);
    assert.match(panelOf(none).form, /name="_find.place"[^>]*value="nowhere"/);
  });

  for (const [path, how, value, expected] of [
    ['name', 'contains', '50%_\\', '?name__ilike=%50\\%\\_\\\\%'],
    ['name', 'begins', 'a b&c=d', '?name__ilike=a b&c=d%'],
    ['name', 'eq', "O'Hara +", "?name=O'Hara +"],
    ['name', 'ne', '', '?name__ne='],
    ['at', 'gte', '2024-12-31', '?at__gte=2024-12-31'],
    // An invalid date is passed on, so that the list reports it.
    ['at', 'lt', '2021-02-30', '?at__lt=2021-02-30'],
    ['at', 'gte', '2024-02-29 10:00', '?at__gte=2024-02-29 10:00:00'],
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
    ['at', 'gte', '2024-05-31T18:30', '?at__gte=2024-05-31 18:30:00'],
    ['hour', 'gt', '18:30', '?hour__gt=18:30:00'],
    ['code', 'eq', '6f9619ff-8b86-d011-b42d-00cf4fc964ff', '?code=6f9619ff-8b86-d011-b42d-00cf4fc964ff'],
    ['author', 'eq', 'grace', '?author=2'],
    ['author', 'eq', 'GRA', '?author=2'],
    ['author', 'ne', '2', '?author__ne=2'],
    ['author', 'in', ' ada, 2', '?author__in=1,2'],
    ['author', 'empty', 'whatever', '?author__is=null'],
    ['secret', 'eq', 'x', '?secret=x'],
    // The list reports what a column cannot be compared with.
    ['amount', 'contains', '1', '?amount__ilike=%1%'],
    ['name', 'drop', 'x', ''],
    // Columns that the panel does not offer are ignored.
    ['', 'eq', 'x', ''],
    ['hidden', 'eq', 'x', ''],
    ['author__password', 'contains', 'a', ''],
    ['nothing', 'eq', 'x', ''],
  ] as const)
    test(`turns ${path} ${how} ${JSON.stringify(value)} into ${expected || 'no parameter'}`, async () => {
      assert.equal(await applyComparison(path, how, value), expected);
    });

  test('reports a missing value, and keeps what was typed', async () => {
    const query = 'amount=5&_path=amount&_how=lt&_value=&_has.name=typed&_panel=1';
    const list = await ada.follow(await ada.get(`/admin/thing/-/filter/?${query}`));
    assert.match(list.text, /Enter a value for the filter\./);
    const { form, fields } = panelOf(list);
    assert.match(form, /<details +open>\s*<summary>More filters/);
    for (const [name, value] of [['_path', 'amount'], ['_how', 'lt'], ['_has.name', 'typed']] as const)
      assert.ok(fields.some((field) => field.join() === `${name},${value}`), name); // prettier-ignore
    assert.deepEqual(chips(list), ['Amount is “5”']);
  });

  test('replaces another filter of the same name, because values of one parameter are alternatives', async () => {
    const days = 'amount=5&at__gte=2024-01-01&at__lt=2025-01-01';
    assert.equal(
      await applyComparison('at', 'gte', '2024-06-01', days),
      '?amount=5&at__lt=2025-01-01&at__gte=2024-06-01',
    );
  });

  test('keeps the other parameters of the list, except the page', async () => {
    const state = 'colour=red&_search=a&ordering=-name&limit=50&page=3&_filter=name';
    const expected = '?colour=red&_search=a&ordering=-name&limit=50&name=x';
    assert.equal(await applyComparison('name', 'eq', 'x', state), expected);
  });

  test('prefers the related record with exactly this label', async () => {
    const [user] =
      await service.sql`insert into "user" (username, password, email) values ('grac', '', '') returning id`;
    assert.equal(await apply('thing', { '_find.author': 'GRAC' }), `?author=${user?.['id']}`);
    await service.sql`delete from "user" where username = 'grac'`;
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
    ['ready=true', 'Ready is Yes'],
    ['-maybe__is=true', 'Maybe not: is Yes'],
    ['author=2', 'Author is grace'],
    ['author=4711', 'Author is “4711”'],
    ['author__ne=1', 'Author is not ada'],
    ['author__in=2,1,4711', 'Author is one of grace, ada, “4711”'],
    ['author__in=1,2,3,4,5,6,7,8,9,10,11,12', /^Author is one of ada, grace, “3”.*“10” and 2 more$/],
    ['author__username=ada', 'Author › Username is “ada”'],
    ['colour__in=red,blue,pink', 'Colour is one of red, blue, “pink”'],
    ['colour__in=red,,', 'Colour is one of red, “”, “”'],
  ] as const)
    test(`${query} is shown as: ${String(expected)}`, async () => {
      const page = await ada.get(`/admin/thing/?${query}`);
      assert.equal(page.status, 200);
      if (typeof expected === 'string') assert.deepEqual(chips(page), [expected]);
      else assert.match(chips(page).join(), expected);
    });

  test('can be removed alone, even if another filter has the same name', async () => {
    const page = await ada.get('/admin/thing/?name=a&colour=red&name=b&page=1&ordering=name&_search=x');
    assert.deepEqual(chips(page), ['Name is “a”', 'Colour is red', 'or Name is “b”']);
    for (const [removed, rest] of [
      ['a', 'colour=red&amp;name=b'],
      ['b', 'name=a&amp;colour=red'],
    ] as const) {
      const link = new RegExp(
        `“${removed}”</b>\\s*</span\\s*>\\s*<a\\s+href="([^"]*)"\\s+class="remove"`,
      ).exec(page.text)?.[1];
      assert.equal(link, `/admin/thing/?${rest}&amp;ordering=name&amp;_search=x`);
    }
    assert.match(page.text, /href="\/admin\/thing\/\?ordering=name&amp;_search=x">Remove all filters/);
  });

  test('has no “or” when all filters must match', async () => {
    const page = await ada.get('/admin/thing/?name__ne=a&name__ne=b&-name=c&-name=d');
    assert.doesNotMatch(chips(page).join(), /\bor\b/);
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

describe('the views of a list', () => {
  const tabs = (page: AdminAnswer): (readonly [title: string, href: string, isCurrent: boolean])[] => {
    const nav = /<nav class="tabs"[\s\S]*?<\/nav>/.exec(page.text)?.[0] ?? '';
    return [...nav.matchAll(/<a href="([^"]*)"([^>]*)>([^<]*)</g)].map(
      ([, href = '', rest = '', title = '']) => [
        title,
        unescaped(href).replace('/admin/job/', ''),
        rest.includes('aria-current="page"'),
      ],
    );
  };

  test('are tabs with the values of the caller', async () => {
    const [all, open, mine, named] = tabs(await list('', 'job'));
    assert.deepEqual(all, ['All', '', true]);
    assert.deepEqual(open, ['Open', '?status=open&ordering=-id', false]);
    assert.deepEqual(mine, ['Mine', '?worker=1&status__in=open%2Cwaiting&_columns=title', false]);
    assert.deepEqual(named, ['Of my name', '?team=ada', false]);
  });

  test('are current while the list is theirs, on whatever page', async () => {
    const current = async (query: string): Promise<string[]> =>
      tabs(await list(query, 'job')).flatMap(([title, , isCurrent]) => (isCurrent ? [title] : []));
    assert.deepEqual(await current('?ordering=-id&status=open&page=1&limit=50'), ['Open']);
    assert.deepEqual(await current('?status=open&ordering=-id&worker=1'), []);
    assert.deepEqual(await current('?team=ada'), ['Of my name']);
    assert.deepEqual(names(await list('?team=ada', 'job')), ['one', 'three']);
  });

  test('are not shown where there are none', async () => {
    assert.deepEqual(tabs(await list('')), []);
  });

  test('are saved for oneself, renamed and deleted', async () => {
    const query = '?ready=true&_columns=name,day&ordering=-name&_search=a';
    const before = await list(`${query}&page=1`);
    assert.deepEqual(tabs(before).map(([title]) => title), ['Save this view']); // prettier-ignore
    const save = linksOf(before)['Save this view'] ?? '';
    const form = await ada.get(save);
    assert.match(readable(form), /Save this view: Things/);
    for (const title of [' ', 'x'.repeat(61)]) assert.equal((await ada.post(save, { title })).status, 400);
    for (const sent of [{ title: '' }, { title: '', delete: '1' }])
      assert.deepEqual(errorsIn(await ada.post(save, sent)), { title: 'Is required.' });
    const done = await ada.post(save, { title: ' <Ready> & "new" ' });
    assert.equal(done.status, 303);
    const page = await ada.follow(done);
    assert.match(page.text, /aria-current="page">&lt;Ready&gt; &amp; &quot;new&quot;</);
    assert.deepEqual(names(page), names(await list(query)));
    const change = linksOf(page)['Change this view'] ?? '';
    assert.equal((await ada.post(change, { title: 'Ready' })).status, 303);
    assert.deepEqual(tabs(await list('')).map(([title]) => title), ['All', 'Ready']); // prettier-ignore
    assert.equal((await ada.post(change, { title: '', delete: '1' })).status, 303);
    assert.deepEqual(tabs(await list('')), []);
    for (const id of [
      change,
      '/admin/thing/-/view/?_view=x',
      '/admin/thing/-/view/?_view=99999999999999999999',
    ]) {
      assert.equal((await ada.get(id)).status, 404, id);
      assert.equal((await ada.post(id, { title: 'x' })).status, 404, id);
    }
  });

  test('are saved once, even if the form is sent twice', async () => {
    const path = '/admin/thing/-/view/?ready=true';
    const fields = { ...fieldsOf(await ada.get(path)), title: 'Once' };
    const answers = await Promise.all([ada.post(path, fields), ada.post(path, fields)]);
    assert.deepEqual(answers.map(({ status }) => status), [303, 303]); // prettier-ignore
    assert.deepEqual(tabs(await list('')).map(([title]) => title), ['All', 'Once']); // prettier-ignore
    await service.sql`delete from vitrine_view`;
  });

  test('report a column that is gone', async () => {
    await service.sql`insert into vitrine_view (user_key, model, title, query) values ('1', 'thing', 'Old', 'gone=1&_columns=name%2Cgone')`;
    const [, old] = tabs(await list(''));
    assert.equal(old?.[0], 'Old');
    const page = await list(old?.[1].replace('/admin/thing/', '') ?? '');
    assert.equal(page.status, 400);
    assert.match(readable(page), /this list has no column "gone"/);
    await service.sql`delete from vitrine_view`;
  });
});

describe('the columns of a list', () => {
  const heads = ({ text }: AdminAnswer): string[] =>
    [...text.matchAll(/<th scope="col"[^>]*>([\s\S]*?)<\/th>/g)].map(([, head = '']) =>
      head
        .replace(/<[^>]*>/g, '')
        .replace(/[▲▼][\s\S]*/, '')
        .trim(),
    );

  for (const [query, expected] of [
    ['', ['Title', 'Status']],
    ['?_columns=worker,title', ['Worker', 'Title']],
    ['?_columns=worker&_columns=title', ['Worker', 'Title']],
    ['?_columns=team,,team', ['Team']],
    ['?_columns=', ['Title', 'Status']],
  ] as const)
    test(`of ${query || 'the plain address'} are ${expected.join(', ')}`, async () => {
      const page = await list(query, 'job');
      assert.equal(page.status, 200);
      assert.deepEqual(heads(page), expected);
    });

  test('are chosen in the panel, keep their order, and stay in the links', async () => {
    const page = await list('?_columns=worker,title&status=open', 'job');
    const boxes = [...panelOf(page).form.matchAll(/name="_columns" value="(\w+)"([^>]*)/g)].map(
      ([, name, rest = '']) => [name, rest.includes('checked')],
    );
    assert.deepEqual(boxes, [['worker', true], ['title', true], ['status', false], ['id', false], ['team', false], ['place', false]]); // prettier-ignore
    assert.equal(await apply('job', { _columns: ['worker', 'title', 'id'] }), '?_columns=worker,title,id');
    assert.equal(await apply('job', { _columns: ['title', 'status'] }), '');
    assert.equal(await apply('job', {}), '');
    const sorted = linksOf(page)['Worker'] ?? '';
    assert.equal(sorted, '/admin/job/?_columns=worker%2Ctitle&status=open&ordering=worker__username');
    assert.equal(linksOf(page)['CSV'], '/admin/job/-/export.csv?status=open');
  });

  for (const name of ['hidden', 'nothing', '__proto__'])
    test(`are refused with ${name}, which the admin area does not show`, async () => {
      const page = await list(`?_columns=name,${name}&colour=red`);
      assert.equal(page.status, 400);
      assert.ok(
        readable(page).includes(`columns name,${name} this list has no column "${name}"`),
        readable(page),
      );
      assert.equal(
        /href="([^"]*)" ?\s*class="remove" aria-label="Remove columns"/.exec(page.text)?.[1],
        '/admin/thing/?colour=red',
      );
      assert.doesNotMatch(page.text, /out of sight/);
    });
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
