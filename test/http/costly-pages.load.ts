// Pages for browsers that take long to make: errors of long queries, and the index of many resources.
import assert from 'node:assert/strict';
import { ServerResponse } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { note, user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { requestText, wire } from './wire.ts';
import { after, before, describe, test, type TestContext } from 'node:test';

/** As many parameters as fit into a query. */
const LONG = `/api/note/?${'a&'.repeat(4_000)}`;
const PAGE = { accept: 'text/html' };

/** Counts the calls of a global function or a method. */
function countCalls<T extends object>(context: TestContext, object: T, name: keyof T): () => number {
  const { mock } = context.mock.method(object as Record<string, () => unknown>, name as string);
  return () => mock.callCount();
}

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

  test('the error page of thousands of parameters encodes only those that it shows', async (context) => {
    const encoded = countCalls(context, globalThis, 'encodeURIComponent');
    const { status, text } = await service.request(LONG, { headers: PAGE });
    assert.equal(status, 400);
    assert.match(text, /and 3940 more/);
    assert.ok(encoded() < 500, `${encoded()} calls`);
  });

  for (const [what, path, accept, expected] of [
    ['error pages of long queries', LONG, 'text/html', 400],
    ['error documents of long queries', LONG, 'application/json', 400],
    ['indexes of many resources', '/api/', 'text/html', 200],
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

  test('the index describes its resources once, not for each request', async (context) => {
    const first = await service.request('/api/', { headers: PAGE });
    const replaced = countCalls(context, String.prototype, 'replace');
    const second = await service.request('/api/', { headers: PAGE });
    assert.equal(second.text, first.text);
    assert.match(second.text, /other19/);
    assert.ok(replaced() < 200, `${replaced()} replacements`);
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
