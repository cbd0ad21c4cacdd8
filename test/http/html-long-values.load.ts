// Long values on the pages of the API: pages show where they are truncated, and the service does not process the rest.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const HTML = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
const item: Resource = {
  model: 'item',
  columns: {
    text: { type: 'text', null: true },
    json: { type: 'json', null: true },
    decimal: { type: 'decimal', null: true },
  },
};
const note: Resource = { model: 'note', columns: { text: { type: 'text' } } };
const unescaped = (text: string): string =>
  text.replace(
    /&(lt|gt|quot|amp|#39);/g,
    (_, name: string) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name] ?? '',
  );
const markupOf = ({ text }: Answer): string => /<pre class="json">([\s\S]*?)<\/pre>/.exec(text)?.[1] ?? '';
const jsonOf = (answer: Answer): string => unescaped(markupOf(answer).replace(/<[^>]*>/g, ''));

describe('long values on the pages of the API', () => {
  let service: TestService;
  before(async () => {
    service = await startService([item, note]);
  });
  after(() => service.close());

  const get = (path: string): Promise<Answer> => service.request(path, { headers: HTML });
  const add = async ({ text, json, decimal }: Record<string, string>): Promise<number> => {
    const [row] = await service.sql<{ id: number }[]>`insert into item (text, json, decimal)
      values (${text ?? null}, ${json ?? null}::text::jsonb, ${decimal ?? null}::text::numeric) returning id`;
    return row?.id ?? 0;
  };

  test('are truncated, with a mark and a link to the JSON of the record', async () => {
    const id = await add({
      text: `"<b>${'é'.repeat(3000)}`,
      json: `[${'1,'.repeat(5000)}1]`,
      decimal: '7'.repeat(5000),
    });
    for (const path of [`/api/item/${id}/`, `/api/item/?id=${id}`]) {
      const answer = await get(path);
      assert.equal(answer.status, 200);
      const shown = jsonOf(answer);
      assert.throws(() => JSON.parse(shown) as unknown);
      assert.match(shown, /"text": "\\"<b>é{1000,1100}… truncated: 6,004 bytes in total,\n/);
      assert.match(shown, /"json": \[1, 1, [1, ]{900,1100}… truncated: 15,003 bytes in total,\n/);
      assert.match(shown, /"decimal": "7{1000,1100}… truncated: 5,000 bytes in total\n/);
      assert.doesNotMatch(markupOf(answer), /<b>/);
      const links = [...markupOf(answer).matchAll(/<a href="([^"]*)">truncated: /g)].map(
        ([, href = '']) => href,
      );
      assert.deepEqual(links, Array(3).fill(`/api/item/${id}/?_format=json`));
      const full = await get(links[0] ?? '');
      assert.equal(full.headers.get('content-type'), 'application/json; charset=utf-8');
      assert.equal(full.text, (await service.request(`/api/item/${id}/`)).text);
    }
  });

  test('of up to 4,096 bytes are shown in full', async () => {
    const id = await add({
      text: 'é'.repeat(2048),
      json: `{"#text": 5, "a": "${'x'.repeat(4000)}"}`,
      decimal: '7'.repeat(4096),
    });
    await add({});
    for (const path of [`/api/item/${id}/`, `/api/item/?id__gte=${id}`]) {
      const { json } = await service.request(path);
      assert.deepEqual(JSON.parse(jsonOf(await get(path))), json);
    }
  });

  test('are truncated more on a page of many records, so that the page stays short', async () => {
    await service.sql`insert into note (text) select repeat('x', 1500) from generate_series(1, 1000)`;
    const few = jsonOf(await get('/api/note/?limit=20'));
    assert.equal(few.includes('truncated:'), false);
    const many = await get('/api/note/?limit=1000');
    assert.equal(many.status, 200);
    assert.equal(
      [...jsonOf(many).matchAll(/"text": "x{50,100}… truncated: 1,500 bytes in total\n/g)].length,
      1000,
    );
  });

  test('of megabytes make a page of less than 100 kB', async () => {
    const json = `[${'1,'.repeat(500_000)}1]`;
    for (let count = 0; count < 7; count += 1) await add({ json });
    const answer = await get('/api/item/?ordering=-id&limit=7');
    assert.equal(answer.status, 200);
    assert.ok(answer.text.length < 100_000, `${answer.text.length} characters`);
  });

  test('are shown in full only to a browser that requests the JSON of a record', async () => {
    const id = await add({ text: 'a' });
    for (const [path, accept] of [
      [`/api/item/${id}/?_format=json`, 'application/json'],
      [`/api/item/${id}/?_format=json&x=1`, HTML.accept],
      [`/api/item/${id}/?_format=csv`, HTML.accept],
      ['/api/item/?_format=json', HTML.accept],
    ] as const)
      assert.equal((await service.request(path, { headers: { accept } })).status, 400, `${path} ${accept}`);
    assert.equal((await get('/api/item/999999/?_format=json')).status, 404);
    assert.equal((await get('/api/item/999999/')).status, 404);
    assert.equal((await get('/api/item/nothing/')).status, 404);
  });
});
