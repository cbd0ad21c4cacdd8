import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createThrottle } from '../../src/http/auth/login-throttle.ts';

test('the minute of the throttle begins with the first failure, not with a try that succeeded', () => {
  let now = 0;
  const throttle = createThrottle(() => now);
  throttle.begin('address', 'name')(false);
  now = 59_000;
  for (let index = 0; index < 10; index += 1) throttle.begin('address', 'name')(true);
  now = 60_000;
  assert.throws(() => throttle.check('address', 'name'));
});
