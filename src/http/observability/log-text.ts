import type { LogLevel } from '../../config.ts';

export type LogFields = Readonly<Record<string, unknown>>;

/**
 * What could end a line, move the cursor, turn the direction of writing or show nothing at all: no client may make a line
 * that looks like one of ours. The backslash is escaped, too, so that an escape is always one of ours.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\\]/gu;

function escapeOne(character: string): string {
  if (character === '\\') return '\\\\';
  const code = (character.codePointAt(0) ?? 0).toString(16);
  return code.length <= 2 ? `\\x${code.padStart(2, '0')}` : `\\u{${code}}`;
}

const escape = (text: string): string => text.replace(UNPRINTABLE, escapeOne);

/** A value on a line of its own or of others: in quotes where it would run into the next one. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined');
  return text === '' || /[\s"=]/u.test(text) ? `"${escape(text).replaceAll('"', '\\"')}"` : escape(text);
}

const fieldsOf = (fields: readonly (readonly [string, unknown])[]): string[] =>
  fields.map(([name, value]) => `${name}=${shown(value)}`);

type Paint = (code: number, text: string) => string;

const LEVEL_COLOURS: Record<LogLevel, number> = { info: 36, warn: 33, error: 31 };

/** Green for what went well, yellow for what the client did wrong, red for what we did. */
const colourOf = (status: number): number => (status >= 500 ? 31 : status >= 400 ? 33 : 32);

function requestText(fields: LogFields, paint: Paint): string {
  const { method, path, status, ms, bytes, user, ...rest } = fields;
  const who = user === null || user === undefined ? '-' : shown(user);
  return [
    escape(String(method)),
    shown(path),
    paint(colourOf(Number(status)), String(status)),
    `${String(ms)}ms`,
    `${String(bytes)}B`,
    who,
    ...fieldsOf(Object.entries(rest)),
  ].join(' ');
}

function messageText({ message = '', stack, ...rest }: LogFields): string {
  const parts = [escape(String(message)), ...fieldsOf(Object.entries(rest))];
  if (typeof stack === 'string') {
    // The first lines of a stack repeat the message; each call stands behind a bar instead of on a line.
    const calls = stack.split('\n').filter((line) => /^\s+at /.test(line));
    parts.push(...calls.map((line) => `| ${escape(line.trim())}`));
  }
  return parts.join(' ');
}

/** An entry for people: one line, whatever is in it. */
export function textLine(time: Date, level: LogLevel, fields: LogFields, isColoured: boolean): string {
  const paint: Paint = (code, text) => (isColoured ? `\u001b[${code}m${text}\u001b[0m` : text);
  const text = 'method' in fields ? requestText(fields, paint) : messageText(fields);
  const when = time.toISOString().replace('T', ' ');
  return `${paint(90, when)} ${paint(LEVEL_COLOURS[level], level.toUpperCase().padEnd(5))} ${text}`;
}
