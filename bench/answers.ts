// Records what a build answers to thousands of requests, so that two builds can be compared after a change of form:
// `node --import tsx bench/answers.ts DIRECTORY FILE` for each, then `diff` the files. Needs BENCH_DATABASE_URL.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { basic, encode, type Request } from './client.ts';
import { createDatabase } from './postgres.ts';
import { addUser, createService, programOf } from './service.ts';

const [directory = '.', file = 'answers.txt'] = process.argv.slice(2);
const PASSWORD = 'correct horse battery';

/** Tables, views and rules that the service finds in the database. */
const TABLES = `
  create table shelf (room integer, place integer, label text not null unique, weight numeric check (weight > 0),
    primary key (room, place));
  create table item (id serial primary key, name text not null, room integer, place integer, made timestamp(0) default now(),
    foreign key (room, place) references shelf);
  create view light as select room, place, label from shelf where weight < 10;
  create materialized view names as select name, count(*) as copies from item group by name;
  create unique index on names (name);
  create domain percent as integer check (value between 0 and 100);
  create table score (id uuid primary key default gen_random_uuid(), value percent not null, tags text[], filled text not null);
  create function fill() returns trigger language plpgsql as $$ begin
    if new.value = 13 then raise exception 'not thirteen'; end if;
    new.filled := 'filled ' || new.value; return new; end $$;
  create trigger fill before insert or update on score for each row execute function fill();
  insert into shelf select n % 3, n, 'shelf ' || n, n from generate_series(1, 20) n;
  insert into item (name, room, place) select 'item ' || n % 5, n % 3, n from generate_series(1, 20) n;`;

const FURTHER = `
  const key = { primaryKey: { columns: ['room', 'place'] } };
  const columns = { room: { type: 'integer' }, place: { type: 'integer' }, label: { type: 'text', unique: true } };
  export default [...siege,
    { model: 'shelf', ...key, columns: { ...columns, weight: { type: 'decimal', null: true } }, access: 'user',
      databaseErrors: 'shown', constraints: { shelf_weight_check: 'must be positive' } },
    { model: 'item', columns: { name: { type: 'text' }, room: { type: 'integer', null: true }, place: { type: 'integer', null: true },
        made: { type: 'datetime', default: 'now', null: true } },
      foreignKeys: { shelf: { columns: ['room', 'place'], references: 'shelf' } }, access: 'user', read: 'user', maxCount: 5 },
    { model: 'light', ...key, columns },
    { model: 'names', primaryKey: { columns: ['name'] }, columns: { name: { type: 'text' }, copies: { type: 'bigint' } }, cache: 60 },
    { model: 'score', primaryKey: { type: 'uuid' }, access: 'user', columns: { value: { type: 'integer' },
        tags: { type: 'array', of: 'text', null: true }, filled: { type: 'text', default: 'database' } } },
    { model: 'short', table: 'message', methods: ['GET'], columns: { content: { type: 'text' } } },
  ];`;

const registry = join(mkdtempSync(join(tmpdir(), 'vitrine-answers-')), 'registry.mjs');
const siege = new URL('siege/registry.mjs', import.meta.url).href;
writeFileSync(registry, `import siege from '${siege}';\n${FURTHER}`);

const CALLERS = {
  nobody: {},
  user: { Authorization: basic('bob', PASSWORD) },
  admin: { Authorization: basic('ada', PASSWORD) },
};
const JSON_TYPE = { 'Content-Type': 'application/json' };

