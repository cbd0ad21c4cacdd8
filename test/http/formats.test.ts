// The formats of answers: which one a client gets (RFC 9110), and collections as CSV and as JSON lines.
import assert from 'node:assert/strict';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { describe, test } from 'node:test';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { buffer } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { type CsvRow, parseCsv } from '../../src/query/csv/csv-parser.ts';
import { withoutGuard } from '../../src/query/csv/csv-rows.ts';
import {
  type Answer,
  basic,
  closedAfter,
  commandPath,
  startService,
  type TestService,
  useService,
  useStarted,
} from '../support.ts';
import { assertProblem, assertUnauthorized, eventually, jsonLinesOf } from './expect.ts';
import { LOOSE, openShelf } from './shelf.ts';
import { exactRequest } from './wire.ts';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';

const JSON_TYPE = 'application/json; charset=utf-8';
const HTML = 'text/html; charset=utf-8';
const CSV = 'text/csv; charset=utf-8; header=present';
const NDJSON = 'application/x-ndjson';
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

const COLLECTION: readonly [accept: string | undefined, type: string | undefined][] = [
  [undefined, JSON_TYPE],
  ['', JSON_TYPE],
  ['*/*', JSON_TYPE],
  ['application/*', JSON_TYPE],
  ['application/json', JSON_TYPE],
  ['Application/JSON; charset=utf-8', JSON_TYPE],
  ['application/json, text/plain, */*', JSON_TYPE],
  ['application/json, text/html', JSON_TYPE],
  ['text/html, application/json', JSON_TYPE],
  ['text/csv;q=0.9, */*;q=0.9', JSON_TYPE],
  ['image/png, */*;q=0.1', JSON_TYPE],
  ['json', JSON_TYPE],
  ['text/csv;q=2', JSON_TYPE],
  [BROWSER, HTML],
  ['text/html', HTML],
  ['text/*', HTML],
  ['TEXT/HTML;Q=0.5, application/json;q=0.4', HTML],
  ['text/*;q=0.9, text/html;q=0.1', CSV],
  ['text/csv', CSV],
  ['text/csv;header=present', CSV],
  ['text/csv; q=0.5, application/json; q=0.1', CSV],
  ['application/json;q=0.5, text/csv', CSV],
  ['text/csv;x="a,b;q=0";q=0.7, application/json;q=0.6', CSV],
  ['*/*, application/json;q=0', HTML],
  ['*/*;q=0.1, text/csv;q=0.2, text/html;q=0', CSV],
  ['application/x-ndjson', NDJSON],
  ['application/*, application/json;q=0.2', NDJSON],
  ['image/png', undefined],
  ['application/xml', undefined],
  ['text/csv;q=0', undefined],
  ['*/*;q=0', undefined],
  ['text/csv;q=0.000, text/plain', undefined],
  [`text/csv${';a=b'.repeat(254)}`, CSV],
  [`text/csv${';a=b'.repeat(255)}`, JSON_TYPE], // more than 1,024 characters
  ['text/plain;x="never ends, text/csv, */*', undefined],
];

const service = useStarted(openShelf);

