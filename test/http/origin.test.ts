import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { attemptLogin, openBrowser } from '../admin/support.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized } from './expect.ts';
import { exactRequest } from './wire.ts';
import { after, before, describe, test } from 'node:test';

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
    [
      'a foreign origin that claims same-origin',
      () => ({ origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' }),
      false,
    ],
    ['its own origin, but cross-site', () => ({ origin: own(), 'sec-fetch-site': 'cross-site' }), false],
    ['the origin null', () => ({ origin: 'null' }), false],
    ['an invalid origin', () => ({ origin: 'nonsense' }), false],
    ['an empty origin', () => ({ origin: '' }), false],
    ['its own host at another port', () => ({ origin: 'http://127.0.0.1:1' }), false],
    [
      'a host that starts like its own',
      () => ({ origin: own().replace('127.0.0.1', '127.0.0.1.evil.example') }),
      false,
    ],
    ['a listed origin', () => ({ origin: LISTED, 'sec-fetch-site': 'cross-site' }), true],
    [
      'another listed origin',
      () => ({ origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' }),
      true,
    ],
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
    [
      'another public URL, and same-origin',
      () => ({ origin: PUBLIC[1], host: 'inner', 'sec-fetch-site': 'same-origin' }),
      true,
    ],
    ['a public URL, but cross-site', () => ({ origin: PUBLIC[0], 'sec-fetch-site': 'cross-site' }), false],
    ['a public URL at another port', () => ({ origin: 'https://books.example' }), false],
    ['a listed origin with a path', () => ({ origin: `${LISTED}/x` }), false],
    [
      'the origin of a proxy with TLS',
      () => ({ origin: 'https://api.example.org', host: 'api.example.org', 'x-forwarded-proto': 'https' }),
      true,
    ],
    [
      'the origin of a proxy with TLS, and X-Forwarded-Proto in capitals',
      () => ({ origin: 'https://api.example.org', host: 'api.example.org', 'x-forwarded-proto': 'HTTPS' }),
      true,
    ],
    [
      'its own origin with the default port in Host',
      () => ({
        origin: 'https://api.example.org',
        host: 'api.example.org:443',
        'x-forwarded-proto': 'https',
      }),
      true,
    ],
    [
      'its own host with another scheme than the proxy',
      () => ({ origin: 'http://api.example.org', host: 'api.example.org', 'x-forwarded-proto': 'https' }),
      false,
    ],
  ];
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
      if (isAccepted)
        assert.deepEqual(
          answers.map(({ status }) => status),
          [201, 200, 404],
        );
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
    for (const [host, base] of [
      ['books.internal', PUBLIC[1]],
      ['inner:8000', PUBLIC[0]],
    ] as const) {
      const { text } = await exactRequest(service, '/api/note/', { headers: { host, accept: 'text/html' } });
      assert.ok(text.includes(`${base}/api/note/`), text);
      assert.ok(!text.includes('inner:8000'), text);
    }
  });
});
