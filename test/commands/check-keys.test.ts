// `vitrine check` for keys and foreign keys of several columns.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { award, casting, film } from '../castings.ts';
import { folderWith, type Ended } from '../process/support.ts';
import { createDatabase, startService, type TestDatabase } from '../support.ts';
import { run } from './support.ts';
import { after, before, describe, test } from 'node:test';

describe('vitrine check, with keys of several columns', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
  });
  after(() => database.drop());

  async function check(resources: readonly unknown[], ...options: string[]): Promise<Ended> {
    const folder = await folderWith({ 'r.mjs': `export default ${JSON.stringify(resources)};` });
    return run(['check', ...options], {
      env: { DATABASE_URL: database.url, RESOURCES: `${folder}/r.mjs`, ACCESS: 'default' },
    });
  }

  const views: [about: string, index: string, said: RegExp][] = [
    ['no index', '', /its key \S+ is unique and not NULL now, but nothing enforces it$/m],
    ['another index', 'create unique index on seen (b, c)', /but nothing enforces it$/m],
    ['an index of some rows', 'create unique index on seen (a, b) where a > 0', /but nothing enforces it$/m],
    [
      'a unique index',
      'create unique index on seen (b, a)',
      /is unique by an index and not NULL now, but nothing enforces that it is not NULL$/m,
    ],
  ];
  for (const [about, index, said] of views)
    test(`the key of a materialized view with ${about}`, async () => {
      await database.sql
        .unsafe(`create materialized view seen as select 1 as a, 2 as b, 3 as c; ${index}`)
        .simple();
      const columns = Object.fromEntries(['a', 'b', 'c'].map((name) => [name, { type: 'integer' }]));
      const { code, stderr } = await check([{ model: 'seen', primaryKey: { columns: ['a', 'b'] }, columns }]);
      await database.sql`drop materialized view seen`;
      assert.equal(code, 0, stderr);
      assert.match(stderr, said);
    });

  const keys: [about: string, rows: string, said: string[]][] = [
    ['several NULL', '(1, 1), (2, 1), (null, 1), (null, 1)', ['one NULL', 'two NULL']],
    ['the same NULL in one of two columns', '(1, 1), (2, null), (2, null)', ['two NULL', 'one again']],
    ['duplicates', '(1, 1), (1, 1), (null, 2)', ['one NULL', 'one again', 'two NULL', 'two again']],
  ];
  for (const [about, rows, said] of keys)
    test(`the keys of a view with ${about}`, async () => {
      await database.sql
        .unsafe(
          `create view one as select a, b from (values ${rows}) v (a, b); create view two as select * from one`,
        )
        .simple();
      const columns = { a: { type: 'integer' }, b: { type: 'integer' } };
      const { code, stderr } = await check([
        { model: 'one', primaryKey: { type: 'integer', column: 'a' }, columns: {} },
        { model: 'two', primaryKey: { columns: ['a', 'b'] }, columns },
      ]);
      await database.sql`drop view two, one`;
      assert.equal(code, 1, stderr);
      const found = [...stderr.matchAll(/(one|two): primaryKey: \S+ is (NULL in some rows|not unique)/g)];
      assert.deepEqual(
        found.map(([, model, fault]) => `${model} ${fault === 'not unique' ? 'again' : 'NULL'}`).sort(),
        said.toSorted(),
      );
    });

  const strict = { type: 'integer' } as const;
  const lax = { ...strict, null: true } as const;
  const deletions: [about: string, columns: Resource['columns'], code: number, said: RegExp][] = [
    ['all nullable', { a: lax, b: lax }, 0, /on delete set null;$/m],
    ['one nullable', { a: strict, b: lax }, 0, /on delete set null \("b"\);$/m],
    [
      'no nullable',
      { a: strict, b: strict },
      1,
      /foreignKeys\.two\.onDelete: setNull requires null: true of a or b/,
    ],
  ];
  for (const [about, columns, code, said] of deletions)
    test(`setNull on a foreign key with ${about} columns`, async () => {
      const two = { model: 'two', primaryKey: { columns: ['x', 'y'] }, columns: { x: strict, y: strict } };
      const foreignKeys = { two: { columns: ['a', 'b'], references: 'two', onDelete: 'setNull' } };
      const folder = await folderWith({
        'r.mjs': `export default ${JSON.stringify([two, { model: 'one', columns, foreignKeys }])};`,
      });
      const env = { DATABASE_URL: database.url, RESOURCES: `${folder}/r.mjs` };
      const printed = await run(['schema'], { env });
      assert.equal(printed.code, code, printed.stderr);
      assert.match(printed.stdout + printed.stderr, said);
    });

  const joins: [about: string, resources: Resource[], who: string, status: number][] = [
    ['of a source that anyone may read', [film, casting, award], 'anyone', 200],
    ['of a source for users', [film, casting, { ...award, read: 'user' }], 'users', 401],
    ['to a resource for admins', [film, { ...casting, read: 'admin' }, award], 'admins', 400],
    ['with an excluded column', [film, casting, { ...award, exclude: ['actor'] }], 'nobody', 400],
    ['of a source without GET', [film, casting, { ...award, methods: ['POST'] }], 'nobody', 405],
  ];
  for (const [about, resources, who, status] of joins)
    test(`the matrix says who may filter through a foreign key ${about}`, async () => {
      const { stdout } = await check([user, ...resources], '--json');
      const { matrix } = JSON.parse(stdout);
      const { columns } = matrix.find(({ resource }: { resource: string }) => resource === 'casting');
      for (const { column, filter } of columns) assert.equal(filter.join, who, column);
      const text = (await check([user, ...resources], '--matrix')).stdout;
      assert.match(text, new RegExp(`^role +\\S+ +${who === 'nobody' ? '-' : who} `, 'm'));
      const service = await startService([user, ...resources]);
      const answer = await service.request('/api/award/?casting__role=Queen');
      await service.close();
      assert.equal(answer.status, status, answer.text);
    });
});
