// Responses of megabytes are written in pieces, and other requests are served in between.
import assert from 'node:assert/strict';
import { ServerResponse } from 'node:http';
import { note, user } from '../../src/resources/registry.ts';
import { logIn } from '../admin/support.ts';
import { useService, type TestService } from '../support.ts';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Resource } from '../../src/index.ts';
import { describe, test } from 'node:test';

/** Milliseconds that each piece takes at least, and how many of them begin within the 5 ms of one turn. */
const PIECE_TIME = 1;
const MAX_IN_TURN = 5;

const LARGE = `${'"<é🦉>'.repeat(100_000)}`;

describe('a response of megabytes', () => {
  const service: TestService = useService([user, note], {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.sql`insert into note (message) select ${LARGE} from generate_series(1, 5)`;
  });

  for (const [name, path, text] of [
    ['a page of records', '/api/note/?limit=5', '"objects":['],
    ['a page in another order', '/api/note/?limit=5&ordering=-message', '"objects":['],
    ['a form of the admin area', '/admin/note/1/', '<textarea'],
  ] as const)
    test(`is whole, and written in many turns of the event loop: ${name}`, async (context) => {
      const browser = await logIn(service, 'ada');
      let turn = 0;
      let isOver = false;
      const nextTurn = (): void => {
        turn += 1;
        if (!isOver) setImmediate(nextTurn);
      };
      const turns: number[] = [];
      // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its object below
      const write = ServerResponse.prototype.write as (this: ServerResponse, piece: unknown) => boolean;
      context.mock.method(ServerResponse.prototype, 'write', function (this: ServerResponse, piece: unknown) {
        turns.push(turn);
        const started = performance.now();
        while (performance.now() - started < PIECE_TIME);
        return write.call(this, piece);
      });
      nextTurn();
      const answer = await (path.startsWith('/api/')
        ? service.request(path, { user: 'ada' })
        : browser.get(path));
      isOver = true;
      assert.equal(answer.status, 200);
      assert.ok(answer.text.includes(text));
      if (path.startsWith('/api/')) {
        const { objects } = JSON.parse(answer.text) as { objects: { message: string }[] };
        assert.ok(objects.length === 5 && objects.every(({ message }) => message === LARGE));
      } else assert.ok(answer.text.includes('&quot;&lt;é🦉&gt;'.repeat(100_000)));
      assert.ok(turns.length > 10, `${turns.length} pieces`);
      const most = Math.max(...turns.map((one) => turns.filter((other) => other === one).length));
      assert.ok(most <= MAX_IN_TURN, `pieces in turns ${turns.join(', ')}`);
    });
});

describe('a long body', () => {
  const paper: Resource = { model: 'paper', columns: { body: { type: 'text' } } };
  const service: TestService = useService(
    [user, paper],
    {},
    () => service.sql`insert into paper (body) select repeat('x', 1000000) from generate_series(1, 20)`,
  );

  test('reaches a client that first sends all of its own', async () => {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(service.base).port) });
    await once(socket, 'connect');
    socket.write('GET /api/paper/?limit=20 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
    await sleep(300); // The response has begun.
    const chunk = Buffer.from(`10000\r\n${'y'.repeat(65_536)}\r\n`);
    for (let sent = 0; sent < 4_600_000; sent += chunk.length)
      if (!socket.write(chunk)) await once(socket, 'drain');
    socket.write('0\r\n\r\n');
    let received = 0;
    socket.on('data', ({ length }) => (received += length));
    await once(socket, 'close');
    assert.ok(received > 20_000_000, `${received} bytes`);
  });
});
