// Writes the log.
import type { LogFormat, LogLevel } from '../../config.ts';
import { excerpt } from '../../errors.ts';
import { counted } from '../../messages.ts';
import { textLine, type LogFields } from './log-text.ts';

/** The log: one line per entry. Entries below the level are dropped. */
export interface Logger {
  readonly debug: (fields: LogFields) => void;
  readonly info: (fields: LogFields) => void;
  readonly warn: (fields: LogFields) => void;
  readonly error: (fields: LogFields) => void;
  /** Writes the buffered lines now. */
  readonly flush: () => void;
}

/** What a line of the log says. */
export interface LogEntry extends LogFields {
  /** ISO 8601. */
  readonly time: string;
  readonly level: LogLevel;
}

/** Receives whole lines, and what they say. */
export type LogWriter = (lines: string, entries: readonly LogEntry[]) => void;

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };
/** Milliseconds. Lines are buffered, because each write is a system call, and one to a terminal blocks the process. */
const FLUSH_AFTER = 50;
/** Characters. */
const FLUSH_SIZE = 16_384;

/** Whether standard error is a terminal with colors that the user has not turned off (https://no-color.org). */
const hasColors = (): boolean =>
  process.stderr.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';

/** Maximum bytes that wait for the reader of the log. Beyond it, lines are dropped: otherwise a stalled reader would use up the memory. */
const MAX_UNREAD = 4 * 1024 * 1024;

/** Maximum characters of a text: a message of the database may repeat what a client has sent. */
const MAX_TEXT = 8_192;

/** The fields with each text cut to `MAX_TEXT`. */
function withCutTexts(fields: LogFields): LogFields {
  const isLong = (text: unknown): text is string => typeof text === 'string' && text.length > MAX_TEXT;
  if (!Object.values(fields).some(isLong)) return fields;
  const cut = (text: unknown): unknown => (isLong(text) ? excerpt(text, MAX_TEXT) : text);
  return Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, cut(text)]));
}

/**
 * @param write default: standard error
 * @param common fields of every line, if several processes write to the same log
 * @param format default: text if standard error is a terminal and `write` is absent, else JSON
 */
export function createLogger(
  level: LogLevel,
  write?: LogWriter,
  format: LogFormat | undefined = !write && process.stderr.isTTY ? 'text' : 'json',
  common?: LogFields,
): Logger {
  let dropped = 0;
  const writeToStderr: LogWriter = (lines) => {
    if (process.stderr.writableLength > MAX_UNREAD) {
      dropped += lines.split('\n').length - 1;
      return;
    }
    if (dropped > 0) {
      const message = `dropped ${counted(dropped, 'line')} of the log, because its reader was too slow`;
      dropped = 0;
      process.stderr.write(`${lineOf(new Date(), 'warn', { message })}\n`);
    }
    process.stderr.write(lines);
  };
  const out = write ?? writeToStderr;
  const isColored = !write && hasColors();
  const lineOf = (now: Date, lineLevel: LogLevel, fields: LogFields): string =>
    format === 'text'
      ? textLine(now, lineLevel, { ...fields, ...common }, isColored)
      : JSON.stringify({ time: now.toISOString(), level: lineLevel, ...common, ...fields });
  let buffered = '';
  let entries: LogEntry[] = [];
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    const [lines, written] = [buffered, entries];
    buffered = '';
    entries = [];
    // A log that cannot be written must neither fail a request nor lose lines.
    try {
      const result: unknown = lines === '' ? undefined : out(lines, written);
      if (result instanceof Promise) result.catch(() => writeToStderr(lines, written));
    } catch {
      writeToStderr(lines, written);
    }
  }

  function log(lineLevel: LogLevel, allFields: LogFields): void {
    if (RANK[lineLevel] < RANK[level]) return;
    const fields = withCutTexts(allFields);
    const now = new Date();
    buffered += `${lineOf(now, lineLevel, fields)}\n`;
    if (write) entries.push({ time: now.toISOString(), level: lineLevel, ...fields });
    if (lineLevel === 'error' || buffered.length >= FLUSH_SIZE) flush();
    else timer ??= setTimeout(flush, FLUSH_AFTER).unref();
  }

  return {
    debug: (fields) => log('debug', fields),
    info: (fields) => log('info', fields),
    warn: (fields) => log('warn', fields),
    error: (fields) => log('error', fields),
    flush,
  };
}
