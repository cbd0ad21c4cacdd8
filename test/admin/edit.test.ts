// Adding and changing records with forms: conflicts between two users, and forms that are sent twice.
import assert from 'node:assert/strict';
import { eventually, lockedOut } from '../http/expect.ts';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import {
  errorsIn,
  fieldsOf,
  hiddenFields,
  logIn,
  readable,
  unescaped,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const listing: Resource = {
  model: 'listing',
  columns: { name: { type: 'string' }, tags: { type: 'array', of: 'text' }, text: { type: 'text' } },
  admin: { title: 'Listings', allow: ['change', 'delete'] },
};

const genre: Resource = {
  model: 'genre',
  columns: { name: { type: 'string' }, rank: { type: 'integer', null: true, max: 9 } },
  access: 'user',
  admin: { title: 'Genres', label: '{name}' },
};

/** Values that PostgreSQL outputs in another form than a browser sends them. */
const priced: Resource = {
  model: 'priced',
  columns: {
    price: { type: 'decimal', precision: 6, scale: 2, null: true },
    extra: { type: 'json', null: true },
    code: { type: 'uuid', null: true },
    note: { type: 'string', null: true },
  },
  access: 'user',
};

let service: TestService;
let ada: Browser;

before(async () => {
  service = await startService([...resources, listing, genre, priced]);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const without = (values: Record<string, unknown>, ...names: string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));

const row = async (name: string): Promise<Record<string, unknown>> => {
  const [found] = await service.sql`select * from thing where name = ${name}`;
  return { ...found };
};

async function add(fields: Fields): Promise<AdminAnswer> {
  const page = await ada.get('/admin/thing/-/add/');
  return ada.post('/admin/thing/-/add/', { ...fieldsOf(page), _save: 'stay', ...fields });
}

/** Adds a record of `thing`. @returns the address of its page */
async function added(fields: Fields): Promise<string> {
  const answer = await add(fields);
  assert.equal(answer.status, 303, readable(answer));
  return answer.location ?? '';
}

describe('adding a record', () => {
  test('stores the typed value of every column type', async () => {
    await added({
      name: 'Everything',
      note: 'two\r\nlines',
      amount: '42',
      big: '9007199254740993',
      ratio: '1.5',
      price: '12.30',
      ready: 'true',
      maybe: 'false',
      at: '2024-05-31T18:30',
      day: '2024-05-31',
      hour: '18:30',
      code: '6f9619ff-8b86-d011-b42d-00cf4fc964ff',
      extra: '{"n": 9007199254740993}',
      colour: 'blue',
      author_id: '1',
      secret: 'seen here',
    });
    const [found] =
      await service.sql`select row_to_json(thing)::text as json from thing where name = 'Everything'`;
    const text = String(found?.['json']);
    assert.match(text, /"extra":\{"n": 9007199254740993\}/);
    const values = without(JSON.parse(text) as Record<string, unknown>, 'id');
    assert.deepEqual(values, {
      name: 'Everything', note: 'two\nlines', amount: 42, big: 9007199254740992, ratio: 1.5, price: 12.3, ready: true, maybe: false,
      at: '2024-05-31T18:30:00', day: '2024-05-31', hour: '18:30:00', code: '6f9619ff-8b86-d011-b42d-00cf4fc964ff',
      extra: { n: 9007199254740992 }, colour: 'blue', author_id: 1, secret: 'seen here', fixed: 7, hidden: 'out of sight',
    }); // prettier-ignore
  });

  for (const [typed, stored] of [
    [{ amount: '007', ratio: '.5', big: '007', price: '.5' }, [7, 0.5, '7', '0.50']],
    [{ amount: '-00', ratio: '-.5e1', big: '-0', price: '-.5' }, [0, -5, '0', '-0.50']],
    [{ amount: '+1', ratio: '05.', big: '1', price: '05.' }, [1, 5, '1', '5.00']],
  ] as const)
    test(`stores a number with a leading zero, point or sign: ${typed.amount}, ${typed.ratio}`, async () => {
      const name = `Number ${typed.ratio}`;
      await added({ name, ...typed });
      const { amount, ratio, big, price } = await row(name);
      assert.deepEqual([amount, ratio, big, price], stored);
    });

  test('refuses a number that is out of range, and a text that is not a number', async () => {
    const tooLarge = await add({ name: 'x', amount: '009999999999' });
    assert.deepEqual(errorsIn(tooLarge), { amount: 'Must be from -2147483648 to 2147483647.' });
    for (const typed of ['.', '-', '+-1', '..5', '1.2.3', '.e5', '0x7', '--1'])
      assert.deepEqual(
        errorsIn(await add({ name: 'x', ratio: typed })),
        { ratio: 'Must be a number.' },
        typed,
      );
    assert.deepEqual(errorsIn(await add({ name: 'x', amount: '.5' })), { amount: 'Must be a whole number.' });
  });

  test('stores NULL and the defaults for fields that were not filled in', async () => {
    await added({ name: 'Bare' });
    const values = without(await row('Bare'), 'id');
    assert.deepEqual(values, {
      name: 'Bare', note: null, amount: null, big: null, ratio: null, price: null, ready: false, maybe: null, at: null, day: null,
      hour: null, code: null, extra: null, colour: 'red', author_id: null, secret: null, fixed: 7, hidden: 'out of sight',
    }); // prettier-ignore
  });

  test('leaves the length of a text to the service, because browsers count UTF-16 units', async () => {
    const path = await added({ name: '\u{1F600}'.repeat(50), note: 'x' });
    for (const page of [await ada.get('/admin/thing/-/add/'), await ada.get(path)])
      assert.doesNotMatch(page.text, /m(?:ax|in)length/i);
    const name = '\u{1F600}'.repeat(51);
    const answer = await add({ name });
    assert.equal(errorsIn(answer)['name'], 'Must be at most 50 characters (got 51).');
    assert.equal(fieldsOf(answer)['name'], name);
  });

  test('reports all errors at their fields and keeps the typed values', async () => {
    const typed = { name: '', note: '<kept>', amount: '101', price: '1.234', day: '2024-02-30', code: 'x', extra: '{', author_id: '4711', colour: 'red', big: '1e3' }; // prettier-ignore
    const answer = await add(typed);
    assert.equal(answer.status, 400);
    const errors = errorsIn(answer);
    assert.deepEqual(Object.keys(errors).sort(), [
      'amount',
      'author_id',
      'big',
      'code',
      'day',
      'extra',
      'name',
      'price',
    ]);
    assert.match(errors['name'] ?? '', /required/);
    assert.match(answer.text, /href="#field-amount"/);
    assert.deepEqual({ ...fieldsOf(answer), ...typed }, fieldsOf(answer));
    const [count] = await service.sql`select count(*)::int as n from thing where note = '<kept>'`;
    assert.equal(count?.['n'], 0);
  });

  test('reports a duplicate and a missing reference at their fields', async () => {
    await added({ name: 'Twice' });
    const answer = await add({ name: 'Twice', author_id: '1' });
    assert.equal(answer.status, 409);
    assert.match(errorsIn(answer)['name'] ?? '', /another record/i);
    const lost = await add({ name: 'Orphan', author_id: '4711' });
    assert.match(errorsIn(lost)['author_id'] ?? '', /no such record/i);
  });

  test('describes each field by its hint, and names each checkbox for an empty text', async () => {
    const pages = ['/admin/thing/-/add/', '/admin/message/-/add/', await added({ name: 'Described' })];
    const hinted: string[] = [];
    for (const page of pages) {
      const { text } = await ada.get(page);
      for (const [, id = ''] of text.matchAll(/class="hint" id="([^"]+)-hint"/g)) {
        hinted.push(id.replace('field-', ''));
        const [tag = ''] = new RegExp(`<(input|textarea|select)\\s[^>]*id="${id}"[^>]*>`).exec(text) ?? [];
        assert.match(tag, new RegExp(`aria-describedby="${id}-hint"`), `${page} ${id}`);
      }
      const boxes = [...text.matchAll(/<input[^>]*name="\w+__null"[^>]*>/g)].map(([tag]) => tag);
      const names = boxes.map((tag) => /aria-label="([^"]*)"/.exec(tag)?.[1]);
      const expected = page.includes('thing') ? ['Note', 'Secret'] : [];
      assert.deepEqual(names, expected.map((title) => `${title}: empty means no value`)); // prettier-ignore
    }
    assert.deepEqual(hinted, ['name', 'at', 'pub_date', 'name', 'at']);
  });

  test('sets a text key, which cannot be changed later', async () => {
    const answer = await ada.post('/admin/land/-/add/', {
      id: '-',
      name: 'Nowhere',
      capital: '',
      capital__null: '1',
      _save: 'stay',
    });
    assert.equal(answer.location, '/admin/land/%2D/');
    const page = await ada.follow(answer);
    assert.equal(page.status, 200);
    assert.equal(fieldsOf(page)['id'], undefined);
    assert.deepEqual(
      [...(await service.sql`select * from land`)],
      [{ code: '-', name: 'Nowhere', capital: null }],
    );
  });
});

