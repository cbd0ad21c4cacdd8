import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { basic, startService, useService, type RequestOptions, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { describe, test } from 'node:test';

type Line = Record<string, unknown>;
const isRequest = (line: Line): boolean => 'method' in line;

describe('the log', () => {
  const service: TestService = useService(undefined, {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
  });

  /** The log line of a request, which must be the only new one. */
  async function lineOf(path: string, options?: RequestOptions): Promise<[Line, bytes: number]> {
    const known = service.lines.filter(isRequest).length;
    const { text } = await service.request(path, options);
    const line = await eventually(() => service.lines.filter(isRequest)[known], 'the line');
    assert.equal(service.lines.filter(isRequest).length, known + 1);
    return [line, Buffer.byteLength(text)];
  }

  const requests: readonly [path: string, options: RequestOptions, expected: Line][] = [
    ['/api/note/', {}, { method: 'GET', path: '/api/note/', status: 200, user: null }],
    ['/api/note/', { method: 'HEAD' }, { method: 'HEAD', path: '/api/note/', status: 200, user: null }],
    ['/api/note', {}, { method: 'GET', path: '/api/note', status: 200, user: null }],
    ['/api/note/', { user: 'bob' }, { method: 'GET', path: '/api/note/', status: 200, user: null }],
    [
      '/api/note/',
      { method: 'POST', user: 'bob', body: { message: 'x' } },
      { method: 'POST', path: '/api/note/', status: 201, user: 'bob' },
    ],
    // Remembered credentials are not confirmed for an answer that is the same for all callers.
    ['/api/note/', { user: 'bob' }, { method: 'GET', path: '/api/note/', status: 200, user: null }],
    [
      '/api/note/1/',
      { method: 'PUT', user: 'ada', body: { nope: 'x' } },
      { method: 'PUT', path: '/api/note/1/', status: 400, user: 'ada' },
    ],
    [
      '/api/user/1/',
      { method: 'DELETE', user: 'bob' },
      { method: 'DELETE', path: '/api/user/1/', status: 403, user: 'bob' },
    ],
    [
      '/api/note/',
      { method: 'POST', user: 'nobody' },
      { method: 'POST', path: '/api/note/', status: 401, user: null },
    ],
    ['/api/note/', { method: 'OPTIONS' }, { method: 'OPTIONS', path: '/api/note/', status: 204, user: null }],
    ['/nowhere', { method: 'PATCH' }, { method: 'PATCH', path: '/nowhere', status: 404, user: null }],
    ['/healthz', {}, { method: 'GET', path: '/healthz', status: 200, user: null }],
  ];
  for (const [index, [path, options, expected]] of requests.entries()) {
    test(`${options.method ?? 'GET'} ${path} with ${String(expected['status'])} by ${String(expected['user'])} is one line (${index})`, async () => {
      const [line, bytes] = await lineOf(path, options);
      const { time, ms, id, bytes: logged, ...rest } = line;
      assert.deepEqual(rest, { level: 'info', ...expected });
      assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.ok(Math.abs(Date.now() - Date.parse(String(time))) < 60_000);
      assert.ok(typeof ms === 'number' && ms >= 0);
      assert.ok(typeof id === 'string' && id !== '');
      assert.equal(logged, bytes);
    });
  }

  test('only the first X-Forwarded-For without a trusted proxy is a warning in the log', async () => {
    const warnings = (): Line[] =>
      service.lines.filter(({ message }) => /X-Forwarded-For/.test(String(message)));
    assert.deepEqual(warnings(), []);
    const headers = { 'X-Forwarded-For': '10.0.0.1' };
    for (const path of ['/api/note/', '/nowhere', '/api/note/']) await lineOf(path, { headers });
    assert.deepEqual(
      warnings().map(({ level }) => level),
      ['warn'],
    );
    assert.match(String(warnings()[0]?.['message']), /TRUST_PROXY is 0/);
  });

  test('each request has its own id', () => {
    const ids = service.lines.filter(isRequest).map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
  });

  test('a path shows the names of the parameters, and not their values', async () => {
    for (const [query, shown] of [
      ['message=hidden', 'message'],
      ['message=hidden&limit=7171', 'message&limit'],
      ['message=hidden=hidden&nope=hidden', 'message&nope'],
      ['message__ilike=%25hidden%25', 'message__ilike'],
    ] as const) {
      const [line] = await lineOf(`/api/note/?${query}`);
      assert.equal(line['path'], `/api/note/?${shown}`);
      assert.doesNotMatch(JSON.stringify(line), /hidden|7171/);
    }
  });

  test('a long path is cut', async () => {
    for (const [path, shown] of [
      [`/${'x'.repeat(300)}`, `/${'x'.repeat(299)}…`],
      [`/${'x'.repeat(299)}`, `/${'x'.repeat(299)}`],
      [`/${'x'.repeat(30_000)}?a=b`, `/${'x'.repeat(299)}…?a`],
      [`/nowhere?${'x'.repeat(300)}`, `/nowhere?${'x'.repeat(300)}`],
      [`/nowhere?${'x'.repeat(3_000)}=1`, `/nowhere?${'x'.repeat(300)}…`],
      [`/nowhere?${'&'.repeat(300)}`, `/nowhere?${'&'.repeat(300)}`],
      [`/nowhere?${'&'.repeat(301)}`, `/nowhere?${'&'.repeat(300)}…`],
      [`/nowhere?${'&'.repeat(30_000)}`, `/nowhere?${'&'.repeat(300)}…`],
    ] as const) {
      const [line] = await lineOf(path);
      assert.equal(line['path'], shown);
    }
  });

  test('a long message of the database is cut', async () => {
    await service.sql`
      create function refuse() returns trigger language plpgsql as
        $$ begin raise check_violation using message = 'refused: ' || new.message; end $$`;
    await service.sql`
      create trigger refuse before insert on note for each row when (length(new.message) > 9000)
      execute function refuse()`;
    const known = service.lines.length;
    const body = { message: 'y'.repeat(100_000) };
    assert.equal((await service.request('/api/note/', { method: 'POST', user: 'bob', body })).status, 400);
    const line = await eventually(
      () => service.lines.slice(known).find(({ message }) => /refused/.test(String(message))),
      'the line',
    );
    const message = String(line['message']);
    assert.match(message, /^the database refused a write: refused: y+…$/);
    assert.equal(message.length, 8_193);
  });

  test('no password, hash, body or header value is ever logged', async () => {
    const secrets = [
      'open-sesame',
      'pw-ada',
      'pw-bob',
      'wrong-horse',
      'argon2id',
      'marked-header',
      'marked-body',
    ];
    const credentials = [basic('ada'), basic('bob'), basic('bob', 'wrong-horse')];
    const headers = { 'user-agent': 'marked-header', cookie: 'a=marked-header', 'x-any': 'marked-header' };
    const person = { username: 'carl', password: 'open-sesame', email: 'marked-body' };
    const ask = (path: string, options: RequestOptions): Promise<unknown> =>
      service.request(path, { ...options, headers: { ...headers, ...options.headers } });
    const carl = '/api/user/3/';
    await ask('/api/user/', { method: 'POST', user: 'ada', body: person });
    await ask('/api/user/', { method: 'POST', user: 'ada', body: person });
    await ask('/api/user/', {
      method: 'POST',
      user: 'ada',
      body: { ...person, password: 5, nope: 'marked-body' },
    });
    await ask('/api/user/', { method: 'POST', user: 'ada', body: '{"password":"open-sesame"' });
    await ask(carl, { method: 'PUT', user: 'ada', body: { password: 'open-sesame' } });
    await ask('/api/note/', {
      method: 'POST',
      headers: { authorization: credentials[2] ?? '' },
      body: person,
    });
    await ask('/api/note/', { method: 'POST', headers: { authorization: 'Basic open-sesame' } });
    await ask('/api/user/?password=open-sesame', { user: 'ada' });
    await service.sql`alter table "user" rename column password to hidden`;
    await ask('/api/user/', { method: 'POST', user: 'ada', body: person });
    await service.sql`alter table "user" rename column hidden to password`;
    await service.sql`alter table "user" add constraint refuses check (username <> 'dora')`;
    await ask('/api/user/', { method: 'POST', user: 'ada', body: { ...person, username: 'dora' } });
    const known = service.lines.length;
    await ask('/healthz', {});
    await eventually(() => service.lines.length > known, 'the last line');
    const all = JSON.stringify(service.lines);
    for (const secret of [...secrets, ...credentials.map((header) => header.slice(6))])
      assert.ok(!all.includes(secret), secret);
  });
});

for (const [logLevel, levels] of [
  ['warn', ['warn', 'error']],
  ['error', ['error']],
] as const)
  test(`at LOG_LEVEL=${logLevel} no line of a lower level is logged`, async () => {
    const account: Resource = { model: 'account', columns: { pin: { type: 'password' } } };
    const service = await startService([account], { logLevel }); // a warning: it shows hashes
    await service.request('/api/account/');
    await service.request('/nowhere');
    await service.sql`drop table account`;
    assert.equal((await service.request('/api/account/')).status, 500);
    await service.close(); // this writes the log
    assert.deepEqual(
      service.lines.map(({ level }) => level),
      levels,
    );
  });
