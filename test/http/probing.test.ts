import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

/** Only admins may read it. */
const team: Resource = {
  model: 'team',
  columns: { name: { type: 'string' }, lead: { type: 'foreignKey', references: 'user', null: true } },
  read: 'admin',
  access: 'admin',
};

/** Users may write it. It has hidden unique columns, and references hidden records. */
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
    seat: { type: 'integer', null: true },
  },
  access: 'user',
  exclude: ['code', 'secret', 'pin'],
  constraints: {
    card_serial_key: 'This serial is taken.',
    card_team_id_fkey: 'There is no such team.',
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

/** A trigger cancels all changes of it, and its note and team are hidden. */
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

const EXISTING = 1;
const ABSENT = 999_999;

describe('a refused write', () => {
  let service: TestService;
  let card1 = '';
  before(async () => {
    service = await startService([user, team, card, diary, sealed, frozen]);
    await service.addUser('ada');
    await service.addUser('bob');
    await service.addUser('root', { admin: true });
    await service.sql`insert into team (name, lead_id) values ('One', 1), ('Two', null)`;
    const made = await send('POST', '/api/card/', { serial: 'S1', code: 'C1', secret: 'hush', team_id: 2 });
    card1 = `/api/card/${made.json.id}/`;
    await send('POST', '/api/card/', { serial: 'S2', code: 'C2', seat: 7 });
    await service.sql`alter table card add constraint card_seat_excl exclude (seat with =)`;
    await send('POST', '/api/diary/', {}, 'bob');
    await service.sql`update diary set mood = 'legacy', pages = 200, title = 'long', weight = 'NaN'`;
    await send('POST', '/api/diary/', {}, 'bob');
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

  /** Sends two bodies that differ only in a hidden fact. Checks that nothing is written and that the answers are equal. */
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
    { team_id: EXISTING, ...more },
    { team_id: ABSENT, ...more },
  ];

  for (const [kind, method, path, more, headers, status] of [
    ['with an unknown field', 'POST', '/api/card/', { serial: 'X', nothing: 1 }, {}, 400],
    ['without a required field', 'POST', '/api/card/', {}, {}, 400],
    ['with a missing visible reference', 'POST', '/api/card/', { serial: 'X', user_id: ABSENT }, {}, 400],
    ['with a visible duplicate', 'POST', '/api/card/', { serial: 'S1' }, {}, 409],
    ['of a missing record', 'PUT', '/api/card/999999/', {}, {}, 404],
    ['of the record of another owner', 'PUT', '/api/diary/1/', {}, {}, 403],
    ['with an outdated If-Match', 'PUT', 'card', {}, { 'if-match': '"0"' }, 412],
    ['with a second hidden reference that is missing', 'PUT', 'card', { backup_id: ABSENT }, {}, 400],
    ['with a hidden duplicate', 'PUT', 'card', { code: 'C2' }, {}, 409],
  ] as const)
    test(`${kind} does not show which hidden records exist`, async () => {
      const one = await assertSame(method, path === 'card' ? card1 : path, teams(more), headers);
      assert.equal(one.status, status, one.text);
    });

  test('of an array of one record shows no hidden record or value by the text of a constraint', async () => {
    const array = (...bodies: object[]): [object, object] => [[bodies[0]], [bodies[1]]];
    for (const more of [{ serial: 'S1' }, { serial: 'X', seat: 7 }])
      await assertSame('POST', '/api/card/', array({ code: 'C2', ...more }, { code: 'free', ...more }));
    await assertSame('POST', '/api/card/', array(...teams({ serial: 'X', backup_id: ABSENT })));
  });

  for (const [kind, method, more, status] of [
    ['with an unknown field', 'POST', { serial: 'X', nothing: 1 }, 400],
    ['with a missing visible reference', 'POST', { serial: 'X', user_id: ABSENT }, 400],
    ['with a missing hidden reference', 'POST', { serial: 'X', team_id: ABSENT }, 409],
    ['with a visible duplicate', 'POST', { serial: 'S1' }, 409],
    ['with a visible value that an exclusion constraint refuses', 'POST', { serial: 'X', seat: 7 }, 409],
    ['with a visible duplicate in a change', 'PUT', { serial: 'S2' }, 409],
    ['with an outdated If-Match', 'PUT', {}, 412],
  ] as const)
    test(`${kind} does not show which hidden unique values are taken`, async () => {
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

  test('with one hidden reference names it, and with several names all of them', async () => {
    const one = await send('POST', '/api/card/', { serial: 'X', team_id: ABSENT });
    assert.deepEqual([one.status, one.json.errors], [400, { team_id: ['there is no such record'] }]);
    const two = await send('POST', '/api/card/', { serial: 'X', team_id: EXISTING, backup_id: ABSENT });
    assert.deepEqual([two.status, Object.keys(two.json.errors)], [400, ['team_id', 'backup_id']]);
    // Callers who may read the records get exact errors, together with all others.
    const root = await send(
      'POST',
      '/api/card/',
      { team_id: EXISTING, backup_id: ABSENT, user_id: ABSENT },
      'root',
    );
    assert.deepEqual(Object.keys(root.json.errors).sort(), ['backup_id', 'serial', 'user_id']);
  });

  test('with a hidden duplicate names no column', async () => {
    const { status, json } = await send('POST', '/api/card/', { serial: 'X', code: 'C1' });
    assert.deepEqual([status, json.errors], [409, undefined]);
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

  test('to the own record, with another fault, does not name a value that it has', async () => {
    const { status, json } = await send('PUT', '/api/diary/1/', { mood: 'legacy', nothing: 1 }, 'bob');
    assert.deepEqual([status, Object.keys(json.errors)], [400, ['nothing']]);
  });

  test('that a trigger cancels does not show whether a hidden value is right', async () => {
    await service.sql`insert into frozen (title, note) values ('x', '4711')`;
    await service.sql`
      create function cancel() returns trigger language plpgsql as 'begin return null; end';
      create trigger cancel before update on frozen for each row execute function cancel()`.simple();
    const guesses = [{ note: '4711' }, { note: '4712' }] as const;
    const refused = await assertSame('PATCH', '/api/frozen/1/', guesses);
    assert.equal(refused.status, 409);
    const kept = await send('PATCH', '/api/frozen/1/', { title: 'x' });
    assert.equal(kept.status, 200, 'nothing had to be changed');
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

  test('returns a new version, whether the value is the same or not', async () => {
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
