import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { logIn } from '../admin/support.ts';
import { useService, type TestService } from '../support.ts';
import { assertProblem } from './expect.ts';
import { describe, test } from 'node:test';

const MAX_PAGE = 200_000;
/** Rows of about 1 KB. */
const ROWS = 600;

describe('a page with more bytes than MAX_PAGE', () => {
  const service: TestService = useService(
    [user, note],
    { maxPage: MAX_PAGE },
    () => service.sql`insert into note (message) select repeat('x', 1000) from generate_series(1, ${ROWS})`,
  );

  const formats = ['application/json', 'text/csv'];
  const get = (query: string, accept = 'application/json'): ReturnType<TestService['request']> =>
    service.request(`/api/note/?${query}`, { headers: { accept } });

  for (const accept of formats) {
    test(`as ${accept} is 400 and names limit and the stream`, async () => {
      for (const query of [
        'limit=600',
        'limit=250&ordering=-id',
        'limit=300&page=2',
        'limit=1000&message__like=x%25',
      ]) {
        const answer = await get(query, accept);
        assert.equal(answer.status, 400, query);
        assert.match(answer.text, /limit/);
        assert.match(answer.text, /application\/x-ndjson/);
        assertProblem(answer, 400);
        assert.deepEqual(Object.keys(answer.json.errors), ['limit']);
      }
    });

    test(`as ${accept} is 200 when it is small enough`, async () => {
      for (const query of [
        '',
        'limit=100',
        'limit=150',
        'limit=150&page=4',
        'limit=300&page=3',
        'limit=700&message=y',
      ])
        assert.equal((await get(query, accept)).status, 200, query);
    });
  }

  test('as text/html is 400 and names limit', async () => {
    assert.equal((await get('limit=150', 'text/html')).status, 200);
    const answer = await get('limit=600', 'text/html');
    assert.equal(answer.status, 400);
    assert.match(answer.text, /<code>limit<\/code>/);
  });

  test('is 400 also with few large records, and only records of the page count', async () => {
    await service.sql`insert into note (message) select repeat('y', 50000) from generate_series(1, 5)`;
    assertProblem(await get('message__like=y%25&limit=5'), 400);
    assert.equal((await get('message__like=y%25&limit=3')).json.objects.length, 3);
    const next = (await get('message__like=y%25&limit=3')).json.meta.next;
    assert.notEqual(next, '');
    assert.equal((await service.request(next)).json.objects.length, 2);
    const many = await get('limit=170&page=1&ordering=id');
    assert.equal(many.json.objects.length, 170);
    assert.notEqual(many.json.meta.next, '');
    await service.sql`delete from note where message like 'y%'`;
  });

  test('is 400 in the admin list, too', async () => {
    await service.addUser('ada', { admin: true });
    const ada = await logIn(service, 'ada');
    const { status, text } = await ada.get('/admin/note/?limit=600');
    assert.equal(status, 400);
    assert.match(text, /limit/);
    assert.equal((await ada.get('/admin/note/?limit=50')).status, 200);
  });

  test('can be read as a stream', async () => {
    const { status, text } = await service.request('/api/note/', {
      headers: { accept: 'application/x-ndjson' },
    });
    assert.equal(status, 200);
    assert.equal(text.split('\n').length, ROWS + 1);
  });
});

describe('a page of few long records', () => {
  const options = { skip: process.platform !== 'linux' && 'needs /proc' };
  const MEGABYTE = 2 ** 20;
  /** What the records take together is several times this. */
  const MAX_MEMORY = 100 * MEGABYTE;
  const service: TestService = useService(
    [user, note],
    { maxPage: 4 * MEGABYTE },
    () =>
      service.sql`insert into note (message) select repeat('x', ${6 * MEGABYTE}) from generate_series(1, 26)`,
  );

  /** The largest memory that any of the service's connections has taken in PostgreSQL. */
  async function peakMemory(): Promise<number> {
    const statuses = await service.sql<{ status: string | null }[]>`
      select pg_read_file('/proc/' || pid || '/status', 0, 10000, true) as status from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`;
    const peaks = statuses.map(({ status }) => Number(/VmHWM:\s+(\d+)/.exec(status ?? '')?.[1] ?? 0));
    assert.ok(peaks.some((peak) => peak > 0));
    return Math.max(...peaks) * 1024;
  }

  for (const query of [
    '',
    'limit=25',
    'ordering=-id&limit=25',
    'message__like=x%25',
    'created__gt=2000-01-01',
  ]) {
    test(`/api/note/?${query} takes PostgreSQL little memory`, options, async () => {
      assertProblem(await service.request(`/api/note/?${query}`), 400);
      const peak = await peakMemory();
      assert.ok(peak < MAX_MEMORY, `${Math.round(peak / MEGABYTE)} MiB`);
    });
  }
});
