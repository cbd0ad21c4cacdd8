import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { sessions, type Fault, type Stage } from '../stage.ts';

/** Longer than the service lets a statement wait for a lock. */
const BEYOND_TIMEOUT = 6;

/** Holds a lock in a transaction. Gives how many sessions of the service have waited for it. */
const holding =
  (lock: (sql: postgres.TransactionSql) => Promise<unknown>) =>
  async ({ cluster }: Stage, seconds: number): Promise<number> => {
    let waiting = 0;
    await cluster.sql.begin(async (sql) => {
      await lock(sql);
      await sleep(seconds * 1000);
      waiting = (await sessions(cluster, "wait_event_type = 'Lock'")).length;
    });
    return waiting;
  };

const lockRows = holding(async (sql) => {
  await sql`select from counter for update`;
  await sql`select from entry for update`;
});
const lockTable = holding((sql) => sql`lock table entry in access exclusive mode`);
const lockHistory = holding((sql) => sql`lock table vitrine_history in share mode`);

/** Another session locks rows. */
export const rowsLocked: Fault = {
  name: 'rows-locked',
  isShort: true,
  variants: [
    { name: 'for a moment', allows: ['busy'], strike: lockRows },
    { name: 'beyond the timeout of 5 s', allows: ['busy'], seconds: BEYOND_TIMEOUT, strike: lockRows },
  ],
};

/** Another session locks a table: that of the records, or the history. */
export const tableLocked: Fault = {
  name: 'table-locked',
  isShort: false,
  variants: [
    { name: 'the records', allows: ['busy'], seconds: BEYOND_TIMEOUT, strike: lockTable },
    { name: 'the history', allows: ['busy'], seconds: BEYOND_TIMEOUT, strike: lockHistory },
  ],
};
