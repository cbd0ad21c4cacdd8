import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const one: Resource = {
  model: 'one',
  columns: {
    number: { type: 'integer', null: true },
    big: { type: 'bigint', null: true },
    json: { type: 'json', null: true },
    day: { type: 'date', null: true },
    moment: { type: 'datetime', null: true },
  },
  access: 'user',
};

describe('a whole number is checked by its digits, not by its nearest double', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, one]);
    await service.addUser('ada');
    await service.sql`insert into one default values`;
  });
  after(() => service.close());

  for (const [sent, status, key] of [
    ['{"number":4.9999999999999999999}', 400, 'number'],
    ['{"number":1e-99999999}', 400, 'number'],
    ['{"number":2147483647.00000001}', 400, 'number'],
    ['{"number":1.0}', 200, 1],
    ['{"number":1e2}', 200, 100],
    ['{"number":-0.5e1}', 200, -5],
    [`{"json":${'1'.repeat(140_000)}}`, 400, 'json'],
    ['{"day":"10000-01-01"}', 400, 'day'],
    ['{"moment":"0044-03-15 00:00:00 BC"}', 400, 'moment'],
    ['{"big":1.0}', 200, '1'],
    ['{"big":9.007199254740993e15}', 200, '9007199254740993'],
    ['{"big":1.5}', 400, 'big'],
  ] as const) {
    test(`${sent.slice(0, 60)} is ${status}`, async () => {
      const answer = await service.request('/api/one/1/', {
        method: 'PUT',
        user: 'ada',
        body: sent,
        headers: { 'content-type': 'application/json' },
      });
      assert.equal(answer.status, status, answer.text);
      if (status === 400) assert.deepEqual(Object.keys(answer.json.errors), [key]);
      else assert.equal(sent.includes('big') ? answer.json.big : answer.json.number, key);
    });
  }
});
