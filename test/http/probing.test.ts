import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService } from '../support.ts';

/** Readable by admins alone. */
const team: Resource = {
  model: 'team',
  columns: { name: { type: 'string' }, lead: { type: 'foreignKey', references: 'user', null: true } },
  read: 'admin',
  access: 'admin',
};

/** What a user may write: it has hidden unique columns, and refers to hidden records. */
const card: Resource = {
  model: 'card',
  columns: {
    code: { type: 'string', unique: true, null: true },
    serial: { type: 'string', unique: true },
    secret: { type: 'string', null: true },
    pin: { type: 'password', null: true },
    team: { type: 'foreignKey', references: 'team', null: true },
    backup: { type: 'foreignKey', references: 'team', null: true },
    user: { type: 'foreignKey', references: 'user', null: true },
    holder: { type: 'foreignKey', references: 'user', null: true },
    stage: { type: 'string', null: true, choices: ['a', 'b'] },
    note: { type: 'text', null: true },
  },
  access: 'user',
  exclude: ['code', 'secret', 'pin'],
};

/** Owned, and readable by admins alone. */
const diary: Resource = {
  model: 'diary',
  columns: {
    writer: { type: 'foreignKey', references: 'user' },
    mood: { type: 'string', null: true, choices: ['good', 'bad'] },
    team: { type: 'foreignKey', references: 'team', null: true },
  },
  access: 'user',
  read: 'admin',
  owner: 'writer',
};

/** A column that no client sets or sees, and that every record needs. */
const sealed: Resource = {
  model: 'sealed',
  columns: { shown: { type: 'string' }, inner: { type: 'string' } },
  access: 'user',
  exclude: ['inner'],
  readonly: ['inner'],
};

const THERE = 1;
const ABSENT = 999_999;

