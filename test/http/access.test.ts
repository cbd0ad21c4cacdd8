import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type IncomingMessage, request as send } from 'node:http';
import { once } from 'node:events';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import {
  type Answer,
  basic,
  closedAfter,
  type RequestOptions,
  startService,
  type TestService,
  useService,
  pluck,
} from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress } from './expect.ts';
import { attemptLogin, openBrowser } from '../admin/support.ts';
import { exactRequest } from './wire.ts';
import { API_STYLE_PATH, scriptPath, STYLE_PATH } from '../../src/admin/web/assets.ts';

const LEVELS = ['default', 'user', 'admin'] as const;
type Level = (typeof LEVELS)[number];

const columns = { title: { type: 'string', default: 'untitled' } } as const;
const nameOf = (access: Level, read: Level): string => `write_${access}_read_${read}`;
const pairs = LEVELS.flatMap((access) => LEVELS.map((read) => [access, read] as const));

/** Callers, and the answers where a level needs a user or an admin: 0 is success. */
const CALLERS: readonly [caller: string, authorization: string | undefined, user: number, admin: number][] = [
  ['nobody', undefined, 401, 401],
  ['a malformed header', 'Basic ?', 401, 401],
  ['another scheme', 'Bearer YWRhOnB3LWFkYQ==', 401, 401],
  ['an unknown user', basic('ghost'), 401, 401],
  ['a wrong password', basic('bob', 'wrong'), 401, 401],
  ['an inactive admin', basic('zoe'), 401, 401],
  ['a user', basic('bob'), 0, 403],
  ['an admin', basic('ada'), 0, 0],
];

describe('access levels', () => {
  const matrix = pairs.map(([access, read]): Resource => ({
    model: nameOf(access, read),
    columns,
    access,
    read,
  }));
  const service: TestService = useService([user, ...matrix], { trustProxy: 1 }, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
    await service.addUser('zoe', { admin: true, active: false });
    for (const { model } of matrix) await service.sql`insert into ${service.sql(model)} default values`;
  });

  const ask = (method: string, path: string, authorization: string | undefined): Promise<Answer> =>
    service.request(path, {
      method,
      headers: { ...fromNewAddress(), ...(authorization === undefined ? {} : { authorization }) },
      body: method === 'POST' || method === 'PUT' ? { title: 'x' } : undefined,
    });

  /** Adds a record, and gives its path. */
  async function newRecord(model: string): Promise<string> {
    const [row] = await service.sql`insert into ${service.sql(model)} default values returning id`;
    return `/api/${model}/${row?.['id']}/`;
  }

  for (const [access, read] of pairs) {
    test(`write level ${access} and read level ${read} apply to every method and caller`, async () => {
      const model = nameOf(access, read);
      for (const [caller, authorization, atUser, atAdmin] of CALLERS) {
        const reading = { default: 0, user: atUser, admin: atAdmin }[read];
        const writing = { default: 401, user: atUser, admin: atAdmin }[access];
        for (const [method, path, expected, success] of [
          ['GET', `/api/${model}/`, reading, 200],
          ['HEAD', `/api/${model}/`, reading, 200],
          ['GET', await newRecord(model), reading, 200],
          ['HEAD', await newRecord(model), reading, 200],
          ['POST', `/api/${model}/`, writing, 201],
          ['PUT', await newRecord(model), writing, 200],
          ['DELETE', await newRecord(model), writing, 200],
        ] as const) {
          const answer = await ask(method, path, authorization);
          const label = `${method} ${path} by ${caller}`;
          if (expected === 0) assert.equal(answer.status, success, label);
          else if (method === 'HEAD') assert.deepEqual([answer.status, answer.text], [expected, ''], label);
          else if (expected === 401) assertUnauthorized(answer, label);
          else assertProblem(answer, expected, label);
        }
      }
    });
  }
});

/** A valid request. Each fault below changes some of its keys. */
interface Draft {
  method: string;
  /** The path before the model. */
  root: string;
  model: string;
  id: string;
  query: string;
  authorization: string;
  contentType: string;
  ifMatch: string;
  body: string;
}

interface Fault {
  readonly name: string;
  readonly status: number;
  /** Its position in the order of checks. Faults of one rank have no order. */
  readonly rank: number;
  readonly changes: Partial<Draft>;
}

const MAX_BODY = 2000;
const taken = JSON.stringify({ title: 'taken' });

