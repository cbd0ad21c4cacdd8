// Long values on the pages of the API.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { useService, type Answer, type TestService } from '../support.ts';
import { describe, test } from 'node:test';

const HTML = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
const item: Resource = {
  model: 'item',
  columns: {
    text: { type: 'text', null: true },
    json: { type: 'json', null: true },
    decimal: { type: 'decimal', null: true },
  },
};
const unescaped = (text: string): string =>
  text.replace(
    /&(lt|gt|quot|amp|#39);/g,
    (_, name: string) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name] ?? '',
  );
const markupOf = ({ text }: Answer): string => /<pre class="json">([\s\S]*?)<\/pre>/.exec(text)?.[1] ?? '';
const jsonOf = (answer: Answer): string => unescaped(markupOf(answer).replace(/<[^>]*>/g, ''));

describe('long values on the pages of the API', () => {
  const service: TestService = useService([item]);

  const get = (path: string): Promise<Answer> => service.request(path, { headers: HTML });
  const add = async ({ text, json, decimal }: Record<string, string>): Promise<number> => {
    const [row] = await service.sql<{ id: number }[]>`insert into item (text, json, decimal)
      values (${text ?? null}, ${json ?? null}::text::jsonb, ${decimal ?? null}::text::numeric) returning id`;
    return row?.id ?? 0;
  };

  test('of up to 64 KiB are indented', async () => {
    const id = await add({
      text: `"<b>${'é'.repeat(3000)}`,
      json: `{"a": "${'x'.repeat(50_000)}"}`,
      decimal: '7'.repeat(4096),
    });
    await add({});
    for (const path of [`/api/item/${id}/`, `/api/item/?id__gte=${id}`]) {
      const page = await get(path);
      assert.deepEqual(JSON.parse(jsonOf(page)), (await service.request(path)).json);
      assert.match(jsonOf(page), /\n {2,}"json": {\n/);
      assert.doesNotMatch(markupOf(page), /<b>/);
    }
  });

  test('of more than 64 KiB are shown as they are', async () => {
    const id = await add({ json: `[${'1,'.repeat(500_000)}1]` });
    const page = await get(`/api/item/${id}/`);
    assert.equal(page.status, 200);
    assert.equal(jsonOf(page), (await service.request(`/api/item/${id}/`)).text);
  });

  test('of megabytes are refused on a page', async () => {
    const id = await add({ text: 'x'.repeat(2_100_000) });
    assert.match(jsonOf(await get(`/api/item/${id}/`)), /^This record is too long for a page\.$/);
    const page = await get(`/api/item/?id=${id}`);
    assert.equal(page.status, 400);
    assert.match(page.text, /use a lower limit/);
  });
});
