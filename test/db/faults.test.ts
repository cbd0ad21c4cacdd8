// Faults of the database are errors of the service, not of the request: 500, with the reason in the log and in the admin area.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import postgres from 'postgres';
import { type Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { type Browser, fieldsOf, hiddenFields, logIn, readable } from '../admin/support.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import {
  type Answer,
  closedAfter,
  serverUrl,
  startService,
  type TestService,
  useService,
  startBeside,
} from '../support.ts';

const integer = { type: 'integer', null: true } as const;
const text = { type: 'string', null: true } as const;

/** Reads of a view or a table that fail for a reason that no request can change, and the reason. */
const READS: readonly [name: string, fault: string, sql: string, reason: RegExp][] = [
  ['zero', 'a division by zero', 'select n as id, 10 / (n - 1) as n from numbers', /division by zero/],
  ['casting', 'a bad cast', `select n as id, ('n' || n)::integer as n from numbers`, /type integer: "n1"/],
  ['day', 'a bad date', `select n as id, extract(day from to_date('2024-13-0' || n, 'YYYY-MM-DD'))::int as n from numbers`, /out of range: "2024-13-01"/],
  ['taken', 'a function that raises 23505', 'select n as id, fail(n) as n from numbers', /it is taken/],
  ['deep', 'endless recursion', 'select n as id, recurse(n) as n from numbers', /stack depth limit exceeded/],
  ['unreadable', 'a text that cannot be decoded', `select n as id, length(convert_from(decode('ff' || n || '0', 'hex'), 'UTF8')) as n from numbers`, /invalid byte sequence/],
  ['escaped', 'JSON with a NUL', `select n as id, length(('{"a": "\\u0000' || n || '"}')::json ->> 'a') as n from numbers`, /unsupported Unicode escape/],
  ['many', 'a subquery with several rows', 'select n as id, (select m.n from numbers m) as n from numbers', /more than one row/],
]; // prettier-ignore

const VIEWS = `
  create table numbers as select n from generate_series(1, 2) n;
  create function fail(n integer) returns integer language plpgsql as $$
    begin raise exception 'it is taken' using errcode = '23505'; end $$;
  create function recurse(n integer) returns integer language plpgsql as $$ begin return recurse(n) + 1; end $$;
  ${READS.map(([name, , sql]) => `create view ${name} as ${sql};`).join('\n')}`;

const assertFault = (answer: Answer): void => {
  assertProblem(answer, 500);
  assert.equal(answer.json.detail, 'An internal error occurred.');
  assert.equal(answer.headers.get('retry-after'), null);
};

/** The log line of an answer that is 500. */
const lineOf = (service: TestService, { json }: Answer): Promise<Record<string, unknown>> =>
  eventually(
    () => service.lines.find(({ id, level }) => id === json.requestId && level === 'error'),
    'the log line',
  );

describe('a read that fails in the database', () => {
  let ada: Browser;
  const resources = READS.map(([model]): Resource => ({
    model,
    primaryKey: { type: 'integer', column: 'id' },
    columns: { n: integer },
    access: 'user',
    methods: ['GET', 'PUT'],
    admin: { search: [] },
  }));
  const instead = READS.map(
    ([name]) =>
      `create function put_${name}() returns trigger language plpgsql as $$ begin return new; end $$;
       create trigger put instead of update on ${name} for each row execute function put_${name}();`,
  );
  const service: TestService = useService(
    [user, ...resources],
    {
      prepare: (sql) => sql.unsafe(`${VIEWS} ${instead.join('\n')}`),
    },
    async () => {
      await service.addUser('ada', { admin: true });
      ada = await logIn(service, 'ada');
    },
  );

  for (const [model, fault, , reason] of READS)
    test(`${fault} is 500, and the log has the reason`, async () => {
      for (const path of ['', '1/', '?n=3', '?id__gt=0&ordering=n', '?n__in=0,1,2']) {
        const answer = await service.request(`/api/${model}/${path}`);
        assertFault(answer);
        assert.match(String((await lineOf(service, answer))['message']), reason, path);
      }
      for (const headers of [{ accept: 'text/csv' }, { accept: 'application/x-ndjson' }])
        assert.equal((await service.request(`/api/${model}/`, { headers, user: 'ada' })).status, 500);
      // In a write, an exception that is raised is a refusal, and the fault of a text could be that of a text that is sent.
      if (['taken', 'unreadable', 'escaped'].includes(model)) return;
      const put = await service.request(`/api/${model}/1/`, { method: 'PUT', user: 'ada', body: { n: 7 } });
      assertFault(put);
      assert.match(String((await lineOf(service, put))['message']), reason);
      assert.equal((await ada.get(`/admin/${model}/`)).status, 500);
    });

  test('the log names the function', async () => {
    const answer = await service.request('/api/taken/');
    assert.match(String((await lineOf(service, answer))['where']), /^PL\/pgSQL function fail\(integer\)/);
  });
});

