import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { basic, startService, type Answer, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress } from './expect.ts';

/** A request with exactly one way to be right; each fault below spoils one of its keys. */
interface Draft {
  method: string;
  /** What stands before the model. */
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
  /** Its place in the order of answers; faults of one rank are not ordered among themselves. */
  readonly rank: number;
  readonly spoils: Partial<Draft>;
}

const MAX_BODY = 2000;
const taken = JSON.stringify({ title: 'taken' });

const FAULTS: readonly Fault[] = [
  { rank: 0, status: 404, name: 'an unknown path', spoils: { root: '/apis' } },
  { rank: 0, status: 404, name: 'an unknown model', spoils: { model: 'nothing' } },
  { rank: 1, status: 405, name: 'a method that no path takes', spoils: { method: 'PATCH' } },
  { rank: 1, status: 405, name: 'a method that the resource does not list', spoils: { model: 'sealed' } },
  { rank: 2, status: 401, name: 'no credentials', spoils: { authorization: '' } },
  { rank: 2, status: 401, name: 'wrong credentials', spoils: { authorization: basic('bob', 'wrong') } },
  { rank: 2, status: 401, name: 'a malformed header', spoils: { authorization: 'Basic bob' } },
  { rank: 2, status: 401, name: 'the default level', spoils: { model: 'plain' } },
  { rank: 3, status: 403, name: 'the admin level', spoils: { model: 'vault' } },
  { rank: 4, status: 413, name: 'a body too large', spoils: { body: `{"title":"${'x'.repeat(MAX_BODY)}"}` } },
  { rank: 4, status: 415, name: 'another content type', spoils: { contentType: 'text/plain' } },
  { rank: 4, status: 400, name: 'a body that is no JSON', spoils: { body: '{"title":' } },
  { rank: 4, status: 400, name: 'an unknown field', spoils: { body: '{"nope":1}' } },
  { rank: 4, status: 400, name: 'a dangling reference', spoils: { body: '{"shelf_id":99}' } },
  {
    rank: 4,
    status: 400,
    name: 'a value that breaks a rule',
    spoils: { body: `{"title":"${'x'.repeat(256)}"}` },
  },
  { rank: 4, status: 400, name: 'another id', spoils: { body: '{"id":98}' } },
  { rank: 4, status: 400, name: 'a parameter', spoils: { query: '?title=x' } },
  { rank: 5, status: 404, name: 'no such record', spoils: { id: '99' } },
  { rank: 5, status: 404, name: 'an id of another type', spoils: { id: 'abc' } },
  { rank: 6, status: 403, name: 'another owner', spoils: { id: '2' } },
  { rank: 7, status: 412, name: 'a stale If-Match', spoils: { ifMatch: '"stale"' } },
  { rank: 8, status: 409, name: 'a duplicate', spoils: { body: taken } },
];

/** A DELETE has no body to be wrong; its conflict is a record that others refer to. */
const DELETE_FAULTS: readonly Fault[] = [
  ...FAULTS.filter(({ spoils }) => spoils.body === undefined && spoils.contentType === undefined),
  { rank: 8, status: 409, name: 'a record that others refer to', spoils: {} },
];

const shares = (a: Fault, b: Fault): boolean => Object.keys(a.spoils).some((key) => key in b.spoils);

function pairsOf(faults: readonly Fault[]): [first: Fault, second: Fault][] {
  return faults.flatMap((first) =>
    faults
      .filter((second) => first.rank < second.rank && !shares(first, second))
      .map((second): [Fault, Fault] => [first, second]),
  );
}

describe('of two faults the one that stands first in the order is answered', () => {
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

  /** Bob's request to his own record, with what spoils it. */
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
    for (const { spoils } of faults) Object.assign(draft, spoils);
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
    test(`each fault of a ${method} by itself has its status`, async () => {
      for (const fault of faults) assertFault(await ask(method, fault), fault);
    });

    for (const first of faults) {
      const pairs = pairsOf(faults).filter(([fault]) => fault === first);
      if (pairs.length === 0) continue;
      test(`${method}: ${first.name} (${first.status}) comes before all that follows`, async () => {
        const before = await rows();
        for (const [, second] of pairs)
          assertFault(await ask(method, first, second), first, `with ${second.name}`);
        assert.deepEqual(await rows(), before);
      });
    }
  }

  test('without a fault the PUT is 200, so each of them is the only one', async () => {
    assert.equal((await ask('PUT')).status, 200);
  });

  test('a POST is answered in the same order', async () => {
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
