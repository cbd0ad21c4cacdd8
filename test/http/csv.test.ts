// Collections as CSV: the same page as in JSON, with links to the next and previous page in a header.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { parseCsv, type CsvRow } from '../../src/query/csv/csv-parser.ts';
import { withoutGuard } from '../../src/query/csv/csv-rows.ts';
import type { TestService } from '../support.ts';
import { assertProblem } from './expect.ts';
import { LOOSE, openShelf } from './shelf.ts';
import { after, before, describe, test } from 'node:test';

const HEAD = 'id,title,reader_id,secret_id,isbn,price,data,lent';

describe('a collection as CSV', () => {
  let service: TestService;
  before(async () => {
    service = await openShelf();
  });
  after(() => service.close());

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

  test('counts on request', async () => {
    const { headers } = await get('/api/book/?limit=1', undefined, { prefer: 'count=exact' });
    assert.equal(headers.get('x-total-count'), '3');
    assert.equal(headers.get('preference-applied'), 'count=exact');
  });

  test('never has excluded columns, and does not filter by them', async () => {
    const { text } = await get('/api/book/');
    assert.doesNotMatch(text, /hidden|hushed/);
    assert.equal(
      rowsOf((await get('/api/user/')).text)[0]?.cells.join(),
      'id,username,join_date,active,admin',
    );
    assertProblem(await get('/api/book/?hidden=hushed'), 400);
  });

  test('is limited to callers who may read it, also in joins', async () => {
    assert.equal((await get('/api/letter/')).status, 401);
    assert.equal((await get('/api/letter/', 'bob')).text, 'id,text,sender_id\r\n1,"to Ada",\r\n');
    assertProblem(await get('/api/secret/', 'bob'), 403);
    for (const user of [undefined, 'bob'])
      assertProblem(await get('/api/book/?secret__word=open', user), 400);
    assert.equal(rowsOf((await get('/api/book/?secret__word=open', 'ada')).text).length, 2);
  });

  test('is a problem document for an invalid query', async () => {
    const answer = await get('/api/book/?nope=1&limit=a');
    assertProblem(answer, 400);
    assert.deepEqual(Object.keys(answer.json.errors).sort(), ['limit', 'nope']);
  });
});
