// What the API, the admin area and the log say when a rule of the database refuses a write.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { type Answer, startService, type TestService } from '../support.ts';
import { startWith, type WritableService } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

const columns: Resource['columns'] = {
  price: { type: 'integer' },
  code: { type: 'string', null: true },
};
const RULES = `
  create table audit (id integer primary key, parent integer references audit);
  insert into audit values (1, 1);
  create function refuse() returns trigger language plpgsql as $$
  begin
    if new.code = 'raise' then raise exception 'the code % is reserved', new.code; end if;
    if new.code = 'orphan' then insert into audit values (2, 9); end if;
    if new.code = 'twice' then insert into audit values (1, 1); end if;
    if new.code = 'cast' then perform new.code::integer; end if;
    if new.code = 'coded' then raise exception 'taken' using errcode = '23505'; end if;
    return new;
  end $$;
  create function keep() returns trigger language plpgsql as $$
  begin raise exception 'rows stay'; end $$;`;
const rulesOf = (table: string): string => `
  alter table ${table} add constraint ${table}_price check (price >= 0);
  alter table ${table} add constraint ${table}_code unique (code);
  create trigger refuse before insert or update on ${table} for each row execute function refuse();
  create trigger keep before delete on ${table} for each row execute function keep();`;

const RESOURCES: Resource[] = [
  user,
  { model: 'silent', columns, access: 'user' },
  { model: 'closed', columns },
  { model: 'open', columns, access: 'user', databaseErrors: 'shown' },
  {
    model: 'mapped',
    columns,
    access: 'user',
    constraints: {
      mapped_price: 'The price must not be negative.',
      mapped_code: 'Another one has this code.',
    },
  },
];

const HIDDEN = 'A rule of the database does not allow these values.';

describe('a rule of the database that refuses a write', () => {
  let service: TestService;
  before(async () => {
    service = await startService(RESOURCES);
    await service.addUser('ada');
    await service.sql.unsafe(RULES).simple();
    for (const table of ['silent', 'open', 'mapped']) {
      await service.sql.unsafe(rulesOf(table)).simple();
      await service.sql`insert into ${service.sql(table)} (price, code) values (1, 'used')`;
    }
  });
  after(() => service.close());

  const send = (method: string, path: string, body?: unknown): Promise<Answer> =>
    service.request(`/api/${path}`, { method, user: 'ada', ...(body === undefined ? {} : { body }) });

  for (const [name, model, method, body, status, detail] of [
    ['a check constraint', 'silent', 'POST', { price: -1 }, 400, HIDDEN],
    [
      'a check constraint',
      'open',
      'POST',
      { price: -1 },
      400,
      /^A rule of .* values: new row .* "open_price"$/,
    ],
    [
      'a check constraint',
      'open',
      'PUT',
      { price: -1 },
      400,
      /^A rule of .* values: new row .* "open_price"$/,
    ],
    ['a check constraint', 'mapped', 'POST', { price: -1 }, 400, 'The price must not be negative.'],
    ['a check constraint', 'mapped', 'PUT', { price: -1 }, 400, 'The price must not be negative.'],
    [
      'one of several records',
      'mapped',
      'POST',
      [{ price: 1 }, { price: -1 }],
      400,
      'The price must not be negative.',
    ],
    ['a duplicate', 'mapped', 'POST', { price: 1, code: 'used' }, 409, 'Another one has this code.'],
    [
      'a trigger',
      'silent',
      'POST',
      { price: 1, code: 'raise' },
      400,
      'A rule of the database does not allow this.',
    ],
    [
      'a trigger',
      'open',
      'POST',
      { price: 1, code: 'raise' },
      400,
      /allow this: the code raise is reserved$/,
    ],
    [
      'a trigger',
      'mapped',
      'POST',
      { price: 1, code: 'raise' },
      400,
      'A rule of the database does not allow this.',
    ],
    [
      'a trigger that writes elsewhere',
      'silent',
      'POST',
      { price: 1, code: 'orphan' },
      409,
      'A rule of the database does not allow this.',
    ],
    [
      'a trigger that writes elsewhere',
      'open',
      'POST',
      [{ price: 1, code: 'orphan' }],
      409,
      /allow this: insert or update on table "audit" violates foreign key constraint "audit_parent_fkey"$/,
    ],
    [
      'a trigger that writes elsewhere',
      'open',
      'POST',
      { price: 1, code: 'twice' },
      409,
      /allow this: duplicate key value violates unique constraint "audit_pkey"$/,
    ],
    [
      'a trigger that cannot read a value',
      'open',
      'POST',
      { price: 1, code: 'cast' },
      400,
      /one of the values: invalid input syntax for type integer: "cast"$/,
    ],
    ['a trigger', 'silent', 'DELETE', undefined, 400, 'A rule of the database does not allow this.'],
    ['a trigger', 'open', 'DELETE', undefined, 400, /allow this: rows stay$/],
  ] as const)
    test(`${name}: ${method} of ${model} ${JSON.stringify(body) ?? ''}`, async () => {
      const path = method === 'POST' ? `${model}/` : `${model}/1/`;
      const answer = await send(method, path, body);
      assert.equal(answer.status, status, answer.text);
      if (typeof detail === 'string') assert.equal(answer.json.detail, detail);
      else assert.match(answer.json.detail, detail);
    });

  test('is in the log, with its constraint and the message of PostgreSQL', async () => {
    const refused = (text: string): Promise<Record<string, unknown>> =>
      eventually(
        () =>
          service.lines.find(
            ({ message }) =>
              String(message).startsWith('the database refused') && String(message).includes(text),
          ),
        text,
      );
    await send('POST', 'silent/', { price: -1 });
    const check = await refused('silent_price');
    assert.equal(check['constraint'], 'silent_price');
    assert.match(
      String(check['message']),
      /^the database refused a write: new row .* check constraint "silent_price"$/,
    );
    assert.ok(check['id']);
    await send('POST', 'silent/', { price: 1, code: 'used' });
    await send('POST', 'silent/', { price: 1, code: 'raise' });
    const raised = await refused('the code raise is reserved');
    assert.equal(raised['message'], 'the database refused a write: the code raise is reserved');
    await send('POST', 'silent/', { price: 1, code: 'orphan' });
    assert.equal((await refused('audit_parent_fkey'))['constraint'], 'audit_parent_fkey');
    const duplicates = service.lines.filter(({ message }) => String(message).includes('silent_code'));
    assert.deepEqual(duplicates, [], 'a duplicate is no fault of a rule');
  });

  test('or an access level that grants no one: the log names the resource, and how to open it', async () => {
    const { status, text } = await send('POST', 'closed/', { price: 1 });
    assert.deepEqual([status, text], [401, 'Authentication failed']);
    const line = await eventually(
      () => service.lines.find(({ message }) => String(message).startsWith('no one may write closed')),
      'the log line',
    );
    assert.equal(
      line['message'],
      "no one may write closed: give it access: 'user' or 'admin', or set ACCESS",
    );
  });
});

