import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { basic, startService, type Answer, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress } from './expect.ts';
import { after, before, describe, test } from 'node:test';

/** A valid request. Each fault below changes some of its keys. */
interface Draft {
  method: string;
  /** The path before the model. */
  root: string;
  model: string;
  id: string;
  query: string;
  authorization: string;
  contentType: string;
  ifMatch: string;
  body: string;
}

interface Fault {
  readonly name: string;
  readonly status: number;
  /** Its position in the order of checks. Faults of one rank have no order. */
  readonly rank: number;
  readonly changes: Partial<Draft>;
}

const MAX_BODY = 2000;
const taken = JSON.stringify({ title: 'taken' });

const FAULTS: readonly Fault[] = [
  { rank: 0, status: 404, name: 'an unknown path', changes: { root: '/apis' } },
  { rank: 0, status: 404, name: 'an unknown model', changes: { model: 'nothing' } },
  { rank: 1, status: 405, name: 'a method that no path allows', changes: { method: 'PURGE' } },
  { rank: 1, status: 405, name: 'a method that the resource does not list', changes: { model: 'sealed' } },
  { rank: 2, status: 401, name: 'no credentials', changes: { authorization: '' } },
  { rank: 2, status: 401, name: 'wrong credentials', changes: { authorization: basic('bob', 'wrong') } },
  { rank: 2, status: 401, name: 'a malformed header', changes: { authorization: 'Basic bob' } },
  { rank: 2, status: 401, name: 'the default level', changes: { model: 'plain' } },
  { rank: 3, status: 403, name: 'the admin level', changes: { model: 'vault' } },
  {
    rank: 4,
    status: 413,
    name: 'a body too large',
    changes: { body: `{"title":"${'x'.repeat(MAX_BODY)}"}` },
  },
  { rank: 4, status: 415, name: 'another content type', changes: { contentType: 'text/plain' } },
  { rank: 4, status: 400, name: 'a body that is not JSON', changes: { body: '{"title":' } },
  { rank: 4, status: 400, name: 'an unknown field', changes: { body: '{"nope":1}' } },
  { rank: 4, status: 400, name: 'a reference to a missing record', changes: { body: '{"shelf_id":99}' } },
  {
    rank: 4,
    status: 400,
    name: 'a value that breaks a rule',
    changes: { body: `{"title":"${'x'.repeat(256)}"}` },
  },
  { rank: 4, status: 400, name: 'another id', changes: { body: '{"id":98}' } },
  { rank: 4, status: 400, name: 'a parameter', changes: { query: '?title=x' } },
  { rank: 5, status: 404, name: 'a missing record', changes: { id: '99' } },
  { rank: 5, status: 404, name: 'an id of another type', changes: { id: 'abc' } },
  { rank: 6, status: 403, name: 'another owner', changes: { id: '2' } },
  { rank: 7, status: 412, name: 'a stale If-Match', changes: { ifMatch: '"stale"' } },
  { rank: 8, status: 409, name: 'a duplicate', changes: { body: taken } },
];

/** A DELETE has no body. Its conflict is a record that others reference. */
const DELETE_FAULTS: readonly Fault[] = [
  ...FAULTS.filter(({ changes }) => changes.body === undefined && changes.contentType === undefined),
  { rank: 8, status: 409, name: 'a record that others reference', changes: {} },
];

const shares = (a: Fault, b: Fault): boolean => Object.keys(a.changes).some((key) => key in b.changes);

function pairsOf(faults: readonly Fault[]): [first: Fault, second: Fault][] {
  return faults.flatMap((first) =>
    faults
      .filter((second) => first.rank < second.rank && !shares(first, second))
      .map((second): [Fault, Fault] => [first, second]),
  );
}

