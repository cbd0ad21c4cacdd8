// The filter panel: it builds parameters of the API, and lists the same records as the API.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, unescaped, type AdminAnswer, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  await service.addUser('grace');
  await service.sql`insert into thing (name, note, amount, big, ratio, price, ready, maybe, at, day, hour, extra, colour, author_id)
    select 'thing ' || n, case when n % 3 = 0 then null else 'note, "' || n % 5 || '" 100%_\\' end, nullif(n % 7, 0), 9007199254740993 + n,
      n / 4.0, n * 1.25, n % 2 = 0, case n % 3 when 0 then true when 1 then false end, timestamp '2024-01-01' + n * interval '37 hours',
      date '2024-01-01' + n, time '00:00' + n * interval '17 minutes', jsonb_build_object('n', n % 4),
      (array['red', 'green', 'blue'])[1 + n % 3], nullif(n % 3, 0) from generate_series(1, 60) n`;
  await service.sql`insert into land (code, name) values ('no', 'Norway'), ('se', 'Sweden'), ('norway', 'Old')`;
  ada = await logIn(service, 'ada');
});
after(() => service.close());

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
    ['name', 'ilike', '%x_', '?name__ilike=%x_'],
    // Only a date with a time is rewritten. In a text, a T after a day belongs to the text.
    ['name', 'eq', '2024-05-31Trip.jpg', '?name=2024-05-31Trip.jpg'],
    ['name', 'begins', '2024-05-31T18:30', '?name__ilike=2024-05-31T18:30%'],
    ['note', 'empty', 'whatever', '?note__is=null'],
    ['note', 'filled', '', '?-note__is=null'],
    ['amount', 'eq', '5', '?amount=5'],
    ['amount', 'gte', '5', '?amount__gte=5'],
    ['amount', 'lt', 'five', '?amount__lt=five'],
    ['amount', 'in', '1, 2', '?amount__in=1,2'],
    ['big', 'gt', '9007199254740993', '?big__gt=9007199254740993'],
    ['ratio', 'lte', '-1.5', '?ratio__lte=-1.5'],
    ['price', 'ne', '12.30', '?price__ne=12.30'],
    ['ready', 'eq', 'true', '?ready=true'],
    ['maybe', 'empty', '', '?maybe__is=null'],
    ['at', 'gte', '2024-05-31T18:30', '?at__gte=2024-05-31 18:30'],
    ['day', 'lt', '2024-05-31', '?day__lt=2024-05-31'],
    ['hour', 'gt', '18:30', '?hour__gt=18:30'],
    ['code', 'eq', '6f9619ff-8b86-d011-b42d-00cf4fc964ff', '?code=6f9619ff-8b86-d011-b42d-00cf4fc964ff'],
    ['colour', 'eq', 'green', '?colour=green'],
    ['author', 'eq', '2', '?author=2'],
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
    // prettier-ignore
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
