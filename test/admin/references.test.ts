// Related records in forms: select fields, search fields, the lookup page, and the labels of records.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { useService } from '../support.ts';
import {
  errorsIn,
  fieldsOf,
  hiddenFields,
  logIn,
  readable,
  save,
  startAdmin,
  useAdmin,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { before, describe, test } from 'node:test';

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

/** Labels with columns of related records. */
const music: Resource[] = [
  { model: 'album', columns: { title: { type: 'string' }, ...numberedTexts('remark') } },
  {
    model: 'track',
    columns: { ...numberedTexts('note'), name: { type: 'string' }, album: reference('album') },
    admin: { label: '{name} ({album__title})' },
  },
  { model: 'play', columns: { track: reference('track') } },
];

type Values = Readonly<Record<'a' | 'b' | 'c', string | null>>;

const all: Values = { a: 'One', b: 'Two', c: 'Three' };

const CASES: readonly (readonly [template: string, values: Values, label: string])[] = [
  ['{a} – {b}', all, 'One – Two'],
  ['{a} – {b}', { ...all, b: null }, 'One'],
  ['{a} – {b}', { ...all, a: null }, 'Two'],
  ['{a} – {b}', { a: null, b: null, c: null }, '#1'],
  ['{a} ({b})', { ...all, b: null }, 'One'],
  ['No. {a}, {b} ({c}).', all, 'No. One, Two (Three).'],
  ['No. {a}, {b} ({c}).', { ...all, a: null }, 'Two (Three).'],
  ['{a} {b} {c}', { ...all, b: null }, 'One Three'],
  ['{a}', { ...all, a: '\t\n' }, '#1'],
  ['{a}', { ...all, a: '\u00a0' }, '#1'],
  ['{a}{b}', { ...all, a: '\u200b', b: '\u202e\ufeff' }, '#1'],
  ['{a} {b} ({c})', { ...all, a: null, b: null }, 'Three'],
  ['{a} ({b})', { ...all, a: null }, 'Two'],
  ['{a} ({b})', { ...all, a: '' }, 'Two'],
  ['{a} ({b})', { ...all, b: '' }, 'One'],
  ['{a} ({b}, {c})', { ...all, b: null }, 'One (Three)'],
  ['{a} ({b}, {c})', { ...all, a: ' ', b: '' }, 'Three'],
  ['{a} ({b}) [{c}]', { ...all, a: null }, 'Two [Three]'],
  ['({a}) {b}', { ...all, b: null }, '(One)'],
  ['({a}) {b}', { ...all, a: null }, 'Two'],
  ['{a} „{b}“ «{c}»', { ...all, a: null }, 'Two «Three»'],
  ['{a} "{b}" {c}', { ...all, b: null }, 'One Three'],
  ['{a}, "{b}"', { ...all, a: null }, 'Two'],
  ['{a}" {b}', { ...all, b: null }, 'One'],
  ['{a} (of {next__a}) (c) {b}', all, 'One (c) Two'],
  ['{a}) ({b}', { ...all, a: null }, 'Two'],
  ['{a}', { ...all, a: '\u2800' }, '#1'],
  ['{a} ({next__a})', all, 'One'],
  ['{a}/{b}/{c}', { a: null, b: null, c: 'Three' }, 'Three'],
  ['{fixed} ({a})', { ...all, a: null }, 'Set'],
  ['{a}, {fixed}', { ...all, a: null }, 'Set'],
  ['{fixed}!', all, 'Set!'],
  ['{next__a} in {a}', { ...all, a: null }, '#1'],
];

const text = { type: 'string', null: true } as const;
const models = CASES.map(([template], index): Resource => ({
  model: `labeled${index}`,
  columns: {
    a: text,
    b: text,
    c: text,
    fixed: { type: 'string' },
    next: { type: 'foreignKey', references: `labeled${index}`, null: true },
  },
  admin: { list: ['a', 'b'], label: template },
}));

const host: Resource = {
  model: 'host',
  columns: {
    name: { ...text, choices: ['pending', 'done'], default: 'pending' },
    note: { type: 'text', null: true },
    alias: text,
    display_name: text,
    state: { ...text, choices: ['pending'], default: 'pending' },
  },
};
/** Its records show the labels of hosts. */
const disk: Resource = {
  model: 'disk',
  columns: { host: { type: 'foreignKey', references: 'host' } },
};

let ada: Browser;
const service = useService(
  [...resources, hiddenShelf, book, ...music, ...models, host, disk],
  {},
  async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('grace');
    ada = await logIn(service, 'ada');
  },
);