describe('a write that is refused', () => {
  let service: TestService;
  let card1 = '';
  before(async () => {
    service = await startService([user, team, card, diary, sealed]);
    await service.addUser('ada');
    await service.addUser('bob');
    await service.addUser('root', { admin: true });
    await service.sql`insert into team (name, lead_id) values ('One', 1), ('Two', null)`;
    const made = await send('POST', '/api/card/', { serial: 'S1', code: 'C1', secret: 'hush', team_id: 2 });
    card1 = `/api/card/${made.json.id}/`;
    await send('POST', '/api/card/', { serial: 'S2', code: 'C2' });
    await send('POST', '/api/diary/', {}, 'bob');
    await service.sql`update diary set mood = 'legacy'`;
  });
  after(() => service.close());

  const send = (
    method: string,
    path: string,
    body: object,
    name = 'ada',
    headers: Record<string, string> = {},
  ): Promise<Answer> => service.request(path, { method, user: name, body, headers });
  const rows = async (): Promise<number> =>
    Number((await service.sql`select count(*) from card`)[0]?.['count'] ?? -1);

  /** Sends two bodies that differ in a hidden fact only, and sees that nothing is written and the answers are the same. */
  async function assertSame(
    method: string,
    path: string,
    bodies: readonly [object, object],
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const before = await rows();
    const [one, other] = [
      await send(method, path, bodies[0], 'ada', headers),
      await send(method, path, bodies[1], 'ada', headers),
    ];
    assert.ok(one.status >= 400, one.text);
    assert.deepEqual([one.status, one.json], [other.status, other.json], JSON.stringify(bodies));
    assert.equal(await rows(), before);
    return one;
  }
  const teams = (more: object): [object, object] => [
    { team_id: THERE, ...more },
    { team_id: ABSENT, ...more },
  ];

  for (const [what, method, path, more, headers, status] of [
    ['with an unknown field', 'POST', '/api/card/', { serial: 'X', nothing: 1 }, {}, 400],
    ['without a required field', 'POST', '/api/card/', {}, {}, 400],
    ['with a missing visible reference', 'POST', '/api/card/', { serial: 'X', user_id: ABSENT }, {}, 400],
    ['with a visible duplicate', 'POST', '/api/card/', { serial: 'S1' }, {}, 409],
    ['of a record that is not there', 'PUT', '/api/card/999999/', {}, {}, 404],
    ['of the record of another owner', 'PUT', '/api/diary/1/', {}, {}, 403],
    ['with another version', 'PUT', 'card', {}, { 'if-match': '"0"' }, 412],
    ['with a second hidden reference that is missing', 'PUT', 'card', { backup_id: ABSENT }, {}, 400],
    ['with a hidden duplicate', 'PUT', 'card', { code: 'C2' }, {}, 409],
  ] as const)
    test(`${what} does not tell which hidden records there are`, async () => {
      const one = await assertSame(method, path === 'card' ? card1 : path, teams(more), headers);
      assert.equal(one.status, status, one.text);
    });

  for (const [what, method, more, status] of [
    ['with an unknown field', 'POST', { serial: 'X', nothing: 1 }, 400],
    ['with a missing visible reference', 'POST', { serial: 'X', user_id: ABSENT }, 400],
    ['with a missing hidden reference', 'POST', { serial: 'X', team_id: ABSENT }, 409],
    ['with a visible duplicate', 'POST', { serial: 'S1' }, 409],
    ['with a visible duplicate in a change', 'PUT', { serial: 'S2' }, 409],
    ['with another version', 'PUT', {}, 412],
  ] as const)
    test(`${what} does not tell which hidden unique values are taken`, async () => {
      const path = method === 'POST' ? '/api/card/' : card1;
      const headers: Record<string, string> = status === 412 ? { 'if-match': '"0"' } : {};
      const one = await assertSame(
        method,
        path,
        [
          { code: 'C2', ...more },
          { code: 'free', ...more },
        ],
        headers,
      );
      assert.equal(one.status, status, one.text);
      assert.doesNotMatch(one.text, /code/);
      if ('serial' in more && more.serial !== 'X') assert.deepEqual(Object.keys(one.json.errors), ['serial']);
    });

  test('for one hidden reference alone names it, and for several all of them', async () => {
    const one = await send('POST', '/api/card/', { serial: 'X', team_id: ABSENT });
    assert.deepEqual([one.status, one.json.errors], [400, { team_id: ['there is no such record'] }]);
    const two = await send('POST', '/api/card/', { serial: 'X', team_id: THERE, backup_id: ABSENT });
    assert.deepEqual([two.status, Object.keys(two.json.errors)], [400, ['team_id', 'backup_id']]);
    // Those who may read the records are told exactly, with all other faults.
    const root = await send(
      'POST',
      '/api/card/',
      { team_id: THERE, backup_id: ABSENT, user_id: ABSENT },
      'root',
    );
    assert.deepEqual(Object.keys(root.json.errors).sort(), ['backup_id', 'serial', 'user_id']);
  });

  test('for a hidden duplicate names no column', async () => {
    const { status, json } = await send('POST', '/api/card/', { serial: 'X', code: 'C1' });
    assert.deepEqual([status, json.errors], [409, undefined]);
  });

  test('of another owner does not tell what the record holds where it cannot be read', async () => {
    const answers = await Promise.all(
      ['legacy', 'other'].map((mood) => send('PUT', '/api/diary/1/', { mood })),
    );
    assert.deepEqual(answers[0]?.json, answers[1]?.json);
  });

  test('names no column that is hidden and read-only', async () => {
    const { status, text } = await send('POST', '/api/sealed/', { shown: 'x' });
    assert.equal(status, 400);
    assert.doesNotMatch(text, /inner/);
  });

  test('because of hidden records that refer to a record does not name their model', async () => {
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

describe('a write of hidden values', () => {
  let service: TestService;
  let path = '';
  before(async () => {
    service = await startService([user, team, card]);
    await service.addUser('ada');
    const body = { serial: 'S1', secret: 'hush', pin: '1234', note: 'n' };
    const made = await service.request('/api/card/', { method: 'POST', user: 'ada', body });
    path = `/api/card/${made.json.id}/`;
  });
  after(() => service.close());

  const tagAfter = async (body: object): Promise<string> => {
    const { status, headers } = await service.request(path, { method: 'PUT', user: 'ada', body });
    assert.equal(status, 200);
    const tag = headers.get('etag') ?? '';
    assert.equal((await service.request(path)).headers.get('etag'), tag);
    return tag;
  };

  test('gives a new version whether the value was the same or not', async () => {
    const tags = [await tagAfter({})];
    for (const body of [
      { secret: 'hush' },
      { secret: 'hush', note: 'n' },
      { code: null },
      { secret: 'other' },
    ])
      tags.push(await tagAfter(body));
    assert.equal(new Set(tags).size, tags.length);
    assert.equal(await tagAfter({ note: 'n', serial: 'S1' }), tags.at(-1));
  });

  test('is in the history only where it changes something', async () => {
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
