// A process whose event loop is delayed refuses requests, but not the first few.
import assert from 'node:assert/strict';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { basic, startService, type TestService } from '../support.ts';

/** Blocks the event loop of the service, which runs in this process, as a machine without free processor time does. */
async function delayEventLoop(): Promise<void> {
  for (let count = 0; count < 3; count += 1) {
    const until = performance.now() + 600;
    while (performance.now() < until);
    await sleep(1);
  }
}

describe('while the event loop is delayed', () => {
  let service: TestService;
  before(async () => {
    service = await startService();
    await service.addUser('ada');
  });
  after(() => service.close());

  test('a single request is answered, and more than 8 at once are refused', async () => {
    await delayEventLoop();
    assert.equal((await service.request('/api/note/')).status, 200);
    const open: ClientRequest[] = [];
    const refused = await Promise.race(
      Array.from({ length: 9 }, () => {
        const headers = { Authorization: basic('ada'), 'Content-Type': 'application/json' };
        const outgoing = request(`${service.base}/api/note/`, { method: 'POST', headers });
        open.push(outgoing.on('error', () => undefined));
        outgoing.write('{"message":'); // The rest never arrives.
        return new Promise<IncomingMessage>((resolve) => outgoing.on('response', resolve));
      }),
    );
    assert.deepEqual([refused.statusCode, refused.headers['retry-after']], [503, '1']);
    assert.equal((await service.request('/healthz')).status, 200);
    for (const outgoing of open) outgoing.destroy();
  });
});