/** Values of each column of `value`: good ones, odd ones and bad ones. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  id: ['1', '2', '0', '-1', '01', 'x', '', '99999999999', '2147483648'],
  string: ['a', '', 'Ä', 'x'.repeat(256), 'a,b', '%', '_', "o'k", '\u0000', 5, null, ['a'], { a: 1 }],
  text: ['a', '', 'line\nline', '\u{1f600}', 'x'.repeat(3000), true, null, '\ud800'],
  integer: [1, -1, 0, '7', 1.5, 2147483647, 2147483648, 'x', '', null, 1e3, true],
  bigint: [1, '9007199254740993', 9007199254740992, '9223372036854775808', 'x', null],
  float: [1.5, '1e308', '1e309', 'NaN', 'infinity', -0, 'x', '', null],
  decimal: [1.5, '1.50', '1e3', '.5', 'NaN', 'x', '9'.repeat(60), null],
  boolean: [true, false, 'true', 'false', '1', '0', 'yes', 'x', '', null, 1],
  datetime: [
    '2024-02-29T12:00:00',
    '2024-02-30',
    '2024-01-01',
    '2024-01-01T00:00:00+02:00',
    'now',
    'infinity',
    '',
    null,
    5,
  ],
  date: ['2024-02-29', '2021-02-29', '2024-13-01', 'infinity', '0001-01-01', 'x', '', null],
  time: ['12:00', '12:00:00.5', '24:00:00', '25:00', 'x', '', null],
  uuid: ['00000000-0000-0000-0000-00000000000A', 'x', '', null, 7],
  json: [{ b: 1, a: [1, null] }, [], 'text', 0, false, null, { a: '\u0000' }],
};
const OPERATORS = ['', ...'eq ne lt lte gt gte in like ilike is_null regexp contains between'.split(' ')];
const MODELS = 'user message value diary team member shelf item light names score short missing'.split(' ');

function* filters(): Generator<Request> {
  for (const [column, values] of Object.entries(VALUES)) {
    for (const operator of OPERATORS) {
      const name = operator ? `${column}__${operator}` : column;
      for (const value of values) {
        const text = encodeURIComponent(
          typeof value === 'string' ? value.replace('\ud800', '') : JSON.stringify(value),
        );
        yield { path: `/api/value/?${name}=${text}` };
      }
      yield { path: `/api/value/?-${name}=1&ordering=-${column}` };
    }
    for (const sign of ['', '-']) yield { path: `/api/value/?ordering=${sign}${column}&limit=3` };
  }
}

const PREFERENCES =
  'count=exact count=estimated count=capped paging=cursor paging=none handling=strict'.split(' ');
const KEYS = '1|2|999|0|x|-1|1.0||%31|1%2F2|01| 1|1,1|2,20|1,|1,x'.split('|');
const CONDITIONS = 'If-None-Match If-Match If-Modified-Since If-Unmodified-Since Range Expect Prefer'.split(
  ' ',
);
const TAGS = '*|"x"|W/"x"|x||"a", "b"|bytes=0-1|100-continue|paging=none|return=minimal'.split('|');
const CREDENTIALS = 'Basic|Basic x|Basic !!!|Bearer x|Basic Og==|Basic YWRh|Digest a=b|basic   x'.split('|');

function* reads(): Generator<Request> {
  const queries = [
    '', '?limit=2', '?limit=0', '?limit=100000', '?limit=x', '?page=2&limit=1', '?page=0', '?page=999', '?page=99999999999999999999',
    '?ordering=id', '?ordering=-id,id', '?ordering=nothing', '?ordering=', '?count=exact', '?count=none', '?count=x', '?nothing=1',
    '?id__in=1,2,3', '?id__in=', '?id=1&id=2', '?limit=1&limit=2', '?user__username=ada', '?team__name=one', '?user__password=x',
    '?%00=1', '?a%', '?=1', '?&&', '?id=1%00', '?_=1', '?format=json', '?search=a', '?user__user__user=1', '?id__lt=5&-id=2', '?id=1,2', '?id__in="1,2","2,5"',
    '?id__gt=1,5', '?shelf__label=shelf 3', '?shelf=1,4', '?room=1&ordering=-place', '?tags__contains=a', '?cursor=x', '?sort=id', '?label__ilike=%25f%25',
  ]; // prettier-ignore
  const accepts = [
    undefined, '*/*', 'application/json', 'text/html', 'text/csv', 'application/x-ndjson', 'image/png', 'text/*;q=0.1', '',
    'application/json;q=0', 'x', 'text/csv;q=0.5, application/json;q=0.4',
  ]; // prettier-ignore
  for (const model of MODELS) {
    for (const headers of Object.values(CALLERS)) {
      for (const query of queries) yield { path: `/api/${model}/${query}`, headers };
      for (const key of KEYS) yield { path: `/api/${model}/${key}/`, headers };
    }
    for (const preference of PREFERENCES) {
      for (const path of [
        `/api/${model}/?limit=3`,
        `/api/${model}/?limit=2&ordering=-id`,
        `/api/${model}/1/`,
      ])
        yield { path, headers: { ...CALLERS.user, Prefer: preference } };
      yield { path: `/api/${model}/`, headers: { ...CALLERS.user, Prefer: preference, Accept: 'text/csv' } };
    }
    for (const accept of accepts) {
      for (const path of [`/api/${model}/`, `/api/${model}/1/`])
        yield { path, headers: { ...CALLERS.admin, ...(accept !== undefined && { Accept: accept }) } };
    }
    for (const method of ['HEAD', 'OPTIONS', 'PATCH', 'TRACE', 'FOO', 'PUT', 'DELETE', 'POST']) {
      for (const path of [`/api/${model}/`, `/api/${model}/1/`, `/api/${model}`, `/api/${model}/1`]) {
        const body = ['PUT', 'POST', 'DELETE', 'PATCH'].includes(method) ? '[]' : undefined;
        yield { method, path, ...(body && { body, headers: JSON_TYPE }) };
      }
    }
  }
  for (const path of [
    '/', '/api', '/api/', '/api//', '/api/value', '/API/value/', '/api/openapi.json', '/healthz', '/readyz', '/metrics', '/admin',
    '/admin/', '/admin/login/', '/admin/value/', '/admin/nothing/', '/x', '//', '/api/../admin/', '/api/%76alue/', '/robots.txt', '/favicon.ico',
  ]) {
    for (const headers of Object.values(CALLERS))
      for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT']) yield { method, path, headers };
  } // prettier-ignore
  for (const condition of CONDITIONS)
    for (const value of TAGS) yield { path: '/api/value/1/', headers: { [condition]: value } };
  for (const header of CREDENTIALS)
    for (const model of MODELS) yield { path: `/api/${model}/`, headers: { Authorization: header } };
}

function* writes(): Generator<Request> {
  const send = (method: string, path: string, body: string, headers = {}): Request => ({
    method,
    path,
    body,
    headers: { ...JSON_TYPE, ...CALLERS.user, ...headers },
  });
  for (const [column, values] of Object.entries(VALUES)) {
    for (const value of values) {
      const body = JSON.stringify({ [column]: value });
      yield send('POST', '/api/value/', body);
      yield send('PUT', '/api/value/1/', body);
    }
  }
  const bodies = [
    '', '{', '[]', '[{}]', 'null', '1', '"x"', '{}', '{"a":1}', '{"string":"a","string":"b"}', '{"string":1e400}', '{"id":5}',
    '{"user":1}', '{"user_id":1,"content":"x"}', '{"content":"x"}', '{"content":""}', '{"content":null}', '{"user":{"id":1},"content":"x"}',
    '{"username":"bob","password":"x","email":"e"}', '{"nickname":"n","team_id":1}', '{"nickname":"n","team_id":999}',
    '{"nickname":"n","code":"code-of-first"}', '{"name":"four"}', '{"entry":"e"}', '{"room":1,"place":1,"label":"new","weight":0}', '{"room":1,"place":90,"label":"shelf 3"}',
    '{"room":7,"place":7,"label":"seven","weight":"1.5"}', '{"name":"x","room":1,"place":99}', '{"value":101}', '{"value":13}', '{"value":5,"tags":["a",null]}',
    '[{"value":1},{"value":200}]', '[{"name":"a"},{"name":"b","room":1,"place":2},{"name":3}]', '[{"room":8,"place":1,"label":"a8"},{"room":8,"place":1,"label":"b8"}]', '{"__proto__":1}', '{"constructor":1}', '\ufeff{}',
    `{"string":${'['.repeat(200)}${']'.repeat(200)}}`, '{"string":"\\ud800"}', '{"string":"\\u0000"}',
  ]; // prettier-ignore
  for (const model of MODELS) {
    for (const [method, path] of [['POST', ''], ['PUT', '1/'], ['PUT', '999/'], ['PUT', '1,4/'], ['PATCH', '1/'], ['DELETE', '999/']] as const) {
      for (const body of bodies) {
        for (const headers of Object.values(CALLERS))
          yield { method, path: `/api/${model}/${path}`, body, headers: { ...JSON_TYPE, ...headers } };
      }
    } // prettier-ignore
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=latin1', 'APPLICATION/JSON', 'multipart/form-data; boundary=x', ''])
      yield send('POST', `/api/${model}/`, '{}', { 'Content-Type': type }); // prettier-ignore
    for (const headers of [{ 'If-None-Match': '*' }, { Prefer: 'return=minimal' }, { Prefer: 'handling=strict' }, { Origin: 'http://other.example' }, { 'Sec-Fetch-Site': 'cross-site' }]) {
      yield send('PUT', `/api/${model}/9,9/`, '{"label":"created"}', headers);
      yield send('POST', `/api/${model}/`, '[{"name":"m"},{"name":"n"}]', headers);
    } // prettier-ignore
    const form = new URLSearchParams({ data: '{"name":"form","value":3}' }).toString();
    yield send('POST', `/api/${model}/`, form, { 'Content-Type': 'application/x-www-form-urlencoded' });
    const part = '--x\r\nContent-Disposition: form-data; name="data"\r\n\r\n{"name":"part"}\r\n--x--\r\n';
    yield send('POST', `/api/${model}/`, part, { 'Content-Type': 'multipart/form-data; boundary=x' });
    for (const tag of ['"x"', '*', 'x', 'W/"1"', ''])
      yield send('PUT', `/api/${model}/1/`, '{}', { 'If-Match': tag });
    for (const headers of Object.values(CALLERS)) {
      yield { method: 'DELETE', path: `/api/${model}/3/`, headers };
      yield { method: 'DELETE', path: `/api/${model}/3/`, headers };
    }
  }
}

/** The fields of a form as a browser would send them. */
function fieldsOf(form: string): [name: string, value: string][] {
  const fields: [string, string][] = [];
  const attribute = (tag: string, name: string): string =>
    unescaped(new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? '');
  for (const [tag] of form.matchAll(/<(?:input|textarea|select)\b[^>]*>/g)) {
    const name = attribute(tag, 'name');
    if (name === '' || (/type="(checkbox|radio)"/.test(tag) && !/\schecked\b/.test(tag))) continue;
    const after = form.slice(form.indexOf(tag) + tag.length);
    const value = tag.startsWith('<textarea')
      ? unescaped(after.slice(0, after.indexOf('</textarea>')).replace(/^\n/, ''))
      : tag.startsWith('<select')
        ? attribute(
            /<option[^>]*\sselected[^>]*>/.exec(after.slice(0, after.indexOf('</select>')))?.[0] ?? '',
            'value',
          )
        : attribute(tag, 'value');
    fields.push([name, value]);
  }
  return fields;
}

