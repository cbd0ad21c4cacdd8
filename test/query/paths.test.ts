import assert from 'node:assert/strict';
import { basic, type TestService } from '../support.ts';
import { encode, idsOf, startSamples } from './samples.ts';
import { after, before, describe, test } from 'node:test';

/** Row 1 of `thing` has box 1 and spare 2, row 2 box 2 and spare 2, row 3 box 3 and spare 1, row 4 neither. */
const selections: Record<string, [query: string, ids: number[]][]> = {
  'a foreign key can be written with and without _id, alone and in a path': [
    ['box=1', [1]],
    ['box_id=1', [1]],
    ['box__gt=1', [2, 3]],
    ['box_id__lte=2', [1, 2]],
    ['box__is=null', [4]],
    ['-box=1', [2, 3, 4]],
    ['box__name=oak', [1]],
    ['box_id__name=oak', [1]],
    ['box__owner_id__username=ada', [1]],
    ['box_id__owner__username=ada', [1]],
  ],
  'the key of a related record is a column like any other': [
    ['box__id=2', [2]],
    ['box_id__id__gte=2', [2, 3]],
    ['box__id__is=null', [4]],
    ['box__owner__id__is=null', [2, 3, 4]],
    ['-box__id__in=1,2', [3, 4]],
  ],
  'box and box_id in one query are two parameters, combined with AND': [
    ['box=1&box_id=1', [1]],
    ['box=1&box_id=2', []],
    ['box=1&box=2', [1, 2]],
    ['box=1&box=2&box_id=2&box_id=3', [2]],
    ['box__name=oak&box_id__name=pine', []],
  ],
  'two foreign keys to one model are two joins, and two filters on one path share a join': [
    ['box__name=oak&spare__name=pine', [1]],
    ['box__name=pine&spare__name=pine', [2]],
    ['box__name=oak&spare__name=oak', []],
    ['box__name__like=%e%&box__like=y', [3]],
    ['box__name=oak&box__in=8', []],
  ],
  'all columns of a missing related record are NULL': [
    ['box__name__is=null', [4]],
    ['box__name__ne=oak', [2, 3]],
    ['-box__name=oak', [2, 3, 4]],
    ['-box__name__is=null', [1, 2, 3]],
    ['box__owner__username__is=null', [2, 3, 4]],
    ['box__owner__active__is=true', [1]],
    ['-box__owner__active__is=true', [2, 3, 4]],
  ],
  'the name of a column takes precedence over an operator': [
    ['box__in=7', [1]],
    ['box__in=1', []],
    ['box__in__in=7,8', [1, 2]],
    ['box__in__is=null', [3, 4]],
    ['box__like=y', [3]],
    ['box__like__like=_', [1, 3]],
    ['vault__in=1,2', [1, 2]],
    ['safe__in=1', [1]],
  ],
};

/** The caller of a query that needs a read level, and the answer: ids, or a status. */
type CallerName = 'nobody' | 'wrong' | 'bob' | 'ada';
const access: [query: string, answers: Record<CallerName, number[] | number>][] = [
  ['vault__name=deep', { nobody: 400, wrong: 401, bob: [1], ada: [1] }],
  ['-vault__name=deep', { nobody: 400, wrong: 401, bob: [2, 3, 4], ada: [2, 3, 4] }],
  ['ordering=-vault__name', { nobody: 400, wrong: 401, bob: [3, 4, 2, 1], ada: [3, 4, 2, 1] }],
  ['box__name=oak&vault__box__name=pine', { nobody: 400, wrong: 401, bob: [1], ada: [1] }],
  ['vault__id=1', { nobody: 400, wrong: 401, bob: [1], ada: [1] }],
  ['safe__name=iron', { nobody: 400, wrong: 401, bob: 400, ada: [1] }],
  ['ordering=safe__name', { nobody: 400, wrong: 401, bob: 400, ada: [1, 2, 3, 4] }],
  ['box=1&safe__name=iron', { nobody: 400, wrong: 401, bob: 400, ada: [1] }],
];

