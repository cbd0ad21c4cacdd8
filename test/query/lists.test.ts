import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const word: Resource = {
  model: 'word',
  columns: { text: { type: 'string' }, long: { type: 'text', null: true } },
};

describe('lists and repeated parameters', () => {
  let service: TestService;
  before(async () => {
    service = await startService([word]);
    const rows = ['', ' ', 'a', 'null'].map((text) => ({ text, long: text }));
    await service.sql`insert into word ${service.sql(rows)}`;
    await service.sql`insert into word (text) values ('b')`;
  });
  after(() => service.close());

  test('an empty item in the list of an in is the empty string', async () => {
    for (const [query, texts] of [
      ['text__in=,a', ['', 'a']],
      ['text__in=a,', ['', 'a']],
      ['text__in=a,,b', ['', 'a', 'b']],
      ['text__in=,', ['']],
      ['text__in=%22%22', ['']],
      ['long__in=,b', ['']],
      ['long__in=%22 %22', [' ']],
      ['-text__in=,a', [' ', 'null', 'b']],
      ['text=', ['']],
      ['text__ne=', [' ', 'a', 'null', 'b']],
      ['long__in=null', ['null']],
    ] as const) {
      const { status, json } = await service.request(`/api/word/?${query}`);
      assert.equal(status, 200, query);
      assert.deepEqual(
        json.objects.map((object: { text: string }) => object.text),
        texts,
        query,
      );
    }
  });

  test('a list may have backslashes and quotes, in values and in patterns', async () => {
    const odd = ['\\', 'a\\b', 'c"d', '{e}', 'f\\"'];
    await service.sql`insert into word ${service.sql(odd.map((text) => ({ text, long: 'odd' })))}`;
    for (const text of odd) {
      const pattern = text.replaceAll('\\', '\\\\');
      const queries: [string, string][][] = [
        [
          ['text', text],
          ['text', 'nothing'],
        ],
        [['text__in', `"${text.replaceAll('"', '""')}",nothing`]],
        [
          ['text__like', pattern],
          ['text__like', 'nothing'],
        ],
      ];
      for (const query of queries) {
        const { json } = await service.request(`/api/word/?${new URLSearchParams(query).toString()}`);
        assert.deepEqual(
          json.objects?.map((object: { text: string }) => object.text),
          [text],
          query.join(),
        );
      }
    }
    await service.sql`delete from word where long = 'odd'`;
  });

  test('each occurrence of a repeated parameter counts as a filter', async () => {
    const repeated = (times: number): Promise<Answer> =>
      service.request(`/api/word/?${'text=a&'.repeat(times)}limit=5`);
    assert.equal((await repeated(50)).status, 200);
    const { status, json } = await repeated(51);
    assert.deepEqual([status, Object.keys(json.errors)], [400, ['text']]);
  });
});