const without = (values: Record<string, unknown>, ...names: string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));

const row = async (name: string): Promise<Record<string, unknown>> => {
  const [found] = await service.sql`select * from thing where name = ${name}`;
  return { ...found };
};

const add = (fields: Fields): Promise<AdminAnswer> =>
  save(ada, '/admin/thing/-/add/', { _save: 'stay', ...fields });

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
  const openLink = /<a([^>]*) data-open="\/admin\/user\/-\/lookup\/">Open<\/a>/;
  assert.equal(openLink.exec(page.text)?.[1], ' hidden');
  const chosen = await ada.get(await added({ name: 'Chosen', author_id: '1' }));
  assert.equal(openLink.exec(chosen.text)?.[1], ' href="/admin/user/1/" aria-label="Open ada"');
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
    const [, id = ''] =
      /name="_choose"\s+value="=(\d+)"\s+class="choice">\s*person 77 /.exec(step.text) ?? [];
    const carried = without(fieldsOf(step), '_find') as Record<string, string>;
    const back = await ada.post(address, { ...carried, _choose: `=${id}` });
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

  const lookUp = async (words: string): Promise<{ labels: string[]; more: boolean }> => {
    const { text } = await ada.get(`/admin/user/-/lookup/?_search=${encodeURIComponent(words)}`);
    const { records, more } = JSON.parse(text) as { records: { label: string }[]; more: boolean };
    return { labels: records.map(({ label }) => label), more };
  };

  test('finds the exact label first, then those that begin with it, then others, and says whether there are more', async () => {
    const { labels, more } = await lookUp('PERSON 12');
    const begun = Array.from({ length: 10 }, (_, index) => `person 12${index}`);
    assert.deepEqual(labels, ['person 12', ...begun, 'person 112', 'person 7']);
    assert.equal(more, false);
    // Beyond the first 100 matches by label.
    await service.sql`insert into "user" (username, password, email) values ('zz person', '', ''), ('son of zoë', '', '')`;
    assert.deepEqual((await lookUp('son')).labels.slice(0, 2), ['son of zoë', 'person 1']);
    await service.sql`delete from "user" where username in ('zz person', 'son of zoë')`;
    const all = await lookUp('person');
    assert.deepEqual(all.labels.slice(0, 3), ['person 1', 'person 10', 'person 100']);
    assert.deepEqual([all.labels.length, all.more], [20, true]);
    assert.equal((await lookUp('')).labels[1], 'ada');
    assert.deepEqual((await lookUp('(Zoë) – Lovelace,')).labels, ['zoë lovelace']);
  });

  test('ignores a search text of more than 1,000 characters', async () => {
    const found = await add({ name: 'Found by words', author_id: `Zoë Lovelace ${'( '.repeat(400)}` });
    assert.match(errorsIn(found)['author_id'] ?? '', /^Means #\d+ \(“zoë lovelace”\)/);
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

  test('does not take a text that is no key for a key, nor a deleted key for the label of another', async () => {
    for (const author_id of ['01', '+1', '1.']) {
      const answer = await add({ name: 'Never', author_id });
      assert.equal(answer.status, 400, author_id);
      assert.ok(errorsIn(answer)['author_id'] !== undefined, author_id);
    }
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
      let answer = await add({ name: 'Meant', author_id });
      if (errorsIn(answer)['author_id']?.startsWith('Means ') === true)
        answer = await ada.post('/admin/thing/-/add/', { ...fieldsOf(answer), _save: 'stay' });
      if (answer.status === 400) return undefined;
      assert.equal(answer.status, 303, readable(answer));
      return String((await row('Meant'))['author_id']);
    };
    for (const [text, expected] of [
      ['1', undefined],
      ['007', '007'],
      ['Person 15', 'person 15'],
      ['Zoë – Lovelace,', 'zoë lovelace'],
      ['lovel zo', 'zoë lovelace'],
      ['98765', undefined],
      ['twin', undefined],
      ['person', undefined],
      ['no such person', undefined],
    ] as const) {
      const { text: json } = await ada.get(`/admin/user/-/lookup/?_search=${encodeURIComponent(text)}`);
      const { match } = JSON.parse(json) as { match?: string };
      const [record] = await sql`select username from "user" where id::text = ${match ?? ''}`;
      assert.equal(record?.['username'], expected, text);
      assert.equal(await saved(text), match, text);
    }
    await sql`delete from thing where name = 'Meant'`;
    await sql`delete from "user" where trim(username) in ('1', 'twin', 'Twin')`;
  });

  test('reports a conflict when the record changes during the lookup', async () => {
    const page = await ada.get(address);
    const step = await ada.post(address, { ...fieldsOf(page), note: 'mine', _lookup: 'author_id' });
    await service.sql`update thing set note = 'theirs' where name = 'Referring'`;
    const back = await ada.post(address, { ...fieldsOf(step), _choose: '=1' });
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
  assert.match(
    /<input[^>]*name="shelf_id"[^>]*>/.exec(page.text)?.[0] ?? '',
    /value="1"\s+inputmode="numeric"/,
  );
  const saved = await ada.post('/admin/book/1/', { ...fieldsOf(page), shelf_id: '2' });
  assert.equal(saved.status, 303, readable(saved));
  assert.deepEqual([...(await service.sql`select shelf_id from book`)], [{ shelf_id: 2 }]);
  assert.match((await ada.get('/admin/book/')).text, /name="_find.shelf"[^>]*placeholder="id"/);
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
  before(async () => {
    await service.sql`insert into album (title) values ('Led Zeppelin IV'), ('Abbey Road')`;
    await service.sql`insert into track (name, album_id) select 'Take ' || n, 2 from generate_series(1, 150) n`;
    await service.sql`insert into track (name, album_id, note_1) values ('Black Dog', 1, 'loud'), ('Black Dog', 2, 'soft')`;
  });

  for (const [words, found] of [
    ['zeppelin', ['Black Dog (Led Zeppelin IV)']],
    ['black road', ['Black Dog (Abbey Road)']],
    ['Black Dog (Led Zeppelin IV)', ['Black Dog (Led Zeppelin IV)']],
    ['loud', ['Black Dog (Led Zeppelin IV)']],
    ['black dog', ['Black Dog (Abbey Road)', 'Black Dog (Led Zeppelin IV)']],
  ] as const)
    test(`is found by ${JSON.stringify(words)}`, async () => {
      const { text } = await ada.get(`/admin/track/-/lookup/?_search=${encodeURIComponent(words)}`);
      const { records } = JSON.parse(text) as { records: { label: string }[] };
      assert.deepEqual(records.map(({ label }) => label).sort(), found);
    });

  test('can be entered in a form by its whole label', async () => {
    const page = await ada.get('/admin/play/-/add/');
    const track_id = 'Black Dog (Led Zeppelin IV)';
    const added = await ada.post('/admin/play/-/add/', { ...fieldsOf(page), track_id, _save: 'stay' });
    assert.equal(added.status, 303, readable(added));
    const [play] = await service.sql`select t.note_1 from play p join track t on t.id = p.track_id`;
    assert.equal(play?.['note_1'], 'loud');
  });
});

describe('a label', () => {
  test('of a template leaves out what is empty, with its brackets and separators', async () => {
    for (const [index, [, values, label]] of CASES.entries()) {
      const name = `labeled${index}`;
      await service.sql`insert into ${service.sql(name)} ${service.sql({ ...values, fixed: 'Set' })}`;
      const { status, text: page } = await ada.get(`/admin/${name}/1/`);
      assert.equal(status, 200);
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(page)?.[1]?.trim(), label);
      // The first column of the list is a link. It shows the label if its own value is empty.
      const list = (await ada.get(`/admin/${name}/`)).text;
      const link = /<th scope="row"[^>]*>\s*<a href="[^"]*">(.*?)<\/a>/s.exec(list)?.[1]?.trim();
      assert.equal(link, /\w/.test(values.a ?? '') ? values.a : label);
      const fields = hiddenFields(await ada.get(`/admin/${name}/1/delete/`), 'confirm');
      assert.equal((await ada.post(`/admin/${name}/1/delete/`, fields)).status, 303);
      const history = (await ada.get(`/admin/${name}/1/history/`)).text;
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(history)?.[1]?.trim(), `History of ${label}`);
    }
  });

  for (const [values, label] of [
    [{ display_name: 'mail server', alias: 'mx', note: 'old' }, 'mail server'],
    [{ display_name: null, alias: 'mx', note: 'old' }, 'mx'],
    [{ display_name: '', alias: ' ', note: 'old' }, 'old'],
    [{ display_name: null, alias: null, note: null }, undefined],
  ] as const)
    test(`of ${JSON.stringify(values)} is ${label ?? 'the key'} if the registry names no label`, async () => {
      const [row] = await service.sql`insert into host ${service.sql(values)} returning id`;
      const id = String(row?.['id']);
      await service.sql`insert into disk (host_id) values (${id})`;
      const { text: page } = await ada.get(`/admin/host/${id}/`);
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(page)?.[1]?.trim(), label ?? `#${id}`);
      assert.match(
        (await ada.get('/admin/disk/')).text,
        new RegExp(`/admin/host/${id}/">${label ?? `#${id}`}</a>`),
      );
    });
});

