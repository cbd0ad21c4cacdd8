// Foreign keys in forms: select fields, search fields and the lookup page.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import {
  errorsIn,
  fieldsOf,
  logIn,
  readable,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const hiddenShelf: Resource = {
  model: 'shelf',
  columns: { name: { type: 'string' } },
  admin: { hidden: true },
};
const book: Resource = {
  model: 'book',
  columns: { title: { type: 'string' }, shelf: { type: 'foreignKey', references: 'shelf', null: true } },
};
const reference = (references: string) => ({ type: 'foreignKey', references }) as const;

/** Eight columns: as many as a search has without `admin.search`. */
const numberedTexts = (name: string) =>
  Object.fromEntries(
    Array.from({ length: 8 }, (_, index) => [
      `${name}_${index + 1}`,
      { type: 'string', null: true } as const,
    ]),
  );

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([...resources, hiddenShelf, book]);
  await service.addUser('ada', { admin: true });
  await service.addUser('grace');
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

test('a foreign key to few records is a select field in natural order', async () => {
  await service.sql`insert into "user" (username, password, email) values ('unit 10', '', ''), ('Unit 9', '', ''), ('abel', '', '')`;
  const page = await ada.get('/admin/thing/-/add/');
  const [, select = ''] = /<select[^>]*name="author_id"[^>]*>([\s\S]*?)<\/select>/.exec(page.text) ?? [];
  const names = [...select.matchAll(/<option value="\d+"[^>]*>([^<]*)</g)].map(([, name]) => name);
  assert.deepEqual(names, ['abel', 'ada', 'grace', 'Unit 9', 'unit 10']);
  await service.sql`delete from "user" where username in ('unit 10', 'Unit 9', 'abel')`;
});