describe('a new record of a filtered list', () => {
  const addFrom = async (query: string): Promise<AdminAnswer> => {
    const { text } = await ada.get(`/admin/thing/?${query}`);
    return ada.get(unescaped(/<a class="button primary" href="([^"]*)">Add</.exec(text)?.[1] ?? ''));
  };

  for (const [query, expected] of [
    ['author=1&colour=blue&ready=TRUE', { author_id: '1', colour: 'blue', ready: 'true' }],
    ['author_id=1&day=2024-02-29&hour=08:30', { author_id: '1', day: '2024-02-29', hour: '08:30:00' }],
    [
      'note=a%20%26%20b&price=1.5&at=2024-02-29T10:00:00Z',
      { note: 'a & b', price: '1.5', at: '2024-02-29T10:00:00' },
    ],
    ['name=New&_search=x&ordering=-name&page=1', { name: 'New' }],
    // Not one value: a range, alternatives, another record's column, an invalid number.
    ['amount__gte=5', { amount: '' }],
    ['amount=5&amount=6', { amount: '' }],
    ['-amount=5&note__is=null', { amount: '', note: '' }],
    ['author__username=ada', { author_id: '' }],
    ['amount=many', { amount: '' }],
  ] as const)
    test(`has the values that ${query} requires`, async () => {
      const form = await addFrom(query);
      assert.equal(form.status, 200);
      const fields = fieldsOf(form);
      for (const [name, value] of Object.entries(expected)) assert.equal(fields[name] ?? '', value, name);
    });

  test('keeps the list and its values when another one is added, and leads back to it', async () => {
    const query = 'author=1&_search=Row&ordering=-name';
    let form = await addFrom(query);
    for (const name of ['Row 1', 'Row 2']) {
      const saved = await ada.post('/admin/thing/-/add/', { ...fieldsOf(form), name, _save: 'another' });
      assert.equal(saved.status, 303, readable(saved));
      form = await ada.follow(saved);
      assert.equal(fieldsOf(form)['author_id'], '1');
    }
    const last = await ada.post('/admin/thing/-/add/', { ...fieldsOf(form), name: 'Row 3', _save: 'list' });
    assert.equal(last.location, `/admin/thing/?${query}`);
    const [count] =
      await service.sql`select count(*)::int from thing where name like 'Row%' and author_id = 1`;
    assert.equal(count?.['count'], 3);
  });

  test('keeps the record beside which it was added', async () => {
    const { text } = await ada.get('/admin/user/1/');
    const add = unescaped(/<a href="([^"]*)" aria-label="Add to Things"/.exec(text)?.[1] ?? '');
    const first = fieldsOf(await ada.get(add));
    assert.equal(first['author_id'], '1');
    const saved = await ada.post('/admin/thing/-/add/', { ...first, name: 'Beside 1', _save: 'another' });
    const second = fieldsOf(await ada.follow(saved));
    assert.equal(second['author_id'], '1');
    const last = await ada.post('/admin/thing/-/add/', { ...second, name: 'Beside 2', _save: 'list' });
    assert.equal(last.location, '/admin/thing/?author=1');
  });
});

