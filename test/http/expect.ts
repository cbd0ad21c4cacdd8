// Checks of errors, new client addresses, and waiting for a state.
import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { mock, type TestContext } from 'node:test';
import { steadyClock } from '../../src/http/auth/steady-clock.ts';
import { eventually, type Answer } from '../support.ts';

export { eventually, lockedOut } from '../support.ts';

/** A header that gives each request a new client address, behind one trusted proxy. */
export const fromNewAddress = (() => {
  let count = 0;
  return (): Record<string, string> => {
    count += 1;
    return { 'x-forwarded-for': `10.${count >> 16}.${(count >> 8) & 255}.${count & 255}` };
  };
})();

/**
 * Stops the clock by which failed logins and remembered credentials expire, so that no minute ends within a test on a slow machine.
 * @returns moves the clock on by milliseconds
 */
export function stopClock(): (milliseconds: number) => void {
  let now = Math.ceil(performance.now()); // a fraction could be rounded up to another second
  mock.method(steadyClock, 'now', () => now);
  return (milliseconds) => void (now += milliseconds);
}

/**
 * Stops the clock during a test, so that no wait in the service is too long on a slow machine.
 * @returns moves the clock on by milliseconds
 */
export function stopTime(t: TestContext): (milliseconds: number) => void {
  let now = Math.ceil(performance.now()); // sums of fractions are not exact
  t.mock.method(performance, 'now', () => now);
  return (milliseconds) => void (now += milliseconds);
}

/** Checks that the answer is exactly the documented 401. */
export function assertUnauthorized({ status, headers, text }: Answer, label?: string): void {
  assert.equal(status, 401, label ?? text);
  assert.equal(headers.get('www-authenticate'), 'Basic realm="Login Required"');
  assert.equal(headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal(text, 'Authentication failed');
}

/** Checks that the answer is a problem document of RFC 9457 with this status and only documented fields. */
export function assertProblem(
  { status, headers, json, text }: Answer,
  expected: number,
  label?: string,
): void {
  assert.equal(status, expected, label ?? text);
  assert.equal(headers.get('content-type')?.split(';')[0], 'application/problem+json');
  assert.equal(json?.type, 'about:blank');
  assert.equal(json.title, STATUS_CODES[expected]);
  assert.equal(json.status, expected);
  assert.equal(typeof json.detail, 'string');
  assert.notEqual(json.detail, '');
  const allowed = new Set(['type', 'title', 'status', 'detail', 'errors', 'requestId']);
  assert.deepEqual(
    Object.keys(json).filter((key) => !allowed.has(key)),
    [],
  );
  for (const messages of Object.values((json.errors ?? {}) as Record<string, unknown>)) {
    assert.ok(Array.isArray(messages) && messages.length > 0);
    assert.ok(messages.every((message) => typeof message === 'string' && message !== ''));
  }
}

/** The lowest CPU time of several runs in microseconds, which depends less on the load of the machine than a duration. */
export function cpuOf(work: () => unknown, runs = 7): number {
  let lowest = Infinity;
  for (let run = 0; run < runs; run += 1) {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    lowest = Math.min(lowest, user + system);
  }
  return lowest;
}

/**
 * The most processor time (µs) that work took in one iteration of the event loop; the lowest of some runs.
 * @param enough ends the runs: other processes and collections of garbage make some of them longer
 */
export async function longestTurnOf(work: () => Promise<unknown>, enough: number): Promise<number> {
  let lowest = Infinity;
  for (let run = 0; run < 10 && lowest >= enough; run += 1) {
    let longest = 0;
    let before = process.cpuUsage();
    const endTurn = (): void => {
      const { user, system } = process.cpuUsage(before);
      longest = Math.max(longest, user + system);
      before = process.cpuUsage();
      timer = setImmediate(endTurn);
    };
    let timer = setImmediate(endTurn);
    await work();
    clearImmediate(timer);
    const { user, system } = process.cpuUsage(before);
    lowest = Math.min(lowest, Math.max(longest, user + system));
  }
  return lowest;
}

/** Sends a request, again while the service refuses it because of its load, as clients should. */
export const whenAdmitted = (send: () => Promise<Answer>): Promise<Answer> =>
  eventually(async () => {
    const answer = await send();
    return answer.status === 429 || answer.status === 503 ? undefined : answer;
  }, 'a request that is admitted');

/** The values of newline-delimited JSON, which must end with a line break. */
export function jsonLinesOf(text: string): unknown[] {
  assert.ok(text === '' || text.endsWith('\n'));
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown);
}
