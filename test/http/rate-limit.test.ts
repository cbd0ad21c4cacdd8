// RATE_LIMIT: each client may send so many requests in a second, and so many at once.
import assert from 'node:assert/strict';
import { type IncomingMessage, request as send } from 'node:http';
import { once } from 'node:events';
import { API_STYLE_PATH, SCRIPT_PATH, STYLE_PATH } from '../../src/admin/web/assets.ts';
import {
  type Answer,
  basic,
  type RequestOptions,
  startService,
  useService,
  type TestService,
} from '../support.ts';
import { describe, test } from 'node:test';

const BURST = 5;
/** So many more than the burst that some are refused, even if the machine stalls for seconds. */
const MANY = 40;

describe('a client over RATE_LIMIT', () => {
  const service: TestService = useService(undefined, { rateLimit: `1,${BURST}`, trustProxy: 1 }, () =>
    service.addUser('ada', { admin: true }),
  );
  let clients = 0;

  const newAddress = (): string => `192.0.2.${(clients += 1)}`;

  const ask = (address: string, path: string, options: RequestOptions = {}): Promise<Answer> =>
    service.request(path, { ...options, headers: { 'x-forwarded-for': address, ...options.headers } });

  /** Uses up the requests of an address. @returns the first refusal */
  async function useUp(address: string, path = '/api/note/', options: RequestOptions = {}): Promise<Answer> {
    for (let count = 0; count < MANY; count += 1) {
      const answer = await ask(address, path, options);
      if (answer.status === 429) return answer;
    }
    throw new Error('was never refused');
  }

  test('gets 429 with Retry-After as a problem document, but not before the burst is used up', async () => {
    const address = newAddress();
    for (let count = 0; count < BURST; count += 1)
      assert.equal((await ask(address, '/api/note/')).status, 200);
    const { status, headers, json } = await useUp(address);
    assert.equal(status, 429);
    assert.equal(headers.get('retry-after'), '1');
    assert.equal(headers.get('content-type'), 'application/problem+json');
    assert.equal(json.detail, 'You are sending too many requests. Try again later.');
  });

  test('gets a page in a browser, in the API and in the admin area', async () => {
    const headers = { accept: 'text/html' };
    for (const path of ['/api/note/', '/admin/-/login/']) {
      const answer = await useUp(newAddress(), path, { headers });
      assert.match(answer.headers.get('content-type') ?? '', /^text\/html/);
      assert.match(answer.text, /You are sending too many requests/);
      assert.equal(answer.headers.get('retry-after'), '1');
    }
  });

  test('is counted apart from other addresses, and unknown paths count, too', async () => {
    await useUp(newAddress(), '/nothing');
    assert.equal((await ask(newAddress(), '/api/note/')).status, 200);
  });

  test('is refused before the body of the request is read', async () => {
    const address = newAddress();
    await useUp(address);
    const headers = { 'x-forwarded-for': address, 'content-length': '100', expect: '100-continue' };
    for (let tries = 0; ; tries += 1) {
      const outgoing = send(`${service.base}/api/note/`, { method: 'POST', headers, agent: false });
      outgoing.on('error', () => undefined);
      outgoing.flushHeaders(); // and no body
      const refused = once(outgoing, 'response').then(([response]) => response as IncomingMessage);
      const read = once(outgoing, 'continue').then(() => undefined);
      read.catch(() => undefined);
      const response = await Promise.race([refused, read]);
      outgoing.destroy();
      if (response?.statusCode === 429) break;
      assert.ok(tries < MANY, 'every body was read');
    }
  });

  test('still gets health checks and the files of the pages', async () => {
    const address = newAddress();
    await useUp(address);
    for (const path of [
      '/healthz',
      '/healthz/',
      '/readyz',
      '/readyz/',
      STYLE_PATH,
      SCRIPT_PATH,
      API_STYLE_PATH,
    ])
      for (let count = 0; count < 2 * BURST; count += 1) assert.equal((await ask(address, path)).status, 200);
  });

  for (const path of ['/api/-/0.css', '/api/-/style-000000000000.css', '/admin/-/no-such-file.js'])
    test(`of requests for ${path}, which does not exist, gets 429 like for any other path`, async () => {
      await useUp(newAddress(), path);
    });

  test('is counted in the metrics, which are not counted themselves', async () => {
    const scrape = async (): Promise<number> => {
      const text = await service.metrics();
      return Number(/^vitrine_http_requests_limited_total (\d+)$/m.exec(text)?.[1]);
    };
    const first = await scrape();
    await useUp(newAddress());
    for (let count = 0; count < 2 * BURST; count += 1) assert.equal(await scrape(), first + 1);
  });

  test('is the user if the credentials were verified before, also if others at the address send requests', async () => {
    const address = newAddress();
    const authorization = basic('ada');
    const body = { message: 'x' };
    const write = (from: string): Promise<Answer> =>
      ask(from, '/api/note/', { method: 'POST', headers: { authorization }, body });
    assert.equal((await write(address)).status, 201); // counts for the address
    await useUp(address);
    assert.equal((await write(address)).status, 201);
    await useUp(address, '/api/note/', { headers: { authorization } });
    // The user is at the limit everywhere where the credentials are remembered; elsewhere, the address counts.
    assert.equal((await write(newAddress())).status, 201);
  });

  test('is the address if the credentials are made up', async () => {
    const address = newAddress();
    for (let count = 0; ; count += 1) {
      const { status } = await ask(address, '/api/note/', {
        headers: { authorization: basic(`name${count}`) },
      });
      if (status === 429) break;
      assert.ok(count < MANY, 'each made-up name was counted apart');
    }
  });
});

test('without RATE_LIMIT no number of requests is refused', async () => {
  const service = await startService();
  try {
    for (let count = 0; count < 100; count += 1)
      assert.equal((await service.request('/api/note/')).status, 200);
  } finally {
    await service.close();
  }
});
