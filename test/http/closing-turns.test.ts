import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createHttpServer } from '../../src/http/server/http-server.ts';

/** Keeps the event loop busy, as the system does when it frees thousands of received packets. */
function hold(milliseconds: number): void {
  for (const end = performance.now() + milliseconds; performance.now() < end;);
}

test('connections that take long to close are closed in turns of their own, all of them', async () => {
  const handler = Object.assign(() => undefined, {
    accepted: () => undefined,
    refuseMethod: () => assert.fail(),
  });
  const server = createHttpServer(handler);
  let closed = 0;
  // This listener comes before that of the server, so this is what waits for a turn.
  server.prependListener('connection', (socket) => {
    const destroy = socket._destroy.bind(socket);
    socket._destroy = (error, callback) => {
      hold(6);
      closed++;
      destroy(error, callback);
    };
  });
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