// Very long labels, which any user with write access can store: the admin area cuts them.
const post = { model: 'post', access: 'user', columns: { text: { type: 'text' } } } as const;
const comment = {
  model: 'comment',
  access: 'user',
  columns: { post: { type: 'foreignKey', references: 'post' }, line: { type: 'string' } },
} as const;

/** The number of posts, each with a comment and a history entry. Together they exceed `MAX_PAGE`. */
const COUNT = 40;
const LONG = 150_000;
const MAX_PAGE = 4 * 1024 * 1024;

describe('records with very long labels', () => {
  const { service, ada } = useAdmin([user, post, comment], { maxPage: MAX_PAGE }, async () => {
    await service.sql`insert into post (text)
      select n || ' ' || repeat('word ', ${LONG / 5}) from generate_series(1, ${COUNT}) n`;
    await service.sql`insert into comment (post_id, line) select id, 'a' from post`;
    await service.sql`insert into vitrine_history (door, action, model, record, after)
      select 'api', 'create', 'comment', id::text, '{"post_id":' || post_id || ',"line":"a"}' from comment
      union all select 'api', 'create', 'post', id::text, '{"text":"a"}' from post`;
  });

  for (const path of [
    '/admin/',
    '/admin/post/?limit=40',
    '/admin/post/1/delete/',
    '/admin/post/1/history/',
    '/admin/comment/?limit=40',
    '/admin/comment/?limit=40&post=1&post__in=2,3,4,5,6,7,8,9,10',
    '/admin/comment/1/',
    '/admin/comment/-/add/',
    '/admin/comment/1/history/',
    '/admin/comment/1/delete/',
    '/admin/comment/-/lookup/?_search=a',
    '/admin/post/-/lookup/?_search=word',
    '/admin/vitrine_history/?limit=100',
  ])
    test(`have cut labels on ${path}`, async () => {
      const { status, text } = await ada.get(path);
      assert.equal(status, 200);
      assert.ok(text.length < 150_000, `${text.length} characters`);
    });

  test('have cut labels on bulk pages, and are found only by their whole label', async () => {
    const chosen = await ada.post('/admin/post/-/bulk/', { _action: 'delete', _state: '', _all: '1' });
    assert.equal(chosen.status, 200);
    assert.ok(chosen.text.length < 150_000, `${chosen.text.length} characters`);
    const form = fieldsOf(await ada.get('/admin/comment/1/'));
    // A search and the end of a label ignore spaces, so the cut label would be “Ann”.
    await service.sql`insert into post (text) values ('Ann' || repeat(' ', 9000) || 'tail'), ('Ann Other')`;
    const unclear = await ada.post('/admin/comment/1/', { ...form, post_id: 'Ann' });
    assert.equal(unclear.status, 400);
    assert.match(readable(unclear), /does not match exactly one record/);
    await service.sql`insert into post (text) values (' ann ')`;
    assert.equal((await ada.post('/admin/comment/1/', { ...form, post_id: 'Ann' })).status, 303);
  });

  test('have cut labels in the preview of an import', async () => {
    const file = ['id,post_id', ...Array.from({ length: COUNT }, (_, n) => `${n + 1},${COUNT - n}`)].join(
      '\n',
    );
    const preview = await ada.post('/admin/comment/-/import/', { _text: file });
    assert.equal(preview.status, 200);
    assert.match(preview.text, /40 word/);
    assert.ok(preview.text.length < 400_000, `${preview.text.length} characters`);
  });
});

