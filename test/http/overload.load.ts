// A process whose event loop is delayed refuses requests, but not the first few.
import assert from 'node:assert/strict';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { API_STYLE_PATH, STYLE_PATH } from '../../src/admin/web/assets.ts';
import { memoryWarning } from '../../src/http/load/overload.ts';
import { basic, useService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { describe, test } from 'node:test';

/** Blocks the event loop of the service, which runs in this process, as a machine without free processor time does. */
async function delayEventLoop(): Promise<void> {
  for (let count = 0; count < 3; count += 1) {
    const until = performance.now() + 600;
    while (performance.now() < until);
    await sleep(1);
  }
}

describe('while the event loop is delayed', () => {
  const service: TestService = useService(undefined, {}, () => service.addUser('ada'));

  test('the files of the pages are served, and other paths of their form are refused', async () => {
    const open = Array.from({ length: 9 }, () => {
      const headers = { Authorization: basic('ada'), 'Content-Type': 'application/json' };
      const outgoing = request(`${service.base}/api/note/`, { method: 'POST', headers, agent: false });
      outgoing.on('error', () => undefined).write('{"message":'); // The rest never arrives.
      return outgoing;
    });
    // Before the delay, under which they would be refused, too.
    const inFlight = /^vitrine_http_requests_in_flight 9$/m;
    await eventually(async () => inFlight.test(await service.metrics()), 'the requests');
    await delayEventLoop();
    const paths = ['/healthz', API_STYLE_PATH, STYLE_PATH, '/api/-/0.css', '/admin/-/0.js'];
    const answers = await Promise.all(paths.map((path) => service.request(path)));
    for (const outgoing of open) outgoing.destroy();
    const isIdle = /^vitrine_http_requests_in_flight 0$/m;
    await eventually(async () => isIdle.test(await service.metrics()), 'the end of the requests');
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 503, 503],
    );
  });

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
    for (const outgoing of open) outgoing.destroy();
  });
});

describe('the memory of several processes', () => {
  const MIB = 1024 ** 2;
  for (const { workers, maxPage, limit, expected } of [
    { workers: 2, maxPage: 32, limit: 512, expected: undefined },
    { workers: 2, maxPage: 32, limit: 511, expected: /share 511 MiB and need 512 MiB/ },
    { workers: 8, maxPage: 32, limit: 1_024, expected: /^WORKERS=8 .*share 1024 MiB and need 2048 MiB/ },
    { workers: 2, maxPage: 128, limit: 512, expected: /need 896 MiB/ },
  ])
    test(`${limit} MiB for ${workers} with pages of ${maxPage} MiB ${expected ? 'are a warning' : 'are enough'}`, () => {
      const warning = memoryWarning({ workers, maxPage: maxPage * MIB }, limit * MIB);
      if (expected) assert.match(warning ?? '', expected);
      else assert.equal(warning, undefined);
    });
});