describe('a foreign key to many records', () => {
  let address = '';
  before(async () => {
    await service.sql`insert into "user" (username, password, email) select 'person ' || n, '', '' from generate_series(1, 150) n`;
    await service.sql`insert into "user" (username, password, email) values ('zoë lovelace', '', ''), ('007', '', '')`;
    address = await added({ name: 'Referring', author_id: '1' });
  });

  test('is a search field, and its lookup page returns the choice with all typed values', async () => {
    const page = await ada.get(address);
    assert.match(page.text, /data-lookup="\/admin\/user\/-\/lookup\/"/);
    const step = await ada.post(address, {
      ...fieldsOf(page),
      note: 'typed <before>',
      _lookup: 'author_id',
      _find: 'person 77',
    });
    assert.equal(step.status, 200);
    const [, id = ''] = /name="_choose"\s+value="(\d+)"\s+class="choice">\s*person 77 /.exec(step.text) ?? [];
    const carried = without(fieldsOf(step), '_find') as Record<string, string>;
    const back = await ada.post(address, { ...carried, _choose: id });
    assert.match(back.text, /person 77/);
    const fields = fieldsOf(back);
    assert.deepEqual([fields['author_id'], fields['note']], [id, 'typed <before>']);
    assert.equal((await ada.post(address, fields)).status, 303);
    assert.equal(String((await row('Referring'))['author_id']), id);
  });

  test('puts no typed password into the lookup page', async () => {
    const typed = fieldsOf(await ada.get(address));
    const passwords = { _current: 'pw-of-1', _password: 'pw-of-2', _repeat: 'pw-of-3' };
    const step = await ada.post(address, { ...typed, ...passwords, _lookup: 'author_id', _find: '' });
    assert.equal(step.status, 200);
    assert.doesNotMatch(step.text, /pw-of-/);
  });

  test('has a lookup endpoint that returns ids and labels as JSON', async () => {
    const answer = await ada.get('/admin/user/-/lookup/?_search=person+12');
    const { records } = JSON.parse(answer.text) as { records: { id: string; label: string }[] };
    assert.ok(records.length > 5);
    assert.ok(
      records.every(({ id, label }) => label.startsWith('person') && `${id} ${label}`.includes('12')),
    );
  });

  const lookUp = async (words: string): Promise<{ labels: string[]; more: boolean }> => {
    const { text } = await ada.get(`/admin/user/-/lookup/?_search=${encodeURIComponent(words)}`);
    const { records, more } = JSON.parse(text) as { records: { label: string }[]; more: boolean };
    return { labels: records.map(({ label }) => label), more };
  };

  test('finds the exact label first, then others by label, and says whether there are more', async () => {
    const { labels, more } = await lookUp('PERSON 12');
    assert.equal(labels[0], 'person 12');
    assert.deepEqual(labels.slice(1), labels.slice(1).toSorted());
    assert.equal(more, false);
    const all = await lookUp('person');
    assert.deepEqual(all.labels.slice(0, 3), ['person 1', 'person 10', 'person 100']);
    assert.deepEqual([all.labels.length, all.more], [20, true]);
    assert.equal((await lookUp('')).labels[1], 'ada');
    assert.deepEqual((await lookUp('(Zoë) – Lovelace,')).labels, ['zoë lovelace']);
  });

  test('ignores a search text of more than 1,000 characters', async () => {
    const found = await add({ name: 'Found by words', author_id: `Zoë Lovelace ${'( '.repeat(400)}` });
    assert.equal(found.status, 303);
    const answer = await add({ name: 'Not found', author_id: `Zoë Lovelace ${'( '.repeat(500)}` });
    assert.equal(answer.status, 400);
    assert.match(errorsIn(answer)['author_id'] ?? '', /does not match exactly one record/i);
  });

  test('does not sort a large table by a column without an index, but can search it', async () => {
    const first = async (): Promise<string> =>
      (JSON.parse((await ada.get('/admin/land/-/lookup/')).text) as { records: { label: string }[] })
        .records[0]?.label ?? '';
    await service.sql`insert into land (code, name) select 'b' || 100000 + n, 'z' || 100000 - n from generate_series(1, 9000) n`;
    assert.match(await first(), /^(Nowhere|z91000)$/);
    await service.sql`insert into land (code, name) select 'a' || 100000 + n, 'y' || 100000 - n from generate_series(1, 2000) n`;
    await service.sql`delete from land where code = '-'`;
    assert.equal(await first(), 'y99999');
    const { text } = await ada.get('/admin/land/-/lookup/?_search=z9100');
    assert.match(text, /^\{"records":\[\{"id":"b109000","label":"z91000"\},\{"id":"b108999"/);
    await service.sql`delete from land`;
  });

  test('searches first for the text of the field, but not for a chosen key', async () => {
    const page = await ada.get(address);
    const step = await ada.post(address, {
      ...fieldsOf(page),
      author_id: ' person 14',
      _lookup: 'author_id',
    });
    assert.equal(fieldsOf(step)['_find'], 'person 14');
    assert.match(step.text, /class="choice">\s*person 140 /);
    assert.doesNotMatch(step.text, /class="choice">\s*person 2 /);
    const known = await ada.post(address, { ...fieldsOf(page), author_id: '1', _lookup: 'author_id' });
    assert.equal(fieldsOf(known)['_find'], '');
  });

  for (const [kind, words, expected] of [
    ['the whole label of one record', 'Person 15', 'person 15'],
    ['words that match only one record', 'lovel zo', 'zoë lovelace'],
    ['a label that looks like a key', '007', '007'],
    ['a label with punctuation between its words', 'Zoë – Lovelace,', 'zoë lovelace'],
  ] as const)
    test(`accepts ${kind} instead of its key`, async () => {
      await service.sql`delete from thing where name = 'By words'`;
      await added({ name: 'By words', author_id: words });
      const [found] = await service.sql`
        select username from thing join "user" on author_id = "user".id where thing.name = 'By words'`;
      assert.equal(found?.['username'], expected);
    });

  test('returns 400 for words that match several records or none', async () => {
    for (const author_id of ['person', 'nobody at all']) {
      const answer = await add({ name: 'Never', author_id });
      assert.equal(answer.status, 400);
      assert.equal(
        errorsIn(answer)['author_id'],
        'Does not match exactly one record: choose one of the records.',
      );
      assert.equal(fieldsOf(answer)['author_id'], author_id);
    }
  });

  test('does not take a text that is no key for the key that it would be as a number', async () => {
    for (const typed of ['01', '+1', '1.']) {
      const answer = await add({ name: 'Never', author_id: typed });
      assert.equal(answer.status, 400, typed);
      assert.ok(errorsIn(answer)['author_id'] !== undefined, typed);
    }
  });

  test('does not take the key of a deleted record for the label of another', async () => {
    await service.sql`insert into "user" (username, password, email) values ('number 98765', '', '')`;
    const answer = await add({ name: 'Never', author_id: '98765' });
    assert.match(errorsIn(answer)['author_id'] ?? '', /no such record/i);
  });

  test('means the same record in the lookup and when it is saved', async () => {
    const { sql } = service;
    // More users with this name, apart from spaces, than the lookup returns.
    await sql`insert into "user" (username, password, email) select lpad('1', n), '', '' from generate_series(1, 25) n`;
    await sql`insert into "user" (username, password, email) values ('twin', '', ''), ('Twin', '', '')`;
    const saved = async (author_id: string): Promise<string | undefined> => {
      await sql`delete from thing where name = 'Meant'`;
      const answer = await add({ name: 'Meant', author_id });
      if (answer.status === 400) return undefined;
      assert.equal(answer.status, 303, readable(answer));
      return String((await row('Meant'))['author_id']);
    };
    for (const [text, expected] of [
      ['1', 'ada'],
      ['007', '007'],
      ['Person 15', 'person 15'],
      ['lovel zo', 'zoë lovelace'],
      ['98765', undefined],
      ['twin', undefined],
      ['person', undefined],
      ['no such person', undefined],
    ] as const) {
      const { text: json } = await ada.get(`/admin/user/-/lookup/?_search=${encodeURIComponent(text)}`);
      const { meant } = JSON.parse(json) as { meant?: string };
      const [record] = await sql`select username from "user" where id::text = ${meant ?? ''}`;
      assert.equal(record?.['username'], expected, text);
      assert.equal(await saved(text), meant, text);
    }
    await sql`delete from thing where name = 'Meant'`;
    await sql`delete from "user" where trim(username) in ('1', 'twin', 'Twin')`;
  });

  test('reports a conflict when the record changes during the lookup', async () => {
    const page = await ada.get(address);
    const step = await ada.post(address, { ...fieldsOf(page), note: 'mine', _lookup: 'author_id' });
    await service.sql`update thing set note = 'theirs' where name = 'Referring'`;
    const back = await ada.post(address, { ...fieldsOf(step), _choose: '1' });
    const saved = await ada.post(address, fieldsOf(back));
    assert.equal(saved.status, 409);
    assert.match(saved.text, /theirs/);
  });
});

test('a foreign key to a hidden resource is a plain field and filter for the key', async () => {
  await service.sql`insert into shelf (name) values ('Upper'), ('Lower')`;
  await service.sql`insert into book (title, shelf_id) values ('Emma', 1)`;
  const page = await ada.get('/admin/book/1/');
  assert.doesNotMatch(page.text, /lookup/);
  assert.match(/<input[^>]*name="shelf_id"[^>]*>/.exec(page.text)?.[0] ?? '', /type="number"\s+value="1"/);
  const saved = await ada.post('/admin/book/1/', { ...fieldsOf(page), shelf_id: '2' });
  assert.equal(saved.status, 303, readable(saved));
  assert.deepEqual([...(await service.sql`select shelf_id from book`)], [{ shelf_id: 2 }]);
  assert.match((await ada.get('/admin/book/?_filter=shelf')).text, /id="filter-value"[^>]*placeholder="id"/);
});

test('the page of a record links to the records that refer to it', async () => {
  await added({ name: 'Child', author_id: '1' });
  const page = await ada.get('/admin/user/1/');
  assert.match(page.text, /href="\/admin\/thing\/\?author=1">Things<\/a>/);
  assert.match(page.text, /href="\/admin\/thing\/-\/add\/\?_list=author%3D1"/);
  const list = await ada.get('/admin/thing/?author=1');
  assert.match(list.text, /Child/);
});

describe('a record whose label has columns of related records', () => {
  let other: TestService;
  let browser: Browser;
  before(async () => {
    other = await startService([
      user,
      { model: 'album', columns: { title: { type: 'string' }, ...numberedTexts('remark') } },
      {
        model: 'track',
        columns: { ...numberedTexts('note'), name: { type: 'string' }, album: reference('album') },
        admin: { label: '{name} ({album__title})' },
      },
      { model: 'play', columns: { track: reference('track') } },
    ]);
    await other.addUser('ada', { admin: true });
    await other.sql`insert into album (title) values ('Led Zeppelin IV'), ('Abbey Road')`;
    await other.sql`insert into track (name, album_id) select 'Take ' || n, 2 from generate_series(1, 150) n`;
    await other.sql`insert into track (name, album_id, note_1) values ('Black Dog', 1, 'loud'), ('Black Dog', 2, 'soft')`;
    browser = await logIn(other, 'ada');
  });
  after(() => other.close());

  for (const [words, found] of [
    ['zeppelin', ['Black Dog (Led Zeppelin IV)']],
    ['black road', ['Black Dog (Abbey Road)']],
    ['Black Dog (Led Zeppelin IV)', ['Black Dog (Led Zeppelin IV)']],
    ['loud', ['Black Dog (Led Zeppelin IV)']],
    ['black dog', ['Black Dog (Abbey Road)', 'Black Dog (Led Zeppelin IV)']],
  ] as const)
    test(`is found by ${JSON.stringify(words)}`, async () => {
      const { text } = await browser.get(`/admin/track/-/lookup/?_search=${encodeURIComponent(words)}`);
      const { records } = JSON.parse(text) as { records: { label: string }[] };
      assert.deepEqual(records.map(({ label }) => label).sort(), found);
    });

  test('can be entered in a form by its whole label', async () => {
    const page = await browser.get('/admin/play/-/add/');
    const track_id = 'Black Dog (Led Zeppelin IV)';
    const added = await browser.post('/admin/play/-/add/', { ...fieldsOf(page), track_id, _save: 'stay' });
    assert.equal(added.status, 303, readable(added));
    const [play] = await other.sql`select t.note_1 from play p join track t on t.id = p.track_id`;
    assert.equal(play?.['note_1'], 'loud');
  });
});
