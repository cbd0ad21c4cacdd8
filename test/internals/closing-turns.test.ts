import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createHttpServer } from '../../src/http/server/http-server.ts';
import { eventually } from '../http/expect.ts';
import { test } from 'node:test';

/** Keeps the event loop busy, as the system does when it frees thousands of received packets. */
function hold(milliseconds: number): void {
  for (const end = performance.now() + milliseconds; performance.now() < end;);
}

/** Makes each connection take 6 ms to close. This listener comes before that of the server, so this is what waits for a turn. */
function closeSlowly(server: Server, onClose: () => void = () => undefined): void {
  server.prependListener('connection', (socket) => {
    const { _handle: handle } = socket as unknown as { _handle: { close: (callback: () => void) => void } };
    const close = handle.close.bind(handle);
    handle.close = (callback) => {
      hold(6);
      onClose();
      close(callback);
    };
  });
}

test('connections that take long to close are closed in turns of their own, all of them', async () => {
  const handler = Object.assign(() => undefined, {
    accepted: () => undefined,
    refuseMethod: () => assert.fail(),
  });
  const server = createHttpServer(handler);
  let closed = 0;
  closeSlowly(server, () => closed++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const clients = Array.from({ length: 6 }, () => connect(port, '127.0.0.1'));
  const ends = clients.map((client) => once(client, 'close'));
  const countOpen = promisify(server.getConnections.bind(server));
  while ((await countOpen()) < clients.length) await nextTurn();

  server.closeAllConnections();
  const perTurn = [closed];
  for (let before = closed; closed < clients.length && perTurn.length < 100; before = closed) {
    await nextTurn();
    perTurn.push(closed - before);
  }
  server.close();
  await Promise.all(ends);
  assert.equal(closed, clients.length);
  assert.equal(Math.max(...perTurn), 1, `closed in each turn: ${perTurn.join(', ')}`);
});

test('connections that wait to be closed receive nothing, whatever their clients go on sending', async () => {
  const urls: (string | undefined)[] = [];
  const handler = Object.assign(
    ({ url }: IncomingMessage, response: ServerResponse) => {
      urls.push(url);
      if (url === '/quick') response.end();
    },
    {
      accepted: () => undefined,
      refuseMethod: () => ({ status: 405, headers: {}, body: '' }),
    },
  );
  const server = createHttpServer(handler);
  closeSlowly(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const slow = 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n';
  // Read by Node's parser, by the service in turns, and by nobody.
  const starts = [
    'GET /quick HTTP/1.1\r\nHost: x\r\n\r\n',
    slow.repeat(2),
    'CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n',
  ];
  const clients = Array.from({ length: 30 }, () => connect(port, '127.0.0.1'));
  for (const [index, client] of clients.entries())
    client
      .on('error', () => undefined)
      .resume()
      .write(starts[index % starts.length] ?? '');
  const ends = clients.map((client) => new Promise((end) => client.once('close', end)));
  const before = 30;
  await eventually(() => urls.length === before, 'the requests');
  server.closeAllConnections();
  for (const client of clients) client.write('GET /late HTTP/1.1\r\nHost: x\r\n\r\n');
  server.close();
  await Promise.all(ends);
  assert.deepEqual(urls.slice(before), []);
});

test('requests that are late at the same time are answered in turns, all of them, and none that has arrived by its turn', async () => {
  const handler = Object.assign(
    (_: IncomingMessage, response: ServerResponse) => void response.end('in time'),
    { accepted: () => undefined, refuseMethod: () => assert.fail() },
  );
  let refused = 0;
  const onUnreadable = (): void => {
    hold(6);
    refused++;
  };
  const server = createHttpServer(handler, { onUnreadable });
  const sockets: Socket[] = [];
  server.on('connection', (socket) => sockets.push(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const clients = Array.from({ length: 7 }, () => connect(port, '127.0.0.1'));
  for (const client of clients) client.write('GET / HTTP/1.1\r\n');
  const answers = clients.map(async (client) => text(client));
  while (sockets.length < clients.length || sockets.some(({ bytesRead }) => bytesRead === 0))
    await nextTurn();

  // As Node does for all connections that it finds expired.
  const late = Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
  for (const socket of sockets) server.emit('clientError', late, socket);
  sockets.at(-1)?.emit('data', Buffer.from('Host: x\r\nConnection: close\r\n\r\n'));
  // Node lets go of a connection with such a request.
  sockets.at(-2)?.emit('data', Buffer.from('Host: x\r\nConnection: Upgrade, close\r\nUpgrade: x\r\n\r\n'));
  const perTurn = [refused];
  for (let before = refused; refused < 5 && perTurn.length < 100; before = refused) {
    await nextTurn();
    perTurn.push(refused - before);
  }
  server.close();
  const statuses = (await Promise.all(answers)).map((answer) => answer.split(' ', 2)[1]);
  assert.deepEqual(statuses.sort(), ['200', '200', '408', '408', '408', '408', '408']);
  assert.equal(Math.max(...perTurn), 1, `refused in each turn: ${perTurn.join(', ')}`);
});
