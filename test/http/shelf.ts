// Resources with different access levels and column types, for tests of output formats.
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';

export const shelf = [
  user,
  { model: 'secret', columns: { word: { type: 'string' } }, read: 'admin', access: 'admin' },
  {
    model: 'book',
    columns: {
      title: { type: 'string' },
      reader: { type: 'foreignKey', references: 'user', null: true },
      secret: { type: 'foreignKey', references: 'secret', null: true },
      isbn: { type: 'bigint', null: true },
      price: { type: 'decimal', precision: 20, scale: 10, null: true },
      data: { type: 'json', null: true },
      lent: { type: 'boolean', default: false },
      hidden: { type: 'string', default: 'hushed' },
    },
    access: 'user',
    owner: 'reader',
    exclude: ['hidden'],
    ordering: '-title',
  },
  {
    model: 'letter',
    columns: { text: { type: 'text' }, sender: { type: 'foreignKey', references: 'user', null: true } },
    read: 'user',
    access: 'user',
    owner: 'sender',
  },
  {
    model: 'diary',
    columns: { writer: { type: 'foreignKey', references: 'user' }, day: { type: 'date', unique: true } },
    access: 'user',
    owner: 'writer',
    exclude: ['writer'],
  },
  { model: 'mailbox', columns: { text: { type: 'text' } }, access: 'user', methods: ['POST'] },
] satisfies Resource[];

/** A value that the PostgreSQL type `json` keeps unchanged: spaces, line breaks, digits and a duplicate key. */
export const LOOSE = '{"b": 1,\n "a": [1.50, 12345678901234567890],\r\n "a": "x\\ny"}';

/** Starts a service with an admin `ada`, a user `bob` and three books. PostgreSQL keeps the text of `data` unchanged. */
export async function openShelf(): Promise<TestService> {
  const service = await startService(shelf, {
    prepare: (sql) =>
      sql.unsafe(`
        create table "user" (
          id serial primary key, username varchar(255) not null unique, password text not null, email varchar(255) not null,
          join_date timestamp(0) not null default now(), active boolean not null default true, admin boolean not null default false
        );
        create table secret (id serial primary key, word varchar(255) not null);
        create table book (
          id serial primary key, title varchar(255) not null, reader_id integer references "user" on delete restrict,
          secret_id integer references secret on delete restrict, isbn bigint, price numeric(20,10), data json,
          lent boolean not null default false, hidden varchar(255) not null default 'hushed'
        )`),
  });
  await service.addUser('ada', { admin: true });
  await service.addUser('bob');
  await service.sql`insert into secret (word) values ('open')`;
  await service.sql`insert into letter (text) values ('to Ada')`;
  await service.sql.unsafe(
    `insert into book (title, reader_id, secret_id, isbn, price, data) values
      ('Emma', 1, 1, 9007199254740993, 12.5, $1::text::json), ('=1+1', null, null, null, null, 'null'),
      ('Say "hi", <b>you</b> & ''me''', 2, null, 5, 0.1, '[]')`,
    [LOOSE],
  );
  return service;
}