describe('the format of an answer', () => {
  const get = (path: string, accept: string | undefined, method = 'GET') =>
    exactRequest(service, path, { method, headers: accept === undefined ? {} : { accept } });

  for (const [accept, type] of COLLECTION) {
    test(`for a collection with "${accept ?? 'no header'}" is ${type ?? 'a 406'}`, async () => {
      for (const method of ['GET', 'HEAD']) {
        const answer = await get('/api/book/', accept, method);
        assert.equal(answer.headers.get('vary'), type === NDJSON ? 'Accept-Encoding, Accept' : 'Accept');
        assert.equal(answer.status, type === undefined ? 406 : 200);
        assert.equal(answer.headers.get('content-type'), type ?? 'application/problem+json');
        if (type === undefined && method === 'GET') assertProblem(answer, 406);
      }
    });
  }

  test('for the list of resources and for a record is JSON or HTML', async () => {
    for (const path of ['/api/', '/api', '/api/book/1/', '/api/book/1']) {
      for (const [accept, type] of [
        [undefined, JSON_TYPE],
        ['*/*', JSON_TYPE],
        [BROWSER, HTML],
        ['text/csv, */*;q=0.1', JSON_TYPE],
        ['text/csv', undefined],
        [NDJSON, undefined],
      ] as const) {
        const answer = await get(path, accept);
        assert.equal(answer.headers.get('vary'), 'Accept');
        assert.equal(answer.headers.get('content-type'), type ?? 'application/problem+json');
        if (type === undefined) assertProblem(answer, 406);
      }
    }
  });

  test('for an error is a problem document, or a page if the client prefers one', async () => {
    for (const [path, status] of [
      ['/api/book/?nope=1', 400],
      ['/api/book/99/', 404],
      ['/api/nothing/', 404],
      ['/api/mailbox/', 405],
    ] as const) {
      for (const accept of [undefined, '*/*', 'text/csv', NDJSON, 'image/png']) {
        if (status === 404 && path.includes('book') && accept !== undefined && accept !== '*/*') continue; // 406 takes precedence
        if (path.includes('nope') && accept === 'image/png') continue;
        const answer = await get(path, accept);
        assertProblem(answer, status, `${path} ${accept}`);
        assert.equal(answer.headers.get('vary'), 'Accept');
      }
      const page = await get(path, BROWSER);
      assert.deepEqual([page.status, page.headers.get('content-type')], [status, HTML]);
      assert.equal(page.headers.get('vary'), 'Accept');
    }
  });

  test('for a 401 is always the same', async () => {
    for (const accept of [undefined, BROWSER, 'text/csv', NDJSON, 'image/png', 'application/json']) {
      const answer = await get('/api/letter/', accept);
      assertUnauthorized(answer);
      assert.equal(answer.headers.get('vary'), null);
    }
  });

  test('depends on credentials, too, if they were needed', async () => {
    const headers = { accept: 'text/csv', authorization: basic('bob') };
    const answer = await exactRequest(service, '/api/letter/', { headers });
    assert.equal(answer.headers.get('content-type'), CSV);
    assert.equal(answer.headers.get('vary'), 'Authorization, Accept');
    assert.equal(answer.headers.get('cache-control'), 'no-store');
  });

  test('for a write and a health check depends on nothing', async () => {
    const created = await service.request('/api/letter/', {
      method: 'POST',
      user: 'bob',
      headers: { accept: 'text/csv' },
      body: { text: 'x' },
    });
    assert.equal(created.status, 201);
    assert.equal(created.headers.get('content-type'), JSON_TYPE);
    assert.equal(created.headers.get('vary'), 'Authorization');
    for (const path of ['/healthz', '/readyz']) {
      const answer = await get(path, BROWSER);
      assert.equal(answer.headers.get('vary'), null);
      assert.match(answer.headers.get('content-type') ?? '', /^application\//);
    }
  });

  test('for a page is never a 304, and a 304 for JSON has a Vary header', async () => {
    const tag = (await get('/api/book/1/', undefined)).headers.get('etag') ?? '';
    const again = (accept: string) =>
      exactRequest(service, '/api/book/1/', { headers: { accept, 'if-none-match': tag } });
    const json = await again('*/*');
    assert.deepEqual([json.status, json.headers.get('vary')], [304, 'Accept-Encoding, Accept']);
    const page = await again(BROWSER);
    assert.deepEqual([page.status, page.headers.get('etag')], [200, null]);
  });
});

const HEAD = 'id,title,reader_id,secret_id,isbn,price,data,lent';

describe('a collection as CSV', () => {
  const get = (path: string, user?: string, headers: Record<string, string> = {}) =>
    service.request(path, {
      ...(user === undefined ? {} : { user }),
      headers: { accept: 'text/csv', ...headers },
    });
  const rowsOf = (text: string): CsvRow[] => {
    const rows = parseCsv(text);
    assert.ok(Array.isArray(rows));
    return rows;
  };

  test('has a row of names and a row for each record, with values as PostgreSQL writes them', async () => {
    const { status, text } = await get('/api/book/?ordering=id');
    assert.equal(status, 200);
    const quoted = (cell: string): string => `"${cell.replaceAll('"', '""')}"`;
    assert.equal(
      text,
      [
        HEAD,
        `1,"Emma",1,1,9007199254740993,12.5000000000,${quoted(LOOSE)},false`,
        `2,"'=1+1",,,,,"null",false`,
        `3,${quoted(`Say "hi", <b>you</b> & 'me'`)},2,,5,0.1000000000,"[]",false`,
        '',
      ].join('\r\n'),
    );
  });

  test('has the same records as JSON for the same filters, ordering, limit and page', async () => {
    for (const query of [
      '',
      '?ordering=title',
      '?limit=2',
      '?limit=2&page=2',
      '?title__like=%25m%25',
      '?reader__username=bob',
      '?id=99',
      '?limit=1&page=9',
    ]) {
      const json = await service.request(`/api/book/${query}`);
      const csv = await get(`/api/book/${query}`);
      const rows = rowsOf(csv.text);
      assert.equal(rows[0]?.cells.join(), HEAD);
      const titles = rows.slice(1).map(({ cells }) => withoutGuard(cells[1] ?? ''));
      assert.deepEqual(titles, json.json.objects.map((book: { title: string }) => book.title), query); // prettier-ignore
      const { next, previous } = json.json.meta as Record<string, string>;
      const links = [next && `<${next}>; rel="next"`, previous && `<${previous}>; rel="prev"`].filter(
        Boolean,
      );
      assert.equal(csv.headers.get('link'), links.length > 0 ? links.join(', ') : null, query);
    }
  });

  test('escapes the query in its links', async () => {
    const query = `title__ne=%3E%22%2C%3B&title__ne=a,b'c&limit=1&page=2`;
    const { headers } = await get(`/api/book/?${query}`);
    const links = [...(headers.get('link') ?? '').matchAll(/<([^>]*)>; rel="(\w+)"/g)];
    assert.deepEqual(
      links.map(([, , rel]) => rel),
      ['next', 'prev'],
    );
    for (const [, target = ''] of links) {
      const answer = await get(target);
      assert.equal(answer.status, 200);
      assert.equal(rowsOf(answer.text).length, 2);
    }
  });

  test('has no link that is too long for a header or a request', async () => {
    const { hostname, port } = new URL(service.base);
    const ask = (path: string): Promise<{ status: number | undefined; link: unknown }> =>
      new Promise((resolve, reject) => {
        const client = httpRequest({ hostname, port, path, headers: { accept: 'text/csv' } }, (response) => {
          response.resume();
          resolve({ status: response.statusCode, link: response.headers.link });
        });
        client.on('error', reject).end();
      });
    const long = (text: string): string => `title__ne=${text.repeat(8000 / text.length)}`;
    // If both links do not fit, only the next page has one.
    const both = await ask(`/api/book/?${long('x')}&limit=1&page=2`);
    assert.equal(both.link, `</api/book/?${long('x')}&limit=1&page=3>; rel="next"`);
    // A query that fits only unescaped stays unescaped, unless it would end the link.
    const fitting = await ask(`/api/book/?${long('|^')}&limit=1`);
    assert.equal(fitting.link, `</api/book/?${long('|^')}&limit=1&page=2>; rel="next"`);
    assert.deepEqual(await ask(`/api/book/?${long('<>')}&limit=1`), { status: 414, link: undefined });
  });

  test('outputs all records with paging=none, as a stream', async () => {
    const prefer = 'paging=none';
    const page = await get('/api/book/?limit=1000');
    const all = await get('/api/book/', undefined, { prefer });
    assert.deepEqual([all.status, all.text], [200, page.text]);
    for (const [name, value] of Object.entries({
      'preference-applied': prefer,
      'content-length': null,
      link: null,
    }))
      assert.equal(all.headers.get(name), value, name);
    assert.equal(all.headers.get('content-type'), page.headers.get('content-type'));
    const none = await get('/api/book/?id=-1', undefined, { prefer });
    assert.equal(none.text, `${page.text.split('\r\n')[0]}\r\n`);
    for (const query of ['limit=1', 'page=2', 'x=1'])
      assertProblem(await get(`/api/book/?${query}`, undefined, { prefer }), 400);
    assertProblem(await get('/api/secret/', 'bob', { prefer }), 403);
    const { status, text } = await service.request('/api/book/', {
      method: 'HEAD',
      headers: { accept: 'text/csv', prefer },
    });
    assert.deepEqual([status, text], [200, '']);
  });
});

describe('a collection as a stream', () => {
  const get = (path: string, user?: string, method = 'GET') =>
    service.request(path, { method, headers: { accept: NDJSON }, ...(user === undefined ? {} : { user }) });

  test('has all records that the filters match, one on each line, in the requested order', async () => {
    for (const query of [
      '',
      '?ordering=title',
      '?ordering=-reader__username,id',
      '?lent=false&-id=2',
      '?id=99',
    ]) {
      const { json } = await service.request(`/api/book/${query}`);
      const answer = await get(`/api/book/${query}`);
      assert.equal(answer.status, 200);
      assert.deepEqual(jsonLinesOf(answer.text), json.objects, query);
    }
  });

  test('has each record on one line with all digits, also with line breaks in a json column', async () => {
    const { text } = await get('/api/book/?id=1');
    assert.equal(text.indexOf('\n'), text.length - 1);
    assert.ok(!text.includes('\r'));
    assert.match(text, /"data":\{"b": 1, {2}"a": \[1\.50, 12345678901234567890\], {3}"a": "x\\ny"\}/);
    assert.match(text, /"isbn":"9007199254740993"/);
  });

  test('has no pages: limit and page are 400, together with other errors', async () => {
    const answer = await get('/api/book/?limit=1&page=2&nope=1');
    assertProblem(answer, 400);
    assert.deepEqual(Object.keys(answer.json.errors).sort(), ['limit', 'nope', 'page']);
  });

  test('that fails at its first row is a problem document', async (t) => {
    await service.sql`alter table book rename column title to moved`;
    t.after(async () => service.sql`alter table book rename column moved to title`);
    assertProblem(await get('/api/book/'), 500);
  });
});

// The pages of the API for browsers: contents, links and commands.

const PAGE_HEADERS = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

const unescaped = (text: string): string =>
  text.replace(
    /&(lt|gt|quot|amp|#39);/g,
    (_, name: string) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name] ?? '',
  );
const textOf = (markup: string): string => unescaped(markup.replace(/<[^>]*>/g, ''));
/** The visible text, on one line. */
const readable = ({ text }: Answer): string =>
  textOf((/<main[\s\S]*<\/main>/.exec(text)?.[0] ?? '').replace(/<(?!\/?(?:code|a|b)\b)[^>]*>/g, ' '))
    .replace(/\s+/g, ' ')
    .trim();
const jsonOf = ({ text }: Answer): string =>
  textOf(/<pre class="json">([\s\S]*?)<\/pre>/.exec(text)?.[1] ?? '');
const linksOf = ({ text }: Answer): string[] =>
  [...text.matchAll(/<a\b[^>]*?href="([^"]*)"/g)].map(([, href = '']) => unescaped(href));
const commandsOf = ({ text }: Answer): string[] =>
  [...text.matchAll(/<pre><code>(curl [\s\S]*?)<\/code><\/pre>/g)].map(([, code = '']) => unescaped(code));

describe('the API in a browser', () => {
  const get = (path: string, user?: string, headers: Record<string, string> = {}): Promise<Answer> =>
    service.request(path, {
      ...(user === undefined ? {} : { user }),
      headers: { ...PAGE_HEADERS, ...headers },
    });
  const run = async (command: string): Promise<string> => {
    const env = { PATH: commandPath(), NO_PROXY: '*' };
    const line = command.replace(/-u '(\w+)'/, "-u '$1:pw-$1'").replace('curl ', 'curl -s ');
    return (await promisify(execFile)('sh', ['-c', line], { env })).stdout;
  };

  test('lists the resources as JSON, with links to those that have pages', async () => {
    const page = await get('/api/');
    assert.equal(page.status, 200);
    assert.deepEqual(JSON.parse(jsonOf(page)), (await service.request('/api/')).json);
    const listed = linksOf(page).filter((link) => /^\/api\/\w+\/$/.test(link));
    assert.deepEqual(
      listed,
      ['user', 'secret', 'book', 'letter', 'diary'].map((name) => `/api/${name}/`),
    );
  });

  test('names the columns and operators of filters, and the resources that foreign keys refer to', async () => {
    const text = readable(await get('/api/book/'));
    for (const shown of [
      'reader eq, ne, in, is, lt, lte, gt, gte user',
      'data eq, ne, in, is, contains',
      'title eq, ne, in, is, lt, lte, gt, gte, like, ilike',
    ])
      assert.ok(text.includes(shown), `${shown} is not in ${text}`);
    assert.doesNotMatch(text, /hidden/);
  });

  test('names no software, and neither do the admin area and its files', async () => {
    const paths = new Set([
      '/',
      '/api/',
      '/api/book/',
      '/api/nothing/',
      '/nothing/',
      '/admin/',
      '/admin/-/login/',
    ]);
    for (const path of paths) {
      const { text, headers } = await get(path);
      assert.doesNotMatch(`${text} ${JSON.stringify([...headers])}`, /vitrine/i, path);
      for (const [, file = ''] of text.matchAll(/(?:href|src)="([^"]*\.(?:css|js))"/g)) paths.add(file);
    }
    assert.ok([...paths].some((path) => path.endsWith('.js')));
  });

  test('shows excluded columns to no caller', async () => {
    for (const path of ['/api/', '/api/book/', '/api/book/1/', '/api/user/', '/api/user/1/', '/api/diary/'])
      assert.doesNotMatch((await get(path, 'ada')).text, /hidden<|hushed|password|email|argon2|writer/);
  });

  test('shows the JSON of a collection on several lines', async () => {
    for (const path of [
      '/api/book/',
      '/api/book/?limit=1&page=2&ordering=id',
      '/api/book/?id=99',
      '/api/user/',
    ]) {
      const { json } = await service.request(path);
      const shown = jsonOf(await get(path));
      assert.deepEqual(JSON.parse(shown), json);
      assert.equal(shown.split('\n')[1], '  "meta": {');
    }
  });

  test('shows a record with every digit, in the order of its keys, and escaped', async () => {
    assert.equal(
      jsonOf(await get('/api/book/1/')),
      `{
  "id": 1,
  "title": "Emma",
  "reader_id": 1,
  "secret_id": 1,
  "isbn": "9007199254740993",
  "price": "12.5000000000",
  "data": {
    "b": 1,
    "a": [
      1.50,
      12345678901234567890
    ],
    "a": "x\\ny"
  },
  "lent": false
}`,
    );
    const marked = await get('/api/book/3/');
    assert.deepEqual(JSON.parse(jsonOf(marked)), (await service.request('/api/book/3/')).json);
    assert.doesNotMatch(marked.text, /<b>you/);
  });

  test('links keys, foreign keys and pages, and only pages that exist', async () => {
    const seen = new Set<string>(['']);
    const walk = async (path: string): Promise<void> => {
      if (seen.has(path) || path.startsWith('/admin/')) return;
      seen.add(path);
      const page = await get(path, 'ada');
      assert.equal(page.status, 200, path);
      if (seen.size < 80) for (const link of linksOf(page)) await walk(link.replace(/#.*/, ''));
    };
    await walk('/api/book/?limit=1');
    for (const path of [
      '/api/',
      '/api/book/1/',
      '/api/user/1/',
      '/api/secret/1/',
      '/api/book/?limit=1&page=2',
    ])
      assert.ok(seen.has(path), path);
    // A caller who may not read the secret is asked for credentials.
    assert.ok(linksOf(await get('/api/book/1/')).includes('/api/secret/1/'));
    assert.equal((await get('/api/secret/1/')).status, 401);
  });

  test('accepts every query that the API accepts, also long ones', async () => {
    const ids = `id__in=${Array.from({ length: 999 }, (_, index) => index + 1000).join()}`;
    for (const query of [ids, `title__ne=${'x'.repeat(8000)}`, `title__ne=${'<>'.repeat(1300)}`]) {
      assert.equal((await service.request(`/api/book/?${query}`)).status, 200);
      const page = await get(`/api/book/?${query}&limit=1`);
      assert.equal(page.status, 200);
      for (const link of linksOf(page).filter((one) => one.includes('page=')))
        assert.equal((await get(link)).status, 200);
    }
  });

  test('shows a command that returns the same answer in a shell, with any query', async () => {
    for (const query of [
      '?limit=1',
      `?title__ne=it's+$(echo+x)+%60id%60+"%5C&lent=false`,
      '?data=[]',
      '?id__in=1,2&limit=1&page=2',
    ]) {
      const [command = ''] = commandsOf(await get(`/api/book/${query}`));
      const expected = await service.request(`/api/book/${query}`);
      assert.deepEqual(JSON.parse(await run(command)), expected.json);
    }
    const [record = ''] = commandsOf(await get('/api/letter/1/', 'bob'));
    assert.match(record, /^curl -u 'bob' 'http:/);
    assert.deepEqual(JSON.parse(await run(record)), { id: 1, text: 'to Ada', sender_id: null });
    // A query that needs credentials has a command with them.
    const [joined = ''] = commandsOf(await get('/api/book/?secret__word=open', 'ada'));
    assert.match(joined, /^curl -u 'ada' /);
    const [index = ''] = commandsOf(await get('/api/'));
    assert.deepEqual(JSON.parse(await run(index)), (await service.request('/api/')).json);
  });

  test('shows errors with their status, and each parameter with its message', async (t) => {
    const invalid = await get('/api/book/?nope=%3Cb%3E&limit=a&lent=false&hidden=1&_odd=1');
    assert.equal(invalid.status, 400);
    const text = readable(invalid);
    for (const shown of [
      'The query has parameters that cannot be used.',
      'nope: There is no such column.',
      'limit: Must be a positive whole number',
      'hidden: There is no such column.',
      '_odd: There is no such column.',
    ])
      assert.ok(text.includes(shown), `${shown} is not in ${text}`);
    assert.doesNotMatch(invalid.text, /<b>/);
    for (const [path, status, user] of [
      ['/api/book/?a=%ff', 400],
      [`/api/book/?a=${'x'.repeat(9000)}`, 414],
      ['/api/book/1/?x=1', 400],
      ['/api/?x=1', 400],
      ['/api/book/99/', 404],
      ['/api/nope/', 404],
      ['/api/-/nope.css', 404],
      ['/api/mailbox/', 405],
      ['/api/secret/', 403, 'bob'],
    ] as const) {
      const page = await get(path, user);
      assert.equal(page.status, status, path);
      assert.match(page.text, new RegExp(`<h1>${status} `));
    }
    await service.sql`alter table letter rename to moved`;
    t.after(async () => service.sql`alter table moved rename to letter`);
    const broken = await get('/api/letter/', 'bob');
    assert.equal(broken.status, 500);
    assert.doesNotMatch(broken.text, /relation|moved|letter"/);
    const [, id = ''] = /request <code>([^<]+)</.exec(broken.text) ?? [];
    assert.ok(service.lines.some((line) => line['id'] === id && line['stack']));
  });

  test('has no parameters beside those of the API', async () => {
    for (const path of ['/api/book/?_filter=id', '/api/book/?_count=exact', '/api/book/1/?_format=json'])
      for (const accept of [PAGE_HEADERS.accept, '*/*'])
        assert.equal((await get(path, undefined, { accept })).status, 400, `${path} ${accept}`);
  });

  test('has the security headers of the admin area, and no inline script or style', async () => {
    const { headers: admin } = await get('/admin/-/login/');
    for (const path of ['/api/', '/api/book/', '/api/book/1/', '/api/nope/', '/api/book/?nope=1']) {
      const { headers, text } = await get(path);
      for (const name of [
        'content-security-policy',
        'referrer-policy',
        'x-content-type-options',
        'x-frame-options',
        'cross-origin-opener-policy',
        'cross-origin-resource-policy',
        'cache-control',
      ])
        assert.equal(headers.get(name), admin.get(name), name);
      assert.ok(headers.get('content-security-policy'));
      assert.doesNotMatch(text, /<script|<style|\sstyle=|\son\w+=/);
    }
  });
});

test('a page of the API links to what the caller may read', async (t) => {
  const service = await startService([
    user,
    { model: 'vault', columns: { name: { type: 'string' } }, read: 'admin', access: 'admin' },
    {
      model: 'box',
      columns: { vault: { type: 'foreignKey', references: 'vault' } },
      read: 'user',
      access: 'user',
    },
  ]);
  t.after(() => service.close());
  await service.addUser('bob');
  await service.addUser('ada', { admin: true });
  await service.sql`insert into vault (name) values ('x')`;
  await service.sql`insert into box (vault_id) values (1)`;
  for (const [name, links] of Object.entries({ bob: [], ada: ['/api/vault/1/', '/api/vault/'] })) {
    const page = await service.request('/api/box/', { user: name, headers: PAGE_HEADERS });
    assert.deepEqual(JSON.parse(jsonOf(page)).objects, [{ id: 1, vault_id: 1 }]);
    assert.deepEqual(
      linksOf(page).filter((link) => link.includes('vault')),
      links,
    );
  }
});

test('the pages of a service without users have a style sheet, and no link to the admin area', async (t) => {
  const service = closedAfter(
    t,
    await startService([{ model: 'note', columns: { text: { type: 'text' } } }]),
  );
  for (const path of ['/api/', '/api/note/', '/api/nope/']) {
    const page = await service.request(path, { headers: PAGE_HEADERS });
    const [, style = ''] = /<link rel="stylesheet" href="([^"]*)"/.exec(page.text) ?? [];
    const file = await service.request(style);
    assert.deepEqual([file.status, file.headers.get('content-type')], [200, 'text/css; charset=utf-8']);
    assert.match(file.headers.get('cache-control') ?? '', /immutable/);
    assert.doesNotMatch(page.text, /\/admin\//);
  }
  assert.equal((await service.request('/admin/')).status, 404);
});

// Compression and caching of what anonymous clients read.

const text: Resource = { model: 'text', columns: { content: { type: 'text' } } };
const kept: Resource = { ...text, model: 'kept', cache: 60 };

interface Received {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

describe('responses to anonymous clients', () => {
  const service: TestService = useService(
    [user, text, kept],
    { corsOrigins: ['https://a.example'], trustProxy: 1 },
    async () => {
      await service.addUser('bob');
      for (const table of ['text', 'kept'])
        await service.sql`insert into ${service.sql(table)} (content) select repeat('héllo ', 40) || i from generate_series(1, 500) i`;
      await service.sql`insert into text (content) values ('short')`;
    },
  );

  let clients = 0;
  /** A request whose response is not decoded. Each comes from another client, because many streams of one need a cooldown. */
  const get = (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Received> =>
    new Promise((resolve, reject) => {
      const from = { 'x-forwarded-for': `10.0.${clients >> 8}.${clients++ & 255}` };
      const options = { method, headers: { ...headers, ...from }, agent: false };
      const sent = httpRequest(`${service.base}${path}`, options, (response) => {
        buffer(response).then(
          (body) => resolve({ status: response.statusCode, headers: response.headers, body }),
          reject,
        );
      });
      sent.on('error', reject).end();
    });
  const decode = ({ headers, body }: Received): string => {
    const coding = headers['content-encoding'];
    const plain = coding === 'br' ? brotliDecompressSync(body) : coding === 'gzip' ? gunzipSync(body) : body;
    return plain.toString();
  };

  const codings: [accepted: string | undefined, coding: string | undefined][] = [
    [undefined, undefined],
    ['', undefined],
    ['identity', undefined],
    ['deflate, zstd', undefined],
    ['gzip', 'gzip'],
    ['GZIP;q=0.3, deflate', 'gzip'],
    ['gzip, br', 'br'],
    ['br;q=0, gzip', 'gzip'],
    ['br; q=0.000 , gzip ;q=0', undefined],
    ['*', undefined],
    ['br;q=0.1, gzip;q=1', 'gzip'],
    ['br;q=0.5, gzip;q=0.500', 'br'],
    ['gzip;q=0.5, identity', undefined],
    [`${'x,'.repeat(511)}br`, 'br'],
    [`${'y,'.repeat(511)}gzip`, undefined],
  ];
  for (const [accepted, coding] of codings)
    for (const accept of ['application/json', 'text/csv', 'application/x-ndjson'])
      test(`${accept} with Accept-Encoding: ${accepted?.slice(0, 30)} is sent as ${coding}`, async () => {
        const path = accept.includes('nd') ? '/api/text/' : '/api/text/?limit=100';
        const plain = await get(path, { accept });
        const answer = await get(path, {
          accept,
          ...(accepted !== undefined && { 'accept-encoding': accepted }),
        });
        assert.deepEqual([answer.status, answer.headers['content-encoding']], [200, coding]);
        assert.ok(decode(answer) === plain.body.toString());
        assert.match(answer.headers.vary ?? '', /Accept-Encoding/);
        assert.match(answer.headers.vary ?? '', /Accept(,|$)/);
        if (coding !== undefined) assert.ok(answer.body.length < plain.body.length / 5);
        if (!accept.includes('nd'))
          assert.equal(Number(answer.headers['content-length']), answer.body.length);
      });

  test('are not compressed with credentials or a cookie, and small ones never', async () => {
    const accepts = { 'accept-encoding': 'br, gzip' };
    for (const headers of [{ authorization: basic('bob') }, { cookie: 'a=b' }]) {
      const answer = await get('/api/text/', { ...accepts, ...headers });
      assert.deepEqual([answer.status, answer.headers['content-encoding']], [200, undefined]);
      assert.doesNotMatch(answer.headers.vary ?? '', /Encoding/);
    }
    const small = await get('/api/text/501/', accepts);
    assert.equal(small.headers['content-encoding'], undefined);
    assert.doesNotMatch(small.headers.vary ?? '', /Encoding/);
    const page = await get('/api/text/', { ...accepts, accept: 'text/html' });
    assert.equal(page.headers['content-encoding'], undefined);
  });

  test('have a weak ETag when they are compressed, which answers If-None-Match and never If-Match', async () => {
    await service.sql`update text set content = repeat(content, 10) where id = 1`;
    const plain = await get('/api/text/1/');
    const answer = await get('/api/text/1/', { 'accept-encoding': 'gzip' });
    assert.equal(answer.headers.etag, `W/${plain.headers.etag}`);
    const known = { 'if-none-match': String(answer.headers.etag), 'accept-encoding': 'gzip' };
    const unchanged = await get('/api/text/1/', known);
    assert.deepEqual([unchanged.status, unchanged.headers.etag], [304, answer.headers.etag]);
    const plainly = { 'if-none-match': String(plain.headers.etag) };
    assert.equal((await get('/api/text/1/', plainly)).headers.etag, plain.headers.etag);
    const head = await get('/api/text/1/', { 'accept-encoding': 'gzip' }, 'HEAD');
    for (const name of ['content-encoding', 'content-length', 'etag'])
      assert.equal(head.headers[name], answer.headers[name], name);
  });

  test('are sent while they are found, and a stream that is left before its end is closed', async () => {
    for (let round = 0; round < 20; round += 1) {
      const leave = new AbortController();
      const headers = { accept: 'application/x-ndjson', 'accept-encoding': round % 2 ? 'gzip' : 'br' };
      const answer = await fetch(`${service.base}/api/text/`, { headers, signal: leave.signal });
      if (round % 3) await answer.body?.getReader().read();
      leave.abort();
    }
    await eventually(async () => {
      const [open] = await service.sql`select count(*)::int as count from pg_stat_activity
        where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`;
      return open?.['count'] === 0;
    }, 'the end of all streams');
    const all = { accept: 'application/x-ndjson', 'accept-encoding': 'br' };
    let after = await get('/api/text/', all);
    // So many streams in a row are followed by a short pause.
    await eventually(async () => {
      if (after.status === 429) after = await get('/api/text/', all);
      return after.status === 200;
    }, 'the next stream');
    assert.equal(decode(after).trim().split('\n').length, 501);
  });

  test('many at once are all complete, compressed or not', async () => {
    const [plain] = await Promise.all([get('/api/text/?limit=500')]);
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => get('/api/text/?limit=500', { 'accept-encoding': 'br' })),
    );
    // A busy machine refuses some of them.
    const complete = answers.filter(({ status }) => status === 200);
    assert.ok(complete.length > 0 && answers.every(({ status }) => [200, 429, 503].includes(Number(status))));
    for (const answer of complete) assert.ok(decode(answer) === plain.body.toString());
    assert.ok(complete.some(({ headers }) => headers['content-encoding'] === 'br'));
  });

  test('may be kept by caches where the resource says so, and only without credentials', async () => {
    for (const [path, accept] of [
      ['/api/kept/', 'application/json'],
      ['/api/kept/', 'text/csv'],
      ['/api/kept/1/', 'application/json'],
      ['/api/kept/', 'application/x-ndjson'],
      ['/api/kept/', 'text/html'],
      // A record has no CSV, so this is a page.
      ['/api/kept/1/', 'text/csv, text/html;q=0.5'],
    ] as const) {
      const isPage = accept.includes('text/html');
      const { headers } = await get(path, { accept, origin: 'https://a.example' });
      // A page shows the `Host` of the request that it answers.
      assert.equal(headers['cache-control'], isPage ? 'no-store' : 'public, max-age=60');
      if (!isPage)
        for (const name of ['Authorization', 'Prefer', 'Accept-Encoding'])
          assert.ok(headers.vary?.includes(name), name);
      for (const prefer of [
        'count=exact',
        'count=estimated',
        ...(accept === 'text/csv' ? ['paging=none'] : []),
      ])
        if (path === '/api/kept/' && accept !== 'application/x-ndjson' && !isPage)
          assert.equal((await get(path, { accept, prefer })).headers['cache-control'], undefined, prefer);
      assert.match(headers.vary ?? '', /Origin/);
      const own = await get(path, { accept, authorization: basic('bob') });
      assert.equal(own.headers['cache-control'], 'no-store');
      assert.equal(
        (await get(path.replace('kept', 'text'), { accept })).headers['cache-control'],
        isPage ? 'no-store' : undefined,
      );
    }
    for (const path of ['/api/kept/?limit=0', '/api/kept/9999/', '/api/kept/?x=1'])
      assert.equal((await get(path)).headers['cache-control'], undefined, path);
  });

  test('of a kept collection have an ETag, which changes with the records', async () => {
    const { headers } = await get('/api/kept/?limit=3');
    assert.match(String(headers.etag), /^W\/"[\w-]+"$/);
    const ask = async (): Promise<unknown> =>
      (await get('/api/kept/?limit=3', { 'if-none-match': String(headers.etag) })).status;
    assert.equal(await ask(), 304);
    await service.sql`update kept set content = 'other' where id = 2`;
    assert.equal(await ask(), 200);
    assert.equal((await get('/api/text/?limit=3')).headers.etag, undefined);
  });

  test('of a kept collection have no ETag if they are large', async () => {
    await service.sql`insert into kept (content) select repeat('x', 600000) from generate_series(1, 2)`;
    for (const [limit, hasTag] of [
      [1, true],
      [2, false],
    ] as const) {
      const { status, headers } = await get(`/api/kept/?ordering=-id&limit=${limit}`);
      assert.equal(status, 200);
      assert.equal(headers['cache-control'], 'public, max-age=60');
      assert.equal(headers.etag !== undefined, hasTag);
    }
  });
});
