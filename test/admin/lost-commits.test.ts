// Forms whose change was made, but whose answer from the database was lost.
import assert from 'node:assert/strict';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startProxy, type Proxy } from '../process/proxy.ts';
import { closeIdleConnections } from '../send.ts';
import { cheapHash, createDatabase, type TestDatabase } from '../support.ts';
import { fieldsOf, hiddenFields, logIn, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const note: Resource = {
  model: 'note',
  columns: {
    text: { type: 'string' },
    price: { type: 'decimal', precision: 6, scale: 2, null: true },
  },
  admin: { inlines: [{ model: 'remark' }] },
};

const remark: Resource = {
  model: 'remark',
  columns: {
    note: { type: 'foreignKey', references: 'note', onDelete: 'cascade' },
    words: { type: 'string' },
    about: { type: 'foreignKey', references: 'topic', null: true },
  },
};

/** So many that a field for them is a search. */
const topic: Resource = { model: 'topic', columns: { name: { type: 'string' } } };

describe('a form whose commit is not answered', () => {
  let database: TestDatabase;
  let proxy: Proxy;
  let vitrine: Vitrine;
  let base: string;
  let ada: Browser;

  async function addUser(username: string, admin: boolean): Promise<number> {
    const row = { username, password: await cheapHash(`pw-${username}`), email: '', admin };
    const [added] = await database.sql<{ id: number }[]>`
      insert into "user" ${database.sql(row)} returning id`;
    return added?.id ?? 0;
  }

  before(async () => {
    database = await createDatabase();
    proxy = await startProxy(database.url);
    vitrine = await createVitrine({
      databaseUrl: proxy.url,
      resources: [user, note, remark, topic],
      port: 0,
      log: () => undefined,
    });
    base = (await vitrine.start()).url;
    await addUser('ada', true);
    await database.sql`insert into topic (name) select 'topic ' || n from generate_series(1, 101) n`;
    ada = await logIn({ base }, 'ada');
  });
  after(async () => {
    closeIdleConnections(base);
    await vitrine.close();
    await proxy.close();
    await database.drop();
  });

  const countOf = async (table: string): Promise<number> =>
    (await database.sql`select from ${database.sql(table)}`).count;

  function assertUnknown({ status, text }: AdminAnswer): void {
    assert.equal(status, 503, text);
    assert.match(text, /It is not known whether the change was made/);
    assert.doesNotMatch(text, /Nothing was/);
  }

  test('says that the outcome of a bulk deletion is not known', async () => {
    await database.sql`insert into note (text) values ('one'), ('two')`;
    const path = '/admin/note/-/bulk/';
    const page = await ada.post(path, { _state: '', _action: 'delete', _all: '1' });
    proxy.loseCommit();
    assertUnknown(await ada.post(path, hiddenFields(page, 'confirm')));
    assert.equal(await countOf('note'), 0);
  });

  test('says that the outcome of the deletion of one record is not known', async () => {
    const path = `/admin/user/${await addUser('bob', false)}/delete/`;
    const page = await ada.get(path);
    proxy.loseCommit();
    assertUnknown(await ada.post(path, hiddenFields(page, 'confirm')));
    assert.equal(await countOf('user'), 1);
  });

  const added = '/admin/note/-/add/';
  for (const [how, path, button] of [
    ['adds a record', () => Promise.resolve(added), 'stay'],
    [
      'saves a record as new',
      async () => {
        const [row] = await database.sql`insert into note (text) values ('other') returning id`;
        return `/admin/note/${row?.['id']}/`;
      },
      'new',
    ],
  ] as const)
    test(`keeps its values, and sent again does nothing twice: ${how}`, async () => {
      const address = await path();
      const fields = { ...fieldsOf(await ada.get(address)), text: how, _save: button };
      proxy.loseCommit();
      const shown = await ada.post(address, fields);
      assertUnknown(shown);
      assert.equal(fieldsOf(shown)['text'], how);
      for (let times = 0; times < 2; times += 1) {
        const again = await ada.post(added, { ...fieldsOf(shown), _save: button });
        assert.equal(again.status, 303, again.text);
        assert.match((await ada.follow(again)).text, /was added once\. The form was sent twice\./);
      }
      assert.equal((await database.sql`select from note where text = ${how}`).count, 1);
    });

  const remarksOf = async (text: string): Promise<unknown[]> =>
    (
      await database.sql`
        select words, topic.name from note join remark on note_id = note.id left join topic on topic.id = about_id
        where text = ${text} order by words`
    ).map(({ words, name }) => [words, name]);

  for (const [how, lose, lost] of [
    ['the commit', () => proxy.loseCommit(), true],
    ['a row', () => proxy.loseAnswer('third'), false],
  ] as const)
    test(`keeps the rows of child tables, and sent again does nothing twice: ${how}`, async () => {
      const [row] = await database.sql`insert into note (text) values (${how}) returning id`;
      const id = String(row?.['id']);
      await database.sql`insert into remark (note_id, words) values (${id}, 'first'), (${id}, 'second')`;
      const path = `/admin/note/${id}/`;
      const fields = {
        ...fieldsOf(await ada.get(path)),
        'remark.0.words': 'changed',
        'remark.1._delete': '1',
        ...{ 'remark.2.words': 'third', 'remark.2.about_id': 'topic 101' },
      };
      lose();
      const shown = await ada.post(path, fields);
      assert.equal(shown.status, 503, shown.text);
      if (lost) assertUnknown(shown);
      const after = [
        ['changed', null],
        ['third', 'topic 101'],
      ];
      assert.deepEqual(
        await remarksOf(how),
        lost
          ? after
          : [
              ['first', null],
              ['second', null],
            ],
      );
      for (let times = 0; times < 2; times += 1) {
        const again = await ada.post(path, fieldsOf(shown));
        assert.equal(again.status, 303, again.text);
        assert.deepEqual(await remarksOf(how), after);
      }
    });

  test('adds nothing twice when a record with rows is saved as new', async () => {
    const [row] = await database.sql`insert into note (text) values ('source') returning id`;
    const id = String(row?.['id']);
    await database.sql`insert into remark (note_id, words) values (${id}, 'dropped'), (${id}, 'kept')`;
    const path = `/admin/note/${id}/`;
    const fields = { ...fieldsOf(await ada.get(path)), text: 'copy', 'remark.0._delete': '1', _save: 'new' };
    proxy.loseCommit();
    const shown = await ada.post(path, fields);
    assertUnknown(shown);
    assert.equal((await ada.post(added, fieldsOf(shown))).status, 303);
    assert.equal((await database.sql`select from note where text = 'copy'`).count, 1);
    assert.deepEqual(await remarksOf('copy'), [['kept', null]]);
  });

  test('keeps its values, and sent again is no conflict: changes a record', async () => {
    const [row] = await database.sql`insert into note (text) values ('before') returning id`;
    const path = `/admin/note/${row?.['id']}/`;
    const fields = { ...fieldsOf(await ada.get(path)), text: 'changed once', price: '7' };
    proxy.loseAnswer('changed once');
    const shown = await ada.post(path, fields);
    assertUnknown(shown);
    assert.equal(fieldsOf(shown)['price'], '7');
    const again = await ada.post(path, fieldsOf(shown));
    assert.equal(again.status, 303, again.text);
    assert.match((await ada.follow(again)).text, /was changed\./);
  });

  test('can be sent again when the change was not made', async () => {
    const fields = { ...fieldsOf(await ada.get(added)), text: 'late' };
    const shown = await database.sql.begin(async (transaction) => {
      await transaction`lock table note in access exclusive mode`;
      return ada.post(added, fields);
    });
    assert.equal(shown.status, 503, shown.text);
    assert.equal((await ada.post(added, fieldsOf(shown))).status, 303);
    assert.equal((await database.sql`select from note where text = 'late'`).count, 1);
  });
});
