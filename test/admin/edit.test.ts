import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../http/expect.ts';
import { basic, startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, type AdminAnswer, type Browser, type Fields } from './support.ts';
import { resources } from './things.ts';

let service: TestService;
let ada: Browser;

before(async () => {
  service = await startService(resources);
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

/** Adds a thing and gives the address of its page. */
async function added(fields: Fields): Promise<string> {
  const answer = await add(fields);
  assert.equal(
    answer.status,
    303,
    answer.text
      .replace(/<[^>]+>/g, ' ')
      .replace(/\s+/g, ' ')
      .slice(0, 800),
  );
  return answer.location ?? '';
}

/** The messages beside the fields, by the field's key. */
const errorsIn = ({ text }: AdminAnswer): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<p class="error" id="field-(\w+)-error">([\s\S]*?)<\/p>/g)].map(
      ([, key = '', content = '']) => [key, content.replace(/<[^>]+>/g, '').trim()],
    ),
  );

describe('adding', () => {
  test('every type comes from its control as it was typed', async () => {
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

  test('a form that is left as it comes adds a record with no values and the defaults', async () => {
    await added({ name: 'Bare' });
    const values = without(await row('Bare'), 'id');
    assert.deepEqual(values, {
      name: 'Bare', note: null, amount: null, big: null, ratio: null, price: null, ready: false, maybe: null, at: null, day: null,
      hour: null, code: null, extra: null, colour: 'red', author_id: null, secret: null, fixed: 7, hidden: 'out of sight',
    }); // prettier-ignore
  });

  test('a text that the API takes is not too long for the form, whatever its letters', async () => {
    const note = 'д'.repeat(400_000); // 800 kB, and 2.4 MB on the way
    const path = await added({ name: 'Long', note });
    assert.equal((await row('Long'))['note'], note);
    assert.equal((await ada.post(path, { ...fieldsOf(await ada.get(path)), amount: '1' })).status, 303);
    assert.equal((await row('Long'))['amount'], 1);
  });

  test('all faults are told at once beside their fields, with everything typed kept', async () => {
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

  test('what only the database knows is told like any other fault', async () => {
    await added({ name: 'Twice' });
    const answer = await add({ name: 'Twice', author_id: '1' });
    assert.equal(answer.status, 409);
    assert.match(errorsIn(answer)['name'] ?? '', /another record/i);
    const lost = await add({ name: 'Orphan', author_id: '4711' });
    assert.match(errorsIn(lost)['author_id'] ?? '', /no such record/i);
  });

  test('the address gives first values by the names of columns', async () => {
    const page = await ada.get('/admin/thing/-/add/?author=1&name=Given&hidden=no');
    const { author_id, name, hidden } = fieldsOf(page);
    assert.deepEqual({ author_id, name, hidden }, { author_id: '1', name: 'Given', hidden: undefined });
  });

  test('a key of one’s own is typed on a new record and only shown afterwards', async () => {
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

  test('a user gets a password that is typed twice, and no page ever has it', async () => {
    const fields = { username: 'grace', email: 'g@example.org', active: 'true', _save: 'stay' };
    const differs = await ada.post('/admin/user/-/add/', { ...fields, _password: 'one', _repeat: 'two' });
    assert.match(errorsIn(differs)['_repeat'] ?? '', /does not match the new password/i);
    assert.doesNotMatch(differs.text, /value="(one|two)"/);
    const none = await ada.post('/admin/user/-/add/', fields);
    assert.match(errorsIn(none)['_password'] ?? '', /required/i);
    const done = await ada.post('/admin/user/-/add/', {
      ...fields,
      _password: 'hopper of words',
      _repeat: 'hopper of words',
    });
    assert.equal(done.status, 303);
    const page = await ada.follow(done);
    assert.doesNotMatch(page.text, /argon2|hopper/);
    assert.equal(
      (
        await service.request('/api/note/', {
          method: 'POST',
          headers: { authorization: basic('grace', 'hopper of words') },
          body: { message: 'Hi' },
        })
      ).status,
      201,
    );
  });
});

describe('changing', () => {
  test('a form that comes back as it was changes nothing, and says so', async () => {
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

  test('only what was touched is written, and the history has just that', async () => {
    const address = await added({ name: 'Touched', note: 'before', amount: '1' });
    const page = await ada.get(address);
    await ada.post(address, { ...fieldsOf(page), note: 'after' });
    const [last] =
      await service.sql`select door, action, user_name, before, after from vitrine_history order by id desc limit 1`;
    assert.deepEqual({ ...last }, { door: 'admin', action: 'update', user_name: 'ada', before: '{"note":"before"}', after: '{"note":"after"}' }); // prettier-ignore
  });

  for (const [what, fields, expected] of [
    ['the empty text', { note: '' }, ''],
    ['no value', { note: '', note__null: '1' }, null],
    ['a text, whatever the box says', { note: 'x', note__null: '1' }, 'x'],
  ] as const) {
    test(`a text column can hold ${what}`, async () => {
      const address = await added({ name: `Null ${what}`, note: 'something' });
      const typed = without(fieldsOf(await ada.get(address)), 'note__null') as Record<string, string>;
      assert.equal((await ada.post(address, { ...typed, ...fields })).status, 303);
      assert.equal((await row(`Null ${what}`))['note'], expected);
    });
  }

  test('read-only columns are shown and not taken, hidden ones are not there at all', async () => {
    const address = await added({ name: 'Fixed' });
    const page = await ada.get(address);
    assert.match(page.text, /<span class="label">Fixed<\/span>/);
    assert.doesNotMatch(page.text, /out of sight/);
    await ada.post(address, { ...fieldsOf(page), fixed: '8', hidden: 'seen', name: 'Fixed still' });
    const { fixed, hidden } = await row('Fixed still');
    assert.deepEqual({ fixed, hidden }, { fixed: 7, hidden: 'out of sight' });
  });

  test('the buttons lead to the list, to the record, to a new one', async () => {
    const address = await added({ name: 'Buttons' });
    const typed = fieldsOf(
      await ada.get(address, { referer: `${service.base}/admin/thing/?colour=red&ordering=-name` }),
    );
    for (const [button, to] of [
      ['list', '/admin/thing/?colour=red&ordering=-name'],
      ['stay', `${address}?_list=${encodeURIComponent('colour=red&ordering=-name')}`],
      ['another', '/admin/thing/-/add/'],
    ] as const)
      assert.equal((await ada.post(address, { ...typed, _save: button })).location, to);
    const copied = await ada.post(address, { ...typed, name: 'Buttons, copied', _save: 'new' });
    assert.equal(copied.status, 303);
    assert.equal((await service.sql`select 1 from thing where name like 'Buttons%'`).length, 2);
  });

  test('a record that is gone can be added anew with what was typed', async () => {
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
});

describe('two people at one record', () => {
  test('the second sees both sets of values side by side, and chooses', async () => {
    const address = await added({ name: 'Contended', note: 'first', amount: '1', colour: 'red' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'theirs', amount = 2 where name = 'Contended'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine', colour: 'blue' });
    assert.equal(conflict.status, 409);
    const proposed = fieldsOf(conflict);
    // Where only one side has changed something, that side is proposed; where both have, the person must say.
    assert.equal(proposed['_take.colour'], 'mine');
    assert.equal(proposed['_take.amount'], 'theirs');
    assert.equal(proposed['_take.note'], undefined);
    assert.equal((await row('Contended'))['note'], 'theirs');
    const done = await ada.post(address, { ...proposed, '_take.note': 'mine' });
    assert.equal(done.status, 303);
    const { note, amount, colour } = await row('Contended');
    assert.deepEqual({ note, amount, colour }, { note: 'mine', amount: 2, colour: 'blue' });
  });

  test('a third change while the second is choosing is not overwritten either', async () => {
    const address = await added({ name: 'Thrice', note: 'first' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'second' where name = 'Thrice'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine' });
    await service.sql`update thing set note = 'third' where name = 'Thrice'`;
    const again = await ada.post(address, { ...fieldsOf(conflict), '_take.note': 'mine' });
    assert.equal(again.status, 409);
    assert.match(again.text, /third/);
    assert.equal((await row('Thrice'))['note'], 'third');
  });

  test('a change during the save does not undo a choice of the stored value', async () => {
    const address = await added({ name: 'Racing', note: 'first', amount: '1' });
    const typed = fieldsOf(await ada.get(address));
    await service.sql`update thing set note = 'theirs' where name = 'Racing'`;
    const conflict = await ada.post(address, { ...typed, note: 'mine', colour: 'blue' });
    // The save has read the record, and waits for its lock, when the record changes again.
    const { saved } = await service.sql.begin(async (transaction) => {
      await transaction`update thing set amount = 7 where name = 'Racing'`;
      const answer = ada.post(address, { ...fieldsOf(conflict), '_take.note': 'theirs' });
      await eventually(async () => {
        const [{ waiting } = {}] = await service.sql<{ waiting: boolean }[]>`
          select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') as waiting`;
        return waiting === true;
      }, 'the save to wait');
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
});

test('a foreign key to few records is a list in the order of their names, as people count', async () => {
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

  test('is a field that searches, in a step that comes back with the choice and all that was typed', async () => {
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

  test('has no password on the page of its step', async () => {
    const typed = fieldsOf(await ada.get(address));
    const passwords = { _current: 'pw-of-1', _password: 'pw-of-2', _repeat: 'pw-of-3' };
    const step = await ada.post(address, { ...typed, ...passwords, _lookup: 'author_id', _find: '' });
    assert.equal(step.status, 200);
    assert.doesNotMatch(step.text, /pw-of-/);
  });

  test('answers the script with keys and names', async () => {
    const answer = await ada.get('/admin/user/-/lookup/?_search=person+12');
    const { records } = JSON.parse(answer.text) as { records: { id: string; label: string }[] };
    assert.ok(records.length > 5);
    assert.ok(
      records.every(({ id, label }) => label.startsWith('person') && `${id} ${label}`.includes('12')),
    );
  });

  const lookedUp = async (words: string): Promise<{ labels: string[]; more: boolean }> => {
    const { text } = await ada.get(`/admin/user/-/lookup/?_search=${encodeURIComponent(words)}`);
    const { records, more } = JSON.parse(text) as { records: { label: string }[]; more: boolean };
    return { labels: records.map(({ label }) => label), more };
  };

  test('finds first what is called just so, then the rest by name, and says whether there are more', async () => {
    const { labels, more } = await lookedUp('PERSON 12');
    assert.equal(labels[0], 'person 12');
    assert.deepEqual(labels.slice(1), labels.slice(1).toSorted());
    assert.equal(more, false);
    const all = await lookedUp('person');
    assert.deepEqual(all.labels.slice(0, 3), ['person 1', 'person 10', 'person 100']);
    assert.deepEqual([all.labels.length, all.more], [20, true]);
    assert.equal((await lookedUp('')).labels[1], 'ada');
    assert.deepEqual((await lookedUp('(Zoë) – Lovelace,')).labels, ['zoë lovelace']);
  });

  test('a text of more than 1,000 characters means no record', async () => {
    const meant = await add({ name: 'Found by words', author_id: `Zoë Lovelace ${'( '.repeat(400)}` });
    assert.equal(meant.status, 303);
    const answer = await add({ name: 'Not found', author_id: `Zoë Lovelace ${'( '.repeat(500)}` });
    assert.equal(answer.status, 400);
    assert.match(errorsIn(answer)['author_id'] ?? '', /does not match exactly one record/i);
  });

  test('does not sort a large table by a column without an index, but finds in it as ever', async () => {
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

  test('takes the words in the field for the first search, and not the key of what is chosen', async () => {
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

  for (const [what, words, expected] of [
    ['the whole name of one record', 'Person 15', 'person 15'],
    ['words that only one record has', 'lovel zo', 'zoë lovelace'],
    ['a name that could be another spelling of a key', '007', '007'],
    ['a name with signs between its words', 'Zoë – Lovelace,', 'zoë lovelace'],
  ] as const)
    test(`${what} can be saved in place of its key`, async () => {
      await service.sql`delete from thing where name = 'By words'`;
      await added({ name: 'By words', author_id: words });
      const [found] = await service.sql`
        select username from thing join "user" on author_id = "user".id where thing.name = 'By words'`;
      assert.equal(found?.['username'], expected);
    });

  test('words that several records have, or none, are a fault that says what to do', async () => {
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

  test('the key of a record that is gone does not become another one that has it in its name', async () => {
    await service.sql`insert into "user" (username, password, email) values ('number 98765', '', '')`;
    const answer = await add({ name: 'Never', author_id: '98765' });
    assert.match(errorsIn(answer)['author_id'] ?? '', /no such record/i);
  });

  test('does not let a change that happens during the step be overwritten', async () => {
    const page = await ada.get(address);
    const step = await ada.post(address, { ...fieldsOf(page), note: 'mine', _lookup: 'author_id' });
    await service.sql`update thing set note = 'theirs' where name = 'Referring'`;
    const back = await ada.post(address, { ...fieldsOf(step), _choose: '1' });
    const saved = await ada.post(address, fieldsOf(back));
    assert.equal(saved.status, 409);
    assert.match(saved.text, /theirs/);
  });
});

test('records that refer to one are listed on its page, with counts and ways to them', async () => {
  await added({ name: 'Child', author_id: '1' });
  const page = await ada.get('/admin/user/1/');
  assert.match(page.text, /href="\/admin\/thing\/\?author=1">Things<\/a>/);
  assert.match(page.text, /href="\/admin\/thing\/-\/add\/\?author=1&amp;_list=author%3D1"/);
  const list = await ada.get('/admin/thing/?author=1');
  assert.match(list.text, /Child/);
});

test('a password is set on a page of its own, and ends the sessions that it opened', async () => {
  const id = await service.addUser('linus', { admin: true });
  const linus = await logIn(service, 'linus');
  const page = await ada.get(`/admin/user/${id}/password/`);
  assert.equal(page.status, 200);
  const short = await ada.post(`/admin/user/${id}/password/`, {
    _password: 'x'.repeat(1025),
    _repeat: 'x'.repeat(1025),
  });
  assert.equal(short.status, 400);
  const fields = { _current: 'pw-ada', _password: 'a new password', _repeat: 'a new password' };
  const done = await ada.post(`/admin/user/${id}/password/`, fields);
  assert.equal(done.location, `/admin/user/${id}/`);
  assert.match((await linus.get('/admin/')).location ?? '', /login/);
  await logIn(service, 'linus', 'a new password');
  const [last] =
    await service.sql`select before, after from vitrine_history where model = 'user' order by id desc limit 1`;
  assert.equal(last?.['after'], '{"password":true}');
  assert.doesNotMatch(String(last?.['before']), /argon/);
});
