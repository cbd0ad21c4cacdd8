// Exports of lists as CSV and JSON: their records, order and cells, and how they end early.
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import type { Resource } from '../../src/index.ts';
import { parseCsv } from '../../src/query/csv/csv-parser.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../support.ts';
import { useAdmin, type Browser } from './support.ts';
import { describe, test } from 'node:test';

const resources = [
  user,
  {
    model: 'book',
    columns: {
      title: { type: 'string' },
      reader: { type: 'foreignKey', references: 'user', null: true },
      price: { type: 'decimal', precision: 8, scale: 2, null: true },
      rating: { type: 'float', null: true },
      data: { type: 'json', null: true },
      lent: { type: 'boolean', default: false },
      since: { type: 'datetime', null: true },
      secret: { type: 'string', null: true },
      draft: { type: 'text', null: true },
    },
    // The API hides one column, the admin area the other.
    exclude: ['draft'],
    ordering: '-title',
    admin: { exclude: ['secret'], search: ['title'] },
  },
  { model: 'text', columns: { content: { type: 'text', null: true } } },
] satisfies Resource[];

const cookieHeader = ({ cookies }: Browser): string =>
  [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');

describe('a long export', () => {
  const ROWS = 60_000;

  /** The number of connections that read an export. */
  const readers = async (): Promise<number> => {
    const [row] = await service.sql<{ count: number }[]>`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and query ~ '^(fetch|declare) ' and pid <> pg_backend_pid()`;
    return row?.count ?? -1;
  };

  const { service, ada: browser } = useAdmin(resources, {}, async () => {
    await service.sql`insert into text (content) select repeat('x', 1000) from generate_series(1, ${ROWS})`;
  });

  test('has every row', async () => {
    const { text } = await browser.get('/admin/text/-/export.csv?ordering=-id');
    const rows = parseCsv(text);
    assert.ok(Array.isArray(rows));
    assert.equal(rows.length, ROWS + 1);
    assert.deepEqual([rows[1]?.cells[0], rows.at(-1)?.cells[0]], [String(ROWS), '1']);
    const json = JSON.parse((await browser.get('/admin/text/-/export.json')).text) as unknown[];
    assert.equal(json.length, ROWS);
    assert.equal(await readers(), 0);
  });

  test('ends and frees its connection when the client disconnects', async () => {
    for (let round = 0; round < 6; round += 1) {
      const cookie = cookieHeader(browser);
      await new Promise<void>((resolve, reject) => {
        const client = httpRequest(`${service.base}/admin/text/-/export.csv`, { headers: { cookie } });
        client.on('error', reject);
        client.on('response', (response) => {
          response.once('data', () => {
            response.pause();
            readers().then((count) => {
              assert.equal(count, 1);
              client.off('error', reject).on('error', () => undefined);
              client.destroy();
              resolve();
            }, reject);
          });
        });
        client.end();
      });
      await eventually(async () => (await readers()) === 0, 'the end of all cursors');
    }
    assert.equal((await browser.get('/admin/text/-/export.csv?id=1')).status, 200);
  });

  test('is an incomplete response when the database connection breaks', async () => {
    const isComplete = await new Promise<boolean>((resolve, reject) => {
      const headers = { cookie: cookieHeader(browser) };
      const client = httpRequest(`${service.base}/admin/text/-/export.csv`, { headers }, (response) => {
        response.once('data', () => {
          response.pause();
          service.sql`
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and query like 'fetch %' and pid <> pg_backend_pid()`.then(
            () => response.resume(),
            reject,
          );
        });
        response.on('close', () => resolve(response.complete));
        response.on('error', () => undefined);
      });
      client.on('error', () => resolve(false)).end();
    });
    assert.equal(isComplete, false);
    assert.equal((await browser.get('/admin/text/-/export.csv?id=1')).status, 200);
  });

  test('leaves no connection open after a HEAD', async () => {
    for (let round = 0; round < 6; round += 1) {
      const cookie = cookieHeader(browser);
      const { status, headers } = await service.request('/admin/text/-/export.csv', {
        method: 'HEAD',
        headers: { cookie },
      });
      assert.equal(status, 200);
      assert.equal(headers.get('content-disposition'), 'attachment; filename="text.csv"');
      await eventually(async () => (await readers()) === 0, 'the end of all cursors');
    }
  });

  test('leaves no connection open when the client disconnects before the first row', async () => {
    const lock = await service.sql.reserve();
    await lock`begin`;
    await lock`lock table text in access exclusive mode`;
    const waiting = async (): Promise<number> =>
      (
        await lock`select from pg_locks where not granted and relation = 'text'::regclass
        and database = (select oid from pg_database where datname = current_database())`
      ).count;
    for (let round = 0; round < 3; round += 1) {
      const client = httpRequest(`${service.base}/admin/text/-/export.csv`, {
        headers: { cookie: cookieHeader(browser) },
      });
      client.on('error', () => undefined).end();
      await eventually(async () => (await waiting()) === 1, 'a wait for the lock');
      client.destroy();
      // Its statement ends at once, and does not wait for the lock.
      await eventually(async () => (await waiting()) === 0, 'the end of the wait');
    }
    await lock`commit`;
    lock.release();
    await eventually(async () => (await readers()) === 0, 'the end of all cursors');
    assert.equal((await browser.get('/admin/text/-/export.csv?id=1')).status, 200);
  });
});