const unescaped = (text: string): string =>
  text.replace(/&(lt|gt|quot|amp|#39);/g, (_, name: string) => ENTITIES[name] ?? '');
const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" };

const MAX_PAGES = 1_500;
/** Paths that end the session, or that only show what the API answers. */
const LEFT_OUT = /^\/admin\/-\/(logout|login)|\/(style|script)-/;
const TYPED = ['', '1', '13', 'x', '<b>\'"', '2024-02-30', ' a\nb ', '999999999999999999999'];
const CSV = [
  'id,name\n1,changed\n,new\n',
  'name\na\n"b',
  'value,tags\n1,"[""a""]"\n200,\n',
  'nothing\n1\n',
  '',
];

/** Follows the links of the admin area as an admin, and sends each form with what it has, and with odd values in each field. */
async function walkAdmin(send: (request: Request) => Promise<string>): Promise<void> {
  const cookies = new Map<string, string>();
  const visit = async (path: string, body?: string): Promise<string> => {
    const headers: Record<string, string> = {
      Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
      ...(body === undefined
        ? {}
        : { 'Content-Type': 'application/x-www-form-urlencoded', 'Sec-Fetch-Site': 'same-origin' }),
    };
    const answer = await send({
      method: body === undefined ? 'GET' : 'POST',
      path,
      headers,
      ...(body !== undefined && { body }),
    });
    for (const [, name = '', value = ''] of answer.matchAll(/^set-cookie: ([^=]+)=([^;]*)/gim))
      cookies.set(name, value);
    return answer;
  };
  const post = (path: string, fields: [string, string][]): Promise<string> =>
    visit(path, new URLSearchParams(fields).toString());
  const login = fieldsOf(
    /<form[^>]*method="post"[\s\S]*?<\/form>/.exec(await visit('/admin/-/login/'))?.[0] ?? '',
  );
  const typed = (name: string, value: string): string =>
    name === 'username' ? 'ada' : name === 'password' ? PASSWORD : value;
  await post(
    '/admin/-/login/',
    login.map(([name, value]) => [name, typed(name, value)]),
  );

  const seen = new Set(['/admin/']);
  const waiting: { path: string; fields?: [string, string][] }[] = [{ path: '/admin/' }];
  const add = (path: string, fields?: [string, string][]): void => {
    const key = `${path} ${JSON.stringify(fields?.filter(([name]) => !/^_(csrf|once|version)/.test(name)) ?? '')}`;
    if (LEFT_OUT.test(path) || !path.startsWith('/admin/') || seen.has(key)) return;
    seen.add(key);
    waiting.push({ path, ...(fields && { fields }) });
  };
  for (let count = 0; count < MAX_PAGES && waiting.length > 0; count += 1) {
    const { path, fields } = waiting.shift() ?? { path: '' };
    const answer = fields ? await post(path, fields) : await visit(path);
    const location = /^location: (.*)$/im.exec(answer)?.[1]?.trim();
    if (location !== undefined) add(location);
    for (const [, href = ''] of answer.matchAll(/<a\b[^>]*\shref="([^"#]*)/g)) add(unescaped(href));
    for (const [form, attributes = ''] of answer.matchAll(/<form\b([^>]*)>[\s\S]*?<\/form>/g)) {
      if (!/method="post"/.test(attributes)) continue;
      const action = unescaped(/action="([^"]*)"/.exec(attributes)?.[1] ?? '') || path;
      const own = fieldsOf(form);
      add(action, own);
      if (fields) continue; // Pages after a form are sent as they are.
      own.forEach(([name], index) => {
        if (name.startsWith('_csrf')) return;
        const values = name === 'text' || name === 'csv' ? CSV : TYPED;
        for (const value of values.slice(0, name.startsWith('_') ? 2 : values.length))
          add(
            action,
            own.map((field, at) => (at === index ? [name, value] : field)),
          );
      });
    }
  }
}

/** All that comes back on a connection of its own; empty where it is refused. */
async function ask(request: Request): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => undefined);
  socket.setTimeout(20_000, () => socket.destroy());
  socket.write(encode({ ...request, headers: { Connection: 'close', ...request.headers } }));
  await new Promise((close) => socket.once('close', close)); // `once` would reject with the error before
  return Buffer.concat(chunks).toString();
}

/** Versions, times and identifiers differ from run to run: each becomes the number of its first appearance, or a word. */
function normalizer(): (text: string) => string {
  const tags = new Map<string, string>();
  return (text) =>
    text
      .replace(/^(etag: (?:W\/)?)"([^"]+)"/gim, (_, name: string, tag: string) => {
        const known = tags.get(tag) ?? `"tag ${tags.size}"`;
        tags.set(tag, known);
        return `${name}${known}`;
      })
      .replace(/^date: .*$/gim, 'date: now')
      .replace(/^x-request-id: .*$/gim, 'x-request-id: some')
      .replace(/20(2[5-9]|3\d)-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?/g, 'now')
      .replace(/127\.0\.0\.1:\d+/g, 'host')
      .replace(/(nonce-|name="(?:token|_csrf|_once|_version|_form)" value=")[\w+/=:,-]+/g, '$1some')
      .replace(/^(set-cookie: [^=]+=)[^;]*/gim, '$1some')
      .replace(/\b(style|script)-[0-9a-f]+/g, '$1-some')
      .replace(/cursor=[\w-]+/g, 'cursor=some')
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'uuid');
}

