import type { LogFormat, LogLevel } from '../../config.ts';
import { textLine, type LogFields } from './log-text.ts';

/** Writes a line per entry; what is below the level is dropped. */
export interface Logger {
  readonly info: (fields: LogFields) => void;
  readonly warn: (fields: LogFields) => void;
  readonly error: (fields: LogFields) => void;
  /** Writes what is still held back. */
  readonly flush: () => void;
}

const RANK: Record<LogLevel, number> = { info: 0, warn: 1, error: 2 };
/** Lines are written together: a write to a pipe or a terminal stops the process for its duration. */
const FLUSH_AFTER = 50;
const FLUSH_SIZE = 16_384;

/** Whether standard error shows colours: a terminal that can, and nobody who has asked for none (https://no-color.org). */
const hasColours = (): boolean =>
  process.stderr.isTTY && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb';

/**
 * @param write gets whole lines; standard error when absent
 * @param format JSON when absent, but text where standard error is a terminal
 */
export function createLogger(
  level: LogLevel,
  write?: (lines: string) => void,
  format: LogFormat | undefined = !write && process.stderr.isTTY ? 'text' : 'json',
): Logger {
  const fallBack = (lines: string): void => void process.stderr.write(lines);
  const out = write ?? fallBack;
  const isColoured = !write && hasColours();
  const line = (lineLevel: LogLevel, fields: LogFields): string =>
    format === 'text'
      ? textLine(new Date(), lineLevel, fields, isColoured)
      : JSON.stringify({ time: new Date().toISOString(), level: lineLevel, ...fields });
  let held = '';
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    const lines = held;
    held = '';
    // Whoever asks must not pay for a log that cannot be written, and the lines should not be lost.
    try {
      const written: unknown = lines === '' ? undefined : out(lines);
      if (written instanceof Promise) written.catch(() => fallBack(lines));
    } catch {
      fallBack(lines);
    }
  }

  function log(lineLevel: LogLevel, fields: LogFields): void {
    if (RANK[lineLevel] < RANK[level]) return;
    held += `${line(lineLevel, fields)}\n`;
    if (lineLevel === 'error' || held.length >= FLUSH_SIZE) flush();
    else timer ??= setTimeout(flush, FLUSH_AFTER).unref();
  }

  return {
    info: (fields) => log('info', fields),
    warn: (fields) => log('warn', fields),
    error: (fields) => log('error', fields),
    flush,
  };
}
