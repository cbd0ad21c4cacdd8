// Long bodies are sent in pieces of a bounded length, which are not needlessly short.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { openDatabase } from '../../src/db/connection/database.ts';
import { sql } from '../../src/db/fragment.ts';
import { createStatement } from '../../src/db/rows.ts';
import { piecesOf, piecesOfBytes } from '../../src/http/message/body-pieces.ts';
import { splitRows } from '../../src/query/statements/page-statements.ts';
import { user } from '../../src/resources/registry.ts';
import { serverUrl, startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const MAX_PIECE = 262_144;

describe('the pieces of a body', () => {
  test('of many parts are its bytes, and no two neighbors would fit into one piece', () => {
    const part = fc.oneof(
      { weight: 6, arbitrary: fc.nat(100) },
      { weight: 2, arbitrary: fc.nat(200_000) },
      fc.nat(1_000_000),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), (lengths) => {
        const parts = lengths.map((length, index) => Buffer.alloc(length, index + 1));
        const pieces = [...piecesOfBytes(parts)];
        assert.ok(Buffer.concat(pieces).equals(Buffer.concat(parts)));
        pieces.forEach(({ length }, index) => {
          assert.ok(length > 0 && length <= MAX_PIECE);
          const next = pieces[index + 1]?.length ?? MAX_PIECE;
          // The rest of a divided part may be short.
          const isDivided = parts.some((one) => one.length > MAX_PIECE);
          assert.ok(
            isDivided || length + next > MAX_PIECE || parts.some((one) => one.length > MAX_PIECE / 2),
          );
        });
      }),
      { numRuns: 50 },
    );
  });

  test('of thousands of records and commas are few', () => {
    const record = Buffer.alloc(600, 'x');
    const comma = Buffer.from(',');
    const parts = Array.from({ length: 2_000 }, (_, index) => (index % 2 === 0 ? record : comma));
    assert.equal([...piecesOfBytes(parts)].length, 3);
  });

  test('of a text are its characters, with whole surrogate pairs', () => {
    const unit = fc.constantFrom('a', 'é', '🦉', '\ud800');
    fc.assert(
      fc.property(unit, fc.nat(3), fc.integer({ min: 60_000, max: 140_000 }), (one, offset, count) => {
        const text = 'x'.repeat(offset) + one.repeat(count);
        const pieces = [...piecesOf(text)] as string[];
        assert.ok(pieces.join('') === text);
        assert.equal(
          Buffer.concat(pieces.map((piece) => Buffer.from(piece))).length,
          Buffer.byteLength(text),
        );
      }),
      { numRuns: 20 },
    );
  });
});

test('the rows of a long page repeat none of its other columns', async () => {
  const database = openDatabase(serverUrl());
  try {
    const page = sql`select repeat('x', 2000000) as objects, 'first' as first, 't' as more, array['a', null, 'c'] as records`;
    const statement = createStatement(splitRows(page, ['more', 'first']), (rows) =>
      rows.map((row) => row.map((cell) => cell?.toString())),
    );
    assert.deepEqual(await database.run(statement, 'read'), [
      ['a', 't', 'first'],
      [undefined, undefined, undefined],
      ['c', undefined, undefined],
    ]);
  } finally {
    await database.close();
  }
});

describe('a long body', () => {
  const paper: Resource = { model: 'paper', columns: { body: { type: 'text' } } };
  let service: TestService;
  before(async () => {
    service = await startService([user, paper]);
    await service.sql`insert into paper (body) select repeat('x', 1000000) from generate_series(1, 20)`;
  });
  after(() => service.close());

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
