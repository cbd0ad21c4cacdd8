// The memory of an import: a small file may name records that are much larger.
import assert from 'node:assert/strict';
import { createDatabase, type TestDatabase } from '../support.ts';
import { confirmImport, logIn, uploadFile } from '../admin/support.ts';
import { addUser, folderWith, serve } from './support.ts';
import { after, before, test } from 'node:test';

const REGISTRY = `export default [
  { model: 'user', columns: { username: { type: 'string', unique: true }, password: { type: 'password' }, email: { type: 'string' },
    active: { type: 'boolean', default: true }, admin: { type: 'boolean', default: false } }, access: 'admin', exclude: ['password'] },
  { model: 'document', columns: { body: { type: 'text' } } },
]`;
const RECORDS = 200;

let database: TestDatabase;
before(async () => (database = await createDatabase()));
after(() => database.drop());

test('an import of 200 records of 1 MB works with a heap of 96 MB', async () => {
  const cwd = await folderWith({ 'resources.mjs': REGISTRY });
  const env = {
    DATABASE_URL: database.url,
    RESOURCES: 'resources.mjs',
    NODE_OPTIONS: '--max-old-space-size=96',
  };
  const service = await serve({ cwd, env });
  const { sql } = database;
  await addUser(sql, 'ada');
  await sql`update "user" set admin = true`;
  await sql`insert into document (body) select repeat('0123456789', 100000) from generate_series(1, ${RECORDS})`;
  const browser = await logIn(service, 'ada');
  const path = '/admin/document/-/import/';
  const rows = Array.from({ length: RECORDS }, (_, index) => `${index + 1},x`);
  const preview = await uploadFile(browser, path, ['id,body', ...rows].join('\n'));
  assert.equal(preview.status, 200);
  assert.match(preview.text, /0 new, 200 changed, 0 unchanged, 0 with errors/);
  assert.equal((await confirmImport(browser, path, preview)).status, 303);
  assert.equal((await sql`select from document where body = 'x'`).count, RECORDS);
  assert.equal((await service.stop()).code, 0);
});
