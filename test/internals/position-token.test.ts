// The token of a position in the log of the primary, which clients send with reads.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { createPositionTokens } from '../../src/db/replicas/position-token.ts';
import { describe, test } from 'node:test';

const secret = randomBytes(32);
const tokens = createPositionTokens(secret, '1 5');
const MAX_POSITION = 2n ** 64n - 1n;

describe('the token of a position', () => {
  test('is 64 characters that give the position back', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 32 - 1 }),
        fc.bigInt({ min: 0n, max: MAX_POSITION }),
        fc.nat(),
        (timeline, position, seconds) => {
          const written = { reached: { timeline, position }, issued: seconds * 1000 };
          const token = tokens.encode(written);
          assert.match(token, /^[\w-]{64}$/);
          assert.deepEqual(tokens.decodeAll(token), [written]);
        },
      ),
    );
  });

  test('has at each place any character, so that it does not tell whether the position has changed', () => {
    const written = { reached: { timeline: 1, position: 77n }, issued: 5_000 };
    const made = Array.from({ length: 400 }, () => tokens.encode(written));
    for (let at = 0; at < 64; at += 1) {
      const different = new Set(made.map((token) => token[at])).size;
      assert.ok(different > 40, `${different} characters at ${at}`);
    }
  });

  test('can say that the position is unknown', () => {
    const token = tokens.encode({ reached: undefined, issued: 5_000 });
    assert.deepEqual(tokens.decodeAll(token), [{ reached: undefined, issued: 5_000 }]);
  });

  test('is not accepted with another secret, or for another database', () => {
    const token = tokens.encode({ reached: { timeline: 1, position: 1n }, issued: 0 });
    assert.deepEqual(createPositionTokens(randomBytes(32), '1 5').decodeAll(token), undefined);
    assert.deepEqual(createPositionTokens(secret, '2 5').decodeAll(token), undefined);
  });

  test('is refused after any change of a byte', () => {
    const bytes = Buffer.from(
      tokens.encode({ reached: { timeline: 1, position: 77n }, issued: 0 }),
      'base64url',
    );
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.deepEqual(tokens.decodeAll(changed.toString('base64url')), undefined);
    }
  });

  test('is refused in texts of any other form', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        assert.equal(tokens.decodeAll(text), undefined);
      }),
    );
    const token = tokens.encode({ reached: undefined, issued: 0 });
    assert.equal(tokens.decodeAll(`${token},${token}`)?.length, 2);
    assert.equal(tokens.decodeAll(`${token},x`), undefined);
    assert.deepEqual(tokens.decodeAll(Array.from({ length: 23 }, () => token).join()), undefined);
    assert.deepEqual(tokens.decodeAll('a'.repeat(1_000_000)), undefined);
  });
});
