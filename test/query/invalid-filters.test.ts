import assert from 'node:assert/strict';
import type { TestService } from '../support.ts';
import { encode, startSamples, TYPES } from './samples.ts';
import { after, before, describe, test } from 'node:test';

/** Queries, and the parameters that the 400 names: by default the only parameter of the query. */
const refusals: Record<string, [query: string, names?: string[]][]> = {
  'an operator that is unknown or does not fit the type': [
    ...['string__foo=a', 'string__=a', 'string__eq__eq=a', 'string__EQ=a', 'string__not=a'].map(
      (query): [string] => [query],
    ),
    ...TYPES.filter((type) => type !== 'string' && type !== 'text').flatMap((type): [string][] => [
      [`${type}__like=a`],
      [`${type}__ilike=a`],
    ]),
    ...['boolean', 'json', 'password'].flatMap((type): [string][] => [[`${type}__lt=1`], [`${type}__gte=1`]]),
    ['id__like=1'],
  ],
  'a value of another type than the column': [
    ...TYPES.filter((type) => !['string', 'text', 'password'].includes(type)).flatMap((type): [string][] => [
      [`${type}=`],
      [`${type}=rubbish`],
      [`-${type}__ne=rubbish`],
      [`${type}__in=rubbish`],
    ]),
    ...['1.0', '1e3', ' 1', '0x1', '2147483648', '-2147483649', '１'].map((text): [string] => [
      `integer=${text}`,
    ]),
    ...['9223372036854775808', '1.5', '9'.repeat(100)].map((text): [string] => [`bigint=${text}`]),
    ...['1e9999', '1,5', '--1', '.', 'e5'].map((text): [string] => [`float=${text}`]),
    ...['1e999999', '1e-99999', '1/2', '0x10', '1_000'].map((text): [string] => [`decimal=${text}`]),
    ...['2', 'truth', 'y', 'n', 'null', ' true'].map((text): [string] => [`boolean=${text}`]),
    ...[
      '2024-02-30', '2023-02-29', '2024-13-01', '2024-00-10', '24-01-01', '2024-1-1', '2024-01-31 24:00', '2024-01-31 10',
      '2024-01-31 10:60', '2024-01-31T10:00+99:00', '2024-01-31Z', '2024-01-31 10:00:60', 'now', 'today', '1706695200',
      '0000-01-01', '0001-01-01T00:00:00+01:00', '9999999-01-01', '2024-01-31T10:00 02:00',
    ].map((text): [string] => [`datetime=${text}`]), // prettier-ignore
    ...['2024-02-30', '2024-01-31T10:00', 'tomorrow', '20240131'].map((text): [string] => [`date=${text}`]),
    ...['25:00', '10', '10:00:61', '10:00 PM', 'noon'].map((text): [string] => [`time=${text}`]),
    ...["{'a':1}", '{"a":1', '"\\u0000"', '"\\ud800"', '{"\\udead":1}', '1e9999', '1e-99999'].map(
      (text): [string] => [`json=${text}`],
    ),
    ['box=oak'],
    ['box_id__gt=1.5'],
    ['id=one'],
    ['id__in=1,two'],
  ],
  'an in without a value, with a value of another type, or with invalid quotes': [
    ['id__in='],
    ['-id__in='],
    ['string__in='],
    ['integer__in=1,,2'],
    ['integer__in=1,'],
    ['integer__in=,'],
    ['integer__in=1, 2'],
    ['string__in="a'],
    ['string__in=a"b'],
    ['string__in="a"b'],
    ['string__in="a" ,b'],
    ['string__in=a,"'],
    ['string__in="""'],
  ],
  'an is with a value that the type does not allow': [
    ['boolean__is='],
    ['boolean__is=yes'],
    ['boolean__is=1'],
    ['string__is=nil'],
    ['string__is= null'],
    ...TYPES.filter((type) => type !== 'boolean').flatMap((type): [string][] => [
      [`${type}__is=true`],
      [`${type}__is=FALSE`],
    ]),
  ],
  'a pattern that ends with a lone backslash': [
    ['string__like=\\'],
    ['text__ilike=a\\'],
    ['text__like=\\\\\\'],
    ['-text__like=a%\\'],
  ],
  'an ordering by a column without an order': [['ordering=json'], ['ordering=id,-json', ['ordering']]],
  'all invalid parameters at once': [
    ['integer=a&nosuch=1&float=b&string=x', ['float', 'integer', 'nosuch']],
    ['integer=1&integer=a', ['integer']],
    ['integer=a&ordering=nosuch&limit=0&page=x', ['integer', 'limit', 'ordering', 'page']],
  ],
};

describe('an invalid filter', () => {
  let service: TestService;
  before(async () => {
    service = await startSamples();
  });
  after(() => service.close());

  for (const [sentence, cases] of Object.entries(refusals)) {
    test(`400 names ${sentence}`, async () => {
      for (const [query, names = [query.split('=', 1)[0] ?? '']] of cases) {
        const { status, json, headers } = await service.request(`/api/thing/?${encode(query)}`);
        assert.equal(status, 400, query);
        assert.equal(headers.get('content-type'), 'application/problem+json');
        assert.deepEqual(Object.keys(json.errors ?? {}).sort(), names, query);
        assert.deepEqual(Object.keys(json).sort(), ['detail', 'errors', 'status', 'title', 'type'], query);
      }
    });
  }

  test('400 says how to write an offset whose + was not encoded', async () => {
    const lost = ['2024-01-31T10:00+02:00', '2024-01-31 10:00:00+0530', '2024-01-31T10:00:00.123+02'];
    for (const text of lost)
      for (const name of ['datetime', 'datetime__gte', '-datetime__in']) {
        const { json } = await service.request(`/api/thing/?${name}=${text.replace(' ', '%20')}`);
        assert.match(json.errors[name][0], /, write the \+ of the offset as %2B$/, text);
        const { status } = await service.request(`/api/thing/?${name}=${encodeURIComponent(text)}`);
        assert.equal(status, 200, text);
      }
    for (const text of ['2024-01-31T10:00+2', '2024-01-31+10:00:00+x', 'rubbish+02:00']) {
      const { json } = await service.request(`/api/thing/?datetime=${text}`);
      assert.doesNotMatch(json.errors.datetime[0], /%2B/, text);
    }
  });
});
