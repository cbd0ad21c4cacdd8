import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, useService, type Answer, type TestService } from '../support.ts';
import { describe, test } from 'node:test';

/** Only admins may read it. */
const team: Resource = {
  model: 'team',
  columns: { name: { type: 'string' }, lead: { type: 'foreignKey', references: 'user', null: true } },
  read: 'admin',
  access: 'admin',
};

/** Users may write it. It has an excluded unique column. */
const card: Resource = {
  model: 'card',
  columns: {
    code: { type: 'string', unique: true, null: true },
    serial: { type: 'string', unique: true },
    secret: { type: 'string', null: true },
    pin: { type: 'password', null: true },
    user: { type: 'foreignKey', references: 'user', null: true },
    note: { type: 'text', null: true },
    seat: { type: 'integer', null: true },
  },
  access: 'user',
  exclude: ['code', 'secret', 'pin'],
  constraints: {
    card_serial_key: 'This serial is taken.',
    card_seat_excl: 'This seat is taken.',
  },
};

/** It has an owner, and only admins may read it. */
const diary: Resource = {
  model: 'diary',
  columns: {
    writer: { type: 'foreignKey', references: 'user' },
    mood: { type: 'string', null: true, choices: ['good', 'bad'] },
    team: { type: 'foreignKey', references: 'team', null: true },
    pages: { type: 'integer', null: true, max: 100 },
    title: { type: 'text', null: true, maxLength: 3 },
    weight: { type: 'float', default: 0 },
  },
  access: 'user',
  read: 'admin',
  owner: 'writer',
};

/** Its note and team are excluded. */
const frozen: Resource = {
  model: 'frozen',
  columns: {
    title: { type: 'string' },
    note: { type: 'string' },
    team: { type: 'foreignKey', references: 'team', null: true },
  },
  access: 'user',
  exclude: ['note', 'team'],
};

/** It requires a column that no client may set or see. */
const sealed: Resource = {
  model: 'sealed',
  columns: { shown: { type: 'string' }, inner: { type: 'string' } },
  access: 'user',
  exclude: ['inner'],
  readonly: ['inner'],
};

/** Its owner and another unique column are hidden. */
const one: Resource = {
  model: 'one',
  columns: {
    me: { type: 'foreignKey', references: 'user', unique: true },
    code: { type: 'string', default: 'k', unique: true, null: true },
  },
  access: 'user',
  owner: 'me',
  exclude: ['me', 'code'],
};