const FAULTS: readonly Fault[] = [
  { rank: 0, status: 404, name: 'an unknown path', changes: { root: '/apis' } },
  { rank: 0, status: 404, name: 'an unknown model', changes: { model: 'nothing' } },
  { rank: 1, status: 405, name: 'a method that no path allows', changes: { method: 'PURGE' } },
  { rank: 1, status: 405, name: 'a method that the resource does not list', changes: { model: 'sealed' } },
  { rank: 2, status: 401, name: 'no credentials', changes: { authorization: '' } },
  { rank: 2, status: 401, name: 'wrong credentials', changes: { authorization: basic('bob', 'wrong') } },
  { rank: 2, status: 401, name: 'a malformed header', changes: { authorization: 'Basic bob' } },
  { rank: 2, status: 401, name: 'the default level', changes: { model: 'plain' } },
  { rank: 3, status: 403, name: 'the admin level', changes: { model: 'vault' } },
  {
    rank: 4,
    status: 413,
    name: 'a body too large',
    changes: { body: `{"title":"${'x'.repeat(MAX_BODY)}"}` },
  },
  { rank: 4, status: 415, name: 'another content type', changes: { contentType: 'text/plain' } },
  { rank: 4, status: 400, name: 'a body that is not JSON', changes: { body: '{"title":' } },
  { rank: 4, status: 400, name: 'an unknown field', changes: { body: '{"nope":1}' } },
  { rank: 4, status: 400, name: 'a reference to a missing record', changes: { body: '{"shelf_id":99}' } },
  {
    rank: 4,
    status: 400,
    name: 'a value that breaks a rule',
    changes: { body: `{"title":"${'x'.repeat(256)}"}` },
  },
  { rank: 4, status: 400, name: 'another id', changes: { body: '{"id":98}' } },
  { rank: 4, status: 400, name: 'a parameter', changes: { query: '?title=x' } },
  { rank: 5, status: 404, name: 'a missing record', changes: { id: '99' } },
  { rank: 5, status: 404, name: 'an id of another type', changes: { id: 'abc' } },
  { rank: 6, status: 403, name: 'another owner', changes: { id: '2' } },
  { rank: 7, status: 412, name: 'a stale If-Match', changes: { ifMatch: '"stale"' } },
  { rank: 8, status: 409, name: 'a duplicate', changes: { body: taken } },
];

/** A DELETE has no body. Its conflict is a record that others reference. */
const DELETE_FAULTS: readonly Fault[] = [
  ...FAULTS.filter(({ changes }) => changes.body === undefined && changes.contentType === undefined),
  { rank: 8, status: 409, name: 'a record that others reference', changes: {} },
];

const shares = (a: Fault, b: Fault): boolean => Object.keys(a.changes).some((key) => key in b.changes);

function pairsOf(faults: readonly Fault[]): [first: Fault, second: Fault][] {
  return faults.flatMap((first) =>
    faults
      .filter((second) => first.rank < second.rank && !shares(first, second))
      .map((second): [Fault, Fault] => [first, second]),
  );
}