/** Triggers that fail, what is sent, and whether that is the reason. */
const WRITES: readonly [fault: string, method: string, body: object | undefined, status: number][] = [
  ['a cast of a constant', 'POST', { code: 'cast' }, 500],
  ['a division by a constant', 'POST', { code: 'zero', n: 5 }, 500],
  ['a division by what is sent', 'POST', { code: 'divide', n: 0 }, 400],
  ['a division by what is stored', 'PUT', { code: 'stored' }, 500],
  ['a cast of what is sent', 'POST', { code: 'x17' }, 400],
  ['a date of what is sent', 'POST', { code: 'date' }, 400],
  ['a cast of a part of what is sent', 'POST', { code: 'part: x5' }, 400],
  ['a cast of an element that is sent', 'POST', { code: 'element', tags: ['y', 'x'] }, 400],
  ['a cast of an empty element that is sent', 'POST', { code: 'element', tags: ['y', ''] }, 400],
  ['a cast of an empty constant', 'POST', { code: '...' }, 500],
  ['a number of what is sent that is too large', 'POST', { code: 'large', n: 2_000_000_000 }, 400],
  ['endless recursion', 'POST', { code: 'deep' }, 500],
  ['a missing table', 'POST', { code: 'table' }, 500],
  ['an exception that it raises', 'POST', { code: 'raise' }, 400],
  ['a division by zero in an array', 'POST', [{ code: 'ok' }, { code: 'zero', n: 5 }], 500],
  ['a division by zero at a deletion', 'DELETE', undefined, 500],
  ['an exception that it raises at a deletion', 'DELETE', undefined, 400],
]; // prettier-ignore

const item: Resource = {
  model: 'item',
  columns: { code: text, n: integer, tags: { type: 'array', of: 'string', null: true } },
  access: 'user',
};
const TRIGGERS = `
  create table item (id integer primary key generated by default as identity, code varchar(255), n integer, tags varchar(255)[]);
  create function fill() returns integer language plpgsql as $$ begin return 1 / 0; end $$;
  create table filled (like item including all, d integer default fill());
  create function recurse(n integer) returns integer language plpgsql as $$ begin return recurse(n) + 1; end $$;
  create function fail() returns trigger language plpgsql as $$ begin
    if tg_op = 'DELETE' then
      if old.code = 'kept' then raise exception 'it is kept'; end if;
      perform 1 / (old.id - old.id);
    end if;
    if new.code = 'cast' then perform 'x'::integer; end if;
    if new.code = '...' then perform ''::integer; end if;
    if new.code = 'zero' then perform 1 / (new.n - new.n); end if;
    if new.code = 'divide' then perform 1 / new.n; end if;
    if new.code = 'stored' then perform 1 / new.n; end if;
    if new.code like 'x%' then perform new.code::integer; end if;
    if new.code like 'part: %' then perform substr(new.code, 7)::integer; end if;
    if new.code = 'date' then perform to_date(new.code, 'YYYY-MM-DD'); end if;
    if new.code = 'element' then perform new.tags[2]::integer; end if;
    if new.code = 'large' then perform new.n * 2; end if;
    if new.code = 'deep' then perform recurse(1); end if;
    if new.code = 'table' then perform n from missing; end if;
    if new.code = 'raise' then raise division_by_zero; end if;
    return new;
  end $$;
  insert into item (code, n) values ('first', 0), ('kept', 1);
  create trigger fail before insert or update or delete on item for each row execute function fail();`;

