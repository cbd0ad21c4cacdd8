// The codes of second factors, and the addresses of their secrets.
import assert from 'node:assert/strict';
import { qrModules } from '../../src/admin/web/qr-code.ts';
import { codeOf, newSecret, otpauthAddress } from '../../src/resources/users/second-factor.ts';
import { codeAt, SECRET } from '../second-factor.ts';
import { describe, test } from 'node:test';

describe('a code of a second factor', () => {
  test('is that of RFC 4226 for each of its counters', () => {
    const codes = [
      '755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489',
    ]; // prettier-ignore
    codes.forEach((code, counter) => assert.equal(codeOf(SECRET, counter), code));
  });

  test('is that of RFC 6238 for each of its times', () => {
    const codes: [seconds: number, code: string][] = [
      [59, '94287082'],
      [1111111109, '07081804'],
      [1111111111, '14050471'],
      [1234567890, '89005924'],
      [2000000000, '69279037'],
      [20000000000, '65353130'],
    ];
    for (const [seconds, code] of codes)
      assert.equal(codeOf(SECRET, Math.floor(seconds / 30)), code.slice(-6));
  });

  test('is that of another implementation, for any secret and step', () => {
    for (let step = 0; step < 300; step += 1) {
      const secret = newSecret();
      assert.match(secret, /^[A-Z2-7]{32}$/);
      assert.equal(codeOf(secret, step * 7_919_191), codeAt(secret, step * 7_919_191));
    }
  });
});

test('the address of a secret fits into a QR code, whatever the host and the user are called', () => {
  for (const [host, name] of [
    ['localhost', 'ada'],
    ['x'.repeat(253), '😀'.repeat(500)],
    ['[::1]', 'a:b?c&d'],
    ['', '\ud800'],
  ] as const) {
    const address = otpauthAddress(SECRET, host, name);
    assert.ok(qrModules(address).length > 0);
    assert.equal(new URL(address).searchParams.get('secret'), SECRET);
  }
});
