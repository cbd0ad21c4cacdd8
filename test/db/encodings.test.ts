import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { assertProblem, assertUnauthorized } from '../http/expect.ts';
import { basic, cheapHash, createDatabase, request, type TestDatabase } from '../support.ts';

const word: Resource = {
  model: 'word',
  primaryKey: { type: 'string' },
  columns: { text: { type: 'text', null: true } },
  access: 'user',
};

describe('a database with the encoding LATIN1', () => {
  let database: TestDatabase;
  let vitrine: Vitrine;
  let base: string;
  before(async () => {
    database = await createDatabase('LATIN1');
    vitrine = await createVitrine({
      databaseUrl: database.url,
      resources: [user, word],
      port: 0,
      log: () => undefined,
    });
    base = (await vitrine.start()).url;
    const password = await cheapHash('pw-ada');
    await database.sql`insert into "user" (username, password, email) values ('ada', ${password}, '')`;
  });
  after(async () => {
    await vitrine.close();
    await database.drop();
  });

  test('stores and finds characters of LATIN1', async () => {
    const body = { id: 'é', text: 'ü' };
    assert.equal((await request(base, '/api/word/', { method: 'POST', user: 'ada', body })).status, 201);
    assert.deepEqual((await request(base, '/api/word/é/')).json, body);
    assert.deepEqual((await request(base, '/api/word/?text=ü')).json.objects, [body]);
  });

  test('returns 404 for an id with another character, and 401 for a user name', async () => {
    assertProblem(await request(base, '/api/word/日/'), 404);
    const headers = { authorization: basic('日') };
    assertUnauthorized(await request(base, '/api/word/', { method: 'POST', headers, body: {} }));
  });

  test('returns 400 for a value with another character', async () => {
    const body = { id: 'x', text: '日' };
    assertProblem(await request(base, '/api/word/', { method: 'POST', user: 'ada', body }), 400);
    assertProblem(await request(base, '/api/word/?text=日'), 400);
  });
});
