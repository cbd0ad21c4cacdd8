// Bytes that are costly to parse delay only the client that sends them.
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { once } from 'node:events';
import { startService, type TestService } from '../support.ts';
import { json } from '../../src/http/message/message.ts';
import { createHttpServer, listen } from '../../src/http/server/http-server.ts';
import type { Handler } from '../../src/http/server/request-handler.ts';
import { takeTurn } from '../../src/http/server/parser-turns.ts';
import { countTurns } from '../turns.ts';
import { after, before, describe, test } from 'node:test';

/** Sends a request from an address of its own, and reads all that comes until the connection is closed. */
async function exchange({ base }: TestService, bytes: string, localAddress: string): Promise<string> {
  const { hostname, port } = new URL(base);
  const socket = connect({ port: Number(port), host: hostname, localAddress });
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));
  socket.on('error', () => undefined);
  socket.write(bytes);
  await once(socket, 'close');
  return received;
}

const head = (start: string, ...lines: readonly string[]): string =>
  [`${start} HTTP/1.1`, 'Host: x', ...lines, '', ''].join('\r\n');
const named = (count: number): string[] => Array.from({ length: count }, (_, index) => `h${index}:`);
const statusesIn = (text: string): string[] => text.match(/(?<=HTTP\/1\.1 )\d+/g) ?? [];

test('between two rounds of parsing, the event loop can accept several connections', async () => {
  const parse = (): void => {
    const until = performance.now() + 1;
    while (performance.now() < until);
  };
  const [, turns] = await countTurns(
    () =>
      new Promise<void>((resolve) => {
        for (let index = 0; index < 60; index += 1) takeTurn('a', () => parse());
        takeTurn('a', resolve);
      }),
  );
  assert.ok(turns > 100, `${turns} turns`);
});

test('the networks of one IPv6 customer take turns at the parser as one client', async () => {
  const order: string[] = [];
  const turn = (network: string): Promise<void> =>
    new Promise((resolve) => {
      takeTurn(network, () => {
        order.push(network);
        resolve();
      });
    });
  const many = Array.from({ length: 50 }, (_, index) => turn(`2001:db8:1:${index.toString(16)}::/64`));
  await Promise.all([...many, turn('2001:db8:2:1::/64')]);
  assert.equal(order.indexOf('2001:db8:2:1::/64'), 1);
});

describe('a service', () => {
  let service: TestService;
  before(async () => {
    service = await startService();
    await service.addUser('ada');
  });
  after(() => service.close());

  test('goes on with other work while it parses a body of tiny chunks', async () => {
    const chunks = '1\r\nx\r\n'.repeat(200_000);
    const text = `${head('POST /api/note/', 'Transfer-Encoding: chunked')}${chunks}0\r\n\r\n`;
    const [answer, turns] = await countTurns(() => exchange(service, text, '127.0.0.61'));
    assert.deepEqual(statusesIn(answer), ['401']);
    assert.ok(turns > 80, `${turns} turns`);
  });

  test('refuses 200 headers, also with Upgrade, and reads further requests of the client in turns', async () => {
    const last = head('GET /healthz', 'Connection: close');
    const address = '127.0.0.62';
    const most = head('GET /healthz', ...named(198)) + last;
    assert.deepEqual(statusesIn(await exchange(service, most, address)), ['200', '200']);
    for (const count of [199, 200, 3_000]) {
      const refused = await exchange(service, head('GET /healthz', ...named(count)) + last, address);
      assert.deepEqual(statusesIn(refused), ['431']);
      assert.match(refused, /"detail":"The request has too many headers\. The maximum is 199\."/);
    }
    const upgrade = head('GET /healthz', ...named(500), 'Connection: Upgrade', 'Upgrade: x') + last;
    assert.deepEqual(statusesIn(await exchange(service, upgrade, address)), ['431']);
    const credentials = `Authorization: Basic ${Buffer.from('ada:pw-ada').toString('base64')}`;
    const type = 'Content-Type: application/json';
    const body = JSON.stringify({ message: 'x'.repeat(9_000) });
    const chunked = `${(body.length >> 1).toString(16)}\r\n${body.slice(0, body.length >> 1)}\r\n`;
    const rest = body.slice(body.length >> 1);
    const requests = [
      head('GET /healthz', ...named(150)),
      head('POST /api/note/', credentials, type, `Content-Length: ${body.length}`) + body,
      `${head('POST /api/note/', credentials, type, 'Transfer-Encoding: chunked')}${chunked}${rest.length.toString(16)}\r\n${rest}\r\n0\r\nt: x\r\n\r\n`,
      head('GET /api/note/1/', `x: ${'y'.repeat(20_000)}`),
      last,
    ];
    const answers = await exchange(service, requests.join(''), address);
    assert.deepEqual(statusesIn(answers), ['200', '201', '201', '200', '200']);
    const [{ count } = { count: 0 }] = await service.sql<{ count: number }[]>`
      select count(*)::int from note where message = ${'x'.repeat(9_000)}`;
    assert.equal(count, 2);
  });

  test('tells a URL that is too long from headers that are too large while it reads in turns', async () => {
    const address = '127.0.0.64';
    assert.deepEqual(statusesIn(await exchange(service, head('GET /healthz', ...named(3_000)), address)), [
      '431',
    ]);
    const credentials = `Authorization: Basic ${Buffer.from('ada:pw-ada').toString('base64')}`;
    const body = 'x'.repeat(3_000);
    const before = [
      '',
      head('GET /healthz', `x: ${'y'.repeat(5_000)}`),
      head('POST /api/note/', credentials, `Content-Length: ${body.length}`) + body,
      `${head('POST /api/note/', credentials, 'Transfer-Encoding: chunked')}3\r\n\n\n\n\r\n0\r\n\r\n`,
    ];
    for (const start of before) {
      for (const [text, status] of [
        [head(`GET /${'x'.repeat(40_000)}`), '414'],
        [head(`GET /${'x'.repeat(200_000)}`), '414'],
        [head('GET /healthz', `x: ${'y'.repeat(40_000)}`), '431'],
        [head('GET /healthz', `x: ${'y'.repeat(200_000)}`), '431'],
      ] as const)
        assert.equal(
          statusesIn(await exchange(service, start + text, address)).at(-1),
          status,
          start.slice(0, 20),
        );
    }
  });

  test('refuses a head with thousands of headers before its end', async () => {
    const [start] = head('GET /healthz', ...Array<string>(20_000).fill('a:')).split('\r\n\r\n');
    assert.deepEqual(statusesIn(await exchange(service, start ?? '', '127.0.0.63')), ['431']);
  });
});

