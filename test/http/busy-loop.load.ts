// A process whose event loop is delayed refuses requests, but not the first few.
import assert from 'node:assert/strict';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { API_STYLE_PATH, STYLE_PATH } from '../../src/admin/web/assets.ts';
import { memoryWarning } from '../../src/http/load/overload.ts';
import { basic, type TestService, useService, pluck } from '../support.ts';
import { eventually } from './expect.ts';
import { note, user } from '../../src/resources/registry.ts';
import { requestText, wire, type Wire, type WireAnswer } from './wire.ts';

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
    assert.deepEqual(pluck(answers, 'status'), [200, 200, 200, 503, 503]);
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

// Requests whose work begins at the same moment take turns at the event loop.

describe('bodies that are complete at the same moment', () => {
  const service: TestService = useService(
    [user, note],
    { trustProxy: 1, maxBody: 4_000_000, logLevel: 'info' },
    async () => {
      await service.addUser('bob');
      await service.sql`insert into note (message) select 'x' from generate_series(1, 100)`;
      await service.request('/api/note/1/', { method: 'PUT', user: 'bob', body: { message: 'y' } });
    },
  );

  const LARGE = `{"nosuch":[${'1,'.repeat(500_000)}1]}`;

  /** Sends bodies that end at the same time, and reads the answers. */
  async function sendOnce(count: number, body: string): Promise<(number | undefined)[]> {
    const headers = {
      authorization: basic('bob'),
      'content-type': 'application/json',
      'content-length': String(body.length),
    };
    const value = (text: string, name: string): number =>
      Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
    const uploads: { readonly connection: Wire; readonly answer: Promise<WireAnswer | undefined> }[] = [];
    while (uploads.length < count) {
      const connection = wire(service);
      connection.send(requestText('PUT', '/api/note/1/', headers, body.slice(0, -1)));
      let isRefused = false;
      const answer = connection.next().finally(() => (isRefused = true));
      const least = uploads.length + 1;
      await eventually(async () => {
        const text = await service.metrics();
        // Small bodies count in no budget, but their requests are in progress.
        const isReceived =
          value(text, 'vitrine_http_requests_in_flight') >= least &&
          value(text, 'vitrine_request_bodies_bytes') >= least * (body.length - 20_000);
        return isReceived || isRefused;
      }, 'a body');
      // A busy machine makes the service refuse a body now and then.
      if (isRefused) connection.destroy();
      else uploads.push({ connection, answer });
    }
    for (const { connection } of uploads) connection.send('}');
    const answers = await Promise.all(uploads.map(({ answer }) => answer));
    for (const { connection } of uploads) connection.destroy();
    return answers.map((answer) => answer?.status);
  }

  /**
   * Sends bodies that end at the same time until each is processed. A machine that paused needs more than the two seconds after
   * which the last ones are refused. @param begin runs before each attempt
   */
  async function sendTogether(
    count: number,
    body = LARGE,
    begin: () => void = () => undefined,
  ): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      begin();
      const statuses = await sendOnce(count, body);
      if (statuses.includes(429) && tries < 5) continue;
      return assert.deepEqual(new Set(statuses), new Set([400]));
    }
  }

  test('small bodies whose last bytes arrive together are processed in several turns', async (context) => {
    let turns = 0;
    let isOver = false;
    const parsedIn = new Map<number, number>();
    const parse = JSON.parse;
    context.mock.method(JSON, 'parse', (text: string) => {
      if (text === '"first"') parsedIn.set(turns, (parsedIn.get(turns) ?? 0) + 1);
      return parse(text) as unknown;
    });
    const fields = Array.from({ length: 1_300 }, (_, index) => `"x${index}":1`);
    const sent = sendTogether(100, `{"first":1,${fields.join(',')}}`, () => parsedIn.clear()).finally(
      () => (isOver = true),
    );
    for (; !isOver; turns += 1) await turn();
    await sent;
    const counts = [...parsedIn.values()];
    assert.equal(
      counts.reduce((sum, count) => sum + count),
      100,
    );
    assert.ok(counts.length > 3, `processed in each turn: ${counts.join(', ')}`);
  });

  test('large bodies that arrive together are parsed one per turn of the event loop', async (context) => {
    let turns = 0;
    let isOver = false;
    const parsedIn: number[] = [];
    const parse = JSON.parse;
    context.mock.method(JSON, 'parse', (text: string) => {
      if (text === '"nosuch"') parsedIn.push(turns);
      return parse(text) as unknown;
    });
    const sent = sendTogether(12, LARGE, () => parsedIn.splice(0)).finally(() => (isOver = true));
    for (; !isOver; turns += 1) await turn();
    await sent;
    assert.equal(parsedIn.length, 12);
    for (const [index, parsed] of parsedIn.slice(1).entries())
      assert.ok(parsed > Number(parsedIn[index]), `parsed in turns ${parsedIn.join(', ')}`);
  });
});
