// Responses after a committed change, when the record cannot be read again.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { lockedOut, startService, type Sql, type TestService } from '../support.ts';
import { fieldsOf, logIn, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const resources: readonly Resource[] = [
  user,
  { model: 'band', columns: { name: { type: 'string' } } },
  {
    model: 'album',
    columns: { title: { type: 'string' }, band: { type: 'foreignKey', references: 'band', null: true } },
  },
  {
    model: 'song',
    columns: {
      title: { type: 'string' },
      album: { type: 'foreignKey', references: 'album', null: true },
    },
    admin: { title: 'Songs', label: '{title} ({album__band__name})' },
  },
];

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
  await service.sql`insert into song (id, title) overriding system value values (1001, 'Old'), (1002, 'Doomed')`;
});
after(() => service.close());

/** Runs `lock` in a new transaction. @returns a function that rolls it back */
async function holdLock(lock: (sql: Sql) => Promise<unknown>): Promise<() => Promise<void>> {
  const connection = await service.sql.reserve();
  await connection`begin`;
  await lock(connection);
  return async () => {
    await connection`rollback`;
    connection.release();
  };
}

/**
 * Saves a song while its label cannot be read. The write first waits for `lock`. Then the table of bands is locked, which the
 * label needs, and the write commits. The table of albums stays free, because the insert of a song needs it.
 */
async function saveUnread(
  path: string,
  title: string,
  lock: (sql: Sql) => Promise<unknown>,
): Promise<AdminAnswer> {
  const fields = { ...fieldsOf(await ada.get(path)), title, _save: 'stay' };
  const releaseWrite = await holdLock(lock);
  const answer = ada.post(path, fields);
  await lockedOut(service);
  const releaseRead = await holdLock((sql) => sql`lock table band in access exclusive mode`);
  await releaseWrite();
  try {
    return await answer;
  } finally {
    await releaseRead();
  }
}

const flash = ({ text }: AdminAnswer): string =>
  (/class="flash[^>]*>([\s\S]*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<[^>]*>/g, '').trim();

describe('a label that cannot be read after the commit', () => {
  test('does not fail the creation of a record', async () => {
    const answer = await saveUnread(
      '/admin/song/-/add/',
      'New',
      (sql) => sql`select from vitrine_session for update`,
    );
    const [song] = await service.sql`select id from song where title = 'New'`;
    assert.ok(song);
    assert.equal(answer.status, 303, answer.text);
    assert.match(answer.location ?? '', new RegExp(`^/admin/song/${song['id']}/`));
    assert.match(flash(await ada.follow(answer)), /^Songs: the record was added\./);
  });

  test('does not fail the change of a record', async () => {
    const answer = await saveUnread(
      '/admin/song/1001/',
      'Changed',
      (sql) => sql`select from song where id = 1001 for update`,
    );
    const [song] = await service.sql`select title from song where id = 1001`;
    assert.equal(song?.['title'], 'Changed');
    assert.equal(answer.status, 303, answer.text);
    assert.match(flash(await ada.follow(answer)), /^Songs: the record was changed\./);
  });
});

test('a save redirects to the list when a trigger deletes the record', async () => {
  await service.sql.unsafe(`
    create function vanish() returns trigger language plpgsql as $$
      begin delete from song where id = new.id; return null; end $$;
    create constraint trigger vanish after update on song deferrable initially deferred
      for each row when (new.title = 'Vanished') execute function vanish()`);
  const path = '/admin/song/1002/';
  const fields = { ...fieldsOf(await ada.get(path)), title: 'Vanished', _save: 'stay' };
  const answer = await ada.post(path, fields);
  assert.equal(answer.location, '/admin/song/');
  assert.equal(flash(await ada.follow(answer)), 'The record was changed, but has been deleted since.');
});