test('connections that close at a head with too many headers give back what they held', async () => {
  const answering: Handler = Object.assign(
    (request: IncomingMessage, response: ServerResponse) =>
      request.url === '/ok' ? void response.end('ok') : void request.socket.once('end', () => response.end()),
    { accepted: () => undefined, refuseMethod: () => json(405, '{}') },
  );
  const server = await listen(
    createHttpServer(answering, { networkOfRequest: () => 'one client' }),
    '127.0.0.1',
    0,
  );
  const service = { base: server.url } as TestService;
  try {
    const text = head('GET /late') + head('GET /late', ...named(600));
    // A network is read in pieces after its first such head, so each connection has an address of its own.
    for (let block = 1; block <= 16; block += 1)
      await Promise.all(
        Array.from({ length: 220 }, async (_, index) => {
          const { hostname, port } = new URL(server.url);
          const localAddress = `127.2.${block}.${index + 1}`;
          const socket = connect({ port: Number(port), host: hostname, localAddress });
          socket.on('error', () => undefined).write(text);
          await sleep(100);
          socket.destroy();
        }),
      );
    const last = head('GET /ok', 'Connection: close');
    const answers = await exchange(service, head('GET /ok').repeat(40) + last, '127.0.0.74');
    assert.deepEqual(statusesIn(answers), Array<string>(41).fill('200'));
  } finally {
    await server.close();
  }
});

describe('a service behind a proxy', () => {
  let service: TestService;
  before(async () => (service = await startService(undefined, { trustProxy: 1 })));
  after(() => service.close());

  test('lets the clients behind the proxy take turns at the parser', async () => {
    // Small enough that a slow machine, too, parses all 21 before the service closes connections whose requests it has answered.
    const body = `${'4\r\nxxxx\r\n'.repeat(8_000)}0\r\n\r\n`;
    const send = (client: string): Promise<string> =>
      exchange(
        service,
        head(
          'POST /api/note/',
          'Transfer-Encoding: chunked',
          'Connection: close',
          `X-Forwarded-For: ${client}`,
        ) + body,
        '127.0.0.64',
      );
    /** How many of the answers came before that of the other client. */
    const positionOfOther = async (): Promise<number> => {
      const order: string[] = [];
      const all = [...Array<string>(20).fill('203.0.113.1'), '203.0.113.2'].map(async (client) => {
        assert.deepEqual(statusesIn(await send(client)), ['401']);
        order.push(client);
      });
      await Promise.all(all);
      return order.indexOf('203.0.113.2');
    };
    // On a slow machine, the other client's head may arrive late: the first of some tries counts in which it did not.
    const positions: number[] = [];
    while (positions.length < 5 && !positions.some((position) => position < 10))
      positions.push(await positionOfOther());
    assert.ok(
      positions.some((position) => position < 10),
      `the other client was number ${positions.join(', ')}`,
    );
  });
});