test('a form with a foreign key can be opened and saved with MAX_PAGE=1', async (t) => {
  const { service, ada } = await startAdmin([user, post, comment], { maxPage: 1 });
  t.after(() => service.close());
  await service.sql`insert into post (text) select repeat('word ', 100) || n from generate_series(1, 100) n`;
  await service.sql`insert into comment (post_id, line) values (7, 'a')`;
  const page = await ada.get('/admin/comment/1/');
  assert.equal(page.status, 200);
  assert.equal([...page.text.matchAll(/<option /g)].length, 100);
  assert.equal((await ada.post('/admin/comment/1/', { ...fieldsOf(page), line: 'b' })).status, 303);
});

describe('a text that is the key of one record and the name of another', () => {
  const rooms = useAdmin([
    user,
    {
      model: 'room',
      columns: { number: { type: 'integer' }, floor: { type: 'string', null: true } },
      admin: { label: 'number' },
    },
    { model: 'place', columns: { name: { type: 'string' } } },
    {
      model: 'door',
      columns: { floor: { type: 'string' }, nr: { type: 'string' } },
      admin: { label: '{floor}-{nr}' },
      primaryKey: { type: 'string', column: 'code' },
    },
    { model: 'lock', columns: { door: reference('door') } },
    {
      model: 'booking',
      columns: {
        guest: { type: 'string' },
        room: reference('room'),
        place: { type: 'foreignKey', references: 'place', null: true },
      },
      admin: {
        filters: ['room', 'place'],
        actions: [
          {
            name: 'move',
            title: 'Move',
            on: ['list'],
            fields: { to: reference('place') },
            confirm: 'Sure?',
            run: ({ values }) => Promise.resolve(`Moved to ${String(values['to'])}.`),
          },
        ],
      },
    },
  ]);
  before(async () => {
    // More than a select has.
    await rooms.service.sql`insert into room (number) values (2), (3), (1)`;
    await rooms.service.sql`insert into room (number) select n from generate_series(1000, 1200) n`;
    await rooms.service.sql`insert into place (name) values ('2'), ('3'), ('1')`;
    await rooms.service.sql`insert into place (name) select 'place ' || n from generate_series(1000, 1200) n`;
    await rooms.service.sql`insert into booking (guest, room_id, place_id) values ('Eve', 1, 1)`;
  });
  const stored = async (): Promise<unknown[]> =>
    (await rooms.service.sql`select room_id, place_id from booking order by id`).flatMap((row) => Object.values(row)); // prettier-ignore
  test('is an error also where its name is made of several columns, in any case', async () => {
    await rooms.service.sql`insert into door (code, floor, nr) values ('a-1', 'b', '2'), ('x', 'A', '1')`;
    await rooms.service
      .sql`insert into door (code, floor, nr) select 'd' || n, 'c', n::text from generate_series(1, 200) n`;
    const refused = await rooms.ada.post('/admin/lock/-/add/', {
      ...fieldsOf(await rooms.ada.get('/admin/lock/-/add/')),
      ...{ door_id: 'a-1', door_id__key: '' },
    });
    assert.deepEqual(errorsIn(refused), {
      door_id: 'May mean #a-1 (“b-2”) or #x (“A-1”): enter one of them.',
    });
  });

  const BOTH = 'May mean #2 (“3”) or #1 (“2”): enter one of them.';

  for (const field of ['room_id', 'place_id'])
    test(`is an error of the field ${field} that names both, and a choice is taken`, async () => {
      const refused = await save(rooms.ada, '/admin/booking/1/', { [field]: '2', [`${field}__key`]: '' });
      assert.deepEqual([refused.status, errorsIn(refused)], [400, { [field]: BOTH }]);
      assert.equal(fieldsOf(refused)[field], '2');
      assert.doesNotMatch(refused.text, /<a href="[^"]*\/2\/">3</);
      assert.deepEqual(await stored(), [1, 1]);
      const lookup = await rooms.ada.get(`/admin/${field.slice(0, -3)}/-/lookup/?_search=2`);
      assert.equal((JSON.parse(lookup.text) as { match?: string }).match, undefined);
      for (const choice of [{ [field]: '2', [`${field}__key`]: '=2' }, { [field]: '#1' }]) {
        const saved = await save(rooms.ada, '/admin/booking/1/', choice);
        assert.equal(saved.status, 303, readable(saved));
        const [key] = await rooms.service.sql`select ${rooms.service.sql(field)} as key from booking`;
        assert.equal(key?.['key'], Number(choice[field]?.replace('#', '')));
      }
    });

  test('is no question where the page has shown the key', async () => {
    const saved = await save(rooms.ada, '/admin/booking/1/', { guest: 'Ada' });
    assert.equal(saved.status, 303, readable(saved));
    const page = await rooms.ada.get('/admin/booking/1/');
    const step = await rooms.ada.post('/admin/booking/1/', {
      ...fieldsOf(page),
      _lookup: 'place_id',
      _find: '2',
    });
    assert.match(step.text, /value="=2" class="choice">\s*3 /);
    const back = await rooms.ada.post('/admin/booking/1/', {
      ...hiddenFields(step, 'lookup'),
      _choose: '=2',
    });
    assert.equal((await rooms.ada.post('/admin/booking/1/', fieldsOf(back))).status, 303);
    assert.deepEqual(await stored(), [1, 2]);
    await save(rooms.ada, '/admin/booking/1/', { place_id: '#1' });
    assert.deepEqual(await stored(), [1, 1]);
  });

  test('is an error of a bulk change and of an action', async () => {
    for (const choice of [
      { _action: 'set', _column: 'place_id', place_id: '2' },
      { _action: 'do.move', to_id: '2' },
    ]) {
      const sent = { _state: '', _id: '1', _value: '1', ...choice };
      const refused = await rooms.ada.post('/admin/booking/-/bulk/', sent);
      assert.deepEqual([refused.status, Object.values(errorsIn(refused))], [400, [BOTH]], readable(refused));
      const asked = await rooms.ada.post('/admin/booking/-/bulk/', { ...sent, place_id: '#2', to_id: '#2' });
      const done = await rooms.ada.post('/admin/booking/-/bulk/', { ...hiddenFields(asked, 'record') });
      assert.equal(done.status, 303, readable(done));
    }
    assert.deepEqual(await stored(), [1, 2]);
  });

  test('is an error of the filter panel and of another comparison', async () => {
    const apply = async (fields: Record<string, string>): Promise<string> =>
      decodeURIComponent(
        (await rooms.ada.get(`/admin/booking/-/filter/?${new URLSearchParams(fields).toString()}`))
          .location ?? '',
      ).replaceAll('+', ' ');
    for (const fields of [
      { '_find.room': '2' },
      { _path: 'place', _how: 'eq', _value: '2' },
      { _path: 'place', _how: 'in', _value: '2, 1001' },
    ]) {
      await apply({ _panel: '1', ...fields });
      assert.match(
        (await rooms.ada.get('/admin/booking/')).text,
        /: 2 may mean #2 \(“3”\) or #1 \(“2”\): enter one of them/,
      );
    }
    assert.match(await apply({ '_find.room': '2', '_key.room': '=2' }), /booking\/\?room=2/);
    assert.match(await apply({ _path: 'place', _how: 'in', _value: '#2, place 1000' }), /place__in=2,4$/);
    const panel = await rooms.ada.get('/admin/booking/?room=2');
    assert.match(panel.text, /name="_key.room"\s+value="=2"/);
  });

  test('words that mean one record are stored after the page has shown it', async () => {
    const page = await rooms.ada.get('/admin/booking/1/');
    const asked = await rooms.ada.post('/admin/booking/1/', { ...fieldsOf(page), place_id: 'plac 1007' });
    assert.deepEqual(errorsIn(asked), {
      place_id: 'Means #11 (“place 1007”): check it, then send the form again.',
    });
    assert.match(asked.text, />place 1007<\/a>/);
    assert.equal((await rooms.ada.post('/admin/booking/1/', fieldsOf(asked))).status, 303);
    assert.deepEqual(await stored(), [1, 11]);
  });
});
