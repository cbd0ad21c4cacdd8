// `vitrine.as(user)`: the operations of the API for the program that embeds the service, without HTTP.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { etagOf, VitrineError } from '../../src/client.ts';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { cheapHash, createDatabase, lockedOut, type TestDatabase } from '../support.ts';
import { LOGIN_COLUMNS } from '../login-columns.ts';

const resources = [
  {
    model: 'user',
    columns: { ...LOGIN_COLUMNS, role: { type: 'string', null: true } },
    exclude: ['password'],
    access: 'admin',
  },
  {
    model: 'message',
    columns: {
      user: { type: 'foreignKey', references: 'user' },
      content: { type: 'text' },
      hidden: { type: 'text', null: true, read: 'admin' },
    },
    access: 'user',
    owner: 'user',
  },
  { model: 'vault', columns: { content: { type: 'text' } }, read: ['keeper'], access: 'admin' },
] as const satisfies readonly Resource[];

describe('vitrine.as', () => {
  let database: TestDatabase;
  let vitrine: Vitrine;
  const lines: string[] = [];
  const as = (name?: string) => vitrine.as<typeof resources>(name === undefined ? undefined : { name });
  const failsWith = (status: number) => (error: unknown) =>
    error instanceof VitrineError && error.status === status;
  before(async () => {
    database = await createDatabase();
    vitrine = await createVitrine({
      databaseUrl: database.url,
      resources,
      roles: { keeper: {} },
      basePath: '/base',
      log: (text) => lines.push(text),
    });
    const password = await cheapHash('x');
    for (const user of [
      { username: 'ada', admin: true },
      { username: 'bob', role: 'keeper' },
      { username: 'eve', active: false },
    ])
      await database.sql`insert into "user" ${database.sql({ password, ...user })}`;
  });
  after(async () => {
    await vitrine.close();
    await database.drop();
  });

  test('refuses a value of more bytes than a request may have', async () => {
    await assert.rejects(
      as('bob').message.create({ content: 'x'.repeat(1024 * 1024 + 1) }),
      (error: unknown) =>
        error instanceof VitrineError &&
        error.status === 400 &&
        error.message.includes('content: must be at most 1048576 bytes (got 1048577)'),
    );
  });

  test('creates, reads, changes, counts and deletes as the user, with the history', async () => {
    const { message } = as('bob');
    const made = await message.create({ content: 'Hello.' });
    assert.deepEqual(made, { id: made.id, user_id: 2, content: 'Hello.' });
    assert.deepEqual(await message.get(made.id), made);
    await message.update(made.id, { content: 'Hello again.' }, { etag: etagOf(made) });
    await assert.rejects(message.delete(made.id, { etag: etagOf(made) }), failsWith(412));
    await message.createMany([{ content: 'a' }, { content: 'b' }, { content: 'c' }]);
    const page = await message.list({ limit: 2, ordering: '-id' }, { count: 'exact', related: ['user'] });
    assert.deepEqual([page.objects.length, page.total, page.related.user.get(2)?.username], [2, 4, 'bob']);
    const contents: string[] = [];
    for await (const { content } of message.all({ limit: 2 })) contents.push(content);
    assert.deepEqual(contents, ['Hello again.', 'a', 'b', 'c']);
    await message.delete(made.id);
    const history = await database.sql`select action, user_name, door from vitrine_history order by id`;
    assert.deepEqual(history[0], { action: 'create', user_name: 'bob', door: 'api' });
    assert.equal(history.length, 6);
  });

  test('refuses what JSON would leave out or turn into null, and names it', async () => {
    const { message } = as('bob');
    const made = await message.create({ content: 'kept' });
    const values = (content: unknown) => ({ content }) as { content: string };
    for (const [path, write] of [
      ['content is undefined', () => message.create(values(undefined))],
      ['1.content is undefined', () => message.createMany([{ content: 'a' }, values(undefined)])],
      ['content is undefined', () => message.update(made.id, values(undefined))],
      ['content is NaN', () => message.update(made.id, values(NaN))],
      ['content.0 is undefined', () => message.update(made.id, values([undefined]))],
    ] as const)
      await assert.rejects(write(), { name: 'TypeError', message: new RegExp(`^${path}`) });
    assert.deepEqual(await message.get(made.id), made);
    await message.delete(made.id);
  });

  test('grants what the API grants: levels, owners, roles, columns', async () => {
    await database.sql`update message set hidden = 'secret'`;
    const [first] = (await as().message.list()).objects;
    assert.ok(first && !Object.hasOwn(first, 'hidden'));
    const { objects } = await as('ada').message.list();
    assert.equal(objects[0]?.hidden, 'secret');
    await assert.rejects(as().message.create({ content: 'x' }), failsWith(401));
    await assert.rejects(as('ada').message.update(first.id, { content: 'x' }), failsWith(403));
    await as('ada').vault.create({ content: 'gold' });
    assert.equal((await as('bob').vault.list()).objects.length, 1);
    await assert.rejects(as().vault.list(), failsWith(401));
    await database.sql`update "user" set role = null where username = 'bob'`;
    await assert.rejects(as('bob').vault.list(), failsWith(403));
  });

  test('knows no user who is not there or not active', async () => {
    for (const name of ['nobody', 'eve'])
      await assert.rejects(as(name).message.create({ content: 'x' }), failsWith(401));
  });

  test('reports faults as the API does', async () => {
    await assert.rejects(as('bob').message.create({ content: 5 as unknown as string }), (error) => {
      assert.ok(error instanceof VitrineError);
      assert.deepEqual(error.problem?.errors, { content: ['must be a string'] });
      return true;
    });
    await assert.rejects(as().message.get(4711), failsWith(404));
  });

  test('stops waiting when its signal aborts', async () => {
    const stop = new AbortController();
    const { id } = (await as('bob').message.list()).objects[0] ?? { id: 0 };
    await database.sql.begin(async (transaction) => {
      await transaction`select from message for update`;
      const outcome = assert.rejects(
        as('bob').message.update(id, { content: 'late' }, { signal: stop.signal }),
        { name: 'AbortError' },
      );
      await lockedOut(database);
      stop.abort();
      await outcome;
    });
    await assert.rejects(as().message.list({}, { signal: stop.signal }), { name: 'AbortError' });
  });

  test('is 503 after the end of the service', async () => {
    const own = await createVitrine({
      databaseUrl: database.url,
      resources,
      basePath: '/base',
      log: () => undefined,
      roles: { keeper: {} },
    });
    const { message } = own.as<typeof resources>();
    await own.close();
    await assert.rejects(message.list(), failsWith(503));
  });
});
