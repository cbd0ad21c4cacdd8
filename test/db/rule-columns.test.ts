// The columns of a rule of the database that refuses a write: in the API, on the admin pages and in the log.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fieldsOf, invalidFields, logIn, readable } from '../admin/support.ts';
import { eventually } from '../http/expect.ts';
import { startService, useService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const number = { type: 'integer', null: true } as const;
const columns = {
  low: { ...number, column: 'lo' },
  high: number,
  room: number,
  part: number,
  secret: number,
  pair: number,
  layered: number,
  foreign_tens: number,
  first_twin: number,
  second_twin: number,
  needed: { type: 'integer', default: 'database' },
} as const;
const constraints = { booking_low: 'must not be negative' };
const shown: Resource = {
  model: 'shown',
  table: 'booking',
  columns,
  access: 'user',
  exclude: ['secret'],
  databaseErrors: 'shown',
  constraints,
};
const TABLE = `create domain even as integer constraint is_even check (value % 2 = 0);
  create domain tens as even constraint lohi check (value % 10 = 0);
  create domain under as integer constraint same check (value > 0);
  create domain over as under constraint same check (value < 100);
  create schema other;
  create domain other.tens as integer constraint lohi check (value > 0);
  create domain twin as integer constraint is_twin check (value > 0);
  create table booking (
  id integer primary key generated always as identity, lo integer, high integer, room integer, part integer, secret integer,
  pair tens, layered over, foreign_tens other.tens, first_twin twin, second_twin twin,
  needed integer not null default 1,
  constraint lohi check (lo < high), constraint booking_low check (lo >= 0), constraint hidden check (secret > 0),
  constraint halves check (high <> secret), constraint no_overlap exclude using btree (room with =, part with =),
  constraint no_same exclude using btree (abs(high) with =));
  create function empty() returns trigger language plpgsql as $$
  begin
    if new.part = 99 then new.needed := null; end if;
    if new.part = 98 then raise 'not now' using errcode = 'check_violation', column = 'room', constraint = 'by_trigger'; end if;
    if new.part = 96 then raise 'low average' using table = tg_table_name, column = 'room', constraint = 'age'; end if;
    if new.part = 95 then raise 'not here' using errcode = '0A000', column = 'room', constraint = 'unsupported'; end if;
    if new.part = 94 then raise '' using column = 'room'; end if;
    if new.part = 97 then raise 'not there' using table = 'elsewhere', column = 'room'; end if;
    return new;
  end $$;
  create trigger empty before insert on booking for each row execute function empty();`;
const TOGETHER = 'a rule of the database does not allow these values together';
const ALONE = 'a rule of the database does not allow this value';

describe('the columns of a rule that refuses a write', () => {
  for (const databaseErrors of ['shown', 'hidden'] as const)
    describe(`with databaseErrors: ${databaseErrors}`, () => {
      const service: TestService = useService(
        [user, { ...shown, databaseErrors }],
        {
          prepare: (sql) => sql.unsafe(TABLE),
        },
        async () => {
          await service.addUser('ada');
          await service.addUser('root', { admin: true });
          await service.sql`insert into booking (room, part, high) values (1, 1, 7)`;
        },
      );
      const isShown = databaseErrors === 'shown';

      const send = (method: string, path: string, body: unknown): Promise<Answer> =>
        service.request(`/api/shown/${path}`, { method, user: 'ada', body });

      for (const [constraint, status, method, path, body, errors] of [
        ['lohi', 400, 'POST', '', { low: 3, high: 2 }, { low: [TOGETHER], high: [TOGETHER] }],
        ['lohi', 400, 'PUT', '1/', { low: 9 }, { low: [TOGETHER], high: [TOGETHER] }],
        ['no_overlap', 409, 'POST', '', { room: 1, part: 1 }, { room: [TOGETHER], part: [TOGETHER] }],
        ['no_same', 409, 'POST', '', { high: -7 }, { high: [ALONE] }],
        ['is_even', 400, 'POST', '', { pair: 3 }, { pair: [ALONE] }],
        ['lohi', 400, 'POST', '', { pair: 4 }, { pair: [ALONE] }],
        ['is_twin', 400, 'POST', '', { second_twin: 0 }, undefined],
        ['by_trigger', 400, 'POST', '', { part: 98 }, { room: [ALONE] }],
        ['same', 400, 'POST', '', { layered: 0 }, { layered: [ALONE] }],
        ['same', 400, 'POST', '', { layered: 100 }, { layered: [ALONE] }],
        ['lohi', 400, 'POST', '', { foreign_tens: 0 }, { foreign_tens: [ALONE] }],
        ['age', 400, 'POST', '', { part: 96 }, { room: [ALONE] }],
        ['unsupported', 409, 'POST', '', { part: 95 }, { room: [ALONE] }],
        ['without a message', 400, 'POST', '', { part: 94 }, { room: [ALONE] }],
        ['elsewhere', 400, 'POST', '', { part: 97 }, undefined],
        ['hidden', 400, 'POST', '', { secret: -1 }, undefined],
        ['halves', 400, 'POST', '', { secret: 5, high: 5 }, { high: [TOGETHER] }],
        ['booking_low', 400, 'POST', '', { low: -1 }, { low: ['must not be negative'] }],
        ['null', 400, 'POST', '', { part: 99 }, { needed: [ALONE] }],
        [
          'lohi',
          400,
          'POST',
          '',
          [{ low: 1 }, { low: 3, high: 2 }],
          { '1.low': [TOGETHER], '1.high': [TOGETHER] },
        ],
      ] as const)
        test(`a ${method} of ${JSON.stringify(body)} names those that the caller sees`, async () => {
          const answer = await send(method, path, body);
          assert.equal(answer.status, status, answer.text);
          const position = Array.isArray(body) ? { 1: [answer.json.detail as string] } : undefined;
          assert.deepEqual(answer.json.errors, isShown ? errors : position, constraint);
        });

      test('are marked in the form, and named in the log: an exclusion constraint', async () => {
        const known = service.lines.length;
        const root = await logIn(service, 'root');
        const form = await root.get('/admin/shown/-/add/');
        const answer = await root.post('/admin/shown/-/add/', { ...fieldsOf(form), room: '1', part: '1' });
        assert.deepEqual([answer.status, invalidFields(answer)], [409, ['room', 'part']]);
        assert.match(answer.text, /no_overlap/);
        await send('POST', '', { room: 1, part: 1 });
        const line = await eventually(
          () => service.lines.slice(known).find((one) => one['constraint'] === 'no_overlap'),
          'the line',
        );
        assert.equal(line['column'], 'room, part');
      });

      test('are marked in the form with the name of the rule: a trigger, and a domain', async () => {
        const root = await logIn(service, 'root');
        const form = fieldsOf(await root.get('/admin/shown/-/add/'));
        const byTrigger = await root.post('/admin/shown/-/add/', { ...form, part: '98' });
        assert.deepEqual(invalidFields(byTrigger), ['room']);
        assert.match(byTrigger.text, /not now \(by_trigger\)/);
        const ofDomain = await root.post('/admin/shown/-/add/', { ...form, pair: '3' });
        assert.deepEqual(invalidFields(ofDomain), ['pair']);
        assert.match(ofDomain.text, /is_even/);
      });

      for (const [part, said] of [
        [98, 'not now (by_trigger)'],
        [96, 'low average (age)'],
        [95, 'not here (unsupported)'],
      ] as const)
        test(`is named in the response by databaseErrors: shown alone: ${said}`, async () => {
          const { json } = await send('POST', '', { part });
          assert.equal(String(json.detail).endsWith(said), isShown);
        });

      test('is named with the message in the preview of an import', async () => {
        const root = await logIn(service, 'root');
        const form = new FormData();
        form.append('_file', new Blob([]), '');
        form.append('_text', 'part\r\n98\r\n');
        const preview = await root.upload('/admin/shown/-/import/', form);
        assert.match(readable(preview), /not now \(by_trigger\)/);
        assert.match(readable(preview), /Room: a rule of the database does not allow this value/);
        form.set('_text', 'low\r\n-1\r\n');
        const known = readable(await root.upload('/admin/shown/-/import/', form));
        assert.equal(known.match(/must not be negative/gi)?.length, 1, known);
      });
    });
});

describe('a duplicate in a unique index with expressions', () => {
  const text = { type: 'string', null: true } as const;
  let service: TestService;
  before(async () => {
    const member: Resource = {
      model: 'member',
      columns: { email: text, club: number, nick: text, first: text, last: text, active: { type: 'boolean', default: true } },
      access: 'user',
    }; // prettier-ignore
    const tables = `
      create table member (id integer primary key generated by default as identity, email text, club integer, nick text,
        first text, last text, active boolean not null default true);
      create unique index on member (lower(email), club);
      create unique index on member (lower(nick)) where active;
      create unique index on member (((first || ' ') || last));`;
    service = await startService([user, member], { prepare: (sql) => sql.unsafe(tables) });
    await service.addUser('ada', { admin: true });
    await service.sql`insert into member (email, club, nick, first, last) values
      ('a@b', 1, 'al', 'A', 'B'), ('c@d', 2, 'cy', 'C', 'D')`;
  });
  after(() => service.close());

  for (const [method, body, fields] of [
    ['POST', { email: 'A@B', club: 1 }, ['email', 'club']],
    ['POST', { nick: 'AL', club: 1 }, ['nick']],
    ['POST', { first: 'A', last: 'B', nick: 'x' }, ['first', 'last']],
    ['PUT', { email: 'A@b', club: 1 }, ['email', 'club']],
    ['PUT', { last: 'B', first: 'A' }, ['first', 'last']],
    ['POST', [{ nick: 'x' }, { email: 'A@B', club: 1 }], ['1.email', '1.club']],
    ['POST', [{ nick: 'x' }, {}, { nick: 'X' }], ['2.nick']],
    [
      'POST',
      [
        { first: 'E', last: 'F' },
        { first: 'E', last: 'F' },
      ],
      ['1.first', '1.last'],
    ],
  ] as const)
    test(`is 409 and names all columns that the request sets: ${method} ${JSON.stringify(body)}`, async () => {
      const path = `/api/member/${method === 'PUT' ? '2/' : ''}`;
      const { status, json } = await service.request(path, { method, user: 'ada', body });
      assert.equal(status, 409);
      assert.deepEqual(Object.keys(json.errors).toSorted(), fields.toSorted());
    });

  test('is marked in a form and in a change of several records', async () => {
    const ada = await logIn(service, 'ada');
    const form = fieldsOf(await ada.get('/admin/member/-/add/'));
    const answer = await ada.post('/admin/member/-/add/', { ...form, email: 'A@B', club: '1' });
    assert.deepEqual(invalidFields(answer).toSorted(), ['club', 'email']);
    const set = { _state: '', _id: ['1', '2'], _action: 'set', _column: 'nick', _value: '1', nick: 'same', _confirm: '1', _expected: '2' }; // prettier-ignore
    assert.deepEqual(invalidFields(await ada.post('/admin/member/-/bulk/', set)), ['nick']);
  });
});
