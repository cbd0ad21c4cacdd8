import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, Stage } from '../stage.ts';
import { strikeCommitted } from './withheld.ts';

/** The least number of sessions to meet, and the most seconds that this may take. */
const LEAST = 3;
const MOST_SECONDS = 20;

/** Calls a function of PostgreSQL for sessions of the service again and again. Gives how many it has met. */
const strikeWith =
  (call: string, share: number) =>
  async ({ cluster }: Stage, seconds: number): Promise<number> => {
    const started = performance.now();
    const elapsed = (): number => (performance.now() - started) / 1000;
    let hits = 0;
    do {
      const { count } = await cluster.sql.unsafe(
        `select ${call}(pid) from pg_stat_activity
         where application_name = 'vitrine' and state = 'active' and random() < ${share}`,
      );
      hits += count;
      await sleep(20 * Math.random());
    } while (elapsed() < seconds || (hits < LEAST && elapsed() < MOST_SECONDS));
    return hits;
  };

/** Single sessions of the service are terminated. */
export const sessionsTerminated: Fault = {
  name: 'sessions-terminated',
  isShort: true,
  variants: [
    { name: 'at work', allows: ['busy', 'lost'], strike: strikeWith('pg_terminate_backend', 0.2) },
    {
      name: 'between commit and answer',
      allows: ['busy', 'lost'],
      strike: strikeCommitted('pg_terminate_backend'),
    },
  ],
};

/** Statements of the service are canceled. What is committed stays here, but a failover could undo it: its outcome is unknown. */
export const statementsCanceled: Fault = {
  name: 'statements-canceled',
  isShort: true,
  variants: [
    { name: 'at work', allows: ['busy'], strike: strikeWith('pg_cancel_backend', 0.5) },
    {
      name: 'between commit and answer',
      allows: ['busy', 'lost'],
      strike: strikeCommitted('pg_cancel_backend'),
    },
  ],
};
