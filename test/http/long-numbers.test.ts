import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const thing: Resource = {
  model: 'thing',
  columns: {
    exact: { type: 'decimal', precision: 10, scale: 2, null: true },
    extra: { type: 'json', null: true },
  },
  access: 'user',
};

describe('long numbers', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, thing]);
    await service.addUser('ada');
  });
  after(() => service.close());

  /** Long runs of digits, which a careless pattern scans again from each digit. */
  const ONES = '1'.repeat(130_000);
  const ZEROS = '0'.repeat(1_000_000);
  for (const [kind, body, status] of [
    ['a JSON number', `{"extra": [1${ZEROS}]}`, 400],
    ['a JSON string', `{"extra": {"phone": "${ONES.repeat(7)}"}}`, 201],
    ['many numbers in JSON', `{"extra": [${`${ONES},`.repeat(6)}1]}`, 201],
    ['a small decimal', `{"exact": "0.${ZEROS}1"}`, 400],
    ['a large decimal', `{"exact": "${ZEROS}1"}`, 400],
    ['a JSON number for a decimal', `{"exact": 0.${ZEROS}1}`, 400],
  ] as const)
    // A quadratic scan takes minutes, which is more than the timeout.
    test(
      `${kind} of a million digits is answered, and so is the next request`,
      { timeout: 20_000 },
      async () => {
        const headers = { 'content-type': 'application/json' };
        const [answer, health] = await Promise.all([
          service.request('/api/thing/', { method: 'POST', user: 'ada', headers, body }),
          service.request('/healthz'),
        ]);
        assert.equal(answer.status, status, answer.text.slice(0, 200));
        assert.equal(health.status, 200);
      },
    );
});
