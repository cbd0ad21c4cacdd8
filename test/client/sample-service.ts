// The registry and the records for the tests of clients: text keys, big numbers, owners, access levels.
import type { Resource } from '../../src/index.ts';
import { cheapHash, startService, type TestService } from '../support.ts';
import { LOGIN_COLUMNS } from '../login-columns.ts';

export const resources = [
  {
    model: 'user',
    columns: LOGIN_COLUMNS,
    access: 'admin',
    exclude: ['password'],
  },
  {
    model: 'message',
    columns: {
      user: { type: 'foreignKey', references: 'user' },
      content: { type: 'text' },
      stars: { type: 'integer', null: true, min: 0 },
      pub_date: { type: 'datetime', default: 'now' },
    },
    access: 'user',
    owner: 'user',
  },
  {
    model: 'reply',
    columns: { message: { type: 'foreignKey', references: 'message' }, content: { type: 'text' } },
    access: 'user',
  },
  {
    model: 'land',
    primaryKey: { type: 'string', column: 'code' },
    columns: { name: { type: 'string', unique: true } },
    access: 'user',
  },
  {
    model: 'account',
    primaryKey: { type: 'bigint' },
    columns: {
      land: { type: 'foreignKey', references: 'land', null: true },
      balance: { type: 'decimal', precision: 20, scale: 2 },
      total: { type: 'bigint', default: 0 },
    },
    access: 'user',
  },
  {
    model: 'diary',
    columns: { content: { type: 'text' } },
    read: 'user',
    access: 'user',
  },
  {
    model: 'vault',
    columns: { content: { type: 'text' } },
    read: 'admin',
    access: 'admin',
  },
] as const satisfies readonly Resource[];

/** The credentials of the users. Those of `lukasz` need UTF-8. */
export const USERS = {
  root: { username: 'root', password: 'pw-root' },
  ada: { username: 'ada', password: 'pw-ada' },
  lukasz: { username: 'Łukasz', password: 'pässwörd:ключ:🔑' },
} as const;

/** Starts a service with the three users and 45 messages of `ada`. */
export async function startSampleService(): Promise<TestService> {
  const service = await startService(resources, { trustProxy: 1 });
  for (const { username, password } of Object.values(USERS)) {
    const row = { username, password: await cheapHash(password), admin: username === 'root' };
    await service.sql`insert into "user" ${service.sql(row)}`;
  }
  await service.sql`
    insert into message (user_id, content, stars)
    select 2, 'message ' || n, case when n % 3 = 0 then null else n end from generate_series(1, 45) n`;
  await service.sql`insert into vault (content) values ('gold')`;
  return service;
}
