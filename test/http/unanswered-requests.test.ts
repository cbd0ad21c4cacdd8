import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { UnansweredRequests, REQUEST_SIZE } from '../../src/http/load/unanswered-requests.ts';
import { test } from 'node:test';

function waiting(
  url = '/',
  rawHeaders: string[] = [],
): { held: UnansweredRequests; request: IncomingMessage } {
  const request = new IncomingMessage(new Socket());
  Object.assign(request, { url, rawHeaders });
  const held = new UnansweredRequests();
  held.add(request, () => undefined);
  return { held, request };
}

test('an unread body in chunks of one byte counts for what Node holds, until it is read', () => {
  const { held, request } = waiting();
  const length = 1_000;
  for (let count = 0; count < length; count += 1) request.push(Buffer.alloc(1));
  assert.ok(held.bytes > 300 * length, String(held.bytes));
  // From Node.js 26 on, each call returns only one chunk.
  while (request.read() !== null);
  assert.equal(held.bytes, REQUEST_SIZE);
  request.push(Buffer.alloc(1_000));
  assert.ok(held.bytes < REQUEST_SIZE + 2_000, String(held.bytes));
  held.delete(request);
  assert.deepEqual([held.size, held.bytes], [0, 0]);
});

test('a request with a long head counts for more than an ordinary one', () => {
  const { held } = waiting(`/?${'x'.repeat(10_000)}`, ['X', 'y'.repeat(20_000)]);
  assert.ok(held.bytes > 60_000);
});