const database = await createDatabase(process.env['BENCH_DATABASE_URL'] ?? '');
const { sql } = database;
const program = programOf(directory);
const settings = { DATABASE_URL: database.url, RESOURCES: registry, LOG_LEVEL: 'error' };
await sql.unsafe(TABLES);
for (const words of [['ada', '--admin'], ['bob']]) await addUser(words, PASSWORD, settings, program);
await sql`insert into value (string, text, integer, datetime, json) select 'n' || n, 'text', n, timestamp '2024-01-01' + n * interval '1 day', '{"a":1}' from generate_series(1, 30) n`;
await sql`insert into diary (entry) values ('a'), ('b'), ('c')`;
await sql`insert into team (name) values ('one'), ('two'), ('three')`;
await sql`insert into member (nickname, code, team_id) values ('first', 'code-of-first', 1), ('second', 'code-of-second', null)`;
await sql`insert into message (user_id, content, pub_date) select 1 + n % 2, 'Message ' || n, timestamp '2024-01-01' from generate_series(1, 30) n`;

const service = await createService({
  databaseUrl: database.url,
  program: [program, 'serve'],
  readyPath: '/readyz',
  settings: { ...settings, HOST: '127.0.0.1', TRUST_PROXY: '1', SECRET: 's'.repeat(40) },
});
const { port } = service;
const lines: string[] = [];
const normalize = normalizer();
try {
  await service.start();
  let n = 0;
  const record = async (request: Request): Promise<string> => {
    n += 1;
    // Failed logins of one address must not change what others get.
    const headers = { 'X-Forwarded-For': `2001:db8:${(n % 60_000).toString(16)}::1`, ...request.headers };
    const answer = await ask({ ...request, headers });
    const shown = { ...request.headers, Cookie: undefined };
    const asked = `${request.method ?? 'GET'} ${request.path} ${JSON.stringify(shown)} ${String(request.body ?? '')}`;
    lines.push(normalize(`>>> ${n} ${asked.replace(/_csrf=[\w-]+/, '').slice(0, 400)}\n${answer}\n`));
    return answer;
  };
  for (const request of [...reads(), ...filters(), ...writes(), ...reads()]) await record(request);
  await walkAdmin(record);
  process.stdout.write(`${n} requests\n`);
} finally {
  await service.kill();
  writeFileSync(file, lines.join('\n'));
  await database.drop();
}
