import assert from 'node:assert/strict';
import { type Answer, startService, type TestService } from '../support.ts';
import { encode, idsOf, startSamples, TYPES, uuid } from './samples.ts';
import type { Resource } from '../../src/index.ts';
import { after, before, describe, test } from 'node:test';

/** The rows that each filter selects of rows 1 to 4 of `thing`. Row 4 has only NULLs, and `solid` does not have it. */
const selections: Record<string, [query: string, ids: number[]][]> = {
  'eq, ne, lt, lte, gt and gte compare with a value of the column’s type': [
    ['string=apple', [1]],
    ['string__eq=apple', [1]],
    ['string=Apple', []],
    ['string=', []],
    ['string__ne=apple', [2, 3]],
    ['text=50% off_now', [2]],
    ['integer__lt=1', [2]],
    ['integer__lte=1', [1, 2]],
    ['integer__gt=1', [3]],
    ['integer__gte=1', [1, 3]],
    ['integer__ne=1', [2, 3]],
    ['integer=0001', [1]],
    ['bigint=9007199254740993', [1]],
    ['bigint=9007199254740992', []],
    ['bigint__gt=9007199254740992', [1, 3]],
    ['float=1.50', [1]],
    ['float=1e300', [3]],
    ['float__lt=1e-3', [2]],
    ['float__lt=.5', [2]],
    ['decimal=10.5', [1]],
    ['decimal=1.05E1', [1]],
    ['decimal__gte=99999999.9999', [3]],
    ['decimal__lt=10.50000000001', [1, 2]],
    ['date__gt=2024-01-31', [2]],
    ['date=2024-02-29', [2]],
    ['time__lte=10:00', [1, 3]],
    ['time=23:59:59', [2]],
    [`uuid=${uuid('a').toUpperCase()}`, [3]],
    [`uuid__lt=${uuid('2')}`, [1]],
    ['json={"a": [1,2]}', [1]],
    ['json="text"', [2]],
    ['json=[null, 5e-1]', [3]],
    ['json__ne="text"', [1, 3]],
    ['password=hash two', [2]],
    ['id=2', [2]],
    ['id__gt=1&id__lt=3', [2]],
  ],
  'a boolean has five spellings for each value, in any case': [
    ...['true', 't', '1', 'yes', 'on', 'TRUE', 'Yes', 'oN'].map((word): [string, number[]] => [
      `boolean=${word}`,
      [1, 3],
    ]),
    ...['false', 'f', '0', 'no', 'off', 'False', 'NO'].map((word): [string, number[]] => [
      `boolean=${word}`,
      [2],
    ]),
    ['boolean__ne=yes', [2]],
    ['boolean__in=yes,off', [1, 2, 3]],
  ],
  'a date-time may be written with T, without the time or the seconds, with Z or an offset': [
    ['datetime=2024-01-31 10:00:00', [1]],
    ['datetime=2024-01-31T10:00:00', [1]],
    ['datetime=2024-01-31 10:00', [1]],
    ['datetime=2024-01-31T10:00:00Z', [1]],
    ['datetime=2024-01-31t10:00z', [1]],
    ['datetime=2024-01-31T12:00:00+02:00', [1]],
    ['datetime=2024-01-31T04:30:00-05:30', [1]],
    ['datetime=2024-01-31T12:00+0200', [1]],
    ['datetime=2024-01-31 12:00:00+02', [1]],
    ['datetime=2024-03-01T01:59:59+02:00', [2]],
    ['datetime=1999-12-31', [3]],
    ['datetime=1999-12-30T23:00:00-01:00', [3]],
    ['datetime__gte=2024-01-31', [1, 2]],
    ['datetime__lt=2024-01-31T11:00:00+01:00', [3]],
  ],
  'in takes values separated by commas, quoted as in CSV': [
    ['integer__in=1,-2,5', [1, 2]],
    ['integer__in=1', [1]],
    ['integer__in="1","-2"', [1, 2]],
    ['string__in=apple,Banana', [1, 2]],
    ['string__in="a,b ""c"""', [3]],
    ['string__in=a,b', []],
    ['string__in="apple",Banana', [1, 2]],
    ['string__in=,apple', [1]],
    ['string__in=""', []],
    ['json__in="""text""","{""a"":[1,2]}"', [1, 2]],
    ['datetime__in=1999-12-31,2024-01-31T10:00', [1, 3]],
    [`uuid__in=${uuid('1')},${uuid('2')}`, [1, 2]],
    ['date__in=2024-02-29', [2]],
    ['float__in=1.5,-0.25', [1, 2]],
    ['decimal__in=10.5,-3.250', [1, 2]],
  ],
  'is takes null, none, true or false, in any case': [
    ...['null', 'none', 'NULL', 'None', 'nOnE'].flatMap((word) =>
      TYPES.map((type): [string, number[]] => [`${type}__is=${word}`, [4]]),
    ),
    ['boolean__is=true', [1, 3]],
    ['boolean__is=False', [2]],
    ['id__is=null', []],
  ],
  'like and ilike take SQL patterns': [
    ['string__like=a%', [1, 3]],
    ['string__ilike=BANANA', [2]],
    ['string__like=BANANA', []],
    ['string__like=_____', [1]],
    ['text__like=50\\% off\\_now', [2]],
    ['text__like=%\\%%', [2]],
    ['text__like=back\\\\slash', [3]],
    ['text__ilike=%\\\\%', [3]],
    ['text__like=%,%', [1]],
    ['text__like=', []],
  ],
  'a leading - keeps each row that the filter does not match, also NULLs': [
    ['-string=apple', [2, 3, 4]],
    ['-string__ne=apple', [1, 4]],
    ['-integer__lt=1', [1, 3, 4]],
    ['-integer__in=1,-2', [3, 4]],
    ['-boolean__is=null', [1, 2, 3]],
    ['-boolean__is=true', [2, 4]],
    ['-boolean=true', [2, 4]],
    ['-string__like=%a%', [4]],
    ['-json="text"', [1, 3, 4]],
    ['-id=1', [2, 3, 4]],
  ],
  'different parameters are combined with AND': [
    ['integer__gt=0&boolean=true', [1, 3]],
    ['integer__gt=0&boolean=true&float__lt=2', [1]],
    ['integer=1&integer__eq=-2', []],
    ['integer=1&-integer=1', []],
  ],
  'a repeated parameter matches any of its values; with ne or negated, none of them': [
    ['string=apple&string=Banana', [1, 2]],
    ['string=apple&string=apple', [1]],
    ['string=apple&integer=1&string=Banana', [1]],
    ['integer__lt=-5&integer__lt=2', [1, 2]],
    ['string__like=a%&string__like=B%', [1, 2, 3]],
    ['integer__in=1,5&integer__in=-2', [1, 2]],
    ['boolean__is=null&boolean__is=false', [2, 4]],
    ['-integer__ne=1&-integer__ne=-2', [1, 2, 4]],
    ['integer__ne=1&integer__ne=-2', [3]],
    ['-integer=1&-integer=-2', [3, 4]],
    ['-integer__in=1&-integer__in=-2', [3, 4]],
    ['-string__like=a%&-string__like=B%', [4]],
    ['-boolean__is=true&-boolean__is=false', [4]],
  ],
};

describe('filters', () => {
  let service: TestService;
  before(async () => {
    service = await startSamples();
  });
  after(() => service.close());

  for (const [sentence, cases] of Object.entries(selections)) {
    test(sentence, async () => {
      for (const [query, ids] of cases) {
        const thing = await service.request(`/api/thing/?${encode(query)}`);
        assert.equal(thing.status, 200, `${query}: ${thing.text}`);
        assert.deepEqual(idsOf(thing), ids, query);
        const solid = await service.request(`/api/solid/?${encode(query)}`);
        assert.deepEqual(idsOf(solid), ids.filter((id) => id < 4), `solid: ${query}`); // prettier-ignore
      }
    });
  }
});

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
