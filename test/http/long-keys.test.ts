// Keys of several columns with long texts, everywhere an address has them.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fieldsOf, hiddenFields, logIn, type Browser } from '../admin/support.ts';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { award, casting, film } from '../castings.ts';
import { startService, type Answer, type TestService } from '../support.ts';

const text = { type: 'string' } as const;
const withKey = (model: string, names: string): Resource => ({
  model,
  primaryKey: { columns: [...names] },
  columns: {
    ...Object.fromEntries([...names].map((name) => [name, text])),
    role: { type: 'string', null: true },
  },
});
/** Different characters, which PostgreSQL cannot compress. */
const threeBytes = (first: number): string =>
  Array.from({ length: 255 }, (_, index) =>
    String.fromCodePoint(0x4e00 + (((first + index) * 7919) % 20_000)),
  ).join('');
const fourBytes = (first: number): string => '😀'.repeat(254) + String.fromCodePoint(0x1f601 + first);

type Key = Record<string, string | number>;
const KEYS: [what: string, model: string, keyOf: (record: number) => Key][] = [
  ['a number and a text of three bytes', 'casting', (record) => ({ film_id: 1, actor: threeBytes(record) })],
  ['a number and a text of four bytes', 'casting', (record) => ({ film_id: 2, actor: fourBytes(record) })],
  ['two texts of three bytes', 'pair', (record) => ({ a: '漢'.repeat(255), b: '字'.repeat(254) + record })],
  ['two texts of four bytes', 'pair', (record) => ({ a: fourBytes(9), b: fourBytes(record) })],
  ['two texts of reserved characters', 'pair', (record) => ({ a: '/%,"'.repeat(63), b: `${record}&?+ ` })],
  [
    'eight texts, one of three bytes',
    'wide',
    (record) => ({ a: 'a', b: 'b', c: 'c', d: 'd', e: 'e', f: 'f', g: String(record), h: threeBytes(0) }),
  ],
];

describe('a key of several columns with texts of 255 characters', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    const resources = [user, film, casting, award, withKey('pair', 'ab'), withKey('wide', 'abcdefgh')];
    service = await startService(resources.map((one) => ({ ...one, access: 'user' as const })));
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
    await service.sql`insert into film (title) values ('Alien'), ('Brazil')`;
  });
  after(() => service.close());

  const send = (method: string, path: string, body?: object, headers = {}): Promise<Answer> =>
    service.request(path, { method, user: 'ada', headers, ...(body ? { body } : {}) });

  /** Follows the links of a page within the admin area, and of the pages behind them. */
  async function follow(from: string, depth: number, visited = new Set<string>()): Promise<void> {
    visited.add(from);
    const page = await ada.get(from);
    assert.equal(page.status, 200, `${from.slice(0, 60)} … ${from.slice(-60)} (${from.length})`);
    if (depth === 0) return;
    for (const [, href = ''] of page.text.matchAll(/href="(\/admin\/(?!-)[^"#]*)"/g)) {
      const to = href.replaceAll('&amp;', '&');
      if (!visited.has(to)) await follow(to, depth - 1, visited);
    }
  }

  for (const [what, model, keyOf] of KEYS)
    test(`${what}: the record has addresses, filters, cursors and pages like any other`, async () => {
      const list = `/api/${model}/`;
      const [first, second] = [await send('POST', list, keyOf(1)), await send('POST', list, keyOf(2))];
      assert.deepEqual([first.status, second.status], [201, 201], first.text);
      const { id } = first.json as { id: string };
      const path = first.headers.get('location') ?? '';
      for (const address of [path, `${list}${id}/`])
        assert.deepEqual((await service.request(address)).json, first.json);
      const etag = first.headers.get('etag') ?? '';
      assert.equal((await send('PUT', path, { ...first.json, role: 'x' }, { 'if-match': etag })).status, 200);

      const encoded = encodeURIComponent(id);
      const byColumns = Object.entries(keyOf(1))
        .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
        .join('&');
      for (const query of [`id=${encoded}`, `id__in="${encoded}"`, byColumns]) {
        const found = await service.request(`${list}?${query}`);
        // The length of a query has a limit, but the columns of the key are filters, too.
        if (query.length > 8192) assert.equal(found.status, 414);
        else
          assert.deepEqual(
            found.json.objects.map((one: { id: string }) => one.id),
            [id],
          );
      }
      const seen: string[] = [];
      let next = `${list}?limit=1`;
      while (next !== '') {
        const page = await service.request(next, { headers: { prefer: 'paging=cursor' } });
        assert.equal(page.status, 200, page.text);
        seen.push(page.json.objects[0].id);
        next = page.json.meta.next;
      }
      for (const { json } of [first, second]) assert.equal(seen.filter((one) => one === json.id).length, 1);
      if (model === 'casting')
        assert.equal((await send('POST', '/api/award/', { name: 'Saturn', ...keyOf(1) })).status, 201);

      const page = path.replace('/api/', '/admin/');
      await follow(`/admin/${model}/`, 2);
      await follow(page, 2);
      const saved = await ada.post(page, { ...fieldsOf(await ada.get(page)), role: 'y' });
      assert.equal(saved.status, 303, saved.text);
      // Browsers drop longer cookies, and with them the message that the record was saved.
      for (const cookie of saved.headers.getSetCookie()) assert.ok(cookie.length < 4096);
      assert.match((await ada.follow(saved)).text, /was changed\./);
      await follow(saved.headers.get('location') ?? '', 1);
      await follow('/admin/vitrine_history/', 2);
      if (model === 'casting') await service.sql`delete from award`;
      const chosen = { _state: '', _action: 'delete', _id: [id.replaceAll('%', '%25')] };
      const confirm = hiddenFields(await ada.post(`/admin/${model}/-/bulk/`, chosen), 'confirm');
      assert.equal((await ada.post(`/admin/${model}/-/bulk/`, confirm)).status, 303);
      assert.equal((await service.request(path)).status, 404);
      await follow(`${page}history/`, 0);
      assert.equal((await send('DELETE', second.headers.get('location') ?? '')).status, 200);
    });

  test('a key that is too long for a URL is 400', async () => {
    const body = {
      ...Object.fromEntries([...'abcdefgh'].map((name) => [name, '😀'.repeat(200)])),
      h: fourBytes(1),
    };
    const { status, json } = await send('POST', '/api/wide/', body);
    const fault = 'makes the key longer than 4096 bytes, which must fit into a URL (got 6620)';
    assert.deepEqual([status, json.errors], [400, { h: [fault] }]);
  });
});
