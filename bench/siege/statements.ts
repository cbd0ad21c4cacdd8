// How long statements of the service occupy PostgreSQL.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { processorTime } from '../processes.ts';

export interface StatementWatch {
  /** Milliseconds of the statement that took longest; of processor time, see `busyTime`. */
  readonly longest: () => number;
  /** The most statements at once that had run for 30 ms; of processor time, too, as others may only wait for a processor. */
  readonly most: () => number;
  readonly end: () => Promise<void>;
}

interface Backend {
  readonly pid: number;
  /** When its statement began. */
  readonly begun: string;
  readonly ms: number;
  readonly isActive: boolean;
}

/** Milliseconds between two looks. */
const PAUSE = 50;
/** Milliseconds of an attack's statement. The others are shorter. */
const LONG = 30;

/**
 * Processor time of a PostgreSQL backend, milliseconds; NaN where it is not known. It tells work that cannot be canceled
 * from waiting for a processor that others use.
 */
const busyTime = async (pid: number): Promise<number> => (await processorTime(pid, 'postgres')) / 1000;
/** The time that passed, where the processor time is not known. */
const used = (busy: number, passed: number): number => (Number.isNaN(busy) ? passed : Math.min(busy, passed));

/** Milliseconds that a statement takes when nothing else runs. */
export async function timeAlone(sql: Sql, statement: string): Promise<number> {
  const connection = await sql.reserve();
  try {
    const [row] = await connection<{ pid: number }[]>`select pg_backend_pid() as pid`;
    const pid = row?.pid ?? 0;
    const busy = await busyTime(pid);
    const begun = performance.now();
    await connection.unsafe(statement);
    return used((await busyTime(pid)) - busy, performance.now() - begun);
  } finally {
    connection.release();
  }
}

/** Looks at all statements of the service until it is ended. */
export function watchStatements(sql: Sql): StatementWatch {
  /** Of each backend: its statement, and its processor time when that began, or less. */
  const seen = new Map<number, { begun: string; from: number; last: number }>();
  let longest = 0;
  let most = 0;
  let isOver = false;
  const look = async (): Promise<void> => {
    // Statements of the attack cannot be told by their text, which PostgreSQL cuts.
    const rows = await sql<Backend[]>`
      select pid, query_start::text as begun, state = 'active' as "isActive",
        (extract(epoch from clock_timestamp() - query_start) * 1000)::float8 as ms
      from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' and query_start is not null`;
    let count = 0;
    for (const { pid, begun, ms, isActive } of rows) {
      const busy = await busyTime(pid);
      const before = seen.get(pid);
      // What the backend did between two looks counts as part of the later statement.
      const from = before?.begun === begun ? before.from : (before?.last ?? 0);
      seen.set(pid, { begun, from, last: busy });
      const took = isActive ? used(busy - from, ms) : 0;
      if (took <= LONG) continue;
      longest = Math.max(longest, took);
      count += 1;
    }
    most = Math.max(most, count);
  };
  const looks = (async () => {
    for (; !isOver; await sleep(PAUSE)) await look();
  })();
  return {
    longest: () => longest,
    most: () => most,
    async end() {
      isOver = true;
      await looks;
    },
  };
}