/** Defaults that fail whatever is sent, and the reason. */
const DEFAULTS: readonly [fault: string, sql: string, reason: RegExp][] = [
  ['a division by zero', 'fill()', /division by zero/],
  ['an exception that it raises', `refuse('P0001')`, /no number left/],
  ['an exception with the code of a duplicate', `refuse('23505')`, /no number left/],
  ['a bad cast', `('x' || length(now()::text))::integer`, /type integer: "x/],
  ['an exception with the code of a missing privilege', `refuse('42501')`, /no number left/],
];
const failing = DEFAULTS.map((_, index) => `failing_${index}`);

describe('a trigger, a default or a sequence', () => {
  let ada: Browser;
  const columns = { code: text };
  const models = ['ended', 'narrow', 'late', 'late_view', 'late_part', 'late_serial', 'audited', 'fine'];
  const service: TestService = useService(
    [
      user,
      item,
      { ...item, model: 'filled' },
      ...failing.map((model): Resource => ({ ...item, model })),
      ...models.map((model): Resource => ({
        methods: ['GET', 'POST'],
        model,
        primaryKey: { type: 'integer', column: 'id' },
        columns,
        access: 'user',
      })),
      {
        model: 'keyed',
        columns: {
          code: { type: 'string', unique: true },
          number: { type: 'integer', default: 'database' },
        },
        access: 'user',
      },
      {
        model: 'numbered',
        columns: { number: { type: 'integer', default: 'database', unique: true } },
        access: 'user',
      },
      {
        model: 'renamed',
        primaryKey: { type: 'integer', column: 'id' },
        columns: { other: integer },
        methods: ['GET', 'POST'],
        access: 'user',
      },
      {
        model: 'parts',
        primaryKey: { columns: ['code', 'number'] },
        columns: { code: { type: 'string' }, number: { type: 'integer', default: 'database' } },
        access: 'user',
      },
    ],
    {
      prepare: (sql) =>
        sql.unsafe(`${TRIGGERS}
          create function refuse(code text) returns integer language plpgsql as $$
            begin raise exception 'no number left' using errcode = code; end $$;
          ${DEFAULTS.map(([, sql], index) => `create table failing_${index} (like item including all, d integer default ${sql});`).join('')}
          create table numbered (id integer primary key generated by default as identity (start 9), number serial unique);
          insert into numbered values (1, 1), (2, 2);
          create table underlying (id integer primary key generated by default as identity (start 9), number serial unique);
          insert into underlying (number) values (default), (default);
          create view renamed as select id, number as other from underlying;
          create table parts (code varchar(255), number serial, primary key (code, number));
          insert into parts values ('a', 1), ('a', 2);
          create table ended (id integer primary key generated by default as identity (start 2147483647), code varchar(255));
          insert into ended (code) values ('last');
          create sequence narrow_ids as bigint start 2147483648;
          create table narrow (id integer primary key default nextval('narrow_ids'), code varchar(255));
          create table late (id integer primary key generated by default as identity, code varchar(255));
          create table late_2 (like late including all);
          create view late_view as select * from late_2;
          create table late_part (id integer primary key generated by default as identity, code varchar(255)) partition by range (id);
          create table late_part_1 partition of late_part for values from (minvalue) to (maxvalue);
          create table late_serial (id serial primary key, code varchar(255));
          create table keyed (id serial primary key, code varchar(255) not null unique, number serial unique);
          insert into late values (1), (2), (3), (4), (5), (6), (7), (8);
          insert into late_2 values (1), (2); insert into late_part values (1), (2);
          insert into late_serial values (1), (2), (3); insert into keyed values (100, 'a', 1);
          create table audit (id serial primary key, code text);
          insert into audit values (1), (2), (3);
          create table audited (like late including all);
          create function audit() returns trigger language plpgsql as $$
            begin insert into audit (code) values (new.code); return new; end $$;
          create trigger audit after insert on audited for each row execute function audit();
          create table fine (like late including all, unique (code));
          insert into fine (code) values ('a')`),
    },
    async () => {
      await service.addUser('ada', { admin: true });
      ada = await logIn(service, 'ada');
    },
  );

  for (const [fault, method, body, status] of WRITES)
    test(`a trigger that fails with ${fault} is ${status}`, async () => {
      const record = method === 'POST' ? '' : fault.includes('raises') ? '2/' : '1/';
      const answer = await service.request(`/api/item/${record}`, { method, user: 'ada', body });
      if (status === 400) return assertProblem(answer, 400);
      assertFault(answer);
      assert.match(String((await lineOf(service, answer))['message']), /"x?"|zero|stack depth|missing/);
    });

  for (const [index, [fault, , reason]] of DEFAULTS.entries())
    test(`a default that fails with ${fault} is 500 for any record, and the log has the reason`, async () => {
      for (const body of [{}, { code: 'a', n: 1 }, [{ n: 1 }, { code: 'x' }]]) {
        const answer = await service.request(`/api/failing_${index}/`, { method: 'POST', user: 'ada', body });
        assertFault(answer);
        assert.match(String((await lineOf(service, answer))['message']), reason);
      }
      const form = `/admin/failing_${index}/-/add/`;
      const page = await ada.post(form, { ...fieldsOf(await ada.get(form)), code: 'typed' });
      assert.equal(page.status, 500);
      assert.match(readable(page), reason);
    });

  for (const [model, what, body, reason] of [
    ['ended', 'that has reached its end', {}, /reached maximum value of sequence "ended_id_seq"/],
    [
      'ended',
      'that has reached its end, in an array',
      [{}, {}],
      /reached maximum value of sequence "ended_id_seq"/,
    ],
    [
      'narrow',
      'beyond the type of its column',
      { code: 'a' },
      /public\.narrow_ids .* does not fit public\.narrow\.id/,
    ],
    ['narrow', 'beyond the type of its column, in an array', [{}], /public\.narrow_ids .* does not fit/],
    ['late', 'behind its table', { code: 'a' }, /the sequence public\.late_id_seq is behind its table/],
    ['late', 'behind its table, in an array', [{}, {}], /public\.late_id_seq is behind its table/],
    ['late_view', 'behind the table of a view', {}, /public\.late_2_id_seq is behind its table/],
    ['late_part', 'behind a partitioned table', {}, /public\.late_part_id_seq is behind its table/],
    ['late_serial', 'of a serial column', {}, /public\.late_serial_id_seq is behind its table/],
    [
      'keyed',
      'of a unique column beside the key',
      { code: 'b' },
      /public\.keyed_number_seq is behind its table/,
    ],
    ['audited', 'of a table to which a trigger writes', {}, /public\.audit_id_seq is behind its table/],
  ] as const)
    test(`a sequence ${what} is 500, and the log names it`, async () => {
      const answer = await service.request(`/api/${model}/`, { method: 'POST', user: 'ada', body });
      assertFault(answer);
      assert.match(String((await lineOf(service, answer))['message']), reason);
    });

  test('a duplicate beside a right sequence is 409 and names its field', async () => {
    for (const [model, body] of [
      ['fine', { code: 'a' }],
      ['keyed', { code: 'a', number: 5 }],
      ['keyed', { code: 'c', number: 1 }],
    ] as const) {
      const answer = await service.request(`/api/${model}/`, { method: 'POST', user: 'ada', body });
      assertProblem(answer, 409);
      assert.equal(Object.keys(answer.json.errors).length, 1);
    }
  });

  test('a sequence behind its table is not the reason for a duplicate of what is sent', async () => {
    for (const [method, path, body, status] of [
      ['POST', '/api/numbered/', { number: 2 }, 409],
      ['POST', '/api/numbered/', [{ number: 5 }, { number: 2 }], 409],
      ['PUT', '/api/numbered/1/', { number: 2 }, 409],
      ['POST', '/api/renamed/', { other: 2 }, 409],
      ['POST', '/api/parts/', { code: 'a', number: 1 }, 409],
      ['PUT', '/api/parts/a,1/', {}, 412],
    ] as const) {
      const headers: Record<string, string> = status === 412 ? { 'if-none-match': '*' } : {};
      assertProblem(await service.request(path, { method, user: 'ada', body, headers }), status);
    }
    const form = fieldsOf(await ada.get('/admin/numbered/1/'));
    assert.equal((await ada.post('/admin/numbered/1/', { ...form, number: '2' })).status, 409);
    const set = { _state: '', _id: '1', _action: 'set', _column: 'number', _value: '1', number: '2', _confirm: '1', _expected: '1' }; // prettier-ignore
    assert.equal((await ada.post('/admin/numbered/-/bulk/', set)).status, 409);
  });

  test('a sequence behind its table is named in the admin area: in forms, whose values stay, and by imports', async () => {
    await ada.get('/admin/late/-/add/');
    const added = await ada.post('/admin/late/-/add/', { code: 'typed' });
    assert.equal(added.status, 500);
    assert.match(readable(added), /public\.late_id_seq is behind its table/);
    assert.match(added.text, /value="typed"/);
    const path = '/admin/late/-/import/';
    const file = new FormData();
    file.append('_file', new Blob(['code\nx\n']), 'late.csv');
    for (const [name, value] of Object.entries(fieldsOf(await ada.get(path))))
      if (name !== '_file') file.append(name, value);
    const imported = await ada.upload(path, file);
    assert.equal(imported.status, 500);
    assert.match(readable(imported), /public\.late_id_seq is behind its table/);
  });
});

describe('a refusal that lasts', () => {
  let ada: Browser;
  const columns = { code: text };
  const service: TestService = useService(
    [
      user,
      ...['published', 'large'].map((model): Resource => ({
        model,
        primaryKey: { type: 'integer', column: 'id' },
        columns,
        access: 'user',
        methods: model === 'large' ? ['GET'] : ['GET', 'PUT', 'DELETE'],
      })),
    ],
    {
      prepare: (sql) =>
        sql.unsafe(`
          create table published (id integer unique not null generated by default as identity, code varchar(255));
          insert into published (code) values ('a'), ('b');
          create publication changes for table published;
          create table huge as select n, repeat(md5(n::text), 3) as code from generate_series(1, 60000) n;
          create view large as select n as id, code from huge order by md5(code)`),
      parameters: { options: '-c temp_file_limit=0 -c work_mem=64kB' },
    },
    async () => {
      await service.addUser('ada', { admin: true });
      ada = await logIn(service, 'ada');
    },
  );

  test('PUT and DELETE without a replica identity are 500, and the log and the admin area have the reason', async () => {
    for (const [method, body] of Object.entries({ PUT: { code: 'c' }, DELETE: undefined })) {
      const answer = await service.request('/api/published/1/', { method, user: 'ada', body });
      assertFault(answer);
      assert.match(String((await lineOf(service, answer))['message']), /does not have a replica identity/);
    }
    const form = fieldsOf(await ada.get('/admin/published/1/'));
    const saved = await ada.post('/admin/published/1/', { ...form, code: 'c' });
    const asked = hiddenFields(await ada.get('/admin/published/1/delete/'), 'confirm');
    const deleted = await ada.post('/admin/published/1/delete/', asked);
    const bulk = { _state: '', _id: '1', _action: 'set', _column: 'code', _value: '1', code: 'z', _confirm: '1', _expected: '1' }; // prettier-ignore
    const set = await ada.post('/admin/published/-/bulk/', bulk);
    for (const page of [saved, deleted, set]) {
      assert.equal(page.status, 500);
      assert.match(readable(page), /does not have a replica identity/);
    }
  });

  test('a query that exceeds temp_file_limit is 503 without an invitation to try again', async () => {
    const answer = await service.request('/api/large/?ordering=code');
    assertProblem(answer, 503);
    assert.equal(answer.headers.get('retry-after'), null);
    assert.doesNotMatch(answer.json.detail, /again/);
  });
});

/** Error codes that a function of the database can raise, and the resulting status. */
const STATES: readonly [state: string, cause: string, status: number][] = [
  ['40001', 'a serialization failure', 503],
  ['40P01', 'a deadlock', 503],
  ['53100', 'a full disk', 503],
  ['53300', 'too many connections', 503],
  ['55P03', 'a lock timeout', 503],
  ['22003', 'a number out of range', 400],
  ['23502', 'a missing value', 400],
  ['23514', 'a value that breaks a constraint', 400],
  ['54000', 'a value that is too large', 400],
  ['54001', 'triggers that cause each other without end', 400],
  ['P0001', 'an error of a trigger', 400],
  ['08006', 'a function that raises a connection failure', 400],
  ['25006', 'a function that raises a read-only error', 400],
  ['28000', 'a function that raises a refused login', 400],
  ['42501', 'a function that raises a missing privilege', 400],
  ['57P01', 'a function that raises a shutdown', 400],
  ['22012', 'a division by zero', 400],
  ['3D000', 'a function that raises a missing database', 400],
  ['44000', 'a value that a view refuses', 400],
  ['57014', 'a function that raises a canceled statement', 400],
  ['0A000', 'an unsupported feature', 409],
  ['23001', 'a referenced record', 409],
  ['23503', 'a missing reference', 409],
  ['23505', 'a duplicate', 409],
  ['23P01', 'an overlap', 409],
  ['27000', 'a row that a trigger has changed', 409],
  ['21000', 'too many rows', 400],
  ['23000', 'an unspecified constraint', 400],
  ['P0002', 'a record that a function does not find', 400],
  ['XX000', 'a function that raises an internal error', 400],
  ['AB123', 'a custom error code', 400],
];

/** Errors of PostgreSQL itself, which the tests cause for real. */
const REAL_ERRORS: readonly [state: string, cause: string, status: number][] = [
  ['standby', 'a read-only server', 503],
  ['shut down', 'a server that is shut down', 503],
  ['too long', 'a statement that took too long', 503],
  ['no such table', 'a missing table', 500],
];

describe('an error of the database', () => {
  const service: TestService = useService([user, note], {}, async () => {
    await service.addUser('bob');
    await service.sql.unsafe(`
      create function fail() returns trigger language plpgsql as $$
        begin
          case new.message
            when 'standby' then perform set_config('transaction_read_only', 'on', true); delete from note;
            when 'shut down' then perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1);
            when 'too long' then perform pg_cancel_backend(pg_backend_pid()); perform pg_sleep(1);
            when 'no such table' then execute 'select from missing';
            else null;
          end case;
          raise exception 'a secret of the database' using errcode = new.message; end $$;
      create trigger fail before insert on note for each row execute function fail()`);
  });

  for (const [state, cause, status] of [...STATES, ...REAL_ERRORS]) {
    test(`${state}, ${cause}, is ${status} and does not show its cause`, async () => {
      const body = { message: state };
      const answer = await service.request('/api/note/', { method: 'POST', user: 'bob', body });
      assertProblem(answer, status);
      assert.doesNotMatch(answer.text, /secret|trigger|fail\(\)/);
      // Only one of these errors leaves unknown whether the change was made.
      assert.equal(/not known/.test(answer.json.detail), state === 'shut down');
      const retryAfter = answer.headers.get('retry-after');
      if (status === 503) assert.match(retryAfter ?? '', /^[1-9]\d*$/);
      else assert.equal(retryAfter, null);
      assert.equal(typeof answer.json.requestId, status === 500 ? 'string' : 'undefined');
    });
  }
});

/**
 * SQL that makes the database refuse new connections, and SQL that ends this; `$` is the database, `@` the role. The pattern is the
 * error of a start that does not wait for the end.
 */
const REFUSALS: readonly [begin: string, end: string, message?: RegExp][] = [
  ['alter database $ with allow_connections false', 'alter database $ with allow_connections true', /not currently accepting connections/],
  ['revoke connect on database $ from public', 'grant connect on database $ to public', /permission denied for database/],
  ['alter role @ nologin', 'alter role @ login', /not permitted to log in/],
  ['alter role @ connection limit 0', 'alter role @ connection limit -1'],
]; // prettier-ignore

test('requests are 503 as long as the database refuses connections', async (t) => {
  const service = await startService([user, note]);
  await service.addUser('bob');
  // Not a superuser, because PostgreSQL refuses almost nothing to them.
  const { role, url } = await service.addRole(
    'grant usage on schema public to ROLE; grant all on all tables in schema public to ROLE',
  );
  const create = () => startBeside(url, [user, note], { schema: 'check' });
  const refused = await create();
  const server = postgres(serverUrl(), { max: 1, onnotice: () => undefined });
  const database = new URL(url).pathname.slice(1);
  const run = (text: string) => server.unsafe(text.replaceAll('$', database).replaceAll('@', role));
  t.after(async () => {
    await refused.close();
    await service.close();
    await server.end();
  });
  const ask = (body?: object) =>
    refused.request('/api/note/', body ? { method: 'POST', user: 'bob', body } : {});
  for (const [begin, end, message] of REFUSALS) {
    assert.equal((await ask()).status, 200);
    await run(begin);
    const isGone = async (): Promise<boolean> => {
      const open = await run(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '@'`);
      return open.count === 0;
    };
    await eventually(isGone, 'the end of the connections');
    for (const body of [undefined, { message: 'new' }]) {
      const answer = await ask(body);
      assertProblem(answer, 503);
      assert.doesNotMatch(answer.text, /not known/);
    }
    if (message) await assert.rejects(create(), message);
    await run(end);
  }
  assert.equal((await ask()).status, 200);
});

for (const [where, parameters] of [
  ['', {}],
  [' behind a pooler', { prepare: 'false' }],
] as const)
  test(`a service writes again after its database was read-only for a while${where}`, async (t) => {
    const service = closedAfter(t, await startService([user, note], { parameters }));
    const database = new URL(service.url).pathname.slice(1);
    const setReadOnly = async (state: string): Promise<void> => {
      await service.sql.unsafe(`alter database ${database} set default_transaction_read_only = ${state}`);
    };
    const write = () =>
      service.request('/api/note/', { method: 'POST', user: 'bob', body: { message: 'new' } });
    const many = () => Promise.all(Array.from({ length: 16 }, write));
    // With this, errors name the parameters of their statement, as those of functions name the function.
    await service.sql.unsafe(`alter database ${database} set log_parameter_max_length_on_error = -1`);
    await service.addUser('bob');
    await setReadOnly('on');
    await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine'`;
    for (const answer of await many()) assertProblem(answer, 503);
    const pids = () => service.sql<{ pid: number }[]>`select pid from pg_stat_activity
        where datname = current_database() and application_name = 'vitrine'`;
    const old = new Set((await pids()).map(({ pid }) => pid));
    assert.equal((await service.request('/api/note/')).status, 200);
    await setReadOnly('off');
    await write(); // may use an old connection
    for (const { status } of await many()) assert.equal(status, 201);
    await eventually(async () => {
      await write();
      return !(await pids()).some(({ pid }) => old.has(pid));
    }, 'the end of the old connections');
  });

/** A view that shows whether PostgreSQL may compile the statement that reads it. */
const SETTING: Resource = {
  model: 'setting',
  primaryKey: { type: 'integer', column: 'id' },
  columns: { jit: { type: 'string', null: true } },
};

for (const [where, parameters] of [
  ['', {}],
  [
    ', also if the options in its address say otherwise',
    { options: '-c statement_timeout=60000 -c lock_timeout=0 -c TimeZone=Europe/Berlin -c jit=on' },
  ],
] as const)
  test(`PostgreSQL ends a statement after 10 seconds, and a wait for a lock after 5, and compiles none${where}`, async (t) => {
    const service = closedAfter(
      t,
      await startService([user, note, SETTING], {
        parameters,
        prepare: (sql) =>
          sql.unsafe(`
        create table note (id integer generated by default as identity primary key, message text not null);
        create function show_settings() returns trigger language plpgsql as $$
          begin
            new.message := concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
              current_setting('TimeZone'), current_setting('jit'));
            return new;
          end $$;
        create trigger show_settings before insert on note for each row execute function show_settings();
        create view setting as select 1 as id, current_setting('jit')::varchar as jit`),
      }),
    );
    await service.addUser('bob');
    const { json } = await service.request('/api/note/', {
      method: 'POST',
      user: 'bob',
      body: { message: '' },
    });
    assert.equal(json.message, '10s 5s UTC off');
    // After the first ones, a page is read on another connection.
    for (let time = 0; time < 6; time += 1) {
      const page = await service.request('/api/setting/?jit__ne=x');
      assert.equal(page.json.objects[0].jit, 'off', `time ${time}`);
    }
    const headers = { accept: 'application/x-ndjson' };
    assert.match((await service.request('/api/setting/', { headers })).text, /"jit":"off"/);
  });
