// PostgreSQL cannot cancel the match of a single text, so the patterns of a query are limited.
import assert from 'node:assert/strict';
import { logIn, readable, type Browser } from '../admin/support.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const MAX_LENGTH = 256;
const MAX_PATTERNS = 20;

/** `count` filters, each with a pattern of `length` characters. */
const filters = (name: string, count: number, length: number): string[][] =>
  Array.from({ length: count }, (_, n) => [name, `%${String(n).padStart(length - 2, 'a')}%`]);
const pattern = (name: string, length: number): string[][] => filters(name, 1, length);

const encoded = (parameters: string[][]): string =>
  parameters.map(([name = '', value = '']) => `${name}=${encodeURIComponent(value)}`).join('&');

const MODELS = [
  { model: 'box', columns: { name: { type: 'string' } } },
  {
    model: 'thing',
    columns: {
      text: { type: 'text' },
      name: { type: 'string' },
      box: { type: 'foreignKey', references: 'box', null: true },
    },
    admin: { search: ['text', 'name'] },
  },
] as const;

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([user, ...MODELS]);
  await service.addUser('ada', { admin: true });
  await service.sql`insert into thing (text, name) values (${'a'.repeat(1000)}, 'long')`;
  await service.sql`insert into box (name) select ${'name '.repeat(25)} || n from generate_series(1, 200) n`;
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const search = (words: string): string => new URLSearchParams({ _search: words }).toString();

describe('the limit of patterns', () => {
  for (const [kind, parameters] of [
    ['one pattern of 256 characters', pattern('text__like', MAX_LENGTH)],
    ['one pattern of 256 characters outside of the basic plane', [['text__ilike', '😀'.repeat(MAX_LENGTH)]]],
    ['two patterns of 128 characters', [...pattern('text__like', 128), ...pattern('name__ilike', 128)]],
    ['twenty short patterns', filters('text__ilike', MAX_PATTERNS, 12)],
    [
      'one pattern and long values of other operators',
      [...pattern('text__like', MAX_LENGTH), ['text', 'a'.repeat(3000)], ['text__in', 'b'.repeat(3000)]],
    ],
  ] as [string, string[][]][])
    // prettier-ignore
    test(`accepts ${kind}`, async () => {
      const { status, text } = await service.request(`/api/thing/?${encoded(parameters)}`);
      assert.equal(status, 200, text);
    });

  test('is 400 when the patterns of a query are too long or too many', async () => {
    const cases: [parameters: string[][], named: string, message: RegExp][] = [
      [pattern('text__like', MAX_LENGTH + 1), 'text__like', /257 characters long; at most 256 are allowed$/],
      [pattern('text__ilike', 2000), 'text__ilike', /2000 characters long/],
      [pattern('-name__ilike', MAX_LENGTH + 1), '-name__ilike', /257 characters/],
      [pattern('box__name__like', MAX_LENGTH + 1), 'box__name__like', /257 characters/],
      [[['text__like', '%_'.repeat(MAX_LENGTH)]], 'text__like', /512 characters/],
      [[...pattern('text__like', 128), ...pattern('name__like', 129)], 'name__like', /257 characters/],
      [filters('text__like', 2, 129), 'text__like', /258 characters/],
      [
        filters('text__ilike', MAX_PATTERNS + 1, 4),
        'text__ilike',
        /^is pattern 21 .*; at most 20 are allowed$/,
      ],
      [
        [...filters('text__like', MAX_PATTERNS, 4), ...pattern('-name__ilike', 4)],
        '-name__ilike',
        /^is pattern 21 /,
      ],
    ];
    for (const [parameters, named, message] of cases)
      for (const headers of [{}, { accept: 'application/x-ndjson' }, { accept: 'text/csv' }]) {
        const { status, json } = await service.request(`/api/thing/?${encoded(parameters)}`, {
          headers,
        });
        assert.equal(status, 400, named);
        assert.deepEqual(Object.keys(json.errors), [named]);
        assert.match(json.errors[named][0], message);
      }
  });

  for (const [outcome, words, status] of [
    ['accepts a search of 20 words', 'word '.repeat(20), 200],
    ['refuses a search of 21 words', 'word '.repeat(21), 400],
    ['accepts a word of 254 characters', 'a'.repeat(254), 200],
    ['refuses a word of 255 characters', 'a'.repeat(255), 400],
    ['counts the escape characters of the words', '%'.repeat(130), 400],
  ] as const)
    test(`${outcome} in the admin area`, async () => {
      for (const model of ['thing', 'vitrine_history']) {
        const page = await ada.get(`/admin/${model}/?${search(words)}`);
        assert.equal(page.status, status, model);
        if (status === 400) assert.match(readable(page), /is too long: a search has at most 20 words/);
      }
    });

  test('counts the words of a search and the patterns of filters together', async () => {
    const query = encoded([...pattern('text__like', 200), ['_search', 'b'.repeat(100)]]);
    assert.equal((await ada.get(`/admin/thing/?${query}`)).status, 400);
    const filtered = await ada.get(
      `/admin/thing/?${encoded([...pattern('text__like', 300), ['_search', '']])}`,
    );
    assert.equal(filtered.status, 400);
    assert.doesNotMatch(readable(filtered), /is too long: a search/);
  });

  test('a lookup with too many words finds a record only by its full name', async () => {
    for (const [words, found] of [
      [`${'name '.repeat(25)}7`, ['7']],
      ['x'.repeat(1000), []],
    ] as const) {
      const { status, text } = await ada.get(`/admin/box/-/lookup/?${search(words)}`);
      assert.equal(status, 200);
      const { records } = JSON.parse(text) as { records: { id: string }[] };
      assert.deepEqual(
        records.map(({ id }) => id),
        found,
      );
    }
  });
});
