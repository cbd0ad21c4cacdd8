import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { InputPieces, MAX_BODY_PIECE } from '../../src/http/load/input-pieces.ts';
import { describe, test } from 'node:test';

/** All pieces of packets that arrive one after the other. */
function piecesOf(packets: readonly Buffer[]): Buffer[] {
  const cutter = new InputPieces();
  cutter.begin({ headers: { 'transfer-encoding': 'chunked' } } as IncomingMessage);
  const pieces: Buffer[] = [];
  for (const packet of packets) {
    let rest = packet;
    while (rest.length > 0) {
      const piece = cutter.take(rest, MAX_BODY_PIECE);
      assert.ok(piece.length > 0);
      pieces.push(piece);
      rest = rest.subarray(piece.length);
    }
  }
  return pieces;
}

describe('the pieces of a connection’s input', () => {
  test('are all of it, and end behind each empty line, wherever packets end', () => {
    const text = fc.array(fc.constantFrom('\r', '\n', '\r\n', '\r\n\r\n', 'x'), { maxLength: 60 });
    fc.assert(
      fc.property(fc.array(text, { maxLength: 8 }), (packets) => {
        const all = packets.map((parts) => Buffer.from(parts.join('')));
        const pieces = piecesOf(all);
        const whole = Buffer.concat(all).toString();
        assert.equal(Buffer.concat(pieces).toString(), whole);
        const ends = new Set<number>();
        let length = 0;
        for (const piece of pieces) ends.add((length += piece.length));
        // Empty lines do not overlap: after one, the search begins anew.
        for (let at = whole.indexOf('\r\n\r\n'); at >= 0; at = whole.indexOf('\r\n\r\n', at + 4))
          assert.ok(ends.has(at + 4), JSON.stringify([whole, [...ends]]));
      }),
    );
  });

  test('are short if they hold many chunks, and long if they hold few', () => {
    const tiny = piecesOf([Buffer.from('1\r\nx\r\n'.repeat(20_000))]);
    for (const piece of tiny) assert.ok(piece.length <= 2_048, String(piece.length));
    const large = piecesOf([Buffer.from(`100000\r\n${'x'.repeat(1_048_576)}\r\n`)]);
    assert.ok(large.length <= 65, String(large.length));
  });
});
