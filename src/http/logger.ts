import type { LogLevel } from '../config.ts';

export type LogFields = Readonly<Record<string, unknown>>;

/** Writes JSON lines; what is below the level is dropped. */
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

/** @param write gets whole lines; standard error when absent */
export function createLogger(
  level: LogLevel,
  write: (lines: string) => void = (lines) => void process.stderr.write(lines),
): Logger {
  let held = '';
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    if (held !== '') write(held);
    held = '';
  }

  function log(lineLevel: LogLevel, fields: LogFields): void {
    if (RANK[lineLevel] < RANK[level]) return;
    held += `${JSON.stringify({ time: new Date().toISOString(), level: lineLevel, ...fields })}\n`;
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
