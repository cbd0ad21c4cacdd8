// Answers that take long to make: errors of long queries, and the OpenAPI document.
import assert from 'node:assert/strict';
import { ServerResponse } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { note, user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { requestText, wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

/** As many parameters as fit into a query. */
const LONG = `/api/note/?${'a&'.repeat(4_000)}`;
const PAGE = { accept: 'text/html' };

describe('pages that are costly to make', () => {
  let service: TestService;
  before(async () => {
    const many = Array.from({ length: 20 }, (_, index) => ({
      model: `other${index}`,
      columns: { text: { type: 'text' as const } },
    }));
    service = await startService([user, note, ...many], { trustProxy: 1 });
  });
  after(() => service.close());

  const from = (index: number): Record<string, string> => ({ ...PAGE, 'x-forwarded-for': `10.0.${index}.1` });

  for (const [what, path, accept, expected] of [
    ['error pages of long queries', LONG, 'text/html', 400],
    ['error documents of long queries', LONG, 'application/json', 400],
  ] as const)
    test(`${what} are made in turns of the event loop`, async (context) => {
      let turns = 0;
      let isOver = false;
      const madeIn: number[] = [];
      // eslint-disable-next-line @typescript-eslint/unbound-method
      const writeHead = ServerResponse.prototype.writeHead as (this: unknown, ...all: unknown[]) => unknown;
      context.mock.method(ServerResponse.prototype, 'writeHead', function (this: unknown, ...all: unknown[]) {
        if (all[0] === expected) madeIn.push(turns);
        return writeHead.apply(this, all);
      });
      const clients = Array.from({ length: 12 }, () => wire(service));
      const answered = Promise.all(
        clients.map(async (client, index) => {
          client.send(requestText('GET', path, { ...from(index), accept }));
          assert.equal((await client.next())?.status, expected);
          client.destroy();
        }),
      ).finally(() => (isOver = true));
      for (; !isOver; turns += 1) await turn();
      await answered;
      assert.equal(madeIn.length, 12);
      // The error of a query that was parsed before may be made in the same turn.
      for (const made of madeIn)
        assert.ok(madeIn.filter((other) => other === made).length <= 2, `made in turns ${madeIn.join(', ')}`);
    });

  test('the OpenAPI document is sent from the same bytes each time, and compressed once', async (context) => {
    const sent = new Set<unknown>();
    // eslint-disable-next-line @typescript-eslint/unbound-method
    const end = ServerResponse.prototype.end as (this: unknown, ...all: unknown[]) => unknown;
    context.mock.method(ServerResponse.prototype, 'end', function (this: unknown, ...all: unknown[]) {
      sent.add(all[0]);
      return end.apply(this, all);
    });
    for (const coding of ['identity', 'gzip', 'gzip', 'identity']) {
      const response = await service.request('/api/openapi.json', { headers: { 'accept-encoding': coding } });
      assert.equal(response.status, 200);
    }
    const sizes = [...sent].map((body) => (Buffer.isBuffer(body) ? body.length : NaN));
    const [whole = 0, compressed = 0] = sizes;
    assert.ok(sizes.length === 2 && compressed < whole / 2, `sent ${sizes.join(', ')}`);
  });
});
