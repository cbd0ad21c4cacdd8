// What every error looks like, and addresses that no two tests share.
import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import type { Answer } from '../support.ts';

/** A header that gives each request a client address of its own, behind one trusted proxy. */
export const fromNewAddress = (() => {
  let count = 0;
  return (): Record<string, string> => {
    count += 1;
    return { 'x-forwarded-for': `10.${count >> 16}.${(count >> 8) & 255}.${count & 255}` };
  };
})();

/** The 401, to the letter. */
export function assertUnauthorized({ status, headers, text }: Answer, asked?: string): void {
  assert.equal(status, 401, asked ?? text);
  assert.equal(headers.get('www-authenticate'), 'Basic realm="Login Required"');
  assert.equal(headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal(text, 'Authentication failed');
}

/** A problem document of RFC 9457 with this status and no members but the documented ones. */
export function assertProblem(
  { status, headers, json, text }: Answer,
  expected: number,
  asked?: string,
): void {
  assert.equal(status, expected, asked ?? text);
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

/** Waits until a condition holds that follows shortly, such as a log line that is written with others. */
export async function eventually<T>(look: () => T | Promise<T>, what: string): Promise<NonNullable<T>> {
  for (let tries = 0; tries < 500; tries += 1) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`never came: ${what}`);
}