describe('changing a record', () => {
  test('changes nothing when the form is unchanged, and says so', async () => {
    await service.sql`insert into thing (name, note, ratio, at, extra, colour) values ('Odd', E'\nfirst\r\nlast', 'NaN', '0044-03-15 12:00 BC', '[1, 2]', 'mauve')`;
    const before = await service.sql`select id, t::text, xmin::text from thing t where name = 'Odd'`;
    const address = `/admin/thing/${before[0]?.['id']}/`;
    const page = await ada.get(address);
    assert.match(page.text, /mauve/);
    const answer = await ada.post(address, { ...fieldsOf(page), _save: 'stay' });
    assert.match((await ada.follow(answer)).text, /no changes to save in/);
    assert.deepEqual(
      [...(await service.sql`select id, t::text, xmin::text from thing t where name = 'Odd'`)],
      [...before],
    );
  });

  test('writes and records only the changed columns', async () => {
    const address = await added({ name: 'Touched', note: 'before', amount: '1' });
    const page = await ada.get(address);
    await ada.post(address, { ...fieldsOf(page), note: 'after' });
    const [last] =
      await service.sql`select door, action, user_name, before, after from vitrine_history order by id desc limit 1`;
    assert.deepEqual({ ...last }, { door: 'admin', action: 'update', user_name: 'ada', before: '{"note":"before"}', after: '{"note":"after"}' }); // prettier-ignore
  });

  test('stores an empty text, no value, or the typed text even if “no value” is checked', async () => {
    const address = await added({ name: 'Null', note: 'something' });
    for (const [fields, expected] of [
      [{ note: '' }, ''],
      [{ note: '', note__null: '1' }, null],
      [{ note: 'x', note__null: '1' }, 'x'],
    ] as const) {
      const typed = without(fieldsOf(await ada.get(address)), 'note__null') as Record<string, string>;
      assert.equal((await ada.post(address, { ...typed, ...fields })).status, 303);
      assert.equal((await row('Null'))['note'], expected);
    }
  });

  test('ignores read-only columns, and does not show excluded ones', async () => {
    const address = await added({ name: 'Fixed' });
    const page = await ada.get(address);
    assert.match(page.text, /<span class="label">Fixed<\/span>/);
    assert.doesNotMatch(page.text, /out of sight/);
    await ada.post(address, { ...fieldsOf(page), fixed: '8', hidden: 'seen', name: 'Fixed still' });
    const { fixed, hidden } = await row('Fixed still');
    assert.deepEqual({ fixed, hidden }, { fixed: 7, hidden: 'out of sight' });
  });

  test('redirects to the list, the record or a new form, depending on the button', async () => {
    const address = await added({ name: 'Buttons' });
    const typed = fieldsOf(
      await ada.get(address, { referer: `${service.base}/admin/thing/?colour=red&ordering=-name` }),
    );
    for (const [button, to] of [
      ['list', '/admin/thing/?colour=red&ordering=-name'],
      ['stay', `${address}?_list=${encodeURIComponent('colour=red&ordering=-name')}`],
      ['another', `/admin/thing/-/add/?_list=${encodeURIComponent('colour=red&ordering=-name')}`],
    ] as const)
      assert.equal((await ada.post(address, { ...typed, _save: button })).location, to);
    const copied = await ada.post(address, { ...typed, name: 'Buttons, copied', _save: 'new' });
    assert.equal(copied.status, 303);
    assert.equal((await service.sql`select 1 from thing where name like 'Buttons%'`).length, 2);
  });

  test('offers to add the record again when it has been deleted', async () => {
    const address = await added({ name: 'Going' });
    const page = await ada.get(address);
    await service.sql`delete from thing where name = 'Going'`;
    const answer = await ada.post(address, { ...fieldsOf(page), note: 'gone' });
    assert.equal(answer.status, 409);
    assert.match(answer.text, /This record has been deleted/);
    const again = await ada.post('/admin/thing/-/add/', fieldsOf(answer));
    assert.equal(again.status, 303);
    assert.equal((await row('Going'))['note'], 'gone');
  });

  test('shows the values to copy when the record has been deleted and none can be added', async () => {
    await service.sql`insert into listing (name, tags, text) values ('Going', '{a}', 'before')`;
    const page = await ada.get('/admin/listing/1/');
    await service.sql`delete from listing`;
    const sent = { ...fieldsOf(page), tags: 'b\nc', text: '\n<typed>' };
    const answer = await ada.post('/admin/listing/1/', sent);
    assert.equal(answer.status, 409);
    assert.match(readable(answer), /This record has been deleted, and records cannot be added here\./);
    assert.doesNotMatch(answer.text, /save to add/);
    const texts = [...answer.text.matchAll(/<textarea[^>]*readonly>\n([\s\S]*?)<\/textarea>/g)];
    assert.deepEqual(
      texts.map(([, text = '']) => text),
      ['Going', 'b\nc', '\n&lt;typed&gt;'],
    );
  });

  test('shows the form, also with errors, when the records that refer to it cannot be counted', async () => {
    const path = `/admin/user/${await service.addUser('eve')}/`;
    const email = 'e'.repeat(300);
    const fields = { ...fieldsOf(await ada.get(path)), email };
    const [shown, refused] = await service.sql.begin(async (transaction) => {
      await transaction`lock table message in access exclusive mode`;
      return Promise.all([ada.get(path), ada.post(path, fields)]);
    });
    assert.deepEqual([shown.status, refused.status], [200, 400]);
    for (const page of [shown, refused]) {
      assert.match(page.text, /href="\/admin\/message\/\?user=\d+"/);
      assert.match(readable(page), /Messages by User unknown Add/);
    }
    assert.equal(fieldsOf(refused)['email'], email);
    const isCounted = async (): Promise<boolean> =>
      /Messages by User none Add/.test(readable(await ada.get(path)));
    await eventually(isCounted, 'the count');
  });
});

