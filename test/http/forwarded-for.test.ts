import assert from 'node:assert/strict';
import { clientNetworkOf } from '../../src/http/auth/request-origin.ts';
import { describe, test } from 'node:test';

const CONNECTION = '203.0.113.9';

describe('the client of X-Forwarded-For', () => {
  for (const [header, proxies, client] of [
    ['192.0.2.1', 0, CONNECTION],
    ['192.0.2.1', 1, '192.0.2.1'],
    ['192.0.2.1, 192.0.2.2', 1, '192.0.2.2'],
    ['192.0.2.1, 192.0.2.2', 2, '192.0.2.1'],
    ['192.0.2.1,192.0.2.2,\t192.0.2.3 ', 2, '192.0.2.2'],
    ['192.0.2.1, 192.0.2.2', 3, '192.0.2.1'],
    ['192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4', 3, '192.0.2.2'],
    ['192.0.2.1,, 192.0.2.2, ,', 2, '192.0.2.1'],
    ['192.0.2.1:4711', 1, '192.0.2.1'],
    ['[2001:db8::1]:4711', 1, '2001:db8:0:0::/64'],
    ['2001:db8::1', 1, '2001:db8:0:0::/64'],
    ['unknown', 1, CONNECTION],
    ['', 1, CONNECTION],
    [' , ,', 1, CONNECTION],
  ] as const)
    test(`is ${client} for ${JSON.stringify(header)} behind ${proxies} proxies`, () => {
      assert.equal(clientNetworkOf({ 'x-forwarded-for': header }, CONNECTION, proxies), client);
    });

  test('is not searched behind thousands of empty values, which would keep the process busy', () => {
    const header = `192.0.2.1${','.repeat(31_000)}`;
    assert.equal(clientNetworkOf({ 'x-forwarded-for': header }, CONNECTION, 1), CONNECTION);
    assert.equal(clientNetworkOf({ 'x-forwarded-for': `${header}192.0.2.2` }, CONNECTION, 2), '192.0.2.2');
  });
});
