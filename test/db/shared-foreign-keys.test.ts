// Foreign keys that share their columns, and tables that share their name.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { createDatabase } from '../support.ts';
import { startFaults, startOnce, useWritable, users, type WritableService } from './helpers.ts';
import { describe, test } from 'node:test';

const part = { type: 'integer', null: true } as const;
const place = (model: string): Resource => ({
  model,
  access: 'user',
  primaryKey: { columns: ['t', 'n'] },
  columns: { t: { type: 'integer' }, n: { type: 'integer' } },
});
const visit: Resource = {
  model: 'visit',
  access: 'user',
  columns: { t: part, n: part },
  foreignKeys: {
    at_room: { columns: ['t', 'n'], references: 'room' },
    at_desk: { columns: ['t', 'n'], references: 'desk' },
  },
};
const RESOURCES = [place('room'), place('desk'), visit];

test('the one that an existing table lacks is created, but not if the table has another in its place', async () => {
  const database = await createDatabase();
  try {
    const { foreignKeys, ...more } = visit;
    const { at_room: first, at_desk: second } = foreignKeys ?? {};
    assert.ok(first && second);
    await startOnce(database, [users, place('room'), place('desk'), { ...more, foreignKeys: { first } }]);
    const reasons = await startFaults(database, [
      users,
      place('room'),
      place('desk'),
      { ...more, foreignKeys: { second } },
    ]);
    assert.match(reasons.join(), /visit: foreignKeys\.second: t, n have no foreign key to t, n of desk/);
    await startOnce(database, [users, ...RESOURCES]);
    const made = await database.sql`select confrelid::regclass::text as target from pg_constraint
      where conrelid = 'visit'::regclass and contype = 'f' order by 1`;
    assert.deepEqual(
      made.map(({ target }) => target as string),
      ['desk', 'room'],
    );
  } finally {
    await database.drop();
  }
});

// Tables and indexes with the same name in several schemas: an error names the right one, or none.
const DDL = `
  create schema a; create schema b; create schema audit;
  create table base (id integer generated always as identity primary key);
  create table mid (id integer generated always as identity primary key, base_id integer not null references base on delete cascade);
  create table a.item (id integer generated always as identity primary key);
  create table b.item (id integer generated always as identity primary key, mid_id integer not null references mid);
  create table part (id integer generated always as identity primary key, code text unique, n integer);
  create table audit.part (like part including all);
  create function audit() returns trigger language plpgsql as
    'begin insert into audit.part (code) values (old.code); return new; end';
  create trigger audit before update on part for each row execute function audit();`;

const resources: Resource[] = [
  { model: 'base', columns: {}, access: 'user' },
  {
    model: 'mid',
    columns: { base: { type: 'foreignKey', references: 'base', onDelete: 'cascade' } },
    access: 'user',
  },
  { model: 'aitem', table: 'a.item', columns: {}, access: 'user' },
  {
    model: 'bitem',
    table: 'b.item',
    columns: { mid: { type: 'foreignKey', references: 'mid' } },
    access: 'user',
  },
  {
    model: 'part',
    columns: { code: { type: 'text', null: true, unique: true }, n: { type: 'integer', null: true } },
    access: 'user',
  },
];

describe('tables with the same name in several schemas', () => {
  const service: WritableService = useWritable(resources, DDL);

  test('a refused deletion names the right table', async () => {
    const { json: base } = await service.send('POST', '/api/base/', {});
    const { json: mid } = await service.send('POST', '/api/mid/', { base: base.id });
    await service.send('POST', '/api/bitem/', { mid: mid.id });
    const { status, json } = await service.send('DELETE', `/api/base/${base.id}/`);
    assert.deepEqual([status, json.detail], [409, 'Records of bitem refer to this one.']);
  });

  test('a duplicate in a table that a trigger writes names no field', async () => {
    const { json } = await service.send('POST', '/api/part/', { code: 'old' });
    await service.sql`insert into audit.part (code) values ('old')`;
    const put = await service.send('PUT', `/api/part/${json.id}/`, { code: 'new' });
    assert.deepEqual([put.status, put.json.errors], [409, undefined]);
    const post = await service.send('POST', '/api/part/', { code: 'old' });
    assert.deepEqual(Object.keys(post.json.errors), ['code']);
  });
});
