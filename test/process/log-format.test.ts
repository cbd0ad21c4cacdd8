import assert from 'node:assert/strict';
import type { LogFields } from '../../src/http/observability/log-text.ts';
import { createLogger } from '../../src/http/observability/logger.ts';
import { describe, test } from 'node:test';

/** The line of an entry without its time, which is checked. */
function textOf(fields: LogFields, level: 'info' | 'warn' | 'error' = 'info'): string {
  let written = '';
  const logger = createLogger('info', (lines) => (written += lines), 'text');
  logger[level](fields);
  logger.flush();
  const [, text] = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z (.*)\n$/.exec(written) ?? [];
  assert.ok(text !== undefined, `one line: ${JSON.stringify(written)}`);
  return text;
}

const asked = { id: 'a-1', method: 'GET', path: '/api/note/', status: 200, ms: 1.4, bytes: 20, user: null };

describe('an entry of the log as text', () => {
  const entries: readonly [fields: LogFields, level: 'info' | 'warn' | 'error', text: string][] = [
    [asked, 'info', 'INFO  GET /api/note/ 200 1.4ms 20B - id=a-1'],
    [{ ...asked, user: 'ada' }, 'info', 'INFO  GET /api/note/ 200 1.4ms 20B ada id=a-1'],
    [{ ...asked, user: 'ada l' }, 'info', 'INFO  GET /api/note/ 200 1.4ms 20B "ada l" id=a-1'],
    [{ ...asked, user: '' }, 'info', 'INFO  GET /api/note/ 200 1.4ms 20B "" id=a-1'],
    [{ message: 'waiting for the database' }, 'warn', 'WARN  waiting for the database'],
    [{ message: 'schema', statement: 'create table a' }, 'info', 'INFO  schema statement="create table a"'],
    [{ message: 'refused', status: 400, odd: undefined }, 'info', 'INFO  refused status=400 odd=undefined'],
    [
      { id: 'a-2', message: 'broken', stack: 'Error: broken\n    at one (a.ts:1:2)\n    at two (b.ts:3:4)' },
      'error',
      'ERROR broken id=a-2 | at one (a.ts:1:2) | at two (b.ts:3:4)',
    ],
  ];
  for (const [fields, level, text] of entries) {
    test(text, () => assert.equal(textOf(fields, level), text));
  }

  const forged = 'x\n2026-01-15 09:31:12.480Z INFO  GET / 200';
  for (const [what, character, shown] of [
    ['a line feed', '\n', '\\x0a'],
    ['a carriage return', '\r', '\\x0d'],
    ['an escape sequence', '\u001b[2J', '\\x1b[2J'],
    ['a NUL', '\0', '\\x00'],
    ['a delete', '\u007f', '\\x7f'],
    ['a control character of ISO 8859', '\u009b', '\\x9b'],
    ['the next line of ISO 8859', '\u0085', '\\x85'],
    ['a line separator', '\u2028', '\\u{2028}'],
    ['a paragraph separator', '\u2029', '\\u{2029}'],
    ['writing from right to left', '\u202e', '\\u{202e}'],
    ['an isolate', '\u2066', '\\u{2066}'],
    ['a space of no width', '\u200b', '\\u{200b}'],
    ['a byte order mark', '\ufeff', '\\u{feff}'],
    ['half of a pair', '\ud800', '\\u{d800}'],
    ['a backslash', '\\', '\\\\'],
  ] as const) {
    test(`${what} is shown as an escape in every field`, () => {
      const text = `a${character}b`;
      for (const fields of [
        { message: text },
        { message: 'm', other: text },
        { ...asked, path: `/${text}` },
        { ...asked, user: text },
        { ...asked, method: text },
      ]) {
        const line = textOf(fields);
        assert.ok(line.includes(`a${shown}b`), line);
      }
    });
  }

  test('nothing that a client can write makes a second line or a new field', () => {
    for (const fields of [{ message: forged }, { ...asked, user: forged }, { ...asked, path: forged }])
      assert.ok(textOf(fields).includes('x\\x0a2026'));
    assert.match(textOf({ ...asked, user: 'eve" status=500' }), / "eve\\" status=500" id=a-1$/);
  });

  test('text of other languages stays as it is', () => {
    assert.equal(textOf({ message: 'žluťoučký 日本 🎉' }), 'INFO  žluťoučký 日本 🎉');
  });
});
