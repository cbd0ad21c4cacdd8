// Formats log entries as text for a terminal.
import type { LogLevel } from '../../config.ts';

export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Characters that could end a line, move the cursor, reverse the text or stay invisible. They are escaped, so no client can
 * forge a log line. The backslash is escaped too, so no client can forge an escape.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\\]/gu;

function escapeCharacter(character: string): string {
  if (character === '\\') return '\\\\';
  const code = (character.codePointAt(0) ?? 0).toString(16);
  return code.length <= 2 ? `\\x${code.padStart(2, '0')}` : `\\u{${code}}`;
}

const escape = (text: string): string => text.replace(UNPRINTABLE, escapeCharacter);

/** A value as one word of a log line. It is quoted if it has spaces, quotes or `=`. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined');
  return text === '' || /[\s"=]/u.test(text) ? `"${escape(text).replaceAll('"', '\\"')}"` : escape(text);
}

const fieldsOf = (fields: readonly (readonly [string, unknown])[]): string[] =>
  fields.map(([name, value]) => `${name}=${shown(value)}`);

type Paint = (code: number, text: string) => string;

const LEVEL_COLORS: Record<LogLevel, number> = { debug: 90, info: 36, warn: 33, error: 31 };

/** Green for success, yellow for client errors, red for server errors. */
const colorOf = (status: number): number => (status >= 500 ? 31 : status >= 400 ? 33 : 32);

function requestText(fields: LogFields, paint: Paint): string {
  const { method, path, status, ms, bytes, user, ...rest } = fields;
  const userText = user === null || user === undefined ? '-' : shown(user);
  return [
    escape(String(method)),
    shown(path),
    paint(colorOf(Number(status)), String(status)),
    `${String(ms)}ms`,
    `${String(bytes)}B`,
    userText,
    ...fieldsOf(Object.entries(rest)),
  ].join(' ');
}

function messageText({ message = '', stack, ...rest }: LogFields): string {
  const parts = [escape(String(message)), ...fieldsOf(Object.entries(rest))];
  if (typeof stack === 'string') {
    // The first lines of a stack repeat the message. Bars replace its line breaks.
    const calls = stack.split('\n').filter((line) => /^\s+at /.test(line));
    parts.push(...calls.map((line) => `| ${escape(line.trim())}`));
  }
  return parts.join(' ');
}

/** An entry as one line, whatever it contains. */
export function textLine(time: Date, level: LogLevel, fields: LogFields, isColored: boolean): string {
  const paint: Paint = (code, text) => (isColored ? `\u001b[${code}m${text}\u001b[0m` : text);
  const text = 'method' in fields ? requestText(fields, paint) : messageText(fields);
  const timestamp = time.toISOString().replace('T', ' ');
  return `${paint(90, timestamp)} ${paint(LEVEL_COLORS[level], level.toUpperCase().padEnd(5))} ${text}`;
}
