// The formats of answers: which one a client gets (RFC 9110), and collections as CSV and as JSON lines.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { parseCsv, type CsvRow } from '../../src/query/csv/csv-parser.ts';
import { withoutGuard } from '../../src/query/csv/csv-rows.ts';
import { basic, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized, jsonLinesOf } from './expect.ts';
import { LOOSE, openShelf } from './shelf.ts';
import { exactRequest } from './wire.ts';
import { after, before, describe, test } from 'node:test';

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

let service: TestService;
before(async () => {
  service = await openShelf();
});
after(() => service.close());

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

for (const accept of ['text/csv', NDJSON])
  describe(`a collection as ${accept}`, () => {
    const get = (path: string, user?: string) =>
      service.request(path, { headers: { accept }, ...(user === undefined ? {} : { user }) });

    test('never has excluded columns, and no filter by them', async () => {
      assert.doesNotMatch((await get('/api/book/')).text, /hidden|hushed/);
      assert.doesNotMatch((await get('/api/user/')).text, /password|argon2|email/);
      assertProblem(await get('/api/book/?hidden=hushed'), 400);
    });

    test('is limited to callers who may read it, also in joins', async () => {
      assert.equal((await get('/api/letter/')).status, 401);
      assert.match((await get('/api/letter/', 'bob')).text, /"to Ada"/);
      assertProblem(await get('/api/secret/', 'bob'), 403);
      for (const user of [undefined, 'bob'])
        assertProblem(await get('/api/book/?secret__word=open', user), 400);
      const { text } = await get('/api/book/?secret__word=open', 'ada');
      assert.ok(text.includes('Emma') && !text.includes('Say'), text);
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
      // prettier-ignore
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

  test('that fails at its first row is a problem document', async () => {
    await service.sql`alter table book rename column title to moved`;
    try {
      assertProblem(await get('/api/book/'), 500);
    } finally {
      await service.sql`alter table book rename column moved to title`;
    }
  });
});