describe('of two faults, the first in the order of checks is reported', () => {
  const shelf: Resource = { model: 'shelf', columns: {} };
  const columns: Resource['columns'] = {
    title: { type: 'string', unique: true },
    owner: { type: 'foreignKey', references: 'user', null: true },
    shelf: { type: 'foreignKey', references: 'shelf', null: true },
  };
  const book: Resource = { model: 'book', columns, access: 'user', owner: 'owner' };
  const rest: Resource[] = [
    { ...book, model: 'sealed', methods: ['GET', 'POST'] },
    { ...book, model: 'plain', access: 'default' },
    { ...book, model: 'vault', access: 'admin' },
  ];
  const models = [book, ...rest];
  const loans = models.map(({ model }): Resource => ({
    model: `loan_of_${model}`,
    columns: { of: { type: 'foreignKey', references: model } },
  }));
  const service: TestService = useService(
    [user, shelf, ...models, ...loans],
    { maxBody: MAX_BODY, trustProxy: 1 },
    async () => {
      const bob = await service.addUser('bob');
      const eve = await service.addUser('eve');
      for (const { model } of models) {
        const titles = [
          { title: 'mine', owner_id: bob },
          { title: 'hers', owner_id: eve },
          { title: 'taken', owner_id: bob },
        ];
        await service.sql`insert into ${service.sql(model)} ${service.sql(titles)}`;
        await service.sql`insert into ${service.sql(`loan_of_${model}`)} (of_id) values (1), (2)`;
      }
    },
  );

  /** A request of Bob to his own record, with faults. */
  function ask(method: string, ...faults: readonly Fault[]): Promise<Answer> {
    const draft: Draft = {
      method,
      root: '/api',
      model: 'book',
      id: '1',
      query: '',
      authorization: basic('bob'),
      contentType: 'application/json',
      ifMatch: '*',
      body: JSON.stringify({ title: 'mine' }),
    };
    for (const { changes } of faults) Object.assign(draft, changes);
    const { root, model, id, query, authorization, contentType, ifMatch, body } = draft;
    const hasBody = draft.method !== 'DELETE';
    return service.request(`${root}/${model}/${id}/${query}`, {
      method: draft.method,
      headers: {
        ...fromNewAddress(),
        ...(authorization === '' ? {} : { authorization }),
        ...(hasBody ? { 'content-type': contentType } : {}),
        'if-match': ifMatch,
      },
      body: hasBody ? body : undefined,
    });
  }

  function assertFault(answer: Answer, { status, name }: Fault, other = ''): void {
    if (status === 401) assertUnauthorized(answer, `${name} ${other}`);
    else assertProblem(answer, status, `${name} ${other}`);
  }

  const rows = () => service.sql`select b.*, xmin::text as version from book b order by id`;

  for (const [method, faults] of Object.entries({ PUT: FAULTS, DELETE: DELETE_FAULTS })) {
    test(`each fault of a ${method} has its status`, async () => {
      for (const fault of faults) assertFault(await ask(method, fault), fault);
    });

    for (const first of faults) {
      const pairs = pairsOf(faults).filter(([fault]) => fault === first);
      if (pairs.length === 0) continue;
      test(`${method}: ${first.name} (${first.status}) takes precedence over later checks`, async () => {
        const before = await rows();
        for (const [, second] of pairs)
          assertFault(await ask(method, first, second), first, `with ${second.name}`);
        assert.deepEqual(await rows(), before);
      });
    }
  }

  test('a PUT without a fault is 200', async () => {
    assert.equal((await ask('PUT')).status, 200);
  });

  test('a POST is checked in the same order', async () => {
    const post = (model: string, headers: Record<string, string>, body: string): Promise<Answer> =>
      service.request(`/api/${model}/`, {
        method: 'POST',
        headers: { ...fromNewAddress(), 'content-type': 'application/json', ...headers },
        body,
      });
    const bob = { authorization: basic('bob') };
    assertProblem(await post('nothing', {}, '{'), 404);
    assertProblem(await post('vault/1', {}, '{'), 405);
    assertUnauthorized(await post('loan_of_book/1', {}, '{'));
    assertUnauthorized(await post('plain', bob, '{'));
    assertUnauthorized(await post('vault', {}, '{'));
    assertProblem(await post('vault', bob, '{'), 403);
    assertProblem(await post('book', bob, '{"title":"taken","nope":1}'), 400);
    assertProblem(await post('book', bob, '{"title":"taken","shelf_id":99}'), 400);
    assertProblem(await post('book', { ...bob, 'content-type': 'text/plain' }, taken), 415);
    assertProblem(await post('book', bob, taken), 409);
  });
});

const LISTED = 'https://app.example.org';
/** How browsers reach the service through a proxy that sends another Host. */
const PUBLIC = ['https://books.example:8443', 'http://books.internal'] as const;
const plain = { model: 'plain', columns: {} } as const;

