// The confirmation of a deletion lists the records that depend on the deleted one.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { startService } from '../support.ts';
import { hiddenFields, logIn, readable, type AdminAnswer } from './support.ts';
import { describe, test } from 'node:test';

test('a record that one foreign key deletes is not also counted as kept because of another', async () => {
  const parent: Resource = { model: 'parent', columns: { name: { type: 'text' } }, access: 'user' };
  const link = { type: 'foreignKey', references: 'parent', null: true } as const;
  const kid: Resource = {
    model: 'kid',
    columns: { p: { ...link, onDelete: 'cascade' }, q: { ...link, onDelete: 'setNull' } },
    access: 'user',
  };
  const service = await startService([user, parent, kid]);
  try {
    await service.addUser('ada', { admin: true });
    const ada = await logIn(service, 'ada');
    await service.sql`insert into parent (name) values ('a'), ('b'), ('c'), ('d')`;
    await service.sql`insert into kid (p_id, q_id) values (1, 2), (1, 1), (3, 1), (4, 4)`;
    const confirmation = async (id: number): Promise<string> =>
      readable(await ada.get(`/admin/parent/${id}/delete/`));
    assert.match(await confirmation(1), /Deleted with it 2 records of Kid, by “P” Kept, but no longer linked to it 1 record of Kid, by “Q”/); // prettier-ignore
    assert.doesNotMatch(await confirmation(4), /Kept, but/);
    assert.match(readable(await ada.get('/admin/parent/4/')), /Kid by P 1 .*Kid by Q 1/);
  } finally {
    await service.close();
  }
});

test('a trigger may free a record of those that depend on it, and if it does not, the page says so', async () => {
  const parent: Resource = { model: 'parent', columns: { name: { type: 'text' } }, access: 'user' };
  const kid: Resource = {
    model: 'kid',
    columns: { p: { type: 'foreignKey', references: 'parent', onDelete: 'restrict' } },
    access: 'user',
  };
  const service = await startService([user, parent, kid], {
    prepare: (sql) =>
      sql.unsafe(`
        create table parent (id integer primary key, name text not null);
        create function free() returns trigger language plpgsql as
          $$ begin if old.name = 'free' then delete from kid where p_id = old.id; end if; return old; end $$;
        create trigger free before delete on parent for each row execute function free();`),
  });
  try {
    await service.addUser('ada', { admin: true });
    const ada = await logIn(service, 'ada');
    await service.sql`insert into parent (id, name) values (1, 'free'), (2, 'bound')`;
    await service.sql`insert into kid (p_id) values (1), (2)`;
    for (const [id, status] of [
      [1, 303],
      [2, 409],
    ] as const) {
      const page = await ada.get(`/admin/parent/${id}/delete/`);
      assert.match(
        readable(page),
        /A database trigger must change or delete these first, or it cannot be deleted 1 record of Kid, by “P” It will be/,
      );
      const answer = await ada.post(`/admin/parent/${id}/delete/`, hiddenFields(page, 'confirm'));
      assert.equal(answer.status, status);
      if (status === 409)
        assert.match(
          readable(answer),
          /Records of Kid depend on what would be deleted. Nothing was deleted./,
        );
    }
    assert.deepEqual([...(await service.sql`select p_id from kid`)], [{ p_id: 2 }]);
  } finally {
    await service.close();
  }
});

test('what cannot lead back to users is not searched for the own user and admins', async () => {
  const note: Resource = {
    model: 'note',
    columns: { author: { type: 'foreignKey', references: 'user', onDelete: 'cascade' } },
    access: 'user',
  };
  const service = await startService([user, note]);
  try {
    const bob = await service.addUser('bob');
    await service.addUser('ada', { admin: true });
    const ada = await logIn(service, 'ada');
    await service.sql`insert into note (author_id) values (${bob})`;
    await service.sql.begin(async (transaction) => {
      await transaction`lock table note in access exclusive mode`;
      let page: AdminAnswer | undefined;
      const asked = ada.get(`/admin/user/${bob}/delete/`).then((answer) => (page = answer));
      // All that reads the notes is canceled, as if it took too long.
      await eventually(async () => {
        await service.sql`
          select pg_cancel_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
          where d.datname = current_database() and l.relation = 'note'::regclass and not l.granted`;
        return page;
      }, 'the page');
      const answer = await asked;
      assert.equal(answer.status, 200, readable(answer));
      assert.match(readable(answer), /could not be counted in time/);
      assert.doesNotMatch(answer.text, /_current/);
    });
  } finally {
    await service.close();
  }
});

describe('deleting a record with a chain of dependent records', () => {
  const toUser = (onDelete: 'cascade' | 'setNull' | 'restrict') =>
    ({ type: 'foreignKey', references: 'user', null: true, onDelete }) as const;
  const chief: Resource = { ...user, columns: { ...user.columns, boss: toUser('cascade') } };
  const tool: Resource = {
    model: 'tool',
    columns: { keeper: toUser('setNull') },
    access: 'user',
    admin: { title: 'Tools' },
  };
  const lock: Resource = {
    model: 'lock',
    columns: { holder: toUser('restrict') },
    access: 'user',
    admin: { title: 'Locks' },
  };

  test('lists all of them, in a long chain and in a cycle', async () => {
    const service = await startService([chief, tool, lock]);
    try {
      const ids: number[] = [];
      for (let at = 0; at < 8; at += 1)
        ids.push(await service.addUser(`u${at}`, { boss_id: ids.at(-1) ?? null }));
      const [first = 0, ...others] = ids;
      await service.addUser('ada', { admin: true });
      const ada = await logIn(service, 'ada');
      const confirmation = async (id = first): Promise<string> =>
        readable(await ada.get(`/admin/user/${id}/delete/`));
      assert.match(
        await confirmation(),
        /Deleted with it 1 record of Users, by “Boss” 6 records of Users, indirectly/,
      );
      assert.match(
        await confirmation(others[5]),
        /Deleted with it 1 record of Users, by “Boss” It will be permanently deleted/,
      );
      assert.doesNotMatch(await confirmation(others[5]), /further/);

      await service.sql`insert into tool (keeper_id) values (${others[6] ?? 0})`;
      assert.match(await confirmation(), /no longer linked to it 1 record of Tools, indirectly/);
      await service.sql`insert into lock (holder_id) values (${others[6] ?? 0})`;
      assert.match(
        await confirmation(),
        /Cannot delete: other records depend on it 1 record of Locks, indirectly/,
      );
      assert.match(await confirmation(), /It cannot be deleted/);
      await service.sql`delete from lock`;

      // In a cycle each record is counted once.
      await service.sql`update "user" set boss_id = ${others[6] ?? 0} where id = ${first}`;
      assert.match(await confirmation(), /1 record of Users, by “Boss” 6 records of Users, indirectly/);
      await service.sql`update "user" set boss_id = null where id = ${first}`;

      await service.sql`update "user" set boss_id = ${others[6] ?? 0} where username = 'ada'`;
      assert.match(await confirmation(), /You cannot delete your own user\. Ask another admin to do it\./);
      const bulk = await ada.post('/admin/user/-/bulk/', {
        _state: '',
        _action: 'delete',
        _id: String(first),
      });
      assert.match(readable(bulk), /You cannot delete your own user/);
      const fields = hiddenFields(await ada.get(`/admin/tool/1/delete/`), 'confirm');
      assert.equal((await ada.post(`/admin/user/${first}/delete/`, fields)).status, 403);
      assert.equal((await service.sql`select from "user"`).count, 9);
    } finally {
      await service.close();
    }
  });
});