/** Queries without a path into a protected resource do not check credentials. */
const unneeded: typeof access = [
  ['vault=1', { nobody: [1], wrong: [1], bob: [1], ada: [1] }],
  ['safe_id=1', { nobody: [1], wrong: [1], bob: [1], ada: [1] }],
  ['vault__gt=1', { nobody: [2], wrong: [2], bob: [2], ada: [2] }],
  ['safe__is=null', { nobody: [2, 3, 4], wrong: [2, 3, 4], bob: [2, 3, 4], ada: [2, 3, 4] }],
  ['ordering=-safe_id,vault', { nobody: [2, 3, 4, 1], wrong: [2, 3, 4, 1], bob: [2, 3, 4, 1], ada: [2, 3, 4, 1] }], // prettier-ignore
  ['box__name=oak', { nobody: [1], wrong: [1], bob: [1], ada: [1] }],
  // No caller may GET `well`, so a path into it is unknown.
  ['well__name=dry', { nobody: 400, wrong: 400, bob: 400, ada: 400 }],
  ['ordering=well__name', { nobody: 400, wrong: 400, bob: 400, ada: 400 }],
  ['well=1', { nobody: [1], wrong: [1], bob: [1], ada: [1] }],
];

describe('paths', () => {
  let service: TestService;
  before(async () => {
    service = await startSamples();
  });
  after(() => service.close());

  for (const [sentence, cases] of Object.entries(selections)) {
    test(sentence, async () => {
      for (const [query, ids] of cases) {
        const answer = await service.request(`/api/thing/?${encode(query)}`);
        assert.equal(answer.status, 200, `${query}: ${answer.text}`);
        assert.deepEqual(idsOf(answer), ids, query);
      }
    });
  }

  test('a path follows up to four foreign keys', async () => {
    const up = (times: number): string => 'parent__'.repeat(times);
    assert.deepEqual(idsOf(await service.request(`/api/node/?${up(4)}name=root`)), [5]);
    assert.deepEqual(idsOf(await service.request(`/api/node/?${up(4)}parent=1`)), [6]);
    assert.deepEqual(idsOf(await service.request(`/api/node/?${up(4)}parent__is=null`)), [1, 2, 3, 4, 5]);
    assert.deepEqual(idsOf(await service.request(`/api/node/?ordering=${up(4)}name`)), [5, 6, 1, 2, 3, 4]);
    for (const query of [`${up(5)}name=root`, `${up(5)}name__is=null`, `-${up(5)}name__like=r%25`]) {
      const { status, json } = await service.request(`/api/node/?${query}`);
      assert.equal(status, 400, query);
      assert.deepEqual(Object.keys(json.errors), [query.split('=')[0]]);
    }
    const { status, json } = await service.request(`/api/node/?ordering=${up(5)}name`);
    assert.equal(status, 400);
    assert.deepEqual(Object.keys(json.errors), ['ordering']);
  });

  async function assertAccess(cases: typeof access): Promise<void> {
    const wrong = { authorization: basic('ada', 'no password of hers') };
    for (const [query, answers] of cases) {
      for (const [caller, expected] of Object.entries(answers)) {
        const credentials =
          caller === 'nobody' ? {} : caller === 'wrong' ? { headers: wrong } : { user: caller };
        const answer = await service.request(`/api/thing/?${encode(query)}`, credentials);
        const found = answer.status === 200 ? idsOf(answer) : answer.status;
        assert.deepEqual(found, expected, `${query} as ${caller}: ${answer.text}`);
        const [name] = query.split('&').at(-1)?.split('=') ?? [];
        if (expected === 401) assert.equal(answer.text, 'Authentication failed');
        if (expected === 400) assert.deepEqual(Object.keys(answer.json.errors), [name], query);
      }
    }
  }

  test('a path may only enter resources that the caller may read', () => assertAccess(access));

  test('credentials do not matter for a query that needs none', () => assertAccess(unneeded));

  test('a path into a hidden resource gets the same answer as an unknown column', async () => {
    const hidden = [
      ['vault__name', 'vault__nonsuch', 'nobody'],
      ['safe__name', 'safe__nonsuch', 'bob'],
      ['safe__name', 'safe__nonsuch', 'nobody'],
      ['well__name', 'well__nonsuch', 'ada'],
      ['well__id', 'well__xy', 'ada'],
    ] as const;
    for (const [name, absent, caller] of hidden) {
      const options = caller === 'nobody' ? {} : { user: caller };
      for (const form of ['$=x', '$__in=1', '-$__is=null', 'ordering=$', 'ordering=-id,-$', '$__foo=1']) {
        const ask = async (column: string): Promise<string> => {
          const { status, text } = await service.request(`/api/thing/?${form.replace('$', column)}`, options);
          assert.equal(status, 400);
          return text.replaceAll(column, '$').replaceAll(column.split('__')[1] ?? '', '$');
        };
        assert.equal(await ask(name), await ask(absent), `${form} ${name}`);
      }
    }
  });
});
