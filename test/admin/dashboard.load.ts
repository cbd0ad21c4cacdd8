import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService } from '../support.ts';
import { logIn } from './support.ts';
import { test } from 'node:test';

const user = {
  model: 'user',
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' },
    email: { type: 'string', null: true },
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
  exclude: ['password'],
  access: 'admin',
  admin: { group: 'People' },
} satisfies Resource;

const model = (name: string, admin?: Resource['admin']): Resource => ({
  model: name,
  columns: { title: { type: 'text' } },
  access: 'user',
  ...(admin ? { admin } : {}),
});

test('the counts of 60 slow views do not have the start page refused, nor its history', async () => {
  const views = Array.from({ length: 60 }, (_, index) => `slow${index}`);
  const service = await startService(
    [
      user,
      ...views.map((name): Resource => ({
        ...model(name),
        primaryKey: { type: 'integer' },
        access: 'default',
      })),
    ],
    {
      prepare: async (sql) => {
        for (const name of views)
          await sql.unsafe(
            `create view ${name} as select 1 as id, 'a' as title from (select pg_sleep(0.1)) s`,
          );
      },
    },
  );
  try {
    await service.addUser('ada', { admin: true });
    const { text } = await (await logIn(service, 'ada')).get('/admin/');
    assert.match(text, /No changes yet/);
    const omitted = service.lines.filter(({ message }) =>
      /omits .*: (Too many|The service)/.test(String(message)),
    );
    assert.deepEqual(omitted, []);
  } finally {
    await service.close();
  }
});