describe('a refused write', () => {
  const service: TestService = useService([user, team, card, diary, sealed, frozen, one], {}, async () => {
    await service.addUser('ada');
    await service.addUser('bob');
    await service.addUser('root', { admin: true });
    await service.sql`insert into team (name, lead_id) values ('One', 1), ('Two', null)`;
    const made = await send('POST', '/api/card/', { serial: 'S1', code: 'C1', secret: 'hush' });
    card1 = `/api/card/${made.json.id}/`;
    await send('POST', '/api/card/', { serial: 'S2', code: 'C2', seat: 7 });
    await service.sql`alter table card add constraint card_seat_excl exclude (seat with =)`;
    await send('POST', '/api/diary/', {}, 'bob');
    await service.sql`update diary set mood = 'legacy', pages = 200, title = 'long', weight = 'NaN'`;
    await send('POST', '/api/diary/', {}, 'bob');
  });
  let card1 = '';

  const send = (method: string, path: string, body: object, name = 'ada'): Promise<Answer> =>
    service.request(path, { method, user: name, body });
  const rows = async (): Promise<number> =>
    Number((await service.sql`select count(*) from card`)[0]?.['count'] ?? -1);

  test('names the columns of a duplicate that the body sets, also excluded ones', async () => {
    const before = await rows();
    for (const [method, path, body, key] of [
      ['POST', '/api/card/', { serial: 'X', code: 'C1' }, 'code'],
      ['POST', '/api/card/', [{ serial: 'X' }, { serial: 'Y', code: 'C1' }], '1.code'],
      ['PUT', card1, { code: 'C2' }, 'code'],
      ['PUT', card1, { code: 'free', serial: 'S2' }, 'serial'],
    ] as const) {
      const { status, json } = await send(method, path, body);
      assert.deepEqual([status, Object.keys(json.errors)], [409, [key]]);
    }
    assert.equal(await rows(), before);
  });

  test('names no column of a duplicate that the service or a default sets', async () => {
    const post = (name: string, body: object): Promise<Answer> => send('POST', '/api/one/', body, name);
    assert.equal((await post('ada', { code: 'a' })).status, 201);
    assert.equal((await post('bob', {})).status, 201);
    for (const answer of [await post('ada', { code: 'b' }), await post('root', {})])
      assert.deepEqual([answer.status, answer.json.errors], [409, undefined]);
    const sent = await post('root', { code: 'a' });
    assert.deepEqual([sent.status, Object.keys(sent.json.errors)], [409, ['code']]);
  });

  test('has the text that the resource gives to a constraint, beside an excluded value', async () => {
    const taken = await send('POST', '/api/card/', { serial: 'S1', code: 'free' });
    assert.deepEqual([taken.status, taken.json.detail], [409, 'This serial is taken.']);
    const seat = await send('POST', '/api/card/', { serial: 'X', seat: 7, code: 'free' });
    assert.deepEqual([seat.status, seat.json.detail], [409, 'This seat is taken.']);
  });

  test('to the record of another owner does not show values that the caller cannot read', async () => {
    const answers = await Promise.all(
      ['legacy', 'other'].map((mood) => send('PUT', '/api/diary/1/', { mood })),
    );
    assert.deepEqual(answers[0]?.json, answers[1]?.json);
  });

  for (const [column, stored, other] of [
    ['mood', 'legacy', 'other'],
    ['pages', 200, 201],
    ['title', 'long', 'else'],
  ] as const)
    for (const more of [{ nothing: 1 }, { writer_id: 1, team_id: 'x' }])
      test(`to the record of another owner does not show ${column}, with the fault of ${Object.keys(more).join()}`, async () => {
        const [one, two] = [
          await send('PUT', '/api/diary/1/', { [column]: stored, ...more }),
          await send('PUT', '/api/diary/1/', { [column]: other, ...more }),
        ];
        assert.deepEqual(Object.keys(one.json.errors).sort(), Object.keys(two.json.errors).sort());
        assert.deepEqual([one.status, Object.keys(one.json.errors).includes(column)], [400, true], one.text);
      });

  test('to the record of another owner does not show whether a number is NaN, with another fault', async () => {
    const [one, two] = [1, 2].map((id) => send('PUT', `/api/diary/${id}/`, { weight: 'NaN', nothing: 1 }));
    const [nan, zero] = [await one, await two];
    assert.deepEqual(nan?.json, zero?.json);
    assert.equal(nan?.status, 400, nan?.text);
  });

  test('names no column that is hidden and read-only', async () => {
    const { status, text } = await send('POST', '/api/sealed/', { shown: 'x' });
    assert.equal(status, 400);
    assert.doesNotMatch(text, /inner/);
  });

  test('of a referenced record names no model that refers to it with a hidden column', async () => {
    await service.sql`insert into team (name) values ('Four')`;
    await service.sql`insert into frozen (title, note, team_id) select 'y', 'z', max(id) from team`;
    const [row] = await service.sql`select max(id) as id from team`;
    const path = `/api/team/${row?.['id']}/`;
    const { status, json } = await service.request(path, { method: 'DELETE', user: 'root' });
    assert.deepEqual([status, json.detail], [409, 'Other records refer to this one.']);
  });

  test('of a referenced record names only models that the caller may read', async () => {
    const own = await service.request('/api/user/1/', { method: 'DELETE', user: 'root' });
    assert.match(own.json.detail, /^Records of team/);
    const lead = await service.addUser('lead');
    await service.sql`insert into team (name, lead_id) values ('Three', ${lead})`;
    await service.sql`insert into card (serial, user_id) values ('S9', ${lead})`;
    const opened: Resource = { ...user, access: 'user' };
    const other = await startService([opened, team, card, diary, sealed]);
    try {
      for (const name of ['ada', 'eve', 'ivy']) await other.addUser(name);
      await other.sql`insert into team (name, lead_id) values ('One', 2), ('Two', 3)`;
      await other.sql`insert into card (serial, user_id) values ('S1', 3)`;
      const remove = (id: number): Promise<Answer> =>
        other.request(`/api/user/${id}/`, { method: 'DELETE', user: 'ada' });
      const [hidden, both] = [await remove(2), await remove(3)];
      assert.deepEqual([hidden.status, hidden.json.detail], [409, 'Other records refer to this one.']);
      assert.deepEqual([both.status, both.json.detail], [409, 'Records of card refer to this one.']);
    } finally {
      await other.close();
    }
  });
});

describe('a write of excluded values', () => {
  const service: TestService = useService([user, team, card], {}, async () => {
    await service.addUser('ada');
    const body = { serial: 'S1', secret: 'hush', pin: '1234', note: 'n' };
    const made = await service.request('/api/card/', { method: 'POST', user: 'ada', body });
    path = `/api/card/${made.json.id}/`;
  });
  let path = '';

  const tagAfter = async (body: object): Promise<string> => {
    const { status, headers } = await service.request(path, { method: 'PUT', user: 'ada', body });
    assert.equal(status, 200);
    const tag = headers.get('etag') ?? '';
    assert.equal((await service.request(path)).headers.get('etag'), tag);
    return tag;
  };

  test('returns a new version only if the value differs', async () => {
    const tag = await tagAfter({});
    for (const body of [{ secret: 'hush' }, { secret: 'hush', note: 'n' }, { code: null }])
      assert.equal(await tagAfter(body), tag);
    assert.notEqual(await tagAfter({ secret: 'other' }), tag);
  });

  test('is in the history only if it changes something', async () => {
    const count = async (): Promise<number> =>
      Number((await service.sql`select count(*) from vitrine_history where model = 'card'`)[0]?.['count']);
    await tagAfter({ secret: 'known' });
    const before = await count();
    await tagAfter({ secret: 'known' });
    await tagAfter({ secret: 'known', note: 'n' });
    assert.equal(await count(), before);
    await tagAfter({ secret: 'known', note: 'm' });
    assert.equal(await count(), before + 1);
    const [last] = await service.sql`select before, after from vitrine_history order by id desc limit 1`;
    assert.deepEqual([last?.['before'], last?.['after']], ['{"note":"n"}', '{"note":"m"}']);
  });
});
