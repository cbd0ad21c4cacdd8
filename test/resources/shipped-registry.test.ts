import assert from 'node:assert/strict';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const NOW = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/;

describe('the shipped registry', () => {
  let service: TestService;
  let bob: number;
  before(async () => {
    service = await startService();
    await service.addUser('ada', { admin: true });
    bob = await service.addUser('bob');
  });
  after(() => service.close());

  const post = (model: string, user: string, body: object): Promise<Answer> =>
    service.request(`/api/${model}/`, { method: 'POST', user, body });

  test('has four models with the documented columns and types', async () => {
    const rows = await service.sql<{ line: string }[]>`
      select c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
             case when a.attnotnull then '' else ' null' end || case when a.atthasdef then ' default' else '' end as line
      from pg_attribute a join pg_class c on c.oid = a.attrelid
      where c.relnamespace = 'public'::regnamespace and c.relname in ('user', 'relationship', 'message', 'note') and a.attnum > 0
      order by c.relname, a.attnum`;
    const moment = 'timestamp(0) without time zone default';
    assert.deepEqual(
      rows.map(({ line }) => line),
      [
        'message.id integer',
        'message.user_id integer',
        'message.content text',
        `message.pub_date ${moment}`,
        'note.id integer',
        'note.message text',
        `note.created ${moment}`,
        'relationship.id integer',
        'relationship.from_user_id integer',
        'relationship.to_user_id integer',
        'user.id integer',
        'user.username character varying(255)',
        'user.password text',
        'user.email character varying(255)',
        `user.join_date ${moment}`,
        'user.active boolean default',
        'user.admin boolean default',
      ],
    );
  });

  test('sets the date of a user, active and not admin, and allows duplicate e-mail addresses', async () => {
    for (const username of ['carl', 'cleo']) {
      const { status, json } = await post('user', 'ada', { username, password: 'x', email: 'c@example.org' });
      assert.equal(status, 201);
      assert.match(json.join_date, NOW);
      assert.deepEqual([json.active, json.admin], [true, false]);
    }
    const twice = await post('user', 'ada', { username: 'carl', password: 'x', email: '' });
    assert.deepEqual([twice.status, Object.keys(twice.json.errors)], [409, ['username']]);
  });

  test('accepts texts of any length in messages and notes, and sets their dates', async () => {
    const text = 'x'.repeat(5000);
    for (const [model, column, date] of [
      ['message', 'content', 'pub_date'],
      ['note', 'message', 'created'],
    ] as const) {
      const { status, json } = await post(model, 'bob', { [column]: text });
      assert.deepEqual([status, json[column]], [201, text], model);
      assert.match(json[date], NOW);
    }
  });

  test('relates two users, and filters follow both references', async () => {
    const { json } = await post('relationship', 'bob', { to_user_id: bob });
    for (const query of ['from_user__username=bob', 'to_user__username=bob', 'to_user=2&from_user=2']) {
      const found = await service.request(`/api/relationship/?${query}`);
      assert.deepEqual(found.json.objects, [json], query);
    }
    for (const body of [{ to_user_id: 99 }, {}, { from_user_id: bob }]) {
      const refused = await post('relationship', 'bob', body);
      assert.deepEqual([refused.status, Object.keys(refused.json.errors ?? {})], [400, ['to_user_id']]);
    }
  });
});
