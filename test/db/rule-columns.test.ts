// The columns of a rule of the database that refuses a write: in the API, on the admin pages and in the log.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fieldsOf, invalidFields, logIn } from '../admin/support.ts';
import { eventually } from '../http/expect.ts';
import { startService, type Answer, type TestService } from '../support.ts';

const number = { type: 'integer', null: true } as const;
const columns = {
  low: { ...number, column: 'lo' },
  high: number,
  room: number,
  part: number,
  secret: number,
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
const TABLE = `create table booking (
  id integer primary key generated always as identity, lo integer, high integer, room integer, part integer, secret integer,
  needed integer not null default 1,
  constraint lohi check (lo < high), constraint booking_low check (lo >= 0), constraint hidden check (secret > 0),
  constraint halves check (high <> secret), constraint no_overlap exclude using btree (room with =, part with =),
  constraint no_same exclude using btree (abs(high) with =));
  create function empty() returns trigger language plpgsql as $$
  begin if new.part = 99 then new.needed := null; end if; return new; end $$;
  create trigger empty before insert on booking for each row execute function empty();`;
const TOGETHER = 'a rule of the database does not allow these values together';
const ALONE = 'a rule of the database does not allow this value';

describe('the columns of a rule that refuses a write', () => {
  for (const databaseErrors of ['shown', 'hidden'] as const)
    describe(`with databaseErrors: ${databaseErrors}`, () => {
      let service: TestService;
      const isShown = databaseErrors === 'shown';
      before(async () => {
        service = await startService([user, { ...shown, databaseErrors }], {
          prepare: (sql) => sql.unsafe(TABLE),
        });
        await service.addUser('ada');
        await service.addUser('root', { admin: true });
        await service.sql`insert into booking (room, part, high) values (1, 1, 7)`;
      });
      after(() => service.close());

      const send = (method: string, path: string, body: unknown): Promise<Answer> =>
        service.request(`/api/shown/${path}`, { method, user: 'ada', body });

      for (const [constraint, status, method, path, body, errors] of [
        ['lohi', 400, 'POST', '', { low: 3, high: 2 }, { low: [TOGETHER], high: [TOGETHER] }],
        ['lohi', 400, 'PUT', '1/', { low: 9 }, { low: [TOGETHER], high: [TOGETHER] }],
        ['no_overlap', 409, 'POST', '', { room: 1, part: 1 }, { room: [TOGETHER], part: [TOGETHER] }],
        ['no_same', 409, 'POST', '', { high: -7 }, undefined],
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
    });
});
