import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { basic, startService, type Answer, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress } from './expect.ts';
import { after, before, describe, test } from 'node:test';

const LEVELS = ['default', 'user', 'admin'] as const;
type Level = (typeof LEVELS)[number];

const columns = { title: { type: 'string', default: 'untitled' } } as const;
const nameOf = (access: Level, read: Level): string => `write_${access}_read_${read}`;
const pairs = LEVELS.flatMap((access) => LEVELS.map((read) => [access, read] as const));

/** Callers, and the answers where a level needs a user or an admin: 0 is success. */
const CALLERS: readonly [caller: string, authorization: string | undefined, user: number, admin: number][] = [
  ['nobody', undefined, 401, 401],
  ['a malformed header', 'Basic ?', 401, 401],
  ['another scheme', 'Bearer YWRhOnB3LWFkYQ==', 401, 401],
  ['an unknown user', basic('ghost'), 401, 401],
  ['a wrong password', basic('bob', 'wrong'), 401, 401],
  ['an inactive admin', basic('zoe'), 401, 401],
  ['a user', basic('bob'), 0, 403],
  ['an admin', basic('ada'), 0, 0],
];

describe('access levels', () => {
  let service: TestService;
  before(async () => {
    const matrix = pairs.map(([access, read]): Resource => ({
      model: nameOf(access, read),
      columns,
      access,
      read,
    }));
    service = await startService([user, ...matrix], { trustProxy: 1 });
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
    await service.addUser('zoe', { admin: true, active: false });
    for (const { model } of matrix) await service.sql`insert into ${service.sql(model)} default values`;
  });
  after(() => service.close());

  const ask = (method: string, path: string, authorization: string | undefined): Promise<Answer> =>
    service.request(path, {
      method,
      headers: { ...fromNewAddress(), ...(authorization === undefined ? {} : { authorization }) },
      body: method === 'POST' || method === 'PUT' ? { title: 'x' } : undefined,
    });

  /** Adds a record, and gives its path. */
  async function newRecord(model: string): Promise<string> {
    const [row] = await service.sql`insert into ${service.sql(model)} default values returning id`;
    return `/api/${model}/${row?.['id']}/`;
  }

  for (const [access, read] of pairs) {
    test(`write level ${access} and read level ${read} apply to every method and caller`, async () => {
      const model = nameOf(access, read);
      for (const [caller, authorization, atUser, atAdmin] of CALLERS) {
        const reading = { default: 0, user: atUser, admin: atAdmin }[read];
        const writing = { default: 401, user: atUser, admin: atAdmin }[access];
        for (const [method, path, expected, success] of [
          ['GET', `/api/${model}/`, reading, 200],
          ['HEAD', `/api/${model}/`, reading, 200],
          ['GET', await newRecord(model), reading, 200],
          ['HEAD', await newRecord(model), reading, 200],
          ['POST', `/api/${model}/`, writing, 201],
          ['PUT', await newRecord(model), writing, 200],
          ['DELETE', await newRecord(model), writing, 200],
        ] as const) {
          const answer = await ask(method, path, authorization);
          const label = `${method} ${path} by ${caller}`;
          if (expected === 0) assert.equal(answer.status, success, label);
          else if (method === 'HEAD') assert.deepEqual([answer.status, answer.text], [expected, ''], label);
          else if (expected === 401) assertUnauthorized(answer, label);
          else assertProblem(answer, expected, label);
        }
      }
    });
  }
});

describe('a join into a resource with a read level', () => {
  let service: TestService;
  before(async () => {
    const secret: Resource = { model: 'secret', columns: { word: { type: 'string' } }, read: 'user' };
    const vault: Resource = { model: 'vault', columns: { word: { type: 'string' } }, read: 'admin' };
    const unread: Resource = { model: 'unread', columns: { word: { type: 'string' } }, methods: ['POST'] };
    const item: Resource = {
      model: 'item',
      columns: Object.fromEntries(
        ['secret', 'vault', 'unread'].map((references) => [references, { type: 'foreignKey', references }]),
      ),
    };
    service = await startService([user, secret, vault, unread, item], { trustProxy: 1 });
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
    for (const model of ['secret', 'vault', 'unread'])
      await service.sql`insert into ${service.sql(model)} (word) values ('x')`;
    await service.sql`insert into item (secret_id, vault_id, unread_id) values (1, 1, 1)`;
  });
  after(() => service.close());

  const unknown = (parameter: string) => (answer: Answer) => {
    assertProblem(answer, 400);
    assert.deepEqual(Object.keys(answer.json.errors), [parameter]);
  };
  const found = ({ status, json }: Answer): void => {
    assert.equal(status, 200);
    assert.equal(json.objects.length, 1);
  };

  for (const [target, caller, authorization, check] of [
    ['secret', 'nobody', undefined, 'unknown'],
    ['secret', 'a user', basic('bob'), 'found'],
    ['secret', 'a wrong password', basic('bob', 'no'), '401'],
    ['vault', 'nobody', undefined, 'unknown'],
    ['vault', 'a user', basic('bob'), 'unknown'],
    ['vault', 'an admin', basic('ada'), 'found'],
    ['vault', 'a malformed header', 'Basic ?', '401'],
    ['unread', 'an admin', basic('ada'), 'unknown'],
  ] as const) {
    const answers = { found: 'finds records', unknown: 'is an unknown column', '401': 'is 401' }[check];
    test(`a join into ${target} ${answers} for ${caller}`, async () => {
      for (const [query, parameter] of [
        [`${target}__word=x`, `${target}__word`],
        [`ordering=${target}__word`, 'ordering'],
        // Wrong credentials do not show which columns there are.
        ...(check === '401' ? [[`${target}__nothing=x`, ''] as const] : []),
      ] as const) {
        const answer = await service.request(`/api/item/?${query}`, {
          headers: { ...fromNewAddress(), ...(authorization === undefined ? {} : { authorization }) },
        });
        ({ found, unknown: unknown(parameter), '401': assertUnauthorized })[check](answer);
      }
    });
  }

  test('a column hidden by a level and an unknown column get the same answer', async () => {
    const hidden = await service.request('/api/item/?vault__word=x');
    const absent = await service.request('/api/item/?vault__nope=x');
    assert.equal(hidden.text.replaceAll('word', 'nope'), absent.text);
  });
});