describe('the log line of a refused write', () => {
  const ranged: Resource['columns'] = {
    low: { type: 'integer', column: 'from_value' },
    high: { type: 'integer' },
  };
  const TABLES = `
    create table span (id integer primary key generated by default as identity, from_value integer not null, high integer not null,
      constraint span_high check (high < 100), constraint span_order check (from_value < high), constraint span_never check (true));
    create table cut (like span including all) partition by range (id);
    create table cut_1 partition of cut (constraint cut_own check (from_value > -10)) for values from (minvalue) to (maxvalue);`;
  let service: TestService;
  before(async () => {
    const resources: Resource[] = ['span', 'cut'].map((model) => ({
      model,
      columns: ranged,
      access: 'user',
    }));
    service = await startService([user, ...resources], { prepare: (sql) => sql.unsafe(TABLES) });
    await service.addUser('ada');
  });
  after(() => service.close());

  for (const model of ['span', 'cut'])
    for (const [body, constraint, column] of [
      [{ low: 1, high: 200 }, 'span_high', 'high'],
      [{ low: 3, high: 2 }, 'span_order', 'from_value, high'],
      [
        [
          { low: 1, high: 2 },
          { low: 1, high: 300 },
        ],
        'span_high',
        'high',
      ],
    ] as const)
      test(`names the columns of a check constraint: ${model}, ${JSON.stringify(body)}`, async () => {
        const known = service.lines.length;
        const path = `/api/${model}/`;
        const { status } = await service.request(path, { method: 'POST', user: 'ada', body });
        assert.equal(status, 400);
        const line = await eventually(
          () => service.lines.slice(known).find((one) => one['constraint'] !== undefined),
          'the line',
        );
        assert.deepEqual([line['constraint'], line['column']], [constraint, column]);
      });
});

// Values that look like the errors that the statements of writes raise on purpose, to be undone.
describe('a value that looks like such an error', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith(
      [{ model: 'code', columns: { text: { type: 'string' } }, access: 'user' }],
      `create table code (id integer primary key generated by default as identity, text varchar(255) not null);
       create function read() returns trigger language plpgsql as $$
         begin perform new.text::integer; return new; end $$;
       create trigger read before insert on code for each row execute function read();`,
    );
  });
  after(() => service.close());

  for (const value of ['vitrine missing', 'vitrine incomplete'])
    test(`is refused by the cast of a trigger like any other: ${value}`, async () => {
      for (const bodyOf of [(text: string) => ({ text }), (text: string) => [{ text }]]) {
        const [other, answer] = [
          await service.send('POST', '/api/code/', bodyOf('x')),
          await service.send('POST', '/api/code/', bodyOf(value)),
        ];
        assert.equal(other.status, 400);
        assert.deepEqual([answer.status, answer.json], [other.status, other.json]);
      }
    });
});