describe('requests from web pages', () => {
  let service: TestService;
  let closed: TestService;
  before(async () => {
    service = await startService([user, note, plain], {
      corsOrigins: [LISTED, 'http://localhost:3000', 'https://*.preview.example:8443'],
      publicUrl: PUBLIC,
      trustProxy: 1,
    });
    closed = await startService([user, note]);
    for (const each of [service, closed]) {
      await each.addUser('bob');
      await each.addUser('ada', { admin: true });
      await each.sql`insert into note (message) values ('one')`;
    }
  });
  after(async () => {
    await service.close();
    await closed.close();
  });

  const own = (): string => service.base;

  /** The headers that a browser adds, and whether a write with them is accepted. */
  const cases: readonly [name: string, headers: () => Record<string, string>, isAccepted: boolean][] = [
    ['no browser headers', () => ({}), true],
    ['Sec-Fetch-Site: same-origin', () => ({ 'sec-fetch-site': 'same-origin' }), true],
    ['Sec-Fetch-Site: none', () => ({ 'sec-fetch-site': 'none' }), true],
    ['Sec-Fetch-Site: same-site', () => ({ 'sec-fetch-site': 'same-site' }), false],
    ['Sec-Fetch-Site: cross-site', () => ({ 'sec-fetch-site': 'cross-site' }), false],
    ['the service’s own origin', () => ({ origin: own() }), true],
    ['its own origin and same-origin', () => ({ origin: own(), 'sec-fetch-site': 'same-origin' }), true],
    ['a foreign origin', () => ({ origin: 'https://evil.example' }), false],
    ['a foreign origin that claims same-origin', () => ({ origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' }), false],
    ['its own origin, but cross-site', () => ({ origin: own(), 'sec-fetch-site': 'cross-site' }), false],
    ['the origin null', () => ({ origin: 'null' }), false],
    ['an invalid origin', () => ({ origin: 'nonsense' }), false],
    ['an empty origin', () => ({ origin: '' }), false],
    ['its own host at another port', () => ({ origin: 'http://127.0.0.1:1' }), false],
    ['a host that starts like its own', () => ({ origin: own().replace('127.0.0.1', '127.0.0.1.evil.example') }), false],
    ['a listed origin', () => ({ origin: LISTED, 'sec-fetch-site': 'cross-site' }), true],
    ['another listed origin', () => ({ origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' }), true],
    ['a listed origin over another scheme', () => ({ origin: LISTED.replace('https', 'http') }), false],
    ['a listed origin at another port', () => ({ origin: `${LISTED}:444` }), false],
    ['a listed origin in another case', () => ({ origin: LISTED.toUpperCase() }), false],
    ['a subdomain of a listed origin', () => ({ origin: 'https://x.app.example.org' }), false],
    ['one label in place of a wildcard', () => ({ origin: 'https://pr-7.preview.example:8443' }), true],
    ['two labels in place of a wildcard', () => ({ origin: 'https://a.b.preview.example:8443' }), false],
    ['no label in place of a wildcard', () => ({ origin: 'https://preview.example:8443' }), false],
    ['an empty label in place of a wildcard', () => ({ origin: 'https://.preview.example:8443' }), false],
    ['a wildcard at another port', () => ({ origin: 'https://pr-7.preview.example' }), false],
    ['a wildcard over another scheme', () => ({ origin: 'http://pr-7.preview.example:8443' }), false],
    ['a host that ends like a wildcard', () => ({ origin: 'https://x.evilpreview.example:8443' }), false],
    ['a public URL, and an inner name as Host', () => ({ origin: PUBLIC[0], host: 'inner' }), true],
    ['a public URL, and Host without the port', () => ({ origin: PUBLIC[0], host: 'books.example' }), true],
    ['another public URL, and same-origin', () => ({ origin: PUBLIC[1], host: 'inner', 'sec-fetch-site': 'same-origin' }), true],
    ['a public URL, but cross-site', () => ({ origin: PUBLIC[0], 'sec-fetch-site': 'cross-site' }), false],
    ['a public URL at another port', () => ({ origin: 'https://books.example' }), false],
    ['a listed origin with a path', () => ({ origin: `${LISTED}/x` }), false],
    ['the origin of a proxy with TLS', () => ({ origin: 'https://api.example.org', host: 'api.example.org', 'x-forwarded-proto': 'https' }), true],
    [
      'the origin of a proxy with TLS, and X-Forwarded-Proto in capitals',
      () => ({ origin: 'https://api.example.org', host: 'api.example.org', 'x-forwarded-proto': 'HTTPS' }),
      true,
    ],
    ['its own origin with the default port in Host', () => ({ origin: 'https://api.example.org', host: 'api.example.org:443', 'x-forwarded-proto': 'https' }), true],
    ['its own host with another scheme than the proxy', () => ({ origin: 'http://api.example.org', host: 'api.example.org', 'x-forwarded-proto': 'https' }), false],
  ]; // prettier-ignore
  for (const [name, headers, isAccepted] of cases) {
    test(`a write with ${name} is ${isAccepted ? 'accepted' : '403, and writes nothing'}`, async () => {
      const rows = () => service.sql`select * from note order by id`;
      const before = await rows();
      const send = (method: string, path: string, body?: unknown): Promise<Answer> =>
        exactRequest(service, path, { method, user: 'bob', headers: headers(), body });
      const answers = [
        await send('POST', '/api/note/', { message: 'two' }),
        await send('PUT', '/api/note/1/', { message: 'one' }),
        await send('DELETE', '/api/note/999/'),
      ];
      if (isAccepted) assert.deepEqual(pluck(answers, 'status'), [201, 200, 404]);
      else {
        for (const answer of answers) assertProblem(answer, 403);
        assert.deepEqual(await rows(), before);
      }
    });
  }

  test('a write from another site without credentials is 401 like any other', async () => {
    const headers = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    assertUnauthorized(await exactRequest(service, '/api/note/', { method: 'POST', headers, body: {} }));
    assertUnauthorized(
      await exactRequest(service, '/api/plain/', { method: 'POST', user: 'bob', headers, body: {} }),
    );
  });

  test('reads are accepted from every page', async () => {
    const headers = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    for (const method of ['GET', 'HEAD', 'OPTIONS']) {
      const { status } = await exactRequest(service, '/api/note/', { method, headers });
      assert.equal(status, method === 'OPTIONS' ? 204 : 200);
    }
  });

  const CORS = /^access-control-/;
  const corsOf = ({ headers }: Answer): Record<string, string> =>
    Object.fromEntries([...headers].filter(([name]) => CORS.test(name)));
  const listOf = (header: string | null): string[] =>
    (header ?? '').split(',').map((item) => item.trim().toLowerCase());

  test('a listed origin may read every answer, also errors, and the headers that clients need', async () => {
    for (const [method, path, status] of [
      ['GET', '/api/note/', 200],
      ['GET', '/api/note/1/', 200],
      ['GET', '/api/note/999/', 404],
      ['GET', '/api/note/?x=1', 400],
      ['GET', '/nowhere', 404],
      ['PATCH', '/api/note/', 405],
      ['POST', '/api/note/', 401],
    ] as const) {
      const answer = await exactRequest(service, path, { method, headers: { origin: LISTED } });
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get('access-control-allow-origin'), LISTED);
      assert.ok(listOf(answer.headers.get('vary')).includes('origin'));
      const exposed = listOf(answer.headers.get('access-control-expose-headers'));
      for (const name of ['etag', 'link', 'location', 'retry-after', 'x-total-count'])
        assert.ok(exposed.includes(name), name);
    }
  });

  test('other origins get no CORS headers, and without listed origins no origin does', async () => {
    for (const [target, origin] of [
      [service, 'https://evil.example'],
      [service, 'null'],
      [service, undefined],
      [closed, LISTED],
      [closed, closed.base],
    ] as const) {
      for (const method of ['GET', 'OPTIONS']) {
        const headers = {
          ...(origin === undefined ? {} : { origin }),
          'access-control-request-method': 'POST',
        };
        const answer = await exactRequest(target, '/api/note/', { method, headers });
        assert.deepEqual(corsOf(answer), {});
      }
    }
  });

  test('an answer that depends on the origin says so in Vary for every caller', async () => {
    for (const headers of [{}, { origin: 'https://evil.example' }, { origin: LISTED }]) {
      const answer = await exactRequest(service, '/api/note/', { user: 'bob', headers });
      const vary = listOf(answer.headers.get('vary'));
      assert.ok(vary.includes('origin') && vary.includes('authorization'), vary.join());
    }
  });

  test('a preflight of a listed origin allows the methods and headers of the API, without credentials', async () => {
    for (const path of ['/api/note/', '/api/note/1/', '/api/plain/']) {
      const { status, headers, text } = await exactRequest(service, path, {
        method: 'OPTIONS',
        headers: {
          origin: LISTED,
          'access-control-request-method': 'PUT',
          'access-control-request-headers': 'authorization,content-type,if-match',
        },
      });
      assert.deepEqual([status, text], [204, '']);
      assert.equal(headers.get('access-control-allow-origin'), LISTED);
      const methods = listOf(headers.get('access-control-allow-methods'));
      for (const method of ['get', 'post', 'put', 'delete']) assert.ok(methods.includes(method), method);
      const allowed = listOf(headers.get('access-control-allow-headers'));
      for (const name of ['authorization', 'content-type', 'if-match', 'if-none-match', 'prefer'])
        assert.ok(allowed.includes(name), name);
      assert.ok(listOf(headers.get('vary')).includes('origin'));
    }
  });

  test('a preflight of a listed origin allows the headers that it asks for, and one of another origin none', async () => {
    const asked = 'traceparent,baggage,sentry-trace,x-requested-with, x-anything';
    for (const [origin, isListed] of [
      [LISTED, true],
      ['https://pr-7.preview.example:8443', true],
      ['https://evil.example', false],
      [PUBLIC[0], false],
    ] as const) {
      const { status, headers } = await exactRequest(service, '/api/note/', {
        method: 'OPTIONS',
        headers: {
          origin,
          'access-control-request-method': 'POST',
          'access-control-request-headers': asked,
        },
      });
      assert.equal(status, 204);
      const allowed = listOf(headers.get('access-control-allow-headers'));
      for (const name of listOf(asked)) assert.equal(allowed.includes(name), isListed, `${origin} ${name}`);
      assert.equal(listOf(headers.get('vary')).includes('access-control-request-headers'), isListed);
    }
    const answer = await exactRequest(service, '/api/note/', {
      method: 'OPTIONS',
      headers: {
        origin: LISTED,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'x y; z',
      },
    });
    assert.doesNotMatch(answer.headers.get('access-control-allow-headers') ?? '', /x y/);
  });

  test('the admin area accepts a public URL as its own origin, and no origin of CORS_ORIGINS', async () => {
    for (const [headers, status] of [
      [{ origin: PUBLIC[0], host: 'inner:8000' }, 303],
      [{ origin: PUBLIC[0], host: 'books.example', 'sec-fetch-site': 'same-origin' }, 303],
      [{ origin: PUBLIC[1], host: 'inner' }, 303],
      [{ origin: LISTED, host: 'inner' }, 403],
      [{ origin: 'https://books.example', host: 'inner' }, 403],
    ] as const)
      assert.equal(
        (await attemptLogin(service, 'ada', 'pw-ada', openBrowser(service), headers)).status,
        status,
        JSON.stringify(headers),
      );
  });

  test('a refusal names the origin and the host that differ, and the settings that accept it', async () => {
    const headers = { origin: 'https://books.example:8443', host: 'books.example' };
    const reason =
      'Writes from the origin https://books.example:8443 are not allowed, because the service was requested as books.example. If browsers reach it at that origin, add the origin to PUBLIC_URL';
    const login = await attemptLogin(closed, 'bob', 'pw-bob', openBrowser(closed), headers);
    assert.equal(login.status, 403);
    assert.ok(login.text.includes(`${reason}.`), login.text);
    const answer = await exactRequest(closed, '/api/note/', {
      method: 'POST',
      user: 'bob',
      headers,
      body: {},
    });
    assertProblem(answer, 403);
    assert.equal(answer.json.detail, `${reason}, or CORS_ORIGINS if it belongs to another application.`);
  });

  test('links use the public URL of the requested host, else the first', async () => {
    for (const [host, base] of Object.entries({ 'books.internal': PUBLIC[1], 'inner:8000': PUBLIC[0] })) {
      const { text } = await exactRequest(service, '/api/note/', { headers: { host, accept: 'text/html' } });
      assert.ok(text.includes(`${base}/api/note/`), text);
      assert.ok(!text.includes('inner:8000'), text);
    }
  });
});

// RATE_LIMIT: each client may send so many requests in a second, and so many at once.

const BURST = 5;
/** So many more than the burst that some are refused, even if the machine stalls for seconds. */
const MANY = 40;

describe('a client over RATE_LIMIT', () => {
  const service: TestService = useService(undefined, { rateLimit: `1,${BURST}`, trustProxy: 1 }, () =>
    service.addUser('ada', { admin: true }),
  );
  let clients = 0;

  const newAddress = (): string => `192.0.2.${(clients += 1)}`;

  const ask = (address: string, path: string, options: RequestOptions = {}): Promise<Answer> =>
    service.request(path, { ...options, headers: { 'x-forwarded-for': address, ...options.headers } });

  /** Uses up the requests of an address. @returns the first refusal */
  async function useUp(address: string, path = '/api/note/', options: RequestOptions = {}): Promise<Answer> {
    for (let count = 0; count < MANY; count += 1) {
      const answer = await ask(address, path, options);
      if (answer.status === 429) return answer;
    }
    throw new Error('was never refused');
  }

  test('gets 429 with Retry-After as a problem document, but not before the burst is used up', async () => {
    const address = newAddress();
    for (let count = 0; count < BURST; count += 1)
      assert.equal((await ask(address, '/api/note/')).status, 200);
    const { status, headers, json } = await useUp(address);
    assert.equal(status, 429);
    assert.equal(headers.get('retry-after'), '1');
    assert.equal(headers.get('content-type'), 'application/problem+json');
    assert.equal(json.detail, 'You are sending too many requests. Try again later.');
  });

  test('gets a page in a browser, in the API and in the admin area', async () => {
    const headers = { accept: 'text/html' };
    for (const path of ['/api/note/', '/admin/-/login/']) {
      const answer = await useUp(newAddress(), path, { headers });
      assert.match(answer.headers.get('content-type') ?? '', /^text\/html/);
      assert.match(answer.text, /You are sending too many requests/);
      assert.equal(answer.headers.get('retry-after'), '1');
    }
  });

  test('is counted apart from other addresses, and unknown paths count, too', async () => {
    await useUp(newAddress(), '/nothing');
    assert.equal((await ask(newAddress(), '/api/note/')).status, 200);
  });

  test('is refused before the body of the request is read', async () => {
    const address = newAddress();
    await useUp(address);
    const headers = { 'x-forwarded-for': address, 'content-length': '100', expect: '100-continue' };
    for (let tries = 0; ; tries += 1) {
      const outgoing = send(`${service.base}/api/note/`, { method: 'POST', headers, agent: false });
      outgoing.on('error', () => undefined);
      outgoing.flushHeaders(); // and no body
      const refused = once(outgoing, 'response').then(([response]) => response as IncomingMessage);
      const read = once(outgoing, 'continue').then(() => undefined);
      read.catch(() => undefined);
      const response = await Promise.race([refused, read]);
      outgoing.destroy();
      if (response?.statusCode === 429) break;
      assert.ok(tries < MANY, 'every body was read');
    }
  });

  test('still gets health checks and the files of the pages', async () => {
    const address = newAddress();
    await useUp(address);
    for (const path of [
      '/healthz',
      '/healthz/',
      '/readyz',
      '/readyz/',
      STYLE_PATH,
      scriptPath(),
      API_STYLE_PATH,
    ])
      for (let count = 0; count < 2 * BURST; count += 1) assert.equal((await ask(address, path)).status, 200);
  });

  for (const path of ['/api/-/0.css', '/api/-/style-000000000000.css', '/admin/-/no-such-file.js'])
    test(`of requests for ${path}, which does not exist, gets 429 like for any other path`, async () => {
      await useUp(newAddress(), path);
    });

  test('is counted in the metrics, which are not counted themselves', async () => {
    const scrape = async (): Promise<number> => {
      const text = await service.metrics();
      return Number(/^vitrine_http_requests_limited_total (\d+)$/m.exec(text)?.[1]);
    };
    const first = await scrape();
    await useUp(newAddress());
    for (let count = 0; count < 2 * BURST; count += 1) assert.equal(await scrape(), first + 1);
  });

  test('is the user if the credentials were verified before, also if others at the address send requests', async () => {
    const address = newAddress();
    const authorization = basic('ada');
    const body = { message: 'x' };
    const write = (from: string): Promise<Answer> =>
      ask(from, '/api/note/', { method: 'POST', headers: { authorization }, body });
    assert.equal((await write(address)).status, 201); // counts for the address
    await useUp(address);
    assert.equal((await write(address)).status, 201);
    await useUp(address, '/api/note/', { headers: { authorization } });
    // The user is at the limit everywhere where the credentials are remembered; elsewhere, the address counts.
    assert.equal((await write(newAddress())).status, 201);
  });

  test('is the address if the credentials are made up', async () => {
    const address = newAddress();
    for (let count = 0; ; count += 1) {
      const { status } = await ask(address, '/api/note/', {
        headers: { authorization: basic(`name${count}`) },
      });
      if (status === 429) break;
      assert.ok(count < MANY, 'each made-up name was counted apart');
    }
  });
});

test('without RATE_LIMIT no number of requests is refused', async (t) => {
  const service = closedAfter(t, await startService());
  for (let count = 0; count < 100; count += 1)
    assert.equal((await service.request('/api/note/')).status, 200);
});
