// Forms with fields of megabytes, which error pages do not repeat, and queries that pages do not repeat in each link.
import assert from 'node:assert/strict';
import {
  fieldsOf,
  hiddenFields,
  postMultipart,
  readable,
  unescaped,
  useAdmin,
  type AdminAnswer,
  type Fields,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { before, describe, test } from 'node:test';

const LONG = '"'.repeat(900_000);

const numbered = <T>(count: number, name: string, column: T): Record<string, T> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${name}_${index + 1}`, column]));

const REFERENCE = { type: 'foreignKey', references: 'wide', null: true } as const;

const wide = {
  model: 'wide',
  columns: {
    name: { type: 'string' },
    day: { type: 'date', index: true },
    at: { type: 'datetime', null: true },
    ...numbered(80, 'column', { type: 'string', null: true } as const),
    ...numbered(8, 'reference', REFERENCE),
  },
  admin: {
    list: ['name', 'day', ...Object.keys(numbered(80, 'column', null))],
    dates: 'day',
    search: ['name'],
  },
} as const;

/** Maximum characters of a page, of which up to 130,000 are the table of the columns. */
const MOST = 400_000;
const LONG_FILTER = '%22'.repeat(2_700);

/** The address that the form with this part leads to, with its hidden fields and these. */
function submitted({ text }: Pick<AdminAnswer, 'text'>, part: string, typed: Record<string, string>): string {
  const form = text.match(/<form[\s\S]*?<\/form>/g)?.find((one) => one.includes(part)) ?? '';
  const [, action = ''] = /action="([^"]*)"/.exec(form) ?? [];
  const query = new URLSearchParams();
  for (const [, name = '', content = ''] of form.matchAll(
    /<input type="hidden" name="([^"]*)" value="([^"]*)"/g,
  ))
    if (!Object.hasOwn(typed, unescaped(name))) query.append(unescaped(name), unescaped(content));
  for (const pair of Object.entries(typed)) query.append(...pair);
  return `${action}?${query.toString()}`;
}

let path: string;
const { service, ada } = useAdmin([...resources, wide], {}, async () => {
  const [row] = await service.sql`insert into thing (name) values ('One') returning id`;
  path = `/admin/thing/${row?.['id']}/`;
});

const send = (to: string, fields: Fields): Promise<AdminAnswer> => postMultipart(ada, to, fields);
const assertShort = ({ text }: AdminAnswer): void =>
  assert.ok(text.length < 200_000, `${text.length} characters`);

describe('a form with a field of 900,000 characters', () => {
  test('returns 400, and the page repeats at most its beginning', async () => {
    for (const column of ['amount', 'big', 'ratio', 'day', 'at', 'code', 'colour', 'author_id']) {
      const most = column === 'author_id' ? '8,192' : '1,000';
      const bulk = { _action: 'set', _state: '', _id: '1', _column: column, _value: '1', [column]: LONG };
      for (const answer of [
        await send(path, { ...fieldsOf(await ada.get(path)), [column]: LONG }),
        await send('/admin/thing/-/bulk/', bulk),
      ]) {
        assert.equal(answer.status, 400, column);
        assert.match(readable(answer), new RegExp(`[Mm]ust be at most ${most} characters here`), column);
        assertShort(answer);
      }
    }
  });

  test('returns 400 for a field that controls the form', async () => {
    const fields = fieldsOf(await ada.get(path));
    for (const [to, name] of [
      [path, '_list'],
      [path, '_choose'],
      [`${path}delete/`, '_list'],
      ['/admin/thing/-/add/', '_list'],
      ['/admin/thing/-/bulk/', '_id'],
      ['/admin/thing/-/bulk/', '_state'],
    ] as const) {
      const answer = await send(to, { ...fields, _action: 'delete', [name]: LONG });
      assert.equal(answer.status, 400, `${to} ${name}`);
      assert.match(readable(answer), new RegExp(`The field ${name} must be at most 16,384 characters`));
      assertShort(answer);
    }
  });

  test('does not carry an unknown field to the lookup and conflict pages', async () => {
    const fields = { ...fieldsOf(await ada.get(path)), other: LONG, _lookup: 'author_id', author_id: 'a' };
    const answer = await send(path, fields);
    assert.equal(answer.status, 200);
    assertShort(answer);
    const conflict = await send(path, {
      ...fieldsOf(await ada.get(path)),
      _version: '1',
      note: 'n',
      other: LONG,
    });
    assert.equal(conflict.status, 409);
    assertShort(conflict);
  });

  test('saves the field in a text column, with its line breaks', async () => {
    const note = `${'\r\r\n\n\u010d\u0d0a'.repeat(100_000)}\r`;
    const answer = await send(path, { ...fieldsOf(await ada.get(path)), note });
    assert.equal(answer.status, 303);
    const [row] = await service.sql<{ note: string }[]>`select note from thing where name = 'One'`;
    // FormData itself writes CR LF for each line break.
    assert.equal(row?.note, `${'\n\n\n\u010d\u0d0a'.repeat(100_000)}\n`);
  });

  test('returns 400 for JSON above 1,048,576 characters', async () => {
    const extra = '['.repeat(1_048_577);
    const answer = await send(path, { ...fieldsOf(await ada.get(path)), extra });
    assert.equal(answer.status, 400);
    assert.match(readable(answer), /[Mm]ust be at most 1,048,576 characters here/);
    assert.ok(answer.text.includes(extra), 'the page keeps the typed value');
  });
});

test('a form with thousands of control fields that no page has is 400, because the lookup page would repeat them', async () => {
  const fields = { ...fieldsOf(await ada.get(path)), _lookup: 'author_id', author_id: 'a' };
  const unknown = Object.fromEntries(Array.from({ length: 19_000 }, (_, index) => [`_x${index}`, '&']));
  const { status, text } = await ada.post(path, { ...fields, ...unknown });
  assert.equal(status, 400);
  assert.ok(text.length < 20_000, `${text.length} characters`);
});

test('a form with 19,000 fields selects 19,000 records', async () => {
  const answer = await send('/admin/thing/-/bulk/', {
    _action: 'delete',
    _state: '',
    _id: Array.from({ length: 19_000 }, (_, index) => String(index + 1)),
  });
  assert.equal(answer.status, 200);
  assert.equal([...answer.text.matchAll(/name="_id"/g)].length, 19_000);
  assert.match(readable(answer), /1 record selected 18,999 of the selected records no longer exist/);
});

describe('a long query', () => {
  before(async () => {
    await service.sql`insert into wide (name, day) select 'one of many', date '1990-01-01' + n * 200 from generate_series(1, 60) n`;
    await service.sql`update wide set at = '2001-02-03 04:05:06' where id in (7, 8, 9)`;
  });

  const visit = (path: string): Promise<Pick<AdminAnswer, 'status' | 'text'>> =>
    path.startsWith('/admin/') ? ada.get(path) : service.request(path, { headers: { accept: 'text/html' } });

  const QUERIES = {
    'with one long filter': `column_1__ne=${LONG_FILTER}`,
    'with many short filters': Object.keys(numbered(40, 'column', null))
      .map((name) => `-${name}__is=null`)
      .concat('ordering=name,day,column_1')
      .join('&'),
    'with 40 filters of 150 characters': Object.keys(numbered(40, 'column', null))
      .map((name) => `${name}__ne=${'%22'.repeat(50)}`)
      .join('&'),
    'with characters that HTML escapes': `column_1__ne=${"'".repeat(1_200)}&name__ne=${"'".repeat(1_200)}`,
    'with unknown filters': Array.from(
      { length: 300 },
      (_, index) => `nosuch_${index}=${'%22'.repeat(3)}`,
    ).join('&'),
  };
  test('makes no huge page', async () => {
    for (const [what, query] of Object.entries(QUERIES))
      for (const list of ['/api/wide/', '/admin/wide/']) {
        const { status, text } = await visit(`${list}?${query}`);
        assert.ok([200, 400].includes(status), `${what}: ${status}`);
        assert.ok(text.length < MOST, `${list} ${what}: ${text.length} characters`);
      }
  });

  test('carries the filters in hidden fields of the panel', async () => {
    const value = '%22'.repeat(1_000);
    const page = await visit(`/admin/wide/?column_1__ne=${value}`);
    assert.ok(page.text.includes(`name="column_1__ne" value="${'&quot;'.repeat(1_000)}"`));
  });

  test('offers the related records that words match', async () => {
    const state = `column_1__ne=${'x'.repeat(4_000)}`;
    const answer = await ada.get(`/admin/wide/-/filter/?${state}&_panel=1&_find.reference_1=one+many`);
    const page = await ada.follow(answer);
    assert.ok(page.text.length < MOST, `${page.text.length} characters`);
    const chosen = await ada.get(submitted(page, 'name="_panel"', { '_is.reference_1': '=7' }));
    assert.equal(chosen.location, `/admin/wide/?${state}&reference_1=7`);
  });

  const numbers = [...Array.from({ length: 940 }, (_, index) => index + 1_000_001), 7, 8, 9];
  const times = Array.from({ length: 320 }, (_, index) => `2024-05-31T10:00:00.${index + 100}`);
  for (const [what, query] of [
    ['with commas', `id__in=${numbers.join(',')}&limit=2`],
    ['with commas and colons', `at__in=2001-02-03T04:05:06,${times.join(',')}&limit=2`],
    ['with spaces', `name__ne=${'+'.repeat(8_000)}&id__lt=4&limit=2`],
  ] as const)
    test(`${what} that the API accepts has the same records and usable links`, async () => {
      assert.ok(query.length > 7_500, `${query.length} characters`);
      const records = await service.request(`/api/wide/?${query}`, { user: 'ada' });
      assert.equal(records.status, 200, records.text);
      assert.equal(records.json.objects.length, 2);
      const page = await ada.get(`/admin/wide/?${query}`);
      assert.equal(page.status, 200, readable(page));
      assert.match(readable(page), / 1–2 of 3 records /);
      const next = /href="([^"]*)" rel="next"/.exec(page.text)?.[1] ?? '';
      assert.match(readable(await ada.get(unescaped(next))), / 3–3 of 3 records /);
      const file = await ada.get(unescaped(/href="([^"]*export\.csv[^"]*)"/.exec(page.text)?.[1] ?? ''));
      assert.equal(file.text.trimEnd().split('\r\n').length, 4, file.text);
      const { _state = [] } = hiddenFields(page, 'bulk');
      const chosen = await ada.post('/admin/wide/-/bulk/', { _state, _all: '1', _action: 'delete' });
      assert.match(readable(chosen), /^Delete 3 records\?/);
    });

  test('of 1,000 keys takes further filters', async () => {
    const query = `id__in=${numbers.join(',')},${'9,'.repeat(50)}9`;
    const form = await visit(`/admin/wide/?${query}&page=2`);
    assert.equal(form.status, 200);
    const address = submitted(form, 'name="_panel"', { _path: 'name', _how: 'eq', _value: 'one of many' });
    const { status, location = '' } = await ada.get(address);
    assert.equal(status, 303, address);
    assert.equal(decodeURIComponent(location), `/admin/wide/?${query}&name=one of many`.replace(/ /g, '+'));
    const found = await ada.get(location);
    assert.equal(found.status, 200);
    assert.ok(found.text.includes('/wide/7/'), found.text);
  });

  test('of 1,000 keys can be typed, searched, and left for a record and back', async () => {
    const query = `id__in=${numbers.join(',')}&limit=2`;
    const list = `/admin/wide/?${query}`;
    const comparison = { _path: 'id', _how: 'in', _value: `${numbers.join(', ')}, 10` };
    const changed = await ada.get(submitted(await ada.get(list), 'name="_panel"', comparison));
    assert.equal(
      decodeURIComponent(changed.location ?? ''),
      `/admin/wide/?limit=2&id__in=${numbers.join(',')},10`,
    );
    assert.match(readable(await ada.follow(changed)), / 1–2 of 4 records /);

    const searched = new URLSearchParams(query);
    searched.append('_search', 'one');
    assert.match(readable(await ada.get(`/admin/wide/?${String(searched)}`)), / 1–2 of 3 records /);

    const record = await ada.get('/admin/wide/7/', { referer: `${service.base}${list}` });
    const saved = await ada.post('/admin/wide/7/', { ...fieldsOf(record), _save: 'stay' });
    assert.equal(saved.status, 303);
    const back = fieldsOf(await ada.follow(saved))['_list'] ?? '';
    assert.match(readable(await ada.get(`/admin/wide/?${back}`)), / 1–2 of 3 records /);
  });

  test('of a form keeps no spelling that breaks a header or the query', async () => {
    const state = `name=a\r\nb#ö&column_1__ne=${'+'.repeat(8_000)}`;
    const answer = await ada.post('/admin/wide/-/bulk/', { _state: state, _action: 'delete' });
    assert.equal(answer.status, 303);
    assert.match(answer.location ?? '', /^\/admin\/wide\/\?name=a%0D%0Ab%23%C3%B6&column_1__ne=\+{8000}$/);
  });
});