describe('of two faults, the first in the order of checks is reported', () => {
  let service: TestService;
  before(async () => {
    const shelf: Resource = { model: 'shelf', columns: {} };
    const columns: Resource['columns'] = {
      title: { type: 'string', unique: true },
      owner: { type: 'foreignKey', references: 'user', null: true },
      shelf: { type: 'foreignKey', references: 'shelf', null: true },
    };
    const book: Resource = { model: 'book', columns, access: 'user', owner: 'owner' };
    const rest: Resource[] = [
      { ...book, model: 'sealed', methods: ['GET', 'POST'] },
      { ...book, model: 'plain', access: 'default' },
      { ...book, model: 'vault', access: 'admin' },
    ];
    const models = [book, ...rest];
    const loans = models.map(({ model }): Resource => ({
      model: `loan_of_${model}`,
      columns: { of: { type: 'foreignKey', references: model } },
    }));
    service = await startService([user, shelf, ...models, ...loans], { maxBody: MAX_BODY, trustProxy: 1 });
    const bob = await service.addUser('bob');
    const eve = await service.addUser('eve');
    for (const { model } of models) {
      const titles = [
        { title: 'mine', owner_id: bob },
        { title: 'hers', owner_id: eve },
        { title: 'taken', owner_id: bob },
      ];
      await service.sql`insert into ${service.sql(model)} ${service.sql(titles)}`;
      await service.sql`insert into ${service.sql(`loan_of_${model}`)} (of_id) values (1), (2)`;
    }
  });
  after(() => service.close());

  /** A request of Bob to his own record, with faults. */
  function ask(method: string, ...faults: readonly Fault[]): Promise<Answer> {
    const draft: Draft = {
      method,
      root: '/api',
      model: 'book',
      id: '1',
      query: '',
      authorization: basic('bob'),
      contentType: 'application/json',
      ifMatch: '*',
      body: JSON.stringify({ title: 'mine' }),
    };
    for (const { changes } of faults) Object.assign(draft, changes);
    const { root, model, id, query, authorization, contentType, ifMatch, body } = draft;
    const hasBody = draft.method !== 'DELETE';
    return service.request(`${root}/${model}/${id}/${query}`, {
      method: draft.method,
      headers: {
        ...fromNewAddress(),
        ...(authorization === '' ? {} : { authorization }),
        ...(hasBody ? { 'content-type': contentType } : {}),
        'if-match': ifMatch,
      },
      body: hasBody ? body : undefined,
    });
  }

  function assertFault(answer: Answer, { status, name }: Fault, other = ''): void {
    if (status === 401) assertUnauthorized(answer, `${name} ${other}`);
    else assertProblem(answer, status, `${name} ${other}`);
  }

  const rows = () => service.sql`select b.*, xmin::text as version from book b order by id`;

  for (const [method, faults] of [
    ['PUT', FAULTS],
    ['DELETE', DELETE_FAULTS],
  ] as const) {
    test(`each fault of a ${method} has its status`, async () => {
      for (const fault of faults) assertFault(await ask(method, fault), fault);
    });

    for (const first of faults) {
      const pairs = pairsOf(faults).filter(([fault]) => fault === first);
      if (pairs.length === 0) continue;
      test(`${method}: ${first.name} (${first.status}) takes precedence over later checks`, async () => {
        const before = await rows();
        for (const [, second] of pairs)
          assertFault(await ask(method, first, second), first, `with ${second.name}`);
        assert.deepEqual(await rows(), before);
      });
    }
  }

  test('a PUT without a fault is 200', async () => {
    assert.equal((await ask('PUT')).status, 200);
  });

  test('a POST is checked in the same order', async () => {
    const post = (model: string, headers: Record<string, string>, body: string): Promise<Answer> =>
      service.request(`/api/${model}/`, {
        method: 'POST',
        headers: { ...fromNewAddress(), 'content-type': 'application/json', ...headers },
        body,
      });
    const bob = { authorization: basic('bob') };
    assertProblem(await post('nothing', {}, '{'), 404);
    assertProblem(await post('vault/1', {}, '{'), 405);
    assertUnauthorized(await post('loan_of_book/1', {}, '{'));
    assertUnauthorized(await post('plain', bob, '{'));
    assertUnauthorized(await post('vault', {}, '{'));
    assertProblem(await post('vault', bob, '{'), 403);
    assertProblem(await post('book', bob, '{"title":"taken","nope":1}'), 400);
    assertProblem(await post('book', bob, '{"title":"taken","shelf_id":99}'), 400);
    assertProblem(await post('book', { ...bob, 'content-type': 'text/plain' }, taken), 415);
    assertProblem(await post('book', bob, taken), 409);
  });
});