describe('an edit conflict', () => {
  test('shows both sets of values and lets the second user choose', async () => {
    const address = await added({ name: 'Contended', note: 'first', amount: '1', colour: 'red' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'theirs', amount = 2 where name = 'Contended'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine', colour: 'blue' });
    assert.equal(conflict.status, 409);
    const proposed = fieldsOf(conflict);
    // A column that one side changed defaults to that side. A column that both changed has no default.
    assert.equal(proposed['_take.colour'], 'mine');
    assert.equal(proposed['_take.amount'], 'theirs');
    assert.equal(proposed['_take.note'], undefined);
    assert.equal((await row('Contended'))['note'], 'theirs');
    const done = await ada.post(address, { ...proposed, '_take.note': 'mine' });
    assert.equal(done.status, 303);
    const { note, amount, colour } = await row('Contended');
    assert.deepEqual({ note, amount, colour }, { note: 'mine', amount: 2, colour: 'blue' });
  });

  test('keeps the choice of the stored value when the record changes during the save', async () => {
    const address = await added({ name: 'Racing', note: 'first', amount: '1' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'theirs' where name = 'Racing'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine', colour: 'blue' });
    // The record changes after the save has read it, while the save waits for the lock.
    const { saved } = await service.sql.begin(async (transaction) => {
      await transaction`update thing set amount = 7 where name = 'Racing'`;
      const answer = ada.post(address, { ...fieldsOf(conflict), '_take.note': 'theirs' });
      await lockedOut(service);
      return { saved: answer };
    });
    const again = await saved;
    assert.equal(again.status, 409);
    const proposed = fieldsOf(again);
    assert.equal(proposed['_take.note'], 'theirs');
    assert.equal((await ada.post(address, proposed)).status, 303);
    const { note, amount, colour } = await row('Racing');
    assert.deepEqual({ note, amount, colour }, { note: 'theirs', amount: 7, colour: 'blue' });
  });

  test('asks again about a value that changed once more', async () => {
    const address = await added({ name: 'Chosen again', note: 'before' });
    const [one, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
    const mine = { ...fieldsOf(await one.get(address)), note: 'mine' };
    await other.post(address, { ...fieldsOf(await other.get(address)), price: '7.00' });
    const conflict = await one.post(address, mine);
    assert.equal(fieldsOf(conflict)['_take.note'], 'mine');
    await other.post(address, { ...fieldsOf(await other.get(address)), note: 'theirs' });
    const again = await one.post(address, fieldsOf(conflict));
    assert.equal(again.status, 409);
    const { '_take.note': note, '_take.price': price } = fieldsOf(again);
    assert.deepEqual([note, price], [undefined, 'theirs']);
    const [row] = await service.sql`select note, price from thing where name = 'Chosen again'`;
    assert.deepEqual({ ...row }, { note: 'theirs', price: '7.00' });
  });
});

describe('a form that is submitted twice', () => {
  const add = '/admin/genre/-/add/';

  async function countOf(name: string): Promise<number> {
    const [row] = await service.sql`select count(*)::int as count from genre where name = ${name}`;
    return Number(row?.['count']);
  }

  for (const [how, send] of [
    ['sequentially', async (submit: () => Promise<unknown>) => [await submit(), await submit()]],
    ['concurrently', (submit: () => Promise<unknown>) => Promise.all([submit(), submit(), submit()])],
  ] as const) {
    test(`adds one record when it is sent ${how}`, async () => {
      const fields = { ...fieldsOf(await ada.get(add)), name: how, _save: 'stay' };
      const locations: (string | undefined)[] = [];
      await send(async () => {
        const answer = await ada.post(add, fields);
        assert.equal(answer.status, 303, answer.text);
        locations.push(answer.location);
      });
      assert.equal(await countOf(how), 1);
      assert.equal(new Set(locations).size, 1);
    });
  }

  test('is reported by the message on the next page', async () => {
    const fields = { ...fieldsOf(await ada.get(add)), name: 'Told' };
    assert.match((await ada.follow(await ada.post(add, fields))).text, /“Told” was added\./);
    assert.match(
      (await ada.follow(await ada.post(add, fields))).text,
      /“Told” was added once\. The form was sent twice\./,
    );
  });

  test('adds another record when its values differ', async () => {
    const fields = fieldsOf(await ada.get(add));
    for (const name of ['First', 'Second'])
      assert.equal((await ada.post(add, { ...fields, name })).status, 303);
    assert.deepEqual([await countOf('First'), await countOf('Second')], [1, 1]);
  });

  test('can be sent again after a validation error', async () => {
    const fields = { ...fieldsOf(await ada.get(add)), name: 'Mended' };
    for (const [rank, status] of [
      ['10', 400],
      ['10', 400],
      ['9', 303],
    ] as const)
      assert.equal((await ada.post(add, { ...fields, rank })).status, status);
    assert.equal(await countOf('Mended'), 1);
  });

  test('adds one copy with “Save as new”', async () => {
    const [row] = await service.sql`insert into genre (name) values ('Copied') returning id`;
    const path = `/admin/genre/${row?.['id']}/`;
    const fields = { ...fieldsOf(await ada.get(path)), _save: 'new' };
    for (let times = 0; times < 2; times += 1) assert.equal((await ada.post(path, fields)).status, 303);
    assert.equal(await countOf('Copied'), 2);
  });

  test('imports a file once', async () => {
    const path = '/admin/genre/-/import/';
    const upload = new FormData();
    upload.append('_text', 'name\nImported\n');
    const page = await ada.upload(path, upload);
    assert.match(readable(page), /1 row: 1 new/);
    const send = (): ReturnType<Browser['upload']> => {
      const form = new FormData();
      for (const [name, values] of Object.entries(hiddenFields(page, 'record')))
        for (const value of values) form.append(name, value);
      return ada.upload(path, form);
    };
    const answers = await Promise.all([send(), send()]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [303, 303],
    );
    assert.match((await ada.follow(await send())).text, /The file was submitted twice and imported once\./);
    assert.equal(await countOf('Imported'), 1);
  });

  for (const [column, typed] of [
    ['price', '7'],
    ['price', ''],
    ['extra', '{"a":1}'],
    ['code', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'],
  ] as const)
    test(`saves ${column} as ${JSON.stringify(typed)} twice without a conflict`, async () => {
      const [row] = await service.sql`insert into priced (price, note) values (5, 'one') returning id`;
      const id = Number(row?.['id']);
      const path = `/admin/priced/${id}/`;
      const fields = { ...fieldsOf(await ada.get(path)), [column]: typed };
      for (let times = 0; times < 2; times += 1) {
        const answer = await ada.post(path, fields);
        assert.equal(answer.status, 303, readable(answer));
        assert.match((await ada.follow(answer)).text, /was changed\./);
      }
      await service.sql`update priced set note = 'two' where id = ${id}`;
      assert.equal((await ada.post(path, fields)).status, 409);
    });

  test('is a conflict if another user has changed the value since', async () => {
    const [row] = await service.sql`insert into priced (price) values (5) returning id`;
    const id = Number(row?.['id']);
    const path = `/admin/priced/${id}/`;
    const fields = { ...fieldsOf(await ada.get(path)), price: '7' };
    assert.equal((await ada.post(path, fields)).status, 303);
    for (const other of ['7.01', null]) {
      await service.sql`update priced set price = ${other} where id = ${id}`;
      assert.equal((await ada.post(path, fields)).status, 409);
    }
    assert.equal((await ada.post(path, { ...fields, price: '99999999' })).status, 409);
  });

  test('saves the same change twice at the same time without a conflict', async () => {
    const [row] = await service.sql`insert into priced (price, note) values (5, 'one') returning id`;
    const id = Number(row?.['id']);
    const path = `/admin/priced/${id}/`;
    const fields = { ...fieldsOf(await ada.get(path)), price: '7', note: 'two' };
    const { sent } = await service.sql.begin(async (transaction) => {
      await transaction`select from priced where id = ${id} for update`;
      const answers = [ada.post(path, fields), ada.post(path, fields)];
      await eventually(async () => {
        const waiting = await service.sql`
          select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        return waiting.count === 1;
      }, 'a save that waits, and the other one behind it');
      return { sent: answers };
    });
    const answers = await Promise.all(sent);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [303, 303],
    );
    const log =
      await service.sql`select from vitrine_history where model = 'priced' and record = ${String(id)}`;
    assert.equal(log.length, 1);
  });
});
